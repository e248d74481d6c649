//! People who come, look around, take part in what they find, and go; somebody else takes their place.

use super::chance::{about, below, percent, shuffle};
use super::client::{Client, Person};
use super::programme::WELCOME_COUPON;
use guerdon_core::Timestamp;
use guerdon_engine::{Clock, Entropy};
use guerdon_partners::{Partners, Person as Known};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Between two things that somebody does.
const THINK: Duration = Duration::from_secs(5);
/// What everybody together does in a second, on average: a larger crowd thinks longer.
const CALLS_PER_SECOND_MAX: u64 = 1_000;
/// After a call that was not answered.
const REST: Duration = Duration::from_secs(1);
/// How long before its start people stay for a drop, and how soon after it they have all clicked.
const STAY_MS: i64 = 40_000;
const RUSH_MS: u64 = 4_000;

/// Makes the token of somebody.
pub(crate) type Token = Box<dyn Fn(&str) -> Result<String, String> + Send + Sync>;

pub(crate) struct Crowd {
    pub(crate) client: Arc<Client>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) partners: Arc<Partners>,
    pub(crate) token: Token,
    /// The coupon that everybody is after.
    pub(crate) flash: watch::Receiver<String>,
    pub(crate) size: usize,
}

/// One of them.
struct Guest {
    person: Person,
    id: String,
    think: Duration,
}

impl Crowd {
    /// As many as there are to be at one time, until it is dropped.
    pub(crate) async fn run(self) {
        let crowd = Arc::new(self);
        let run = Entropy.number() % 0x10_0000;
        let arrived = Arc::new(AtomicU64::new(0));
        let mut guests = JoinSet::new();
        for _ in 0..crowd.size {
            let (crowd, arrived) = (Arc::clone(&crowd), Arc::clone(&arrived));
            guests.spawn(async move {
                // Not all at once.
                tokio::time::sleep(about(crowd.think()) / 2).await;
                loop {
                    let number = arrived.fetch_add(1, Ordering::Relaxed);
                    if crowd.visit(&format!("guest-{run:05x}-{number}")).await.is_err() {
                        tokio::time::sleep(about(REST)).await;
                    }
                }
            });
        }
        while guests.join_next().await.is_some() {}
    }

    fn think(&self) -> Duration {
        let size = u64::try_from(self.size).unwrap_or(u64::MAX);
        THINK.max(Duration::from_millis(size.saturating_mul(1_000) / CALLS_PER_SECOND_MAX))
    }

    /// One person's visit.
    async fn visit(&self, id: &str) -> Result<(), String> {
        let person = Person::new(&self.client, &(self.token)(id)?);
        let guest = Guest { person, id: id.to_owned(), think: self.think() };
        // Most have come often enough for a gift.
        let logins = if percent(75) { 7 + below(20) } else { below(7) };
        let activity = json!({"LOGIN_COUNT": logins});
        let activity = activity.as_object().cloned().unwrap_or_default();
        self.partners.know(id, Known { activity, ..Known::default() });
        let listed = guest.person.get("/v1/events?limit=50").await?.done();
        let mut events = match listed {
            Ok(Value::Object(mut list)) => list.remove("items"),
            _ => None,
        };
        let mut events =
            events.as_mut().and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
        shuffle(&mut events);
        for event in events.iter().filter(|_| percent(70)) {
            guest.take_part(event, &self.clock).await?;
        }
        if percent(60) {
            let flash = self.flash.borrow().clone();
            guest.take_coupon(&flash).await?;
        }
        if percent(20) {
            guest.take_coupon(WELCOME_COUPON).await?;
        }
        if percent(30) {
            guest.person.get("/v1/me/requests").await?;
            guest.person.get("/v1/me/accounts").await?;
        }
        Ok(())
    }
}

impl Guest {
    async fn pause(&self) {
        tokio::time::sleep(about(self.think)).await;
    }

    fn key(&self, what: &str) -> String {
        format!("{}-{what}-{:08x}", self.id, Entropy.number() >> 32)
    }

    async fn take_part(&self, event: &Value, clock: &Clock) -> Result<(), String> {
        let id = event["eventId"].as_str().unwrap_or_default();
        let starts_at = Timestamp::from_millis(event["startsAt"].as_i64().unwrap_or_default());
        let left_ms = starts_at.millis_since(clock.now());
        if left_ms > STAY_MS {
            return Ok(());
        }
        if left_ms > 0 {
            self.wait_for(left_ms).await;
        } else {
            self.pause().await;
        }
        match event["type"].as_str() {
            Some("FIRST_COME" | "LOTTERY") => self.apply(id).await,
            Some("ATTENDANCE") => self.twice_perhaps(&format!("/v1/events/{id}/attendance"), None).await,
            Some("RANDOM") => self.play(id).await,
            Some("CLAIM") => {
                let key = self.key("claim");
                self.twice_perhaps(&format!("/v1/event-claims/{id}/claim"), Some(&key)).await
            }
            _ => Ok(()),
        }
    }

    /// Stays for the start; most click in its first moments, and some too early.
    async fn wait_for(&self, left_ms: i64) {
        let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or(0));
        let early = Duration::from_millis(if percent(3) { 500 } else { 0 });
        let late = Duration::from_millis(below(RUSH_MS) * below(RUSH_MS) / RUSH_MS);
        tokio::time::sleep(left.saturating_sub(early) + late).await;
    }

    async fn apply(&self, event_id: &str) -> Result<(), String> {
        let path = format!("/v1/events/{event_id}/requests");
        let answer = self.person.post(&path, None).await?;
        if percent(8) {
            self.person.post(&path, None).await?;
        }
        if let Some(id) = answer.body["requestId"].as_str()
            && percent(50)
        {
            self.pause().await;
            self.person.get(&format!("/v1/requests/{id}")).await?;
        }
        Ok(())
    }

    /// One in twenty clicks twice.
    async fn twice_perhaps(&self, path: &str, key: Option<&str>) -> Result<(), String> {
        let send = || async {
            match key {
                Some(key) => self.person.post_once(path, key, None).await,
                None => self.person.post(path, None).await,
            }
        };
        if percent(5) {
            let (first, second) = tokio::join!(send(), send());
            return first.and(second).map(drop);
        }
        send().await.map(drop)
    }

    async fn play(&self, event_id: &str) -> Result<(), String> {
        let path = format!("/v1/events/{event_id}/plays");
        for _ in 0..=below(5) {
            self.twice_perhaps(&path, Some(&self.key("play"))).await?;
            self.pause().await;
        }
        Ok(())
    }

    async fn take_coupon(&self, coupon_id: &str) -> Result<(), String> {
        self.pause().await;
        let path = format!("/v1/coupons/{coupon_id}/issue");
        let answer = self.person.post_once(&path, &self.key("coupon"), None).await?;
        if let Some(id) = answer.body["userCouponId"].as_str()
            && percent(30)
        {
            self.pause().await;
            let order = json!({"orderId": self.key("order")});
            self.person.post(&format!("/v1/user-coupons/{id}/use"), Some(&order)).await?;
        }
        Ok(())
    }
}
