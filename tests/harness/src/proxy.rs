//! A TCP proxy that can break the network at the worst moment.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// What happens to the next COMMIT that passes of a transaction that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cut {
    Nothing = 0,
    /// The server gets the COMMIT and answers; the answer never arrives.
    AfterCommit = 1,
    /// The COMMIT never reaches the server.
    BeforeCommit = 2,
    /// The COMMIT waits in the proxy until [`Proxy::let_go`].
    Hold = 3,
}

#[derive(Clone)]
pub struct Proxy {
    pub address: SocketAddr,
    armed: Arc<AtomicU8>,
    cuts: Arc<AtomicUsize>,
    /// What a transaction has to have sent: servers also commit what nobody asked them for.
    wanted: Arc<Mutex<Vec<u8>>>,
    /// Whether what is held may go on.
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Proxy {
    pub fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port for the proxy");
        let address = listener.local_addr().expect("the proxy's address");
        let proxy = Self {
            address,
            armed: Arc::new(AtomicU8::new(0)),
            cuts: Arc::new(AtomicUsize::new(0)),
            wanted: Arc::default(),
            gate: Arc::default(),
        };
        let serve = proxy.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(upstream) else { continue };
                serve.clone().carry(client, server);
            }
        });
        proxy
    }

    /// The same database, through the proxy.
    pub fn url(&self, url: &str) -> String {
        let (scheme, rest) = url.split_once("://").expect("an address");
        let (user, rest) = rest.split_once('@').expect("a user");
        let (_, database) = rest.split_once('/').expect("a database");
        format!("{scheme}://{user}@{}/{database}", self.address)
    }

    /// Does this to the next transaction in which these words are sent.
    pub fn arm(&self, cut: Cut, words: &str) {
        *self.wanted.lock().expect("the words") = words.as_bytes().to_vec();
        self.armed.store(cut as u8, Ordering::SeqCst);
    }

    /// Lets a COMMIT that is held go on.
    pub fn let_go(&self) {
        *self.gate.0.lock().expect("the gate") = true;
        self.gate.1.notify_all();
    }

    fn hold(&self) {
        *self.gate.0.lock().expect("the gate") = false;
        self.cuts.fetch_add(1, Ordering::SeqCst);
        drop(self.gate.1.wait_while(self.gate.0.lock().expect("the gate"), |open| !*open).expect("the gate"));
    }

    pub fn cuts(&self) -> usize {
        self.cuts.load(Ordering::SeqCst)
    }

    fn is_wanted(&self, bytes: &[u8]) -> bool {
        let wanted = self.wanted.lock().expect("the words");
        !wanted.is_empty() && bytes.windows(wanted.len()).any(|window| window == *wanted)
    }

    fn disarm(&self, cut: Cut) -> bool {
        self.armed.compare_exchange(cut as u8, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn carry(self, client: TcpStream, server: TcpStream) {
        let muted = Arc::new(AtomicU8::new(0));
        let (up_client, up_server) = (client.try_clone().expect("clone"), server.try_clone().expect("clone"));
        let up_muted = Arc::clone(&muted);
        std::thread::spawn(move || {
            self.carry_up(up_client, up_server, &up_muted);
        });
        std::thread::spawn(move || carry_down(server, client, &muted));
    }

    fn carry_up(&self, mut client: TcpStream, mut server: TcpStream, muted: &AtomicU8) {
        let mut buffer = [0; 64 * 1024];
        let mut sent = false;
        while let Ok(count @ 1..) = client.read(&mut buffer) {
            sent |= self.is_wanted(&buffer[..count]);
            let commits = buffer[..count].windows(7).any(|window| window == b"COMMIT\0");
            let commit = commits && sent;
            sent &= !commits;
            if commit && self.disarm(Cut::BeforeCommit) {
                self.cuts.fetch_add(1, Ordering::SeqCst);
                break;
            }
            if commit && self.disarm(Cut::Hold) {
                self.hold();
            }
            if commit && self.disarm(Cut::AfterCommit) {
                muted.store(1, Ordering::SeqCst);
                self.cuts.fetch_add(1, Ordering::SeqCst);
            }
            if server.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = server.shutdown(Shutdown::Both);
        let _ = client.shutdown(Shutdown::Both);
    }
}

fn carry_down(mut server: TcpStream, mut client: TcpStream, muted: &AtomicU8) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(count @ 1..) = server.read(&mut buffer) {
        // The server has answered the COMMIT: now the line goes dead.
        if muted.load(Ordering::SeqCst) == 1 || client.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
}
