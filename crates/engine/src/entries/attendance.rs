//! Checking in: once a day of the event's own calendar.

use super::given::{Given, Stock, give, lanes, tell};
use crate::engine::Engine;
use crate::failure::Failure;
use crate::groups::by_key;
use crate::requests::Intake;
use crate::trace;
use guerdon_core::allocations::{Allocation, key};
use guerdon_core::entries::attendance::{check_in, gifts};
use guerdon_core::entries::view::CheckInNews;
use guerdon_core::entries::{Day, Entry, Standing};
use guerdon_core::events::{Event, EventKind, check_open};
use guerdon_core::requests::RequestId;
use guerdon_core::{Code, EventId, Rejection, Trace, UserId};
use guerdon_store::allocations::listing;
use guerdon_store::{Command, Fault, Priority, Tx, entries};
use std::collections::HashMap;
use std::sync::Arc;

/// Days that a calendar shows.
const DAYS_MAX: i64 = 400;

/// A check-in, made now or before.
#[derive(Clone, Debug)]
pub struct CheckedIn {
    pub entry: Entry,
    pub duplicate: bool,
    pub allocations: Vec<Allocation>,
}

/// A user's days in an event.
#[derive(Clone, Debug)]
pub struct Calendar {
    pub time_zone: String,
    pub today: Day,
    pub standing: Option<Standing>,
    pub days: Vec<Day>,
}

impl Engine {
    /// Checks somebody in for today, once.
    pub async fn check_in(&self, event_id: EventId, user_id: UserId) -> Result<CheckedIn, Failure> {
        let intake = Arc::clone(self.intake());
        let (entry_id, trace) = (self.new_request_id(), trace::current());
        let command = CheckIn { event_id, user_id, entry_id, intake, trace };
        Ok(self.commit(command).await??)
    }

    pub async fn calendar(&self, event_id: &EventId, user_id: &UserId) -> Result<Calendar, Failure> {
        let event = self.public_event(event_id).await?;
        let EventKind::Attendance { time_zone, .. } = &event.settings.kind else {
            return Err(wrong_type().into());
        };
        let today = Day::of(self.now(), time_zone).ok_or_else(|| no_zone(&event))?;
        let (event_id, user_id) = (event_id.clone(), user_id.clone());
        let (standing, days) = self
            .read(move |tx| {
                let standing = entries::find_standing(tx, &event_id, &user_id)?;
                Ok((standing, entries::days(tx, &event_id, &user_id, DAYS_MAX)?))
            })
            .await?;
        Ok(Calendar { time_zone: time_zone.clone(), today, standing, days })
    }
}

fn wrong_type() -> Rejection {
    Rejection::new(Code::EventWrongType, "the event is not of the type ATTENDANCE")
}

fn no_zone(event: &Event) -> Fault {
    Fault::Inconsistent(format!("the time zone of {} is unknown", event.id))
}

struct CheckIn {
    event_id: EventId,
    user_id: UserId,
    entry_id: RequestId,
    intake: Arc<Intake>,
    trace: Option<Trace>,
}

type Outcome = Result<CheckedIn, Rejection>;

impl Command for CheckIn {
    type Output = Outcome;
    const NAME: &'static str = "check_in";
    const PRIORITY: Priority = Priority::Intake;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Outcome>, Fault> {
        by_key(tx, batch, |check| &check.event_id, check_in_all)
    }

    fn committed(done: &[(&Self, &Outcome)]) {
        let Some((first, _)) = done.first() else { return };
        let new = done.iter().filter_map(|(_, outcome)| outcome.as_ref().ok());
        let new = new.filter(|checked| !checked.duplicate).flat_map(|checked| &checked.allocations);
        first.intake.deliveries.hand_over(lanes(new));
    }
}

/// Checks people in to one event.
fn check_in_all(tx: &mut Tx<'_>, people: &[&CheckIn]) -> Result<Vec<Outcome>, Fault> {
    let refused = |rejection: Rejection| Ok(people.iter().map(|_| Err(rejection.clone())).collect());
    let event = match super::public_event(tx, &people[0].event_id)? {
        Err(rejection) => return refused(rejection),
        Ok(event) => event,
    };
    let EventKind::Attendance { time_zone, .. } = &event.settings.kind else { return refused(wrong_type()) };
    let now = tx.now();
    let today = Day::of(now, time_zone).ok_or_else(|| no_zone(&event))?;
    let members = super::members(people.iter().map(|check| &check.user_id));
    let admission = check_open(&event, now).err();
    let standings = entries::hold(tx, &event.id, &members, admission.is_none())?;
    let mut stock = Stock::hold(tx, &event)?;
    let (mut moved, mut written, mut given) = (Vec::new(), Vec::new(), Vec::new());
    let mut new: HashMap<&str, Entry> = HashMap::new();
    for check in people {
        let member = check.user_id.as_str();
        if new.contains_key(member) || admission.is_some() {
            continue;
        }
        let Some(standing) = check_in(standings.get(member).copied(), today) else { continue };
        let entry = Entry {
            id: check.entry_id,
            day: today,
            number: standing.total,
            slot: 1,
            streak: standing.run,
            at: now,
            play: None,
        };
        tx.follow(&entry.id, check.trace);
        let gifts = gifts(&event.settings.kind, standing);
        for (gift, ordinal) in gifts.iter().zip(1_u16..) {
            // A reward that has run out is not given; the day counts all the same.
            if !stock.take(&event, gift.reward_id) {
                continue;
            }
            let key = match gift.milestone {
                None => key::of_day(&event.id, &check.user_id, today),
                Some(days) => key::of_milestone(&event.id, &check.user_id, today, days),
            };
            given.push(Given {
                member_id: check.user_id.clone(),
                entry_id: entry.id,
                ordinal,
                reward_id: gift.reward_id.clone(),
                key,
                trace: check.trace,
            });
        }
        moved.push((member, standing));
        written.push((member, entry.clone()));
        new.insert(member, entry);
    }
    let mut made = Vec::new();
    if !written.is_empty() {
        entries::stand(tx, &event.id, &moved)?;
        entries::insert(tx, &event.id, &written)?;
        made = give(tx, &event, &people[0].intake, &given)?;
        stock.write(tx, &event)?;
        let news =
            written.iter().map(|(member, entry)| (entry.id, CheckInNews::of(&event.id, member, entry)));
        tell(tx, &people[0].intake, "ATTENDANCE_CHECKED_IN", news)?;
    }
    let mut answers = Vec::with_capacity(people.len());
    for check in people {
        let member = check.user_id.as_str();
        answers.push(match new.get(member) {
            Some(entry) => {
                let allocations = made.iter().filter(|row| row.member_id == check.user_id).cloned().collect();
                Ok(CheckedIn { entry: entry.clone(), duplicate: entry.id != check.entry_id, allocations })
            }
            None => again(tx, &event, (member, today), standings.get(member), admission.as_ref())?,
        });
    }
    Ok(answers)
}

/// What was made before, today; where nothing was, why nothing can be.
fn again(
    tx: &mut Tx<'_>,
    event: &Event,
    (member, today): (&str, Day),
    standing: Option<&Standing>,
    admission: Option<&Rejection>,
) -> Result<Outcome, Fault> {
    let found = match standing {
        Some(standing) if standing.last_day >= today => {
            entries::on_day(tx, &event.id, member, standing.last_day)?
        }
        _ => None,
    };
    let Some(entry) = found else {
        let closed = || Rejection::new(Code::EventNotOpen, "the event takes no check-ins");
        return Ok(Err(admission.cloned().unwrap_or_else(closed)));
    };
    let allocations = listing::of_entry(tx, member, entry.id)?;
    Ok(Ok(CheckedIn { entry, duplicate: true, allocations }))
}
