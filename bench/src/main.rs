//! Guerdon's figures, measured beside those of its alternatives in one run.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod group_commit;
mod report;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Guerdon's figures. Read the ratios: machines differ, and this one is noisy.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Throughput of the store by the size of its groups, next to one command per commit
    GroupCommit(group_commit::Options),
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match Cli::parse().command {
        Command::GroupCommit(options) => group_commit::run(&options),
    }
}
