//! The audit: every promise that can be checked in what is stored, checked beside a live server.
//!
//! It goes in small steps, each a short read. A line is looked at as it was when its turn came: its counts are one row,
//! and whoever stood in it then is scanned up to that watermark, whatever has joined since. What is legitimately under
//! way, such as a draw that is being settled, is checked as far as it has come.

mod check;
mod claims;
mod coupons;
mod entries;
mod line;
mod tables;
mod wallet;

use crate::engine::Engine;
use crate::failure::Failure;
use check::Checks;
use guerdon_core::Timestamp;
use guerdon_core::audit::Report;
use guerdon_store::audit::EventAt;
use guerdon_store::{Engine as Database, Fault, Reading, Stopwatch, Tx};
use line::{LineScan, Watermark};
use std::collections::{BTreeMap, VecDeque};
use tables::{Told, Totals};
use tokio::sync::oneshot;

/// What an audit has seen so far, and where it goes on.
pub struct Audit {
    now: Timestamp,
    phase: Phase,
    checks: Checks,
    /// Every line that was looked at, by its number.
    lines: BTreeMap<i64, Watermark>,
    events: BTreeMap<String, EventAt>,
    told: Told,
    totals: Totals,
    looked_at: u64,
}

enum Phase {
    Lines {
        after: String,
        scan: Option<Box<LineScan>>,
    },
    Users {
        after: (String, i64),
    },
    /// Lines whose user index is wrong: who exactly is it.
    Culprits {
        lines: VecDeque<i64>,
        after: i64,
    },
    Events {
        after: String,
    },
    Outbox {
        after: Vec<u8>,
    },
    Allocations {
        after: Vec<u8>,
    },
    Entries(Box<entries::EntryScan>),
    Claims {
        after: Vec<u8>,
    },
    ClaimStock {
        after: String,
    },
    Coupons(Box<coupons::CouponScan>),
    UserCoupons {
        after: Vec<u8>,
        coupons: Box<coupons::CouponScan>,
    },
    Sums,
    Books(Box<wallet::BookScan>),
    Transfers {
        after: Vec<u8>,
    },
    Keys {
        after: (String, String, String),
    },
    Log(Option<tables::LogScan>),
    Done,
}

impl Phase {
    /// What is looked at when this cannot be.
    fn next(&self) -> Self {
        match self {
            Self::Lines { .. } | Self::Users { .. } | Self::Culprits { .. } => {
                Self::Events { after: String::new() }
            }
            Self::Events { .. } => Self::Outbox { after: Vec::new() },
            Self::Outbox { .. } => Self::Allocations { after: Vec::new() },
            Self::Allocations { .. } => Self::Entries(Box::default()),
            Self::Entries(_) => Self::Claims { after: Vec::new() },
            Self::Claims { .. } => Self::ClaimStock { after: String::new() },
            Self::ClaimStock { .. } => Self::Coupons(Box::default()),
            Self::Coupons(_) | Self::UserCoupons { .. } => Self::Sums,
            Self::Sums => Self::Books(Box::default()),
            Self::Books(_) => Self::Transfers { after: Vec::new() },
            Self::Transfers { .. } => Self::Keys { after: Default::default() },
            Self::Keys { .. } => Self::Log(None),
            Self::Log(_) | Self::Done => Self::Done,
        }
    }
}

impl Audit {
    pub fn new(now: Timestamp) -> Self {
        Self {
            now,
            phase: Phase::Lines { after: String::new(), scan: None },
            checks: Checks::default(),
            lines: BTreeMap::new(),
            events: BTreeMap::new(),
            told: Told::default(),
            totals: Totals::default(),
            looked_at: 0,
        }
    }

    /// Looks at a little more; false when nothing is left.
    pub fn step(&mut self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let what = self.progress().0;
        let phase = std::mem::replace(&mut self.phase, Phase::Done);
        let rest = phase.next();
        let next = match phase {
            Phase::Lines { after, scan } => self.look_at_lines(tx, after, scan),
            Phase::Users { after } => self.look_at_users(tx, &after),
            Phase::Culprits { lines, after } => self.look_for_culprits(tx, lines, after),
            Phase::Events { after } => self.look_at_events(tx, &after),
            Phase::Outbox { after } => self.look_at_outbox(tx, &after),
            Phase::Allocations { after } => self.look_at_allocations(tx, &after),
            Phase::Entries(scan) => self.look_at_entries(tx, *scan),
            Phase::Claims { after } => self.look_at_claims(tx, &after),
            Phase::ClaimStock { after } => self.look_at_claim_stock(tx, &after),
            Phase::Coupons(scan) => self.look_at_coupons(tx, scan),
            Phase::UserCoupons { after, coupons } => self.look_at_user_coupons(tx, &after, coupons),
            Phase::Sums => self.look_at_sums(tx),
            Phase::Books(scan) => self.look_at_books(tx, *scan),
            Phase::Transfers { after } => self.look_at_transfers(tx, &after),
            Phase::Keys { after } => self.look_at_keys(tx, &after),
            Phase::Log(None) => self.begin_log(tx),
            Phase::Log(Some(scan)) => self.look_at_log(tx, scan),
            Phase::Done => Ok(Phase::Done),
        };
        // What cannot be made sense of is a finding, and the rest is looked at all the same.
        self.phase = self.readable(next, what)?.unwrap_or(rest);
        Ok(!matches!(self.phase, Phase::Done))
    }

    /// What is being looked at, and how many rows have been so far.
    pub fn progress(&self) -> (&'static str, u64) {
        let what = match self.phase {
            Phase::Lines { .. } => "requests",
            Phase::Users { .. } | Phase::Culprits { .. } => "the user index",
            Phase::Events { .. } => "events",
            Phase::Outbox { .. } => "the outbox",
            Phase::Allocations { .. } => "allocations",
            Phase::Entries(_) => "entries",
            Phase::Claims { .. } | Phase::ClaimStock { .. } => "claims",
            Phase::Coupons(_) | Phase::UserCoupons { .. } => "coupons",
            Phase::Sums | Phase::Books(_) => "accounts",
            Phase::Transfers { .. } => "transfers",
            Phase::Keys { .. } => "idempotency keys",
            Phase::Log(_) => "the audit log",
            Phase::Done => "done",
        };
        (what, self.looked_at)
    }

    pub fn report(mut self) -> Report {
        self.checks.readable.checked = self.looked_at;
        self.checks.report()
    }

    fn look_at_lines(
        &mut self,
        tx: &mut Tx<'_>,
        after: String,
        scan: Option<Box<LineScan>>,
    ) -> Result<Phase, Fault> {
        let Some(mut scan) = scan else {
            let Some(at) = guerdon_store::audit::next_line(tx, &after)? else {
                return Ok(match tx.engine() {
                    Database::Sqlite => Phase::Users { after: (String::new(), 0) },
                    Database::Postgres => Phase::Events { after: String::new() },
                });
            };
            let after = at.event_id.to_string();
            let opened = LineScan::open(tx, at, &mut self.checks);
            let scan = self.readable(opened, &after)?;
            return Ok(Phase::Lines { after, scan });
        };
        let looked = scan.look(tx, &mut self.checks);
        let Some(rows) = self.readable(looked, &after)? else {
            return Ok(Phase::Lines { after, scan: None });
        };
        self.looked_at += rows;
        if !scan.is_done() {
            return Ok(Phase::Lines { after, scan: Some(scan) });
        }
        let closed = scan.close(tx, &mut self.checks);
        if let Some(watermark) = self.readable(closed, &after)? {
            self.lines.insert(watermark.event_key, watermark);
        }
        Ok(Phase::Lines { after, scan: None })
    }

    /// What cannot be made sense of is a finding, not the end of the audit.
    fn readable<T>(&mut self, outcome: Result<T, Fault>, event_id: &str) -> Result<Option<T>, Fault> {
        match outcome {
            Ok(found) => Ok(Some(found)),
            Err(Fault::Inconsistent(text)) => {
                self.checks.readable.fail(|| format!("{event_id}: {text}"));
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }
}

/// How an audit goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    /// Rests most of the time, so that others hardly feel it.
    Gentle,
    /// For a machine that nobody else needs.
    Fast,
}

/// Runs an audit on a connection of its own.
pub fn run_audit(
    reading: &mut Reading,
    now: Timestamp,
    manners: Manners,
    mut watch: impl FnMut(&Audit) -> bool,
) -> Result<Option<Report>, Fault> {
    let mut audit = Audit::new(now);
    loop {
        let started = Stopwatch::start();
        let more = reading.read(|tx| audit.step(tx))?;
        if !watch(&audit) {
            return Ok(None);
        }
        if !more {
            return Ok(Some(audit.report()));
        }
        if manners == Manners::Gentle {
            reading.give_way(started.elapsed());
        }
    }
}

impl Engine {
    /// Checks everything. One audit runs at a time.
    pub async fn audit(&self) -> Result<Report, Failure> {
        let Ok(_one) = self.auditing.try_lock() else { return Err(Fault::Busy.into()) };
        let (mut reading, now) = (self.store().open_reading(), self.now());
        let (answer, pending) = oneshot::channel();
        let run = move || {
            reading.be_humble();
            // Nobody waits for it any more: there is no reason to go on.
            let report = run_audit(&mut reading, now, Manners::Gentle, |_| !answer.is_closed());
            let _ = answer.send(report);
        };
        std::thread::Builder::new()
            .name("audit".into())
            .spawn(run)
            .map_err(|error| Fault::Unavailable(format!("cannot start a thread: {error}")))?;
        Ok(pending.await.map_err(|_| Fault::Panicked)??.ok_or(Fault::Stopping)?)
    }
}
