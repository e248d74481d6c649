//! The crowd. In a closed loop each connection sends the next person's application as soon as the last one was answered;
//! in an open loop people come when they come, and their time counts from when they should have been served.

use guerdon_store::Stopwatch;
use jsonwebtoken::{EncodingKey, Header};
use serde_json::json;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Of a hundred tries, how many are somebody's second one.
const DUPLICATES_PER_CENT: usize = 5;

/// The name of one of many; by number they come in an order that looks random to an index.
pub(crate) fn name(number: u32) -> String {
    // An odd multiplier walks through all numbers.
    format!("u-{:08x}", number.wrapping_mul(2_654_435_761))
}

/// What is sent.
pub(crate) trait Requests: Send + Sync {
    /// The request of this number on this connection, which was answered this before; none when all are used up.
    fn request(&self, number: usize, connection: usize, address: &str, before: &str) -> Option<String>;
}

/// People in random order, each with a token.
#[derive(Clone)]
pub(crate) struct Crowd(Arc<Vec<Box<str>>>);

impl Requests for Crowd {
    fn request(&self, number: usize, _: usize, address: &str, _: &str) -> Option<String> {
        // Every now and then somebody tries again.
        let person = if number % 100 < DUPLICATES_PER_CENT { number.saturating_sub(500) } else { number };
        let token = self.0.get(person)?;
        Some(format!(
            "POST /v1/events/drop/requests HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-length: 0\r\n\r\n"
        ))
    }
}

impl Crowd {
    pub(crate) fn new(first: u32, people: u32, secret: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let key = EncodingKey::from_secret(secret.as_bytes());
        let mut tokens = Vec::new();
        for number in first..first + people {
            let claims = json!({"sub": name(number), "roles": ["USER"], "exp": 4_102_444_800_i64});
            tokens.push(jsonwebtoken::encode(&Header::default(), &claims, &key)?.into_boxed_str());
        }
        Ok(Self(Arc::new(tokens)))
    }
}

/// How a crowd comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) connections: usize,
    /// Not measured.
    pub(crate) warm_up: Duration,
    pub(crate) time: Duration,
    /// How many come each second; without it, as many as are served.
    pub(crate) rate: Option<f64>,
}

/// What a run measured.
pub(crate) struct Outcome {
    seconds: f64,
    /// Answered 200 or 202 in the time that counts.
    applications: u64,
    /// Made anew, from the first moment on.
    pub(crate) accepted: u64,
    /// Answered that it is done, from the first moment on.
    pub(crate) done: u64,
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

struct Answer {
    status: u16,
    micros: u32,
    counts: bool,
}

pub(crate) fn run(
    addresses: &[String],
    requests: &(impl Requests + Clone + 'static),
    plan: Plan,
) -> Result<Outcome, Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let requests: Arc<dyn Requests> = Arc::new(requests.clone());
    let next = Arc::new(AtomicUsize::new(0));
    let people = Arc::new(Semaphore::new(0));
    let started = Stopwatch::start();
    let (results, cpu_seconds) = runtime.block_on(async {
        let mut tasks = Vec::new();
        for number in 0..plan.connections {
            let connection = Connection {
                address: addresses[number % addresses.len()].clone(),
                number,
                requests: Arc::clone(&requests),
                next: Arc::clone(&next),
                started,
                plan,
                people: Arc::clone(&people),
            };
            tasks.push(tokio::spawn(connection.apply()));
        }
        if let Some(rate) = plan.rate {
            tokio::spawn(let_come(Arc::clone(&people), rate, started));
        }
        tokio::time::sleep(plan.warm_up.saturating_sub(started.elapsed())).await;
        let cpu_before = machine_cpu_seconds();
        tokio::time::sleep((plan.warm_up + plan.time).saturating_sub(started.elapsed())).await;
        let cpu_seconds = machine_cpu_seconds() - cpu_before;
        let mut results = Vec::new();
        for task in tasks {
            results.push(task.await.unwrap_or_else(|error| Err(error.to_string())));
        }
        (results, cpu_seconds)
    });
    let seconds = plan.time.as_secs_f64();
    let mut outcome =
        Outcome { seconds, applications: 0, accepted: 0, done: 0, micros: Vec::new(), cpu_seconds };
    for result in results {
        for answer in result? {
            outcome.accepted += u64::from(matches!(answer.status, 201 | 202));
            outcome.done += u64::from(answer.status == 200);
            if answer.counts {
                outcome.applications += 1;
                outcome.micros.push(answer.micros);
            }
        }
    }
    outcome.micros.sort_unstable();
    Ok(outcome)
}

/// Lets people come at their rate, whether or not those before them were served.
async fn let_come(people: Arc<Semaphore>, rate: f64, started: Stopwatch) {
    let mut let_in = 0;
    loop {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "far fewer people than 2^32"
        )]
        let due = (started.elapsed().as_secs_f64() * rate) as usize;
        people.add_permits(due - let_in);
        let_in = due;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

struct Connection {
    address: String,
    number: usize,
    requests: Arc<dyn Requests>,
    next: Arc<AtomicUsize>,
    started: Stopwatch,
    plan: Plan,
    /// Those who have come and whom nobody serves yet.
    people: Arc<Semaphore>,
}

impl Connection {
    async fn apply(self) -> Result<Vec<Answer>, String> {
        let address = &self.address;
        let mut stream = TcpStream::connect(address).await.map_err(|error| format!("{address}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let mut answers = Vec::with_capacity(100_000);
        let (mut buffer, mut body) = (vec![0; 16 * 1024], 0..0);
        let end = self.plan.warm_up + self.plan.time;
        loop {
            if self.plan.rate.is_some() {
                self.people.acquire().await.map_err(|error| error.to_string())?.forget();
            }
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let due = self.due(number).unwrap_or_else(|| self.started.elapsed());
            if due >= end {
                break;
            }
            let before = std::str::from_utf8(&buffer[body.clone()]).map_err(|error| error.to_string())?;
            let request = self.requests.request(number, self.number, address, before);
            let request = request.ok_or("the crowd is too small for this machine")?;
            stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
            let (status, said) = read_answer(&mut stream, &mut buffer).await?;
            body = said;
            if !(200..300).contains(&status) {
                let said = String::from_utf8_lossy(&buffer[body]);
                return Err(format!("the server answered {status}: {said}"));
            }
            let answered = self.started.elapsed();
            let micros = u32::try_from(answered.saturating_sub(due).as_micros()).unwrap_or(u32::MAX);
            // In a closed loop what is answered in time counts, in an open one what was due in time.
            let moment = if self.plan.rate.is_some() { due } else { answered };
            answers.push(Answer { status, micros, counts: moment >= self.plan.warm_up && moment < end });
        }
        Ok(answers)
    }

    /// When a person comes, in an open loop.
    #[expect(clippy::cast_precision_loss, reason = "far fewer people than 2^52")]
    fn due(&self, number: usize) -> Option<Duration> {
        self.plan.rate.map(|rate| Duration::from_secs_f64(number as f64 / rate))
    }
}

/// Sends all of these over a few connections; each must be answered well.
pub(crate) fn send_all(
    address: &str,
    requests: &[String],
    connections: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let chunks = requests.chunks(requests.len().div_ceil(connections).max(1));
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for chunk in chunks {
            let (address, chunk) = (address.to_owned(), chunk.to_vec());
            tasks.push(tokio::spawn(async move {
                let mut stream = TcpStream::connect(&address).await.map_err(|error| error.to_string())?;
                let mut buffer = vec![0; 16 * 1024];
                for request in chunk {
                    stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
                    let (status, body) = read_answer(&mut stream, &mut buffer).await?;
                    if !(200..300).contains(&status) {
                        return Err(format!("{status}: {}", String::from_utf8_lossy(&buffer[body])));
                    }
                }
                Ok::<_, String>(())
            }));
        }
        for task in tasks {
            task.await??;
        }
        Ok(())
    })
}

/// Reads one answer; its status, and where in the buffer its body is.
async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<(u16, Range<usize>), String> {
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
        let status: u16 =
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
        return Ok((status, end + 4..whole));
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
