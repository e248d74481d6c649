//! The commands, one file each.

pub(crate) mod audit;
pub(crate) mod config;
pub(crate) mod consume;
pub(crate) mod coupons;
pub(crate) mod demo;
pub(crate) mod dev;
pub(crate) mod events;
pub(crate) mod gateway;
pub(crate) mod migrate;
pub(crate) mod openapi;
pub(crate) mod serve;
pub(crate) mod token;
pub(crate) mod verify_draw;
mod wiring;

use std::io::Write;
use std::process::ExitCode;

/// Prints what was asked for. A reader that has had enough, as `head` has, is no failure.
fn say(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            fail(&format!("cannot write: {error}"))
        }
        _ => ExitCode::SUCCESS,
    }
}

pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "guerdon: {text}");
}

/// Complains, and fails.
fn fail(text: &str) -> ExitCode {
    complain(text);
    ExitCode::FAILURE
}
