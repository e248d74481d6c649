//! What people build by hand, written as well as they would write it; all answer as Guerdon does, with 202 or 200.

use super::SECRET;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use clap::{Args, ValueEnum};
use deadpool_postgres::{ManagerConfig, Pool, RecyclingMethod};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use redis::aio::MultiplexedConnection;
use serde::Deserialize;
use std::sync::Arc;
use tokio_postgres::NoTls;

const POOL: usize = 32;
/// How many the worker of (d) takes from the stream at a time.
const WORKER_BATCH: usize = 500;
const STREAM: &str = "requests:drop";
const GROUP: &str = "workers";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Nothing,
    RowLock,
    ConditionalUpdate,
    RedisThenInsert,
    RedisStream,
}

#[derive(Debug, Args)]
pub(crate) struct PeerOptions {
    kind: Kind,
    #[arg(long)]
    postgres: String,
    #[arg(long)]
    redis: Option<String>,
    #[arg(long)]
    stock: i64,
}

struct Peer {
    kind: Kind,
    key: DecodingKey,
    validation: Validation,
    pool: Pool,
    redis: Option<MultiplexedConnection>,
    gate: redis::Script,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Checks and counts in one step: 0 is a duplicate, 1 a win, 2 sold out. With a stream it hands the request on as well.
const GATE: &str = r"
if redis.call('SADD', KEYS[1], ARGV[1]) == 0 then return 0 end
local result = 2
if redis.call('DECR', KEYS[2]) >= 0 then result = 1 end
if KEYS[3] then redis.call('XADD', KEYS[3], '*', 'user', ARGV[1], 'result', result) end
return result";

pub(super) fn serve(options: &PeerOptions) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(listen(options)).map_err(|error| error.to_string().into())
}

async fn listen(options: &PeerOptions) -> Result<(), Failure> {
    let manager = deadpool_postgres::Manager::from_config(
        options.postgres.parse()?,
        NoTls,
        ManagerConfig { recycling_method: RecyclingMethod::Fast },
    );
    let pool = Pool::builder(manager).max_size(POOL).build()?;
    let client = pool.get().await?;
    client
        .batch_execute(&format!(
            "CREATE TABLE stock (event TEXT PRIMARY KEY, remaining BIGINT NOT NULL);
             INSERT INTO stock VALUES ('drop', {});
             CREATE TABLE requests (id BIGSERIAL PRIMARY KEY, event TEXT NOT NULL, member TEXT NOT NULL,
                 result BIGINT NOT NULL, created_at TIMESTAMPTZ NOT NULL DEFAULT now(), UNIQUE (event, member))",
            options.stock
        ))
        .await?;
    drop(client);
    let redis = match &options.redis {
        None => None,
        Some(url) => {
            let mut connection =
                redis::Client::open(url.as_str())?.get_multiplexed_async_connection().await?;
            redis::cmd("FLUSHALL").query_async::<()>(&mut connection).await?;
            redis::cmd("SET").arg("stock:drop").arg(options.stock).query_async::<()>(&mut connection).await?;
            let mut group = redis::cmd("XGROUP");
            group.arg("CREATE").arg(STREAM).arg(GROUP).arg("0").arg("MKSTREAM");
            group.query_async::<()>(&mut connection).await?;
            Some(connection)
        }
    };
    let mut validation = Validation::new(Algorithm::HS256);
    // As Guerdon does it: the claims' shape requires `exp`, and the handler compares it with the clock.
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    let peer = Arc::new(Peer {
        kind: options.kind,
        key: DecodingKey::from_secret(SECRET.as_bytes()),
        validation,
        pool,
        redis,
        gate: redis::Script::new(GATE),
    });
    if options.kind == Kind::RedisStream {
        tokio::spawn(work(Arc::clone(&peer)));
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let router = Router::new().route("/v1/events/drop/requests", post(apply)).with_state(peer);
    axum::serve(listener, router).await?;
    Ok(())
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: f64,
}

async fn apply(State(peer): State<Arc<Peer>>, headers: HeaderMap) -> (StatusCode, String) {
    let token = headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let Some(token) = token else { return (StatusCode::UNAUTHORIZED, String::new()) };
    let Ok(verified) = jsonwebtoken::decode::<Claims>(token, &peer.key, &peer.validation) else {
        return (StatusCode::UNAUTHORIZED, String::new());
    };
    #[expect(clippy::disallowed_methods, reason = "a peer has no clock of ours")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    if verified.claims.exp <= now.as_secs_f64() {
        return (StatusCode::UNAUTHORIZED, String::new());
    }
    let user = verified.claims.sub;
    let outcome = match peer.kind {
        Kind::Nothing => Ok(1),
        Kind::RowLock => row_lock(&peer, &user).await,
        Kind::ConditionalUpdate => conditional_update(&peer, &user).await,
        Kind::RedisThenInsert => redis_then_insert(&peer, &user).await,
        Kind::RedisStream => gate(&peer, &user, true).await,
    };
    match outcome {
        Ok(0) => (StatusCode::OK, format!(r#"{{"userId":"{user}","duplicate":true}}"#)),
        Ok(result) => (StatusCode::ACCEPTED, format!(r#"{{"userId":"{user}","result":{result}}}"#)),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

const INSERT: &str = "INSERT INTO requests (event, member, result) VALUES ('drop', $1, $2) ON CONFLICT (event, member) DO NOTHING";

/// (a) Locks the stock's row for the whole of the transaction.
async fn row_lock(peer: &Peer, user: &str) -> Result<i64, Failure> {
    let mut client = peer.pool.get().await?;
    let transaction = client.transaction().await?;
    let lock =
        transaction.prepare_cached("SELECT remaining FROM stock WHERE event = 'drop' FOR UPDATE").await?;
    let remaining: i64 = transaction.query_one(&lock, &[]).await?.get(0);
    let result: i64 = if remaining > 0 { 1 } else { 2 };
    let insert = transaction.prepare_cached(INSERT).await?;
    if transaction.execute(&insert, &[&user, &result]).await? == 0 {
        return Ok(0);
    }
    if result == 1 {
        let take = transaction
            .prepare_cached("UPDATE stock SET remaining = remaining - 1 WHERE event = 'drop'")
            .await?;
        transaction.execute(&take, &[]).await?;
    }
    transaction.commit().await?;
    Ok(result)
}

/// (b) Takes from the stock only while there is some, as the last thing before the commit.
async fn conditional_update(peer: &Peer, user: &str) -> Result<i64, Failure> {
    let mut client = peer.pool.get().await?;
    let transaction = client.transaction().await?;
    let insert = transaction.prepare_cached(INSERT).await?;
    if transaction.execute(&insert, &[&user, &1_i64]).await? == 0 {
        return Ok(0);
    }
    let take = transaction
        .prepare_cached("UPDATE stock SET remaining = remaining - 1 WHERE event = 'drop' AND remaining > 0")
        .await?;
    let mut result = 1;
    if transaction.execute(&take, &[]).await? == 0 {
        result = 2;
        let refuse = transaction
            .prepare_cached("UPDATE requests SET result = 2 WHERE event = 'drop' AND member = $1")
            .await?;
        transaction.execute(&refuse, &[&user]).await?;
    }
    transaction.commit().await?;
    Ok(result)
}

async fn gate(peer: &Peer, user: &str, stream: bool) -> Result<i64, Failure> {
    let mut redis = peer.redis.clone().ok_or("no Redis")?;
    let mut call = peer.gate.prepare_invoke();
    call.key("members:drop").key("stock:drop");
    if stream {
        call.key(STREAM);
    }
    Ok(call.arg(user).invoke_async(&mut redis).await?)
}

/// (c) Redis decides; the database is written before the answer.
async fn redis_then_insert(peer: &Peer, user: &str) -> Result<i64, Failure> {
    let result = gate(peer, user, false).await?;
    if result != 0 {
        let client = peer.pool.get().await?;
        let insert = client.prepare_cached(INSERT).await?;
        client.execute(&insert, &[&user, &result]).await?;
    }
    Ok(result)
}

/// (d) Writes what the stream holds to the database, some time after it was answered. As a member of a consumer group: what
/// a worker took and did not acknowledge is given to another. What is written is acknowledged and taken off the stream.
async fn work(peer: Arc<Peer>) {
    loop {
        if let Err(error) = work_once(&peer).await {
            eprintln!("the worker: {error}");
            return;
        }
    }
}

async fn work_once(peer: &Peer) -> Result<(), Failure> {
    let mut redis = peer.redis.clone().ok_or("no Redis")?;
    let mut take = redis::cmd("XREADGROUP");
    take.arg("GROUP").arg(GROUP).arg("worker-1").arg("COUNT").arg(WORKER_BATCH);
    take.arg("STREAMS").arg(STREAM).arg(">");
    let read: redis::streams::StreamReadReply = take.query_async(&mut redis).await?;
    let (mut ids, mut users, mut results) = (Vec::new(), Vec::new(), Vec::new());
    for entry in read.keys.iter().flat_map(|key| &key.ids) {
        users.push(entry.get::<String>("user").ok_or("no user")?);
        results.push(entry.get::<i64>("result").ok_or("no result")?);
        ids.push(entry.id.as_str());
    }
    if users.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        return Ok(());
    }
    let client = peer.pool.get().await?;
    let insert = client
        .prepare_cached(
            "INSERT INTO requests (event, member, result) SELECT 'drop', * FROM unnest($1::TEXT[], $2::BIGINT[])
             ON CONFLICT (event, member) DO NOTHING",
        )
        .await?;
    client.execute(&insert, &[&users, &results]).await?;
    let mut done = redis::pipe();
    done.cmd("XACK").arg(STREAM).arg(GROUP).arg(&ids).ignore();
    done.cmd("XDEL").arg(STREAM).arg(&ids).ignore();
    Ok(done.query_async(&mut redis).await?)
}
