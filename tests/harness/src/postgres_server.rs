//! A PostgreSQL of a test's own, which it may stop, kill and start again.

use crate::ports::free_port;
use crate::wait::until;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

pub struct PostgresServer {
    folder: TempDir,
    port: u16,
    process: Option<Child>,
}

impl PostgresServer {
    pub fn start() -> Self {
        let folder =
            tempfile::Builder::new().prefix("guerdon-pg").tempdir().expect("a folder for PostgreSQL");
        // The server refuses to run as root, so the folder must be open to the user it runs as.
        run(Command::new("chmod").arg("777").arg(folder.path()));
        let mut initdb = as_postgres(&bin("initdb"));
        initdb
            .args(["--auth=trust", "--username=postgres", "--no-sync", "-D"])
            .arg(folder.path().join("data"));
        run(&mut initdb);
        let port = free_port();
        let mut server = Self { folder, port, process: None };
        server.start_again();
        server
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    pub fn start_again(&mut self) {
        assert!(self.process.is_none(), "it is running");
        // It refuses to start beside what is left of the one before, and the last to go may not be gone yet.
        until("PostgreSQL to answer", Duration::from_mins(1), || {
            let running =
                self.process.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|end| end.is_none()));
            if !running {
                self.process = Some(self.spawn());
            }
            postgres::Client::connect(&self.url(), postgres::NoTls).ok()
        });
    }

    fn spawn(&self) -> Child {
        let mut postgres = as_postgres(&bin("postgres"));
        postgres
            .arg("-D")
            .arg(self.folder.path().join("data"))
            .args(["-p", &self.port.to_string(), "-c", "listen_addresses=127.0.0.1"])
            .args(["-c", "unix_socket_directories=", "-c", "max_connections=100"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        postgres.spawn().expect("start PostgreSQL")
    }

    /// Stops it at once, as an operator would who restarts it.
    pub fn stop(&mut self) {
        self.end("-INT");
    }

    /// `kill -9`. Waits until every process of it is gone: a new one would refuse to start beside them.
    pub fn kill(&mut self) {
        self.end("-KILL");
    }

    fn end(&mut self, signal: &str) {
        let Some(mut child) = self.process.take() else { return };
        if child.try_wait().is_ok_and(|end| end.is_some()) {
            return;
        }
        let pid_file = self.folder.path().join("data/postmaster.pid");
        let pid = std::fs::read_to_string(&pid_file).expect("the server's process id");
        let pid = pid.lines().next().expect("a process id").trim().to_owned();
        run(Command::new("kill").args([signal, &pid]));
        child.wait().expect("the server's end");
        until("the server's processes to be gone", Duration::from_secs(30), || {
            let alive =
                Command::new("pgrep").args(["-f", &self.folder.path().display().to_string()]).output();
            alive.expect("pgrep").stdout.is_empty().then_some(())
        });
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.stop();
        }
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Debian keeps the server's programs apart from the PATH, by version.
fn bin(program: &str) -> PathBuf {
    let mut found: Vec<_> = std::fs::read_dir("/usr/lib/postgresql")
        .expect("PostgreSQL is installed (./scripts/test does it)")
        .map(|entry| entry.expect("a folder").path().join("bin").join(program))
        .filter(|path| path.exists())
        .collect();
    found.sort();
    found.pop().unwrap_or_else(|| panic!("{program} is installed"))
}

fn as_postgres(program: &Path) -> Command {
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    if root {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
        // Not ours to read, and the server would complain.
        command.current_dir("/");
        command
    } else {
        Command::new(program)
    }
}
