//! Transfers between many accounts, and all of them out of one: Guerdon beside one transaction per transfer.

mod peer;

pub(crate) use peer::PeerOptions;

use crate::drop::SECRET;
use crate::drop::targets::{Running, new_database_named, sqlite_in};
use crate::load::{self, Plan, Requests};
use crate::report;
use clap::Args;
use guerdon_store::Stopwatch;
use jsonwebtoken::{EncodingKey, Header};
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Keys that are issued before each measurement, for as many transfers as any machine would make in it.
const KEYS: usize = 200_000;
const EXPIRES: i64 = 4_102_444_800_000;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long, default_value = "target/release/guerdon")]
    guerdon: PathBuf,
    /// A PostgreSQL at which databases can be created
    #[arg(long, value_name = "URL")]
    postgres: String,
    #[arg(long, default_values_t = [64, 256])]
    connections: Vec<usize>,
    #[arg(long, default_value_t = 10_000)]
    accounts: usize,
    /// How long each measurement lasts
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    #[arg(long, default_value_t = 1)]
    warm_up: u64,
    /// How many measurements; the median is reported
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only targets whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    #[arg(long, default_value = "bench/results/transfers.json")]
    save: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Pattern {
    /// From anybody to anybody.
    Spread,
    /// All out of one account.
    Hot,
    /// From anybody, each with a call for its key before it.
    WithKey,
}

impl Pattern {
    const ALL: [Self; 3] = [Self::Spread, Self::Hot, Self::WithKey];

    const fn name(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Hot => "one hot account",
            Self::WithKey => "spread, key and transfer",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct Figure {
    target: String,
    pattern: Pattern,
    connections: usize,
    transfers_per_second: f64,
    /// Against one transaction per transfer, in the same round.
    ratio: f64,
    p50_ms: f64,
    p99_ms: f64,
    cpu_us_per_transfer: f64,
    /// How long the ledger took to catch up once the last transfer was answered.
    ledger_seconds: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Peer,
    Sqlite,
    Postgres,
    PostgresTwo,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Peer, Self::Sqlite, Self::Postgres, Self::PostgresTwo];

    const fn name(self) -> &'static str {
        match self {
            Self::Peer => "one transaction each",
            Self::Sqlite => "guerdon, SQLite",
            Self::Postgres => "guerdon, PostgreSQL",
            Self::PostgresTwo => "guerdon x2, PostgreSQL",
        }
    }
}

/// A target with its accounts.
struct Bank {
    kind: Kind,
    running: Running,
    database: String,
    accounts: Arc<Vec<i64>>,
    _folder: TempDir,
}

fn owner(number: usize) -> String {
    load::name(u32::try_from(number).unwrap_or(0))
}

/// The tokens of everybody, and of the operator last.
fn tokens(people: usize) -> Result<Vec<Box<str>>, Box<dyn std::error::Error>> {
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let sign = |sub: &str, role: &str| {
        let claims = json!({"sub": sub, "roles": [role], "exp": 4_102_444_800_i64});
        jsonwebtoken::encode(&Header::default(), &claims, &key).map(String::into_boxed_str)
    };
    let mut tokens: Vec<_> =
        (0..people).map(|number| sign(&owner(number), "USER")).collect::<Result<_, _>>()?;
    tokens.push(sign("op", "OPERATOR")?);
    Ok(tokens)
}

fn post(address: &str, path: &str, token: &str, key: Option<&str>, body: &str) -> String {
    let key = key.map_or_else(String::new, |key| format!("idempotency-key: {key}\r\n"));
    format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n{key}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

impl Bank {
    fn open(
        kind: Kind,
        options: &Options,
        guerdon: &Path,
        tokens: &[Box<str>],
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let people = options.accounts;
        println!("opening {people} accounts: {}", kind.name());
        if kind == Kind::Peer {
            let database = new_database_named(&options.postgres, "bench_peer")?;
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["transfer-peer", "--postgres", &database, "--accounts", &people.to_string()]);
            let running = Running::of(command)?;
            let accounts = (1..=i64::try_from(people)?).collect();
            return Ok(Self { kind, running, database, accounts: Arc::new(accounts), _folder: folder });
        }
        let database = match kind {
            Kind::Sqlite => sqlite_in(&folder),
            Kind::PostgresTwo => new_database_named(&options.postgres, "bench_two")?,
            _ => new_database_named(&options.postgres, "bench_one")?,
        };
        let mut running = Running::on(guerdon, &database, "0s")?;
        let (address, operator) = (running.addresses[0].clone(), &tokens[people]);
        let opening: Vec<_> = (0..people)
            .map(|number| {
                let body = format!(r#"{{"ownerId": "{}", "currency": "KRW", "scale": 0}}"#, owner(number));
                post(&address, "/v1/admin/accounts", operator, None, &body)
            })
            .collect();
        load::send_all(&address, &opening, 64)?;
        let accounts = numbers(&database, people)?;
        let deposits: Vec<_> = accounts
            .iter()
            .map(|account| {
                let path = format!("/v1/admin/accounts/{account}/deposit");
                post(&address, &path, operator, Some(&format!("first-{account}")), r#"{"amount": 1e12}"#)
            })
            .collect();
        load::send_all(&address, &deposits, 64)?;
        if kind == Kind::PostgresTwo {
            running.also(guerdon)?;
        }
        Ok(Self { kind, running, database, accounts: Arc::new(accounts), _folder: folder })
    }

    /// Issues keys straight into the table, as so many calls would: the measurement is of transfers.
    fn issue(&self, round: usize, owners: &[usize]) -> Result<Vec<String>, Box<dyn std::error::Error>> {
        let keys: Vec<_> = (0..owners.len()).map(|number| key(round, number)).collect();
        if let Some(path) = self.database.strip_prefix("sqlite:") {
            let mut connection = rusqlite::Connection::open(path)?;
            connection.busy_timeout(Duration::from_secs(10))?;
            let transaction = connection.transaction()?;
            {
                let mut insert = transaction.prepare(
                    "INSERT INTO integration_idempotency_key
                         (idempotency_key, client_id, scope, epoch, created_at, expires_at)
                     VALUES (?1, ?2, 'TRANSFER', 0, ?3, ?3)",
                )?;
                for (key, person) in keys.iter().zip(owners) {
                    insert.execute(rusqlite::params![key, owner(*person), EXPIRES])?;
                }
            }
            transaction.commit()?;
        } else if self.kind != Kind::Peer {
            let mut sql = postgres::Client::connect(&self.database, postgres::NoTls)?;
            let names: Vec<_> = owners.iter().map(|person| owner(*person)).collect();
            sql.execute(
                "INSERT INTO integration.idempotency_key
                     (idempotency_key, client_id, scope, epoch, created_at, expires_at)
                 SELECT key, client, 'TRANSFER', 0, $3, $3 FROM unnest($1::TEXT[], $2::TEXT[]) AS row (key, client)",
                &[&keys, &names, &EXPIRES],
            )?;
            sql.batch_execute("CHECKPOINT")?;
        }
        Ok(keys)
    }

    fn transfers(&self) -> Result<i64, Box<dyn std::error::Error>> {
        number(
            &self.database,
            match self.kind {
                Kind::Peer => "SELECT COUNT(*) FROM transfer",
                _ => "SELECT COUNT(*) FROM core.transfer WHERE kind = 'TRANSFER'",
            },
        )
    }

    /// Waits until the ledger owes nothing; how long that took.
    fn settle(&self) -> Result<f64, Box<dyn std::error::Error>> {
        let started = Stopwatch::start();
        while self.kind != Kind::Peer
            && number(&self.database, "SELECT COUNT(*) FROM core.ledger_backlog")? > 0
        {
            std::thread::park_timeout(Duration::from_millis(20));
        }
        Ok(started.elapsed().as_secs_f64())
    }
}

/// As ours are written: ordered by time.
fn key(round: usize, number: usize) -> String {
    format!("0192aaaa-{round:04x}-7000-8000-{number:012x}")
}

fn number(database: &str, sql: &str) -> Result<i64, Box<dyn std::error::Error>> {
    match database.strip_prefix("sqlite:") {
        Some(path) => {
            let connection = rusqlite::Connection::open(path)?;
            connection.busy_timeout(Duration::from_secs(10))?;
            Ok(connection.query_row(&sql.replace("core.", "core_"), [], |row| row.get(0))?)
        }
        None => Ok(postgres::Client::connect(database, postgres::NoTls)?.query_one(sql, &[])?.get(0)),
    }
}

/// The numbers of everybody's accounts, in the order of the people.
fn numbers(database: &str, people: usize) -> Result<Vec<i64>, Box<dyn std::error::Error>> {
    let sql = "SELECT owner_id, account_id FROM core.account WHERE kind = 'MEMBER'";
    let found: std::collections::HashMap<String, i64> = match database.strip_prefix("sqlite:") {
        Some(path) => {
            let connection = rusqlite::Connection::open(path)?;
            let mut prepared = connection.prepare(&sql.replace("core.", "core_"))?;
            let rows = prepared.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<Result<_, _>>()?
        }
        None => {
            let rows = postgres::Client::connect(database, postgres::NoTls)?.query(sql, &[])?;
            rows.iter().map(|row| (row.get(0), row.get(1))).collect()
        }
    };
    (0..people)
        .map(|number| found.get(&owner(number)).copied().ok_or_else(|| "an account is missing".into()))
        .collect()
}

/// Transfers whose keys were issued before.
#[derive(Clone)]
struct Orders {
    pattern: Pattern,
    tokens: Arc<Vec<Box<str>>>,
    accounts: Arc<Vec<i64>>,
    /// Who pays, in turn, and under which key.
    payers: Arc<Vec<usize>>,
    keys: Arc<Vec<String>>,
}

impl Orders {
    fn order(&self, payer: usize, number: usize) -> String {
        let others = self.accounts.len() - 1;
        let receiver = (payer + 1 + number.wrapping_mul(7_919) % others) % self.accounts.len();
        let (from, to) = (self.accounts[payer], self.accounts[receiver]);
        format!(r#"{{"fromAccountId":{from},"toAccountId":{to},"amount":1}}"#)
    }
}

impl Requests for Orders {
    fn request(&self, number: usize, connection: usize, address: &str, before: &str) -> Option<String> {
        if self.pattern != Pattern::WithKey {
            let (payer, key) = (*self.payers.get(number)?, self.keys.get(number)?);
            let body = self.order(payer, number);
            return Some(post(address, "/v1/transfers", &self.tokens[payer], Some(key), &body));
        }
        let payer = connection % self.accounts.len();
        let token = &self.tokens[payer];
        let issued = before.split_once("\"idempotencyKey\":\"").and_then(|(_, rest)| rest.split_once('"'));
        Some(match issued {
            None => post(address, "/v1/idempotency-keys", token, None, r#"{"scope":"TRANSFER"}"#),
            Some((key, _)) => post(address, "/v1/transfers", token, Some(key), &self.order(payer, number)),
        })
    }
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let guerdon = options.guerdon.canonicalize()?;
    let tokens = Arc::new(tokens(options.accounts)?);
    let wanted = |kind: &Kind| *kind == Kind::Peer || kind.name().contains(&options.only);
    let mut banks = Vec::new();
    for kind in Kind::ALL.into_iter().filter(wanted) {
        banks.push(Bank::open(kind, options, &guerdon, &tokens)?);
    }
    let (mut figures, mut round) = (Vec::new(), 0);
    for pattern in Pattern::ALL {
        for connections in &options.connections {
            let mut rounds: Vec<Vec<Figure>> = vec![Vec::new(); banks.len()];
            for _ in 0..options.rounds {
                let mut peer = None;
                for (bank, figures) in banks.iter().zip(&mut rounds) {
                    // The peer has one call for a transfer in any case.
                    let pattern = if bank.kind == Kind::Peer && pattern == Pattern::WithKey {
                        Pattern::Spread
                    } else {
                        pattern
                    };
                    round += 1;
                    let figure = measure(options, bank, &tokens, pattern, *connections, round, peer)?;
                    peer = peer.or(Some(figure.transfers_per_second));
                    println!("{}", row(&figure).join("  "));
                    figures.push(figure);
                }
            }
            for mut rounds in rounds {
                rounds.sort_by(|a, b| {
                    (a.ratio, a.transfers_per_second)
                        .partial_cmp(&(b.ratio, b.transfers_per_second))
                        .unwrap_or(std::cmp::Ordering::Equal)
                });
                let middle = rounds.len() / 2;
                figures.extend(rounds.into_iter().nth(middle).map(|figure| Figure { pattern, ..figure }));
            }
        }
    }
    for bank in banks.iter().filter(|bank| bank.kind != Kind::Peer) {
        let audit =
            Command::new(&guerdon).args(["audit", "--fast", "--database", &bank.database]).output()?;
        if !audit.status.success() {
            return Err(format!("{}: {}", bank.kind.name(), String::from_utf8_lossy(&audit.stdout)).into());
        }
        println!("the audit of {} is clean, over {} transfers", bank.kind.name(), bank.transfers()?);
    }
    println!();
    report::print_table(&std::iter::once(heads()).chain(figures.iter().map(row)).collect::<Vec<_>>());
    report::save(&options.save, &figures)
}

fn measure(
    options: &Options,
    bank: &Bank,
    tokens: &Arc<Vec<Box<str>>>,
    pattern: Pattern,
    connections: usize,
    round: usize,
    peer: Option<f64>,
) -> Result<Figure, Box<dyn std::error::Error>> {
    let payer = |number: usize| match pattern {
        Pattern::Hot => 0,
        Pattern::Spread | Pattern::WithKey => number.wrapping_mul(104_729) % options.accounts,
    };
    let payers: Vec<_> = (0..KEYS).map(payer).collect();
    let keys = if pattern == Pattern::WithKey { Vec::new() } else { bank.issue(round, &payers)? };
    let orders = Orders {
        pattern,
        tokens: Arc::clone(tokens),
        accounts: Arc::clone(&bank.accounts),
        payers: Arc::new(payers),
        keys: Arc::new(keys),
    };
    let seconds = Duration::from_secs;
    let plan =
        Plan { connections, warm_up: seconds(options.warm_up), time: seconds(options.seconds), rate: None };
    let before = bank.transfers()?;
    let outcome = load::run(&bank.running.addresses, &orders, plan)?;
    let ledger_seconds = bank.settle()?;
    let made = bank.transfers()? - before;
    if made != i64::try_from(outcome.done)? {
        return Err(format!("{}: {} were answered, {made} are there", bank.kind.name(), outcome.done).into());
    }
    // With its key a transfer is two calls.
    let calls = if pattern == Pattern::WithKey { 2.0 } else { 1.0 };
    let rate = outcome.rate() / calls;
    Ok(Figure {
        target: bank.kind.name().into(),
        pattern,
        connections,
        transfers_per_second: rate.round(),
        ratio: rate / peer.unwrap_or(rate),
        p50_ms: outcome.percentile(0.5),
        p99_ms: outcome.percentile(0.99),
        cpu_us_per_transfer: outcome.cpu_us_per_request() * calls,
        ledger_seconds,
    })
}

fn heads() -> Vec<String> {
    ["target", "pattern", "conns", "transfers/s", "ratio", "p50 ms", "p99 ms", "cpu µs", "ledger s"]
        .map(String::from)
        .to_vec()
}

fn row(figure: &Figure) -> Vec<String> {
    vec![
        figure.target.clone(),
        figure.pattern.name().into(),
        figure.connections.to_string(),
        format!("{:.0}", figure.transfers_per_second),
        format!("{:.2}", figure.ratio),
        format!("{:.2}", figure.p50_ms),
        format!("{:.2}", figure.p99_ms),
        format!("{:.1}", figure.cpu_us_per_transfer),
        format!("{:.1}", figure.ledger_seconds),
    ]
}

pub(crate) fn serve_peer(options: &PeerOptions) -> Result<(), Box<dyn std::error::Error>> {
    peer::serve(options)
}
