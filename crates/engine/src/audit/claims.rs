//! Claims: each where its timeline leads, with what it took, was granted and gave back.

use super::{Audit, Phase};
use guerdon_core::allocations::key;
use guerdon_core::claims::{
    Claim, ClaimId, ClaimStatus, GrantStatus, InventoryStatus, MOVES, UndoAction, UndoPhase,
};
use guerdon_core::wallet::TransferId;
use guerdon_store::audit::claims as rows;
use guerdon_store::claims::{Stored, stock};
use guerdon_store::{Fault, Tx};
use std::collections::{HashMap, HashSet};

const ROWS: i64 = 200;
/// How long after its time a claim may still be pending: somebody undoes it meanwhile.
const TIMEOUT_LAG_MS: i64 = 120_000;
/// For how long it may be due: whom it waits for may be away.
const DUE_LAG_MS: i64 = 900_000;

/// What pays a claim's reward out in the house.
const WALLET: &str = "wallet";

impl Audit {
    pub(super) fn look_at_claims(&mut self, tx: &mut Tx<'_>, after: &[u8]) -> Result<Phase, Fault> {
        let page = rows::page(tx, after, ROWS)?;
        let Some(after) = page.last().map(|(stored, ..)| stored.claim.id.as_bytes().to_vec()) else {
            return Ok(Phase::ClaimStock { after: String::new() });
        };
        self.looked_at += u64::try_from(page.len()).unwrap_or(0);
        let paid = paid(tx, page.iter().map(|(stored, ..)| &stored.claim))?;
        for (stored, held, live) in &page {
            self.look_at_claim(stored, *held, *live);
            self.look_at_grants(&stored.claim, &paid);
        }
        Ok(Phase::Claims { after })
    }

    fn look_at_claim(&mut self, stored: &Stored, held: i64, live: bool) {
        let Stored { claim, next_at, .. } = stored;
        let (progress, status) = (&claim.progress, claim.status());
        let what = |why: &str| format!("{} ({}): {why}", claim.request_id, status.as_str());
        let passed: Vec<_> = progress.timeline.iter().map(|passed| passed.to).collect();
        let legal = passed.first() == Some(&ClaimStatus::PendingValidation)
            && passed.last() == Some(&status)
            && passed.windows(2).all(|pair| MOVES.contains(&(pair[0], pair[1])));
        self.checks.claims.expect(legal, || what("its timeline does not lead where it stands"));
        self.checks.claims.expect(live == status.is_live(), || what("it is marked as what it is not"));
        let granted = |grant: GrantStatus| grant == GrantStatus::Success;
        let all = progress.rewards.iter().all(|reward| granted(reward.grant));
        let any = progress.rewards.iter().any(|reward| granted(reward.grant));
        let doubt = progress.rewards.iter().any(|reward| reward.in_doubt);
        let fits = match status {
            ClaimStatus::SuccessAllGranted => all && !doubt,
            ClaimStatus::RewardPartiallyGranted => any && !all && !doubt,
            status if status.is_failure() => !any && !doubt,
            _ => true,
        };
        self.checks.claims.expect(fits, || what("what it was granted does not fit"));
        let keys = progress
            .rewards
            .iter()
            .all(|reward| reward.key == key::of_claim(&claim.request_id, &reward.reward_id));
        self.checks.claims.expect(keys, || what("a reward has another key than its own"));
        let holds: i64 = claim.held_stock().map(|(_, count)| count).sum();
        self.checks
            .stock
            .expect(holds == held, || what(&format!("it says that it holds {holds}, and holds {held}")));
        let late = |at: guerdon_core::Timestamp, lag: i64| at.plus_millis(lag) < self.now;
        let overdue = claim.expires_at.is_some_and(|at| late(at, TIMEOUT_LAG_MS))
            || (claim.expires_at.is_none() && next_at.is_some_and(|at| late(at, DUE_LAG_MS)));
        self.checks.leases.expect(!overdue, || what("is past its time, and nobody has taken it up"));
        self.look_at_compensations(claim);
    }

    /// Every compensation has a line before and a line after it.
    fn look_at_compensations(&mut self, claim: &Claim) {
        let log = &claim.progress.log;
        let resolved = log.iter().any(|line| line.action == UndoAction::Resolve);
        for reward in &claim.progress.rewards {
            let has = |action: UndoAction, phase: UndoPhase| {
                log.iter().any(|line| {
                    (line.action, line.phase) == (action, phase)
                        && line.reward_id.as_ref() == Some(&reward.reward_id)
                })
            };
            let both = |action| has(action, UndoPhase::Started) && has(action, UndoPhase::Done);
            let returned = reward.inventory == InventoryStatus::Returned;
            let revoked = reward.grant == GrantStatus::Revoked;
            let fits = returned == both(UndoAction::ReturnInventory)
                && (!revoked || resolved || both(UndoAction::RevokeReward));
            self.checks.compensations.expect(fits, || {
                format!("{} of {}: its log does not tell what was undone", reward.reward_id, claim.request_id)
            });
        }
    }

    /// What the wallet paid out and took back, of claims that are at their end.
    fn look_at_grants(&mut self, claim: &Claim, paid: &HashMap<TransferId, (i64, i64)>) {
        let status = claim.status();
        if !(status.is_success() || status.is_failure()) {
            return;
        }
        let resolved = claim.progress.log.iter().any(|line| line.action == UndoAction::Resolve);
        for (index, reward) in claim.progress.rewards.iter().enumerate() {
            if reward.provider != WALLET {
                continue;
            }
            let found = paid.get(&claim.id.transfer_id(index));
            let fits = match reward.grant {
                GrantStatus::Success => found.is_some(),
                GrantStatus::Revoked => {
                    found.is_some_and(|(amount, refunded)| resolved || amount == refunded)
                }
                _ => found.is_none(),
            };
            self.checks.grants.expect(fits, || {
                let grant = reward.grant.as_str();
                format!(
                    "{} of {} is {grant}, and the wallet says otherwise",
                    reward.reward_id, claim.request_id
                )
            });
        }
    }

    pub(super) fn look_at_claim_stock(&mut self, tx: &mut Tx<'_>, after: &str) -> Result<Phase, Fault> {
        let Some(event_id) = rows::next_event(tx, after)? else { return Ok(Phase::Coupons(Box::default())) };
        for at in stock::at(tx, &event_id)? {
            self.checks.stock.expect(at.remaining + at.taken == at.total, || {
                format!(
                    "{event_id}: {} of {} remain, {} of {} were taken",
                    at.remaining, at.reward_id, at.taken, at.total
                )
            });
        }
        Ok(Phase::ClaimStock { after: event_id })
    }

    /// Which of these payments a claim says that it was granted, or that were taken back.
    pub(super) fn granted_by_claims(
        tx: &mut Tx<'_>,
        payments: &[TransferId],
    ) -> Result<HashSet<TransferId>, Fault> {
        let of: Vec<_> = payments.iter().filter_map(|id| ClaimId::of_transfer(*id)).collect();
        let ids: Vec<_> = of.iter().map(|(claim, _)| *claim.as_bytes()).collect();
        let mut granted = HashSet::new();
        for Stored { claim, .. } in rows::of(tx, &ids)? {
            for (index, reward) in claim.progress.rewards.iter().enumerate() {
                let paid = matches!(reward.grant, GrantStatus::Success | GrantStatus::Revoked);
                if reward.provider == WALLET && paid {
                    granted.insert(claim.id.transfer_id(index));
                }
            }
        }
        Ok(granted)
    }
}

fn paid<'a>(
    tx: &mut Tx<'_>,
    claims: impl Iterator<Item = &'a Claim>,
) -> Result<HashMap<TransferId, (i64, i64)>, Fault> {
    let mut wanted = Vec::new();
    for claim in claims {
        let rewards = claim.progress.rewards.iter().enumerate();
        let ours = rewards.filter(|(_, reward)| reward.provider == WALLET);
        wanted.extend(ours.map(|(index, _)| *claim.id.transfer_id(index).as_bytes()));
    }
    let found = rows::paid(tx, &wanted)?;
    Ok(found.into_iter().map(|(id, amount, refunded)| (id, (amount, refunded))).collect())
}
