//! What grouping is worth: the same insert, durable before its answer, in groups of different sizes.

use crate::report;
use clap::Args;
use guerdon_core::Timestamp;
use guerdon_store::{
    Command, Database, Fault, Pending, Priority, Statement, Stopwatch, Store, StoreMetrics, StoreOptions, Tx,
    each,
};
use prometheus_client::registry::Registry;
use serde::Serialize;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

const GROUPS: [usize; 6] = [1, 4, 16, 64, 256, 512];
/// Commands that wait at any time, so that a group is as large as it may be.
const OUTSTANDING: usize = 1_024;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A PostgreSQL to measure on; its public schema is used
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// How long each measurement lasts
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// How many measurements; the median is reported
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Where the figures are saved
    #[arg(long, default_value = "bench/results/group-commit.json")]
    save: PathBuf,
}

#[derive(Debug, Serialize)]
struct Figure {
    engine: String,
    group: usize,
    commands_per_second: f64,
    /// Against one command per commit on the same engine in the same run.
    ratio: f64,
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let mut databases = vec![Database::Sqlite(folder.path().join("bench.db"))];
    if let Some(url) = &options.postgres {
        databases.push(Database::parse(url)?);
    }
    let mut figures = Vec::new();
    for database in &databases {
        let mut single = 0.0;
        for group in GROUPS {
            let rounds = (0..options.rounds).map(|_| measure(database, group, options.seconds));
            let rate = report::median(rounds.collect::<Result<_, _>>()?);
            if group == 1 {
                single = rate;
            }
            let engine = database.engine().as_str().to_owned();
            figures.push(Figure { engine, group, commands_per_second: rate.round(), ratio: rate / single });
        }
    }
    let mut rows = vec![["engine", "group", "commands/s", "ratio"].map(String::from).to_vec()];
    rows.extend(figures.iter().map(|figure| {
        vec![
            figure.engine.clone(),
            figure.group.to_string(),
            format!("{:.0}", figure.commands_per_second),
            format!("{:.1}", figure.ratio),
        ]
    }));
    report::print_table(&rows);
    report::save(&options.save, &figures)
}

static CREATE: Statement =
    Statement::portable("CREATE TABLE IF NOT EXISTS bench_rows (id BIGINT PRIMARY KEY, value TEXT)");
static EMPTY: Statement = Statement::portable("DELETE FROM bench_rows");
static INSERT: Statement = Statement::dialects(
    "INSERT INTO bench_rows (id, value) VALUES ($1, $2)",
    "INSERT INTO bench_rows (id, value) SELECT * FROM unnest(CAST($1 AS BIGINT[]), CAST($2 AS TEXT[]))",
);

struct Prepare;

impl Command for Prepare {
    type Output = ();
    const NAME: &'static str = "prepare";
    const PRIORITY: Priority = Priority::Operator;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        each(batch, |_| {
            tx.execute(&CREATE, &[])?;
            tx.execute(&EMPTY, &[]).map(drop)
        })
    }
}

/// One row, as an application to an event would append it.
struct Append(i64);

impl Command for Append {
    type Output = ();
    const NAME: &'static str = "append";
    const PRIORITY: Priority = Priority::Intake;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        const VALUE: &str = "user-0192-aaaa-bbbb-cccc";
        match tx.engine() {
            guerdon_store::Engine::Sqlite => {
                each(batch, |append| tx.execute(&INSERT, &[append.0.into(), VALUE.into()]).map(drop))
            }
            guerdon_store::Engine::Postgres => {
                let ids: Vec<_> = batch.iter().map(|append| append.0).collect();
                let values = vec![VALUE; batch.len()];
                let params = [guerdon_store::Param::Ints(&ids), guerdon_store::Param::Texts(&values)];
                tx.execute(&INSERT, &params)?;
                each(batch, |_| Ok(()))
            }
        }
    }
}

fn measure(database: &Database, group: usize, seconds: u64) -> Result<f64, Box<dyn std::error::Error>> {
    let metrics = StoreMetrics::register(&mut Registry::default());
    let options = StoreOptions { group_max: group, ..StoreOptions::default() };
    let store = Store::open(database, &options, &metrics, || Timestamp::from_millis(0))?;
    store.submit(Prepare)?.blocking_recv()??;
    let mut waiting: VecDeque<Pending<()>> = VecDeque::new();
    let (mut submitted, mut answered) = (0_i64, 0_u32);
    let started = Stopwatch::start();
    while started.elapsed() < Duration::from_secs(seconds) {
        while waiting.len() < OUTSTANDING {
            waiting.push_back(store.submit(Append(submitted))?);
            submitted += 1;
        }
        if let Some(pending) = waiting.pop_front() {
            pending.blocking_recv()??;
            answered += 1;
        }
    }
    let rate = f64::from(answered) / started.elapsed().as_secs_f64();
    for pending in waiting {
        pending.blocking_recv()??;
    }
    Ok(rate)
}
