//! Redis of a test's own, alone or as a cluster, to be killed, emptied and replaced.

use crate::ports::free_port;
use crate::wait::until;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// What it keeps when it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Every change, before it answers.
    Everything,
    /// What was saved by hand.
    Snapshots,
}

pub struct OwnRedis {
    pub port: u16,
    folder: tempfile::TempDir,
    arguments: Vec<String>,
    child: Option<Child>,
}

impl OwnRedis {
    pub fn start(keeps: Keeps) -> Self {
        let arguments: &[&str] = match keeps {
            Keeps::Everything => &["--appendonly", "yes", "--appendfsync", "always", "--save", ""],
            Keeps::Snapshots => &["--appendonly", "no", "--save", ""],
        };
        Self::start_with(arguments)
    }

    pub fn start_with(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for Redis");
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let mut redis = Self { port: free_port(), folder, arguments, child: None };
        redis.restart();
        redis
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Starts it again with what it has kept, and waits until it answers.
    pub fn restart(&mut self) {
        let child = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--dir", &self.folder.path().to_string_lossy()])
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server");
        self.child = Some(child);
        until("Redis to answer", PATIENCE, || (self.command(&["PING"]) == "PONG").then_some(()));
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Forgets all that was kept.
    pub fn wipe(&self) {
        for entry in std::fs::read_dir(self.folder.path()).expect("the folder").flatten() {
            let path = entry.path();
            let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        }
    }

    /// Saves a snapshot now; where it is.
    pub fn save(&self) -> PathBuf {
        assert_eq!(self.command(&["SAVE"]), "OK");
        let saved = self.folder.path().join("saved.rdb");
        std::fs::copy(self.folder.path().join("dump.rdb"), &saved).expect("a copy of the snapshot");
        saved
    }

    /// Puts a snapshot in place, for the next start.
    pub fn put_back(&self, saved: &PathBuf) {
        std::fs::copy(saved, self.folder.path().join("dump.rdb")).expect("the snapshot");
    }

    /// What `redis-cli` says to a command; nothing where Redis is not there.
    pub fn command(&self, words: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-p", &self.port.to_string()])
            .args(words)
            .stdin(Stdio::null())
            .output()
            .expect("redis-cli");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

impl Drop for OwnRedis {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Three nodes that share the keys among them.
pub struct OwnRedisCluster {
    pub nodes: Vec<OwnRedis>,
}

impl OwnRedisCluster {
    pub fn start() -> Self {
        let nodes: Vec<_> = (0..3)
            .map(|_| {
                let bus = free_port().to_string();
                let arguments =
                    ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", "5000"];
                let keeps = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""];
                OwnRedis::start_with(&[arguments.as_slice(), keeps.as_slice()].concat())
            })
            .collect();
        let addresses: Vec<_> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        let made = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(&addresses)
            .args(["--cluster-replicas", "0", "--cluster-yes"])
            .output()
            .expect("redis-cli");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        let cluster = Self { nodes };
        cluster.until_well();
        cluster
    }

    /// Waits until every node says that all keys can be served.
    pub fn until_well(&self) {
        for node in &self.nodes {
            until("the cluster to be well", PATIENCE, || {
                node.command(&["CLUSTER", "INFO"]).contains("cluster_state:ok").then_some(())
            });
        }
    }

    pub fn url(&self) -> String {
        self.nodes.iter().map(OwnRedis::url).collect::<Vec<_>>().join(",")
    }

    /// What one node says that has the key.
    pub fn command(&self, words: &[&str]) -> String {
        let words = [&["-c"], words].concat();
        self.nodes[0].command(&words)
    }
}

/// An address behind which one server can take another's place.
#[derive(Clone)]
pub struct Switch {
    pub address: SocketAddr,
    upstream: Arc<Mutex<SocketAddr>>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Switch {
    pub fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port for the switch");
        let switch = Self {
            address: listener.local_addr().expect("the switch's address"),
            upstream: Arc::new(Mutex::new(upstream)),
            open: Arc::default(),
        };
        let serve = switch.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let upstream = *serve.upstream.lock().expect("the upstream");
                let Ok(server) = TcpStream::connect(upstream) else { continue };
                let mut open = serve.open.lock().expect("the connections");
                for end in [&client, &server] {
                    open.extend(end.try_clone());
                }
                drop(open);
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().expect("clone"), to.try_clone().expect("clone"));
                    std::thread::spawn(move || carry(from, to));
                }
            }
        });
        switch
    }

    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// Leads to another from now on; what was open is cut.
    pub fn lead_to(&self, upstream: SocketAddr) {
        *self.upstream.lock().expect("the upstream") = upstream;
        for end in self.open.lock().expect("the connections").drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
