//! What is checked, and what was found.

use guerdon_core::audit::{Check, Report};

/// How many of a check's findings are named.
const NAMED_MAX: usize = 20;

#[derive(Debug, Default)]
pub(super) struct Finding {
    pub(super) checked: u64,
    failed: u64,
    named: Vec<String>,
    /// What was measured, for whoever reads the report.
    noted: Vec<String>,
}

impl Finding {
    pub(super) fn fail(&mut self, what: impl FnOnce() -> String) {
        self.failed += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(what());
        }
    }

    /// Looks at one thing.
    pub(super) fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        self.checked += 1;
        if !holds {
            self.fail(what);
        }
    }

    /// Adds something to the report that was measured.
    pub(super) fn note(&mut self, what: String) {
        if self.noted.len() < NAMED_MAX {
            self.noted.push(what);
        }
    }

    fn check(self, name: &'static str, promise: &str) -> Check {
        let ok = self.failed == 0;
        let mut detail =
            if ok { promise.to_owned() } else { format!("does not hold ({} found): {promise}", self.failed) };
        for noted in &self.noted {
            detail.push_str("; ");
            detail.push_str(noted);
        }
        Check { name, ok, checked: self.checked, detail, failures: self.named }
    }
}

macro_rules! checks {
    ($($name:ident $promise:literal;)+) => {
        #[derive(Debug, Default)]
        pub(super) struct Checks { $(pub(super) $name: Finding),+ }

        impl Checks {
            pub(super) fn report(self) -> Report {
                let checks = vec![$(self.$name.check(stringify!($name), $promise)),+];
                Report { ok: checks.iter().all(|check| check.ok), checks }
            }
        }
    };
}

checks! {
    readable "every row can be read";
    line_positions "positions in a line have no gap and no repeat, and each request's id holds its own";
    one_request_per_user "nobody stands twice in a line";
    line_counts "accepted = decided + in line, and the results that are counted are those of the rows";
    capacity "winners + remaining = capacity";
    winners "the winners are the first of the line, or those who follow from the draw";
    draws "a draw's commitment, leaves, root and winners follow from its seed and its entries";
    request_messages "every decided request has exactly one message in the outbox, and no message is about another";
    event_messages "every opening, closing, announcement and cancellation has exactly one message in the outbox";
    allocations "every winner has one allocation of each reward, and nobody else has any";
    allocation_keys "every allocation has the one key that its reward, its winner and what won it make";
    entries "every check-in and play follows from those before it, within the limits of its event";
    entry_rewards "every check-in and play has the allocations of what it gave";
    odds "every play was drawn by the odds in force, and what was drawn fits them";
    deliveries "every reward that the wallet paid out has its one transfer, and no transfer pays out anything else";
    claims "every claim stands where the table of moves leads, and what it was granted fits";
    grants "what the wallet paid for claims and took back is what they were granted and what was revoked";
    compensations "every compensation of a claim has its log, before and after";
    coupons "as many of each coupon are issued as are counted, and no more than there are";
    user_coupons "every user coupon is of a coupon that there is, in a place that its user can have, one for each key, and is found by its user";
    coupon_messages "every decision about a coupon has its message in the outbox, and every one that is pending has its own";
    stock "stock + granted + held = total, for each limited reward";
    money "the balances of each currency sum to zero with its issue account";
    account_entries "each balance is what its entries come to, and no entry is missing";
    members "no member's account is below zero, nor ever was";
    transfers "each transfer has one DEBIT and one CREDIT as it was made, and refunds no larger than itself";
    transfer_messages "every transfer has exactly one message in the outbox, and no message is about another";
    transfer_keys "one transfer under each key that succeeded, none under any other, and none without a key";
    leases "nothing is past its lease";
    audit_log "the audit log has no gap, and each line is bound to the one before it";
    event_lines_in_log "every change of an event has its line in the audit log";
}
