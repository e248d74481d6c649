use super::{fail, say};
use crate::settings::Settings;
use guerdon_engine::Clock;
use guerdon_store::{migrate, schema_version};
use std::process::ExitCode;

pub(crate) fn run(settings: &Settings) -> ExitCode {
    match migrate(&settings.database, Clock::new(0).now()) {
        Ok(applied) if applied.is_empty() => {
            say(&format!("{} is at version {} already", settings.database, schema_version()))
        }
        Ok(applied) => say(&format!(
            "{} was brought to version {} ({} applied)",
            settings.database,
            schema_version(),
            applied.len()
        )),
        Err(fault) => fail(&fault.to_string()),
    }
}
