//! What an audit that runs beside the drop takes from it.

use super::SECRET;
use super::fill::fill;
use super::targets::{Running, new_database, peak_memory_mb, sqlite_in};
use crate::load::{self, Crowd, Plan};
use crate::report;
use clap::Args;
use guerdon_store::Stopwatch;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const CROWD_FIRST: u32 = 200_000_000;
const CROWD: u32 = 600_000;

#[derive(Debug, Args)]
pub(crate) struct AuditOptions {
    /// The server's binary
    #[arg(long, default_value = "target/release/guerdon")]
    guerdon: PathBuf,
    #[arg(long, value_name = "URL")]
    postgres: String,
    /// How many requests SQLite holds
    #[arg(long, default_value_t = 10_000_000)]
    stored: u32,
    /// How many PostgreSQL holds; 0 leaves it out
    #[arg(long, default_value_t = 1_000_000)]
    stored_on_postgres: u32,
    #[arg(long, default_value_t = 64)]
    connections: usize,
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How many pairs of measurements, without the audit and with it
    #[arg(long, default_value_t = 8)]
    rounds: u32,
    #[arg(long, default_value = "bench/results/audit.json")]
    save: PathBuf,
}

#[derive(Debug, Serialize)]
struct Audited {
    engine: &'static str,
    stored: u32,
    /// Of the throughput without it, over all rounds.
    throughput_with_audit: f64,
    /// Beside the drop, all of it, with its rests.
    under_load_seconds: f64,
    /// Alone on the machine and without rests, all of it.
    audit_seconds: f64,
    audit_memory_mb: u64,
}

pub(super) fn run(options: &AuditOptions) -> Result<(), Box<dyn std::error::Error>> {
    let guerdon = options.guerdon.canonicalize()?;
    let folder = tempfile::tempdir()?;
    let mut figures = vec![measure(options, &guerdon, "SQLite", &sqlite_in(&folder), options.stored)?];
    if options.stored_on_postgres > 0 {
        let database = new_database(&options.postgres)?;
        figures.push(measure(options, &guerdon, "PostgreSQL", &database, options.stored_on_postgres)?);
    }
    let heads = ["engine", "stored", "throughput with audit", "under load s", "alone s", "memory MB"];
    let mut rows = vec![heads.map(String::from).to_vec()];
    rows.extend(figures.iter().map(|audited| {
        vec![
            audited.engine.into(),
            audited.stored.to_string(),
            format!("{:.2}", audited.throughput_with_audit),
            format!("{:.0}", audited.under_load_seconds),
            format!("{:.0}", audited.audit_seconds),
            audited.audit_memory_mb.to_string(),
        ]
    }));
    report::print_table(&rows);
    report::save(&options.save, &figures)
}

fn measure(
    options: &AuditOptions,
    guerdon: &Path,
    engine: &'static str,
    database: &str,
    stored: u32,
) -> Result<Audited, Box<dyn std::error::Error>> {
    Running::on(guerdon, database, "0s")?.open_drop(1_000_000_000)?;
    fill(database, "drop", 0..stored)?;
    let plan = Plan {
        connections: options.connections,
        warm_up: Duration::from_secs(1),
        time: Duration::from_secs(options.seconds),
        rate: None,
    };
    let mut totals = [0.0; 2];
    let running = Running::on(guerdon, database, "0s")?;
    for round in 0..options.rounds {
        let mut rates = [0.0; 2];
        for with_audit in [false, true] {
            let number = round * 2 + u32::from(with_audit);
            let crowd = Crowd::new(CROWD_FIRST + number * CROWD, CROWD, SECRET)?;
            let audit = with_audit.then(|| Auditing::start(guerdon, database, &[])).transpose()?;
            rates[usize::from(with_audit)] = load::run(&running.addresses, &crowd, plan)?.rate();
            if let Some(audit) = audit {
                audit.stop()?;
            }
        }
        println!("{engine}: {:.0} without, {:.0} with", rates[0], rates[1]);
        totals = [totals[0] + rates[0], totals[1] + rates[1]];
    }
    // One from first to last, for as long as it takes.
    let started = Stopwatch::start();
    let mut audit = Auditing::start(guerdon, database, &[])?;
    let mut crowds = options.rounds * 2..;
    while !audit.has_ended()? {
        let number = crowds.next().ok_or("too many crowds")?;
        let crowd = Crowd::new(CROWD_FIRST + number * CROWD, CROWD, SECRET)?;
        load::run(&running.addresses, &crowd, plan)?;
    }
    let under_load_seconds = started.elapsed().as_secs_f64();
    println!("{engine}: an audit under load took {under_load_seconds:.0} s and found nothing");
    drop(running);
    let started = Stopwatch::start();
    let mut audit = Auditing::start(guerdon, database, &["--fast"])?;
    let memory = audit.finish()?;
    Ok(Audited {
        engine,
        stored,
        under_load_seconds,
        throughput_with_audit: totals[1] / totals[0],
        audit_seconds: started.elapsed().as_secs_f64(),
        audit_memory_mb: memory,
    })
}

/// `guerdon audit` as a process.
struct Auditing(Child);

impl Auditing {
    fn start(guerdon: &Path, database: &str, flags: &[&str]) -> Result<Self, Box<dyn std::error::Error>> {
        let mut command = Command::new(guerdon);
        command.args(["audit", "--json", "--database", database]).args(flags).stdout(Stdio::null());
        Ok(Self(command.spawn()?))
    }

    /// Ends an audit that is under way; one that has ended must have found nothing.
    fn stop(mut self) -> Result<(), Box<dyn std::error::Error>> {
        self.has_ended()?;
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }

    /// Whether it is over; it must have found nothing.
    fn has_ended(&mut self) -> Result<bool, Box<dyn std::error::Error>> {
        match self.0.try_wait()? {
            Some(status) if status.success() => Ok(true),
            Some(_) => Err("the audit found something".into()),
            None => Ok(false),
        }
    }

    /// Waits for its end; how much memory it took.
    fn finish(&mut self) -> Result<u64, Box<dyn std::error::Error>> {
        let mut memory = 0;
        while !self.has_ended()? {
            memory = peak_memory_mb(&self.0).unwrap_or(0).max(memory);
            std::thread::park_timeout(Duration::from_millis(20));
        }
        Ok(memory)
    }
}
