//! The draw of a lottery: what happens by itself from the cutoff to the last winner's reward, and what can be seen of it.
//!
//! Each step is one short transaction that is guarded by the step before it, and what is written follows from what is
//! stored. So it does not matter who takes a step, or how often somebody began it: another process, or this one after
//! a crash, goes on from where it stands and comes to the same winners.

mod reads;
mod steps;

pub(crate) mod shown;

pub use reads::DrawHead;

use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_core::audit::Actor;
use guerdon_core::draw::{CHUNK_LEAVES, Draw, DrawState, DrawView, Tree, root_of, winners};
use guerdon_core::events::EventKind;
use guerdon_core::{Code, EventId, Rejection};
use guerdon_store::draws::{DrawRow, LeafChunk};
use guerdon_store::requests::RequestRow;
use guerdon_store::{Engine as Database, Fault, Tx, draws, events, requests};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use steps::{Announce, DrawAlone, DrawWith, Pace, Seal, SetRoot, Settle, WriteLeaves, WriteWinners};

/// Chunks of leaves that are read, and written, at a time. On PostgreSQL a step is mostly round trips.
const fn chunks_at_once(engine: Database) -> i64 {
    match engine {
        Database::Sqlite => 3,
        Database::Postgres => 8,
    }
}
/// Winners that one transaction writes.
const WINNERS_AT_ONCE: usize = 1_000;
/// Draws that one process works on at the same time.
const DRAWS_AT_ONCE: usize = 16;
/// How long a draw is left alone after something about it failed.
const FAILURE_PAUSE: Duration = Duration::from_secs(2);

/// The draws that this process is working on.
#[derive(Debug, Default)]
pub(crate) struct UnderWay(Mutex<HashSet<EventId>>);

impl UnderWay {
    fn begin(&self, event_id: &EventId) -> bool {
        let mut set = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        set.len() < DRAWS_AT_ONCE && set.insert(event_id.clone())
    }

    fn end(&self, event_id: &EventId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(event_id);
    }
}

/// Leaves the set when the work ends, however it does.
struct Working(Arc<Engine>, EventId);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.draws.end(&self.1);
    }
}

impl Engine {
    /// Takes up the draws that have something to do.
    pub(crate) async fn advance_draws(self: Arc<Self>) {
        let now = self.now();
        let due = match self.read(move |tx| draws::due(tx, now)).await {
            Ok(due) => due,
            Err(failure) => {
                tracing::debug!(%failure, "the draws that are due could not be read");
                return;
            }
        };
        for event_id in due {
            if !self.draws.begin(&event_id) {
                continue;
            }
            let working = Working(Arc::clone(&self), event_id);
            tokio::spawn(async move {
                let Working(engine, event_id) = &working;
                if let Err(failure) = engine.advance_draw(event_id).await {
                    tracing::warn!(%event_id, %failure, "a draw goes on later");
                    tokio::time::sleep(FAILURE_PAUSE).await;
                }
            });
        }
    }

    /// Takes one step after the other until the draw has to wait, somebody else is at it too, or it is done.
    async fn advance_draw(&self, event_id: &EventId) -> Result<(), Failure> {
        let mut pace = Pace::start();
        loop {
            let wanted = event_id.clone();
            let Some(row) = self.read(move |tx| draws::find(tx, &wanted)).await? else { return Ok(()) };
            match row.draw.state {
                DrawState::Collecting => {
                    if !self.commit(self.seal(event_id)).await? {
                        return Ok(());
                    }
                }
                DrawState::Sealed => {
                    if !self.grow_tree(row).await? {
                        return Ok(());
                    }
                }
                DrawState::Rooted => {
                    if !self.commit(DrawAlone { event_id: event_id.clone() }).await? {
                        return Ok(());
                    }
                }
                DrawState::Drawing => {
                    if !self.draw_winners(row).await? {
                        return Ok(());
                    }
                }
                DrawState::Announced if row.draw.settled_position < row.draw.entries => {
                    let intake = Arc::clone(self.intake());
                    let settle = Settle { event_id: event_id.clone(), intake, pace };
                    (pace, ..) = self.commit(settle).await?;
                }
                DrawState::Announced | DrawState::Void => return Ok(()),
            }
        }
    }

    fn seal(&self, event_id: &EventId) -> Seal {
        let (outbox_id, publishing) = (self.new_request_id(), self.intake().publishing);
        Seal { event_id: event_id.clone(), outbox_id, publishing }
    }

    /// Writes all leaves that are missing, and then the root. The next ones are read while the last ones are written.
    /// False when somebody else does.
    async fn grow_tree(&self, row: DrawRow) -> Result<bool, Failure> {
        let DrawRow { event_key, draw } = row;
        let event_id = draw.event_id.clone();
        let draw = Arc::new(draw);
        let read = |from: i64| {
            let draw = Arc::clone(&draw);
            self.read(move |tx| read_chunks(tx, event_key, &draw, from))
        };
        let mut present = draw.leaf_chunks;
        let mut chunks = read(present).await?;
        while !chunks.is_empty() {
            let next = present + i64::try_from(chunks.len()).unwrap_or(i64::MAX);
            let step = WriteLeaves { event_id: event_id.clone(), event_key, present, chunks };
            let (written, read) = tokio::join!(self.commit(step), read(next));
            if !written? {
                return Ok(false);
            }
            (present, chunks) = (next, read?);
        }
        let roots = self.read(move |tx| draws::leaf_roots(tx, event_key)).await?;
        let mut tree = Tree::default();
        tree.extend(roots);
        self.commit(SetRoot { event_id, event_key, root: tree.root() }).await
    }

    /// Works out who won, writes it where nobody sees it, and announces it all at once.
    /// False when somebody else does.
    async fn draw_winners(&self, row: DrawRow) -> Result<bool, Failure> {
        let DrawRow { event_key, draw } = row;
        let event = self.event(&draw.event_id).await?;
        let capacity = event.settings.kind.capacity_total().unwrap_or(0);
        let event_id = draw.event_id.clone();
        let written = usize::try_from(draw.winners_written).unwrap_or(0);
        let positions = tokio::task::spawn_blocking(move || winning_positions(&draw, capacity));
        let positions = positions.await.map_err(|_| Fault::Panicked)??;
        let mut present = written;
        for some in positions.get(written..).unwrap_or_default().chunks(WINNERS_AT_ONCE) {
            let step = WriteWinners {
                event_id: event_id.clone(),
                event_key,
                present: i64::try_from(present).unwrap_or(i64::MAX),
                positions: some.to_vec(),
            };
            if !self.commit(step).await? {
                return Ok(false);
            }
            present += some.len();
        }
        let (outbox_id, publishing) = (self.new_request_id(), self.intake().publishing);
        let winners = i64::try_from(positions.len()).unwrap_or(i64::MAX);
        let announced =
            self.commit(Announce { event_id: event_id.clone(), winners, outbox_id, publishing }).await?;
        if announced {
            tracing::info!(%event_id, winners, "a draw was announced");
        }
        Ok(announced)
    }

    /// Names the public nonce that a draw has waited for. Saying the same again changes nothing.
    pub async fn draw_with(
        &self,
        actor: Actor,
        event_id: EventId,
        nonce: String,
    ) -> Result<DrawView, Failure> {
        Ok(self.commit(DrawWith { event_id, nonce, actor, at: self.now() }).await??)
    }
}

/// Who won, by their place in line and in its order.
fn winning_positions(draw: &Draw, capacity: i64) -> Result<Vec<i64>, Fault> {
    let root =
        draw.root.ok_or_else(|| Fault::Inconsistent(format!("{} is drawn without a root", draw.event_id)))?;
    let nonce = draw.public_nonce.as_deref().unwrap_or_default();
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let drawn = winners(draw.seed.reveal(), &root, nonce, count(draw.entries), count(capacity));
    let mut positions: Vec<_> =
        drawn.into_iter().map(|position| i64::try_from(position).unwrap_or(i64::MAX)).collect();
    positions.sort_unstable();
    Ok(positions)
}

/// The leaves that come next, made from the requests in line. The last chunk may be short.
fn read_chunks(
    tx: &mut Tx<'_>,
    event_key: i64,
    draw: &Draw,
    from_chunk: i64,
) -> Result<Vec<LeafChunk>, Fault> {
    let chunk = i64::try_from(CHUNK_LEAVES).unwrap_or(i64::MAX);
    let (from, to) = (from_chunk * chunk, (from_chunk + chunks_at_once(tx.engine())) * chunk);
    let wanted = to.min(draw.entries) - from;
    if wanted <= 0 {
        return Ok(Vec::new());
    }
    let rows = requests::list(tx, event_key, from, wanted)?;
    if i64::try_from(rows.len()) != Ok(wanted) {
        return Err(Fault::Inconsistent(format!("entries of {} are missing", draw.event_id)));
    }
    let leaf = |row: &RequestRow| draw.leaf_of(row.key.position(), row.id, &row.user_id);
    let leaves: Vec<_> = rows.iter().map(leaf).collect();
    Ok(leaves
        .chunks(CHUNK_LEAVES)
        .map(|leaves| LeafChunk { leaves: leaves.to_vec(), root: root_of(leaves) })
        .collect())
}

/// A lottery and its draw.
fn find_lottery(
    tx: &mut Tx<'_>,
    event_id: &EventId,
) -> Result<Result<(guerdon_core::events::Event, DrawRow), Rejection>, Fault> {
    let unknown = || Rejection::new(Code::EventNotFound, format!("there is no event {event_id}"));
    // The draw first: an event that was read later is not behind it.
    let row = draws::find(tx, event_id)?;
    let Some(event) = events::find(tx, event_id)?.filter(guerdon_core::events::Event::was_public) else {
        return Ok(Err(unknown()));
    };
    if !matches!(event.settings.kind, EventKind::Lottery { .. }) {
        return Ok(Err(Rejection::new(Code::EventWrongType, "only a LOTTERY event has a draw")));
    }
    Ok(row.map(|row| (event, row)).ok_or_else(unknown))
}
