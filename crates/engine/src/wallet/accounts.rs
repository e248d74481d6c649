//! Opening accounts.

use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_core::audit::{Action, Actor, AuditEntry};
use guerdon_core::wallet::view::AccountView;
use guerdon_core::wallet::{Account, AccountBody, NewAccount};
use guerdon_core::{Code, Rejection};
use guerdon_store::wallet::accounts::{self, Opened};
use guerdon_store::{Command, Fault, Priority, Tx, audit_log};

impl Engine {
    /// Opens a user's account in a currency; whether it is new.
    pub async fn open_account(&self, actor: Actor, body: AccountBody) -> Result<(Account, bool), Failure> {
        let wanted = body.validate()?;
        Ok(match self.commit(OpenAccount { wanted, actor }).await? {
            Opened::New(account) => (account, true),
            Opened::Known(account) => (account, false),
            Opened::OtherScale(scale) => {
                let detail = format!("it has {scale} decimals, as its first account settled");
                return Err(Rejection::new(Code::CurrencyScaleMismatch, detail).into());
            }
        })
    }
}

struct OpenAccount {
    wanted: NewAccount,
    actor: Actor,
}

impl Command for OpenAccount {
    type Output = Opened;
    const NAME: &'static str = "open_account";
    const PRIORITY: Priority = Priority::Operator;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Opened>, Fault> {
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut lines = Vec::new();
        for OpenAccount { wanted, actor } in batch {
            let opened = accounts::open(tx, &wanted.owner, &wanted.currency, wanted.scale)?;
            if let Opened::New(account) = &opened {
                let after = serde_json::to_value(AccountView::from(account.clone()))
                    .map_err(|error| Fault::Inconsistent(error.to_string()))?;
                lines.push(AuditEntry {
                    at: tx.now(),
                    actor: actor.clone(),
                    action: Action::AccountOpened,
                    target_id: account.id.to_string(),
                    before: None,
                    after: Some(after),
                });
            }
            outcomes.push(opened);
        }
        audit_log::append(tx, &lines)?;
        Ok(outcomes)
    }
}
