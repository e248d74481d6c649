//! Reading settings from where they can be set, the later winning: defaults, file, environment, flags.

use super::SettingsError;
use super::table::{self, SETTINGS, State};
use super::value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DEFAULT_FILE: &str = "guerdon.toml";
const PREFIX: &str = "GUERDON_";

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Default,
    File(PathBuf),
    Environment(String),
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// The values in force, by key, each checked.
#[derive(Debug)]
pub(crate) struct Values(BTreeMap<String, (String, Source)>);

impl Values {
    pub(crate) fn read(
        file: Vec<(String, String, Source)>,
        environment: impl Iterator<Item = (OsString, OsString)>,
        flags: Vec<(String, String, Source)>,
    ) -> Result<Self, SettingsError> {
        let mut values = Self::defaults();
        for (key, text, source) in file.into_iter().chain(read_environment(environment)?).chain(flags) {
            values.set(key, text, source)?;
        }
        Ok(values)
    }

    fn defaults() -> Self {
        let of_their_own = SETTINGS.iter().filter(|setting| !setting.key.contains('<'));
        let defaults = of_their_own
            .filter_map(|setting| Some((setting.key.into(), (setting.default?.into(), Source::Default))));
        Self(defaults.collect())
    }

    fn set(&mut self, key: String, text: String, source: Source) -> Result<(), SettingsError> {
        let Some(setting) = table::find(&key) else {
            let hint =
                table::similar(&key).map_or(String::new(), |similar| format!("; did you mean {similar}?"));
            return Err(SettingsError::bad(&key, &source, &format!("is not a setting{hint}")));
        };
        setting.kind.check(&text).map_err(|reason| SettingsError::bad(&key, &source, &reason))?;
        self.0.insert(key, (text, source));
        Ok(())
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.0.get(key).map(|(text, _)| text.clone())
    }

    pub(crate) fn source(&self, key: &str) -> Source {
        self.0.get(key).map_or(Source::Default, |(_, source)| source.clone())
    }

    pub(crate) fn parse<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, SettingsError> {
        let text = self.text(key).unwrap_or_default();
        parse(&text).map_err(|reason| SettingsError::bad(key, &self.source(key), &reason))
    }

    /// The names that somebody used for `<name>` in a section.
    pub(crate) fn names(&self, section: &str) -> Vec<String> {
        let prefix = format!("{section}.");
        let keys = self.0.keys().filter_map(|key| key.strip_prefix(&prefix));
        let mut names: Vec<_> =
            keys.filter_map(|rest| rest.split_once('.')).map(|(name, _)| name.to_owned()).collect();
        names.dedup();
        names
    }

    /// The value of a key, or the default of the setting that it is one of.
    pub(crate) fn text_or_default(&self, key: &str) -> String {
        let default = || table::find(key).and_then(|setting| setting.default).unwrap_or_default();
        self.text(key).unwrap_or_else(|| default().to_owned())
    }

    /// Of a setting that was checked to be a count and has a default.
    pub(crate) fn count(&self, key: &str) -> usize {
        self.text(key).and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    pub(crate) fn duration(&self, key: &str) -> Duration {
        self.text(key).and_then(|text| value::duration(&text).ok()).unwrap_or_default()
    }

    pub(crate) fn signed_millis(&self, key: &str) -> i64 {
        self.text(key).and_then(|text| value::signed_millis(&text).ok()).unwrap_or_default()
    }

    pub(crate) fn shown(&self) -> Vec<(String, String, Source)> {
        let show = |(key, (text, source)): (&String, &(String, Source))| {
            let hidden = table::find(key).is_none_or(|setting| setting.secret);
            let text = if hidden { "(hidden)".into() } else { without_password(text) };
            (key.clone(), text, source.clone())
        };
        self.0.iter().map(show).collect()
    }

    pub(crate) fn without_effect(&self) -> Vec<String> {
        let set = self.0.iter().filter(|(_, (_, source))| *source != Source::Default);
        let later =
            set.filter(|(key, _)| table::find(key).is_some_and(|setting| setting.state == State::Later));
        later.map(|(key, _)| key.clone()).collect()
    }
}

/// An address without what may be secret in it: all between the scheme and the host, and the query.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.into() };
    let (user, rest) = match rest.rsplit_once('@') {
        Some((user, rest)) => (Some(user.split(':').next().unwrap_or_default()), rest),
        None => (None, rest),
    };
    let host = match rest.split_once('?') {
        Some((host, _)) => format!("{host}?(hidden)"),
        None => rest.into(),
    };
    match user {
        Some(user) => format!("{scheme}://{user}:(hidden)@{host}"),
        None => format!("{scheme}://{host}"),
    }
}

/// What the file sets; nothing, where the default one is missing.
pub(super) fn from_file(file: Option<&Path>) -> Result<Vec<(String, String, Source)>, SettingsError> {
    let path = file.unwrap_or(Path::new(DEFAULT_FILE));
    match std::fs::read_to_string(path) {
        Ok(text) => from_text(path, &text),
        // The default file may be missing; one that was asked for may not.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && file.is_none() => Ok(Vec::new()),
        Err(error) => Err(SettingsError(format!("{}: {error}", path.display()))),
    }
}

/// What the text of a file sets.
pub(super) fn from_text(path: &Path, text: &str) -> Result<Vec<(String, String, Source)>, SettingsError> {
    // The parser's message quotes the line, which may hold a secret.
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        SettingsError(format!("{}, line {line}: {}", path.display(), error.message()))
    })?;
    let mut values = Vec::new();
    flatten("", table, &mut values)
        .map_err(|key| SettingsError(format!("{key} ({}) must be text or a whole number", path.display())))?;
    Ok(values.into_iter().map(|(key, text)| (key, text, Source::File(path.into()))).collect())
}

fn flatten(prefix: &str, table: toml::Table, values: &mut Vec<(String, String)>) -> Result<(), String> {
    for (name, value) in table {
        let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, values)?,
            toml::Value::String(text) => values.push((key, text)),
            toml::Value::Integer(number) => values.push((key, number.to_string())),
            _ => return Err(key),
        }
    }
    Ok(())
}

fn read_environment(
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String, Source)>, SettingsError> {
    let mut values = Vec::new();
    for (name, value) in environment {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        if is_of_kubernetes(&name[PREFIX.len()..]) {
            continue;
        }
        let text = value.into_string().map_err(|_| SettingsError(format!("{name} is not UTF-8")))?;
        values.push((
            table::key_of_environment(&name[PREFIX.len()..]),
            text,
            Source::Environment(name.into()),
        ));
    }
    Ok(values)
}

/// Kubernetes tells every container about a service called `guerdon` in variables of this form.
fn is_of_kubernetes(name: &str) -> bool {
    name == "PORT"
        || name == "SERVICE_HOST"
        || name == "SERVICE_PORT"
        || name.starts_with("SERVICE_PORT_")
        || name.strip_prefix("PORT_").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
