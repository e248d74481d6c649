//! Guerdon runs reward events: one binary, one promise. The binary is all of this; a library only so that the fuzz targets
//! can call what reads the settings.

mod cli;
mod commands;
mod demo;
mod settings;

use clap::Parser;
use std::process::ExitCode;

pub use settings::text;

/// Does what the command line says.
pub fn run() -> ExitCode {
    cli::Cli::parse().run()
}
