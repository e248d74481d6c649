//! Three things that hold for every step of every claim, on each engine: done twice it is done once, failed it has not
//! happened, and undone twice it is undone once.

use super::initiate::{Begun, Initiate};
use super::lane::Kind;
use super::port::Found;
use super::step::{Ended, Finding, Step, Stepped, Wanted};
use super::{CONDITIONS, ClaimOptions, ClaimServices, Claims, HOUSE};
use crate::allocations::{AllocationOptions, Asks, Calls, Deliveries, Grant, Provider, Revocation};
use crate::idempotency::{KeyOptions, Keys};
use crate::metrics::EngineMetrics;
use crate::users::UnknownUsers;
use crate::wallet::Desk;
use guerdon_core::allocations::answer::Found as Looked;
use guerdon_core::allocations::{Answer, Outcome};
use guerdon_core::claims::{Claim, ClaimId, ClaimStatus, Judged, Need};
use guerdon_core::events::lifecycle::NewEvent;
use guerdon_core::events::{Event, EventBody, EventState};
use guerdon_core::idempotency::StoredAnswer;
use guerdon_core::wallet::timed_out;
use guerdon_core::{ClaimKey, EventId, Timestamp, UserId};
use guerdon_harness::{TestDatabase, TestEngine};
use guerdon_store::outbox::Publishing;
use guerdon_store::{
    Command, Database, Fault, Priority, Store, StoreMetrics, StoreOptions, Tx, claims as rows, each, events,
};
use prometheus_client::registry::Registry;
use serde_json::{Map, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Somebody outside; what they say the test says.
struct Partner;

impl Provider for Partner {
    fn name(&self) -> &'static str {
        "default"
    }

    fn concurrency(&self) -> usize {
        1
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn grant<'a>(&'a self, _: &'a Grant) -> Calls<'a> {
        Box::pin(async { Answer::Missing })
    }

    fn revoke<'a>(&'a self, _: &'a Revocation) -> Calls<'a> {
        Box::pin(async { Answer::Missing })
    }

    fn look<'a>(&'a self, _: &'a Grant) -> Asks<'a> {
        Box::pin(async { Looked::CannotTell })
    }
}

/// Runs in the committer whatever a test wants to run there.
struct Run<F>(F);

impl<T: Send + 'static, F: Fn(&mut Tx<'_>) -> Result<T, Fault> + Send + Sync + 'static> Command for Run<F> {
    type Output = T;
    const NAME: &'static str = "run";
    const PRIORITY: Priority = Priority::Operator;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<T>, Fault> {
        each(batch, |run| run.0(tx))
    }
}

struct House {
    store: Store,
    clock: Arc<AtomicI64>,
    claims: Arc<Claims>,
    desk: Arc<Desk>,
    database: TestDatabase,
}

impl House {
    fn open(engine: TestEngine) -> Self {
        let database = TestDatabase::new(engine);
        let mut registry = Registry::default();
        let (store_metrics, metrics) =
            (StoreMetrics::register(&mut registry), EngineMetrics::register(&mut registry));
        let clock = Arc::new(AtomicI64::new(1_000_000));
        let now = Arc::clone(&clock);
        let url = Database::parse(&database.url).unwrap();
        let store = Store::open(&url, &StoreOptions::default(), &store_metrics, move || {
            Timestamp::from_millis(now.load(Ordering::SeqCst))
        });
        let keys = KeyOptions {
            ttl: Duration::from_mins(20),
            lease: Duration::from_secs(1),
            watchdog_interval: Duration::from_mins(1),
            render: |rejection, _| StoredAnswer { status: 422, body: rejection.code.as_str().into() },
        };
        let second = Duration::from_secs(1);
        let deliveries =
            AllocationOptions { retry_delay: second, retry_interval: second, max_attempts: 3, lease: second };
        let options = ClaimOptions {
            wait: second,
            lease: second,
            timeout: Duration::from_mins(10),
            tries: 1,
            retry_delay: Duration::ZERO,
        };
        let deliveries = Deliveries::new(deliveries, vec![Arc::new(Partner)]);
        let claims = Claims::new(options, UnknownUsers::Accept, ClaimServices::default(), &deliveries);
        let desk = Desk::new(Arc::new(Keys::new(keys, metrics, timed_out)), Publishing::Nobody);
        let house =
            Self { store: store.unwrap(), clock, claims: Arc::new(claims), desk: Arc::new(desk), database };
        house.run(Run(|tx: &mut Tx<'_>| events::insert(tx, &gift()))).unwrap();
        house
    }

    fn run<C: Command>(&self, command: C) -> Result<C::Output, Fault> {
        self.clock.fetch_add(1, Ordering::SeqCst);
        self.store.submit(command).unwrap().blocking_recv().unwrap()
    }

    fn initiate(&self, number: u8) -> Initiate {
        Initiate::new(
            ClaimId::fresh([number; 16]),
            (EventId::parse("gift").unwrap(), UserId::parse("ann").unwrap()),
            ClaimKey::parse("the-one-key").unwrap(),
            &self.claims,
        )
    }

    fn claim(&self) -> Claim {
        let found = self.run(Run(|tx: &mut Tx<'_>| rows::by_keys(tx, &["the-one-key"])));
        found.unwrap().pop().unwrap().claim
    }

    fn step(&self, lane: &str, ended: Vec<Ended>, wanted: Vec<Wanted>) -> Step {
        let kind = match lane {
            HOUSE => Kind::House,
            CONDITIONS => Kind::Reading,
            _ => Kind::Calling,
        };
        Step {
            lane: lane.to_owned(),
            kind,
            longest: Duration::from_millis(1),
            ended,
            wanted,
            shut: None,
            // One step at a time, so that each is seen by itself.
            careful: true,
            worker: "test".into(),
            claims: Arc::clone(&self.claims),
            publishing: Publishing::Nobody,
            desk: Arc::clone(&self.desk),
        }
    }

    /// All that a claim can change.
    fn everything(&self) -> Vec<String> {
        let mut sql = self.database.sql();
        let (transfers, accounts, outbox) =
            (sql.table("core.transfer"), sql.table("core.account"), sql.table("integration.outbox_events"));
        let mut all = Vec::new();
        for statement in [
            "SELECT request_id || ' ' || status || ' ' || epoch || ' ' || progress FROM user_reward_requests"
                .to_owned(),
            "SELECT reward_id || ' ' || remaining_stock FROM event_rewards WHERE remaining_stock IS NOT NULL
                ORDER BY reward_id"
                .into(),
            "SELECT reward_id || ' ' || COALESCE(returned_at, 0) FROM claim_stock ORDER BY reward_id".into(),
            format!("SELECT kind || ' ' || amount || ' ' || refunded FROM {transfers} ORDER BY transfer_id"),
            format!("SELECT account_id || ' ' || balance FROM {accounts} ORDER BY account_id"),
            format!("SELECT event_type FROM {outbox} ORDER BY event_id"),
        ] {
            all.extend(sql.texts(&statement));
        }
        all
    }

    /// A step that fails has not happened, one that is done twice was done once.
    fn try_step(&self, step: &Step) -> Stepped {
        let before = self.everything();
        let doomed = step.clone();
        let failed = self.run(Run(move |tx: &mut Tx<'_>| {
            Step::apply(tx, std::slice::from_ref(&doomed))?;
            Err::<(), _>(Fault::Statement("refused at the very end".into()))
        }));
        assert!(failed.is_err());
        assert_eq!(self.everything(), before, "a step that failed left something behind");
        let stepped = self.run(step.clone()).unwrap();
        let after = self.everything();
        assert_ne!(after, before, "a step that does nothing");
        self.run(step.clone()).unwrap();
        assert_eq!(self.everything(), after, "a step that is done twice");
        stepped
    }
}

fn gift() -> Event {
    let body = json!({
        "eventId": "gift", "name": "Gift", "type": "CLAIM", "startsAt": 0, "endsAt": 4_000_000_000_000_i64,
        "conditions": "activity.OK == 1",
        "rewards": [
            {"rewardId": "points", "kind": "POINT", "amount": 5, "currency": "PNT"},
            {"rewardId": "sword", "kind": "ITEM", "totalStock": 3},
            {"rewardId": "gem", "kind": "POINT", "amount": 1, "currency": "GEM", "totalStock": 3},
            {"rewardId": "shield", "kind": "ITEM"},
        ],
    });
    let body: EventBody = serde_json::from_value(body).unwrap();
    let NewEvent { id, settings } = NewEvent::validate(body).unwrap();
    let remaining_stock = settings.rewards.iter().map(|reward| reward.total_stock).collect();
    let at = Timestamp::from_millis(1);
    let state = EventState::Open { opened_at: at };
    Event {
        id,
        state,
        settings,
        remaining_stock,
        capacity_remaining: None,
        version: 1,
        created_at: at,
        updated_at: at,
    }
}

/// Takes a claim from its call to its end, each step tried three times; the statuses that it passed.
fn walk(engine: TestEngine, last_is_granted: bool) -> (House, Claim) {
    let house = House::open(engine);
    let begun = house.run(house.initiate(1)).unwrap();
    assert!(matches!(begun, Begun::New(_)));
    let before = house.everything();
    assert!(matches!(house.run(house.initiate(2)).unwrap(), Begun::Existing(_)), "the same key again");
    assert_eq!(house.everything(), before);
    for _ in 0..100 {
        let claim = house.claim();
        let Some(lane) = house.claims.lane_of(&claim) else { return (house, claim) };
        let wanted = Wanted { id: claim.id, epoch: Some(claim.epoch) };
        let stepped = house.try_step(&house.step(&lane, Vec::new(), vec![wanted]));
        for taken in stepped.taken {
            let called = taken.claim;
            let found = match called.need() {
                Need::Conditions => Found::Judged(Judged::Met(Map::new())),
                // The last reward is refused, for a claim that is to be undone.
                Need::Grant(3) if !last_is_granted => {
                    Found::Granted(Outcome::Refused { reason: "no".into() })
                }
                Need::Grant(_) => Found::Granted(Outcome::Applied { transaction_id: None }),
                Need::Revoke(_) => Found::Revoked(Outcome::Revoked),
                need => panic!("nobody is called for {need:?}"),
            };
            let ended = Ended { id: called.id, epoch: called.epoch, finding: Finding::Found(found) };
            house.try_step(&house.step(&lane, vec![ended], Vec::new()));
        }
    }
    panic!("the claim does not end: {:?}", house.claim());
}

fn every_step_of_a_claim_that_is_granted(engine: TestEngine) {
    let (house, claim) = walk(engine, true);
    assert_eq!(claim.status(), ClaimStatus::SuccessAllGranted);
    assert!(claim.epoch >= 8, "each step was taken by itself: {}", claim.epoch);
    nothing_can_be_done_to_it(&house, &claim);
}

fn every_step_of_a_claim_that_is_undone(engine: TestEngine) {
    let (house, claim) = walk(engine, false);
    assert_eq!(claim.status(), ClaimStatus::FailedRolledBack);
    let passed: Vec<_> = claim.progress.timeline.iter().map(|passed| passed.to).collect();
    assert!(
        passed.contains(&ClaimStatus::CompensatedReward)
            && passed.contains(&ClaimStatus::CompensatedInventory)
    );
    assert!(house.everything().contains(&"sword 3".to_owned()));
    assert!(house.everything().contains(&"gem 3".to_owned()));
    nothing_can_be_done_to_it(&house, &claim);
}

/// Whoever comes late, with whatever they know: a claim at its end is not undone a second time, nor granted.
fn nothing_can_be_done_to_it(house: &House, claim: &Claim) {
    let before = house.everything();
    for lane in [HOUSE, CONDITIONS, "provider:default"] {
        for epoch in 0..=claim.epoch {
            for found in [
                Found::Granted(Outcome::Applied { transaction_id: None }),
                Found::Revoked(Outcome::Revoked),
                Found::Judged(Judged::Met(Map::new())),
            ] {
                let ended = Ended { id: claim.id, epoch, finding: Finding::Found(found) };
                let wanted =
                    vec![Wanted { id: claim.id, epoch: Some(epoch) }, Wanted { id: claim.id, epoch: None }];
                let stepped = house.run(house.step(lane, vec![ended], wanted));
                assert!(stepped.unwrap().taken.is_empty());
            }
        }
    }
    assert_eq!(house.everything(), before);
}

#[test]
fn sqlite_every_step_of_a_claim_that_is_granted() {
    every_step_of_a_claim_that_is_granted(TestEngine::Sqlite);
}

#[test]
fn postgres_every_step_of_a_claim_that_is_granted() {
    every_step_of_a_claim_that_is_granted(TestEngine::Postgres);
}

#[test]
fn sqlite_every_step_of_a_claim_that_is_undone() {
    every_step_of_a_claim_that_is_undone(TestEngine::Sqlite);
}

#[test]
fn postgres_every_step_of_a_claim_that_is_undone() {
    every_step_of_a_claim_that_is_undone(TestEngine::Postgres);
}
