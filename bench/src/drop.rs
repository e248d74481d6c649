//! A first-come drop under load: Guerdon beside a handler that does nothing and beside what people build by hand.

mod audit;
mod chart;
mod draw;
mod fill;
mod growth;
mod peers;
pub(crate) mod targets;

pub(crate) use audit::AuditOptions;
pub(crate) use draw::DrawOptions;
pub(crate) use growth::GrowthOptions;
pub(crate) use peers::PeerOptions;

use crate::load::{self, Crowd, Outcome, Plan};
use crate::report;
use clap::Args;
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
    /// How long before that the crowd comes already
    #[arg(long, default_value_t = 1)]
    warm_up: u64,
    /// How many measurements; the median is reported
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Leave out the runs at half of each target's rate, which measure waiting times
    #[arg(long)]
    no_open_loop: bool,
    /// Only targets whose name contains one of these
    #[arg(long, default_values = [""])]
    only: Vec<String>,
    #[arg(long, default_value = "bench/results/drop.json")]
    save: PathBuf,
}

#[derive(Clone, Debug, Serialize)]
struct Figure {
    target: String,
    connections: usize,
    stock: i64,
    /// Closed: the next comes when one was answered. Open: at half of the rate that the closed loop found.
    open_loop: bool,
    requests_per_second: f64,
    /// Against the handler that does nothing, in the same round.
    ratio: f64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    /// Of the whole machine, the generator included.
    cpu_us_per_request: f64,
    /// What was in the database when the last answer came, of what was accepted.
    stored_share: f64,
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let crowd = Crowd::new(0, 1_000_000, SECRET)?;
    let guerdon = options.guerdon.canonicalize()?;
    let targets: Vec<_> = targets::all(options.redis.is_some())
        .into_iter()
        .filter(|target| {
            *target == Target::Nothing || options.only.iter().any(|one| target.name().contains(one))
        })
        .collect();
    let measured = Measured { options, guerdon: &guerdon, crowd: &crowd };
    let mut figures = Vec::new();
    for stock in &options.stock {
        for connections in &options.connections {
            let closed = measured.in_turn(&targets, *connections, *stock, None)?;
            if !options.no_open_loop {
                let rates: Vec<_> = closed.iter().map(|figure| figure.requests_per_second / 2.0).collect();
                let open = measured.in_turn(&targets, *connections, *stock, Some(&rates))?;
                figures.extend(open);
            }
            figures.extend(closed);
        }
    }
    figures.sort_by_key(|figure| figure.open_loop);
    for open_loop in [false, true] {
        let of_kind: Vec<_> = figures.iter().filter(|figure| figure.open_loop == open_loop).collect();
        if !of_kind.is_empty() {
            println!("\n{}", if open_loop { "at half of that rate:" } else { "as fast as it goes:" });
            report::print_table(
                &std::iter::once(heads()).chain(of_kind.into_iter().map(row)).collect::<Vec<_>>(),
            );
        }
    }
    report::save(&options.save, &figures)?;
    chart::save(&options.save.with_extension("svg"), &figures)
}

struct Measured<'a> {
    options: &'a Options,
    guerdon: &'a Path,
    crowd: &'a Crowd,
}

impl Measured<'_> {
    /// Measures all targets one after the other, and that several times: a machine that slows down does so for all.
    fn in_turn(
        &self,
        targets: &[Target],
        connections: usize,
        stock: i64,
        rates: Option<&[f64]>,
    ) -> Result<Vec<Figure>, Box<dyn std::error::Error>> {
        let mut rounds: Vec<Vec<Figure>> = vec![Vec::new(); targets.len()];
        // Waiting times at half of the rate are the same in every round.
        for _ in 0..if rates.is_some() { 1 } else { self.options.rounds } {
            let mut nothing = None;
            for (index, target) in targets.iter().enumerate() {
                let rate = rates.map(|rates| rates[index]);
                let figure = self.once(*target, connections, stock, rate, nothing)?;
                nothing = nothing.or(Some(figure.requests_per_second));
                println!("{}", row(&figure).join("  "));
                rounds[index].push(figure);
            }
        }
        Ok(rounds.into_iter().filter_map(middle).collect())
    }

    fn once(
        &self,
        target: Target,
        connections: usize,
        stock: i64,
        rate: Option<f64>,
        nothing: Option<f64>,
    ) -> Result<Figure, Box<dyn std::error::Error>> {
        let options = self.options;
        let running = target.start(self.guerdon, &options.postgres, options.redis.as_deref(), stock)?;
        let seconds = Duration::from_secs;
        let plan =
            Plan { connections, warm_up: seconds(options.warm_up), time: seconds(options.seconds), rate };
        let outcome = load::run(&running.addresses, self.crowd, plan)?;
        let stored_share = running.check(&outcome)?;
        let rate = outcome.rate();
        Ok(Figure {
            ratio: rate / nothing.unwrap_or(rate),
            stored_share,
            ..figure(target.name(), connections, stock, &outcome, plan)
        })
    }
}

fn figure(target: &str, connections: usize, stock: i64, outcome: &Outcome, plan: Plan) -> Figure {
    Figure {
        target: target.into(),
        connections,
        stock,
        open_loop: plan.rate.is_some(),
        requests_per_second: outcome.rate().round(),
        ratio: 1.0,
        p50_ms: outcome.percentile(0.5),
        p99_ms: outcome.percentile(0.99),
        p999_ms: outcome.percentile(0.999),
        cpu_us_per_request: outcome.cpu_us_per_request(),
        stored_share: 1.0,
    }
}

/// The round whose ratio is the middle one.
fn middle(mut rounds: Vec<Figure>) -> Option<Figure> {
    // The handler that does nothing is 1 in every round.
    let place = |figure: &Figure| (figure.ratio, figure.requests_per_second);
    rounds.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal));
    let index = rounds.len() / 2;
    rounds.into_iter().nth(index)
}

fn heads() -> Vec<String> {
    ["target", "conns", "stock", "req/s", "ratio", "p50 ms", "p99 ms", "p99.9 ms", "cpu µs"]
        .map(String::from)
        .to_vec()
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

pub(crate) fn run_growth(options: &GrowthOptions) -> Result<(), Box<dyn std::error::Error>> {
    growth::run(options)
}

pub(crate) fn run_draw(options: &DrawOptions) -> Result<(), Box<dyn std::error::Error>> {
    draw::run(options)
}

pub(crate) fn run_audit(options: &AuditOptions) -> Result<(), Box<dyn std::error::Error>> {
    audit::run(options)
}

pub(crate) fn serve_peer(options: &PeerOptions) -> Result<(), Box<dyn std::error::Error>> {
    peers::serve(options)
}
