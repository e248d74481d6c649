//! Who is calling: the token's identity, an active user, with a role that allows the call.

use crate::app::{App, Identities};
use crate::edge::{RequestId, Spent};
use crate::limits::{Kind, Underway};
use crate::problem::Problem;
use crate::session;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use guerdon_core::audit::Actor;
use guerdon_core::identity::{Identity, Permission};
use guerdon_core::{Code, UserId};
use std::marker::PhantomData;
use std::sync::Arc;

/// What a handler needs its caller to be. Naming it as an argument is what checks it.
pub(crate) trait Need: Send + Sync + 'static {
    const PERMISSION: Permission;
    /// Whether only active users may; where not, the call itself says what becomes of others.
    const ACTIVE: bool = true;
}

macro_rules! needs {
    ($($name:ident)+) => { $(
        pub(crate) struct $name;
        impl Need for $name {
            const PERMISSION: Permission = Permission::$name;
        }
    )+ };
}

needs! { Participate Inspect Operate LookUpUsers }

/// Whoever claims is looked at by the claim.
pub(crate) struct ClaimRewards;

impl Need for ClaimRewards {
    const PERMISSION: Permission = Permission::Participate;
    const ACTIVE: bool = false;
}

/// A caller who may do what `N` says.
pub(crate) struct Caller<N: Need> {
    identity: Arc<Identity>,
    request_id: Arc<str>,
    /// Among the calls that are under way; given back with the answer.
    place: Option<Underway>,
    need: PhantomData<N>,
}

impl<N: Need> Caller<N> {
    pub(crate) fn user_id(&self) -> &UserId {
        &self.identity.user_id
    }

    pub(crate) fn may(&self, permission: Permission) -> bool {
        self.identity.may(permission)
    }

    /// Whose data they may see: all of it, or only their own.
    pub(crate) fn sees(&self) -> Option<&UserId> {
        if self.may(Permission::Inspect) { None } else { Some(self.user_id()) }
    }

    /// Their place among the user's own calls, for a stream that goes on after the answer has begun.
    pub(crate) fn take_place(&mut self) -> Option<Underway> {
        self.place.take().map(Underway::streams)
    }

    /// As the audit log names them.
    pub(crate) fn actor(&self) -> Actor {
        Actor { user_id: self.identity.user_id.clone(), request_id: self.request_id.to_string() }
    }
}

impl<N: Need> FromRequestParts<Arc<App>> for Caller<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let identity = match &app.identities {
            Identities::Tokens(verifier) => {
                verifier.verify(session::token(&parts.headers, &parts.method)?, app.engine.now()).await?
            }
            Identities::Gateway(_) => brought(parts)?,
        };
        let place = if is_of_the_house(&identity) { None } else { Some(let_in(parts, app, &identity)?) };
        if !identity.may(N::PERMISSION) {
            let detail = format!("this call is for the roles {}", N::PERMISSION.roles());
            return Err(Problem::new(Code::Forbidden, detail));
        }
        if N::ACTIVE {
            app.engine.require_active(&identity).await?;
        }
        let request_id =
            parts.extensions.get::<RequestId>().map_or_else(|| "".into(), |id| Arc::clone(&id.0));
        Ok(Self { identity, request_id, place, need: PhantomData })
    }
}

/// Whoever runs events, or serves them, is neither counted nor turned away: they have to get through when it matters.
pub(crate) fn is_of_the_house(identity: &Identity) -> bool {
    identity.may(Permission::LookUpUsers)
}

/// Takes a call from the user's budget, and a place among those that are under way.
fn let_in(parts: &Parts, app: &App, identity: &Identity) -> Result<Underway, Problem> {
    let limits = &app.guard.limits;
    let user = limits.key(identity.user_id.as_str());
    let place = limits.enter(user)?;
    let spent = limits.user(user, Kind::of(&parts.method));
    if let Some(note) = parts.extensions.get::<Spent>() {
        note.note(spent);
    }
    match spent {
        Ok(_) => Ok(place),
        Err(exceeded) => Err(exceeded.into()),
    }
}

/// What the gateway says of the caller, as the edge found it.
fn brought(parts: &Parts) -> Result<Arc<Identity>, Problem> {
    let missing = || Problem::new(Code::TokenMissing, "this server is called through its gateway");
    parts.extensions.get::<Brought>().map_or_else(|| Err(missing()), |brought| brought.0.clone())
}

/// An identity that came with a request, or why it does not count.
#[derive(Clone)]
pub(crate) struct Brought(pub(crate) Result<Arc<Identity>, Problem>);
