//! `guerdon consume` as a process of its own.

use crate::broker::BrokerKind;
use crate::wait::until;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub struct ConsumerProcess {
    child: Child,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl ConsumerProcess {
    /// Starts it and waits until it says that it consumes.
    pub fn start(
        binary: &str,
        kind: BrokerKind,
        url: &str,
        topic: &str,
        database: &str,
        settings: &[(&str, &str)],
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the consumer");
        let log = folder.path().join("log");
        let child = Command::new(binary)
            .arg("consume")
            .current_dir(folder.path())
            .env("GUERDON_CONSUME__SOURCE", kind.name())
            .env("GUERDON_CONSUME__URL", url)
            .env("GUERDON_CONSUME__TOPIC", topic)
            .env("GUERDON_CONSUME__NAME", topic)
            .env("GUERDON_CONSUME__DATABASE", database)
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).expect("the consumer's log"))
            .spawn()
            .expect("the consumer");
        let consumer = Self { child, log, _folder: folder };
        until("the consumer to consume", Duration::from_secs(60), || {
            consumer.log_text().contains("consuming").then_some(())
        });
        consumer
    }

    pub fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// `kill -9`, and waits until the process is gone.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to stop; its exit code, and what it had logged.
    pub fn stop(mut self) -> (Option<i32>, String) {
        let done = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(done.expect("kill").success());
        let code = self.child.wait().expect("the consumer's end").code();
        (code, self.log_text())
    }
}

impl Drop for ConsumerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the consumer's log ---\n{}", self.log_text());
        }
    }
}
