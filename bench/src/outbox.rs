//! Publishing: how many events a second leave, how long one takes to arrive, and what the drop loses while they do.

mod arrivals;

use crate::drop::SECRET;
use crate::drop::targets::{Running, new_database_named, sqlite_in};
use crate::load::{self, Crowd, Plan};
use crate::report;
use arrivals::Arrivals;
use clap::Args;
use guerdon_store::Stopwatch;
use serde::Serialize;
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
    #[arg(long, value_name = "URL")]
    rabbitmq: Option<String>,
    #[arg(long, value_name = "URL")]
    kafka: Option<String>,
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// How long each measurement lasts
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// How many measurements of the drop; the median is reported
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Events a second for the time that one takes to arrive
    #[arg(long, default_value_t = 1_000.0)]
    rate: f64,
    /// Only sinks whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Leave out what the drop loses
    #[arg(long)]
    no_drop: bool,
    #[arg(long, default_value = "bench/results/outbox.json")]
    save: PathBuf,
}

#[derive(Clone, Debug, Serialize)]
struct Figure {
    engine: &'static str,
    sink: &'static str,
    /// From the commits of a backlog to its confirmations.
    events_per_second: f64,
    /// From the transaction of an event to its arrival, at a steady rate.
    arrival_p50_ms: f64,
    arrival_p99_ms: f64,
    /// Applications to the drop, against the same without a sink in the same round.
    drop_ratio: f64,
    /// Which share of the drop's events was confirmed when its last answer came.
    confirmed_share: f64,
}

/// A sink that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Webhook,
    RabbitMq,
    Kafka,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::RabbitMq => "rabbitmq",
            Self::Kafka => "kafka",
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let crowd = Crowd::new(0, 700_000, SECRET)?;
    let guerdon = options.guerdon.canonicalize()?;
    let mut kinds = vec![(Kind::Webhook, String::new())];
    kinds.extend(options.rabbitmq.clone().map(|url| (Kind::RabbitMq, url)));
    kinds.extend(options.kafka.clone().map(|url| (Kind::Kafka, url)));
    kinds.retain(|(kind, _)| kind.name().contains(&options.only));
    let measured = Measured { options, guerdon: &guerdon, crowd: &crowd };
    let mut figures = Vec::new();
    for engine in ["SQLite", "PostgreSQL"] {
        // First, so that everybody is warm when the drop is measured.
        let mut of_engine = Vec::new();
        for (kind, url) in &kinds {
            let (events_per_second, arrival_p50_ms, arrival_p99_ms) = measured.sink(engine, *kind, url)?;
            of_engine.push(Figure {
                engine,
                sink: kind.name(),
                events_per_second: events_per_second.round(),
                arrival_p50_ms,
                arrival_p99_ms,
                drop_ratio: 0.0,
                confirmed_share: 0.0,
            });
        }
        let mut losses = vec![Vec::new(); kinds.len()];
        // In turns, so that a machine that slows down does so for all.
        for _ in 0..if options.no_drop { 0 } else { options.rounds } {
            for ((kind, url), losses) in kinds.iter().zip(&mut losses) {
                let alone = measured.drop(engine, None)?.0;
                let (rate, share) = measured.drop(engine, Some((*kind, url)))?;
                let name = kind.name();
                println!("{engine}, {name}: {rate:.0} applications/s, {:.2} of {alone:.0}", rate / alone);
                losses.push((rate / alone, share));
            }
        }
        for (figure, losses) in of_engine.iter_mut().zip(losses) {
            figure.drop_ratio = report::median(losses.iter().map(|(ratio, _)| *ratio).collect());
            figure.confirmed_share = report::median(losses.iter().map(|(_, share)| *share).collect());
        }
        figures.extend(of_engine);
    }
    let heads = ["engine", "sink", "events/s", "p50 ms", "p99 ms", "drop", "confirmed"].map(String::from);
    report::print_table(&std::iter::once(heads.to_vec()).chain(figures.iter().map(row)).collect::<Vec<_>>());
    report::save(&options.save, &figures)
}

fn row(figure: &Figure) -> Vec<String> {
    vec![
        figure.engine.into(),
        figure.sink.into(),
        format!("{:.0}", figure.events_per_second),
        format!("{:.1}", figure.arrival_p50_ms),
        format!("{:.1}", figure.arrival_p99_ms),
        format!("{:.2}", figure.drop_ratio),
        format!("{:.2}", figure.confirmed_share),
    ]
}

struct Measured<'a> {
    options: &'a Options,
    guerdon: &'a Path,
    crowd: &'a Crowd,
}

/// A server and whoever receives what it publishes.
struct House {
    running: Running,
    arrivals: Option<Arrivals>,
}

impl Measured<'_> {
    fn start(
        &self,
        engine: &str,
        sink: Option<(Kind, &String)>,
        watched: bool,
    ) -> Result<House, Box<dyn std::error::Error>> {
        let folder = Arc::new(tempfile::tempdir()?);
        let database = match engine {
            "SQLite" => sqlite_in(&folder),
            _ => new_database_named(&self.options.postgres, "bench_outbox")?,
        };
        let mut settings = Vec::new();
        let mut arrivals = None;
        if let Some((kind, url)) = sink {
            let topic = format!("bench.{}", guerdon_engine::Entropy.number());
            let receiver = match kind {
                Kind::Webhook => Some(Arrivals::webhook()?),
                Kind::RabbitMq if watched => Some(Arrivals::rabbitmq(url, &topic)?),
                Kind::Kafka if watched => Some(Arrivals::kafka(url, &topic)?),
                Kind::RabbitMq | Kind::Kafka => None,
            };
            let url = receiver.as_ref().and_then(|receiver| receiver.url.clone()).unwrap_or(url.clone());
            settings.push(("GUERDON_OUTBOX__SINK".to_owned(), kind.name().to_owned()));
            settings.push(("GUERDON_OUTBOX__URL".to_owned(), url));
            settings.push(("GUERDON_OUTBOX__TOPIC".to_owned(), topic));
            settings.push((
                "GUERDON_OUTBOX__SECRET".to_owned(),
                "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz".to_owned(),
            ));
            arrivals = receiver;
        }
        let running = Running::with_settings(self.guerdon, &database, folder, settings)?;
        running.open_drop(100_000_000)?;
        let house = House { running, arrivals };
        if sink.is_some() {
            // Connected, and everything made there.
            house.until_published(1)?;
        }
        Ok(house)
    }

    /// The drop as fast as it goes: applications a second, and the share of their events that was confirmed by its end.
    fn drop(
        &self,
        engine: &str,
        sink: Option<(Kind, &String)>,
    ) -> Result<(f64, f64), Box<dyn std::error::Error>> {
        let house = self.start(engine, sink, false)?;
        let plan = Plan {
            connections: self.options.connections,
            warm_up: Duration::from_secs(1),
            time: Duration::from_secs(self.options.seconds),
            rate: None,
        };
        let outcome = load::run(&house.running.addresses, self.crowd, plan)?;
        let confirmed = if sink.is_some() { house.published()? } else { 0.0 };
        let stored = house.running.stored()?;
        if u64::try_from(stored)? != outcome.accepted {
            return Err(format!("{} accepted, {stored} stored", outcome.accepted).into());
        }
        #[expect(clippy::cast_precision_loss, reason = "far fewer events than 2^52")]
        Ok((outcome.rate(), confirmed / outcome.accepted.max(1) as f64))
    }

    /// Events a second out of a backlog, and the times to arrive at a steady rate.
    fn sink(
        &self,
        engine: &str,
        kind: Kind,
        url: &String,
    ) -> Result<(f64, f64, f64), Box<dyn std::error::Error>> {
        let steady = Plan {
            connections: self.options.connections,
            warm_up: Duration::from_secs(2),
            time: Duration::from_secs(self.options.seconds.max(8)),
            rate: Some(self.options.rate),
        };
        let house = self.start(engine, Some((kind, url)), true)?;
        let arrivals = house.arrivals.as_ref().ok_or("nobody receives")?;
        let warm_up = Stopwatch::start();
        arrivals.count_after(steady.warm_up);
        let outcome = load::run(&house.running.addresses, self.crowd, steady)?;
        house.until_published(outcome.accepted + 1)?;
        let (p50, p99) = arrivals.percentiles(outcome.accepted)?;
        println!(
            "{engine}, {}: {p50:.1} / {p99:.1} ms at {:.0}/s over {:.0} s",
            kind.name(),
            outcome.rate(),
            warm_up.elapsed().as_secs_f64()
        );
        drop(house);
        let backlog = Plan { warm_up: Duration::ZERO, rate: None, ..steady };
        let house = self.start(engine, Some((kind, url)), false)?;
        let outcome = load::run(&house.running.addresses, self.crowd, backlog)?;
        let (before, draining) = (house.published()?, Stopwatch::start());
        house.until_published(outcome.accepted + 1)?;
        let seconds = draining.elapsed().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "far fewer events than 2^52")]
        let rate = (outcome.accepted as f64 + 1.0 - before) / seconds;
        println!("{engine}, {}: {rate:.0} events/s out of a backlog", kind.name());
        Ok((rate, p50, p99))
    }
}

impl House {
    fn published(&self) -> Result<f64, Box<dyn std::error::Error>> {
        let metrics = self.running.metrics()?;
        let value = metrics.lines().find_map(|line| line.strip_prefix("guerdon_outbox_published_total "));
        Ok(value.ok_or("no figure of what was published")?.parse()?)
    }

    #[expect(clippy::cast_precision_loss, reason = "far fewer events than 2^52")]
    fn until_published(&self, count: u64) -> Result<(), Box<dyn std::error::Error>> {
        let waited = Stopwatch::start();
        while self.published()? < count as f64 {
            if waited.elapsed() > Duration::from_mins(5) {
                return Err("the backlog does not drain".into());
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        Ok(())
    }
}
