//! The crowd: each connection sends the next person's application as soon as the last one was answered.

use guerdon_store::Stopwatch;
use jsonwebtoken::{EncodingKey, Header};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Of a hundred tries, how many are somebody's second one.
const DUPLICATES_PER_CENT: usize = 5;

/// People in random order, each with a token.
pub(crate) struct Crowd(Arc<Vec<Box<str>>>);

impl Crowd {
    pub(crate) fn new(people: u32, secret: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let key = EncodingKey::from_secret(secret.as_bytes());
        let mut tokens = Vec::new();
        for number in 0..people {
            // An odd multiplier walks through all numbers in an order that looks random to an index.
            let name = format!("u-{:08x}", number.wrapping_mul(2_654_435_761));
            let claims = json!({"sub": name, "roles": ["USER"], "exp": 4_102_444_800_i64});
            tokens.push(jsonwebtoken::encode(&Header::default(), &claims, &key)?.into_boxed_str());
        }
        Ok(Self(Arc::new(tokens)))
    }
}

/// What a run measured.
pub(crate) struct Outcome {
    seconds: f64,
    /// Answered 200 or 202.
    pub(crate) applications: u64,
    /// Of these, made anew.
    pub(crate) accepted: u64,
    micros: Vec<u32>,
    cpu_seconds: f64,
}

impl Outcome {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(crate) fn rate(&self) -> f64 {
        self.applications as f64 / self.seconds
    }

    /// In milliseconds.
    pub(crate) fn percentile(&self, share: f64) -> f64 {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index"
        )]
        let index = ((self.micros.len() as f64 * share) as usize).min(self.micros.len().saturating_sub(1));
        f64::from(self.micros.get(index).copied().unwrap_or(0)) / 1_000.0
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(crate) fn cpu_us_per_request(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.applications.max(1) as f64
    }
}

pub(crate) fn run(
    addresses: &[String],
    crowd: &Crowd,
    connections: usize,
    time: Duration,
) -> Result<Outcome, Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let next = Arc::new(AtomicUsize::new(0));
    let cpu_before = machine_cpu_seconds();
    let started = Stopwatch::start();
    let results: Vec<Result<Vec<(u16, u32)>, String>> = runtime.block_on(async {
        let mut tasks = Vec::new();
        for number in 0..connections {
            let (address, tokens, next) =
                (addresses[number % addresses.len()].clone(), Arc::clone(&crowd.0), Arc::clone(&next));
            tasks.push(tokio::spawn(async move { apply(&address, &tokens, &next, started, time).await }));
        }
        let mut results = Vec::new();
        for task in tasks {
            results.push(task.await.unwrap_or_else(|error| Err(error.to_string())));
        }
        results
    });
    let seconds = started.elapsed().as_secs_f64();
    let cpu_seconds = machine_cpu_seconds() - cpu_before;
    let mut outcome = Outcome { seconds, applications: 0, accepted: 0, micros: Vec::new(), cpu_seconds };
    for result in results {
        for (status, micros) in result? {
            outcome.applications += 1;
            outcome.accepted += u64::from(status == 202);
            outcome.micros.push(micros);
        }
    }
    outcome.micros.sort_unstable();
    Ok(outcome)
}

async fn apply(
    address: &str,
    tokens: &[Box<str>],
    next: &AtomicUsize,
    started: Stopwatch,
    time: Duration,
) -> Result<Vec<(u16, u32)>, String> {
    let mut stream = TcpStream::connect(address).await.map_err(|error| format!("{address}: {error}"))?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let mut answers = Vec::with_capacity(100_000);
    let mut buffer = vec![0; 16 * 1024];
    while started.elapsed() < time {
        let number = next.fetch_add(1, Ordering::Relaxed);
        // Every now and then somebody tries again.
        let person = if number % 100 < DUPLICATES_PER_CENT { number.saturating_sub(500) } else { number };
        let token = tokens.get(person).ok_or("the crowd is too small for this machine")?;
        let request = format!(
            "POST /v1/events/drop/requests HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-length: 0\r\n\r\n"
        );
        let sent = Stopwatch::start();
        stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
        let status = read_answer(&mut stream, &mut buffer).await?;
        if status != 200 && status != 202 {
            return Err(format!("the server answered {status}"));
        }
        answers.push((status, u32::try_from(sent.elapsed().as_micros()).unwrap_or(u32::MAX)));
    }
    Ok(answers)
}

/// Reads one answer; its status.
async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<u16, String> {
    let mut filled = 0;
    loop {
        let count = stream.read(&mut buffer[filled..]).await.map_err(|error| error.to_string())?;
        if count == 0 {
            return Err("the server hung up".into());
        }
        filled += count;
        let Some(end) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let head = std::str::from_utf8(&buffer[..end]).map_err(|error| error.to_string())?;
        let status =
            head.get(9..12).and_then(|text| text.parse().ok()).ok_or("an answer without a status")?;
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .and_then(|text| text.trim().parse::<usize>().ok());
        let whole = end + 4 + length.unwrap_or(0);
        while filled < whole {
            let count = stream.read(&mut buffer[filled..]).await.map_err(|error| error.to_string())?;
            if count == 0 {
                return Err("the server hung up".into());
            }
            filled += count;
        }
        return Ok(status);
    }
}

/// Processor time of the whole machine so far.
fn machine_cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<f64> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    // user, nice, system, idle, iowait, irq, softirq
    let busy: f64 = fields
        .iter()
        .enumerate()
        .filter(|(index, _)| ![3, 4].contains(index) && *index < 7)
        .map(|(_, ticks)| ticks)
        .sum();
    busy / TICKS_PER_SECOND
}
