//! Playing: drawn by the odds in force, decided and written in one transaction, so that no retry can draw again.

use super::given::{Given, Stock, give, lanes, tell};
use crate::engine::Engine;
use crate::entropy::Entropy;
use crate::failure::Failure;
use crate::groups::by_key;
use crate::page::{Page, PageRequest};
use crate::requests::Intake;
use crate::trace;
use guerdon_core::allocations::{Allocation, key};
use guerdon_core::entries::random::{draw, left, odds_at, play};
use guerdon_core::entries::view::{OddsInForce, PlayNews};
use guerdon_core::entries::{Day, Entry, Play, Standing};
use guerdon_core::events::settings::Odds;
use guerdon_core::events::{Event, EventKind, check_open};
use guerdon_core::idempotency::Advice;
use guerdon_core::requests::RequestId;
use guerdon_core::{Code, EventId, IdempotencyKey, Rejection, RewardId, Trace, UserId};
use guerdon_store::allocations::listing;
use guerdon_store::{Command, Fault, Priority, Tx, entries};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Random numbers that a play brings along.
const NUMBERS: usize = 4;

/// A play, made now or before.
#[derive(Clone, Debug)]
pub struct Played {
    pub entry: Entry,
    pub play: Play,
    pub duplicate: bool,
    pub allocation: Option<Allocation>,
}

/// Somebody's plays, and where they stand.
#[derive(Clone, Debug)]
pub struct Plays {
    /// None where nothing limits them.
    pub left: Option<i64>,
    pub total: i64,
    pub page: Page<Played, i64>,
}

impl Engine {
    /// Plays once for each key.
    pub async fn play(
        &self,
        event_id: EventId,
        user_id: UserId,
        key: IdempotencyKey,
    ) -> Result<Played, Failure> {
        let (log_id, intake) = (self.new_request_id(), Arc::clone(self.intake()));
        let numbers = std::array::from_fn(|_| Entropy.number());
        let trace = trace::current();
        Ok(self.commit(PlayOnce { event_id, user_id, key, log_id, numbers, intake, trace }).await??)
    }

    /// A user's plays, the newest first.
    pub async fn plays_of(
        &self,
        event_id: &EventId,
        user_id: &UserId,
        request: PageRequest<i64>,
    ) -> Result<Plays, Failure> {
        let event = self.public_event(event_id).await?;
        let EventKind::Random { time_zone, per_day, per_user, .. } = &event.settings.kind else {
            return Err(wrong_type().into());
        };
        let no_zone = || Fault::Inconsistent(format!("the time zone of {event_id} is unknown"));
        let today = Day::of(self.now(), time_zone).ok_or_else(no_zone)?;
        let (event_id, user_id) = (event_id.clone(), user_id.clone());
        let (before, rows) = (request.after.unwrap_or(i64::MAX), request.rows());
        let (standing, played) = self
            .read(move |tx| {
                let standing = entries::find_standing(tx, &event_id, &user_id)?;
                let mut played = Vec::new();
                for entry in entries::of_member(tx, &event_id, &user_id, before, rows)? {
                    let Some(play) = entry.play.clone() else { continue };
                    let allocation = match play.reward_id {
                        Some(_) => listing::of_entry(tx, user_id.as_str(), entry.id)?.pop(),
                        None => None,
                    };
                    played.push(Played { entry, play, duplicate: true, allocation });
                }
                Ok((standing, played))
            })
            .await?;
        Ok(Plays {
            left: left(standing, today, *per_day, *per_user),
            total: standing.map_or(0, |standing| standing.total),
            page: request.page(played, |played| played.entry.number),
        })
    }

    /// The odds that are in force.
    pub async fn odds(&self, event_id: &EventId) -> Result<OddsInForce, Failure> {
        let event = self.public_event(event_id).await?;
        let EventKind::Random { odds, .. } = &event.settings.kind else { return Err(wrong_type().into()) };
        let missing = || Fault::Inconsistent(format!("{event_id} has no odds"));
        Ok(OddsInForce::of(odds, self.now()).ok_or_else(missing)?)
    }
}

fn wrong_type() -> Rejection {
    Rejection::new(Code::EventWrongType, "the event is not of the type RANDOM")
}

struct PlayOnce {
    event_id: EventId,
    user_id: UserId,
    key: IdempotencyKey,
    log_id: RequestId,
    /// The chance of this play, drawn once: a transaction that has to be run again runs with the same.
    numbers: [u64; NUMBERS],
    intake: Arc<Intake>,
    trace: Option<Trace>,
}

type Outcome = Result<Played, Rejection>;

impl Command for PlayOnce {
    type Output = Outcome;
    const NAME: &'static str = "play";
    const PRIORITY: Priority = Priority::Intake;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Outcome>, Fault> {
        by_key(tx, batch, |play| &play.event_id, play_all)
    }

    fn committed(done: &[(&Self, &Outcome)]) {
        let Some((first, _)) = done.first() else { return };
        let new = done.iter().filter_map(|(_, outcome)| outcome.as_ref().ok());
        let new = new.filter(|played| !played.duplicate).filter_map(|played| played.allocation.as_ref());
        first.intake.deliveries.hand_over(lanes(new));
    }
}

/// What became of a play in this transaction.
enum Turn {
    Played(usize),
    /// The same key a second time in this transaction.
    SameAs(usize),
    Ended(Box<Outcome>),
}

/// The game as it is played now.
struct Game<'e> {
    event: &'e Event,
    odds: &'e Odds,
    today: Day,
    limits: (Option<i64>, Option<i64>),
}

/// Plays of one event, in the order in which they came.
fn play_all(tx: &mut Tx<'_>, people: &[&PlayOnce]) -> Result<Vec<Outcome>, Fault> {
    let refused = |rejection: Rejection| Ok(people.iter().map(|_| Err(rejection.clone())).collect());
    let event = match super::public_event(tx, &people[0].event_id)? {
        Err(rejection) => return refused(rejection),
        Ok(event) => event,
    };
    let EventKind::Random { time_zone, per_day, per_user, odds } = &event.settings.kind else {
        return refused(wrong_type());
    };
    let now = tx.now();
    let odd = |what: &str| Fault::Inconsistent(format!("{}: {what}", event.id));
    let game = Game {
        event: &event,
        odds: odds_at(odds, now).ok_or_else(|| odd("no odds"))?,
        today: Day::of(now, time_zone).ok_or_else(|| odd("its time zone is unknown"))?,
        limits: (*per_day, *per_user),
    };
    let members = super::members(people.iter().map(|play| &play.user_id));
    let admission = check_open(&event, now);
    let mut standings = entries::hold(tx, &event.id, &members, admission.is_ok())?;
    let wanted: Vec<_> = people.iter().map(|person| (person.user_id.as_str(), person.key.as_str())).collect();
    let mut known = entries::by_keys(tx, &wanted)?;
    let mut stock = Stock::hold(tx, &event)?;
    let mut written: Vec<(&str, Entry)> = Vec::new();
    let mut moved: HashSet<&str> = HashSet::new();
    let mut given = Vec::new();
    let mut keys: HashMap<(&str, &str), usize> = HashMap::new();
    let mut turns = Vec::with_capacity(people.len());
    for (index, person) in people.iter().enumerate() {
        let member = person.user_id.as_str();
        if let Some(first) = keys.get(&(member, person.key.as_str())) {
            turns.push(Turn::SameAs(*first));
            continue;
        }
        keys.insert((member, person.key.as_str()), index);
        let before = known.remove(&(member.to_owned(), person.key.as_str().to_owned()));
        if let Some(known) = before.map(|found| again(tx, &event, person, found)).transpose()? {
            turns.push(Turn::Ended(Box::new(known)));
            continue;
        }
        let decided = admission
            .clone()
            .and_then(|()| play(standings.get(member).copied(), game.today, game.limits.0, game.limits.1));
        let standing = match decided {
            Ok(standing) => standing,
            Err(rejection) => {
                turns.push(Turn::Ended(Box::new(Err(Advice::EitherKey.on(rejection)))));
                continue;
            }
        };
        let entry = game.decide(tx, person, standing, &mut stock)?;
        tx.follow(&entry.id, person.trace);
        if let Some(reward_id) = entry.play.as_ref().and_then(|play| play.reward_id.clone()) {
            given.push(Given {
                member_id: person.user_id.clone(),
                entry_id: entry.id,
                ordinal: 1,
                reward_id,
                key: key::of_play(&event.id, &person.user_id, entry.id),
                trace: person.trace,
            });
        }
        standings.insert(member, standing);
        moved.insert(member);
        turns.push(Turn::Played(written.len()));
        written.push((member, entry));
    }
    let mut made = HashMap::new();
    if !written.is_empty() {
        let mut moved: Vec<_> = moved.iter().map(|member| (*member, standings[member])).collect();
        moved.sort_unstable_by_key(|(member, _)| *member);
        entries::stand(tx, &event.id, &moved)?;
        entries::insert(tx, &event.id, &written)?;
        let rows = give(tx, &event, &people[0].intake, &given)?;
        made.extend(rows.into_iter().map(|row| (row.key.clone(), row)));
        stock.write(tx, &event)?;
        let news = written
            .iter()
            .filter_map(|(member, entry)| Some((entry.id, PlayNews::of(&event.id, member, entry)?)));
        tell(tx, &people[0].intake, "PLAY_DECIDED", news)?;
    }
    let mut answers: Vec<Outcome> = Vec::with_capacity(people.len());
    for (person, turn) in people.iter().zip(turns) {
        answers.push(match turn {
            Turn::Ended(outcome) => *outcome,
            Turn::SameAs(first) => answers[first].clone().map(|played| Played { duplicate: true, ..played }),
            Turn::Played(index) => {
                let entry = written[index].1.clone();
                let allocation = made.remove(&key::of_play(&event.id, &person.user_id, entry.id));
                let play = entry.play.clone().ok_or_else(|| odd("a play without a result"))?;
                Ok(Played { entry, play, duplicate: false, allocation })
            }
        });
    }
    Ok(answers)
}

impl Game<'_> {
    /// Draws, and takes what was drawn from the stock: where it has run out, the fallback, or nothing.
    fn decide(
        &self,
        tx: &mut Tx<'_>,
        person: &PlayOnce,
        standing: Standing,
        stock: &mut Stock,
    ) -> Result<Entry, Fault> {
        let mut numbers = person.numbers.into_iter();
        // More are only needed where several in a row would have favoured some, which nobody will live to see.
        let drawn = draw(self.odds, || numbers.next().unwrap_or_else(|| Entropy.number()))
            .ok_or_else(|| Fault::Inconsistent(format!("{}: nothing to draw from", self.event.id)))?;
        let prize: Option<&RewardId> = self.odds.prizes[drawn].reward_id.as_ref();
        let mut reward_id = None;
        if let Some(prize) = prize {
            for candidate in std::iter::once(prize).chain(self.odds.fallback.as_ref()) {
                if stock.take(self.event, candidate) {
                    reward_id = Some(candidate.clone());
                    break;
                }
            }
        }
        let drawn = i64::try_from(drawn).map_err(|_| Fault::Panicked)?;
        Ok(Entry {
            id: person.log_id,
            day: standing.last_day,
            number: standing.total,
            slot: standing.run,
            streak: 0,
            at: tx.now(),
            play: Some(Play {
                odds_version: self.odds.version,
                drawn,
                reward_id,
                key: person.key.as_str().to_owned(),
            }),
        })
    }
}

/// The play that was made under this key before.
fn again(
    tx: &mut Tx<'_>,
    event: &Event,
    person: &PlayOnce,
    (event_id, entry): entries::Found,
) -> Result<Outcome, Fault> {
    let member = person.user_id.as_str();
    let Some(play) = entry.play.clone().filter(|_| event_id == event.id.as_str()) else {
        let detail =
            format!("the first request with this key played {event_id}; this one was not carried out");
        let rejection = Rejection::new(Code::IdempotencyHashMismatch, detail);
        return Ok(Err(Advice::NewKey.on(rejection)));
    };
    let allocation = listing::of_entry(tx, member, entry.id)?.pop();
    Ok(Ok(Played { entry, play, duplicate: true, allocation }))
}
