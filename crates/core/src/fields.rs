//! Collecting what is wrong with each field of an input, so that one answer names all of it.

use crate::code::Code;
use crate::rejection::Rejection;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// Where in the body, as a JavaScript-like path: `rewards[0].amount`.
    pub path: String,
    pub reason: String,
}

#[derive(Debug, Default)]
pub struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    pub fn refuse(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        self.0.push(FieldError { path: path.into(), reason: reason.into() });
    }

    /// Unwraps a field that must be there, or notes that it is missing.
    pub fn require<T>(&mut self, path: &str, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.refuse(path, "is required");
        }
        value
    }

    /// Keeps the value, or notes why it was refused.
    pub fn check<T>(&mut self, path: impl Into<String>, result: Result<T, String>) -> Option<T> {
        result.map_err(|reason| self.refuse(path, reason)).ok()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn into_result(self) -> Result<(), Rejection> {
        match self.0.as_slice() {
            [] => Ok(()),
            [one] => {
                let detail = format!("{} {}", one.path, one.reason);
                Err(Rejection::with_fields(Code::InvalidFields, detail, self.0))
            }
            many => {
                let detail = format!("{} fields are not acceptable", many.len());
                Err(Rejection::with_fields(Code::InvalidFields, detail, self.0))
            }
        }
    }
}

/// A field of a patch: left out, cleared with `null`, or set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Change<T> {
    #[default]
    Keep,
    Clear,
    Set(T),
}

impl<T> Change<T> {
    pub fn is_keep(&self) -> bool {
        matches!(self, Change::Keep)
    }

    /// The field's value after the patch.
    pub fn over(self, present: Option<T>) -> Option<T> {
        match self {
            Change::Keep => present,
            Change::Clear => None,
            Change::Set(value) => Some(value),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Change<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Change::Clear, Change::Set))
    }
}

impl<T: Serialize> Serialize for Change<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Change::Keep | Change::Clear => serializer.serialize_none(),
            Change::Set(value) => serializer.serialize_some(value),
        }
    }
}
