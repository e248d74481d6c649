//! Guerdon runs reward events: one binary, one promise.

mod cli;
mod commands;
mod settings;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::Cli::parse().run()
}
