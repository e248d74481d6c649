//! Providers over HTTP: services that deliver rewards, each call signed as Standard Webhooks has it.

use crate::Now;
use crate::address::Reach;
use crate::http::{self, retry_after, root_cause};
use crate::webhook::Secrets;
use guerdon_core::allocations::Answer;
use guerdon_core::allocations::answer::Found;
use guerdon_core::events::settings::RewardKindName;
use guerdon_engine::{Asks, Calls, Grant, Provider, Revocation, trace};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Method, Response, Url};
use serde::Serialize;
use serde_json::{Map, Value};
use std::time::Duration;

/// As much of an answer is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The longest transaction id that is kept.
const TRANSACTION_MAX: usize = 256;

/// Where a provider is, and how it is called.
#[derive(Clone, Debug)]
pub struct ProviderOptions {
    pub name: String,
    pub url: String,
    pub secrets: Secrets,
    pub timeout: Duration,
    pub concurrency: usize,
}

/// A provider over HTTP.
pub struct HttpProvider {
    name: String,
    client: Client,
    url: Url,
    secrets: Secrets,
    timeout: Duration,
    concurrency: usize,
    now: Now,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GrantBody<'a> {
    idempotency_key: &'a str,
    user_id: &'a str,
    event_id: &'a str,
    reward_id: &'a str,
    kind: RewardKindName,
    quantity: i64,
    details: &'a Map<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RevokeBody<'a> {
    idempotency_key: &'a str,
    grant_key: &'a str,
    transaction_id: Option<&'a str>,
    user_id: &'a str,
    event_id: &'a str,
    reward_id: &'a str,
    quantity: i64,
}

impl HttpProvider {
    pub fn new(options: ProviderOptions, now: Now) -> Result<Self, String> {
        let ProviderOptions { name, url, secrets, timeout, concurrency } = options;
        // Whoever runs the place says where its own services are: nobody else can name one.
        let mut url = http::parse(&url, Reach::Anywhere)?;
        // Paths are put behind it.
        if !url.path().ends_with('/') {
            let path = format!("{}/", url.path());
            url.set_path(&path);
        }
        let client = http::client(Reach::Anywhere, timeout)?;
        Ok(Self { name, client, url, secrets, timeout, concurrency, now })
    }

    async fn post(&self, path: &str, key: &str, body: &impl Serialize) -> Answer {
        match serde_json::to_vec(body) {
            Ok(body) => self.call(Method::POST, self.url.join(path).ok(), key, body).await.0,
            Err(error) => Answer::Refused { reason: error.to_string() },
        }
    }

    /// One signed call. A second one about the same thing has the same key.
    async fn call(&self, method: Method, url: Option<Url>, key: &str, body: Vec<u8>) -> (Answer, Vec<u8>) {
        let Some(url) = url else {
            return (Answer::Refused { reason: "the address cannot be made".into() }, Vec::new());
        };
        let seconds = (self.now)().as_millis().div_euclid(1_000);
        let mut request = self
            .client
            .request(method, url)
            .header("idempotency-key", key)
            .header("webhook-id", key)
            .header("webhook-timestamp", seconds);
        if let Some(signature) = self.secrets.sign(key, seconds, &body) {
            request = request.header("webhook-signature", signature);
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        match http::followed(request, trace::current()).send().await {
            Ok(answer) => self.read(answer).await,
            Err(error) => (failed(error), Vec::new()),
        }
    }

    async fn read(&self, mut answer: Response) -> (Answer, Vec<u8>) {
        let status = answer.status().as_u16();
        let retry_after = retry_after(answer.headers(), (self.now)());
        let retry_after_ms = retry_after.and_then(|time| i64::try_from(time.as_millis()).ok());
        let mut body = Vec::new();
        loop {
            match answer.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                // Without its end nobody knows what it was to say.
                Err(error) if answer.status().is_success() => return (failed(error), body),
                Ok(None) | Err(_) => break,
            }
            if body.len() > ANSWER_BYTES_MAX {
                break;
            }
        }
        (Answer::Status { status, transaction_id: transaction_id(&body), retry_after_ms }, body)
    }
}

/// A text, or a number as text.
fn transaction_id(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let text = match value.get("transactionId")? {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let text: String = text.chars().filter(|one| !one.is_control()).take(TRANSACTION_MAX).collect();
    (!text.is_empty()).then_some(text)
}

/// What a look at a key has found: 200 says by `applied` whether it was.
fn found(answer: Answer, body: &[u8]) -> Found {
    match answer {
        Answer::Status { status: 200, transaction_id, .. } => {
            let said: Option<Value> = serde_json::from_slice(body).ok();
            match said.and_then(|said| said.get("applied")?.as_bool()) {
                Some(true) => Found::Applied { transaction_id },
                Some(false) => Found::NotApplied,
                None => Found::Failed(Answer::Lost { reason: "what it said cannot be read".into() }),
            }
        }
        Answer::Status { status: 404, .. } => Found::NotApplied,
        Answer::Status { status: 405 | 501, .. } => Found::CannotTell,
        answer => Found::Failed(answer),
    }
}

fn failed(error: reqwest::Error) -> Answer {
    let (connecting, late) = (error.is_connect(), error.is_timeout());
    let reason = root_cause(&error.without_url());
    match (connecting, late) {
        // Nothing was sent.
        (true, _) => Answer::Refused { reason },
        (false, true) => Answer::TimedOut,
        (false, false) => Answer::Lost { reason },
    }
}

impl Provider for HttpProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn concurrency(&self) -> usize {
        self.concurrency
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn grant<'a>(&'a self, grant: &'a Grant) -> Calls<'a> {
        Box::pin(async move {
            let body = GrantBody {
                idempotency_key: &grant.key,
                user_id: &grant.user_id,
                event_id: &grant.event_id,
                reward_id: &grant.reward_id,
                kind: grant.kind,
                quantity: grant.quantity,
                details: &grant.details,
            };
            self.post("grant-item", &grant.key, &body).await
        })
    }

    fn revoke<'a>(&'a self, revocation: &'a Revocation) -> Calls<'a> {
        Box::pin(async move {
            let grant = &revocation.grant;
            let body = RevokeBody {
                idempotency_key: &revocation.key,
                grant_key: &grant.key,
                transaction_id: revocation.transaction_id.as_deref(),
                user_id: &grant.user_id,
                event_id: &grant.event_id,
                reward_id: &grant.reward_id,
                quantity: grant.quantity,
            };
            self.post("revoke-item", &revocation.key, &body).await
        })
    }

    fn look<'a>(&'a self, grant: &'a Grant) -> Asks<'a> {
        let key = grant.key.as_str();
        Box::pin(async move {
            let mut url = self.url.clone();
            let named = url.path_segments_mut().map(|mut path| {
                path.pop_if_empty().extend(["grants", key]);
            });
            let url = named.ok().map(|()| url);
            let (answer, body) = self.call(Method::GET, url, key, Vec::new()).await;
            found(answer, &body)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{found, transaction_id};
    use guerdon_core::allocations::Answer;
    use guerdon_core::allocations::answer::Found;

    #[test]
    fn what_is_known_of_a_key() {
        let name = |found: &Found| match found {
            Found::Applied { .. } => "applied",
            Found::NotApplied => "not applied",
            Found::CannotTell => "cannot tell",
            Found::Failed(_) => "failed",
        };
        let table = [
            (200, r#"{"applied":true,"transactionId":"t"}"#, "applied"),
            (200, r#"{"applied":false}"#, "not applied"),
            (200, r#"{"transactionId":"t"}"#, "failed"),
            (200, "", "failed"),
            (404, "", "not applied"),
            (405, "", "cannot tell"),
            (501, "", "cannot tell"),
            (500, "", "failed"),
            (401, "", "failed"),
        ];
        for (status, body, expected) in table {
            let answer = Answer::Status { status, transaction_id: None, retry_after_ms: None };
            assert_eq!(name(&found(answer, body.as_bytes())), expected, "{status} {body}");
        }
    }

    #[test]
    fn what_names_a_transaction() {
        let long = format!(r#"{{"transactionId":"{}"}}"#, "x".repeat(1_000));
        let table = [
            (r#"{"transactionId":"tx-1"}"#, Some("tx-1".to_owned())),
            (r#"{"transactionId":17}"#, Some("17".into())),
            (r#"{"transactionId":"a\u0000b"}"#, Some("ab".into())),
            (long.as_str(), Some("x".repeat(256))),
            (r#"{"transactionId":""}"#, None),
            (r#"{"transactionId":null}"#, None),
            (r#"{"id":"tx-1"}"#, None),
            ("tx-1", None),
            ("", None),
        ];
        for (body, id) in table {
            assert_eq!(transaction_id(body.as_bytes()), id, "{body}");
        }
    }
}
