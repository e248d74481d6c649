use super::say;
use crate::settings::{Settings, Source, reference};
use clap::Args;
use serde_json::{Map, json};
use std::fmt::Write;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// For a script
    #[arg(long)]
    json: bool,
    /// Print the reference of all settings instead (docs/configuration.md)
    #[arg(long, conflicts_with = "json")]
    reference: bool,
}

impl ConfigArgs {
    /// The reference does not depend on any setting.
    pub(crate) fn without_settings(&self) -> Option<ExitCode> {
        self.reference.then(|| say(&reference::markdown()))
    }
}

pub(crate) fn run(args: &ConfigArgs, settings: &Settings) -> ExitCode {
    let shown = settings.shown();
    if args.json {
        let values: Map<_, _> = shown
            .into_iter()
            .map(|(key, value, source)| (key, json!({"value": value, "source": source.to_string()})))
            .collect();
        return say(&serde_json::to_string_pretty(&values).unwrap_or_default());
    }
    let width = shown.iter().map(|(key, value, _)| key.len() + value.len()).max().unwrap_or(0) + 6;
    let mut text = String::new();
    for (key, value, source) in shown {
        let line = format!("{key} = {}", json!(value));
        let _ = match source {
            Source::Default => writeln!(text, "{line}"),
            source => writeln!(text, "{line:width$}# {source}"),
        };
    }
    say(&text)
}
