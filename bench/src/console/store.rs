//! A store with a million of nearly everything that pages list, made by calls: what is there is what the product wrote.

use super::watchers::token;
use crate::delivery::open;
use crate::drop::targets::Running;
use crate::load::{self, name};
use guerdon_store::Stopwatch;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const CONNECTIONS: usize = 256;
/// Calls that are made at once; more would not fit into the memory of a small machine.
const CHUNK: u32 = 50_000;
/// How many of what is rare: the first of their kind, so that a list which begins with the newest has all others before them.
const RARE: u32 = 3;
/// Somebody who has something of everything.
pub(super) const SOMEBODY: u32 = 7;

/// Where the store is.
pub(super) enum Folder {
    Kept(PathBuf),
    Temporary(tempfile::TempDir),
}

impl Folder {
    pub(super) fn at(kept: Option<&Path>) -> Result<Self, Box<dyn std::error::Error>> {
        Ok(match kept {
            Some(path) => {
                std::fs::create_dir_all(path)?;
                Self::Kept(path.canonicalize()?)
            }
            None => Self::Temporary(tempfile::tempdir()?),
        })
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("guerdon.db")
}

pub(super) fn database(folder: &Path) -> String {
    format!("sqlite:{}", file(folder).display())
}

/// How much there is.
#[derive(Debug, Serialize)]
pub(super) struct Stored {
    rows: BTreeMap<String, i64>,
    file_mb: u64,
    filled_in_seconds: f64,
}

/// Starts Guerdon on the store, without limits for the few who do everything.
fn start(guerdon: &Path, folder: &Path, per_user: u32) -> Result<Running, Box<dyn std::error::Error>> {
    let own = Arc::new(tempfile::tempdir()?);
    let settings = [
        ("GUERDON_LIMITS__PER_USER", per_user.to_string()),
        // What waits for a provider that is not there does not have to be tried all the time.
        ("GUERDON_ALLOCATIONS__RETRY_DELAY", "1d".into()),
    ];
    let settings = settings.map(|(key, value)| (key.to_owned(), value)).to_vec();
    Running::with_settings(guerdon, &database(folder), own, settings)
}

/// The same as it is usually served.
pub(super) fn serve(guerdon: &Path, folder: &Path) -> Result<Running, Box<dyn std::error::Error>> {
    start(guerdon, folder, 50)
}

pub(super) fn fill(guerdon: &Path, folder: &Path, rows: u32) -> Result<Stored, Box<dyn std::error::Error>> {
    let started = Stopwatch::start();
    if !file(folder).exists() {
        let running = start(guerdon, folder, 0)?;
        Maker { running: &running, rows, half: rows / 2, tenth: rows / 10 }.make()?;
        until_quiet(&running)?;
    }
    let sql = rusqlite::Connection::open(file(folder))?;
    let mut counted = BTreeMap::new();
    for table in TABLES {
        let count = sql.query_row(&format!("SELECT COUNT(*) FROM {table}"), [], |row| row.get(0))?;
        counted.insert(table.to_owned(), count);
    }
    let stored = Stored {
        rows: counted,
        file_mb: std::fs::metadata(file(folder))?.len() >> 20,
        filled_in_seconds: started.elapsed().as_secs_f64().round(),
    };
    println!("{stored:#?}");
    Ok(stored)
}

const TABLES: [&str; 12] = [
    "events",
    "requests",
    "event_reward_allocation",
    "user_reward_requests",
    "event_entry",
    "user_coupon",
    "core_account",
    "core_transfer",
    "core_ledger_entry",
    "integration_outbox_events",
    "users",
    "audit_log",
];

/// Every promise holds on what was made.
pub(super) fn audit(guerdon: &Path, folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let started = Stopwatch::start();
    let status = Command::new(guerdon)
        .args(["audit", "--json", "--fast", "--database", &database(folder)])
        .stdout(std::process::Stdio::null())
        .status()?;
    if !status.success() {
        return Err("the audit found something".into());
    }
    println!("the audit found nothing in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

struct Maker<'a> {
    running: &'a Running,
    rows: u32,
    half: u32,
    tenth: u32,
}

impl Maker<'_> {
    fn make(&self) -> Result<(), Box<dyn std::error::Error>> {
        self.open_events()?;
        self.make_what_is_rare()?;
        let (rows, half, tenth) = (self.rows, self.half, self.tenth);
        self.each("events", rows / 100, "operator", |number| {
            let body = json!({"eventId": format!("draft_{number}"), "name": format!("Event {number}"),
                "type": "FIRST_COME", "startsAt": 1_000, "endsAt": 4_102_444_800_000_i64, "capacityTotal": 10});
            ("POST", "/v1/admin/events".into(), body.to_string())
        })?;
        self.each("users", half, "operator", |number| {
            let status = if number % 5 == 0 { "INACTIVE" } else { "ACTIVE" };
            ("PUT", format!("/v1/admin/users/known-{number:07}"), json!({"status": status}).to_string())
        })?;
        self.each("requests", rows, "", |_| ("POST", "/v1/events/drop/requests".into(), String::new()))?;
        self.each("lottery", tenth, "", |_| ("POST", "/v1/events/raffle/requests".into(), String::new()))?;
        self.each("parcels", tenth, "", |_| ("POST", "/v1/events/parcels/requests".into(), String::new()))?;
        self.each("check-ins", tenth, "", |_| ("POST", "/v1/events/daily/attendance".into(), String::new()))?;
        self.each("plays", tenth, "", |_| ("POST", "/v1/events/wheel/plays".into(), String::new()))?;
        self.each("coupons", half, "", |_| ("POST", "/v1/coupons/ten/issue".into(), String::new()))?;
        self.each("claims", half, "", |_| ("POST", "/v1/event-claims/gift/claim".into(), String::new()))
    }

    fn open_events(&self) -> Result<(), Box<dyn std::error::Error>> {
        let points = json!([{"rewardId": "points", "kind": "POINT", "amount": 10, "currency": "POINT"}]);
        let items = json!([{"rewardId": "parcel", "kind": "ITEM"}]);
        let (running, rows) = (self.running, self.rows);
        // More than half of them win.
        open(running, "drop", "FIRST_COME", &points, &json!({"capacityTotal": rows / 10 * 6}))?;
        open(running, "parcels", "FIRST_COME", &items, &json!({"capacityTotal": rows}))?;
        let cutoff = json!({"capacityTotal": 100, "lotteryCutoffAt": 4_102_444_000_000_i64});
        open(running, "raffle", "LOTTERY", &points, &cutoff)?;
        open(running, "gift", "CLAIM", &points, &json!({}))?;
        let never = json!({"conditions": "size(activity) > 1000"});
        open(running, "hard", "CLAIM", &points, &never)?;
        let daily = json!({"attendance": {"timeZone": "Asia/Seoul", "daily": "points"}});
        open(running, "daily", "ATTENDANCE", &points, &daily)?;
        let prizes = json!([{"rewardId": "points", "weight": 1}, {"rewardId": null, "weight": 9}]);
        open(running, "wheel", "RANDOM", &points, &json!({"random": {"prizes": prizes}}))?;
        let coupon = json!({"couponId": "ten", "name": "Ten off", "totalQuantity": 100_000_000});
        running.call("POST", "/v1/admin/coupons", &coupon)?;
        Ok(())
    }

    /// A few of each kind that nobody has many of.
    fn make_what_is_rare(&self) -> Result<(), Box<dyn std::error::Error>> {
        let running = self.running;
        self.each("rare: users", RARE, "operator", |number| {
            (
                "PUT",
                format!("/v1/admin/users/known-{:07}", 9_000_000 + number),
                json!({"status": "BANNED"}).to_string(),
            )
        })?;
        for number in 0..RARE {
            // It is refused, and stays as what was refused.
            if self.one("POST", "/v1/event-claims/hard/claim", number, "claim").is_ok() {
                return Err("a claim that meets nothing was not refused".into());
            }
            self.one("POST", "/v1/events/parcels/requests", number, "")?;
            self.one("POST", "/v1/coupons/ten/issue", number, "rare")?;
        }
        let list = running.call("GET", "/v1/admin/coupons/ten/user-coupons", &json!({}))?;
        for one in list["items"].as_array().into_iter().flatten() {
            let path =
                format!("/v1/admin/user-coupons/{}/revoke", one["userCouponId"].as_str().unwrap_or_default());
            running.call("POST", &path, &json!({"note": "rare"}))?;
        }
        let list = running.call("GET", "/v1/admin/allocations?eventId=parcels", &json!({}))?;
        for one in list["items"].as_array().into_iter().flatten() {
            let path =
                format!("/v1/admin/allocations/{}/cancel", one["allocationId"].as_str().unwrap_or_default());
            running.call("POST", &path, &json!({}))?;
        }
        Ok(())
    }

    /// A call of one person.
    fn one(
        &self,
        method: &str,
        path: &str,
        number: u32,
        key: &str,
    ) -> Result<Value, Box<dyn std::error::Error>> {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.running.addresses[0]))
            .header("authorization", format!("Bearer {}", token(&format!("rare-{number}"), "USER")?))
            .header("idempotency-key", format!("{key}-{number}"))
            .body(String::new())?;
        Ok(serde_json::from_str(&ureq::run(request)?.body_mut().read_to_string()?)?)
    }

    /// The same call for many: each as a person of their own, or all as one operator.
    fn each(
        &self,
        what: &str,
        count: u32,
        operator: &str,
        call: impl Fn(u32) -> (&'static str, String, String),
    ) -> Result<(), Box<dyn std::error::Error>> {
        let started = Stopwatch::start();
        let address = &self.running.addresses[0];
        let operators = if operator.is_empty() { None } else { Some(token(operator, "OPERATOR")?) };
        let mut first = 0;
        while first < count {
            let last = (first + CHUNK).min(count);
            let mut requests = Vec::new();
            for number in first..last {
                let own = if operators.is_none() { token(&name(number), "USER")? } else { String::new() };
                let token = operators.as_deref().unwrap_or(&own);
                let (method, path, body) = call(number);
                requests.push(format!(
                    "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
                     idempotency-key: {what}-{number:08}\r\ncontent-type: application/json\r\n\
                     content-length: {}\r\n\r\n{body}",
                    body.len()
                ));
            }
            load::send_all(address, &requests, CONNECTIONS)?;
            first = last;
        }
        println!("{count} {what} in {:.0} s", started.elapsed().as_secs_f64());
        Ok(())
    }
}

/// Waits until everything that follows by itself is done.
fn until_quiet(running: &Running) -> Result<(), Box<dyn std::error::Error>> {
    const QUIET: [&str; 3] = [
        "guerdon_allocations_waiting{provider=\"wallet\"} 0",
        "guerdon_ledger_backlog 0",
        "guerdon_user_index_pending 0",
    ];
    let waited = Stopwatch::start();
    let mut quiet = 0;
    // The gauges are taken once a second, so one look may be of before.
    while quiet < 3 {
        let metrics = running.metrics()?;
        let missing = QUIET.iter().find(|wanted| !metrics.lines().any(|line| line == **wanted));
        quiet = if missing.is_none() { quiet + 1 } else { 0 };
        if waited.elapsed() > Duration::from_mins(20) {
            return Err(format!("it is still not so: {missing:?}").into());
        }
        std::thread::park_timeout(Duration::from_secs(1));
    }
    println!("everything was delivered {:.0} s later", waited.elapsed().as_secs_f64());
    Ok(())
}
