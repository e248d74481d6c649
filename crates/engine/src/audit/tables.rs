//! What is looked at table by table: the user index, the outbox, the allocations, the audit log.

use super::line::{is_before_announcement, told_of, user_hash};
use super::{Audit, Phase};
use guerdon_core::Timestamp;
use guerdon_core::allocations::{AllocationStatus, Cause};
use guerdon_core::audit::{BEFORE_THE_FIRST, chained};
use guerdon_core::draw::Hash;
use guerdon_core::requests::LineKey;
use guerdon_store::outbox::listing;
use guerdon_store::{Fault, Tx, audit, requests};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const ROWS: i64 = 500;
const EVENTS: i64 = 50;
/// Lines of the log hold an event before and after.
const LINES: i64 = 50;
/// For how long something may be past its lease before that is a finding: somebody else takes it up meanwhile.
const LEASE_LAG_MS: i64 = 60_000;
/// The same for deliveries, which are looked for once in a while.
const DELIVERY_LAG_MS: i64 = 900_000;

/// Messages that were found: how many about the requests of each line, and which about each event.
#[derive(Debug, Default)]
pub(super) struct Told {
    requests: BTreeMap<i64, i64>,
    /// Lotteries of which something was told or given that had not been announced when they were looked at.
    early: BTreeSet<i64>,
    events: BTreeMap<String, Vec<(String, i64)>>,
}

/// Allocations that were found, by line and reward: all, and those that were cancelled.
#[derive(Debug, Default)]
pub(super) struct Totals(BTreeMap<(i64, String), (i64, i64)>);

pub(super) struct LogScan {
    last: i64,
    unchained: i64,
    at: i64,
    hash: Hash,
}

const CHANGES: [&str; 4] = ["EVENT_OPENED", "EVENT_CLOSED", "EVENT_ANNOUNCED", "EVENT_CANCELLED"];

impl Audit {
    pub(super) fn look_at_users(&mut self, tx: &mut Tx<'_>, after: &(String, i64)) -> Result<Phase, Fault> {
        let page = audit::user_index::page(tx, after, ROWS)?;
        for (user, key) in &page {
            let Some(line) = self.lines.get_mut(&key.event_key()) else { continue };
            self.checks.one_request_per_user.checked += 1;
            if key.position() <= line.at.indexed_position {
                line.users_by_index = line.users_by_index.wrapping_add(user_hash(user, *key));
            }
        }
        self.looked_at += u64::try_from(page.len()).unwrap_or(0);
        if let Some((user, key)) = page.last() {
            return Ok(Phase::Users { after: (user.clone(), key.event_key()) });
        }
        let mut wrong = VecDeque::new();
        for line in self.lines.values().filter(|line| line.users_by_rows != line.users_by_index) {
            // What was swept meanwhile is in neither any more.
            if audit::swept(tx, line.event_key)? == line.at.swept_position {
                wrong.push_back(line.event_key);
            }
        }
        Ok(Phase::Culprits { lines: wrong, after: 0 })
    }

    /// The sums differ: somebody's row and the index do not say the same.
    pub(super) fn look_for_culprits(
        &mut self,
        tx: &mut Tx<'_>,
        mut lines: VecDeque<i64>,
        after: i64,
    ) -> Result<Phase, Fault> {
        let Some(line) = lines.front().and_then(|key| self.lines.get(key)) else {
            return Ok(Phase::Events { after: String::new() });
        };
        let (event_key, event_id, last) =
            (line.event_key, line.at.event_id.clone(), line.at.indexed_position);
        let mut rows = requests::list(tx, event_key, after, ROWS)?;
        rows.retain(|row| row.key.position() <= last);
        let findings = &mut self.checks.one_request_per_user;
        for row in &rows {
            let (user, position) = (row.user_id.as_str(), row.key.position());
            match audit::user_index::position(tx, user, event_key)? {
                Some(indexed) if indexed == position => {}
                Some(indexed) => {
                    findings.fail(|| format!("{event_id}: {user} stands at {indexed} and at {position}"));
                }
                None => {
                    findings.fail(|| format!("{event_id}: {user} at {position} is not in the user index"));
                }
            }
        }
        if let Some(row) = rows.last() {
            return Ok(Phase::Culprits { lines, after: row.key.position() });
        }
        lines.pop_front();
        self.checks
            .one_request_per_user
            .fail(|| format!("{event_id}: the user index has others than its line"));
        Ok(Phase::Culprits { lines, after: 0 })
    }

    pub(super) fn look_at_events(&mut self, tx: &mut Tx<'_>, after: &str) -> Result<Phase, Fault> {
        let page = audit::events_page(tx, after, EVENTS)?;
        let Some(after) = page.last().map(|event| event.event_id.clone()) else {
            return Ok(Phase::Outbox { after: Vec::new() });
        };
        self.looked_at += u64::try_from(page.len()).unwrap_or(0);
        for event in page {
            let (version, lines) = (event.version, event.lines);
            self.checks.event_lines_in_log.expect(version == lines, || {
                format!("{} has changed {version} times, the log has {lines} lines", event.event_id)
            });
            self.events.insert(event.event_id.clone(), event);
        }
        Ok(Phase::Events { after })
    }

    pub(super) fn look_at_outbox(&mut self, tx: &mut Tx<'_>, after: &[u8]) -> Result<Phase, Fault> {
        let page = audit::outbox_page(tx, after, ROWS)?;
        let Some(after) = page.last().map(|message| message.id.to_vec()) else {
            let swept_before = listing::swept_before(tx)?;
            self.compare_messages(swept_before);
            return Ok(Phase::Allocations { after: Vec::new() });
        };
        self.looked_at += u64::try_from(page.len()).unwrap_or(0);
        let of_transfers = page.iter().filter(|message| message.aggregate_type == "TRANSFER");
        let of_transfers: Vec<_> = of_transfers.map(|message| message.id).collect();
        self.look_at_transfer_messages(tx, &of_transfers)?;
        for message in page {
            let taken = message.status == "SENDING";
            self.look_at_lease((taken, message.deadline), LEASE_LAG_MS, &message.id, "message");
            match message.aggregate_type.as_str() {
                "REQUEST" => self.count_message(told_of(message.id), &message.aggregate_id),
                "EVENT" => {
                    let told = self.told.events.entry(message.aggregate_id).or_default();
                    told.push((message.event_type, message.sequence));
                }
                _ => {}
            }
        }
        Ok(Phase::Outbox { after })
    }

    fn count_message(&mut self, place: Option<LineKey>, aggregate_id: &str) {
        let Some(place) = place else {
            self.checks
                .request_messages
                .fail(|| format!("a message about {aggregate_id} that nothing caused"));
            return;
        };
        // Of lines that are younger than this audit nothing is known.
        let Some(line) = self.lines.get(&place.event_key()) else { return };
        if place.position() <= line.written {
            *self.told.requests.entry(place.event_key()).or_default() += 1;
        } else if is_before_announcement(&line.at) {
            self.told.early.insert(place.event_key());
        }
    }

    /// Messages of before that time may have been removed after they were sent.
    fn compare_messages(&mut self, swept_before: Timestamp) {
        let whole = swept_before == Timestamp::from_millis(0);
        for line in self.lines.values() {
            let told = self.told.requests.get(&line.event_key).copied().unwrap_or(0);
            let fits = told == line.written || (!whole && told < line.written);
            self.checks.request_messages.expect(fits, || {
                format!("{}: {} are decided, {told} messages are there", line.at.event_id, line.written)
            });
        }
        for event in self.events.values() {
            let told = self.told.events.remove(&event.event_id).unwrap_or_default();
            for (change, was) in CHANGES.iter().zip(event.was) {
                // A later version was told of after this one was looked at.
                let count =
                    told.iter().filter(|(kind, version)| kind == change && *version <= event.version).count();
                let removed = count == 0 && was.is_some_and(|at| at < swept_before);
                self.checks.event_messages.expect(removed || count == usize::from(was.is_some()), || {
                    format!("{}: {count} messages of {change}", event.event_id)
                });
            }
        }
    }

    fn look_at_lease(
        &mut self,
        (taken, deadline): (bool, Option<Timestamp>),
        lag_ms: i64,
        id: &[u8; 16],
        what: &str,
    ) {
        let late = |deadline: Timestamp| deadline.plus_millis(lag_ms) < self.now;
        let stuck = taken && deadline.is_none_or(late);
        self.checks.leases.expect(!stuck, || {
            let id = guerdon_core::requests::RequestId::from_bytes(*id);
            format!("the {what} {id} is past its lease")
        });
    }

    pub(super) fn look_at_allocations(&mut self, tx: &mut Tx<'_>, after: &[u8]) -> Result<Phase, Fault> {
        let page = audit::allocations_page(tx, after, ROWS)?;
        let Some(after) = page.last().map(|(allocation, _)| allocation.id.as_bytes().to_vec()) else {
            self.compare_allocations(tx)?;
            return Ok(Phase::Entries(Box::default()));
        };
        self.looked_at += u64::try_from(page.len()).unwrap_or(0);
        let (page, deadlines): (Vec<_>, Vec<_>) = page.into_iter().unzip();
        self.look_at_deliveries(tx, &page)?;
        for (allocation, deadline) in page.into_iter().zip(deadlines) {
            let taken = allocation.status == AllocationStatus::Processing;
            let id = allocation.id.as_bytes();
            self.look_at_lease((taken, deadline), DELIVERY_LAG_MS, id, "allocation");
            let Cause::Request(request) = allocation.cause else { continue };
            let Some(place) = request.place() else { continue };
            let Some(line) = self.lines.get(&place.event_key()) else { continue };
            if place.position() > line.written {
                if is_before_announcement(&line.at) {
                    self.told.early.insert(place.event_key());
                }
                continue;
            }
            let known = line.at.rewards.iter().any(|reward| reward.id == allocation.reward_id.as_str())
                && line.at.event_id == allocation.event_id;
            let reward = &allocation.reward_id;
            self.checks.allocations.expect(known, || format!("{} gives no {reward}", line.at.event_id));
            let totals = self.totals.0.entry((place.event_key(), allocation.reward_id.into())).or_default();
            totals.0 += 1;
            totals.1 += i64::from(allocation.status == AllocationStatus::Cancelled);
        }
        Ok(Phase::Allocations { after })
    }

    fn compare_allocations(&mut self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        for event_key in &self.told.early {
            let Some(line) = self.lines.get(event_key) else { continue };
            let now = audit::line_of(tx, &line.at.event_id)?;
            self.checks.winners.expect(!now.is_some_and(|now| is_before_announcement(&now)), || {
                format!("{}: something was told or given before the announcement", line.at.event_id)
            });
        }
        for line in self.lines.values() {
            let event_id = &line.at.event_id;
            for reward in &line.at.rewards {
                let found = self.totals.0.get(&(line.event_key, reward.id.clone()));
                let (all, cancelled) = found.copied().unwrap_or_default();
                self.checks.allocations.expect(all == line.winners, || {
                    format!("{event_id}: {} have won, {all} allocations of {}", line.winners, reward.id)
                });
                let (Some(total), Some(remaining)) = (reward.total, reward.remaining) else { continue };
                let given = reward.quantity.saturating_mul(all - cancelled);
                let mut fits = remaining + given == total;
                if !fits {
                    // A cancellation that goes on gives stock back while we look.
                    let now = audit::line_of(tx, event_id)?;
                    let of = |reward_at: &&audit::RewardAt| reward_at.id == reward.id;
                    let now = now.and_then(|line| line.rewards.iter().find(of).and_then(|at| at.remaining));
                    fits = cancelled > 0 && now != Some(remaining);
                }
                self.checks.stock.expect(fits, || {
                    format!("{event_id}: {remaining} of {} remain, {given} of {total} were given", reward.id)
                });
            }
        }
        Ok(())
    }

    pub(super) fn begin_log(&mut self, tx: &mut Tx<'_>) -> Result<Phase, Fault> {
        let (last, unchained, present) = audit::log_ends(tx)?;
        self.checks.audit_log.expect(last <= present, || {
            format!("the log ends at line {present}, and line {last} was written")
        });
        Ok(Phase::Log(Some(LogScan { last, unchained, at: 0, hash: BEFORE_THE_FIRST })))
    }

    pub(super) fn look_at_log(&mut self, tx: &mut Tx<'_>, mut scan: LogScan) -> Result<Phase, Fault> {
        let findings = &mut self.checks.audit_log;
        let (mut at, mut hash, unchained) = (scan.at, scan.hash, scan.unchained);
        let count = audit::log_page(tx, (scan.at, scan.last), LINES, |line, stored| {
            let sequence = line.sequence;
            findings
                .expect(sequence == at + 1, || format!("lines {} to {} are missing", at + 1, sequence - 1));
            at = sequence;
            if sequence <= unchained {
                return;
            }
            let expected = chained(&hash, line);
            findings.expect(stored == Some(expected), || format!("line {sequence} is not what was written"));
            // Each line is judged by the one before it as it stands, so that one forgery is one finding.
            hash = stored.unwrap_or(expected);
        })?;
        self.looked_at += u64::try_from(count).unwrap_or(0);
        if count == 0 {
            if at < scan.last {
                let last = scan.last;
                self.checks.audit_log.fail(|| format!("lines {} to {last} are missing", at + 1));
            }
            return Ok(Phase::Done);
        }
        (scan.at, scan.hash) = (at, hash);
        Ok(Phase::Log(Some(scan)))
    }
}
