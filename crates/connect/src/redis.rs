//! Redis, or Valkey, alone or as a cluster: counts coupons.
//!
//! All that it does to a coupon is one call of one script, so nothing comes in between. A script is forgotten when Redis
//! restarts, and another that takes its place never had it: the script's text names the very process that it was loaded
//! into. So a call that finds no script knows that whatever was known of this coupon is in doubt, and
//! [`Taken::Replaced`] says so until somebody has met it, looked at what it knows, and trusts it again.

mod reply;

use guerdon_core::coupons::UserCouponId;
use guerdon_core::{CouponId, Timestamp, UserId};
use guerdon_engine::{
    Begins, Counter, CounterAway as Away, CouponCounter, Entry, Reads, Stopwatch, Take, Taken, Tells, Waiting,
};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{Client, Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex as AsyncMutex;

const SCRIPT: &str = include_str!("redis/counter.lua");
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
/// After a try in vain.
const CONNECT_AGAIN: Duration = Duration::from_millis(200);
/// Anything else may throw away what was counted.
const POLICY: &str = "noeviction";

/// Counts coupons in Redis.
pub struct RedisCounter {
    target: Target,
    connection: AsyncMutex<Connecting>,
    /// Unlike that of any other process.
    name: String,
    met: Mutex<Met>,
    /// For what is only asked: nothing is learned from it about who answers.
    aside: Text,
}

/// How the way to it stands.
#[derive(Default)]
struct Connecting {
    made: Option<Connection>,
    /// When the last try failed, and why: those who waited meanwhile do not try one after the other.
    failed: Option<(Stopwatch, String)>,
}

enum Target {
    One(Client),
    Cluster(Box<ClusterClient>),
}

#[derive(Clone)]
enum Connection {
    One(ConnectionManager),
    Cluster(ClusterConnection),
}

/// A script, and the name that Redis has for it.
#[derive(Clone)]
struct Text {
    body: Arc<str>,
    hash: Arc<str>,
}

impl Text {
    fn new(last_line: &str) -> Self {
        let body = format!("{SCRIPT}-- {last_line}\n");
        let hash = redis::Script::new(&body).get_hash().to_owned();
        Self { body: body.into(), hash: hash.into() }
    }
}

/// By which script each coupon is counted, as Redis names it.
#[derive(Default)]
struct Met {
    /// Those whose count was looked at, and is right.
    trusted: HashMap<CouponId, Arc<str>>,
    /// Those that are being looked at.
    candidates: HashMap<CouponId, Arc<str>>,
}

/// How a call ended that was no answer.
enum Trouble {
    /// It does not know the script: it is not the one that was met, or it was made to forget.
    Unknown,
    Away(String),
}

impl From<Trouble> for Away {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Unknown => Self("it has forgotten what it was taught".into()),
            Trouble::Away(reason) => Self(reason),
        }
    }
}

fn away(reason: impl Into<String>) -> Away {
    Away(reason.into())
}

/// The reason without the address, which may have a password in it.
fn trouble(error: &RedisError) -> Trouble {
    if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) {
        return Trouble::Unknown;
    }
    let detail = error.detail().unwrap_or_default();
    Trouble::Away(format!("{}{}{detail}", error.category(), if detail.is_empty() { "" } else { ": " }))
}

impl RedisCounter {
    /// Where it is: one address, or several of one cluster with commas between. Nothing is connected yet.
    pub fn new(url: &str, name: &str) -> Result<Self, String> {
        let addresses: Vec<_> = url.split(',').map(str::trim).filter(|address| !address.is_empty()).collect();
        let unreadable = |error: RedisError| format!("is no address of Redis: {}", error.category());
        let target = match addresses.as_slice() {
            [] => return Err("is empty".into()),
            [one] => Target::One(Client::open(*one).map_err(unreadable)?),
            several => {
                let cluster = ClusterClient::builder(several.iter().copied())
                    .connection_timeout(CONNECT_TIMEOUT)
                    .response_timeout(RESPONSE_TIMEOUT)
                    .retries(3)
                    .build();
                Target::Cluster(Box::new(cluster.map_err(unreadable)?))
            }
        };
        Ok(Self {
            target,
            connection: AsyncMutex::default(),
            name: name.to_owned(),
            met: Mutex::default(),
            aside: Text::new("aside"),
        })
    }

    fn met(&self) -> MutexGuard<'_, Met> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is taken for granted any more of what is counted by this script.
    fn doubt(&self, script: &str) {
        let mut met = self.met();
        met.trusted.retain(|_, known| **known != *script);
        met.candidates.retain(|_, known| **known != *script);
    }

    async fn connection(&self) -> Result<Connection, Away> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = &held.made {
            return Ok(connection.clone());
        }
        if let Some((since, reason)) = &held.failed
            && since.elapsed() < CONNECT_AGAIN
        {
            return Err(away(reason.clone()));
        }
        match self.connect().await {
            Ok(connection) => {
                held.made = Some(connection.clone());
                Ok(connection)
            }
            Err(error) => {
                let Away(reason) = trouble(&error).into();
                held.failed = Some((Stopwatch::start(), reason.clone()));
                Err(away(reason))
            }
        }
    }

    async fn connect(&self) -> Result<Connection, RedisError> {
        match &self.target {
            Target::One(client) => {
                let config = ConnectionManagerConfig::new()
                    .set_connection_timeout(Some(CONNECT_TIMEOUT))
                    .set_response_timeout(Some(RESPONSE_TIMEOUT))
                    .set_number_of_retries(1)
                    .set_max_delay(Duration::from_millis(100));
                ConnectionManager::new_with_config(client.clone(), config).await.map(Connection::One)
            }
            Target::Cluster(client) => client.get_async_connection().await.map(Connection::Cluster),
        }
    }

    /// Whether it may be used at all: why not, as far as it can be asked.
    pub async fn check(&self) -> Result<(), String> {
        let Ok(any) = CouponId::parse("guerdon") else { return Ok(()) };
        match self.instance(&any, &self.aside).await {
            Err(Away(reason)) if reason.contains(POLICY) => Err(reason),
            Err(away) => {
                tracing::warn!(%away, "Redis cannot be reached yet; coupons are counted once it can");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    /// The process that counts a coupon, told by a script that is loaded into it by that.
    async fn instance(&self, coupon: &CouponId, script: &Text) -> Result<String, Away> {
        let told = self.send(&Call::new(coupon, "meet").by_text(script)).await?;
        let (instance, policy) = reply::instance(&told)?;
        if policy == POLICY {
            return Ok(instance);
        }
        Err(away(format!(
            "Redis has maxmemory-policy {policy} and may throw counts away: it has to be {POLICY}"
        )))
    }

    async fn send(&self, command: &Cmd) -> Result<Value, Trouble> {
        let connection = self.connection().await.map_err(|Away(reason)| Trouble::Away(reason))?;
        let answered = match connection {
            Connection::One(mut one) => command.query_async(&mut one).await,
            Connection::Cluster(mut cluster) => command.query_async(&mut cluster).await,
        };
        answered.map_err(|error| trouble(&error))
    }

    /// Calls a script that only one process of Redis knows.
    async fn call(&self, script: &str, call: &Call) -> Result<Value, Trouble> {
        let answered = self.send(&call.by_hash(script)).await;
        if matches!(answered, Err(Trouble::Unknown)) {
            self.doubt(script);
        }
        answered
    }

    /// Calls a script that says nothing about who answers.
    async fn ask(&self, call: &Call) -> Result<Value, Away> {
        match self.send(&call.by_hash(&self.aside.hash)).await {
            Err(Trouble::Unknown) => Ok(self.send(&call.by_text(&self.aside)).await?),
            answered => Ok(answered?),
        }
    }

    fn trusted(&self, coupon: &CouponId) -> Option<Arc<str>> {
        self.met().trusted.get(coupon).cloned()
    }

    async fn entries(&self, call: &Call, coupon: &CouponId) -> Result<Option<Vec<Entry>>, Away> {
        let Some(script) = self.trusted(coupon) else { return Ok(None) };
        match self.call(&script, call).await {
            Ok(value) => reply::entries(&value).map(Some),
            Err(Trouble::Unknown) => Ok(None),
            Err(trouble) => Err(trouble.into()),
        }
    }

    async fn counted(&self, call: &Call, coupon: &CouponId) -> Result<Taken, Away> {
        let Some(script) = self.trusted(coupon) else { return Ok(Taken::Replaced) };
        match self.call(&script, call).await {
            Ok(value) => reply::taken(&value),
            Err(Trouble::Unknown) => Ok(Taken::Replaced),
            Err(trouble) => Err(trouble.into()),
        }
    }

    /// A step of counting anew, by whoever was met for it.
    async fn step(&self, call: &Call, coupon: &CouponId) -> Result<bool, Away> {
        let candidate = self.met().candidates.get(coupon).cloned();
        let script = candidate.ok_or_else(|| away("it was replaced meanwhile"))?;
        match self.call(&script, call).await? {
            Value::Int(done) => Ok(done == 1),
            _ => Err(away("an answer that makes no sense")),
        }
    }
}

/// A call of the script: an operation on one coupon.
struct Call {
    keys: Vec<String>,
    arguments: Vec<String>,
}

impl Call {
    fn new(coupon: &CouponId, operation: &str) -> Self {
        let key = |name: &str| format!("{name}:{{{coupon}}}");
        let keys = vec![key("epoch"), key("stock"), key("taking"), key("issue")];
        Self { keys, arguments: vec![operation.to_owned()] }
    }

    fn with(mut self, argument: impl std::fmt::Display) -> Self {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = write!(text, "{argument}");
        self.arguments.push(text);
        self
    }

    fn claim(mut self, coupon: &CouponId, user: &UserId) -> Self {
        self.keys.push(format!("user_claim:{{{coupon}}}:{user}"));
        self
    }

    fn processed(mut self, coupon: &CouponId, id: UserCouponId) -> Self {
        self.keys.push(format!("event_processed:{{{coupon}}}:{id}"));
        self
    }

    fn by_hash(&self, script: &str) -> Cmd {
        self.command("EVALSHA", script)
    }

    fn by_text(&self, script: &Text) -> Cmd {
        self.command("EVAL", &script.body)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(self.keys.len());
        for text in self.keys.iter().chain(&self.arguments) {
            command.arg(text);
        }
        command
    }
}

impl CouponCounter for RedisCounter {
    fn take<'a>(&'a self, takes: &'a [Take], log: bool) -> Tells<'a, Taken> {
        Box::pin(async move {
            let Some(first) = takes.first() else {
                return Ok(Taken::Counted { epoch: 0, all: Vec::new() });
            };
            let coupon = &first.coupon_id;
            let mut call = Call::new(coupon, "take")
                .with(u8::from(log))
                .with(first.limit)
                .with(first.forget_at)
                .with(first.at);
            for take in takes {
                call = call.claim(coupon, &take.user_id).processed(coupon, take.id);
                call = call.with(take.id).with(&take.user_id).with(&take.key).with(take.at);
            }
            self.counted(&call, coupon).await
        })
    }

    fn give_back<'a>(
        &'a self,
        coupon: &'a CouponId,
        epoch: i64,
        id: UserCouponId,
        user: &'a UserId,
        now: Timestamp,
    ) -> Tells<'a, Taken> {
        Box::pin(async move {
            let call = Call::new(coupon, "give_back").with(epoch).with(id).with(now);
            self.counted(&call.claim(coupon, user).processed(coupon, id), coupon).await
        })
    }

    fn settle<'a>(
        &'a self,
        coupon: &'a CouponId,
        done: &'a [(UserCouponId, String)],
        remember: Duration,
    ) -> Tells<'a, ()> {
        Box::pin(async move {
            if done.is_empty() {
                return Ok(());
            }
            let mut call = Call::new(coupon, "settle").with(remember.as_millis());
            for (id, entry) in done {
                call = call.processed(coupon, *id).with(id).with(entry);
            }
            self.ask(&call).await.map(drop)
        })
    }

    fn meet<'a>(&'a self, coupon: &'a CouponId) -> Tells<'a, String> {
        Box::pin(async move {
            let instance = self.instance(coupon, &self.aside).await?;
            let script = Text::new(&format!("{} {instance}", self.name));
            // Told by the script itself: it is in this one, and in no other.
            if self.instance(coupon, &script).await? != instance {
                return Err(away("it was replaced meanwhile"));
            }
            self.met().candidates.insert(coupon.clone(), script.hash);
            Ok(instance)
        })
    }

    fn trust(&self, coupon: &CouponId) {
        let mut met = self.met();
        if let Some(script) = met.candidates.get(coupon).cloned() {
            met.trusted.insert(coupon.clone(), script);
        }
    }

    fn look<'a>(&'a self, coupon: &'a CouponId) -> Tells<'a, Counter> {
        Box::pin(async move { reply::counter(&self.ask(&Call::new(coupon, "look")).await?) })
    }

    fn begin<'a>(&'a self, coupon: &'a CouponId, epoch: i64) -> Begins<'a> {
        Box::pin(async move { self.step(&Call::new(coupon, "begin").with(epoch), coupon).await })
    }

    fn learn<'a>(&'a self, epoch: i64, holders: &'a [(Take, bool)]) -> Begins<'a> {
        Box::pin(async move {
            let Some((first, _)) = holders.first() else { return Ok(true) };
            let coupon = &first.coupon_id;
            let mut call = Call::new(coupon, "learn").with(epoch).with(first.forget_at);
            for (holder, counts) in holders {
                call = call
                    .claim(coupon, &holder.user_id)
                    .with(&holder.key)
                    .with(holder.id)
                    .with(u8::from(*counts));
            }
            self.step(&call, coupon).await
        })
    }

    fn publish<'a>(&'a self, coupon: &'a CouponId, epoch: i64, left: i64) -> Begins<'a> {
        Box::pin(async move { self.step(&Call::new(coupon, "publish").with(epoch).with(left), coupon).await })
    }

    fn forget<'a>(&'a self, coupon: &'a CouponId, epoch: i64) -> Tells<'a, ()> {
        Box::pin(async move { self.ask(&Call::new(coupon, "forget").with(epoch)).await.map(drop) })
    }

    fn known<'a>(&'a self, coupon: &'a CouponId, user: &'a UserId, key: &'a str) -> Reads<'a, bool> {
        Box::pin(async move {
            let Some(script) = self.trusted(coupon) else { return Ok(None) };
            match self.call(&script, &Call::new(coupon, "known").with(key).claim(coupon, user)).await {
                Ok(value) => reply::known(&value),
                Err(Trouble::Unknown) => Ok(None),
                Err(trouble) => Err(trouble.into()),
            }
        })
    }

    fn read<'a>(&'a self, coupon: &'a CouponId, worker: &'a str, most: usize) -> Reads<'a, Vec<Entry>> {
        Box::pin(
            async move { self.entries(&Call::new(coupon, "read").with(worker).with(most), coupon).await },
        )
    }

    fn take_over<'a>(
        &'a self,
        coupon: &'a CouponId,
        worker: &'a str,
        idle: Duration,
        most: usize,
    ) -> Reads<'a, Vec<Entry>> {
        Box::pin(async move {
            let call = Call::new(coupon, "take_over").with(worker).with(most).with(idle.as_millis());
            self.entries(&call, coupon).await
        })
    }

    fn log<'a>(&'a self, coupon: &'a CouponId, most: usize) -> Tells<'a, Vec<Entry>> {
        Box::pin(async move { reply::entries(&self.ask(&Call::new(coupon, "log").with(most)).await?) })
    }

    fn waiting<'a>(&'a self, coupon: &'a CouponId, id: UserCouponId) -> Tells<'a, Option<Waiting>> {
        Box::pin(async move {
            let call = Call::new(coupon, "waiting").processed(coupon, id);
            reply::waiting(&self.ask(&call).await?)
        })
    }

    fn unsettled<'a>(
        &'a self,
        coupon: &'a CouponId,
        before: Timestamp,
        most: usize,
    ) -> Tells<'a, Vec<UserCouponId>> {
        Box::pin(async move {
            reply::ids(&self.ask(&Call::new(coupon, "unsettled").with(before).with(most)).await?)
        })
    }
}
