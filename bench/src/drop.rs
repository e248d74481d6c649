//! A first-come drop under load: Guerdon beside a handler that does nothing and beside what people build by hand.

mod load;
mod peers;
mod targets;

pub(crate) use peers::PeerOptions;

use crate::report;
use clap::Args;
use load::{Crowd, Outcome};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use targets::Target;

/// The key of everybody's tokens.
pub(crate) const SECRET: &str = "a-secret-of-the-benchmark-that-is-long-enough";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long, default_value = "target/release/guerdon")]
    guerdon: PathBuf,
    /// A PostgreSQL at which databases can be created
    #[arg(long, value_name = "URL")]
    postgres: String,
    /// A Redis that may be emptied
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    #[arg(long, default_values_t = [64, 256])]
    connections: Vec<usize>,
    /// How many places the drop has: more than anybody takes, and soon sold out
    #[arg(long, default_values_t = [100_000_000, 1_000])]
    stock: Vec<i64>,
    /// How long each measurement lasts
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// How many measurements; the median is reported
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only targets whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    #[arg(long, default_value = "bench/results/drop.json")]
    save: PathBuf,
}

#[derive(Debug, Serialize)]
struct Figure {
    target: String,
    connections: usize,
    stock: i64,
    requests_per_second: f64,
    /// Against the handler that does nothing, in the same run.
    ratio: f64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    /// Of the whole machine, the generator included.
    cpu_us_per_request: f64,
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let crowd = Crowd::new(600_000, SECRET)?;
    let guerdon = options.guerdon.canonicalize()?;
    let mut figures = Vec::new();
    let mut rows = vec![
        ["target", "conns", "stock", "req/s", "ratio", "p50 ms", "p99 ms", "p99.9 ms", "cpu µs"]
            .map(String::from)
            .to_vec(),
    ];
    for stock in &options.stock {
        for connections in &options.connections {
            let mut nothing = None;
            for target in targets::all(options.redis.is_some()) {
                if target != Target::Nothing && !target.name().contains(&options.only) {
                    continue;
                }
                let figure = measure(options, &guerdon, target, (*connections, *stock), &crowd, nothing)?;
                nothing = nothing.or(Some(figure.requests_per_second));
                rows.push(row(&figure));
                println!("{}", row(&figure).join("  "));
                figures.push(figure);
            }
        }
    }
    println!();
    report::print_table(&rows);
    report::save(&options.save, &figures)
}

fn measure(
    options: &Options,
    guerdon: &Path,
    target: Target,
    (connections, stock): (usize, i64),
    crowd: &Crowd,
    nothing: Option<f64>,
) -> Result<Figure, Box<dyn std::error::Error>> {
    let mut outcomes = Vec::new();
    for _ in 0..options.rounds {
        let running = target.start(guerdon, &options.postgres, options.redis.as_deref(), stock)?;
        let outcome =
            load::run(&running.addresses, crowd, connections, Duration::from_secs(options.seconds))?;
        running.check(&outcome)?;
        outcomes.push(outcome);
    }
    outcomes.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    let outcome: &Outcome = &outcomes[outcomes.len() / 2];
    let rate = outcome.rate();
    Ok(Figure {
        target: target.name().into(),
        connections,
        stock,
        requests_per_second: rate.round(),
        ratio: rate / nothing.unwrap_or(rate),
        p50_ms: outcome.percentile(0.5),
        p99_ms: outcome.percentile(0.99),
        p999_ms: outcome.percentile(0.999),
        cpu_us_per_request: outcome.cpu_us_per_request(),
    })
}

fn row(figure: &Figure) -> Vec<String> {
    vec![
        figure.target.clone(),
        figure.connections.to_string(),
        figure.stock.to_string(),
        format!("{:.0}", figure.requests_per_second),
        format!("{:.2}", figure.ratio),
        format!("{:.2}", figure.p50_ms),
        format!("{:.2}", figure.p99_ms),
        format!("{:.2}", figure.p999_ms),
        format!("{:.1}", figure.cpu_us_per_request),
    ]
}

pub(crate) fn serve_peer(options: &PeerOptions) -> Result<(), Box<dyn std::error::Error>> {
    peers::serve(options)
}
