//! What is measured: each as a process of its own, started anew for every measurement.

use super::SECRET;
use crate::load::Outcome;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Nothing,
    GuerdonSqlite,
    /// Without the limits that are on unless somebody says otherwise.
    GuerdonUnlimited,
    /// The same behind a gateway.
    GuerdonGateway,
    GuerdonPostgres,
    GuerdonPostgresTwo,
    RowLock,
    ConditionalUpdate,
    RedisThenInsert,
    RedisStream,
}

pub(crate) fn all(redis: bool) -> Vec<Target> {
    use Target::{
        ConditionalUpdate, GuerdonGateway, GuerdonPostgres, GuerdonPostgresTwo, GuerdonSqlite,
        GuerdonUnlimited, Nothing, RedisStream, RedisThenInsert, RowLock,
    };
    let mut targets = vec![
        Nothing,
        GuerdonSqlite,
        GuerdonUnlimited,
        GuerdonGateway,
        GuerdonPostgres,
        GuerdonPostgresTwo,
        RowLock,
        ConditionalUpdate,
    ];
    if redis {
        targets.extend([RedisThenInsert, RedisStream]);
    }
    targets
}

impl Target {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing (JWT only)",
            Self::GuerdonSqlite => "guerdon, SQLite",
            Self::GuerdonUnlimited => "guerdon, SQLite, no limits",
            Self::GuerdonGateway => "guerdon, SQLite, gateway",
            Self::GuerdonPostgres => "guerdon, PostgreSQL",
            Self::GuerdonPostgresTwo => "guerdon x2, PostgreSQL",
            Self::RowLock => "(a) SELECT FOR UPDATE",
            Self::ConditionalUpdate => "(b) conditional UPDATE",
            Self::RedisThenInsert => "(c) Redis, then INSERT",
            Self::RedisStream => "(d) Redis + stream",
        }
    }

    fn peer(self) -> Option<&'static str> {
        match self {
            Self::Nothing => Some("nothing"),
            Self::RowLock => Some("row-lock"),
            Self::ConditionalUpdate => Some("conditional-update"),
            Self::RedisThenInsert => Some("redis-then-insert"),
            Self::RedisStream => Some("redis-stream"),
            Self::GuerdonSqlite
            | Self::GuerdonUnlimited
            | Self::GuerdonGateway
            | Self::GuerdonPostgres
            | Self::GuerdonPostgresTwo => None,
        }
    }

    pub(crate) fn start(
        self,
        guerdon: &Path,
        postgres: &str,
        redis: Option<&str>,
        stock: i64,
    ) -> Result<Running, Box<dyn std::error::Error>> {
        let folder = Arc::new(tempfile::tempdir()?);
        let mut running = Running::new(self, new_database(postgres)?, folder);
        if let Some(peer) = self.peer() {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["peer", peer, "--postgres", &running.database, "--stock", &stock.to_string()]);
            if let Some(redis) = redis {
                command.args(["--redis", redis]);
            }
            running.spawn(command)?;
            return Ok(running);
        }
        if matches!(self, Self::GuerdonSqlite | Self::GuerdonUnlimited | Self::GuerdonGateway) {
            running.database = sqlite_in(&running.folder);
        }
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        match self {
            Self::GuerdonUnlimited => {}
            Self::GuerdonGateway => {
                running.limited = true;
                running.settings.push(set("GUERDON_IDENTITY", "trusted-headers"));
                running.settings.push(set("GUERDON_GATEWAY__SECRET", SECRET));
            }
            _ => running.limited = true,
        }
        for _ in 0..if self == Self::GuerdonPostgresTwo { 2 } else { 1 } {
            running.spawn_guerdon(guerdon)?;
        }
        if self == Self::GuerdonGateway {
            running.spawn_gateway(guerdon)?;
        }
        running.open_drop(stock)?;
        Ok(running)
    }
}

/// The address of the embedded database in a folder.
pub(crate) fn sqlite_in(folder: &TempDir) -> String {
    format!("sqlite:{}", folder.path().join("guerdon.db").display())
}

/// An empty database on the server that the address leads to.
pub(crate) fn new_database(postgres: &str) -> Result<String, Box<dyn std::error::Error>> {
    new_database_named(postgres, "bench")
}

pub(crate) fn new_database_named(postgres: &str, name: &str) -> Result<String, Box<dyn std::error::Error>> {
    let mut admin = postgres::Client::connect(postgres, postgres::NoTls)?;
    admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))?;
    admin.batch_execute(&format!("CREATE DATABASE {name}"))?;
    admin.batch_execute("CHECKPOINT")?;
    let (server, _) = postgres.rsplit_once('/').ok_or("an address without a database")?;
    Ok(format!("{server}/{name}"))
}

/// A target that listens.
pub(crate) struct Running {
    target: Target,
    pub(crate) addresses: Vec<String>,
    children: Vec<Child>,
    database: String,
    folder: Arc<TempDir>,
    offset: String,
    settings: Vec<(String, String)>,
    /// Whether each user has a budget, as is usual; where few users do everything, none has.
    limited: bool,
}

impl Running {
    fn new(target: Target, database: String, folder: Arc<TempDir>) -> Self {
        let (offset, settings) = ("0s".into(), Vec::new());
        let (addresses, children, limited) = (Vec::new(), Vec::new(), false);
        Self { target, addresses, children, database, folder, offset, settings, limited }
    }

    /// Guerdon on the embedded database of a folder, as it is.
    pub(crate) fn on_sqlite(
        guerdon: &Path,
        folder: &Arc<TempDir>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let mut running = Self::new(Target::GuerdonSqlite, sqlite_in(folder), Arc::clone(folder));
        running.spawn_guerdon(guerdon)?;
        Ok(running)
    }

    /// Guerdon on a database as it is, its clock moved by so much.
    pub(crate) fn on(
        guerdon: &Path,
        database: &str,
        offset: &str,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let folder = Arc::new(tempfile::tempdir()?);
        let mut running = Self::new(Target::GuerdonSqlite, database.into(), folder);
        running.offset = offset.into();
        running.spawn_guerdon(guerdon)?;
        Ok(running)
    }

    /// Guerdon with settings, by their environment variables.
    pub(crate) fn with_settings(
        guerdon: &Path,
        database: &str,
        folder: Arc<TempDir>,
        settings: Vec<(String, String)>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let mut running = Self::new(Target::GuerdonSqlite, database.into(), folder);
        running.settings = settings;
        running.spawn_guerdon(guerdon)?;
        Ok(running)
    }

    /// Another program that says where it listens.
    pub(crate) fn of(command: Command) -> Result<Self, Box<dyn std::error::Error>> {
        let folder = Arc::new(tempfile::tempdir()?);
        let mut running = Self::new(Target::Nothing, String::new(), folder);
        running.spawn(command)?;
        Ok(running)
    }

    /// One more Guerdon on the same database.
    pub(crate) fn also(&mut self, guerdon: &Path) -> Result<(), Box<dyn std::error::Error>> {
        self.spawn_guerdon(guerdon)
    }

    fn spawn_guerdon(&mut self, guerdon: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let mut command = Command::new(guerdon);
        command
            .arg("serve")
            .current_dir(self.folder.path())
            .env("GUERDON_LISTEN", "127.0.0.1:0")
            .env("GUERDON_DATABASE", &self.database)
            .env("GUERDON_AUTH__SECRET", SECRET)
            .env("GUERDON_DEV__CLOCK_OFFSET", &self.offset)
            .env("GUERDON_LOG__LEVEL", "error")
            .env("GUERDON_LIMITS__PER_USER", if self.limited { "50" } else { "0" })
            .envs(self.settings.iter().map(|(name, value)| (name, value)));
        self.spawn(command)
    }

    /// From here on everything goes through a gateway.
    fn spawn_gateway(&mut self, guerdon: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let mut command = Command::new(guerdon);
        command.arg("gateway").current_dir(self.folder.path());
        for address in self.addresses.drain(..) {
            command.args(["--upstream", &format!("http://{address}")]);
        }
        command
            .env("GUERDON_LISTEN", "127.0.0.1:0")
            .env("GUERDON_AUTH__SECRET", SECRET)
            .env("GUERDON_GATEWAY__SECRET", SECRET)
            .env("GUERDON_LOG__LEVEL", "error");
        self.spawn(command)?;
        // It asks its servers before it passes anything on.
        for _ in 0..200 {
            let text = ureq::get(format!("http://{}/metrics", self.addresses[0]))
                .call()?
                .body_mut()
                .read_to_string()?;
            if text.contains("} 1") {
                return Ok(());
            }
            std::thread::park_timeout(std::time::Duration::from_millis(20));
        }
        Err("the gateway does not find its server".into())
    }

    /// Starts a process and reads from its first line where it listens.
    fn spawn(&mut self, mut command: Command) -> Result<(), Box<dyn std::error::Error>> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().ok_or("no output")?;
        self.children.push(child);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on http://").ok_or("it did not start")?;
        self.addresses.push(address.into());
        Ok(())
    }

    pub(crate) fn call(
        &self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<Value, Box<dyn std::error::Error>> {
        let text = self.ask(method, path, body.to_string())?.body_mut().read_to_string()?;
        Ok(serde_json::from_str(&text)?)
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        body: String,
    ) -> Result<ureq::http::Response<ureq::Body>, Box<dyn std::error::Error>> {
        let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
        let claims = json!({"sub": "op", "roles": ["OPERATOR"], "exp": 4_102_444_800_i64});
        let token = jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key)?;
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.addresses[0]))
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .body(body)?;
        Ok(ureq::run(request)?)
    }

    /// Saves what a call answers.
    pub(crate) fn download(&self, path: &str, file: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let mut answer = self.ask("GET", path, String::new())?;
        let mut file = std::fs::File::create(file)?;
        std::io::copy(&mut answer.body_mut().as_reader(), &mut file)?;
        Ok(())
    }

    pub(crate) fn open_drop(&self, stock: i64) -> Result<(), Box<dyn std::error::Error>> {
        let body = json!({"eventId": "drop", "name": "Drop", "type": "FIRST_COME", "startsAt": 0,
            "endsAt": 4_102_444_800_000_i64, "capacityTotal": stock});
        self.call("POST", "/v1/admin/events", &body)?;
        self.call("POST", "/v1/admin/events/drop/open", &json!({}))?;
        Ok(())
    }

    /// How many applications Guerdon has.
    pub(crate) fn stored(&self) -> Result<i64, Box<dyn std::error::Error>> {
        let summary = self.call("GET", "/v1/admin/events/drop/summary", &json!({}))?;
        let counts = summary["byStatus"].as_object().ok_or("no counts")?;
        Ok(counts.values().filter_map(Value::as_i64).sum())
    }

    pub(crate) fn metrics(&self) -> Result<String, Box<dyn std::error::Error>> {
        Ok(ureq::get(format!("http://{}/metrics", self.addresses[0])).call()?.body_mut().read_to_string()?)
    }

    /// The most memory that the process has had, in MB.
    pub(crate) fn peak_memory_mb(&self) -> Result<u64, Box<dyn std::error::Error>> {
        peak_memory_mb(self.children.first().ok_or("nothing runs")?)
    }

    /// Which share of what was accepted is stored. Only a worker behind a stream may still be writing.
    pub(crate) fn check(&self, outcome: &Outcome) -> Result<f64, Box<dyn std::error::Error>> {
        let there = match self.target {
            Target::Nothing => return Ok(1.0),
            Target::GuerdonSqlite
            | Target::GuerdonUnlimited
            | Target::GuerdonGateway
            | Target::GuerdonPostgres
            | Target::GuerdonPostgresTwo => self.stored()?,
            _ => {
                let mut sql = postgres::Client::connect(&self.database, postgres::NoTls)?;
                sql.query_one("SELECT COUNT(*) FROM requests", &[])?.get(0)
            }
        };
        let expected = i64::try_from(outcome.accepted)?;
        if self.target == Target::RedisStream {
            println!("  (d) had {there} of {expected} rows in the database when the last answer came");
        } else if there != expected {
            return Err(format!("{}: {expected} accepted, {there} stored", self.target.name()).into());
        }
        #[expect(clippy::cast_precision_loss, reason = "far fewer rows than 2^52")]
        Ok(there as f64 / expected.max(1) as f64)
    }
}

/// The most memory that a process has had, in MB.
pub(crate) fn peak_memory_mb(child: &Child) -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? / 1024)
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
