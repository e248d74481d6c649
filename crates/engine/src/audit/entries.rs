//! Check-ins and plays: each in its place, within its event's limits, by the odds in force, and with what it gave.

use super::{Audit, Phase};
use guerdon_core::allocations::{Allocation, AllocationId, AllocationStatus, Cause, key};
use guerdon_core::entries::attendance::{check_in, gifts};
use guerdon_core::entries::random::{chi_square, is_beyond_chance, odds_at, play};
use guerdon_core::entries::{Entry, Standing};
use guerdon_core::events::{Event, EventKind};
use guerdon_core::{EventId, RewardId, UserId};
use guerdon_store::audit::entries as rows;
use guerdon_store::audit::{self, wallet};
use guerdon_store::{Fault, Tx, entries, events};
use std::collections::{BTreeMap, HashMap, HashSet};

const ROWS: i64 = 500;
/// How far apart the clocks of servers may be.
const CLOCKS_MS: i64 = 1_000;

/// Where the look at entries stands.
#[derive(Debug, Default)]
pub(super) struct EntryScan {
    after: (String, String, i64),
    event: Option<Event>,
    /// Where the person stands whose entries are looked at, by those that were.
    standing: Option<Standing>,
    /// What was drawn, by version of the odds and by prize.
    drawn: BTreeMap<i64, Vec<i64>>,
}

impl Audit {
    pub(super) fn look_at_entries(&mut self, tx: &mut Tx<'_>, mut scan: EntryScan) -> Result<Phase, Fault> {
        let page = rows::page(tx, &scan.after, ROWS)?;
        self.looked_at += u64::try_from(page.len()).unwrap_or(0);
        if page.is_empty() {
            self.end_person(tx, &mut scan)?;
            self.end_event(tx, &mut scan)?;
            return Ok(Phase::Claims { after: Vec::new() });
        }
        let mut wanted = Vec::new();
        let mut known = HashSet::new();
        for (member, (event_id, entry)) in page {
            if scan.after.0 != event_id || scan.after.1 != member {
                self.end_person(tx, &mut scan)?;
            }
            if scan.after.0 != event_id {
                self.end_event(tx, &mut scan)?;
            }
            if !known.contains(&event_id) {
                // Read after its entries: whatever odds they were drawn by are there.
                let id = EventId::parse(event_id.as_str()).map_err(Fault::Inconsistent)?;
                scan.event = events::find(tx, &id)?;
                known.insert(event_id.clone());
            }
            scan.after = (event_id, member, entry.number);
            self.look_at_entry(&mut scan, &entry, &mut wanted);
        }
        self.look_for_gifts(tx, &wanted)?;
        Ok(Phase::Entries(Box::new(scan)))
    }

    fn look_at_entry(&mut self, scan: &mut EntryScan, entry: &Entry, wanted: &mut Vec<Wanted>) {
        let EntryScan { after: (event_id, member, _), event, standing, drawn } = scan;
        let what = |why: &str| format!("{} of {member} in {event_id}: {why}", entry.id);
        let Some(event) = event.as_ref() else {
            self.checks.entries.expect(false, || what("there is no such event"));
            return;
        };
        let follows = match (&event.settings.kind, &entry.play) {
            (EventKind::Attendance { .. }, None) => {
                check_in(*standing, entry.day).filter(|next| next.run == entry.streak && entry.slot == 1)
            }
            (EventKind::Random { per_day, per_user, .. }, Some(_)) => {
                let next = play(*standing, entry.day, *per_day, *per_user).ok();
                next.filter(|next| next.run == entry.slot && next.last_day == entry.day)
            }
            _ => None,
        };
        let sound = follows.is_some_and(|next| next.total == entry.number);
        self.checks.entries.expect(sound, || what("does not follow from the entries before it"));
        // Each is judged by the one before it as it stands, so that one forgery is one finding.
        let run = if entry.play.is_some() { entry.slot } else { entry.streak };
        *standing = Some(Standing { last_day: entry.day, total: entry.number, run });
        let mut want = |ordinal: u16, reward: &RewardId, limited: bool| {
            let id = *entry.id.derived(ordinal).as_bytes();
            wanted.push(Wanted { id, member: member.clone(), reward: reward.to_string(), limited });
        };
        match (&event.settings.kind, &entry.play) {
            (EventKind::Random { odds, .. }, Some(played)) => {
                let version = odds.iter().find(|odds| odds.version == played.odds_version);
                // Clocks of several servers differ by a little.
                let in_force = [-CLOCKS_MS, 0, CLOCKS_MS]
                    .map(|millis| odds_at(odds, entry.at.plus_millis(millis)).map(|odds| odds.version));
                let prize = version.and_then(|odds| odds.prizes.get(usize::try_from(played.drawn).ok()?));
                let given = played.reward_id.as_ref();
                let limited = |id: Option<&RewardId>| {
                    let reward = id.and_then(|id| event.settings.reward(id));
                    reward.is_some_and(|reward| reward.total_stock.is_some())
                };
                let fits = in_force.contains(&Some(played.odds_version))
                    && prize.is_some_and(|prize| {
                        let (won, fallback) =
                            (prize.reward_id.as_ref(), version.and_then(|odds| odds.fallback.as_ref()));
                        // Only what can run out gives something else, and nothing only where that can too.
                        let instead = given == fallback || (given.is_none() && limited(fallback));
                        prize.weight > 0 && (given == won || (limited(won) && instead))
                    });
                self.checks.odds.expect(fits, || what("was not drawn by the odds in force"));
                if let (Some(version), Ok(index)) = (version, usize::try_from(played.drawn)) {
                    let counts =
                        drawn.entry(version.version).or_insert_with(|| vec![0; version.prizes.len()]);
                    if let Some(count) = counts.get_mut(index) {
                        *count += 1;
                    }
                }
                if let Some(reward) = given {
                    want(1, reward, false);
                }
            }
            (kind @ EventKind::Attendance { .. }, None) => {
                let standing = Standing { last_day: entry.day, total: entry.number, run: entry.streak };
                for (gift, ordinal) in gifts(kind, standing).iter().zip(1_u16..) {
                    let limited = event
                        .settings
                        .reward(gift.reward_id)
                        .is_some_and(|reward| reward.total_stock.is_some());
                    want(ordinal, gift.reward_id, limited);
                }
            }
            _ => {}
        }
    }

    fn look_for_gifts(&mut self, tx: &mut Tx<'_>, wanted: &[Wanted]) -> Result<(), Fault> {
        let ids: Vec<_> = wanted.iter().map(|wanted| wanted.id).collect();
        let found: HashMap<_, _> = audit::allocations_of(tx, &ids)?
            .into_iter()
            .map(|(id, member, reward)| (id, (member, reward)))
            .collect();
        for Wanted { id, member, reward, limited } in wanted {
            let fits = match found.get(id) {
                Some((whose, of)) => whose == member && of == reward,
                // A reward that had run out is not given.
                None => *limited,
            };
            self.checks.entry_rewards.expect(fits, || {
                format!("{} of {member}: {reward} was won and not given", AllocationId::from_bytes(*id))
            });
        }
        Ok(())
    }

    /// Compares where somebody stands with their entries; both may have gone on meanwhile.
    fn end_person(&mut self, tx: &mut Tx<'_>, scan: &mut EntryScan) -> Result<(), Fault> {
        let Some(seen) = scan.standing.take() else { return Ok(()) };
        let (event_id, member, _) = &scan.after;
        let id = EventId::parse(event_id.as_str()).map_err(Fault::Inconsistent)?;
        let user = UserId::parse(member.as_str()).map_err(Fault::Inconsistent)?;
        let stands = entries::find_standing(tx, &id, &user)?;
        let fits = stands.is_some_and(|stands| stands == seen || stands.total > seen.total);
        self.checks.entries.expect(fits, || {
            format!("{member} in {event_id} has {} entries, and stands at {stands:?}", seen.total)
        });
        Ok(())
    }

    fn end_event(&mut self, tx: &mut Tx<'_>, scan: &mut EntryScan) -> Result<(), Fault> {
        let drawn = std::mem::take(&mut scan.drawn);
        let Some(event) = scan.event.take() else { return Ok(()) };
        if let EventKind::Random { odds, .. } = &event.settings.kind {
            for (version, counts) in drawn {
                let Some(odds) = odds.iter().find(|odds| odds.version == version) else { continue };
                let Some((chi, degrees)) = chi_square(odds, &counts) else { continue };
                let plays: i64 = counts.iter().sum();
                let told = format!(
                    "{} version {version}: chi-square {chi:.1} with {degrees} degrees of freedom over {plays} plays",
                    event.id
                );
                self.checks.odds.expect(!is_beyond_chance(chi, degrees), || told.clone());
                self.checks.odds.note(told);
            }
        }
        for at in rows::stock(tx, event.id.as_str())? {
            let given = at.given.saturating_mul(at.quantity);
            self.checks.stock.expect(at.remaining + given == at.total, || {
                format!(
                    "{}: {} of {} remain, {given} of {} were given",
                    event.id, at.remaining, at.reward_id, at.total
                )
            });
        }
        Ok(())
    }

    /// Looks at a page of allocations as deliveries: their keys, and what the wallet paid out.
    pub(super) fn look_at_deliveries(&mut self, tx: &mut Tx<'_>, page: &[Allocation]) -> Result<(), Fault> {
        let ids: Vec<_> = page
            .iter()
            .filter_map(|row| match row.cause {
                Cause::Entry(id) => Some(*id.as_bytes()),
                Cause::Request(_) => None,
            })
            .collect();
        let found: HashMap<_, _> =
            rows::of(tx, &ids)?.into_iter().map(|at| (*at.1.1.id.as_bytes(), at)).collect();
        let paid = |row: &&Allocation| row.provider == "wallet" && row.status == AllocationStatus::Success;
        let transfers: Vec<_> =
            page.iter().filter(paid).map(|row| *row.id.transfer_id().as_bytes()).collect();
        let made: HashSet<_> = wallet::transfers_of(tx, &transfers)?.into_iter().collect();
        for row in page {
            let sound = match row.cause {
                Cause::Request(id) => {
                    let ids =
                        (1_u16..=100).any(|ordinal| id.derived(ordinal).as_bytes() == row.id.as_bytes());
                    ids && row.key == key::of_request(&row.event_id, &row.member_id, &row.reward_id)
                }
                Cause::Entry(id) => found.get(id.as_bytes()).is_some_and(|at| is_key_of(row, at)),
            };
            self.checks.allocation_keys.expect(sound, || format!("{} has the key {}", row.id, row.key));
            if paid(&row) {
                let sound = made.contains(row.id.transfer_id().as_bytes());
                self.checks.deliveries.expect(sound, || format!("{} was paid out by no transfer", row.id));
            }
        }
        Ok(())
    }

    /// Looks at transfers that pay rewards out: each by an allocation that says so.
    pub(super) fn look_at_payments(&mut self, tx: &mut Tx<'_>, ids: &[[u8; 16]]) -> Result<(), Fault> {
        let transfer = |id: &[u8; 16]| guerdon_core::wallet::TransferId::from_bytes(*id);
        let wanted: Vec<_> =
            ids.iter().map(|id| *AllocationId::of_transfer(transfer(id)).as_bytes()).collect();
        let paid: HashSet<_> = rows::statuses_of(tx, &wanted)?
            .into_iter()
            .filter(|(_, status, _)| status == AllocationStatus::Success.as_str())
            .map(|(id, ..)| id)
            .collect();
        let unknown: Vec<_> =
            ids.iter().zip(&wanted).filter(|(_, allocation)| !paid.contains(*allocation)).collect();
        let unknown: Vec<_> = unknown.into_iter().map(|(id, _)| transfer(id)).collect();
        let granted = Self::granted_by_claims(tx, &unknown)?;
        for (id, allocation) in ids.iter().zip(wanted) {
            let sound = paid.contains(&allocation) || granted.contains(&transfer(id));
            self.checks
                .deliveries
                .expect(sound, || format!("{} pays out nothing that was won or claimed", transfer(id)));
        }
        Ok(())
    }
}

/// A reward that an entry has to have given.
struct Wanted {
    id: [u8; 16],
    member: String,
    reward: String,
    limited: bool,
}

/// Whether an allocation is one that the entry gave.
fn is_key_of(row: &Allocation, (member, (event_id, entry)): &rows::EntryAt) -> bool {
    if row.event_id.as_str() != event_id || row.member_id.as_str() != member {
        return false;
    }
    if entry.play.is_some() {
        return row.key == key::of_play(&row.event_id, &row.member_id, entry.id);
    }
    let daily = key::of_day(&row.event_id, &row.member_id, entry.day);
    let milestone = |days: i64| row.key == key::of_milestone(&row.event_id, &row.member_id, entry.day, days);
    row.key == daily || milestone(entry.number) || milestone(entry.streak)
}
