//! Settings as text, in and out, without a file or an environment of the process: for the fuzz targets.

use super::table;
use super::{Settings, read, value};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// A setting as somebody set it, and as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub key: String,
    pub text: String,
    pub shown: String,
    pub is_secret: bool,
    /// Nobody set it.
    pub is_default: bool,
}

/// Every setting in force, given what stands in the file and what the environment says; or what is wrong.
pub fn settings(file: &str, environment: Vec<(String, String)>) -> Result<Vec<Said>, String> {
    let path = Path::new("guerdon.toml");
    let environment =
        environment.into_iter().map(|(name, text)| (OsString::from(name), OsString::from(text)));
    let read = read::from_text(path, file);
    let settings = read.and_then(|file| Settings::of(file, environment, Vec::new()));
    let settings = settings.map_err(|error| error.to_string())?;
    let said = settings.shown().into_iter().map(|(key, shown, source)| {
        let text = settings.values.text(&key).unwrap_or_default();
        let is_secret = table::find(&key).is_none_or(|setting| setting.secret);
        Said { key, text, shown, is_secret, is_default: source == read::Source::Default }
    });
    Ok(said.collect())
}

/// The environment variable that sets it.
pub fn environment_name(key: &str) -> String {
    table::environment_name(key)
}

pub fn duration(text: &str) -> Result<Duration, String> {
    value::duration(text)
}

pub fn signed_millis(text: &str) -> Result<i64, String> {
    value::signed_millis(text)
}
