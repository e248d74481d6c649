use super::say;
use guerdon_core::outbox::catalogue;
use std::process::ExitCode;

pub(crate) fn run() -> ExitCode {
    say(&catalogue::markdown())
}
