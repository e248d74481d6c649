//! The steps of a draw, each a command that does nothing when it was done before.

use crate::events::move_by_itself;
use crate::requests::{Intake, Won, reward, tell};
use guerdon_core::audit::{Action, Actor, AuditEntry};
use guerdon_core::draw::{DrawState, DrawView, Hash};
use guerdon_core::events::lifecycle::Move;
use guerdon_core::events::{EventKind, EventState, EventStatus};
use guerdon_core::requests::{LineKey, RequestId, RequestState, ResultCode};
use guerdon_core::{Code, EventId, Rejection, Timestamp};
use guerdon_store::draws::LeafChunk;
use guerdon_store::outbox::Publishing;
use guerdon_store::{
    Command, Engine, Fault, Priority, Stopwatch, Tx, audit_log, draws, each, events, requests,
};
use std::sync::Arc;
use std::time::Duration;

/// Rows that settling may write in one transaction: the request, its news, and what its winner gets.
const SETTLED_ROWS_MAX: i64 = 1_500;
/// How long settling may keep the writer from everybody else. On PostgreSQL most of a step is round trips.
const fn settling_aim(engine: Engine) -> Duration {
    match engine {
        Engine::Sqlite => Duration::from_millis(2),
        Engine::Postgres => Duration::from_millis(5),
    }
}

/// How many people are settled at a time: as many as can be within the aim, on this machine, just now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace(i64);

impl Pace {
    const LEAST: i64 = 25;
    const MOST: i64 = 500;

    pub(super) const fn start() -> Self {
        Self(100)
    }

    /// Goes on faster or slower after a step that took so long.
    #[must_use]
    fn after(self, took: Duration, aim: Duration) -> Self {
        let next = if took > aim { self.0 / 2 } else { self.0 * 5 / 4 };
        Self(next.clamp(Self::LEAST, Self::MOST))
    }
}

/// The cutoff: whoever is in line now takes part, and nobody else. Acceptances come before it or after it, never beside.
pub(super) struct Seal {
    pub(super) event_id: EventId,
    pub(super) outbox_id: RequestId,
    pub(super) publishing: Publishing,
}

impl Command for Seal {
    type Output = bool;
    const NAME: &'static str = "seal_draw";
    const PRIORITY: Priority = Priority::Background;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<bool>, Fault> {
        each(batch, |seal| seal.run(tx))
    }
}

impl Seal {
    fn run(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let event_id = &self.event_id;
        requests::lock_line(tx, event_id)?;
        let now = tx.now();
        let Some(event) = events::lock(tx, event_id)? else { return Ok(false) };
        let EventKind::Lottery { lottery_cutoff_at, .. } = event.settings.kind else { return Ok(false) };
        let Some(line) = requests::find_line(tx, event_id)? else { return Ok(false) };
        if now < lottery_cutoff_at || !draws::seal(tx, event_id, line.last_position)? {
            return Ok(false);
        }
        if event.status() == EventStatus::Open {
            move_by_itself(tx, &event, Move::Close, self.outbox_id, self.publishing)?;
        }
        Ok(true)
    }
}

pub(super) struct WriteLeaves {
    pub(super) event_id: EventId,
    pub(super) event_key: i64,
    pub(super) present: i64,
    pub(super) chunks: Vec<LeafChunk>,
}

impl Command for WriteLeaves {
    type Output = bool;
    const NAME: &'static str = "write_leaves";
    const PRIORITY: Priority = Priority::Background;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<bool>, Fault> {
        each(batch, |step| {
            requests::lock_line(tx, &step.event_id)?;
            draws::add_leaves(tx, step.event_key, step.present, &step.chunks)
        })
    }
}

pub(super) struct SetRoot {
    pub(super) event_id: EventId,
    pub(super) event_key: i64,
    pub(super) root: Hash,
}

impl Command for SetRoot {
    type Output = bool;
    const NAME: &'static str = "set_root";
    const PRIORITY: Priority = Priority::Background;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<bool>, Fault> {
        each(batch, |step| {
            requests::lock_line(tx, &step.event_id)?;
            let now = tx.now();
            draws::set_root(tx, step.event_key, &step.root, now)
        })
    }
}

/// Goes on without a nonce, where none was declared.
pub(super) struct DrawAlone {
    pub(super) event_id: EventId,
}

impl Command for DrawAlone {
    type Output = bool;
    const NAME: &'static str = "draw_alone";
    const PRIORITY: Priority = Priority::Background;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<bool>, Fault> {
        each(batch, |step| {
            requests::lock_line(tx, &step.event_id)?;
            let Some(event) = events::find(tx, &step.event_id)? else { return Ok(false) };
            let Some(row) = draws::find(tx, &step.event_id)? else { return Ok(false) };
            let alone = matches!(event.settings.kind, EventKind::Lottery { public_nonce_source: None, .. });
            Ok(alone && draws::set_nonce(tx, row.event_key, None)?)
        })
    }
}

/// Goes on with the nonce that an operator names.
pub(super) struct DrawWith {
    pub(super) event_id: EventId,
    pub(super) nonce: String,
    pub(super) actor: Actor,
    pub(super) at: Timestamp,
}

impl Command for DrawWith {
    type Output = Result<DrawView, Rejection>;
    const NAME: &'static str = "draw_with";
    const PRIORITY: Priority = Priority::Operator;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Self::Output>, Fault> {
        // Lines in the order of their events, and the log last: as every command that takes these locks.
        let mut order: Vec<_> = (0..batch.len()).collect();
        order.sort_by_key(|index| &batch[*index].event_id);
        let mut outcomes: Vec<Option<Self::Output>> = batch.iter().map(|_| None).collect();
        let mut lines = Vec::new();
        for index in order {
            outcomes[index] = Some(batch[index].run(tx, &mut lines)?);
        }
        audit_log::append(tx, &lines)?;
        outcomes.into_iter().map(|outcome| outcome.ok_or(Fault::Panicked)).collect()
    }
}

impl DrawWith {
    fn run(
        &self,
        tx: &mut Tx<'_>,
        lines: &mut Vec<AuditEntry>,
    ) -> Result<Result<DrawView, Rejection>, Fault> {
        requests::lock_line(tx, &self.event_id)?;
        let (event, row) = match super::find_lottery(tx, &self.event_id)? {
            Ok(found) => found,
            Err(rejection) => return Ok(Err(rejection)),
        };
        let refused = |code, detail: &str| Ok(Err(Rejection::new(code, detail)));
        if matches!(event.settings.kind, EventKind::Lottery { public_nonce_source: None, .. }) {
            let detail = "no publicNonceSource was declared: the event is drawn by itself at its cutoff";
            return refused(Code::EventTransitionRefused, detail);
        }
        let missing = || Fault::Inconsistent(format!("the draw of {} cannot be shown", self.event_id));
        let before = DrawView::of(&row.draw, &event).ok_or_else(missing)?;
        match row.draw.state {
            DrawState::Collecting => {
                return refused(
                    Code::DrawNotReady,
                    "the entries have not closed: the nonce comes after the cutoff",
                );
            }
            DrawState::Sealed => {
                return refused(
                    Code::DrawNotReady,
                    "the root is being computed: the nonce comes after it is published",
                );
            }
            DrawState::Rooted => {}
            DrawState::Drawing | DrawState::Announced => {
                if row.draw.public_nonce.as_ref() == Some(&self.nonce) {
                    return Ok(Ok(before));
                }
                return refused(Code::EventTransitionRefused, "the event was drawn with another nonce");
            }
            DrawState::Void => return refused(Code::EventTransitionRefused, "the event is CANCELLED"),
        }
        draws::set_nonce(tx, row.event_key, Some(&self.nonce))?;
        let row = draws::find(tx, &self.event_id)?.ok_or_else(missing)?;
        let after = DrawView::of(&row.draw, &event).ok_or_else(missing)?;
        let json = |view: &DrawView| {
            serde_json::to_value(view).map_err(|error| Fault::Inconsistent(error.to_string()))
        };
        lines.push(AuditEntry {
            at: self.at,
            actor: self.actor.clone(),
            action: Action::EventDrawn,
            target_id: self.event_id.to_string(),
            before: Some(json(&before)?),
            after: Some(json(&after)?),
        });
        Ok(Ok(after))
    }
}

pub(super) struct WriteWinners {
    pub(super) event_id: EventId,
    pub(super) event_key: i64,
    pub(super) present: i64,
    pub(super) positions: Vec<i64>,
}

impl Command for WriteWinners {
    type Output = bool;
    const NAME: &'static str = "write_winners";
    const PRIORITY: Priority = Priority::Background;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<bool>, Fault> {
        each(batch, |step| {
            requests::lock_line(tx, &step.event_id)?;
            draws::add_winners(tx, step.event_key, step.present, &step.positions)
        })
    }
}

/// The moment in which everybody is decided: the event, the draw and the line's counts in one transaction.
pub(super) struct Announce {
    pub(super) event_id: EventId,
    pub(super) winners: i64,
    pub(super) outbox_id: RequestId,
    pub(super) publishing: Publishing,
}

impl Command for Announce {
    type Output = bool;
    const NAME: &'static str = "announce_draw";
    const PRIORITY: Priority = Priority::Background;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<bool>, Fault> {
        each(batch, |step| step.run(tx))
    }
}

impl Announce {
    fn run(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let event_id = &self.event_id;
        requests::lock_line(tx, event_id)?;
        let Some(mut event) = events::lock(tx, event_id)? else { return Ok(false) };
        let Some(mut line) = requests::find_line(tx, event_id)? else { return Ok(false) };
        if event.status() != EventStatus::Closed || !draws::announce(tx, line.event_key, self.winners)? {
            return Ok(false);
        }
        let losers = line.last_position - self.winners;
        for (result, count) in
            [(ResultCode::Success, self.winners), (ResultCode::RejectedLotteryLose, losers)]
        {
            if count > 0 {
                *line.tally.results.entry(result).or_default() += count;
            }
        }
        line.decided_position = line.last_position;
        line.capacity_remaining -= self.winners;
        requests::update_line(tx, &line)?;
        event.capacity_remaining = Some(line.capacity_remaining);
        move_by_itself(tx, &event, Move::Announce, self.outbox_id, self.publishing)?;
        Ok(true)
    }
}

/// Writes in the next requests how they ended, tells others, and gives the winners what they get.
pub(super) struct Settle {
    pub(super) event_id: EventId,
    pub(super) intake: Arc<Intake>,
    pub(super) pace: Pace,
}

impl Command for Settle {
    /// How to go on, and what was won by whom.
    type Output = (Pace, Vec<RequestId>, Won);
    const NAME: &'static str = "settle_draw";
    const PRIORITY: Priority = Priority::Background;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Self::Output>, Fault> {
        each(batch, |step| {
            let started = Stopwatch::start();
            let (winners, won) = step.run(tx)?;
            Ok((step.pace.after(started.elapsed(), settling_aim(tx.engine())), winners, won))
        })
    }

    fn committed(done: &[(&Self, &Self::Output)]) {
        for (step, (_, winners, won)) in done {
            step.intake.deliveries.hand_over(winners.iter().flat_map(|id| won.by(*id)));
        }
    }
}

impl Settle {
    fn run(&self, tx: &mut Tx<'_>) -> Result<(Vec<RequestId>, Won), Fault> {
        requests::lock_line(tx, &self.event_id)?;
        let missing = || Fault::Inconsistent(format!("{} has no draw to settle", self.event_id));
        let event = events::find(tx, &self.event_id)?.ok_or_else(missing)?;
        let row = draws::find(tx, &self.event_id)?.ok_or_else(missing)?;
        let EventState::Announced { announced_at, .. } = event.state else { return Err(missing()) };
        let (event_key, from) = (row.event_key, row.draw.settled_position);
        let rewards = i64::try_from(event.settings.rewards.len()).unwrap_or(i64::MAX);
        let most = (SETTLED_ROWS_MAX / (2 + rewards)).clamp(1, self.pace.0);
        let mut rows = requests::list(tx, event_key, from, most)?;
        let last = rows.last().map(|row| row.key).ok_or_else(missing)?;
        let winners = draws::winners(tx, LineKey::new(event_key, from), last)?;
        draws::let_win(tx, &winners, announced_at)?;
        let no_luck = ResultCode::RejectedLotteryLose;
        requests::reject_queued(tx, event_key, from, last.position(), no_luck, announced_at)?;
        for row in &mut rows {
            let won = winners.binary_search(&row.key).is_ok();
            let result = if won { ResultCode::Success } else { no_luck };
            row.state =
                RequestState::Finished { result, started_at: announced_at, finished_at: announced_at };
        }
        tell(tx, self.intake.publishing, &rows)?;
        let won = reward(tx, &event, &self.intake, &rows)?;
        if !draws::settle(tx, event_key, from, last.position())? {
            return Err(missing());
        }
        let lucky = rows.iter().filter(|row| winners.binary_search(&row.key).is_ok());
        Ok((lucky.map(|row| row.id).collect(), won))
    }
}
