//! Whoever runs the events: opens them, and opens others when they are sold out, so that it never stands still.

use super::client::{Answer, Person};
use super::programme;
use guerdon_core::Timestamp;
use guerdon_engine::Clock;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Who the participants' page is shown as.
pub(crate) const VISITOR: &str = "minji";
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// From one drop's start to the next one's: people see the next one's countdown.
const BETWEEN_DROPS_MS: i64 = 45_000;
const FIRST_COUNTDOWN_MS: i64 = 30_000;
/// How long a drop stays on after its start.
const DROP_SHOWN_MS: i64 = 60_000;
const LOTTERY_MS: i64 = 75_000;
/// What a run of the demonstration with the same folder may have left behind.
const NUMBERS_MAX: u64 = 100_000;

pub(crate) struct Stage {
    operator: Person,
    clock: Arc<Clock>,
    /// How many come.
    crowd: i64,
    now_on: NowOn,
    /// The coupon that everybody is after.
    flash: watch::Sender<String>,
}

/// The numbers of what is on, each the newest of its kind.
#[derive(Default)]
struct NowOn {
    /// With their starts; the last one is still to come.
    drops: Vec<(u64, Timestamp)>,
    lottery: u64,
    cutoff_at: Option<Timestamp>,
    gift: u64,
    flash: u64,
    /// The newest of the drops.
    drop: u64,
}

impl Stage {
    /// Opens what there is to begin with.
    pub(crate) async fn set(operator: Person, clock: Arc<Clock>, crowd: usize) -> Result<Self, String> {
        let crowd = i64::try_from(crowd).unwrap_or(i64::MAX).max(20);
        let flash = watch::Sender::new(String::new());
        let mut stage = Self { operator, clock, crowd, now_on: NowOn::default(), flash };
        let now = stage.now();
        stage.make("/v1/admin/coupons", &programme::prize_coupon(now)).await?;
        stage.make("/v1/admin/coupons", &programme::welcome_coupon(now)).await?;
        stage.next_flash().await?;
        for body in [programme::daily(now), programme::wheel(now)] {
            stage.open(&body).await?;
        }
        stage.next_drop(now).await?;
        stage.next_drop(now.plus_millis(FIRST_COUNTDOWN_MS)).await?;
        stage.next_lottery().await?;
        stage.next_gift().await?;
        stage.welcome_visitor().await?;
        Ok(stage)
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The coupon that everybody is after, whenever it is another one.
    pub(crate) fn flash(&self) -> watch::Receiver<String> {
        self.flash.subscribe()
    }

    /// An account with something in it.
    async fn welcome_visitor(&self) -> Result<(), String> {
        let body = json!({"ownerId": VISITOR, "currency": "POINT", "scale": 0});
        let made = self.operator.post("/v1/admin/accounts", Some(&body)).await?.done();
        // A folder that was kept has it.
        let Ok(account) = made else { return Ok(()) };
        let path = format!("/v1/admin/accounts/{}/deposit", account["accountId"]);
        let deposit = json!({"amount": 5_000});
        self.operator.post_once(&path, "demo-welcome", Some(&deposit)).await?.done().map(drop)
    }

    /// Makes something; false where it is there already.
    async fn make(&self, path: &str, body: &Value) -> Result<bool, String> {
        let answer = self.operator.post(path, Some(body)).await?;
        if matches!(answer.code(), "EVENT_EXISTS" | "COUPON_EXISTS") {
            return Ok(false);
        }
        answer.done().map(|_| true)
    }

    async fn open(&self, body: &Value) -> Result<bool, String> {
        let made = self.make("/v1/admin/events", body).await?;
        if made {
            self.move_event(body["eventId"].as_str().unwrap_or_default(), "open").await?.done()?;
        }
        Ok(made)
    }

    async fn move_event(&self, id: &str, step: &str) -> Result<Answer, String> {
        self.operator.post(&format!("/v1/admin/events/{id}/{step}"), None).await
    }

    async fn next_drop(&mut self, starts_at: Timestamp) -> Result<(), String> {
        let capacity = self.crowd / 2;
        let number =
            self.next(self.now_on.drop, |number| programme::drop(number, capacity, starts_at)).await?;
        self.now_on.drop = number;
        self.now_on.drops.push((number, starts_at));
        Ok(())
    }

    async fn next_lottery(&mut self) -> Result<(), String> {
        let (now, capacity) = (self.now(), (self.crowd / 20).max(3));
        let cutoff_at = now.plus_millis(LOTTERY_MS);
        let body = |number| programme::lottery(number, capacity, now, cutoff_at);
        self.now_on.lottery = self.next(self.now_on.lottery, body).await?;
        self.now_on.cutoff_at = Some(cutoff_at);
        Ok(())
    }

    async fn next_gift(&mut self) -> Result<(), String> {
        let (now, stock) = (self.now(), self.crowd * 2);
        self.now_on.gift = self.next(self.now_on.gift, |number| programme::gift(number, stock, now)).await?;
        Ok(())
    }

    async fn next_flash(&mut self) -> Result<(), String> {
        let (now, quantity) = (self.now(), self.crowd);
        let mut number = self.now_on.flash + 1;
        while !self.make("/v1/admin/coupons", &programme::flash_coupon(number, quantity, now)).await? {
            number += 1;
        }
        self.now_on.flash = number;
        self.flash.send_replace(format!("FLASH_{number}"));
        Ok(())
    }

    /// Opens the next of a kind: the first number that no earlier run has used.
    async fn next(&self, last: u64, body: impl Fn(u64) -> Value) -> Result<u64, String> {
        for number in last + 1..last + NUMBERS_MAX {
            if self.open(&body(number)).await? {
                return Ok(number);
            }
        }
        Err("there have been too many events".into())
    }

    /// Looks after everything until it is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            if let Err(reason) = self.look().await {
                tracing::warn!(reason, "the demonstration could not go on as planned");
            }
        }
    }

    async fn look(&mut self) -> Result<(), String> {
        let now = self.now();
        self.look_at_drops(now).await?;
        if self.now_on.cutoff_at.is_none_or(|cutoff_at| now >= cutoff_at) {
            self.next_lottery().await?;
        }
        let gift = format!("gift_{}", self.now_on.gift);
        let event = self.operator.get(&format!("/v1/admin/events/{gift}")).await?.done()?;
        let boxes = event["rewards"].as_array().into_iter().flatten();
        if boxes.filter_map(|reward| reward["remainingStock"].as_i64()).any(|left| left == 0) {
            self.next_gift().await?;
            self.move_event(&gift, "close").await?.done()?;
        }
        let flash = format!("/v1/admin/coupons/FLASH_{}", self.now_on.flash);
        if self.operator.get(&flash).await?.done()?["remaining"].as_i64() == Some(0) {
            self.next_flash().await?;
        }
        Ok(())
    }

    /// One is on and one is to come; what has been shown for long enough is closed.
    async fn look_at_drops(&mut self, now: Timestamp) -> Result<(), String> {
        if self.now_on.drops.iter().all(|(_, starts_at)| *starts_at <= now) {
            self.next_drop(now.plus_millis(BETWEEN_DROPS_MS)).await?;
        }
        while let Some((number, starts_at)) = self.now_on.drops.first().copied() {
            if now < starts_at.plus_millis(DROP_SHOWN_MS) {
                break;
            }
            self.move_event(&format!("drop_{number}"), "close").await?;
            self.now_on.drops.remove(0);
        }
        Ok(())
    }
}
