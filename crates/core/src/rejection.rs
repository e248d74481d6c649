//! An expected "no": part of the rules, answered to the caller, never logged as a fault.

use crate::code::Code;
use crate::fields::FieldError;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub code: Code,
    /// What happened in this very case, and what the caller can do about it.
    pub detail: String,
    /// The fields at fault, where the refusal is about fields.
    pub fields: Vec<FieldError>,
}

impl Rejection {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), fields: Vec::new() }
    }

    pub fn with_fields(code: Code, detail: impl Into<String>, fields: Vec<FieldError>) -> Self {
        Self { code, detail: detail.into(), fields }
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
