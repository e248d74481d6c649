use super::say;
use std::process::ExitCode;

pub(crate) fn run() -> ExitCode {
    say(&guerdon_server::openapi_document())
}
