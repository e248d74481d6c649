//! What can go wrong between us and the database. An expected "no" is never one of these.

use thiserror::Error;

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Fault {
    #[error("the queue of waiting commands is full")]
    Busy,
    /// Nothing was applied.
    #[error("the store cannot be used: {0}")]
    Unavailable(String),
    /// A serialization failure or a deadlock, still there after the retries. Nothing was applied.
    #[error("the transaction lost against others: {0}")]
    Conflict(String),
    /// Nothing was applied.
    #[error("the statement took too long: {0}")]
    TimedOut(String),
    /// The answer to COMMIT was lost and could not be found out.
    #[error("it is not known whether the transaction was committed")]
    OutcomeUnknown,
    /// After an I/O error on commit the writer takes nothing more until the file was reopened and found sound.
    #[error("the writer has stopped after an I/O error")]
    Halted,
    #[error("the store is closing")]
    Stopping,
    /// The statement itself was refused: a constraint, a bug. Only the command that ran it fails.
    #[error("a statement failed: {0}")]
    Statement(String),
    /// What was read fits no state that we know.
    #[error("the stored data is inconsistent: {0}")]
    Inconsistent(String),
    #[error("a command panicked")]
    Panicked,
    /// Work beside the intake must go in chunks.
    #[error("the transaction wrote more than {limit} rows")]
    TooManyRows { limit: u64 },
}

impl Fault {
    /// Whether the command is to blame, and others of its group would get through without it.
    pub(crate) fn is_the_commands_own(&self) -> bool {
        matches!(self, Self::Statement(_) | Self::Inconsistent(_) | Self::Panicked | Self::TooManyRows { .. })
    }

    pub(crate) fn inconsistent(what: impl Into<String>) -> Self {
        Self::Inconsistent(what.into())
    }
}
