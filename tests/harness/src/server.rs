//! The built binary as a process of its own.

use crate::api::Api;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

pub const SECRET: &str = "a-secret-of-the-tests-that-is-long-enough";

#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    pub database: String,
    pub settings: Vec<(String, String)>,
    /// A program that the server is started under, such as strace.
    pub under: Vec<String>,
    /// What is run of the binary, with its flags; `serve` where nothing is said.
    pub command: Vec<String>,
}

impl ServerOptions {
    pub fn on(database: &str) -> Self {
        Self { database: database.into(), ..Self::default() }
    }

    /// Sets an environment variable: `GUERDON_` and the setting's name.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// A gateway to these servers.
    pub fn gateway(upstreams: &[&str]) -> Self {
        let mut command = vec!["gateway".to_owned()];
        command.extend(upstreams.iter().flat_map(|url| ["--upstream".to_owned(), (*url).to_owned()]));
        Self { database: "sqlite:none.db".into(), command, ..Self::default() }
    }

    pub fn under(mut self, program: &[&str]) -> Self {
        self.under = program.iter().map(|part| (*part).into()).collect();
        self
    }
}

pub struct Server {
    pub address: String,
    pub log: PathBuf,
    /// Its connections are kept: whoever calls as somebody else need not connect anew.
    api: Api,
    child: Child,
    traced: bool,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts the binary and waits for the line that says where it listens.
    pub fn start(binary: &str, options: &ServerOptions) -> Self {
        Self::try_start(binary, options).unwrap_or_else(|said| panic!("the server did not start: {said}"))
    }

    /// What the server said instead, when it did not start.
    pub fn try_start(binary: &str, options: &ServerOptions) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a folder for the server");
        let log = folder.path().join("log");
        let mut command = match options.under.split_first() {
            None => Command::new(binary),
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(binary);
                command
            }
        };
        let serve = ["serve".to_owned()];
        command
            .args(if options.command.is_empty() { &serve[..] } else { &options.command })
            .current_dir(folder.path())
            .env("GUERDON_LISTEN", "127.0.0.1:0")
            .env("GUERDON_DATABASE", &options.database)
            .env("GUERDON_AUTH__SECRET", SECRET)
            .env("GUERDON_LIMITS__PER_USER", "0")
            .envs(options.settings.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).expect("the server's log"));
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = child.stdout.take().expect("a pipe");
        let (line, first_line) = mpsc::channel();
        std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            let mut first = String::new();
            let _ = stdout.read_line(&mut first);
            let _ = line.send(first);
            let _ = stdout.read_to_string(&mut String::new());
        });
        let first = first_line.recv_timeout(Duration::from_secs(60)).unwrap_or_default();
        match first.trim().strip_prefix("listening on ") {
            Some(address) => Ok(Self {
                address: address.into(),
                log,
                api: Api::new(address),
                child,
                traced: !options.under.is_empty(),
                _folder: folder,
            }),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                Err(read(&log))
            }
        }
    }

    pub fn api(&self) -> Api {
        self.api.clone()
    }

    /// The server's own process, also where another program runs it.
    pub fn process_id(&self) -> u32 {
        if !self.traced {
            return self.child.id();
        }
        let children =
            Command::new("pgrep").args(["-P", &self.child.id().to_string()]).output().expect("pgrep");
        let text = String::from_utf8_lossy(&children.stdout).trim().to_owned();
        text.parse().unwrap_or_else(|_| panic!("the server has ended: {text:?}"))
    }

    pub fn log_text(&self) -> String {
        read(&self.log)
    }

    /// `kill -9`, and waits until the process is gone.
    pub fn kill(mut self) {
        self.signal("-KILL");
        self.child.wait().expect("the server's end");
    }

    /// Asks it to stop, as a service manager would; its exit code.
    pub fn stop(self) -> Option<i32> {
        self.signal("-TERM");
        self.wait()
    }

    /// Whether its process is gone.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits for its end; its exit code.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().expect("the server's end").code()
    }

    pub fn signal(&self, signal: &str) {
        let done = Command::new("kill").args([signal, &self.process_id().to_string()]).status();
        assert!(done.expect("kill").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            if self.traced {
                let _ = Command::new("pkill").args(["-KILL", "-P", &self.child.id().to_string()]).status();
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- the server's log ---\n{}", tail(&read(&self.log)));
        }
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Its last lines.
pub(crate) fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}
