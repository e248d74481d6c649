//! What several commands put together: the log, signals, and the outside.

use super::complain;
use crate::settings::{ConsumeSettings, Service, Settings, SinkSettings, WebhookSettings};
use guerdon_connect::{
    HttpProvider, HttpService, KafkaSink, KafkaSource, KeySource, Now, OtlpEnd, RabbitSink, RabbitSource,
    RedisCounter, Secrets, SpanMetrics, Webhook, WebhookHandler, WebhookSink, start_traces,
};
use guerdon_engine::{
    ClaimServices, Clock, CouponCounter, Entropy, Handler, Issuer, LogHandler, Provider, Sink, Source, Traces,
};
use guerdon_server::{FetchKeys, Listening, Verifier};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

/// For one exchange with a broker.
const BROKER_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn start_log(settings: &Settings) -> Result<(), String> {
    let filter = EnvFilter::try_new(&settings.log_level)
        .map_err(|error| format!("log.level cannot be read: {error}"))?;
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let started = if settings.log_json { log.json().try_init() } else { log.with_ansi(false).try_init() };
    started.map_err(|error| format!("the log cannot be started: {error}"))
}

/// Comes with the first signal to stop; with the second one the process ends at once.
pub(super) fn stop_signals() -> Result<impl Future<Output = ()>, String> {
    let listen = |kind| signal(kind).map_err(|error| format!("cannot listen for signals: {error}"));
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    Ok(async move {
        either(&mut terminate, &mut interrupt).await;
        tokio::spawn(async move {
            either(&mut terminate, &mut interrupt).await;
            complain("stopped at once, by a second signal");
            std::process::exit(1);
        });
    })
}

async fn either(first: &mut Signal, second: &mut Signal) {
    tokio::select! {
        _ = first.recv() => {}
        _ = second.recv() => {}
    }
}

/// What is signed carries the time of this machine, whatever the server's clock was moved by.
fn now() -> Now {
    let clock = Clock::new(0);
    Arc::new(move || clock.now())
}

fn webhook(
    key: &str,
    url: &str,
    secrets: &Secrets,
    WebhookSettings { reach, timeout }: WebhookSettings,
    limit: Duration,
) -> Result<Webhook, String> {
    if secrets.is_empty() {
        tracing::warn!(key, "calls are not signed: there is no secret for them");
    }
    Webhook::new(url, secrets.clone(), reach, timeout.min(limit), now())
        .map_err(|reason| format!("{key} {reason}"))
}

/// Where events are published to, if anywhere.
pub(super) fn sink(settings: &Settings) -> Result<Option<Arc<dyn Sink>>, String> {
    let Some(SinkSettings { service, url, topic, source, secrets }) = &settings.sink else { return Ok(None) };
    // Nothing is begun that could outlast the lease.
    let limit = settings.engine.outbox.lease / 2;
    let timeout = BROKER_TIMEOUT.min(limit);
    let (topic, source) = (topic.clone(), source.clone());
    Ok(Some(match service {
        Service::Webhook => {
            let webhook = webhook("outbox.url", url, secrets, settings.webhooks, limit)?;
            Arc::new(WebhookSink::new(webhook, source))
        }
        Service::RabbitMq => Arc::new(RabbitSink::new(url.clone(), topic, source, timeout)),
        Service::Kafka => Arc::new(KafkaSink::new(url, topic, source, timeout)),
    }))
}

/// Who delivers rewards.
pub(super) fn providers(settings: &Settings) -> Result<Vec<Arc<dyn Provider>>, String> {
    let mut providers: Vec<Arc<dyn Provider>> = Vec::new();
    for options in &settings.providers {
        let key = format!("providers.{}.url", options.name);
        if options.secrets.is_empty() {
            tracing::warn!(provider = options.name, "calls are not signed: there is no secret for them");
        }
        let provider =
            HttpProvider::new(options.clone(), now()).map_err(|reason| format!("{key} {reason}"))?;
        providers.push(Arc::new(provider));
    }
    Ok(providers)
}

/// Whom claims ask, where it is not the house.
pub(super) fn services(settings: &Settings) -> Result<ClaimServices, String> {
    let mut services = ClaimServices::default();
    if let Some(options) = &settings.auth_service {
        let service = HttpService::new(options.clone(), now());
        services.users = Some(Arc::new(service.map_err(|reason| format!("services.auth.url {reason}"))?));
    }
    if let Some(options) = &settings.game_data_service {
        let service = HttpService::new(options.clone(), now());
        services.activities =
            Some(Arc::new(service.map_err(|reason| format!("services.gameData.url {reason}"))?));
    }
    Ok(services)
}

/// Who counts coupons, where it is not the store.
pub(super) async fn counter(settings: &Settings) -> Result<Option<Arc<dyn CouponCounter>>, String> {
    if settings.engine.coupons.issuer == Issuer::Store {
        return Ok(None);
    }
    let counter = redis_counter(settings)?;
    counter.check().await?;
    Ok(Some(Arc::new(counter)))
}

/// Redis, whoever counts.
pub(super) fn redis_counter(settings: &Settings) -> Result<RedisCounter, String> {
    let url = settings.redis_url.as_deref().ok_or("redis.url is not set: where is Redis?")?;
    let name = Entropy.id(Clock::new(0).now());
    RedisCounter::new(url, &name).map_err(|reason| format!("redis.url {reason}"))
}

/// Where events are consumed from.
pub(super) fn source(consume: &ConsumeSettings) -> Result<Arc<dyn Source>, String> {
    let url = consume.url.clone().ok_or("consume.url is not set: where is the broker?")?;
    let (topic, name) = (consume.topic.clone(), consume.options.name.clone());
    Ok(match consume.service {
        Service::Kafka => Arc::new(KafkaSource::new(&url, topic, name, BROKER_TIMEOUT)),
        Service::RabbitMq | Service::Webhook => Arc::new(RabbitSource::new(url, topic, name, BROKER_TIMEOUT)),
    })
}

pub(super) fn handler(settings: &Settings) -> Result<Arc<dyn Handler>, String> {
    let Some((url, secrets)) = &settings.consume.webhook else { return Ok(Arc::new(LogHandler)) };
    let webhook = webhook("consume.webhookUrl", url, secrets, settings.webhooks, BROKER_TIMEOUT)?;
    Ok(Arc::new(WebhookHandler::new(webhook)))
}

/// Who keeps traces, if anybody, and how that is ended.
pub(super) fn traces(
    settings: &Settings,
    registry: &mut Registry,
) -> Result<(Traces, Option<OtlpEnd>), String> {
    let metrics = SpanMetrics::register(registry);
    let Some(kept) = &settings.traces else { return Ok((Traces::default(), None)) };
    let (sink, end) =
        start_traces(&kept.options, metrics, now()).map_err(|reason| format!("traces.url {reason}"))?;
    Ok((Traces::kept_by(sink, kept.share), Some(end)))
}

/// Sends what is left of the traces.
pub(super) async fn end_traces(end: Option<OtlpEnd>) {
    if let Some(end) = end {
        end.flush().await;
    }
}

/// Public keys are small.
const KEY_FILE_BYTES_MAX: u64 = 256 << 10;

/// Brings public keys from a file or an address.
fn key_source(place: &str) -> Result<FetchKeys, String> {
    if place.starts_with("http://") || place.starts_with("https://") {
        let source = KeySource::new(place).map_err(|reason| format!("auth.jwks {reason}"))?;
        if source.can_be_tampered_with() {
            tracing::warn!(
                "auth.jwks is fetched without encryption: whoever is on the way can let anybody in"
            );
        }
        return Ok(Arc::new(move || {
            let source = source.clone();
            Box::pin(async move { source.fetch().await })
        }));
    }
    let path = PathBuf::from(place);
    Ok(Arc::new(move || {
        let path = path.clone();
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(move || {
                let unreadable = |error: std::io::Error| format!("{}: {error}", path.display());
                if std::fs::metadata(&path).map_err(unreadable)?.len() > KEY_FILE_BYTES_MAX {
                    return Err(format!("{} is too large for a set of keys", path.display()));
                }
                std::fs::read(&path).map_err(unreadable)
            });
            read.await.unwrap_or_else(|error| Err(error.to_string()))
        })
    }))
}

/// Checks tokens, with keys that are kept up to date.
pub(super) async fn verifier(settings: &Settings, registry: &mut Registry) -> Result<Arc<Verifier>, String> {
    let keys = match &settings.jwks {
        Some(place) => Some((key_source(place)?, settings.key_times)),
        None => None,
    };
    let verifier = Arc::new(Verifier::new(&settings.auth, keys));
    verifier.register(registry);
    if let Err(reason) = verifier.fetch_keys().await {
        if settings.jwks.as_ref().is_some_and(|place| !place.starts_with("http")) {
            return Err(format!("auth.jwks cannot be used: {reason}"));
        }
        tracing::error!(
            reason,
            "the keys of tokens could not be fetched: nobody is let in until they can be"
        );
    }
    let followed = Arc::clone(&verifier);
    tokio::spawn(async move { followed.follow_keys().await });
    Ok(verifier)
}

/// How connections are treated.
pub(super) fn listening(settings: &Settings, connections: Gauge) -> Result<Listening, String> {
    let tls = match &settings.tls {
        Some(tls) => Some(guerdon_server::acceptor(&tls.certificate, &tls.key)?),
        None => None,
    };
    Ok(Listening { http: settings.http, tls, connections, stopping: watch::Sender::new(false) })
}

pub(super) fn scheme(listening: &Listening) -> &'static str {
    if listening.tls.is_some() { "https" } else { "http" }
}
