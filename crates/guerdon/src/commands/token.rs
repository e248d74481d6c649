use super::{fail, say};
use crate::settings::Settings;
use clap::Args;
use guerdon_core::identity::Role;
use guerdon_core::{Timestamp, UserId};
use guerdon_engine::Clock;
use jsonwebtoken::{EncodingKey, Header};
use serde_json::json;
use std::process::ExitCode;

pub(crate) const HOUR_MS: i64 = 3_600_000;

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// Whose token: the user's id
    #[arg(long, value_name = "ID", value_parser = |text: &str| UserId::parse(text))]
    user: UserId,
    /// USER, SERVICE, AUDITOR, OPERATOR or ADMIN; may be repeated
    #[arg(long, value_name = "ROLE", default_value = "USER", value_parser = role)]
    role: Vec<Role>,
    /// The name that people see
    #[arg(long)]
    name: Option<String>,
    /// How long it is valid, in hours
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=87_600))]
    hours: u32,
    /// Print a link that signs a browser in with it: to the console, or to the participants' page
    #[arg(long, value_name = "PAGE", value_enum)]
    link: Option<Page>,
}

/// A page that can be signed in to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Page {
    Console,
    Play,
}

impl Page {
    /// What stands behind `#` stays in the browser: it is in no server's log, and the page takes it out of the address bar.
    fn link(self, settings: &Settings, token: &str) -> String {
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        let page = match self {
            Self::Console => "console",
            Self::Play => "play",
        };
        format!("{scheme}://{}/{page}#token={token}", settings.listen)
    }
}

fn role(text: &str) -> Result<Role, String> {
    let names = Role::ALL.map(Role::as_str).join(", ");
    Role::parse(&text.to_ascii_uppercase()).ok_or_else(|| format!("must be one of: {names}"))
}

pub(crate) fn run(args: &TokenArgs, settings: &Settings) -> ExitCode {
    let name = args.name.as_deref();
    let now = Clock::new(settings.clock_offset_ms).now();
    match signed(
        settings,
        args.user.as_str(),
        name,
        &args.role,
        now.plus_millis(i64::from(args.hours) * HOUR_MS),
    ) {
        Ok(token) => match args.link {
            Some(page) => say(&page.link(settings, &token)),
            None => say(&token),
        },
        Err(reason) => fail(&reason),
    }
}

/// A token, signed with the secret of these settings.
pub(crate) fn signed(
    settings: &Settings,
    user: &str,
    name: Option<&str>,
    roles: &[Role],
    expires_at: Timestamp,
) -> Result<String, String> {
    let roles: Vec<_> = roles.iter().map(|role| role.as_str()).collect();
    let mut claims = json!({"sub": user, "roles": roles, "exp": expires_at.as_millis() / 1_000});
    let auth = &settings.auth;
    for (claim, value) in [("name", name), ("iss", auth.issuer.as_deref()), ("aud", auth.audience.as_deref())]
    {
        if let Some(value) = value {
            claims[claim] = json!(value);
        }
    }
    let secret = auth.secret.as_ref().ok_or(
        "tokens are signed by whoever has the keys in auth.jwks; with auth.secret set as well, this signs some",
    )?;
    let key = EncodingKey::from_secret(secret.as_bytes());
    jsonwebtoken::encode(&Header::default(), &claims, &key)
        .map_err(|error| format!("the token could not be signed: {error}"))
}
