//! What operators can do about messages: look, have them sent again, turn a sink on again.

use crate::engine::Engine;
use crate::failure::Failure;
use crate::page::{Page, PageRequest};
use guerdon_core::audit::{Action, Actor, AuditEntry};
use guerdon_core::outbox::view::Stored;
use guerdon_core::outbox::{MessageId, MessageStatus};
use guerdon_core::{Code, Rejection, Timestamp};
use guerdon_store::outbox::publishing::Place;
use guerdon_store::outbox::{disabled, listing};
use guerdon_store::{Command, Fault, Priority, Tx, audit_log, each};
use serde_json::json;

/// Messages that one transaction has sent again, and one call.
const CHUNK: i64 = 500;
const CHUNKS_MAX: usize = 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxFilter {
    pub status: Option<MessageStatus>,
}

/// Which messages are sent again: the dead from one to another, or those that were sent, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    pub from: MessageId,
    pub to: MessageId,
    pub dead: bool,
}

/// Where messages go, and whether they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkState {
    pub name: &'static str,
    pub address: Option<String>,
    /// Since when it is off, and why.
    pub disabled: Option<(Timestamp, String)>,
}

impl Engine {
    /// Messages, the newest first. A page that is filtered by status may come back short.
    pub async fn outbox(
        &self,
        filter: OutboxFilter,
        request: PageRequest<String>,
    ) -> Result<Page<Stored, String>, Failure> {
        let before = match &request.after {
            Some(text) => Some(place(text).ok_or_else(bad_cursor)?),
            None => None,
        };
        let rows = request.rows();
        let found = self.read(move |tx| listing::list(tx, filter.status, before, rows)).await?;
        let cursor = |(time, id): Place| format!("{time}.{id}");
        Ok(request.page_of(found, |stored| cursor((stored.message.created_at, stored.message.id)), cursor))
    }

    pub async fn message(&self, id: MessageId) -> Result<Stored, Failure> {
        let found = self.read(move |tx| listing::find(tx, id)).await?;
        Ok(found.ok_or_else(|| no_message(id))?)
    }

    /// Has one message sent again, whatever became of it.
    pub async fn replay_message(&self, actor: Actor, id: MessageId) -> Result<Stored, Failure> {
        self.require_sink()?;
        let replayed = self.commit(ReplaySome { which: Which::One(id), actor, at: self.now() }).await?;
        if replayed.count == 0 {
            return Err(no_message(id).into());
        }
        let found = self.read(move |tx| listing::find(tx, id)).await?;
        found.ok_or_else(|| Fault::Inconsistent(format!("the message {id} is gone")).into())
    }

    /// Has a range of messages sent again: how many, and where to go on when there are more than one call takes.
    pub async fn replay_messages(
        &self,
        actor: Actor,
        replay: Replay,
    ) -> Result<(u64, Option<MessageId>), Failure> {
        self.require_sink()?;
        let mut from = Some(replay.from);
        let mut total = 0;
        for _ in 0..CHUNKS_MAX {
            let Some(place) = from else { break };
            let which = Which::Range(Replay { from: place, ..replay });
            let replayed = self.commit(ReplaySome { which, actor: actor.clone(), at: self.now() }).await?;
            total += replayed.count;
            from = replayed.next;
        }
        Ok((total, from))
    }

    pub async fn sink_state(&self) -> Result<SinkState, Failure> {
        let Some(publisher) = &self.publisher else {
            return Ok(SinkState { name: "none", address: None, disabled: None });
        };
        let address = publisher.sink.address().to_owned();
        let wanted = address.clone();
        let disabled = self.read(move |tx| disabled::find(tx, &wanted)).await?;
        Ok(SinkState { name: publisher.sink.name(), address: Some(address), disabled })
    }

    /// Turns a sink on again that wanted nothing more.
    pub async fn enable_sink(&self, actor: Actor) -> Result<SinkState, Failure> {
        let state = self.sink_state().await?;
        self.require_sink()?;
        let address = state.address.clone().unwrap_or_default();
        if state.disabled.is_some() {
            self.commit(Enable { address, actor, at: self.now() }).await?;
        }
        Ok(SinkState { disabled: None, ..state })
    }

    fn require_sink(&self) -> Result<(), Rejection> {
        match &self.publisher {
            Some(_) => Ok(()),
            None => Err(Rejection::new(Code::NoSink, "outbox.sink is none: nobody would publish it")),
        }
    }
}

fn place(text: &str) -> Option<Place> {
    let (time, id) = text.split_once('.')?;
    Some((Timestamp::from_millis(time.parse().ok()?), MessageId::parse(id)?))
}

fn no_message(id: MessageId) -> Rejection {
    let detail = format!("there is no message {id}; it may have been removed after it was sent");
    Rejection::new(Code::MessageNotFound, detail)
}

fn bad_cursor() -> Failure {
    Rejection::new(Code::BadRequest, "the cursor cannot be read").into()
}

#[derive(Clone, Copy)]
enum Which {
    One(MessageId),
    Range(Replay),
}

struct ReplaySome {
    which: Which,
    actor: Actor,
    at: Timestamp,
}

struct Replayed {
    count: u64,
    next: Option<MessageId>,
}

impl Command for ReplaySome {
    type Output = Replayed;
    const NAME: &'static str = "replay_messages";
    const PRIORITY: Priority = Priority::Operator;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Replayed>, Fault> {
        each(batch, |replay| replay.run(tx))
    }
}

impl ReplaySome {
    fn run(&self, tx: &mut Tx<'_>) -> Result<Replayed, Fault> {
        let found = match self.which {
            Which::One(id) => listing::find(tx, id)?.into_iter().collect(),
            Which::Range(Replay { from, to, dead }) => listing::range(tx, from, to, dead, CHUNK)?,
        };
        let ids: Vec<_> = found.iter().map(|stored| stored.message.id).collect();
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else {
            return Ok(Replayed { count: 0, next: None });
        };
        let count = listing::replay(tx, &ids)?;
        let before = found.first().map(|stored| json!({"status": stored.status.as_str()}));
        let line = AuditEntry {
            at: self.at,
            actor: self.actor.clone(),
            action: Action::MessagesReplayed,
            target_id: first.to_string(),
            before,
            after: Some(json!({"status": "NEW", "messages": count, "last": last.to_string()})),
        };
        audit_log::append(tx, &[line])?;
        let full = i64::try_from(ids.len()).is_ok_and(|found| found == CHUNK);
        Ok(Replayed { count, next: full.then(|| last.next()) })
    }
}

struct Enable {
    address: String,
    actor: Actor,
    at: Timestamp,
}

impl Command for Enable {
    type Output = ();
    const NAME: &'static str = "enable_sink";
    const PRIORITY: Priority = Priority::Operator;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        each(batch, |enable| {
            if disabled::enable(tx, &enable.address)? {
                let line = AuditEntry {
                    at: enable.at,
                    actor: enable.actor.clone(),
                    action: Action::SinkEnabled,
                    target_id: enable.address.clone(),
                    before: Some(json!({"enabled": false})),
                    after: Some(json!({"enabled": true})),
                };
                audit_log::append(tx, &[line])?;
            }
            Ok(())
        })
    }
}
