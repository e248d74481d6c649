//! Consoles without a browser: each asks for what the page of an event asks for when it is opened, and then follows the
//! same stream. Ten browsers would measure how fast browsers are on the processors of the server.

use crate::drop::SECRET;
use crate::drop::targets::Running;
use guerdon_store::Stopwatch;
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// What the page asks for once.
const CALLS: [&str; 4] = [
    "/v1/session",
    "/v1/admin/events/drop",
    "/v1/admin/events/drop/requests?limit=10",
    "/v1/admin/allocations?eventId=drop&limit=10",
];
const STREAM: &str = "/v1/admin/events/drop/stream";
/// So that a quiet stream does not keep it from being closed.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct Watchers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<f64, String>>>,
}

/// The token of somebody, as the commands make it.
pub(super) fn token(user: &str, role: &str) -> Result<String, Box<dyn std::error::Error>> {
    let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
    let claims = json!({"sub": user, "roles": [role], "exp": 4_102_444_800_i64});
    Ok(jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key)?)
}

impl Watchers {
    pub(super) fn open(running: &Running, count: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::with_capacity(count);
        for number in 0..count {
            let (address, stop) = (running.addresses[0].clone(), Arc::clone(&stop));
            let token = token(&format!("operator-{number}"), "OPERATOR")?;
            threads.push(std::thread::spawn(move || {
                watch(&address, &token, &stop).map_err(|error| error.to_string())
            }));
        }
        Ok(Self { stop, threads })
    }

    /// How many frames a second each of them had.
    pub(super) fn close(self) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.threads.into_iter().map(|thread| thread.join().map_err(|_| "a console panicked")?);
        Ok(ended.collect::<Result<_, String>>()?)
    }
}

fn watch(address: &str, token: &str, stop: &AtomicBool) -> Result<f64, Box<dyn std::error::Error>> {
    for path in CALLS {
        let uri = format!("http://{address}{path}");
        ureq::get(uri)
            .header("authorization", format!("Bearer {token}"))
            .call()?
            .body_mut()
            .read_to_string()?;
    }
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LOOK_INTERVAL))?;
    write!(
        stream,
        "GET {STREAM} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\naccept: text/event-stream\r\n\r\n"
    )?;
    let mut lines = BufReader::new(stream);
    let started = Stopwatch::start();
    let (mut frames, mut line, mut status) = (0_u32, Vec::new(), None);
    while !stop.load(Ordering::Relaxed) {
        match lines.by_ref().take(64 * 1024).read_until(b'\n', &mut line) {
            Ok(0) => return Err("the server ended the stream".into()),
            Ok(_) if line.ends_with(b"\n") => {
                let text = String::from_utf8_lossy(&line);
                if status.get_or_insert_with(|| text.contains(" 200 ")) != &true {
                    return Err(format!("the stream was refused: {text}").into());
                }
                frames += u32::from(text.starts_with("event: summary"));
                line.clear();
            }
            // Half a line, or nothing for a while: what came stays where it is.
            Ok(_) => {}
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(f64::from(frames) / started.elapsed().as_secs_f64())
}
