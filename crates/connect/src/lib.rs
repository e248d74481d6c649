//! The outside, each service behind one of the engine's ports: brokers that messages are published to and consumed from,
//! and web servers that are told of them.

mod address;
mod http;
mod kafka;
mod keys;
mod otlp;
mod provider;
mod rabbitmq;
mod redis;
mod services;
mod webhook;

pub use address::Reach;
pub use kafka::{KafkaSink, KafkaSource};
pub use keys::KeySource;
pub use otlp::{OtlpEnd, OtlpOptions, SpanMetrics, start as start_traces};
pub use provider::{HttpProvider, ProviderOptions};
pub use rabbitmq::{RabbitSink, RabbitSource};
pub use redis::RedisCounter;
pub use services::{HttpService, ServiceOptions};
pub use webhook::{Secrets, Webhook, WebhookHandler, WebhookSink};

use guerdon_core::Timestamp;
use std::sync::Arc;

/// What time it is, for what is signed.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The library that encrypts has to be chosen once in a process.
fn choose_encryption() {
    // Somebody else may have, and then theirs does.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// An address without a user's name and password.
fn without_secrets(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            // A password with a slash that should have been escaped: nobody can tell where it ends.
            if rest[..end].contains(':') && rest[end..].contains('@') {
                return format!("{scheme}://…");
            }
            let host = rest[..end].rsplit_once('@').map_or(&rest[..end], |(_, host)| host);
            let path = rest[end..].split(['?', '#']).next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn an_address_that_is_shown_has_no_secrets() {
        let table = [
            ("amqp://user:hush@host:5672/%2f?heartbeat=5", "amqp://host:5672/%2f"),
            ("https://h.example/hook?token=hush#x", "https://h.example/hook"),
            ("https://a:hush@h.example", "https://h.example"),
            ("broker:9092", "broker:9092"),
            ("amqp://user:hu/sh@host:5672/%2f", "amqp://…"),
            ("amqp://user:1/sh@host", "amqp://…"),
            ("amqp://user:hu@sh/hush@host/%2f", "amqp://…"),
            ("amqp://user:hu?sh@host/%2f", "amqp://…"),
            ("amqp://user:hu#sh@host/%2f", "amqp://…"),
            ("https://h.example/@me", "https://h.example/@me"),
        ];
        for (url, shown) in table {
            assert_eq!(without_secrets(url), shown);
        }
    }
}
