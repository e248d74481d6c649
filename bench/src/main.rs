//! Guerdon's figures, measured beside those of its alternatives in one run.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its figures")]

mod claims;
mod console;
mod coupons;
mod delivery;
mod drop;
mod group_commit;
mod load;
mod outbox;
mod report;
mod transfers;

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
    /// A first-come drop: Guerdon, a handler that does nothing, and what people build by hand, in one run
    Drop(drop::Options),
    /// The same drop on the embedded store as the table of requests grows
    Growth(drop::GrowthOptions),
    /// A lottery with many entries: how long its draw takes, and what others feel of it
    Draw(drop::DrawOptions),
    /// What an audit beside it costs the drop
    Audit(drop::AuditOptions),
    /// Transfers between many accounts and out of a hot one, next to one transaction per transfer
    Transfers(transfers::Options),
    /// Publishing: events a second for each sink, how long one takes to arrive, and what the drop loses meanwhile
    Outbox(outbox::Options),
    /// Check-ins and plays with their rewards paid out, and deliveries through a provider
    Delivery(delivery::Options),
    /// Claims from the call to their end, with what is built in, and where the time goes
    Claims(claims::Options),
    /// First-come coupons: the three issuers beside what people build by hand
    Coupons(coupons::Options),
    /// Every page on a million rows in a browser, and what open consoles cost the intake
    Console(console::Options),
    /// Serves what transfers are measured against
    #[command(hide = true)]
    TransferPeer(transfers::PeerOptions),
    /// Serves one of those; the drop starts it
    #[command(hide = true)]
    Peer(drop::PeerOptions),
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match Cli::parse().command {
        Command::GroupCommit(options) => group_commit::run(&options),
        Command::Drop(options) => drop::run(&options),
        Command::Growth(options) => drop::run_growth(&options),
        Command::Draw(options) => drop::run_draw(&options),
        Command::Audit(options) => drop::run_audit(&options),
        Command::Transfers(options) => transfers::run(&options),
        Command::Outbox(options) => outbox::run(&options),
        Command::Delivery(options) => delivery::run(&options),
        Command::Claims(options) => claims::run(&options),
        Command::Coupons(options) => coupons::run(&options),
        Command::Console(options) => console::run(&options),
        Command::TransferPeer(options) => transfers::serve_peer(&options),
        Command::Peer(options) => drop::serve_peer(&options),
    }
}
