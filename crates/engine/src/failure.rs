//! Why a call did not do what was asked: a rule said no, or something broke.

use guerdon_core::{Code, Rejection};
use guerdon_store::Fault;
use thiserror::Error;

#[derive(Clone, Debug, Error)]
pub enum Failure {
    /// Expected, part of the rules, for the caller to read.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// Something broke, and is told to operators.
    #[error(transparent)]
    Broken(#[from] Fault),
}

impl Failure {
    pub fn code(&self) -> Code {
        match self {
            Self::Rejected(rejection) => rejection.code,
            Self::Broken(fault) => match fault {
                Fault::Busy | Fault::Conflict(_) | Fault::TimedOut(_) => Code::StoreBusy,
                Fault::Unavailable(_) | Fault::Halted => Code::StoreUnavailable,
                Fault::OutcomeUnknown => Code::OutcomeUnknown,
                Fault::Stopping => Code::ShuttingDown,
                Fault::Statement(_)
                | Fault::Inconsistent(_)
                | Fault::Panicked
                | Fault::TooManyRows { .. } => Code::InternalError,
            },
        }
    }
}
