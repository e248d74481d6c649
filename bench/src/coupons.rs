//! First-come coupons: the three issuers beside what people build by hand, in one run.

use crate::drop::SECRET;
use crate::drop::targets::{Running, Target, new_database_named, sqlite_in};
use crate::load::{self, Crowd, Outcome, Plan, Requests};
use crate::report;
use clap::Args;
use guerdon_store::Stopwatch;
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

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
    redis: String,
    #[arg(long, default_values_t = [64, 256])]
    connections: Vec<usize>,
    /// How long each measurement lasts
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// How many measurements; the median is reported
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only targets whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    #[arg(long, default_value = "bench/results/coupons.json")]
    save: PathBuf,
}

/// Who issues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Issues {
    Peer(Target),
    Guerdon { engine: &'static str, issuer: &'static str },
}

impl Issues {
    fn name(self) -> String {
        match self {
            Self::Peer(peer) => peer.name().into(),
            Self::Guerdon { engine, issuer } => format!("{issuer}, {engine}"),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct Figure {
    target: String,
    connections: usize,
    answers_per_second: f64,
    /// Against the handler that does nothing, in the same round.
    ratio: f64,
    /// Against (c), in the same round.
    ratio_to_c: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// What was decided when the last answer came, of what was accepted.
    decided_share: f64,
    /// From the first wish until all were decided.
    decided_per_second: f64,
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let crowd = Wishes(Crowd::new(0, 600_000, SECRET)?);
    let guerdon = options.guerdon.canonicalize()?;
    let mut all = vec![
        Issues::Peer(Target::Nothing),
        Issues::Peer(Target::RedisThenInsert),
        Issues::Peer(Target::RedisStream),
    ];
    for engine in ["SQLite", "PostgreSQL"] {
        all.extend(
            ["store", "redis-outbox", "redis-stream"].map(|issuer| Issues::Guerdon { engine, issuer }),
        );
    }
    // The first two are what the others are measured against.
    let wanted = |(index, one): &(usize, Issues)| *index < 2 || one.name().contains(&options.only);
    let all: Vec<_> = all.into_iter().enumerate().filter(wanted).map(|(_, one)| one).collect();
    let mut figures = Vec::new();
    for connections in &options.connections {
        let mut rounds: Vec<Vec<Figure>> = vec![Vec::new(); all.len()];
        for _ in 0..options.rounds {
            let mut first: [Option<f64>; 2] = [None, None];
            for (index, one) in all.iter().enumerate() {
                let mut figure = once(options, &guerdon, &crowd, *one, *connections)?;
                if let Some(place) = first.get_mut(index) {
                    *place = Some(figure.answers_per_second);
                }
                let against = |base: Option<f64>| base.map_or(0.0, |base| figure.answers_per_second / base);
                let (nothing, c) = (against(first[0]), against(first[1]));
                figure.ratio = nothing;
                figure.ratio_to_c = c;
                println!("{}", row(&figure).join("  "));
                rounds[index].push(figure);
            }
        }
        for mut of_one in rounds {
            of_one.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
            let middle = of_one.len() / 2;
            figures.extend(of_one.into_iter().nth(middle));
        }
    }
    println!();
    let heads = [
        "issuer",
        "conns",
        "answers/s",
        "of nothing",
        "of (c)",
        "p50 ms",
        "p99 ms",
        "decided at the end",
        "decided/s",
    ];
    let rows = std::iter::once(heads.map(String::from).to_vec()).chain(figures.iter().map(row));
    report::print_table(&rows.collect::<Vec<_>>());
    report::save(&options.save, &figures)
}

fn row(figure: &Figure) -> Vec<String> {
    vec![
        figure.target.clone(),
        figure.connections.to_string(),
        format!("{:.0}", figure.answers_per_second),
        format!("{:.2}", figure.ratio),
        format!("{:.1}", figure.ratio_to_c),
        format!("{:.1}", figure.p50_ms),
        format!("{:.1}", figure.p99_ms),
        format!("{:.2}", figure.decided_share),
        format!("{:.0}", figure.decided_per_second),
    ]
}

/// Everybody asks for the same coupon, and some do it twice, with the same key.
#[derive(Clone)]
struct Wishes(Crowd);

impl Requests for Wishes {
    fn request(&self, number: usize, connection: usize, address: &str, before: &str) -> Option<String> {
        let request = self.0.request(number, connection, address, before)?;
        let issue = request.replace("/v1/events/drop/requests", "/v1/coupons/ten/issue");
        Some(issue.replace("\r\ncontent-length: 0", "\r\nidempotency-key: first\r\ncontent-length: 0"))
    }
}

fn once(
    options: &Options,
    guerdon: &Path,
    crowd: &Wishes,
    one: Issues,
    connections: usize,
) -> Result<Figure, Box<dyn std::error::Error>> {
    const STOCK: i64 = 100_000_000;
    let plan = Plan {
        connections,
        warm_up: Duration::from_secs(1),
        time: Duration::from_secs(options.seconds),
        rate: None,
    };
    let (outcome, decided_share, decided_per_second) = match one {
        Issues::Peer(peer) => {
            let running = peer.start(guerdon, &options.postgres, Some(&options.redis), STOCK)?;
            let outcome = load::run(&running.addresses, &crowd.0, plan)?;
            let share = running.check(&outcome)?;
            (outcome, share, 0.0)
        }
        Issues::Guerdon { engine, issuer } => {
            let mut redis = redis::Client::open(options.redis.as_str())?.get_connection()?;
            redis::cmd("FLUSHALL").query::<()>(&mut redis)?;
            let folder = Arc::new(tempfile::tempdir()?);
            let database = match engine {
                "SQLite" => sqlite_in(&folder),
                _ => new_database_named(&options.postgres, "bench_coupons")?,
            };
            let settings = [("GUERDON_COUPONS__ISSUER", issuer), ("GUERDON_REDIS__URL", &options.redis)];
            let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
            let running = Running::with_settings(guerdon, &database, folder, settings)?;
            running.call(
                "POST",
                "/v1/admin/coupons",
                &json!({"couponId": "ten", "name": "x", "totalQuantity": STOCK}),
            )?;
            let started = Stopwatch::start();
            let outcome = load::run(&running.addresses, crowd, plan)?;
            let at_the_end = issued(&running)?;
            let all = until_all_decided(&running, &outcome)?;
            #[expect(clippy::cast_precision_loss, reason = "figures for people")]
            let (share, rate) =
                (at_the_end as f64 / all.max(1) as f64, all as f64 / started.elapsed().as_secs_f64());
            (outcome, share, rate)
        }
    };
    Ok(Figure {
        target: one.name(),
        connections,
        answers_per_second: outcome.rate().round(),
        ratio: 1.0,
        ratio_to_c: 1.0,
        p50_ms: outcome.percentile(0.5),
        p99_ms: outcome.percentile(0.99),
        decided_share,
        decided_per_second: decided_per_second.round(),
    })
}

fn issued(running: &Running) -> Result<i64, Box<dyn std::error::Error>> {
    let coupon = running.call("GET", "/v1/admin/coupons/ten", &json!({}))?;
    coupon["issued"].as_i64().ok_or_else(|| "no count".into())
}

/// Waits until nothing more is decided, and looks whether that is what was accepted; how many were issued.
fn until_all_decided(running: &Running, outcome: &Outcome) -> Result<i64, Box<dyn std::error::Error>> {
    let mut before = -1;
    loop {
        let now = issued(running)?;
        // Of a hundred answers five are somebody's second one, which changes nothing.
        let accepted = i64::try_from(outcome.accepted)?;
        if now == before {
            let sound = now <= accepted && now >= accepted * 94 / 100;
            return if sound { Ok(now) } else { Err(format!("{accepted} accepted, {now} issued").into()) };
        }
        before = now;
        std::thread::park_timeout(Duration::from_millis(700));
    }
}
