//! Services that claims ask, over HTTP: who is active, and who did what.

use crate::Now;
use crate::address::Reach;
use crate::http::{self, followed, retry_after, root_cause};
use guerdon_core::UserId;
use guerdon_core::claims::UserFound;
use guerdon_engine::{Activities, ActivityService, Entropy, Statuses, UserService, trace};
use reqwest::{Client, Response, Url};
use serde_json::{Map, Value};
use std::time::Duration;

/// As much of an answer is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Between two tries: doubled each time, with some chance.
const BACKOFF: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Where a service is, and how it is asked.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    pub url: String,
    /// For one call.
    pub timeout: Duration,
    /// Further tries.
    pub retries: u32,
    pub concurrency: usize,
}

/// A service over HTTP that is only asked.
pub struct HttpService {
    client: Client,
    url: Url,
    options: ServiceOptions,
    now: Now,
}

/// What a try came to.
enum Tried {
    Answered(u16, Vec<u8>),
    /// It may work the next time, after so long if it says so.
    Again {
        reason: String,
        after: Option<Duration>,
    },
    Failed(String),
}

impl HttpService {
    pub fn new(options: ServiceOptions, now: Now) -> Result<Self, String> {
        let mut url = http::parse(&options.url, Reach::Anywhere)?;
        if !url.path().ends_with('/') {
            let path = format!("{}/", url.path());
            url.set_path(&path);
        }
        let client = http::client(Reach::Anywhere, options.timeout)?;
        Ok(Self { client, url, options, now })
    }

    /// What is known of a user: the body of a 200, or none where the user is not known.
    async fn ask(&self, user_id: &UserId, what: &str) -> Result<Option<Value>, String> {
        // These would be taken for a way through the folders.
        if matches!(user_id.as_str(), "." | "..") {
            return Err("nobody can be asked about with this id".into());
        }
        let mut url = self.url.clone();
        let named = url.path_segments_mut().map(|mut path| {
            path.pop_if_empty().extend(["users", user_id.as_str(), what]);
        });
        named.map_err(|()| "the address cannot be made".to_owned())?;
        let mut last = String::new();
        let mut asked = Duration::ZERO;
        for tries in 0..=self.options.retries {
            if tries > 0 {
                tokio::time::sleep(backoff(tries, Entropy.number()).max(asked).min(BACKOFF_MAX)).await;
            }
            match self.call(url.clone()).await {
                Tried::Answered(404, _) => return Ok(None),
                Tried::Answered(200, body) => {
                    let said: Value = match serde_json::from_slice(&body) {
                        Ok(said) => said,
                        Err(_) => return Err("its answer cannot be read".into()),
                    };
                    let about = said.get("userId").and_then(Value::as_str);
                    if about.is_some_and(|about| about != user_id.as_str()) {
                        return Err("its answer is about somebody else".into());
                    }
                    return Ok(Some(said));
                }
                Tried::Answered(status, _) => return Err(format!("it answered {status}")),
                Tried::Failed(reason) => return Err(reason),
                Tried::Again { reason, after } => {
                    last = reason;
                    asked = after.unwrap_or_default();
                }
            }
        }
        Err(last)
    }

    async fn call(&self, url: Url) -> Tried {
        let answer = match followed(self.client.get(url), trace::current()).send().await {
            Ok(answer) => answer,
            Err(error) if error.is_timeout() => {
                return Tried::Again { reason: "no answer in time".into(), after: None };
            }
            Err(error) => return Tried::Again { reason: root_cause(&error.without_url()), after: None },
        };
        let status = answer.status().as_u16();
        if matches!(status, 408 | 425 | 429 | 500..=599) {
            let after = retry_after(answer.headers(), (self.now)());
            return Tried::Again { reason: format!("it answered {status}"), after };
        }
        match read(answer).await {
            Ok(body) => Tried::Answered(status, body),
            Err(Lost::Broken(reason)) => Tried::Again { reason, after: None },
            Err(lost @ Lost::TooLong) => Tried::Failed(lost.reason()),
        }
    }

    /// The longest that asking takes, with all tries and the time between them.
    fn time(&self) -> Duration {
        self.options.timeout * (self.options.retries + 1) + BACKOFF_MAX * self.options.retries
    }
}

pub(crate) enum Lost {
    Broken(String),
    TooLong,
}

impl Lost {
    pub(crate) fn reason(self) -> String {
        match self {
            Self::Broken(reason) => reason,
            Self::TooLong => format!("its answer has more than {ANSWER_BYTES_MAX} bytes"),
        }
    }
}

pub(crate) async fn read(mut answer: Response) -> Result<Vec<u8>, Lost> {
    let mut body = Vec::new();
    loop {
        match answer.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(error) if error.is_timeout() => return Err(Lost::Broken("no answer in time".into())),
            Err(error) => return Err(Lost::Broken(root_cause(&error.without_url()))),
        }
        if body.len() > ANSWER_BYTES_MAX {
            return Err(Lost::TooLong);
        }
    }
}

fn backoff(tries: u32, chance: u64) -> Duration {
    let whole = (BACKOFF * 2_u32.saturating_pow(tries - 1)).min(BACKOFF_MAX);
    // Half of it, and up to the other half by chance.
    let part = u32::try_from(chance & 1023).unwrap_or(0);
    whole / 2 + whole * part / 2048
}

impl UserService for HttpService {
    fn status<'a>(&'a self, user_id: &'a UserId) -> Statuses<'a> {
        Box::pin(async move {
            match self.ask(user_id, "status").await {
                Ok(None) => UserFound::Inactive("the auth service does not know the user".into()),
                Ok(Some(said)) => status(&said),
                Err(reason) => UserFound::Failed(format!("the auth service: {reason}")),
            }
        })
    }

    fn concurrency(&self) -> usize {
        self.options.concurrency
    }

    fn longest(&self) -> Duration {
        self.time()
    }
}

fn status(said: &Value) -> UserFound {
    match said.get("status").and_then(Value::as_str) {
        Some("ACTIVE") => UserFound::Active,
        Some(other) => {
            let other: String = other.chars().filter(|one| !one.is_control()).take(40).collect();
            UserFound::Inactive(format!("the user is {other}"))
        }
        None => UserFound::Failed("the auth service: its answer has no status".into()),
    }
}

impl ActivityService for HttpService {
    fn activity<'a>(&'a self, user_id: &'a UserId) -> Activities<'a> {
        Box::pin(async move {
            match self.ask(user_id, "activity").await {
                // Whoever is not known did nothing.
                Ok(None) => Ok(Map::new()),
                Ok(Some(said)) => activity(said).map_err(|reason| format!("the game-data service: {reason}")),
                Err(reason) => Err(format!("the game-data service: {reason}")),
            }
        })
    }

    fn concurrency(&self) -> usize {
        self.options.concurrency
    }

    fn longest(&self) -> Duration {
        self.time()
    }
}

fn activity(said: Value) -> Result<Map<String, Value>, String> {
    let Value::Object(mut said) = said else { return Err("its answer is no object".into()) };
    match said.remove("activity") {
        Some(Value::Object(activity)) => Ok(activity),
        _ => Err("its answer has no activity".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{activity, backoff, status};
    use guerdon_core::claims::UserFound;
    use serde_json::json;

    #[test]
    fn what_services_say() {
        assert_eq!(status(&json!({"userId": "u", "status": "ACTIVE"})), UserFound::Active);
        assert!(
            matches!(status(&json!({"status": "BANNED"})), UserFound::Inactive(what) if what.contains("BANNED"))
        );
        for odd in [json!({}), json!({"status": 1}), json!([]), json!(null)] {
            assert!(matches!(status(&odd), UserFound::Failed(_)), "{odd}");
            assert!(activity(odd.clone()).is_err(), "{odd}");
        }
        assert!(activity(json!({"activity": [1]})).is_err());
        assert_eq!(activity(json!({"activity": {"LOGIN_COUNT": 7}})).unwrap()["LOGIN_COUNT"], 7);
    }

    #[test]
    fn tries_are_spread() {
        for tries in 1..40 {
            let (least, most) = (backoff(tries, 0), backoff(tries, 1023));
            assert!(least < most && most.as_millis() <= 1_000, "{tries}: {least:?} {most:?}");
        }
    }
}
