//! Claims: from the call to the end with what is built in, and where the time goes.

use crate::delivery::{At, open};
use crate::drop::SECRET;
use crate::drop::targets::{Running, new_database_named, sqlite_in};
use crate::load::{self, Crowd, Outcome, Plan};
use crate::report;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long, default_value = "target/release/guerdon")]
    guerdon: PathBuf,
    /// A PostgreSQL at which databases can be created
    #[arg(long, value_name = "URL")]
    postgres: String,
    #[arg(long, default_value_t = 256)]
    connections: usize,
    /// How long each measurement lasts
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    #[arg(long, default_value = "bench/results/claims.json")]
    save: PathBuf,
}

#[derive(Clone, Debug, Serialize)]
struct Figure {
    engine: &'static str,
    claims: &'static str,
    /// Applications to a drop, in the same run.
    drop_per_second: f64,
    /// Claims that ended granted, each answered once it had.
    claims_per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Milliseconds that a claim spent in each step and part of it.
    steps_ms: BTreeMap<String, f64>,
    /// Claims that were written in one transaction.
    per_step: f64,
}

const DROP: &str = "/v1/events/drop/requests";

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let crowd = Crowd::new(0, 500_000, SECRET)?;
    let guerdon = options.guerdon.canonicalize()?;
    let points = json!({"rewardId": "points", "kind": "POINT", "amount": 10, "currency": "POINT"});
    let limited = json!({"rewardId": "gem", "kind": "POINT", "amount": 1, "currency": "GEM", "totalStock": 100_000_000});
    let met = json!({"conditions": "size(activity) == 0 || activity.LOGIN_COUNT >= 7"});
    let kinds = [
        ("points", json!([points]), json!({})),
        ("points, with a condition", json!([points]), met.clone()),
        ("points and a limited reward, with a condition", json!([points, limited]), met),
    ];
    let mut figures = Vec::new();
    for engine in ["SQLite", "PostgreSQL"] {
        let bench = Bench { options, guerdon: &guerdon, crowd: &crowd, engine };
        let drop_per_second = bench.load(&bench.start(None)?.0, DROP)?.rate().round();
        for (claims, rewards, more) in &kinds {
            let (running, _folder) = bench.start(Some((rewards, more)))?;
            let outcome = bench.load(&running, "/v1/event-claims/gift/claim")?;
            let (steps_ms, per_step) = steps(&running.metrics()?)?;
            let figure = Figure {
                engine,
                claims,
                drop_per_second,
                claims_per_second: outcome.rate().round(),
                p50_ms: outcome.percentile(0.5),
                p99_ms: outcome.percentile(0.99),
                steps_ms,
                per_step,
            };
            println!("{figure:#?}");
            figures.push(figure);
        }
    }
    let heads = ["engine", "claims", "claims/s", "of the drop", "p50 ms", "p99 ms", "per transaction"];
    let rows = figures.iter().map(row);
    let heads = heads.map(String::from).to_vec();
    report::print_table(&std::iter::once(heads).chain(rows).collect::<Vec<_>>());
    report::save(&options.save, &figures)
}

fn row(figure: &Figure) -> Vec<String> {
    vec![
        figure.engine.into(),
        figure.claims.into(),
        format!("{:.0}", figure.claims_per_second),
        format!("{:.2}", figure.claims_per_second / figure.drop_per_second),
        format!("{:.1}", figure.p50_ms),
        format!("{:.1}", figure.p99_ms),
        format!("{:.1}", figure.per_step),
    ]
}

/// Where the time of a claim went, and how many went together.
fn steps(metrics: &str) -> Result<(BTreeMap<String, f64>, f64), Box<dyn std::error::Error>> {
    let ended = "guerdon_claims_ended_total{status=\"SUCCESS_ALL_GRANTED\"} ";
    let claims: f64 = metrics.lines().find_map(|line| line.strip_prefix(ended)).unwrap_or("1").parse()?;
    let mut sums = BTreeMap::new();
    let mut waited = 0.0;
    let mut transactions = 0.0;
    for line in metrics.lines() {
        let Some((name, value)) = line.rsplit_once(' ') else { continue };
        if let Some(labels) = name.strip_prefix("guerdon_claim_step_seconds_sum") {
            let seconds: f64 = value.parse()?;
            // Everybody in a transaction waits for all of it, but it is noted once.
            sums.insert(labels.to_owned(), seconds * 1_000.0 / claims);
        }
        if name.starts_with("guerdon_claim_step_seconds_count") && name.contains("part=\"waits\"") {
            waited += value.parse::<f64>()?;
        }
        if name == "guerdon_store_commands_total{command=\"claim_step\"}" {
            transactions = value.parse()?;
        }
    }
    Ok((sums, waited / f64::max(transactions, 1.0)))
}

struct Bench<'a> {
    options: &'a Options,
    guerdon: &'a Path,
    crowd: &'a Crowd,
    engine: &'static str,
}

impl Bench<'_> {
    /// A server on a new database, with a drop and something to claim.
    fn start(
        &self,
        gift: Option<(&Value, &Value)>,
    ) -> Result<(Running, Arc<TempDir>), Box<dyn std::error::Error>> {
        let folder = Arc::new(tempfile::tempdir()?);
        let database = match self.engine {
            "SQLite" => sqlite_in(&folder),
            _ => new_database_named(&self.options.postgres, "bench_claims")?,
        };
        let running = Running::with_settings(self.guerdon, &database, Arc::clone(&folder), Vec::new())?;
        running.open_drop(100_000_000)?;
        if let Some((rewards, more)) = gift {
            open(&running, "gift", "CLAIM", rewards, more)?;
        }
        Ok((running, folder))
    }

    fn load(&self, running: &Running, path: &'static str) -> Result<Outcome, Box<dyn std::error::Error>> {
        let plan = Plan {
            connections: self.options.connections,
            warm_up: Duration::ZERO,
            time: Duration::from_secs(self.options.seconds),
            rate: None,
        };
        let requests = At { crowd: self.crowd.clone(), from: DROP, to: path, once: path != DROP };
        load::run(&running.addresses, &requests, plan)
    }
}
