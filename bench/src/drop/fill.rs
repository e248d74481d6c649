//! Filling a table before something is measured with it.

use crate::load;
use guerdon_core::idempotency::StoredAnswer;
use guerdon_core::{EventId, UserId};
use guerdon_engine::{
    AllocationOptions, ClaimOptions, Clock, CouponOptions, Engine, EngineMetrics, EngineOptions, Issuer,
    KeyOptions, OutboxOptions, Outside, UnknownUsers,
};
use guerdon_store::{Database, Stopwatch, Store, StoreMetrics, StoreOptions};
use prometheus_client::registry::Registry;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How many apply at once while the table is filled.
const FILLERS: usize = 1_500;

/// Lets people apply in this process, as the server would let them.
pub(super) fn fill(
    database: &str,
    event: &str,
    people: Range<u32>,
) -> Result<(), Box<dyn std::error::Error>> {
    println!("filling the table up to {} requests", people.end);
    let started = Stopwatch::start();
    let database = Database::parse(database)?;
    let mut registry = Registry::default();
    let clock = Arc::new(Clock::new(0));
    let store_clock = Arc::clone(&clock);
    let store_metrics = StoreMetrics::register(&mut registry);
    let store = Store::open(&database, &StoreOptions::default(), &store_metrics, move || store_clock.now())?;
    let options = EngineOptions {
        unknown_users: UnknownUsers::Accept,
        requests_ttl: Duration::from_hours(24),
        requests_ttl_after_event: Duration::from_hours(24),
        allocations: AllocationOptions {
            retry_delay: Duration::from_mins(5),
            retry_interval: Duration::from_mins(1),
            max_attempts: 10,
            lease: Duration::from_mins(1),
        },
        claims: ClaimOptions {
            wait: Duration::from_secs(5),
            lease: Duration::from_secs(30),
            timeout: Duration::from_mins(10),
            tries: 4,
            retry_delay: Duration::from_millis(500),
        },
        coupons: CouponOptions { issuer: Issuer::Store, lease: Duration::from_secs(10) },
        keys: KeyOptions {
            ttl: Duration::from_mins(20),
            lease: Duration::from_mins(1),
            watchdog_interval: Duration::from_mins(1),
            render: |rejection, _| StoredAnswer { status: 422, body: rejection.to_string().into() },
        },
        outbox: OutboxOptions {
            lease: Duration::from_secs(30),
            max_attempts: 0,
            dead_hold: false,
            ttl: Duration::from_hours(24),
        },
    };
    let metrics = EngineMetrics::register(&mut registry);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let engine = runtime
        .block_on(Engine::start(store, clock, options, Outside::default(), metrics))
        .map_err(|e| e.to_string())?;
    let next = Arc::new(AtomicU32::new(people.start));
    let (end, event) = (people.end, EventId::parse(event)?);
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..FILLERS {
            let (engine, next, event) = (Arc::clone(&engine), Arc::clone(&next), event.clone());
            tasks.push(tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        return Ok::<(), String>(());
                    }
                    let event = event.clone();
                    let user = UserId::parse(load::name(number))?;
                    engine.apply(event, user).await.map_err(|failure| failure.to_string())?;
                }
            }));
        }
        for task in tasks {
            task.await.map_err(|error| error.to_string())??;
        }
        Ok::<(), String>(())
    })?;
    engine.close();
    println!("filled in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}
