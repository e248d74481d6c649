use super::{fail, say};
use clap::{Args, Subcommand};
use guerdon_connect::Secrets;
use guerdon_partners::{Faults, Partners};
use std::net::SocketAddr;
use std::process::ExitCode;
use tokio::net::TcpListener;

#[derive(Debug, Subcommand)]
pub(crate) enum DevCommand {
    /// Simulate a provider of rewards, an auth and a game-data service, with faults that can be programmed
    Partners(PartnersArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PartnersArgs {
    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    listen: SocketAddr,
    /// `whsec_…`: calls that are not signed with it are refused with 401
    #[arg(long, value_name = "SECRET")]
    secret: Option<String>,
    /// The faults to begin with, as JSON; see docs/delivery.md and docs/claims.md
    #[arg(long, value_name = "JSON")]
    faults: Option<String>,
}

pub(crate) fn run(command: &DevCommand) -> ExitCode {
    let DevCommand::Partners(args) = command;
    match partners(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => fail(&reason),
    }
}

fn partners(args: &PartnersArgs) -> Result<(), String> {
    let secrets = match &args.secret {
        Some(text) => Secrets::parse(text).map_err(|reason| format!("--secret {reason}"))?,
        None => Secrets::default(),
    };
    let faults: Faults = match &args.faults {
        Some(text) => serde_json::from_str(text).map_err(|error| format!("--faults: {error}"))?,
        None => Faults::default(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(async {
        let listener = TcpListener::bind(args.listen)
            .await
            .map_err(|error| format!("cannot listen on {}: {error}", args.listen))?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        say(&format!("listening on http://{address}"));
        let served = guerdon_partners::serve(listener, Partners::new(secrets, faults));
        served.await.map_err(|error| error.to_string())
    })
}
