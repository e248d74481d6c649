use super::wiring::{
    counter, end_traces, listening, providers, scheme, services, sink, start_log, stop_signals, traces,
    verifier,
};
use super::{fail, say};
use crate::settings::Settings;
use guerdon_engine::{Clock, Engine, EngineMetrics, Outside};
use guerdon_server::{App, GatewayKey, Guard, HttpMetrics, Identities, Trusted};
use guerdon_store::{Silence, Store, StoreMetrics, StoreOptions};
use prometheus_client::registry::Registry;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// A server that people can come to.
pub(super) struct Open {
    pub(super) address: SocketAddr,
    pub(super) clock: Arc<Clock>,
    /// Becomes true when the server is asked to stop.
    pub(super) stopping: watch::Receiver<bool>,
}

pub(crate) fn run(settings: &Settings) -> ExitCode {
    run_with(settings, |_| ())
}

/// Serves, and begins something of its own, on the server's runtime, once people can come.
pub(super) fn run_with(settings: &Settings, begin: impl FnOnce(Open)) -> ExitCode {
    if let Err(reason) = start_log(settings) {
        return fail(&reason);
    }
    for key in settings.without_effect() {
        tracing::warn!(key, "this setting has no effect in this version");
    }
    let silence = Arc::new(OnceLock::<Silence>::new());
    let resting = Arc::clone(&silence);
    let built = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // A worker that rests has read whatever had arrived.
        .on_thread_park(move || {
            if let Some(silence) = resting.get() {
                silence.falls();
            }
        })
        .build();
    let runtime = match built {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}")),
    };
    match runtime.block_on(serve(settings, &silence, begin)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => fail(&reason),
    }
}

async fn serve(
    settings: &Settings,
    silence: &OnceLock<Silence>,
    begin: impl FnOnce(Open),
) -> Result<(), String> {
    let listener = TcpListener::bind(settings.listen)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", settings.listen))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let stop = stop_signals()?;
    let mut registry = Registry::default();
    let (traces, traces_end) = traces(settings, &mut registry)?;
    let outside = Outside {
        sink: sink(settings)?,
        providers: providers(settings)?,
        services: services(settings)?,
        counter: counter(settings).await?,
        traces,
    };

    let clock = Arc::new(Clock::new(settings.clock_offset_ms));
    let store_metrics = StoreMetrics::register(&mut registry);
    let store_clock = Arc::clone(&clock);
    let options = StoreOptions { answers_on: Some(Handle::current()), ..settings.store.clone() };
    let store = tokio::task::block_in_place(|| {
        Store::open(&settings.database, &options, &store_metrics, move || store_clock.now())
    })
    .map_err(|fault| fault.to_string())?;
    let _ = silence.set(store.silence());
    let options = settings.engine;
    let engine_metrics = EngineMetrics::register(&mut registry);
    let engine = Engine::start(store, Arc::clone(&clock), options, outside, engine_metrics)
        .await
        .map_err(|failure| failure.to_string())?;
    let identities = identities(settings, &mut registry).await?;
    let metrics = HttpMetrics::register(&mut registry);
    let listening = listening(settings, metrics.connections())?;
    let app = Arc::new(App {
        engine: Arc::clone(&engine),
        identities,
        guard: Guard::new(settings.limits, settings.proxies.clone(), listening.tls.is_some()),
        http: settings.http,
        metrics,
        registry,
        stopping: listening.stopping.clone(),
    });
    let router = guerdon_server::router(app);

    say(&format!("listening on {}://{address}", scheme(&listening)));
    tracing::info!(%address, database = %settings.database, "serving");
    begin(Open { address, clock, stopping: listening.stopping.subscribe() });
    guerdon_server::serve(listener, listening, router, stop).await;
    engine.stop_delivering().await;
    engine.stop_publishing().await;
    tokio::task::block_in_place(|| engine.close());
    end_traces(traces_end).await;
    tracing::info!("stopped");
    Ok(())
}

/// How callers are known.
async fn identities(settings: &Settings, registry: &mut Registry) -> Result<Identities, String> {
    if let (true, Some(secret)) = (settings.behind_gateway, &settings.gateway.secret) {
        let window = i64::try_from(settings.gateway.window.as_millis()).unwrap_or(i64::MAX);
        let trusted = Trusted::new(GatewayKey::new(secret), window);
        return Ok(Identities::Gateway(Arc::new(trusted)));
    }
    Ok(Identities::Tokens(verifier(settings, registry).await?))
}
