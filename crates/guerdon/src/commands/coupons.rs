use super::wiring::redis_counter;
use super::{complain, fail, say};
use crate::settings::Settings;
use clap::{Args, Subcommand};
use guerdon_connect::RedisCounter;
use guerdon_core::coupons::{Count, Coupon};
use guerdon_engine::{Compared, Comparison, CouponCounter, Stopwatch};
use guerdon_store::{Reading, coupons};
use serde::Serialize;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Runtime;

#[derive(Debug, Subcommand)]
pub(crate) enum CouponsCommand {
    /// Compare Redis with the store, and have it counted anew where they disagree; exit code 1 while they do
    Reconcile(ReconcileArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ReconcileArgs {
    /// Only compare
    #[arg(long)]
    dry_run: bool,
    /// Only this coupon
    #[arg(long, value_name = "ID")]
    coupon: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// For what could not be compared.
const NOT_DONE: u8 = 2;
/// Coupons that are read at once.
const PAGE: i64 = 200;
/// How long a coupon that seems wrong is looked at, until it is sure: what is under way passes.
const SURE: Duration = Duration::from_secs(3);
/// How long a running server has to count a coupon anew.
const PATIENCE: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(200);

pub(crate) fn run(command: &CouponsCommand, settings: &Settings) -> ExitCode {
    let CouponsCommand::Reconcile(args) = command;
    match reconcile(args, settings) {
        Ok(lines) => {
            let sound = lines.iter().all(|line| line.agrees);
            let text = if args.json { serde_json::to_string_pretty(&lines) } else { Ok(table(&lines)) };
            let said = text.map_or_else(|error| fail(&error.to_string()), |text| say(&text));
            if sound { said } else { ExitCode::FAILURE }
        }
        Err(reason) => {
            complain(&format!("the coupons could not be compared: {reason}"));
            ExitCode::from(NOT_DONE)
        }
    }
}

/// What was found about a coupon.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    coupon_id: String,
    total_quantity: i64,
    issued: i64,
    /// As Redis counts; none where it does not know the coupon.
    counted: Option<i64>,
    /// Counted, and on its way to the store.
    under_way: i64,
    /// How many more the store has than Redis, or less.
    drift: i64,
    agrees: bool,
    verdict: String,
}

/// Redis and the store, to be compared.
struct Both {
    runtime: Runtime,
    counter: RedisCounter,
    reading: Reading,
}

fn reconcile(args: &ReconcileArgs, settings: &Settings) -> Result<Vec<Line>, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let mut both = Both {
        runtime: runtime.map_err(|error| format!("cannot start: {error}"))?,
        counter: redis_counter(settings)?,
        reading: Reading::open(&settings.database).map_err(|fault| fault.to_string())?,
    };
    let mut lines = Vec::new();
    let mut after = String::new();
    loop {
        let page = both.reading.read(|tx| coupons::list(tx, &after, PAGE));
        let page = page.map_err(|fault| fault.to_string())?;
        let Some((last, _)) = page.last() else { break };
        after = last.id.to_string();
        for (coupon, _) in page {
            if args.coupon.as_deref().is_none_or(|wanted| wanted == coupon.id.as_str()) {
                lines.push(both.reconcile(args, &coupon)?);
            }
        }
    }
    match &args.coupon {
        Some(wanted) if lines.is_empty() => Err(format!("there is no coupon {wanted}")),
        _ => Ok(lines),
    }
}

impl Both {
    fn reconcile(&mut self, args: &ReconcileArgs, coupon: &Coupon) -> Result<Line, String> {
        let drifts = |verdict| matches!(verdict, Comparison::Drift(_) | Comparison::Stale);
        let (compared, verdict) = self.until(coupon, SURE, |verdict| !drifts(verdict))?;
        if !drifts(verdict) || args.dry_run {
            return Ok(line(coupon, &compared, verdict, None));
        }
        let forgotten = self.runtime.block_on(self.counter.forget(&coupon.id, compared.counter.marked));
        forgotten.map_err(|away| format!("Redis: {away}"))?;
        complain(&format!("{}: waiting for a server to count it anew", coupon.id));
        let (now, after) = self.until(coupon, PATIENCE, |verdict| verdict == Comparison::Agree)?;
        Ok(line(coupon, &now, after, Some(verdict)))
    }

    /// Compares until it is as wanted, so long at the most.
    fn until(
        &mut self,
        coupon: &Coupon,
        patience: Duration,
        wanted: impl Fn(Comparison) -> bool,
    ) -> Result<(Compared, Comparison), String> {
        let started = Stopwatch::start();
        loop {
            let before = self.count(coupon)?;
            let counter = self.runtime.block_on(self.counter.look(&coupon.id));
            let counter = counter.map_err(|away| format!("Redis: {away}"))?;
            let after = self.count(coupon)?;
            let compared = Compared { counter, issued: (before.issued, after.issued), epoch: after.epoch };
            let verdict = compared.verdict(coupon.total_quantity);
            if wanted(verdict) || started.elapsed() > patience {
                return Ok((compared, verdict));
            }
            std::thread::park_timeout(LOOK);
        }
    }

    fn count(&mut self, coupon: &Coupon) -> Result<Count, String> {
        let found = self.reading.read(|tx| coupons::with_count(tx, &coupon.id));
        let found = found.map_err(|fault| fault.to_string())?;
        found.map(|(_, count)| count).ok_or_else(|| format!("{} is not counted", coupon.id))
    }
}

fn line(coupon: &Coupon, compared: &Compared, verdict: Comparison, mended: Option<Comparison>) -> Line {
    let drift = match verdict {
        Comparison::Drift(by) => by,
        _ => 0,
    };
    let text = match (verdict, mended) {
        (Comparison::Agree, Some(Comparison::Drift(by))) => format!("disagreed by {by}; counted anew"),
        (Comparison::Agree, Some(_)) => "counted anew".into(),
        (Comparison::Agree, None) => "agree".into(),
        (_, Some(_)) => "did not agree; it is counted anew by the next server that runs".into(),
        (Comparison::Stale, _) => "counted at another time than the store has it".into(),
        (Comparison::NotCounted, _) => "not in Redis: counted when somebody asks for it".into(),
        (Comparison::Building, _) => "being counted anew".into(),
        (Comparison::Drift(by), _) => format!("disagree by {by}"),
    };
    Line {
        coupon_id: coupon.id.to_string(),
        total_quantity: coupon.total_quantity,
        issued: compared.issued.1,
        counted: compared.counter.epoch.map(|_| coupon.total_quantity - compared.counter.left),
        under_way: compared.counter.unsettled,
        drift,
        // What was to be mended has to agree afterwards.
        agrees: match mended {
            Some(_) => verdict == Comparison::Agree,
            None => !matches!(verdict, Comparison::Drift(_) | Comparison::Stale),
        },
        verdict: text,
    }
}

fn table(lines: &[Line]) -> String {
    let mut text = format!(
        "{:<32} {:>12} {:>12} {:>12} {:>10}\n",
        "coupon", "quantity", "issued", "in Redis", "under way"
    );
    for line in lines {
        let counted = line.counted.map_or("-".into(), |count| count.to_string());
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:<32} {:>12} {:>12} {:>12} {:>10}  {}",
            line.coupon_id, line.total_quantity, line.issued, counted, line.under_way, line.verdict
        );
    }
    let wrong = lines.iter().filter(|line| !line.agrees).count();
    let _ = match wrong {
        0 => writeln!(text, "\nRedis and the store agree."),
        wrong => writeln!(text, "\nRedis and the store do NOT agree about {wrong} of {}.", lines.len()),
    };
    text
}
