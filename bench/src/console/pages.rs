//! The browser's part: scripts of node drive Chromium and say what they saw as JSON.

use super::store::{self, SOMEBODY};
use super::watchers::token;
use crate::drop::targets::Running;
use crate::load::name;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A page, from the click on its link until all of it is there.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PageFigure {
    page: String,
    /// The first time, when nothing of it was read before.
    first_ms: f64,
    /// The middle one of some more.
    again_ms: f64,
    calls: u32,
    slowest_ms: f64,
    slowest: String,
    /// Lines of its tables.
    rows: u32,
}

impl PageFigure {
    pub(super) fn row(&self) -> Vec<String> {
        vec![
            self.page.clone(),
            format!("{:.0}", self.first_ms),
            format!("{:.0}", self.again_ms),
            self.calls.to_string(),
            format!("{:.1}", self.slowest_ms),
            self.slowest.clone(),
        ]
    }
}

/// A live page that somebody looks at.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LivePage {
    seconds: f64,
    /// How often the figure of what was decided changed, and the longest time in which it stood still.
    changes: u32,
    longest_still_ms: f64,
    /// The longest time for which the page did nothing else.
    longest_busy_ms: f64,
}

/// The same beside the crowd of the demonstration.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Demo {
    crowd: u32,
    live: LivePage,
    /// Clicks on links, each until the page behind it was there.
    clicks: u32,
    click_p50_ms: f64,
    slowest_click_ms: f64,
    slowest_click: String,
}

pub(super) struct Browser {
    folder: PathBuf,
}

impl Browser {
    pub(super) fn new(folder: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let folder = folder.canonicalize()?;
        if !folder.join("node_modules").exists() {
            return Err(format!("npm ci --prefix {} comes before", folder.display()).into());
        }
        Ok(Self { folder })
    }

    fn start(&self, what: &str, told: &Value) -> Result<Script, Box<dyn std::error::Error>> {
        let mut child = Command::new("node")
            .arg(self.folder.join("scale.mjs"))
            .args([what, &told.to_string()])
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Script { child, output })
    }

    /// Somebody who looks at the event under load for so long.
    pub(super) fn watch(
        &self,
        running: &Running,
        time: Duration,
    ) -> Result<Watching, Box<dyn std::error::Error>> {
        let told = json!({"address": format!("http://{}", running.addresses[0]),
            "operator": token("browser", "OPERATOR")?, "event": "drop", "ms": u64::try_from(time.as_millis())?});
        let mut script = self.start("watch", &told)?;
        let mut line = String::new();
        script.output.read_line(&mut line)?;
        if line.trim() != "ready" {
            return Err("the browser did not come to the page".into());
        }
        Ok(Watching(script))
    }

    pub(super) fn demo(&self, guerdon: &Path, crowd: u32) -> Result<Demo, Box<dyn std::error::Error>> {
        Ok(serde_json::from_str(&self.start("demo", &json!({"guerdon": guerdon, "crowd": crowd}))?.end()?)?)
    }
}

struct Script {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Script {
    /// What it says last.
    fn end(mut self) -> Result<String, Box<dyn std::error::Error>> {
        let mut said = String::new();
        self.output.read_to_string(&mut said)?;
        let status = self.child.wait()?;
        let last = said.lines().last().unwrap_or_default();
        if !status.success() {
            return Err(format!("the browser's script failed: {last}").into());
        }
        Ok(last.to_owned())
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) struct Watching(Script);

impl Watching {
    pub(super) fn figures(self) -> Result<LivePage, Box<dyn std::error::Error>> {
        Ok(serde_json::from_str(&self.0.end()?)?)
    }
}

/// Opens every page on the store.
pub(super) fn measure(
    guerdon: &Path,
    folder: &Path,
    browser: &Browser,
) -> Result<Vec<PageFigure>, Box<dyn std::error::Error>> {
    let running = store::serve(guerdon, folder)?;
    let user = name(SOMEBODY);
    let told = json!({"address": format!("http://{}", running.addresses[0]),
        "operator": token("browser", "OPERATOR")?, "user": token(&user, "USER")?, "userId": user});
    Ok(serde_json::from_str(&browser.start("pages", &told)?.end()?)?)
}
