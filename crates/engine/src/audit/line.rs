//! One event's line: positions, counts, winners, and what follows from them.

use super::check::Checks;
use guerdon_core::draw::{CHUNK_LEAVES, Draw, DrawState, Hash, Tree, commitment, root_of, terms, winners};
use guerdon_core::events::{Event, EventType};
use guerdon_core::requests::{LineKey, RequestId, RequestState, ResultCode};
use guerdon_store::audit::{self, LineAt};
use guerdon_store::requests::{self, RequestRow};
use guerdon_store::{Engine as Database, Fault, Tx, draws, events};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher};

/// Rows of one step; a chunk of leaves is a multiple of it.
const PAGE: i64 = 512;

/// A line as it was when its turn came, and what its rows came to.
#[derive(Debug)]
pub(super) struct Watermark {
    pub(super) at: LineAt,
    pub(super) event_key: i64,
    /// Up to here what was decided is written in the requests, with its messages and allocations.
    pub(super) written: i64,
    /// How many of those have won.
    pub(super) winners: i64,
    /// Sums over all who are in the user index, by the rows and by the index.
    pub(super) users_by_rows: u64,
    pub(super) users_by_index: u64,
}

pub(super) struct LineScan {
    at: LineAt,
    event: Event,
    draw: Option<Draw>,
    /// By their place in line, in its order.
    drawn: Vec<i64>,
    written: i64,
    /// Of the chunks of leaves, and how many of those were looked at.
    leaf_roots: Vec<Hash>,
    chunks_seen: usize,
    /// The position that comes next.
    expected: i64,
    results: BTreeMap<ResultCode, i64>,
    users_by_rows: u64,
    /// Who is not in the user index yet.
    tail: HashMap<u64, i64>,
}

/// Of somebody in a line. Sums of these tell whether two lists have the same people in whatever order.
pub(super) fn user_hash(user: &str, key: LineKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    (user, key.raw()).hash(&mut hasher);
    hasher.finish()
}

impl LineScan {
    /// Looks at the counts, and at the draw itself.
    pub(super) fn open(tx: &mut Tx<'_>, at: LineAt, checks: &mut Checks) -> Result<Box<Self>, Fault> {
        let missing = || Fault::Inconsistent("the line has no event".into());
        let event = events::find(tx, &at.event_id)?.ok_or_else(missing)?;
        let line = &at.line;
        let is_lottery = event.settings.kind.event_type() == EventType::Lottery;
        let written = match (&at.draw, is_lottery) {
            (_, false) | (Some((DrawState::Void, _)), true) => line.decided_position,
            (Some((DrawState::Announced, settled)), true) => *settled,
            _ => 0,
        };
        let sound = line.decided_position <= line.last_position
            && at.swept_position <= line.decided_position
            && line.tally.decided() == line.decided_position;
        checks.line_counts.expect(sound, || {
            format!(
                "{}: last position {}, decided {}, counted {}, swept {}",
                at.event_id,
                line.last_position,
                line.decided_position,
                line.tally.decided(),
                at.swept_position
            )
        });
        let won = line.tally.of(ResultCode::Success);
        checks.capacity.expect(won + line.capacity_remaining == line.capacity_total, || {
            let (remaining, total) = (line.capacity_remaining, line.capacity_total);
            format!("{}: {won} won, {remaining} of {total} remain", at.event_id)
        });
        if tx.engine() == Database::Postgres {
            let unique = audit::postgres::has_unique_index(tx)?;
            checks.one_request_per_user.expect(unique, || "the unique index requests_by_user is gone".into());
            if !unique {
                for user in audit::postgres::standing_twice(tx, line.event_key, line.last_position)? {
                    checks.one_request_per_user.fail(|| format!("{}: {user}", at.event_id));
                }
            }
        }
        let draw = draws::find(tx, &at.event_id)?.map(|row| row.draw);
        if is_lottery {
            checks.draws.expect(draw.is_some(), || format!("{}: a lottery without its draw", at.event_id));
        }
        let expected = at.swept_position + 1;
        let mut scan = Self {
            at,
            event,
            draw,
            drawn: Vec::new(),
            written,
            leaf_roots: Vec::new(),
            chunks_seen: 0,
            expected,
            results: BTreeMap::new(),
            users_by_rows: 0,
            tail: HashMap::new(),
        };
        scan.look_at_draw(tx, checks)?;
        Ok(Box::new(scan))
    }

    /// Whether everything about the draw follows from its seed, but for the leaves, which are looked at with the rows.
    fn look_at_draw(&mut self, tx: &mut Tx<'_>, checks: &mut Checks) -> Result<(), Fault> {
        let (Some(draw), Some(terms)) = (&self.draw, terms(&self.event)) else { return Ok(()) };
        let id = &self.at.event_id;
        let committed = commitment(draw.seed.reveal(), terms) == draw.commitment;
        checks
            .draws
            .expect(committed, || format!("{id}: the commitment is not that of the seed and the terms"));
        let Some(root) = draw.root else { return Ok(()) };
        let event_key = self.at.line.event_key;
        let mut tree = Tree::default();
        self.leaf_roots = draws::leaf_roots(tx, event_key)?;
        tree.extend(self.leaf_roots.iter().copied());
        checks.draws.expect(tree.root() == root, || format!("{id}: the leaves do not lead to the root"));
        let entries = u64::try_from(draw.entries).unwrap_or(0);
        // Before the cutoff more have joined since the line was looked at.
        let before = matches!(self.at.draw, Some((DrawState::Collecting | DrawState::Void, _)) | None);
        let same = before || draw.entries == self.at.line.last_position;
        checks.draws.expect(same, || format!("{id}: {entries} entries, but the line has another number"));
        if draw.state != DrawState::Announced {
            return Ok(());
        }
        let nonce = draw.public_nonce.as_deref().unwrap_or_default();
        let drawn = winners(draw.seed.reveal(), &root, nonce, entries, terms.capacity_total);
        self.drawn = drawn.iter().filter_map(|position| i64::try_from(*position).ok()).collect();
        self.drawn.sort_unstable();
        let (first, last) = (LineKey::new(event_key, 0), LineKey::new(event_key + 1, 0));
        let stored = draws::winners(tx, first, LineKey::from_raw(last.raw() - 1))?;
        let stored: Vec<_> = stored.iter().map(|key| key.position()).collect();
        checks.draws.expect(stored == self.drawn, || {
            let wrong = stored.iter().find(|position| self.drawn.binary_search(position).is_err());
            match wrong {
                Some(position) => format!("{id}: position {position} was not drawn"),
                None => format!("{id}: {} were drawn, {} are written", self.drawn.len(), stored.len()),
            }
        });
        Ok(())
    }

    pub(super) fn is_done(&self) -> bool {
        self.expected > self.at.line.last_position && self.chunks_seen == self.leaf_roots.len()
    }

    /// The stored leaves themselves, which outlive the requests that they were made of.
    fn look_at_chunk(&mut self, tx: &mut Tx<'_>, checks: &mut Checks) -> Result<u64, Fault> {
        let number = i64::try_from(self.chunks_seen).unwrap_or(i64::MAX);
        let leaves = draws::leaves(tx, self.at.line.event_key, number, number + 1)?;
        let entries = self.draw.as_ref().map_or(0, |draw| usize::try_from(draw.entries).unwrap_or(0));
        let count = entries.saturating_sub(self.chunks_seen * CHUNK_LEAVES).min(CHUNK_LEAVES);
        let same = leaves.len() == count && root_of(&leaves) == self.leaf_roots[self.chunks_seen];
        checks
            .draws
            .expect(same, || format!("{}: the leaves of chunk {number} are others", self.at.event_id));
        self.chunks_seen += 1;
        Ok(u64::try_from(leaves.len()).unwrap_or(0))
    }

    /// Looks at the next rows; how many.
    pub(super) fn look(&mut self, tx: &mut Tx<'_>, checks: &mut Checks) -> Result<u64, Fault> {
        if self.chunks_seen < self.leaf_roots.len() {
            return self.look_at_chunk(tx, checks);
        }
        let (event_key, last) = (self.at.line.event_key, self.at.line.last_position);
        let after = self.expected - 1;
        // Never beyond the end of a chunk of leaves.
        let limit = (PAGE - after % PAGE).min(last - after);
        let mut rows = requests::list(tx, event_key, after, limit)?;
        rows.retain(|row| row.key.position() <= after + limit);
        let swept = audit::swept(tx, event_key)?;
        self.look_at_positions(&rows, after + limit, swept, checks);
        self.look_at_leaves(tx, &rows, after, checks)?;
        let written: Vec<_> = rows.iter().filter(|row| row.key.position() <= self.written).collect();
        if self.is_collecting() && rows.iter().any(|row| row.state != RequestState::Queued) {
            // It may have been announced, or cancelled, since the line was looked at.
            let now = draws::find(tx, &self.at.event_id)?.map(|row| row.draw.state);
            let early = !matches!(now, Some(DrawState::Announced | DrawState::Void));
            for row in rows.iter().filter(|row| early && row.state != RequestState::Queued) {
                checks.winners.fail(|| format!("{} is decided before the announcement", row.id));
            }
        }
        for row in &rows {
            self.look_at_result(row, checks);
        }
        look_at_messages(tx, &written, checks)?;
        self.look_at_allocations(tx, &written, checks)?;
        if tx.engine() == Database::Sqlite {
            self.look_at_users(tx, &rows, checks)?;
        }
        Ok(u64::try_from(rows.len()).unwrap_or(0))
    }

    fn look_at_positions(&mut self, rows: &[RequestRow], up_to: i64, swept: i64, checks: &mut Checks) {
        let id = &self.at.event_id;
        for row in rows {
            let position = row.key.position();
            let expected = self.expected.max(swept + 1);
            checks.line_positions.expect(position == expected || position <= swept, || {
                format!("{id}: after position {} comes {position}", expected - 1)
            });
            let own = row.id.place() == Some(row.key);
            checks.line_positions.expect(own, || format!("{id}: {} does not stand at {position}", row.id));
            self.expected = position + 1;
        }
        let end = self.expected.max(swept + 1);
        if end <= up_to {
            checks.line_positions.fail(|| format!("{id}: positions {end} to {up_to} are missing"));
        }
        self.expected = up_to + 1;
    }

    /// Whether nobody may know yet.
    fn is_collecting(&self) -> bool {
        is_before_announcement(&self.at)
    }

    fn won(&self, position: i64) -> bool {
        match self.event.settings.kind.event_type() {
            EventType::Lottery => self.drawn.binary_search(&position).is_ok(),
            // Nobody fails on engines where whoever is accepted is decided at once.
            _ => position <= self.at.line.capacity_total,
        }
    }

    fn look_at_result(&mut self, row: &RequestRow, checks: &mut Checks) {
        let position = row.key.position();
        let result = match row.state {
            RequestState::Finished { result, .. } => Some(result),
            RequestState::Queued => None,
        };
        if position <= self.written
            && let Some(result) = result
        {
            *self.results.entry(result).or_default() += 1;
        }
        let expected = match (self.event.settings.kind.event_type(), &self.at.draw) {
            (EventType::Lottery, Some((DrawState::Announced, _))) if self.won(position) => {
                ResultCode::Success
            }
            (EventType::Lottery, Some((DrawState::Announced, _))) => ResultCode::RejectedLotteryLose,
            (EventType::Lottery, Some((DrawState::Void, _))) => ResultCode::RejectedEventCancelled,
            (EventType::Lottery, _) => return,
            _ if self.won(position) => ResultCode::Success,
            _ => ResultCode::RejectedCapacity,
        };
        // Beyond what was written then, it may have been written since.
        let fits = result == Some(expected) || (result.is_none() && position > self.written);
        let is = result.map_or("in line", ResultCode::as_str);
        checks.winners.expect(fits, || {
            format!(
                "{} (position {position} of {}) is {is}, not {}",
                row.id,
                self.at.event_id,
                expected.as_str()
            )
        });
    }

    fn look_at_leaves(
        &self,
        tx: &mut Tx<'_>,
        rows: &[RequestRow],
        after: i64,
        checks: &mut Checks,
    ) -> Result<(), Fault> {
        let Some(draw) = self.draw.as_ref().filter(|draw| draw.root.is_some()) else { return Ok(()) };
        let chunk = i64::try_from(CHUNK_LEAVES).unwrap_or(i64::MAX);
        let from = after / chunk;
        let stored = draws::leaves(tx, self.at.line.event_key, from, from + 1)?;
        let at = |position: i64| -> Option<&Hash> {
            stored.get(usize::try_from(position - 1 - from * chunk).ok()?)
        };
        for row in rows.iter().filter(|row| row.key.position() <= draw.entries) {
            let position = row.key.position();
            let same = at(position) == Some(&draw.leaf_of(position, row.id, &row.user_id));
            checks
                .draws
                .expect(same, || format!("{}: the leaf of position {position} is another", draw.event_id));
        }
        Ok(())
    }

    fn look_at_allocations(
        &self,
        tx: &mut Tx<'_>,
        written: &[&RequestRow],
        checks: &mut Checks,
    ) -> Result<(), Fault> {
        let rewards = &self.event.settings.rewards;
        let mut wanted = Vec::new();
        for row in written.iter().filter(|row| self.won(row.key.position())) {
            for (ordinal, reward) in (1_u16..).zip(rewards) {
                wanted.push((*row.id.derived(ordinal).as_bytes(), *row, reward.id.as_str()));
            }
        }
        let ids: Vec<_> = wanted.iter().map(|(id, ..)| *id).collect();
        let found = audit::allocations_of(tx, &ids)?;
        let found: HashMap<_, _> =
            found.into_iter().map(|(id, member, reward)| (id, (member, reward))).collect();
        for (id, row, reward) in wanted {
            let fits =
                found.get(&id).is_some_and(|(member, of)| member == row.user_id.as_str() && of == reward);
            checks.allocations.expect(fits, || format!("{} has won and has no {reward}", row.id));
        }
        Ok(())
    }

    /// On SQLite the user index is written later: who is in it is summed up, who is not is looked up.
    fn look_at_users(
        &mut self,
        tx: &mut Tx<'_>,
        rows: &[RequestRow],
        checks: &mut Checks,
    ) -> Result<(), Fault> {
        for row in rows {
            let (user, position) = (row.user_id.as_str(), row.key.position());
            if position <= self.at.indexed_position {
                self.users_by_rows = self.users_by_rows.wrapping_add(user_hash(user, row.key));
                continue;
            }
            let indexed = audit::user_index::position(tx, user, row.key.event_key())?;
            let before = self.tail.insert(user_hash(user, LineKey::new(row.key.event_key(), 0)), position);
            let alone = indexed.is_none_or(|indexed| indexed == position) && before.is_none();
            checks.one_request_per_user.expect(alone, || {
                let other = indexed.or(before).unwrap_or(0);
                format!("{}: {user} stands at {other} and at {position}", self.at.event_id)
            });
        }
        Ok(())
    }

    /// Compares what was counted with what was kept.
    pub(super) fn close(self, tx: &mut Tx<'_>, checks: &mut Checks) -> Result<Watermark, Fault> {
        let line = &self.at.line;
        let swept = audit::swept(tx, line.event_key)?;
        let whole = swept == 0 && self.written == line.decided_position;
        for result in ResultCode::ALL {
            let (kept, counted) = (line.tally.of(*result), self.results.get(result).copied().unwrap_or(0));
            let fits = if whole { kept == counted } else { counted <= kept };
            checks.line_counts.expect(fits, || {
                format!("{}: {kept} {} are counted, {counted} are there", self.at.event_id, result.as_str())
            });
        }
        let winners = if swept == 0 {
            self.results.get(&ResultCode::Success).copied().unwrap_or(0)
        } else {
            line.tally.of(ResultCode::Success)
        };
        Ok(Watermark {
            event_key: line.event_key,
            written: self.written,
            winners,
            users_by_rows: self.users_by_rows,
            users_by_index: 0,
            at: self.at,
        })
    }
}

fn look_at_messages(tx: &mut Tx<'_>, written: &[&RequestRow], checks: &mut Checks) -> Result<(), Fault> {
    let told_at = |row: &RequestRow| match row.state {
        RequestState::Finished { finished_at, .. } => finished_at,
        RequestState::Queued => row.requested_at,
    };
    let messages: Vec<_> = written.iter().map(|row| (*row.id.derived(0).as_bytes(), told_at(row))).collect();
    let missing = audit::missing_messages(tx, &messages)?;
    for (row, (id, _)) in written.iter().zip(&messages) {
        checks.request_messages.expect(!missing.contains(id), || format!("{} has no message", row.id));
    }
    Ok(())
}

/// Whether it is a lottery that had not been announced.
pub(super) fn is_before_announcement(at: &LineAt) -> bool {
    at.draw.as_ref().is_some_and(|(state, _)| !matches!(state, DrawState::Announced | DrawState::Void))
}

/// The place that a request's own message is about.
pub(super) fn told_of(id: [u8; 16]) -> Option<LineKey> {
    RequestId::from_bytes(id).derived(0).place()
}
