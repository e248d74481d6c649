use super::wiring::{end_traces, listening, scheme, start_log, stop_signals, traces, verifier};
use super::{fail, say};
use crate::settings::{DEVELOPMENT_SECRET, Settings};
use guerdon_engine::Clock;
use guerdon_server::{Gateway, GatewayKey, GatewayOptions, GatewayService, Guard, UpstreamOptions};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::net::TcpListener;

pub(crate) fn run(settings: &Settings) -> ExitCode {
    if let Err(reason) = start_log(settings) {
        return fail(&reason);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}")),
    };
    match runtime.block_on(serve(settings)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => fail(&reason),
    }
}

async fn serve(settings: &Settings) -> Result<(), String> {
    let secret = settings.gateway.secret.as_ref().ok_or(
        "gateway.secret is not set: the servers behind the gateway have to know by it that it is the gateway who speaks",
    )?;
    if settings.auth.secret.as_deref() == Some(DEVELOPMENT_SECRET) && !settings.listen.ip().is_loopback() {
        return Err("auth.secret is the development secret, which everybody knows: set a secret of your own, or auth.jwks".into());
    }
    let mut registry = Registry::default();
    let verifier = verifier(settings, &mut registry).await?;
    let (traces, traces_end) = traces(settings, &mut registry)?;
    let connections = Gauge::default();
    registry.register("guerdon_http_connections", "Connections that are open", connections.clone());
    let listening = listening(settings, connections)?;
    let options = GatewayOptions {
        body_bytes_max: settings.http.body_bytes_max,
        body_timeout: settings.http.body_timeout,
        answer_timeout: settings.gateway.answer_timeout,
    };
    let upstreams = UpstreamOptions {
        urls: settings.gateway.upstreams.clone(),
        health_interval: settings.gateway.health_interval,
    };
    let guard = Guard::new(settings.limits, settings.proxies.clone(), listening.tls.is_some());
    let clock = Arc::new(Clock::new(settings.clock_offset_ms));
    let key = GatewayKey::new(secret);
    let gateway =
        Gateway::new(verifier, guard, key, options, &upstreams, clock, registry)?.followed_by(traces);
    let gateway = Arc::new(gateway);
    let listener = TcpListener::bind(settings.listen)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", settings.listen))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let stop = stop_signals()?;
    let watched = Arc::clone(&gateway);
    tokio::spawn(async move { watched.watch_upstreams().await });
    say(&format!("listening on {}://{address}", scheme(&listening)));
    tracing::info!(%address, upstreams = ?upstreams.urls, "passing calls on");
    guerdon_server::serve(listener, listening, GatewayService(gateway), stop).await;
    end_traces(traces_end).await;
    tracing::info!("stopped");
    Ok(())
}
