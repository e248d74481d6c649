//! The product's own simulator of a provider, as a process of its own.

use crate::api::Api;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

pub struct Partners {
    pub url: String,
    child: Child,
}

impl Partners {
    pub fn start(binary: &str, arguments: &[&str]) -> Self {
        Self::start_at(binary, "127.0.0.1:0", arguments)
    }

    pub fn start_at(binary: &str, address: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(binary)
            .args(["dev", "partners", "--listen", address])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the simulator");
        let mut first = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut first).expect("the simulator's first line");
        let url = first.trim().strip_prefix("listening on ").expect("where it listens").to_owned();
        Self { url, child }
    }

    /// Has it fail in this way from now on.
    pub fn faults(&self, faults: &Value) {
        Api::new(&self.url).send("PUT", "/faults", &[], Some(&faults.to_string())).expect(200);
    }

    /// What it has applied.
    pub fn applied(&self) -> Vec<Value> {
        let listed = Api::new(&self.url).get("/applied").expect(200).json();
        listed["items"].as_array().expect("a list").clone()
    }

    /// How often it was called.
    pub fn calls(&self) -> u64 {
        Api::new(&self.url).get("/applied").expect(200).json()["calls"].as_u64().expect("a number")
    }
}

impl Drop for Partners {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
