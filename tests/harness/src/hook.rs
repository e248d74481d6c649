//! A web server that is told of events, and answers as the test says.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A call that was made.
#[derive(Clone, Debug)]
pub struct Call {
    /// Names in lower case.
    pub headers: HashMap<String, String>,
    pub body: String,
    pub at: Instant,
    /// What it was answered.
    pub status: u16,
}

impl Call {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// What to answer: a status, and headers with it.
pub type Answering = Box<dyn Fn(&Call) -> (u16, Vec<(String, String)>) + Send + Sync>;

#[derive(Clone)]
pub struct Hook {
    pub address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
    answer: Arc<Mutex<Arc<Answering>>>,
    waiting: Arc<AtomicUsize>,
}

impl Hook {
    /// Takes everything, until it is told otherwise.
    pub fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().expect("an address"))
    }

    pub fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).expect("a port for the hook");
        let hook = Self {
            address: listener.local_addr().expect("the hook's address"),
            calls: Arc::default(),
            answer: Arc::new(Mutex::new(Arc::new(Box::new(|_| (204, Vec::new()))))),
            waiting: Arc::default(),
        };
        let serve = hook.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let serve = serve.clone();
                std::thread::spawn(move || serve.converse(client));
            }
        });
        hook
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub fn answer(&self, answer: impl Fn(&Call) -> (u16, Vec<(String, String)>) + Send + Sync + 'static) {
        *self.answer.lock().expect("the answer") = Arc::new(Box::new(answer));
    }

    /// Answers everything with this status.
    pub fn answer_all(&self, status: u16) {
        self.answer(move |_| (status, Vec::new()));
    }

    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().expect("the calls").clone()
    }

    /// How often it was called so far; what was said is not copied for it.
    pub fn count(&self) -> usize {
        self.calls.lock().expect("the calls").len()
    }

    /// How many wait for an answer.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// The events that were taken, in their order.
    pub fn taken(&self) -> Vec<serde_json::Value> {
        self.calls().iter().filter(|call| call.status < 300).map(Call::json).collect()
    }

    fn converse(&self, client: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(client.try_clone().ok()?);
        let mut writer = client;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let mut headers = HashMap::new();
            loop {
                let mut header = String::new();
                reader.read_line(&mut header).ok()?;
                let Some((name, value)) = header.trim_end().split_once(':') else { break };
                headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
            let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            let body = String::from_utf8_lossy(&body).into_owned();
            let mut call = Call { headers, body, at: Instant::now(), status: 0 };
            let answer = self.answer.lock().ok()?.clone();
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let (status, extra) = answer(&call);
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            call.status = status;
            self.calls.lock().ok()?.push(call);
            let extra: String = extra.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let head = format!("HTTP/1.1 {status} Answer\r\ncontent-length: 0\r\n{extra}\r\n");
            writer.write_all(head.as_bytes()).ok()?;
        }
    }
}
