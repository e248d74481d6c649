//! `/v1/session`

pub(crate) mod create;
pub(crate) mod end;
pub(crate) mod get;

use crate::app::{App, Identities};
use crate::problem::Problem;
use crate::token::Verifier;
use guerdon_core::Code;

/// Sessions begin and end where tokens are checked.
fn verifier(app: &App) -> Result<&Verifier, Problem> {
    match &app.identities {
        Identities::Tokens(verifier) => Ok(verifier),
        Identities::Gateway(_) => Err(Problem::new(
            Code::TokenMissing,
            "this server is called through its gateway, which has the sessions",
        )),
    }
}
