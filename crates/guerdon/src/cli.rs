//! The command line.

use crate::commands;
use crate::settings::{Settings, SettingsError, Source};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(
    name = "guerdon",
    version,
    about = "Runs reward events: every reward exactly once, to the right person, in the order people lined up.",
    after_help = "`guerdon demo` shows everything at once. Start with `guerdon serve`: it needs no flag, keeps its data in ./guerdon.db and listens on \
                  127.0.0.1:8080. Then open http://127.0.0.1:8080/docs, and `guerdon token --user me --role OPERATOR` \
                  prints a token to call it with."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    sources: Sources,
}

/// Where settings come from: flags > environment (GUERDON_…) > guerdon.toml > defaults.
#[derive(Debug, Args)]
struct Sources {
    /// The configuration file; guerdon.toml in this folder unless given
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// The database: sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE
    #[arg(long, value_name = "URL", global = true)]
    database: Option<String>,
    /// Any setting by its name, as in --set outbox.lease=10s; may be repeated
    #[arg(long, value_name = "KEY=VALUE", global = true)]
    set: Vec<String>,
}

impl Sources {
    /// What `--set` says, key by key.
    fn pairs(&self) -> Result<Vec<(String, String)>, SettingsError> {
        let pair =
            |text: &String| text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        self.set.iter().map(|text| pair(text).ok_or_else(|| SettingsError::flag(text))).collect()
    }

    /// The same, for a command that takes no configuration and no database but its own.
    fn set_alone(&self) -> Result<Vec<(String, String)>, SettingsError> {
        match (&self.config, &self.database) {
            (None, None) => self.pairs(),
            _ => Err(SettingsError::of_its_own()),
        }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server
    Serve {
        /// Where to listen; port 0 picks a free one
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<String>,
    },
    /// Try everything out: a server of its own with sample events, a simulated crowd, and links to look at it
    Demo(commands::demo::DemoArgs),
    /// Check tokens and pass calls on, signed, to servers that run with identity = "trusted-headers"
    Gateway {
        /// A server behind it, http://HOST:PORT; may be repeated
        #[arg(long, value_name = "URL")]
        upstream: Vec<String>,
        /// Where to listen; port 0 picks a free one
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<String>,
    },
    /// Bring the database up to date, without serving it (serve does it too)
    Migrate,
    /// Print a token for the API, signed with auth.secret
    Token(commands::token::TokenArgs),
    /// Print the API's description (OpenAPI 3.1)
    Openapi,
    /// Print the events that others can hear of, with their schemas (docs/events.md)
    Events,
    /// Take events from a broker, notify of each, and record in a database of its own that it was done
    Consume,
    /// What concerns coupons that are counted in Redis
    #[command(subcommand)]
    Coupons(commands::coupons::CouponsCommand),
    /// What helps to try things out; never for real rewards
    #[command(subcommand)]
    Dev(commands::dev::DevCommand),
    /// Check a lottery's draw from its document, offline; exit code 1 when it is not sound
    VerifyDraw(commands::verify_draw::VerifyDrawArgs),
    /// Check every promise against what is stored, beside a live server; exit code 1 when one does not hold
    Audit(commands::audit::AuditArgs),
    /// Print the settings in force, secrets hidden, and where each comes from
    Config(commands::config::ConfigArgs),
}

impl Cli {
    pub(crate) fn run(self) -> ExitCode {
        match self.command {
            Command::Openapi => commands::openapi::run(),
            Command::Events => commands::events::run(),
            Command::Consume => with(self.sources, [], commands::consume::run),
            Command::Coupons(coupons) => {
                with(self.sources, [], |settings| commands::coupons::run(&coupons, settings))
            }
            Command::Demo(args) => match self.sources.set_alone() {
                Ok(set) => commands::demo::run(&args, &set),
                Err(error) => {
                    commands::complain(&error.to_string());
                    ExitCode::from(2)
                }
            },
            Command::Dev(dev) => commands::dev::run(&dev),
            Command::VerifyDraw(args) => commands::verify_draw::run(&args),
            Command::Config(args) => match args.without_settings() {
                Some(done) => done,
                None => with(self.sources, [], |settings| commands::config::run(&args, settings)),
            },
            Command::Audit(args) => with(self.sources, [], |settings| commands::audit::run(&args, settings)),
            Command::Gateway { upstream, listen } => {
                let upstreams = (!upstream.is_empty()).then(|| upstream.join(","));
                with(
                    self.sources,
                    [("listen", "--listen", listen), ("gateway.upstreams", "--upstream", upstreams)],
                    commands::gateway::run,
                )
            }
            Command::Serve { listen } => {
                with(self.sources, [("listen", "--listen", listen)], commands::serve::run)
            }
            Command::Migrate => with(self.sources, [], commands::migrate::run),
            Command::Token(args) => with(self.sources, [], |settings| commands::token::run(&args, settings)),
        }
    }
}

/// Reads the settings, then runs the command with them. Exit code 2 is for a configuration that cannot be used.
fn with<const N: usize>(
    sources: Sources,
    named: [Named; N],
    run: impl FnOnce(&Settings) -> ExitCode,
) -> ExitCode {
    match read(sources, named) {
        Ok(settings) => run(&settings),
        Err(error) => {
            commands::complain(&error.to_string());
            ExitCode::from(2)
        }
    }
}

/// A setting that has a flag of its own, and what was said there.
type Named = (&'static str, &'static str, Option<String>);

fn read<const N: usize>(sources: Sources, named: [Named; N]) -> Result<Settings, SettingsError> {
    let mut flags = Vec::new();
    for (key, value) in sources.pairs()? {
        let source = Source::Flag(format!("--set {key}"));
        flags.push((key, value, source));
    }
    for (key, flag, value) in named.into_iter().chain([("database", "--database", sources.database)]) {
        if let Some(value) = value {
            flags.push((key.into(), value, Source::Flag(flag.into())));
        }
    }
    Settings::read(sources.config.as_deref(), std::env::vars_os(), flags)
}
