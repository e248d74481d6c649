//! What people write by hand: one PostgreSQL transaction for each transfer, both accounts locked in the order of their
//! numbers, the key unique, two entries.

use crate::drop::SECRET;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use clap::Args;
use deadpool_postgres::{ManagerConfig, Pool, RecyclingMethod};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use std::sync::Arc;
use tokio_postgres::NoTls;

const POOL: usize = 32;

#[derive(Debug, Args)]
pub(crate) struct PeerOptions {
    #[arg(long)]
    postgres: String,
    /// Accounts 1 to this, each with plenty
    #[arg(long)]
    accounts: i64,
}

struct Peer {
    key: DecodingKey,
    validation: Validation,
    pool: Pool,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

pub(super) fn serve(options: &PeerOptions) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(listen(options)).map_err(|error| error.to_string().into())
}

async fn listen(options: &PeerOptions) -> Result<(), Failure> {
    let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = deadpool_postgres::Manager::from_config(options.postgres.parse()?, NoTls, config);
    let pool = Pool::builder(manager).max_size(POOL).build()?;
    let tables = format!(
        "CREATE TABLE account (id BIGINT PRIMARY KEY, owner TEXT NOT NULL, balance BIGINT NOT NULL CHECK (balance >= 0));
         CREATE TABLE transfer (id BIGSERIAL PRIMARY KEY, key TEXT NOT NULL UNIQUE, from_id BIGINT NOT NULL,
             to_id BIGINT NOT NULL, amount BIGINT NOT NULL, created_at TIMESTAMPTZ NOT NULL DEFAULT now());
         CREATE TABLE entry (id BIGSERIAL PRIMARY KEY, transfer_id BIGINT NOT NULL, account_id BIGINT NOT NULL,
             amount BIGINT NOT NULL, balance_after BIGINT NOT NULL);
         CREATE INDEX entry_by_account ON entry (account_id, id);
         INSERT INTO account SELECT n, 'owner', 1000000000000 FROM generate_series(1, {}) n; ANALYZE account",
        options.accounts
    );
    pool.get().await?.batch_execute(&tables).await?;
    let mut validation = Validation::new(Algorithm::HS256);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    let key = DecodingKey::from_secret(SECRET.as_bytes());
    let peer = Arc::new(Peer { key, validation, pool });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, Router::new().route("/v1/transfers", post(transfer)).with_state(peer)).await?;
    Ok(())
}

#[derive(Deserialize)]
struct Claims {
    #[serde(rename = "sub")]
    _user: String,
    #[serde(rename = "exp")]
    _expires: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Order {
    from_account_id: i64,
    to_account_id: i64,
    amount: i64,
}

async fn transfer(State(peer): State<Arc<Peer>>, headers: HeaderMap, body: String) -> (StatusCode, String) {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let token = header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let verified =
        token.and_then(|token| jsonwebtoken::decode::<Claims>(token, &peer.key, &peer.validation).ok());
    if verified.is_none() {
        return (StatusCode::UNAUTHORIZED, String::new());
    }
    let (Some(key), Ok(order)) = (header("idempotency-key"), serde_json::from_str::<Order>(&body)) else {
        return (StatusCode::BAD_REQUEST, String::new());
    };
    match make(&peer, key, &order).await {
        Ok(id) => (StatusCode::OK, format!(r#"{{"transferId":{id},"status":"SUCCEEDED"}}"#)),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

async fn make(peer: &Peer, key: &str, order: &Order) -> Result<i64, Failure> {
    let mut client = peer.pool.get().await?;
    let transaction = client.transaction().await?;
    let (from, to, amount) = (order.from_account_id, order.to_account_id, order.amount);
    let insert = transaction
        .prepare_cached(
            "INSERT INTO transfer (key, from_id, to_id, amount) VALUES ($1, $2, $3, $4)
             ON CONFLICT (key) DO NOTHING RETURNING id",
        )
        .await?;
    let Some(row) = transaction.query_opt(&insert, &[&key, &from, &to, &amount]).await? else {
        let find = transaction.prepare_cached("SELECT id FROM transfer WHERE key = $1").await?;
        return Ok(transaction.query_one(&find, &[&key]).await?.get(0));
    };
    let id: i64 = row.get(0);
    // The locks come as late as they can.
    let lock = transaction
        .prepare_cached("SELECT id, balance FROM account WHERE id IN ($1, $2) ORDER BY id FOR UPDATE")
        .await?;
    let rows = transaction.query(&lock, &[&from, &to]).await?;
    let held = |id: i64| rows.iter().find(|row| row.get::<_, i64>(0) == id).map(|row| row.get::<_, i64>(1));
    let (Some(payer), Some(receiver)) = (held(from), held(to)) else { return Err("no such account".into()) };
    if payer < amount {
        return Err("insufficient balance".into());
    }
    let change = transaction
        .prepare_cached(
            "WITH moved AS (UPDATE account SET balance = balance + CASE WHEN id = $2 THEN -CAST($4 AS BIGINT) ELSE CAST($4 AS BIGINT) END
                 WHERE id IN ($2, $3))
             INSERT INTO entry (transfer_id, account_id, amount, balance_after)
             VALUES ($1, $2, -CAST($4 AS BIGINT), $5), ($1, $3, CAST($4 AS BIGINT), $6)",
        )
        .await?;
    let (left, now_held) = (payer - amount, receiver + amount);
    transaction.execute(&change, &[&id, &from, &to, &amount, &left, &now_held]).await?;
    transaction.commit().await?;
    Ok(id)
}
