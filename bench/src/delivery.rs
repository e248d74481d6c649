//! Entries and delivery: check-ins and plays a second with their rewards paid out, and how fast rewards that became due
//! in an outage reach a provider, also behind a million that are done.

use crate::drop::SECRET;
use crate::drop::targets::{Running, new_database_named, sqlite_in};
use crate::load::{self, Crowd, Outcome, Plan, Requests};
use crate::report;
use clap::Args;
use guerdon_store::Stopwatch;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
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
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// How long each measurement lasts
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Rewards that become due in an outage
    #[arg(long, default_value_t = 100_000)]
    due: usize,
    /// Rewards that are done, which must not slow those down
    #[arg(long, default_value_t = 1_000_000)]
    finished: usize,
    #[arg(long, default_value = "bench/results/delivery.json")]
    save: PathBuf,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Figure {
    engine: &'static str,
    /// Applications to a drop without rewards, in the same run.
    drop_per_second: f64,
    check_ins_per_second: f64,
    plays_per_second: f64,
    /// Rewards paid out by the wallet, from the first check-in to the last payment.
    paid_per_second: f64,
    /// Deliveries to a provider out of a backlog, by calls at one time.
    delivered_per_second_16: f64,
    delivered_per_second_64: f64,
    /// The same with 16 behind many that are done.
    delivered_behind_finished: f64,
}

/// A crowd at some other address than the drop's.
#[derive(Clone)]
pub(crate) struct At {
    pub(crate) crowd: Crowd,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
    /// Whether nobody comes twice.
    pub(crate) once: bool,
}

impl Requests for At {
    fn request(&self, number: usize, connection: usize, address: &str, before: &str) -> Option<String> {
        // Of a hundred the first five have come before.
        let who = if self.once { number / 95 * 100 + 5 + number % 95 } else { number };
        let request = self.crowd.request(who, connection, address, before)?;
        let key = format!("\r\nidempotency-key: key-{number:08}\r\ncontent-length: 0");
        Some(request.replace(self.from, self.to).replace("\r\ncontent-length: 0", &key))
    }
}

const DROP: &str = "/v1/events/drop/requests";

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let crowd = Crowd::new(0, 500_000, SECRET)?;
    let guerdon = options.guerdon.canonicalize()?;
    let mut figures = Vec::new();
    for engine in ["SQLite", "PostgreSQL"] {
        let bench = Bench { options, guerdon: &guerdon, crowd: &crowd, engine };
        let mut figure = Figure { engine, ..Figure::default() };
        figure.drop_per_second = bench.load(&bench.start(&[])?.0, DROP)?.rate().round();
        let (running, _folder) = bench.start(&[])?;
        let watch = Stopwatch::start();
        let checked = bench.load(&running, "/v1/events/daily/attendance")?;
        figure.check_ins_per_second = checked.rate().round();
        until_delivered(&running, "wallet", checked.accepted)?;
        figure.paid_per_second = rate(checked.accepted, watch);
        drop(running);
        let (running, _folder) = bench.start(&[])?;
        figure.plays_per_second = bench.load(&running, "/v1/events/wheel/plays")?.rate().round();
        drop(running);
        figure.delivered_per_second_16 = bench.drain(16, 0)?;
        figure.delivered_per_second_64 = bench.drain(64, 0)?;
        figure.delivered_behind_finished = bench.drain(16, options.finished)?;
        println!("{figure:?}");
        figures.push(figure);
    }
    let heads = [
        "engine",
        "drop/s",
        "check-ins/s",
        "of the drop",
        "plays/s",
        "of the drop",
        "paid/s",
        "HTTP 16",
        "HTTP 64",
        "behind finished",
    ];
    let rows = figures.iter().map(row);
    let heads = heads.map(String::from).to_vec();
    report::print_table(&std::iter::once(heads).chain(rows).collect::<Vec<_>>());
    report::save(&options.save, &figures)
}

fn row(figure: &Figure) -> Vec<String> {
    vec![
        figure.engine.into(),
        format!("{:.0}", figure.drop_per_second),
        format!("{:.0}", figure.check_ins_per_second),
        format!("{:.2}", figure.check_ins_per_second / figure.drop_per_second),
        format!("{:.0}", figure.plays_per_second),
        format!("{:.2}", figure.plays_per_second / figure.drop_per_second),
        format!("{:.0}", figure.paid_per_second),
        format!("{:.0}", figure.delivered_per_second_16),
        format!("{:.0}", figure.delivered_per_second_64),
        format!("{:.2}", figure.delivered_behind_finished / figure.delivered_per_second_16),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
fn rate(count: u64, watch: Stopwatch) -> f64 {
    (count as f64 / watch.elapsed().as_secs_f64()).round()
}

struct Bench<'a> {
    options: &'a Options,
    guerdon: &'a Path,
    crowd: &'a Crowd,
    engine: &'static str,
}

impl Bench<'_> {
    /// A server on a new database, with a drop, a calendar and a game.
    fn start(
        &self,
        settings: &[(String, String)],
    ) -> Result<(Running, Arc<TempDir>), Box<dyn std::error::Error>> {
        let folder = Arc::new(tempfile::tempdir()?);
        let database = self.database(&folder)?;
        let running =
            Running::with_settings(self.guerdon, &database, Arc::clone(&folder), settings.to_vec())?;
        running.open_drop(100_000_000)?;
        let points = json!([{"rewardId": "points", "kind": "POINT", "amount": 10, "currency": "POINT"}]);
        let calendar = json!({"attendance": {"daily": "points"}});
        let game = json!({"random": {"prizes": [{"rewardId": "points", "weight": 1}, {"rewardId": null, "weight": 9}]}});
        open(&running, "daily", "ATTENDANCE", &points, &calendar)?;
        open(&running, "wheel", "RANDOM", &points, &game)?;
        Ok((running, folder))
    }

    fn database(&self, folder: &TempDir) -> Result<String, Box<dyn std::error::Error>> {
        match self.engine {
            "SQLite" => Ok(sqlite_in(folder)),
            _ => new_database_named(&self.options.postgres, "bench_delivery"),
        }
    }

    fn load(&self, running: &Running, path: &'static str) -> Result<Outcome, Box<dyn std::error::Error>> {
        let plan = Plan {
            connections: self.options.connections,
            warm_up: Duration::ZERO,
            time: Duration::from_secs(self.options.seconds),
            rate: None,
        };
        load::run(
            &running.addresses,
            &At { crowd: self.crowd.clone(), from: DROP, to: path, once: false },
            plan,
        )
    }

    /// Deliveries a second to a provider that was away while people won.
    fn drain(&self, concurrency: usize, finished: usize) -> Result<f64, Box<dyn std::error::Error>> {
        let mut command = Command::new(self.guerdon);
        command.args(["dev", "partners", "--listen", "127.0.0.1:0"]);
        let partners = Running::of(command)?;
        let (running, folder) = self.start(&[])?;
        let item = json!([{"rewardId": "item", "kind": "ITEM"}]);
        let capacity = json!({"capacityTotal": self.options.due});
        open(&running, "won", "FIRST_COME", &item, &capacity)?;
        let people: Vec<_> = (0..self.options.due)
            .filter_map(|number| {
                // Nobody comes twice: everybody is to win.
                let request = self.crowd.request(number / 95 * 100 + 5 + number % 95, 0, "bench", "")?;
                Some(request.replace(DROP, "/v1/events/won/requests"))
            })
            .collect();
        load::send_all(&running.addresses[0], &people, self.options.connections)?;
        drop(running);
        let database = match self.engine {
            "SQLite" => sqlite_in(&folder),
            _ => same_database(&self.options.postgres, "bench_delivery"),
        };
        let due = prepare(&database, finished)?;
        let settings = [
            ("GUERDON_PROVIDERS__DEFAULT__URL", format!("http://{}", partners.addresses[0])),
            ("GUERDON_PROVIDERS__DEFAULT__CONCURRENCY", concurrency.to_string()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let running = Running::with_settings(self.guerdon, &database, folder, settings)?;
        let watch = Stopwatch::start();
        until_delivered(&running, "default", due)?;
        let rate = rate(due, watch);
        println!(
            "{}: {due} deliveries with {concurrency} calls at a time, {finished} done before: {rate:.0}/s",
            self.engine
        );
        Ok(rate)
    }
}

/// Makes all that is open due, and adds rows that are done; how many are due.
fn prepare(database: &str, finished: usize) -> Result<u64, Box<dyn std::error::Error>> {
    let columns =
        "event_id, member_id, request_id, reward_id, reward_status, retry_count, epoch, outcome_unknown,
        created_at, provider, processed_at";
    let values =
        "event_id, member_id, request_id, reward_id, 'SUCCESS', 0, 1, 0, created_at, provider, created_at";
    let due =
        "UPDATE event_reward_allocation SET next_retry_at = 1 WHERE reward_status IN ('PENDING', 'FAILED')";
    let count = "SELECT COUNT(*) FROM event_reward_allocation WHERE reward_status IN ('PENDING', 'FAILED')";
    let one = "(SELECT * FROM event_reward_allocation LIMIT 1) one";
    let count: i64 = if let Some(path) = database.strip_prefix("sqlite:") {
        let connection = rusqlite::Connection::open(path)?;
        connection.execute_batch(due)?;
        if finished > 0 {
            connection.execute_batch(&format!(
                "INSERT INTO event_reward_allocation (allocation_id, idempotency_key, {columns})
                 SELECT randomblob(16), 'done-' || n, {values} FROM {one},
                 (WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < {finished}) SELECT n FROM t)"
            ))?;
        }
        connection.query_row(count, [], |row| row.get(0))?
    } else {
        let mut client = postgres::Client::connect(database, postgres::NoTls)?;
        client.batch_execute(due)?;
        if finished > 0 {
            client.batch_execute(&format!(
                "INSERT INTO event_reward_allocation (allocation_id, idempotency_key, {columns})
                 SELECT decode(md5('' || n), 'hex'), 'done-' || n, {values}
                 FROM {one}, generate_series(1, {finished}) n"
            ))?;
        }
        client.batch_execute("VACUUM ANALYZE event_reward_allocation")?;
        client.query_one(count, &[])?.get(0)
    };
    Ok(u64::try_from(count)?)
}

fn same_database(postgres: &str, name: &str) -> String {
    let (server, _) = postgres.rsplit_once('/').unwrap_or((postgres, ""));
    format!("{server}/{name}")
}

pub(crate) fn open(
    running: &Running,
    id: &str,
    kind: &str,
    rewards: &Value,
    more: &Value,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut body = json!({"eventId": id, "name": id, "type": kind, "startsAt": 0,
        "endsAt": 4_102_444_800_000_i64, "rewards": rewards});
    for (field, value) in more.as_object().ok_or("not an object")? {
        body[field] = value.clone();
    }
    running.call("POST", "/v1/admin/events", &body)?;
    running.call("POST", &format!("/v1/admin/events/{id}/open"), &json!({}))?;
    Ok(())
}

/// Waits until a provider has delivered so many.
#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
fn until_delivered(running: &Running, provider: &str, count: u64) -> Result<(), Box<dyn std::error::Error>> {
    let name = format!("guerdon_deliveries_total{{provider=\"{provider}\",outcome=\"SUCCESS\"}} ");
    let waited = Stopwatch::start();
    loop {
        let metrics = running.metrics()?;
        let delivered: f64 =
            metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or("0").parse()?;
        if delivered >= count as f64 {
            return Ok(());
        }
        if waited.elapsed() > Duration::from_mins(5) {
            return Err(format!("{delivered} of {count} were delivered").into());
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
