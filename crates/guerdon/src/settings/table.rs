//! Every setting there is. The reference in `docs/configuration.md` is made from this table.

use super::value::Kind;

pub(crate) const DEVELOPMENT_SECRET: &str = "guerdon-development-secret-for-loopback-only";

/// Whether anything uses the setting yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Used,
    /// Checked, and said to have no effect: the part that uses it is not built.
    Later,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Section and name; `<name>` stands for any one name.
    pub(crate) key: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: Option<&'static str>,
    pub(crate) secret: bool,
    pub(crate) state: State,
    pub(crate) about: &'static str,
}

const fn used(key: &'static str, kind: Kind, default: Option<&'static str>, about: &'static str) -> Setting {
    Setting { key, kind, default, secret: false, state: State::Used, about }
}

const fn later(key: &'static str, kind: Kind, default: Option<&'static str>, about: &'static str) -> Setting {
    Setting { key, kind, default, secret: false, state: State::Later, about }
}

const fn secret(setting: Setting) -> Setting {
    Setting { secret: true, ..setting }
}

use Kind::{Choice, Count, Duration, SignedDuration, Text};

pub(crate) const SETTINGS: &[Setting] = &[
    used(
        "listen",
        Text,
        Some("127.0.0.1:8080"),
        "Where to listen. Port 0 picks a free one; the first line of the output says which.",
    ),
    used(
        "database",
        Text,
        Some("sqlite:guerdon.db"),
        "`sqlite:PATH`, made on first start, or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. Several servers can share one PostgreSQL.",
    ),
    secret(used(
        "auth.secret",
        Text,
        Some(DEVELOPMENT_SECRET),
        "The key of HS256 tokens, at least 32 bytes. The default is for loopback addresses only.",
    )),
    used("auth.issuer", Text, None, "The `iss` that tokens must have; any where not set."),
    used("auth.audience", Text, None, "The `aud` that tokens must have; any where not set."),
    used(
        "auth.jwks",
        Text,
        None,
        "A file, or an address (`https://…`), with the public keys of RS256, ES256 and EdDSA tokens (RFC 7517). HS256 tokens are then taken only if `auth.secret` is set as well.",
    ),
    used("auth.jwksRefresh", Duration, Some("5m"), "How often public keys are fetched."),
    used("auth.jwksStale", Duration, Some("1h"), "How long public keys count while they cannot be fetched."),
    used(
        "identity",
        Choice(&["token", "trusted-headers"]),
        Some("token"),
        "How callers are known: by their token, or by what `guerdon gateway` says of them under its signature.",
    ),
    secret(used(
        "gateway.secret",
        Text,
        None,
        "What the gateway signs with and the servers behind it check, at least 32 bytes.",
    )),
    used(
        "gateway.window",
        Duration,
        Some("10s"),
        "How long a signature of the gateway is good, at most 1m; the clocks of both may differ by less.",
    ),
    used(
        "gateway.upstreams",
        Text,
        None,
        "The servers behind the gateway, `http://HOST:PORT`, with commas between; `--upstream` sets it.",
    ),
    used(
        "gateway.healthInterval",
        Duration,
        Some("1s"),
        "How often servers are asked whether they are ready.",
    ),
    used(
        "gateway.answerTimeout",
        Duration,
        Some("75s"),
        "For a server to begin its answer; longer than the longest `Prefer: wait`.",
    ),
    used(
        "tls.certificate",
        Text,
        None,
        "A file with the server's certificate and its chain (PEM): HTTPS instead of HTTP.",
    ),
    used("tls.key", Text, None, "A file with the certificate's key (PEM)."),
    used(
        "http.trustedProxies",
        Text,
        None,
        "Addresses and networks (`10.0.0.0/8`) that are believed when they say where a call comes from, with commas between.",
    ),
    used(
        "http.forwardedHeader",
        Choice(&["x-forwarded-for", "forwarded"]),
        Some("x-forwarded-for"),
        "Where they say it. The other header is passed on by most of them from whoever sent it, and is not looked at.",
    ),
    used(
        "users.unknown",
        Choice(&["accept", "reject"]),
        Some("accept"),
        "What becomes of users whom the registry does not know.",
    ),
    used("http.bodyBytesMax", Count { least: 1_024, most: 64 << 20 }, Some("262144"), "The largest body."),
    used(
        "http.headerTimeout",
        Duration,
        Some("10s"),
        "For a request's headers to arrive, and for a kept connection to send its next request.",
    ),
    used("http.bodyTimeout", Duration, Some("10s"), "For a request's body to arrive."),
    used(
        "http.shutdownTimeout",
        Duration,
        Some("30s"),
        "For what was accepted to be answered once the server is asked to stop.",
    ),
    used(
        "http.connectionsMax",
        Count { least: 1, most: 1_000_000 },
        Some("10000"),
        "Connections at one time; more wait.",
    ),
    used(
        "store.readers",
        Count { least: 1, most: 64 },
        Some("4"),
        "Threads that read the database, each with a connection.",
    ),
    used(
        "store.groupMax",
        Count { least: 1, most: 10_000 },
        Some("512"),
        "The most commands that are committed together.",
    ),
    used(
        "store.waitingMax",
        Count { least: 1, most: 1_000_000 },
        Some("8192"),
        "The most commands that wait; more are refused with 503.",
    ),
    used(
        "log.level",
        Text,
        Some("info"),
        "`error`, `warn`, `info`, `debug`, or a filter such as `info,guerdon_store=debug`.",
    ),
    used(
        "log.format",
        Choice(&["text", "json"]),
        Some("text"),
        "How log lines are written, to the standard error.",
    ),
    used(
        "dev.clockOffset",
        SignedDuration,
        Some("0s"),
        "Moves the server's clock, for demonstrations and tests; only on a loopback address.",
    ),
    used(
        "redis.url",
        Text,
        None,
        "Where Redis or Valkey is: `redis://USER:PASSWORD@HOST:6379/`; several addresses of one cluster with commas between. It has to run with `maxmemory-policy noeviction`.",
    ),
    used(
        "coupons.issuer",
        Choice(&["store", "redis-outbox", "redis-stream"]),
        Some("store"),
        "Who counts coupons: the store itself; Redis, after the store has written down who asked; or Redis, which keeps who asked until the store has it. docs/coupons.md helps to choose.",
    ),
    used(
        "coupons.lease",
        Duration,
        Some("10s"),
        "How long a worker that is not heard of keeps what it took up: a coupon's message, an entry of a stream, or the right to count Redis anew; at least 1s.",
    ),
    used(
        "outbox.sink",
        Choice(&["none", "webhook", "rabbitmq", "kafka"]),
        Some("none"),
        "Where events are published to. With `none` they are written as already sent.",
    ),
    used(
        "outbox.url",
        Text,
        None,
        "The address of the sink: `https://…`, `amqp://USER:PASSWORD@HOST:5672/%2f` (or `amqps`), `kafka://HOST:9092,HOST:9092`.",
    ),
    secret(used(
        "outbox.secret",
        Text,
        None,
        "`whsec_…`, to sign webhooks with; several with spaces between while one replaces another.",
    )),
    used(
        "outbox.topic",
        Text,
        Some("guerdon.events"),
        "The exchange and queue of RabbitMQ, the topic of Kafka.",
    ),
    used("outbox.source", Text, Some("/guerdon"), "The `source` of published events."),
    used(
        "outbox.lease",
        Duration,
        Some("30s"),
        "How long a publisher that is not heard of keeps its shards from others; at least 1s.",
    ),
    used(
        "outbox.maxAttempts",
        Count { least: 0, most: 1_000_000 },
        Some("0"),
        "Refusals of an event by the sink before it is DEAD; 0 is never. A sink that is away uses up none.",
    ),
    used(
        "outbox.afterDead",
        Choice(&["continue", "hold"]),
        Some("continue"),
        "Whether later events about the same thing are published after one is DEAD, or held until it is replayed.",
    ),
    used("outbox.ttl", Duration, Some("7d"), "How long events are kept that were sent."),
    used(
        "webhooks.privateAddresses",
        Choice(&["auto", "allow", "refuse"]),
        Some("auto"),
        "Whether webhooks may lead to addresses that are not public. `auto` allows loopback while the server itself listens on loopback.",
    ),
    used("webhooks.timeout", Duration, Some("10s"), "For one call of a webhook."),
    used(
        "consume.source",
        Choice(&["rabbitmq", "kafka"]),
        Some("rabbitmq"),
        "Where `guerdon consume` takes events from.",
    ),
    used("consume.url", Text, None, "The address of that broker, as in `outbox.url`."),
    used("consume.topic", Text, Some("guerdon.events"), "The queue of RabbitMQ, the topic of Kafka."),
    used(
        "consume.name",
        Text,
        Some("guerdon"),
        "Under which the consumer records what it has handled; its group on Kafka.",
    ),
    used(
        "consume.database",
        Text,
        Some("sqlite:guerdon-consumer.db"),
        "The consumer's own database, as in `database`; not a SQLite file that is being served.",
    ),
    used(
        "consume.handler",
        Choice(&["log", "webhook"]),
        Some("log"),
        "What is done about an event: a line in the log, or a call of `consume.webhookUrl`.",
    ),
    used("consume.webhookUrl", Text, None, "Who is notified."),
    secret(used("consume.webhookSecret", Text, None, "`whsec_…`, to sign notifications with.")),
    used(
        "consume.maxAttempts",
        Count { least: 1, most: 1_000 },
        Some("5"),
        "Refusals of an event by the handler before it is put among the dead.",
    ),
    used("consume.ttl", Duration, Some("30d"), "How long it is remembered that an event was handled."),
    used("requests.ttl", Duration, Some("90d"), "How long requests are kept after they ended."),
    used(
        "requests.ttlAfterEvent",
        Duration,
        Some("7d"),
        "How long requests are kept after their event's end, whatever `requests.ttl` says.",
    ),
    later("requests.lease", Duration, Some("30s"), "How long a worker holds a request."),
    used("allocations.retryDelay", Duration, Some("5m"), "From a failed delivery to the next try."),
    used(
        "allocations.retryInterval",
        Duration,
        Some("1m"),
        "How often deliveries that are due are looked for.",
    ),
    used(
        "allocations.maxAttempts",
        Count { least: 1, most: 1_000_000 },
        Some("10"),
        "Tries before a delivery has finally failed.",
    ),
    used(
        "allocations.lease",
        Duration,
        Some("60s"),
        "How long a delivery is left to whoever made it or took it up, before it is taken up again.",
    ),
    used(
        "claims.lease",
        Duration,
        Some("30s"),
        "How long a claim is left to whoever took it up, before it is taken up again; longer where a call of theirs could be.",
    ),
    used(
        "claims.timeout",
        Duration,
        Some("10m"),
        "When a claim that is still pending is rolled back; as long again, and its compensation needs a hand.",
    ),
    used("claims.wait", Duration, Some("5s"), "How long a call waits for the end of its claim."),
    used(
        "claims.retries",
        Count { least: 0, most: 100 },
        Some("3"),
        "Further calls of a provider before a claim's grant has failed, or its compensation needs a hand.",
    ),
    used(
        "claims.retryDelay",
        Duration,
        Some("500ms"),
        "From a call in vain to the next, the first time; then doubled.",
    ),
    used(
        "wallet.keyTtl",
        Duration,
        Some("20m"),
        "How long an issued idempotency key can be used for the first time.",
    ),
    used(
        "wallet.timeout",
        Duration,
        Some("1m"),
        "How long work under an idempotency key may take: a transfer that is still in progress then has failed, a deposit or refund can be taken over.",
    ),
    used(
        "wallet.watchdogInterval",
        Duration,
        Some("1m"),
        "How often transfers that took too long are looked for.",
    ),
    used(
        "services.auth.url",
        Text,
        None,
        "The service that knows whether a user is active; built in where not set.",
    ),
    used("services.auth.timeout", Duration, Some("2s"), "For one call of it."),
    used("services.auth.retries", Count { least: 0, most: 10 }, Some("3"), "Further tries of a call."),
    used("services.auth.concurrency", Count { least: 1, most: 10_000 }, Some("64"), "Calls at one time."),
    used(
        "services.gameData.url",
        Text,
        None,
        "The service that knows what a user did; built in where not set.",
    ),
    used("services.gameData.timeout", Duration, Some("2s"), "For one call of it."),
    used("services.gameData.retries", Count { least: 0, most: 10 }, Some("3"), "Further tries of a call."),
    used("services.gameData.concurrency", Count { least: 1, most: 10_000 }, Some("64"), "Calls at one time."),
    used("providers.<name>.url", Text, None, "A provider that delivers rewards."),
    secret(used("providers.<name>.secret", Text, None, "`whsec_…`, to sign calls with.")),
    used("providers.<name>.timeout", Duration, Some("5s"), "For one call of it."),
    used("providers.<name>.concurrency", Count { least: 1, most: 10_000 }, Some("16"), "Calls at one time."),
    used(
        "traces.url",
        Text,
        None,
        "Where OpenTelemetry traces are sent, by OTLP over HTTP in JSON, as in `http://127.0.0.1:4318/v1/traces`; nowhere where not set.",
    ),
    secret(used(
        "traces.headers",
        Text,
        None,
        "What the collector wants to see beside the traces: `name=value`, with commas between.",
    )),
    used("traces.service", Text, Some("guerdon"), "The `service.name` that traces tell."),
    used("traces.share", Text, Some("1"), "How many of all traces are kept, between 0 and 1, as in `0.01`."),
    used(
        "limits.perUser",
        Count { least: 0, most: 1_000_000 },
        Some("50"),
        "Calls per second of one user, as many that write and as many that look, and as many of both under way at one time; 0 is without limit. Operators, auditors and services have none.",
    ),
    used(
        "limits.perAddress",
        Count { least: 0, most: 1_000_000 },
        Some("0"),
        "Calls per second from one address, or one network of IPv6 (/64); 0 is without limit.",
    ),
    used(
        "limits.underway",
        Count { least: 1, most: 1_000_000 },
        Some("8192"),
        "Calls of people that are under way at one time; more are refused with 503. Operators are let through.",
    ),
];

/// The setting that a key names.
pub(crate) fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| matches(setting.key, key))
}

fn matches(pattern: &str, key: &str) -> bool {
    let (mut wanted, mut given) = (pattern.split('.'), key.split('.'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some("<name>"), Some(name)) if !name.is_empty() => {}
            (Some(wanted), Some(given)) if wanted == given => {}
            _ => return false,
        }
    }
}

/// The key that a mistyped one was probably meant to be.
pub(crate) fn similar(key: &str) -> Option<&'static str> {
    let scored = SETTINGS.iter().map(|setting| (strsim::jaro_winkler(setting.key, key), setting.key));
    let (score, best) = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (score > 0.8).then_some(best)
}

/// The environment variable of a key: `allocations.retryDelay` is `GUERDON_ALLOCATIONS__RETRY_DELAY`.
pub(crate) fn environment_name(key: &str) -> String {
    let mut name = String::from("GUERDON_");
    for character in key.chars() {
        match character {
            '.' => name.push_str("__"),
            upper if upper.is_ascii_uppercase() => {
                name.push('_');
                name.push(upper);
            }
            other => name.push(other.to_ascii_uppercase()),
        }
    }
    name
}

/// The key of an environment variable's name, without its prefix.
pub(crate) fn key_of_environment(name: &str) -> String {
    let camel = |segment: &str| {
        let mut words = segment.split('_').map(str::to_ascii_lowercase);
        let mut text = words.next().unwrap_or_default();
        for word in words {
            let mut characters = word.chars();
            text.extend(characters.next().map(|first| first.to_ascii_uppercase()));
            text.push_str(characters.as_str());
        }
        text
    };
    name.split("__").map(camel).collect::<Vec<_>>().join(".")
}
