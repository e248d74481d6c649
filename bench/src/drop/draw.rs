//! A lottery with many entries: the time of its draw and of its verification, and the waiting times at another event.

use super::SECRET;
use super::fill::fill;
use super::targets::{Running, new_database, peak_memory_mb, sqlite_in};
use crate::load::{self, Crowd, Plan};
use crate::report;
use clap::Args;
use guerdon_store::Stopwatch;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Those who apply to the other event have numbers from here on.
const CROWD_FIRST: u32 = 200_000_000;

#[derive(Debug, Args)]
pub(crate) struct DrawOptions {
    /// The server's binary
    #[arg(long, default_value = "target/release/guerdon")]
    guerdon: PathBuf,
    #[arg(long, value_name = "URL")]
    postgres: String,
    #[arg(long, default_value_t = 1_000_000)]
    entries: u32,
    #[arg(long, default_value_t = 10_000)]
    winners: u32,
    /// How many apply to the other event each second
    #[arg(long, default_value_t = 2_000.0)]
    rate: f64,
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    #[arg(long, default_value = "bench/results/draw.json")]
    save: PathBuf,
}

#[derive(Debug, Serialize)]
struct Drawn {
    engine: &'static str,
    entries: u32,
    /// From the cutoff to the root.
    tree_seconds: f64,
    /// From the root to the announcement.
    draw_seconds: f64,
    /// From the announcement until every entry's row, message and reward is written.
    settle_seconds: f64,
    document_seconds: f64,
    document_mb: u64,
    verify_seconds: f64,
    verify_memory_mb: u64,
    server_memory_mb: u64,
    /// At another event, without a draw and with it.
    usual_p99_ms: f64,
    during_p99_ms: f64,
}

pub(super) fn run(options: &DrawOptions) -> Result<(), Box<dyn std::error::Error>> {
    let guerdon = options.guerdon.canonicalize()?;
    let folder = tempfile::tempdir()?;
    let databases = [("SQLite", sqlite_in(&folder)), ("PostgreSQL", new_database(&options.postgres)?)];
    let mut figures = Vec::new();
    for (engine, database) in databases {
        figures.push(measure(options, &guerdon, engine, &database)?);
    }
    let heads = [
        "engine",
        "entries",
        "tree s",
        "draw s",
        "settle s",
        "document s",
        "MB",
        "verify s",
        "MB",
        "server MB",
    ];
    let heads = heads.into_iter().chain(["usual p99 ms", "during"]).map(String::from).collect();
    let mut rows = vec![heads];
    rows.extend(figures.iter().map(row));
    report::print_table(&rows);
    report::save(&options.save, &figures)
}

fn row(drawn: &Drawn) -> Vec<String> {
    vec![
        drawn.engine.into(),
        drawn.entries.to_string(),
        format!("{:.2}", drawn.tree_seconds),
        format!("{:.2}", drawn.draw_seconds),
        format!("{:.1}", drawn.settle_seconds),
        format!("{:.1}", drawn.document_seconds),
        drawn.document_mb.to_string(),
        format!("{:.2}", drawn.verify_seconds),
        drawn.verify_memory_mb.to_string(),
        drawn.server_memory_mb.to_string(),
        format!("{:.1}", drawn.usual_p99_ms),
        format!("{:.1}", drawn.during_p99_ms),
    ]
}

fn measure(
    options: &DrawOptions,
    guerdon: &Path,
    engine: &'static str,
    database: &str,
) -> Result<Drawn, Box<dyn std::error::Error>> {
    let running = Running::on(guerdon, database, "0s")?;
    running.open_drop(1_000_000_000)?;
    let cutoff = open_lottery(&running, options.winners)?;
    drop(running);
    fill(database, "lottery", 0..options.entries)?;
    let crowd = |number: u32| Crowd::new(CROWD_FIRST + number * 100_000, 100_000, SECRET);
    let time = Duration::from_secs(options.seconds);
    let plan = Plan { connections: 64, warm_up: Duration::from_secs(1), time, rate: Some(options.rate) };
    let running = Running::on(guerdon, database, "0s")?;
    let usual = load::run(&running.addresses, &crowd(0)?, plan)?.percentile(0.99);
    drop(running);

    // The clock is moved so that the cutoff passes once the server has found its feet.
    let running = Running::on(guerdon, database, &format!("{}s", cutoff - seconds_now()? - 4))?;
    let (times, during) = std::thread::scope(|scope| {
        let watched = scope.spawn(|| follow(&running, options.entries).map_err(|error| error.to_string()));
        let plan = Plan { warm_up: Duration::from_secs(3), ..plan };
        let during = crowd(1).and_then(|crowd| load::run(&running.addresses, &crowd, plan));
        (watched.join(), during.map(|outcome| outcome.percentile(0.99)).map_err(|error| error.to_string()))
    });
    let [tree_seconds, draw_seconds, settle_seconds] = times.map_err(|_| "the watcher panicked")??;
    let server_memory_mb = running.peak_memory_mb()?;

    let started = Stopwatch::start();
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("document.json");
    running.download("/v1/events/lottery/draw/document", &path)?;
    let document_seconds = started.elapsed().as_secs_f64();
    let document_mb = std::fs::metadata(&path)?.len() >> 20;
    let (verify_seconds, verify_memory_mb) = verify(guerdon, &path)?;
    Ok(Drawn {
        engine,
        entries: options.entries,
        tree_seconds,
        draw_seconds,
        settle_seconds,
        document_seconds,
        document_mb,
        verify_seconds,
        verify_memory_mb,
        server_memory_mb,
        usual_p99_ms: usual,
        during_p99_ms: during?,
    })
}

#[expect(clippy::disallowed_methods, reason = "the cutoff has to be soon")]
fn seconds_now() -> Result<u64, Box<dyn std::error::Error>> {
    Ok(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs())
}

/// When its cutoff is, in seconds.
fn open_lottery(running: &Running, winners: u32) -> Result<u64, Box<dyn std::error::Error>> {
    let cutoff = seconds_now()? + 3_600;
    let body = json!({"eventId": "lottery", "name": "Lottery", "type": "LOTTERY", "startsAt": 0,
        "endsAt": 4_102_444_800_000_i64, "capacityTotal": winners, "lotteryCutoffAt": cutoff * 1_000,
        "rewards": [{"rewardId": "gift", "kind": "ITEM"}]});
    running.call("POST", "/v1/admin/events", &body)?;
    running.call("POST", "/v1/admin/events/lottery/open", &json!({}))?;
    Ok(cutoff)
}

/// Seconds to the root, to the announcement, and until all is settled.
fn follow(running: &Running, entries: u32) -> Result<[f64; 3], Box<dyn std::error::Error>> {
    let come = |wanted: &str| -> Result<(), Box<dyn std::error::Error>> {
        while !has_come(running, wanted, entries)? {
            std::thread::park_timeout(Duration::from_millis(20));
        }
        Ok(())
    };
    come("sealed")?;
    let started = Stopwatch::start();
    let mut times = [0.0; 3];
    let mut before = 0.0;
    for (time, done) in times.iter_mut().zip(["ROOTED", "ANNOUNCED", "settled"]) {
        come(done)?;
        let now = started.elapsed().as_secs_f64();
        *time = now - before;
        before = now;
    }
    Ok(times)
}

fn has_come(running: &Running, wanted: &str, entries: u32) -> Result<bool, Box<dyn std::error::Error>> {
    let draw: Value = running.call("GET", "/v1/events/lottery/draw", &json!({}))?;
    Ok(match wanted {
        "sealed" => draw["status"] != "COLLECTING",
        "ROOTED" => draw["root"].is_string(),
        "settled" => draw["settled"] == entries,
        status => draw["status"] == status,
    })
}

/// How long the product's own verifier takes, and how much memory.
fn verify(guerdon: &Path, document: &Path) -> Result<(f64, u64), Box<dyn std::error::Error>> {
    let started = Stopwatch::start();
    let mut child = Command::new(guerdon).arg("verify-draw").arg(document).stdout(Stdio::null()).spawn()?;
    let mut memory = 0;
    loop {
        memory = peak_memory_mb(&child).unwrap_or(0).max(memory);
        match child.try_wait()? {
            Some(status) if status.success() => return Ok((started.elapsed().as_secs_f64(), memory)),
            Some(_) => return Err("the document does not verify".into()),
            None => std::thread::park_timeout(Duration::from_millis(5)),
        }
    }
}
