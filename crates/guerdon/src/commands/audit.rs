use super::{complain, fail, say};
use crate::settings::Settings;
use clap::Args;
use guerdon_core::audit::Report;
use guerdon_engine::{Audit, Clock, Manners, Stopwatch, run_audit};
use guerdon_store::Reading;
use std::fmt::Write;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Do not rest between reads: for a machine that nobody else needs
    #[arg(long)]
    fast: bool,
}

/// For an audit that could not be made.
const NOT_DONE: u8 = 2;
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &AuditArgs, settings: &Settings) -> ExitCode {
    let now = Clock::new(settings.clock_offset_ms).now();
    let mut progress = Progress { shown: Stopwatch::start(), on: std::io::stderr().is_terminal() };
    let audited = Reading::open(&settings.database).and_then(|mut reading| {
        reading.be_humble();
        let manners = if args.fast { Manners::Fast } else { Manners::Gentle };
        run_audit(&mut reading, now, manners, |audit| progress.show(audit))
    });
    match audited {
        Ok(Some(report)) => {
            let text = if args.json { serde_json::to_string_pretty(&report) } else { Ok(table(&report)) };
            let said = text.map_or_else(|error| fail(&error.to_string()), |text| say(&text));
            if report.ok { said } else { ExitCode::FAILURE }
        }
        Ok(None) => ExitCode::from(NOT_DONE),
        Err(fault) => {
            complain(&format!("the audit could not be made: {fault}"));
            ExitCode::from(NOT_DONE)
        }
    }
}

/// A line now and then for whoever watches.
struct Progress {
    shown: Stopwatch,
    on: bool,
}

impl Progress {
    fn show(&mut self, audit: &Audit) -> bool {
        if self.on && self.shown.elapsed() >= PROGRESS_INTERVAL {
            self.shown = Stopwatch::start();
            let (what, rows) = audit.progress();
            complain(&format!("{rows} rows so far, now {what}"));
        }
        true
    }
}

fn table(report: &Report) -> String {
    let mut text = String::new();
    for check in &report.checks {
        let verdict = if check.ok { "ok  " } else { "FAIL" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{verdict}  {:<22} {:>12}  {}", check.name, check.checked, check.detail);
        for failure in &check.failures {
            let _ = writeln!(text, "        {failure}");
        }
    }
    let failed = report.checks.iter().filter(|check| !check.ok).count();
    let _ = match failed {
        0 => writeln!(text, "\nEvery promise holds."),
        1 => writeln!(text, "\n1 promise does NOT hold."),
        failed => writeln!(text, "\n{failed} promises do NOT hold."),
    };
    text
}
