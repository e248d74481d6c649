//! Guerdon runs reward events: one binary, one promise.

mod cli;
mod commands;
mod demo;
mod settings;

use clap::Parser;
use std::process::ExitCode;

/// A request is made on one thread and ends on another, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::Cli::parse().run()
}
