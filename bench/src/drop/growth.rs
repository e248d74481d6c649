//! The drop on the embedded store as its table grows: full tables must not be slow tables.

use super::fill::fill;
use super::targets::{Running, Target, sqlite_in};
use super::{SECRET, figure};
use crate::load::{self, Crowd, Plan};
use crate::report;
use clap::Args;
use guerdon_store::Stopwatch;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Those who are measured have numbers from here on.
const CROWD_FIRST: u32 = 100_000_000;
const CROWD: u32 = 700_000;

#[derive(Debug, Args)]
pub(crate) struct GrowthOptions {
    /// The server's binary
    #[arg(long, default_value = "target/release/guerdon")]
    guerdon: PathBuf,
    /// For the handler that does nothing
    #[arg(long, value_name = "URL")]
    postgres: String,
    /// How many requests the table holds
    #[arg(long, default_values_t = [0, 1_000_000, 10_000_000])]
    stored: Vec<u32>,
    #[arg(long, default_value_t = 64)]
    connections: usize,
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    #[arg(long, default_value = "bench/results/growth.json")]
    save: PathBuf,
}

#[derive(Debug, Serialize)]
struct Growth {
    stored: i64,
    requests_per_second: f64,
    /// Against the handler that does nothing, in the same round.
    ratio: f64,
    /// Of the ratio with the smallest table.
    of_empty: f64,
    p99_ms: f64,
    p999_ms: f64,
    /// No transaction took longer, as far as the buckets of the metric tell.
    longest_commit_ms: f64,
    peak_memory_mb: u64,
    database_mb: u64,
}

pub(super) fn run(options: &GrowthOptions) -> Result<(), Box<dyn std::error::Error>> {
    let guerdon = options.guerdon.canonicalize()?;
    let folder = Arc::new(tempfile::tempdir()?);
    Running::on_sqlite(&guerdon, &folder)?.open_drop(1_000_000_000)?;
    let mut figures: Vec<Growth> = Vec::new();
    let mut crowd_first = CROWD_FIRST;
    let mut filled = 0;
    for stored in &options.stored {
        if *stored > filled {
            fill(&sqlite_in(&folder), "drop", filled..*stored)?;
            filled = *stored;
        }
        let mut rounds = Vec::new();
        for _ in 0..options.rounds {
            let crowd = Crowd::new(crowd_first, CROWD, SECRET)?;
            crowd_first += CROWD;
            rounds.push(measure(options, &guerdon, &folder, &crowd)?);
        }
        rounds.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        let worst = rounds.iter().map(|round| round.longest_commit_ms).fold(0.0, f64::max);
        let mut middle = rounds.swap_remove(rounds.len() / 2);
        middle.longest_commit_ms = worst;
        middle.of_empty = middle.ratio / figures.first().map_or(middle.ratio, |first| first.ratio);
        figures.push(middle);
    }
    let heads = [
        "stored",
        "req/s",
        "ratio",
        "of empty",
        "p99 ms",
        "p99.9 ms",
        "longest commit ms",
        "memory MB",
        "file MB",
    ];
    let mut rows = vec![heads.map(String::from).to_vec()];
    rows.extend(figures.iter().map(row));
    report::print_table(&rows);
    report::save(&options.save, &figures)
}

fn row(growth: &Growth) -> Vec<String> {
    vec![
        growth.stored.to_string(),
        format!("{:.0}", growth.requests_per_second),
        format!("{:.2}", growth.ratio),
        format!("{:.2}", growth.of_empty),
        format!("{:.2}", growth.p99_ms),
        format!("{:.2}", growth.p999_ms),
        format!("<= {:.0}", growth.longest_commit_ms),
        growth.peak_memory_mb.to_string(),
        growth.database_mb.to_string(),
    ]
}

fn measure(
    options: &GrowthOptions,
    guerdon: &Path,
    folder: &Arc<tempfile::TempDir>,
    crowd: &Crowd,
) -> Result<Growth, Box<dyn std::error::Error>> {
    let plan = Plan {
        connections: options.connections,
        warm_up: Duration::from_secs(1),
        time: Duration::from_secs(options.seconds),
        rate: None,
    };
    let nothing = {
        let running = Target::Nothing.start(guerdon, &options.postgres, None, 0)?;
        load::run(&running.addresses, crowd, plan)?.rate()
    };
    let running = Running::on_sqlite(guerdon, folder)?;
    let started = Stopwatch::start();
    while !running.metrics()?.lines().any(|line| line == "guerdon_user_index_filter 1") {
        std::thread::park_timeout(Duration::from_millis(50));
    }
    println!("  the user index was read in {:.1} s after the start", started.elapsed().as_secs_f64());
    let before = running.stored()?;
    let outcome = load::run(&running.addresses, crowd, plan)?;
    let stored = running.stored()?;
    if stored - before != i64::try_from(outcome.accepted)? {
        return Err(format!("{} accepted, {} stored", outcome.accepted, stored - before).into());
    }
    let figure = figure("", options.connections, 0, &outcome, plan);
    let growth = Growth {
        stored: before,
        requests_per_second: figure.requests_per_second,
        ratio: outcome.rate() / nothing,
        of_empty: 1.0,
        p99_ms: figure.p99_ms,
        p999_ms: figure.p999_ms,
        longest_commit_ms: longest_commit_ms(&running.metrics()?),
        peak_memory_mb: running.peak_memory_mb()?,
        database_mb: std::fs::metadata(folder.path().join("guerdon.db"))?.len() >> 20,
    };
    println!("{}", row(&growth).join("  "));
    Ok(growth)
}

/// The bound of the highest bucket that holds anything, over all kinds of command.
fn longest_commit_ms(metrics: &str) -> f64 {
    let mut longest = 0.0;
    let mut below = 0.0;
    for line in metrics.lines() {
        let Some(rest) = line.strip_prefix("guerdon_store_group_seconds_bucket{le=\"") else { continue };
        let Some((bound, rest)) = rest.split_once('"') else { continue };
        // This one is over before anybody is served.
        if rest.contains("load_user_index") {
            continue;
        }
        let Some(count) = rest.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok()) else {
            continue;
        };
        // The buckets of one command follow each other from the lowest, each with the count of all below it.
        if count < below {
            below = 0.0;
        }
        if count > below {
            longest = bound.parse::<f64>().unwrap_or(f64::INFINITY).max(longest);
        }
        below = count;
    }
    longest * 1_000.0
}
