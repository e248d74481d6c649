//! An expected "no": part of the rules, answered to the caller, never logged as a fault.

use crate::code::Code;
use crate::fields::FieldError;
use serde_json::Value;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub code: Code,
    /// What happened in this very case, and what the caller can do about it.
    pub detail: String,
    /// The fields at fault, where the refusal is about fields.
    pub fields: Vec<FieldError>,
    /// What else the answer says, by name.
    pub extensions: Vec<(&'static str, Value)>,
}

impl Rejection {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), fields: Vec::new(), extensions: Vec::new() }
    }

    pub fn with_fields(code: Code, detail: impl Into<String>, fields: Vec<FieldError>) -> Self {
        Self { code, detail: detail.into(), fields, extensions: Vec::new() }
    }

    /// Says one thing more.
    #[must_use]
    pub fn saying(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.extensions.push((name, value.into()));
        self
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)?;
        for field in &self.fields {
            write!(f, "; {}: {}", field.path, field.reason)?;
        }
        Ok(())
    }
}

impl std::error::Error for Rejection {}
