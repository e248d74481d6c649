use super::serve::{self, Open};
use super::token::{HOUR_MS, signed};
use super::{complain, fail, say};
use crate::demo::{Client, Crowd, Person, Stage, VISITOR};
use crate::settings::{Settings, SettingsError, Source};
use clap::Args;
use guerdon_connect::Secrets;
use guerdon_core::identity::Role;
use guerdon_partners::{Faults, Partners, Person as Known, Rates};
use serde_json::json;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Where to listen; port 8080, or a free one where that is taken, unless given
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// How many simulated people take part at one time
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    crowd: u32,
    /// Keep the data in this folder; otherwise it is in a temporary one, which is removed at the end
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

const USUAL_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8080);
const DATABASE: &str = "guerdon.db";
/// How long the links that are printed are good for.
const LINK_HOURS: i64 = 24;

pub(crate) fn run(args: &DemoArgs, set: &[(String, String)]) -> ExitCode {
    match folder(args) {
        // A temporary folder is removed when this is over.
        Ok(folder) => run_in(args, set, folder.path()),
        Err(reason) => fail(&reason),
    }
}

/// Where the data are.
enum Folder {
    Kept(PathBuf),
    Temporary(tempfile::TempDir),
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }
}

fn folder(args: &DemoArgs) -> Result<Folder, String> {
    let cannot = |error: std::io::Error| format!("a folder for the data cannot be made: {error}");
    match &args.keep {
        Some(path) => {
            std::fs::create_dir_all(path).map_err(cannot)?;
            Ok(Folder::Kept(path.clone()))
        }
        None => {
            Ok(Folder::Temporary(tempfile::Builder::new().prefix("guerdon-demo-").tempdir().map_err(cannot)?))
        }
    }
}

fn run_in(args: &DemoArgs, set: &[(String, String)], folder: &Path) -> ExitCode {
    let listening = TcpListener::bind("127.0.0.1:0").and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok((listener.local_addr()?, listener))
    });
    let (partners_at, partners_listener) = match listening {
        Ok(listening) => listening,
        Err(error) => return fail(&format!("cannot listen: {error}")),
    };
    let settings = match settings(args, set, folder, partners_at) {
        Ok(settings) => settings,
        Err(error) => {
            complain(&error.to_string());
            return ExitCode::from(2);
        }
    };
    // Now and then a delivery fails, so that there is something to try again.
    let rates = Rates { fails: 0.02, ..Rates::default() };
    let partners = Partners::new(Secrets::default(), Faults { rates, delay_ms: 30, ..Faults::default() });
    let settings = Arc::new(settings);
    let (size, kept) = (args.crowd, args.keep.clone());
    serve::run_with(&settings, |open| {
        let show = Show { settings: Arc::clone(&settings), open, partners, size, kept };
        tokio::spawn(async move {
            let served = tokio::net::TcpListener::from_std(partners_listener);
            if let Ok(listener) = served {
                tokio::spawn(guerdon_partners::serve(listener, Arc::clone(&show.partners)));
            }
            show.run().await;
        });
    })
}

/// Nothing but what is said here and on the command line: what a real server is configured with, its database and its
/// brokers above all, is no business of a demonstration's.
fn settings(
    args: &DemoArgs,
    set: &[(String, String)],
    folder: &Path,
    partners: SocketAddr,
) -> Result<Settings, SettingsError> {
    let listen = args.listen.unwrap_or_else(usual_or_free);
    let ours = [
        ("log.level", "error".to_owned()),
        ("listen", listen.to_string()),
        ("database", format!("sqlite:{}", folder.join(DATABASE).display())),
        ("providers.default.url", format!("http://{partners}")),
        ("services.gameData.url", format!("http://{partners}")),
        ("allocations.retryDelay", "5s".into()),
        ("allocations.retryInterval", "2s".into()),
    ];
    let ours = ours.map(|(key, value)| (key.to_owned(), value, Source::Flag("demo".into())));
    let theirs =
        set.iter().map(|(key, value)| (key.clone(), value.clone(), Source::Flag(format!("--set {key}"))));
    Settings::read_flags(ours.into_iter().chain(theirs).collect())
}

fn usual_or_free() -> SocketAddr {
    let free = TcpListener::bind(USUAL_ADDRESS).is_ok();
    if free { USUAL_ADDRESS } else { SocketAddr::new(USUAL_ADDRESS.ip(), 0) }
}

/// What goes on beside the server.
struct Show {
    settings: Arc<Settings>,
    open: Open,
    partners: Arc<Partners>,
    size: u32,
    kept: Option<PathBuf>,
}

impl Show {
    async fn run(self) {
        let mut stopping = self.open.stopping.clone();
        let over = stopping.wait_for(|stopping| *stopping);
        tokio::select! {
            _ = over => {}
            played = self.play() => {
                if let Err(reason) = played {
                    complain(&format!("the demonstration could not begin: {reason}"));
                }
            }
        }
    }

    async fn play(&self) -> Result<(), String> {
        let client = Client::new(self.open.address);
        let operator = self.token("operator", Role::Operator)?;
        let clock = Arc::clone(&self.open.clock);
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        let visits = json!({"LOGIN_COUNT": 9}).as_object().cloned().unwrap_or_default();
        self.partners.know(VISITOR, Known { activity: visits, ..Known::default() });
        let stage = Stage::set(Person::new(&client, &operator), clock, size).await?;
        self.print_links(&operator)?;
        let (settings, clock) = (Arc::clone(&self.settings), Arc::clone(&self.open.clock));
        let token =
            move |user: &str| signed(&settings, user, None, &[Role::User], clock.now().plus_millis(HOUR_MS));
        let crowd = Crowd {
            client,
            clock: Arc::clone(&self.open.clock),
            partners: Arc::clone(&self.partners),
            token: Box::new(token),
            flash: stage.flash(),
            size,
        };
        tokio::join!(stage.run(), crowd.run());
        Ok(())
    }

    fn token(&self, user: &str, role: Role) -> Result<String, String> {
        let expires_at = self.open.clock.now().plus_millis(LINK_HOURS * HOUR_MS);
        signed(&self.settings, user, None, &[role], expires_at)
    }

    fn print_links(&self, operator: &str) -> Result<(), String> {
        let base = format!("http://{}", self.open.address);
        // A browser has one session for each host: by another name of it, the operator's does not end the participant's.
        let operators = base.replace("//127.0.0.1:", "//localhost:");
        let visitor = self.token(VISITOR, Role::User)?;
        let data = match &self.kept {
            Some(folder) => format!("{}, which stays", folder.display()),
            None => "in a temporary folder, removed at the end (--keep DIR keeps them)".into(),
        };
        say(&format!(
            "
Events of every type are open, and {size} simulated people take part.

  play       {base}/play#token={visitor}
             as the participant {VISITOR}; the coupon WELCOME is there for everybody
  console    {operators}/console#token={operator}
             as an operator
  API docs   {base}/docs

  data       {data}
  The links are good for {LINK_HOURS} hours. Ctrl-C ends it.",
            size = self.size,
        ));
        Ok(())
    }
}
