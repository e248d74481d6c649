//! The configuration: one table of settings, read from flags, environment, file and defaults, each value checked.

mod read;
pub(crate) mod reference;
mod table;
pub mod text;
mod value;

pub(crate) use read::Source;
pub(crate) use table::DEVELOPMENT_SECRET;

use guerdon_connect::{OtlpOptions, ProviderOptions, Reach, Secrets, ServiceOptions};
use guerdon_core::trace::Share;
use guerdon_engine::{
    AllocationOptions, ClaimOptions, ConsumerOptions, CouponOptions, EngineOptions, Issuer, KeyOptions,
    OutboxOptions, UnknownUsers,
};
use guerdon_server::{AuthOptions, ForwardedHeader, HttpOptions, KeyTimes, LimitOptions, TrustedProxies};
use guerdon_store::{Database, StoreOptions};
use read::Values;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct SettingsError(String);

impl SettingsError {
    pub(crate) fn flag(pair: &str) -> Self {
        Self(format!("--set {pair}: write it as KEY=VALUE"))
    }

    pub(crate) fn of_its_own() -> Self {
        Self(
            "a demonstration has settings and a database of its own: leave out --config and --database (--keep DIR keeps its data)"
                .into(),
        )
    }

    /// A value that cannot be, with the key and where it was set.
    fn bad(key: &str, source: &Source, reason: &str) -> Self {
        Self(format!("{key} ({source}) {reason}"))
    }
}

/// A broker or a web server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Webhook,
    RabbitMq,
    Kafka,
}

/// Where events are published to.
#[derive(Debug)]
pub(crate) struct SinkSettings {
    pub(crate) service: Service,
    pub(crate) url: String,
    pub(crate) topic: String,
    pub(crate) source: String,
    pub(crate) secrets: Secrets,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct WebhookSettings {
    pub(crate) reach: Reach,
    pub(crate) timeout: Duration,
}

/// Where `guerdon consume` takes events from, and what it does about them.
#[derive(Debug)]
pub(crate) struct ConsumeSettings {
    pub(crate) service: Service,
    pub(crate) url: Option<String>,
    pub(crate) topic: String,
    pub(crate) database: Database,
    /// Who is called; nobody, where events only go to the log.
    pub(crate) webhook: Option<(String, Secrets)>,
    pub(crate) options: ConsumerOptions,
}

/// What a gateway and the servers behind it share, and where those are.
#[derive(Debug)]
pub(crate) struct GatewaySettings {
    pub(crate) secret: Option<String>,
    pub(crate) window: Duration,
    pub(crate) upstreams: Vec<String>,
    pub(crate) health_interval: Duration,
    pub(crate) answer_timeout: Duration,
}

#[derive(Debug)]
pub(crate) struct TlsSettings {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Who is told what happened when, and how much of it.
#[derive(Debug)]
pub(crate) struct TraceSettings {
    pub(crate) options: OtlpOptions,
    pub(crate) share: Share,
}

/// The settings in force, in the types that the crates want.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) database: Database,
    pub(crate) auth: AuthOptions,
    /// Where the public keys of tokens are, if anywhere.
    pub(crate) jwks: Option<String>,
    pub(crate) key_times: KeyTimes,
    /// Whether callers are known by what a gateway says.
    pub(crate) behind_gateway: bool,
    pub(crate) gateway: GatewaySettings,
    pub(crate) tls: Option<TlsSettings>,
    pub(crate) limits: LimitOptions,
    pub(crate) proxies: TrustedProxies,
    pub(crate) engine: EngineOptions,
    pub(crate) http: HttpOptions,
    pub(crate) store: StoreOptions,
    pub(crate) sink: Option<SinkSettings>,
    pub(crate) providers: Vec<ProviderOptions>,
    /// Who knows which users are active, and what they did; the house where it is nobody.
    pub(crate) auth_service: Option<ServiceOptions>,
    pub(crate) game_data_service: Option<ServiceOptions>,
    /// Where Redis is, if anywhere.
    pub(crate) redis_url: Option<String>,
    pub(crate) webhooks: WebhookSettings,
    pub(crate) consume: ConsumeSettings,
    pub(crate) traces: Option<TraceSettings>,
    pub(crate) clock_offset_ms: i64,
    pub(crate) log_level: String,
    pub(crate) log_json: bool,
    values: Values,
}

impl Settings {
    pub(crate) fn read(
        file: Option<&Path>,
        environment: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
        flags: Vec<(String, String, Source)>,
    ) -> Result<Self, SettingsError> {
        Self::of(read::from_file(file)?, environment, flags)
    }

    /// From flags alone, whatever the environment and the folder say.
    pub(crate) fn read_flags(flags: Vec<(String, String, Source)>) -> Result<Self, SettingsError> {
        Self::of(Vec::new(), std::iter::empty(), flags)
    }

    /// From what the file says, the environment and flags.
    fn of(
        file: Vec<(String, String, Source)>,
        environment: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
        flags: Vec<(String, String, Source)>,
    ) -> Result<Self, SettingsError> {
        let values = Values::read(file, environment, flags)?;
        let settings = Self {
            listen: values.parse("listen", |text| {
                text.parse().map_err(|_| "must be an address and a port, as in 127.0.0.1:8080".into())
            })?,
            database: values.parse("database", Database::parse)?,
            auth: AuthOptions {
                // Public keys take the place of the default, but not of a secret that somebody chose.
                secret: values.text("auth.secret").filter(|_| {
                    values.text("auth.jwks").is_none() || values.source("auth.secret") != Source::Default
                }),
                issuer: values.text("auth.issuer"),
                audience: values.text("auth.audience"),
            },
            jwks: values.text("auth.jwks"),
            key_times: KeyTimes {
                refresh: values.parse("auth.jwksRefresh", lease)?,
                stale: values.duration("auth.jwksStale"),
            },
            behind_gateway: values.text("identity").as_deref() == Some("trusted-headers"),
            gateway: gateway(&values)?,
            tls: tls(&values)?,
            limits: LimitOptions {
                per_user: u32::try_from(values.count("limits.perUser")).unwrap_or(u32::MAX),
                per_address: u32::try_from(values.count("limits.perAddress")).unwrap_or(u32::MAX),
                underway: values.count("limits.underway"),
            },
            proxies: proxies(&values)?,
            engine: EngineOptions {
                unknown_users: match values.text("users.unknown").as_deref() {
                    Some("reject") => UnknownUsers::Reject,
                    _ => UnknownUsers::Accept,
                },
                requests_ttl: values.duration("requests.ttl"),
                requests_ttl_after_event: values.duration("requests.ttlAfterEvent"),
                allocations: AllocationOptions {
                    retry_delay: values.duration("allocations.retryDelay"),
                    retry_interval: values.duration("allocations.retryInterval"),
                    max_attempts: i64::try_from(values.count("allocations.maxAttempts")).unwrap_or(i64::MAX),
                    lease: values.parse("allocations.lease", lease)?,
                },
                claims: ClaimOptions {
                    wait: values.duration("claims.wait"),
                    lease: values.parse("claims.lease", lease)?,
                    timeout: values.parse("claims.timeout", lease)?,
                    tries: i64::try_from(values.count("claims.retries")).unwrap_or(i64::MAX - 1) + 1,
                    retry_delay: values.duration("claims.retryDelay"),
                },
                coupons: CouponOptions {
                    issuer: issuer(&values)?,
                    lease: values.parse("coupons.lease", lease)?,
                },
                keys: KeyOptions {
                    ttl: values.duration("wallet.keyTtl"),
                    lease: values.duration("wallet.timeout"),
                    watchdog_interval: values.duration("wallet.watchdogInterval"),
                    render: guerdon_server::stored_problem,
                },
                outbox: OutboxOptions {
                    lease: values.parse("outbox.lease", lease)?,
                    max_attempts: i64::try_from(values.count("outbox.maxAttempts")).unwrap_or(i64::MAX),
                    dead_hold: values.text("outbox.afterDead").as_deref() == Some("hold"),
                    ttl: values.duration("outbox.ttl"),
                },
            },
            http: HttpOptions {
                body_bytes_max: values.count("http.bodyBytesMax"),
                header_timeout: values.duration("http.headerTimeout"),
                body_timeout: values.duration("http.bodyTimeout"),
                shutdown_timeout: values.duration("http.shutdownTimeout"),
                connections_max: values.count("http.connectionsMax"),
            },
            store: StoreOptions {
                readers: values.count("store.readers"),
                group_max: values.count("store.groupMax"),
                waiting_max: values.count("store.waitingMax"),
                seed: guerdon_engine::Entropy.number(),
                listens: values.text("outbox.sink").is_some_and(|sink| sink != "none"),
                answers_on: None,
            },
            sink: sink(&values)?,
            providers: providers(&values)?,
            auth_service: asked(&values, "auth"),
            game_data_service: asked(&values, "gameData"),
            redis_url: values.text("redis.url"),
            webhooks: webhooks(&values),
            consume: consume(&values)?,
            traces: traces(&values)?,
            clock_offset_ms: values.signed_millis("dev.clockOffset"),
            log_level: values.parse("log.level", log_level)?,
            log_json: values.text("log.format").as_deref() == Some("json"),
            values,
        };
        settings.check()?;
        Ok(settings)
    }

    /// What no single value can be blamed for.
    fn check(&self) -> Result<(), SettingsError> {
        let secret = self.values.source("auth.secret");
        let loopback = self.listen.ip().is_loopback();
        // Behind a gateway tokens are not looked at.
        if self.auth.secret.as_deref() == Some(DEVELOPMENT_SECRET) && !loopback && !self.behind_gateway {
            return Err(SettingsError::bad(
                "auth.secret",
                &secret,
                &format!(
                    "is the development secret, which everybody knows, and {} can be reached from outside: \
                     set a secret of your own, or listen on 127.0.0.1",
                    self.listen
                ),
            ));
        }
        if self.auth.secret.as_ref().is_some_and(|secret| secret.len() < 32) {
            return Err(SettingsError::bad("auth.secret", &secret, "must be at least 32 bytes long"));
        }
        if self.clock_offset_ms != 0 && !loopback {
            let source = self.values.source("dev.clockOffset");
            return Err(SettingsError::bad(
                "dev.clockOffset",
                &source,
                "is only for a server on a loopback address",
            ));
        }
        Ok(())
    }

    /// Every setting with its value as it may be shown, and where it comes from.
    pub(crate) fn shown(&self) -> Vec<(String, String, Source)> {
        self.values.shown()
    }

    /// Settings that somebody set and that this version does not use.
    pub(crate) fn without_effect(&self) -> Vec<String> {
        self.values.without_effect()
    }
}

fn lease(text: &str) -> Result<Duration, String> {
    let lease = value::duration(text)?;
    if lease < Duration::from_secs(1) { Err("must be at least 1s".into()) } else { Ok(lease) }
}

fn issuer(values: &Values) -> Result<Issuer, SettingsError> {
    let name = values.text("coupons.issuer").unwrap_or_default();
    let issuer = Issuer::parse(&name).unwrap_or(Issuer::Store);
    if issuer != Issuer::Store {
        required(values, "redis.url", &format!("coupons.issuer = \"{name}\""))?;
    }
    Ok(issuer)
}

fn gateway(values: &Values) -> Result<GatewaySettings, SettingsError> {
    let secret = values.text("gateway.secret");
    if secret.as_ref().is_some_and(|secret| secret.len() < 32) {
        let source = values.source("gateway.secret");
        return Err(SettingsError::bad("gateway.secret", &source, "must be at least 32 bytes long"));
    }
    if values.text("identity").as_deref() == Some("trusted-headers") {
        required(values, "gateway.secret", "identity = \"trusted-headers\"")?;
    }
    let upstreams = values.text("gateway.upstreams").unwrap_or_default();
    let upstreams = upstreams.split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned);
    Ok(GatewaySettings {
        secret,
        window: values.parse("gateway.window", window)?,
        upstreams: upstreams.collect(),
        health_interval: values.duration("gateway.healthInterval").max(Duration::from_millis(10)),
        answer_timeout: values.duration("gateway.answerTimeout"),
    })
}

fn proxies(values: &Values) -> Result<TrustedProxies, SettingsError> {
    let header = match values.text("http.forwardedHeader").as_deref() {
        Some("forwarded") => ForwardedHeader::Forwarded,
        _ => ForwardedHeader::XForwardedFor,
    };
    match values.text("http.trustedProxies") {
        Some(_) => values.parse("http.trustedProxies", |text| TrustedProxies::parse(text, header)),
        None => Ok(TrustedProxies::default()),
    }
}

/// Every signature of a window is remembered, so it cannot be long.
fn window(text: &str) -> Result<Duration, String> {
    let window = lease(text)?;
    if window > Duration::from_mins(1) { Err("must be at most 1m".into()) } else { Ok(window) }
}

fn tls(values: &Values) -> Result<Option<TlsSettings>, SettingsError> {
    match (values.text("tls.certificate"), values.text("tls.key")) {
        (None, None) => Ok(None),
        _ => Ok(Some(TlsSettings {
            certificate: required(values, "tls.certificate", "tls.key")?.into(),
            key: required(values, "tls.key", "tls.certificate")?.into(),
        })),
    }
}

fn service(name: &str) -> Option<Service> {
    match name {
        "webhook" => Some(Service::Webhook),
        "rabbitmq" => Some(Service::RabbitMq),
        "kafka" => Some(Service::Kafka),
        _ => None,
    }
}

fn secrets(values: &Values, key: &str) -> Result<Secrets, SettingsError> {
    match values.text(key) {
        Some(_) => values.parse(key, Secrets::parse),
        None => Ok(Secrets::default()),
    }
}

/// An address that has to be set for something else to make sense.
fn required(values: &Values, key: &str, because: &str) -> Result<String, SettingsError> {
    let missing = || SettingsError(format!("{key} is not set, and {because} needs it"));
    values.text(key).ok_or_else(missing)
}

fn sink(values: &Values) -> Result<Option<SinkSettings>, SettingsError> {
    let secrets = secrets(values, "outbox.secret")?;
    let name = values.text("outbox.sink").unwrap_or_default();
    let Some(service) = service(&name) else { return Ok(None) };
    Ok(Some(SinkSettings {
        service,
        url: required(values, "outbox.url", &format!("outbox.sink = \"{name}\""))?,
        topic: values.text("outbox.topic").unwrap_or_default(),
        source: values.text("outbox.source").unwrap_or_default(),
        secrets,
    }))
}

/// Names that stand for what is part of the house.
const BUILT_IN: [&str; 2] = ["wallet", "coupon"];

fn providers(values: &Values) -> Result<Vec<ProviderOptions>, SettingsError> {
    let lease = values.duration("allocations.lease");
    let mut providers = Vec::new();
    for name in values.names("providers") {
        let key = |field: &str| format!("providers.{name}.{field}");
        let url = required(values, &key("url"), &format!("the provider {name}"))?;
        if BUILT_IN.contains(&name.as_str()) {
            let source = values.source(&key("url"));
            return Err(SettingsError::bad(
                &key("url"),
                &source,
                "names what is part of the house: choose another name",
            ));
        }
        let secrets = secrets(values, &key("secret"))?;
        let timeout = value::duration(&values.text_or_default(&key("timeout"))).unwrap_or_default();
        // It is asked and called within one lease.
        if timeout.is_zero() || timeout * 2 >= lease {
            let source = values.source(&key("timeout"));
            let reason = "must be more than nothing and less than half of allocations.lease";
            return Err(SettingsError::bad(&key("timeout"), &source, reason));
        }
        let concurrency = values.text_or_default(&key("concurrency")).parse().unwrap_or(1);
        providers.push(ProviderOptions { name, url, secrets, timeout, concurrency });
    }
    Ok(providers)
}

/// A service that claims ask, where one is set.
fn asked(values: &Values, name: &str) -> Option<ServiceOptions> {
    let key = |field: &str| format!("services.{name}.{field}");
    Some(ServiceOptions {
        url: values.text(&key("url"))?,
        timeout: values.duration(&key("timeout")).max(Duration::from_millis(1)),
        retries: u32::try_from(values.count(&key("retries"))).unwrap_or(u32::MAX),
        concurrency: values.count(&key("concurrency")),
    })
}

fn webhooks(values: &Values) -> WebhookSettings {
    let listen: Option<SocketAddr> = values.text("listen").and_then(|text| text.parse().ok());
    let reach = match values.text("webhooks.privateAddresses").as_deref() {
        Some("allow") => Reach::Anywhere,
        Some("auto") if listen.is_some_and(|listen| listen.ip().is_loopback()) => Reach::PublicAndLoopback,
        _ => Reach::Public,
    };
    WebhookSettings { reach, timeout: values.duration("webhooks.timeout") }
}

fn consume(values: &Values) -> Result<ConsumeSettings, SettingsError> {
    let secrets = secrets(values, "consume.webhookSecret")?;
    let webhook = match values.text("consume.handler").as_deref() {
        Some("webhook") => {
            let because = "consume.handler = \"webhook\"";
            Some((required(values, "consume.webhookUrl", because)?, secrets))
        }
        _ => None,
    };
    Ok(ConsumeSettings {
        service: service(&values.text("consume.source").unwrap_or_default()).unwrap_or(Service::RabbitMq),
        url: values.text("consume.url"),
        topic: values.text("consume.topic").unwrap_or_default(),
        database: values.parse("consume.database", Database::parse)?,
        webhook,
        options: ConsumerOptions {
            name: values.text("consume.name").unwrap_or_default(),
            max_attempts: i64::try_from(values.count("consume.maxAttempts")).unwrap_or(i64::MAX),
            ttl: values.duration("consume.ttl"),
        },
    })
}

/// For one call of the collector.
const COLLECTOR_TIMEOUT: Duration = Duration::from_secs(10);

fn traces(values: &Values) -> Result<Option<TraceSettings>, SettingsError> {
    let share = values.parse("traces.share", share)?;
    let options = values.text("traces.url").map(|url| OtlpOptions {
        url,
        headers: values.text("traces.headers").unwrap_or_default(),
        service: values.text("traces.service").unwrap_or_default(),
        timeout: COLLECTOR_TIMEOUT,
    });
    Ok(options.map(|options| TraceSettings { options, share }))
}

/// A share of the whole, to the millionth.
fn share(text: &str) -> Result<Share, String> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    let sound = !rest.is_empty() && rest.len() <= 6 && rest.bytes().all(|digit| digit.is_ascii_digit());
    let millionths = match whole {
        "0" if sound => format!("{rest:0<6}").parse().ok(),
        "1" if sound && rest.bytes().all(|digit| digit == b'0') => Some(1_000_000),
        _ => None,
    };
    let odd = "must be between 0 and 1, with at most six digits behind the point";
    millionths.map(Share::of_millionths).ok_or_else(|| odd.into())
}

/// A level, or a list of levels by module. The filter itself would take a mistyped level for a module's name.
fn log_level(text: &str) -> Result<String, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let sound = |directive: &str| {
        let level = directive.split_once('=').map_or(directive, |(_, level)| level);
        LEVELS.contains(&level.trim())
    };
    if text.split(',').all(sound) {
        Ok(text.to_owned())
    } else {
        Err(format!("must be one of {}, or a list such as info,guerdon_store=debug", LEVELS.join(", ")))
    }
}

#[cfg(test)]
mod tests;
