use super::wiring::{end_traces, handler, source, start_log, stop_signals, traces};
use super::{fail, say};
use crate::settings::Settings;
use guerdon_engine::{Clock, Consumer};
use guerdon_store::{Store, StoreMetrics, StoreOptions};
use prometheus_client::registry::Registry;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::sync::watch;

pub(crate) fn run(settings: &Settings) -> ExitCode {
    if let Err(reason) = start_log(settings) {
        return fail(&reason);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}")),
    };
    match runtime.block_on(consume(settings)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => fail(&reason),
    }
}

async fn consume(settings: &Settings) -> Result<(), String> {
    let (source, handler) = (source(&settings.consume)?, handler(settings)?);
    let signals = stop_signals()?;
    let clock = Arc::new(Clock::new(settings.clock_offset_ms));
    let store_clock = Arc::clone(&clock);
    let mut registry = Registry::default();
    let (traces, traces_end) = traces(settings, &mut registry)?;
    let metrics = StoreMetrics::register(&mut registry);
    let options = StoreOptions { listens: false, readers: 1, ..settings.store.clone() };
    let database = &settings.consume.database;
    let store =
        tokio::task::block_in_place(|| Store::open(database, &options, &metrics, move || store_clock.now()))
            .map_err(|fault| fault.to_string())?;
    let consumer = Consumer::new(store, clock, source, handler, settings.consume.options.clone(), traces);
    let (stop, stopped) = watch::channel(false);
    say(&format!("consuming {} as {}", settings.consume.topic, settings.consume.options.name));
    let telling = tokio::spawn(async move {
        signals.await;
        stop.send_replace(true);
        // Kept until the consumer has stopped.
        std::future::pending::<()>().await;
    });
    let done = consumer.run(stopped).await;
    telling.abort();
    tokio::task::block_in_place(|| consumer.close());
    end_traces(traces_end).await;
    tracing::info!(handled = done.handled, again = done.again, dead = done.dead, "stopped");
    Ok(())
}
