//! The pages on a large store: how long each takes until it is shown, and what consoles that are open cost the intake.

mod pages;
mod store;
mod watchers;

use crate::drop::SECRET;
use crate::drop::targets::{Running, sqlite_in};
use crate::load::{self, Crowd, Plan};
use crate::report;
use clap::Args;
use pages::{Browser, Demo, LivePage, PageFigure};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use watchers::Watchers;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long, default_value = "target/release/guerdon")]
    guerdon: PathBuf,
    /// Where the browser's scripts are, with their packages
    #[arg(long, default_value = "tests/browser")]
    browser: PathBuf,
    /// How many requests of one event the store has; of most other things half as many
    #[arg(long, default_value_t = 1_000_000)]
    rows: u32,
    /// Keep the store in this folder; a later run with the same folder does not fill it again
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Which parts: pages, intake, demo
    #[arg(long, value_delimiter = ',', default_values = ["pages", "intake", "demo"])]
    parts: Vec<String>,
    /// Consoles that are open on the event under load
    #[arg(long, default_value_t = 10)]
    consoles: usize,
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// How long each measurement of the intake lasts
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// How many times the intake is measured with consoles and without
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// How many simulated people the demonstration has
    #[arg(long, default_value_t = 5_000)]
    crowd: u32,
    #[arg(long, default_value = "bench/results/console.json")]
    save: PathBuf,
}

/// What was measured; a run of some parts leaves the others as they were.
#[derive(Debug, Default, Serialize)]
struct Figures {
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<store::Stored>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pages: Vec<PageFigure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    intake: Option<Intake>,
    #[serde(skip_serializing_if = "Option::is_none")]
    demo: Option<Demo>,
}

/// Applications a second, with the consoles and without them in turns.
#[derive(Debug, Serialize)]
struct Intake {
    consoles: usize,
    without_per_second: f64,
    with_per_second: f64,
    /// Of each round; the middle one is what counts.
    ratios: Vec<f64>,
    ratio: f64,
    /// What each console was sent in a second.
    frames_per_second: f64,
    /// A console in a browser on the same machine, beside the others.
    page: LivePage,
    /// What was left of the throughput with that browser, which works on the same processors.
    ratio_with_browser: f64,
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let guerdon = options.guerdon.canonicalize()?;
    let browser = Browser::new(&options.browser)?;
    let wanted = |part: &str| options.parts.iter().any(|one| one == part);
    let mut figures = Figures::default();
    if wanted("pages") {
        let folder = store::Folder::at(options.keep.as_deref())?;
        let stored = store::fill(&guerdon, folder.path(), options.rows)?;
        store::audit(&guerdon, folder.path())?;
        figures.pages = pages::measure(&guerdon, folder.path(), &browser)?;
        figures.store = Some(stored);
    }
    if wanted("intake") {
        figures.intake = Some(intake(options, &guerdon, &browser)?);
    }
    if wanted("demo") {
        figures.demo = Some(browser.demo(&guerdon, options.crowd)?);
    }
    print(&figures);
    report::save(&options.save, &merged(&options.save, &figures)?)
}

/// With what an earlier run measured of the other parts.
fn merged(path: &Path, figures: &Figures) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    let mut all = match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => serde_json::json!({}),
    };
    if let serde_json::Value::Object(new) = serde_json::to_value(figures)? {
        for (part, value) in new {
            all[part] = value;
        }
    }
    Ok(all)
}

fn print(figures: &Figures) {
    if !figures.pages.is_empty() {
        let heads = ["page", "shown ms", "again ms", "calls", "slowest ms", "slowest call"];
        let rows = figures.pages.iter().map(PageFigure::row);
        let heads = heads.map(String::from).to_vec();
        report::print_table(&std::iter::once(heads).chain(rows).collect::<Vec<_>>());
    }
    if let Some(intake) = &figures.intake {
        println!("{intake:#?}");
    }
    if let Some(demo) = &figures.demo {
        println!("{demo:#?}");
    }
}

/// In each round a new server with nobody watching, one that is watched, and one that a browser watches as well, in an
/// order that changes: a machine that slows down does so for all.
fn intake(
    options: &Options,
    guerdon: &Path,
    browser: &Browser,
) -> Result<Intake, Box<dyn std::error::Error>> {
    let crowd = Crowd::new(0, 500_000, SECRET)?;
    let plan = Plan {
        connections: options.connections,
        warm_up: Duration::from_secs(1),
        time: Duration::from_secs(options.seconds),
        rate: None,
    };
    let (mut without, mut with, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut frames = Vec::new();
    for round in 0..options.rounds {
        let mut rates = [0.0; 2];
        for turn in 0..2 {
            let watched = usize::from((turn + round) % 2 == 1);
            let running = start_drop(guerdon)?;
            let watchers = Watchers::open(&running, watched * options.consoles)?;
            rates[watched] = load::run(&running.addresses, &crowd, plan)?.rate();
            frames.extend(watchers.close()?);
        }
        println!("{:.0} without, {:.0} with: {:.3}", rates[0], rates[1], rates[1] / rates[0]);
        without.push(rates[0]);
        with.push(rates[1]);
        ratios.push(rates[1] / rates[0]);
    }
    let running = start_drop(guerdon)?;
    let watchers = Watchers::open(&running, options.consoles)?;
    let page = browser.watch(&running, plan.warm_up + plan.time)?;
    let with_browser = load::run(&running.addresses, &crowd, plan)?.rate();
    watchers.close()?;
    let page = page.figures()?;
    let without_per_second = report::median(without);
    Ok(Intake {
        consoles: options.consoles,
        without_per_second: without_per_second.round(),
        with_per_second: report::median(with).round(),
        ratio: report::median(ratios.clone()),
        ratios,
        frames_per_second: report::median(frames),
        page,
        ratio_with_browser: with_browser / without_per_second,
    })
}

fn start_drop(guerdon: &Path) -> Result<Running, Box<dyn std::error::Error>> {
    let folder: Arc<TempDir> = Arc::new(tempfile::tempdir()?);
    let limits = [("GUERDON_LIMITS__PER_USER".to_owned(), "50".to_owned())];
    let running = Running::with_settings(guerdon, &sqlite_in(&folder), folder, limits.to_vec())?;
    running.open_drop(100_000_000)?;
    Ok(running)
}
