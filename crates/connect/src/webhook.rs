//! Web servers that are told of messages, each call signed as Standard Webhooks has it.

mod sign;

pub use sign::Secrets;

use crate::Now;
use crate::address::Reach;
use crate::http::{self, followed, retry_after, root_cause};
use futures_util::StreamExt;
use guerdon_core::Trace;
use guerdon_core::outbox::Message;
use guerdon_core::outbox::envelope::{self, CONTENT_TYPE, Received};
use guerdon_engine::{Away, Handled, Handler, Handles, Published, Publishes, Sink, Time, Verdict, trace};
use reqwest::header::CONTENT_TYPE as CONTENT_TYPE_HEADER;
use reqwest::{Client, StatusCode, Url};
use sha2::{Digest, Sha256};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Calls at one time.
const CALLS: usize = 16;
/// As much of an answer is read, so that the connection can be used again.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A web server that is told of messages.
pub struct Webhook {
    client: Client,
    url: Url,
    address: String,
    secrets: Secrets,
    timeout: Duration,
    now: Now,
}

/// How a call ended.
enum Called {
    Taken,
    TimedOut,
    Refused { reason: String, retry_after: Option<Duration> },
    Away(Away),
}

impl Webhook {
    pub fn new(
        url: &str,
        secrets: Secrets,
        reach: Reach,
        timeout: Duration,
        now: Now,
    ) -> Result<Self, String> {
        let parsed = http::parse(url, reach)?;
        let client = http::client(reach, timeout)?;
        let address = without_path(&parsed);
        Ok(Self { client, url: parsed, address, secrets, timeout, now })
    }

    /// One signed call. Whoever is called can tell a second call about the same thing by its `webhook-id`.
    async fn call(&self, id: &str, body: Vec<u8>, trace: Option<Trace>) -> Called {
        let seconds = (self.now)().as_millis().div_euclid(1_000);
        let mut request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE_HEADER, CONTENT_TYPE)
            .header("webhook-id", id)
            .header("webhook-timestamp", seconds);
        if let Some(signature) = self.secrets.sign(id, seconds, &body) {
            request = request.header("webhook-signature", signature);
        }
        let mut answer = match followed(request.body(body), trace).send().await {
            Ok(answer) => answer,
            Err(error) if error.is_timeout() && !error.is_connect() => {
                return Called::TimedOut;
            }
            Err(error) => {
                let reason = root_cause(&error.without_url());
                return Called::Away(Away::ForNow { reason, retry_after: None });
            }
        };
        let status = answer.status();
        let retry_after = retry_after(answer.headers(), (self.now)());
        let mut read = 0;
        while let Ok(Some(chunk)) = answer.chunk().await {
            read += chunk.len();
            if read > ANSWER_BYTES_MAX {
                break;
            }
        }
        let reason = format!("it answered {status}");
        match status {
            status if status.is_success() => Called::Taken,
            StatusCode::GONE => Called::Away(Away::ForGood { reason }),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                Called::Away(Away::ForNow { reason, retry_after })
            }
            _ => Called::Refused { reason, retry_after },
        }
    }
}

/// A path or a query may be as secret as a password: instead of it, a number that tells one from another.
fn without_path(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    let secret = format!("{}?{}", url.path(), url.query().unwrap_or_default());
    let hash = Sha256::digest(secret.as_bytes());
    format!("{}://{host}{port}/…{:02x}{:02x}{:02x}", url.scheme(), hash[0], hash[1], hash[2])
}

/// Messages go to a web server.
pub struct WebhookSink {
    webhook: Webhook,
    source: String,
}

impl WebhookSink {
    pub fn new(webhook: Webhook, source: String) -> Self {
        Self { webhook, source }
    }

    async fn tell(&self, message: &Message) -> Called {
        match envelope::seal(message, &self.source) {
            Ok(body) => self.webhook.call(&message.id.to_string(), body.into_bytes(), message.trace).await,
            Err(error) => Called::Refused { reason: error.to_string(), retry_after: None },
        }
    }
}

impl Sink for WebhookSink {
    fn name(&self) -> &'static str {
        "webhook"
    }

    fn address(&self) -> &str {
        &self.webhook.address
    }

    fn publish<'a>(&'a self, messages: &'a [Message], time: Time) -> Publishes<'a> {
        Box::pin(async move {
            // Once it is away nobody else is sent there.
            let given_up = AtomicBool::new(false);
            let time = &time;
            let mut calls = Vec::with_capacity(messages.len());
            for (index, message) in messages.iter().enumerate() {
                let given_up = &given_up;
                calls.push(async move {
                    if given_up.load(Ordering::Relaxed) || !time.allows(self.webhook.timeout) {
                        return (index, None);
                    }
                    let called = self.tell(message).await;
                    given_up.fetch_or(matches!(called, Called::Away(_)), Ordering::Relaxed);
                    (index, Some(called))
                });
            }
            let called: Vec<_> = futures_util::stream::iter(calls).buffer_unordered(CALLS).collect().await;
            judge(messages.len(), called)
        })
    }
}

/// What became of all of them. A message on which the server hangs is at fault itself, unless there was none on which it
/// did not.
fn judge(count: usize, called: Vec<(usize, Option<Called>)>) -> Published {
    let alive =
        called.iter().any(|(_, called)| matches!(called, Some(Called::Taken | Called::Refused { .. })));
    let mut published = Published { verdicts: vec![Verdict::Unknown; count], away: None };
    for (index, called) in called {
        let late = || "no answer in time".to_owned();
        match called {
            Some(Called::Taken) => published.verdicts[index] = Verdict::Sent,
            Some(Called::Refused { reason, retry_after }) => {
                published.verdicts[index] = Verdict::Refused { reason, retry_after };
            }
            Some(Called::TimedOut) if alive => {
                published.verdicts[index] = Verdict::Refused { reason: late(), retry_after: None };
            }
            Some(Called::TimedOut) => {
                published.away.get_or_insert(Away::ForNow { reason: late(), retry_after: None });
            }
            // To be gone outweighs to be busy.
            Some(Called::Away(away @ Away::ForGood { .. })) => published.away = Some(away),
            Some(Called::Away(away)) => {
                published.away.get_or_insert(away);
            }
            None => {}
        }
    }
    published
}

/// What a consumer received goes to a web server, as it came.
pub struct WebhookHandler(Webhook);

impl WebhookHandler {
    pub fn new(webhook: Webhook) -> Self {
        Self(webhook)
    }
}

impl Handler for WebhookHandler {
    fn handle<'a>(&'a self, event: &'a Received, body: &'a [u8]) -> Handles<'a> {
        Box::pin(async move {
            match self.0.call(&event.id, body.to_vec(), trace::current()).await {
                Called::Taken => Handled::Done,
                Called::Refused { reason, .. } => Handled::Refused { reason },
                Called::TimedOut => Handled::Refused { reason: "no answer in time".into() },
                Called::Away(Away::ForNow { reason, retry_after }) => Handled::Later { reason, retry_after },
                Called::Away(Away::ForGood { reason }) => Handled::Later { reason, retry_after: None },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Called, Webhook, judge, without_path};
    use crate::{Reach, Secrets};
    use guerdon_core::Timestamp;
    use guerdon_engine::{Away, Verdict};
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn whose_fault_it_was() {
        let refused = || Called::Refused { reason: "x".into(), retry_after: None };
        let busy = || Called::Away(Away::ForNow { reason: "x".into(), retry_after: None });
        let gone = || Called::Away(Away::ForGood { reason: "x".into() });
        // The calls; how many were sent and refused, and whether it is away for now or for good.
        let table: Vec<(Vec<Called>, usize, usize, Option<bool>)> = vec![
            (vec![Called::Taken, refused()], 1, 1, None),
            (vec![Called::Taken, Called::TimedOut], 1, 1, None),
            (vec![Called::TimedOut, Called::TimedOut], 0, 0, Some(false)),
            (vec![busy(), Called::Taken], 1, 0, Some(false)),
            (vec![busy(), gone(), busy()], 0, 0, Some(true)),
        ];
        for (calls, sent, refused, away) in table {
            let count = calls.len();
            // In whatever order they ended.
            let calls =
                calls.into_iter().enumerate().map(|(index, called)| (index, Some(called))).rev().collect();
            let published = judge(count, calls);
            let of =
                |wanted: fn(&Verdict) -> bool| published.verdicts.iter().filter(|one| wanted(one)).count();
            assert_eq!(of(|one| matches!(one, Verdict::Sent)), sent);
            assert_eq!(of(|one| matches!(one, Verdict::Refused { .. })), refused);
            assert_eq!(published.away.map(|away| matches!(away, Away::ForGood { .. })), away);
        }
    }

    #[test]
    fn what_is_shown_of_an_address_has_no_path() {
        let shown = |url: &str| without_path(&url.parse().unwrap());
        let hook = shown("https://me:hush@h.example:8443/services/hush?token=hush");
        assert!(hook.starts_with("https://h.example:8443/…") && !hook.contains("hush"), "{hook}");
        assert_ne!(hook, shown("https://h.example:8443/services/other"));
    }

    #[test]
    fn an_address_of_our_own_network_is_refused() {
        let make = |url: &str, reach| {
            let now = Arc::new(|| Timestamp::from_millis(0));
            Webhook::new(url, Secrets::default(), reach, Duration::from_secs(1), now).err()
        };
        for url in ["http://169.254.169.254/latest", "http://[::1]/", "http://0x7f.1/", "http://2130706433/"]
        {
            assert!(
                make(url, Reach::Public).is_some_and(|reason| reason.contains("public address")),
                "{url}"
            );
        }
        assert!(make("ftp://h.example/", Reach::Public).is_some());
        assert_eq!(make("http://127.0.0.1:9/", Reach::PublicAndLoopback), None);
        assert_eq!(make("https://h.example/hook", Reach::Public), None);
    }
}
