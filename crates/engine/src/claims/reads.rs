//! Claims as people see them.

use crate::engine::Engine;
use crate::failure::Failure;
use crate::page::{Page, PageRequest};
use guerdon_core::claims::view::ClaimFilter;
use guerdon_core::claims::{Claim, ClaimId};
use guerdon_core::{ClaimKey, Code, EventId, Rejection, UserId};
use guerdon_store::Listed;
use guerdon_store::claims::{self, Stored, listing};

impl Engine {
    pub(crate) async fn claim_by_key(&self, key: &ClaimKey) -> Result<Option<Claim>, Failure> {
        let wanted = key.clone();
        let found = self.read(move |tx| claims::by_keys(tx, &[wanted.as_str()])).await?;
        Ok(found.into_iter().next().map(|stored| stored.claim))
    }

    /// A claim, for whoever may see all of them.
    pub async fn any_claim(&self, key: &ClaimKey) -> Result<Claim, Failure> {
        Ok(self.claim_by_key(key).await?.ok_or_else(|| not_found(key))?)
    }

    /// A user's own claim: nobody learns that there is one of somebody else.
    pub async fn claim_of(&self, user: &UserId, key: &ClaimKey) -> Result<Claim, Failure> {
        let found = self.claim_by_key(key).await?.filter(|claim| claim.user_id == *user);
        Ok(found.ok_or_else(|| not_found(key))?)
    }

    /// Claims, the newest first. A page that is filtered may come back short.
    pub async fn claims(
        &self,
        filter: ClaimFilter,
        request: PageRequest<String>,
    ) -> Result<Page<Claim, String>, Failure> {
        let bad_cursor = || Rejection::new(Code::BadCursor, "the cursor names no claim");
        let before = match &request.after {
            Some(text) => Some(ClaimId::parse(text).ok_or_else(bad_cursor)?),
            None => None,
        };
        let rows = request.rows();
        let found = self.read(move |tx| listing::list(tx, &filter, before, rows)).await?;
        let rows = found.rows.into_iter().map(|Stored { claim, .. }| claim).collect();
        let found = Listed { rows, end: found.end };
        Ok(request.page_of(found, |claim: &Claim| claim.id.to_string(), |end| end.to_string()))
    }

    pub async fn claims_of(
        &self,
        user: &UserId,
        event_id: Option<EventId>,
        request: PageRequest<String>,
    ) -> Result<Page<Claim, String>, Failure> {
        self.claims(ClaimFilter { user_id: Some(user.clone()), event_id, status: None }, request).await
    }
}

pub(super) fn not_found(key: &ClaimKey) -> Rejection {
    Rejection::new(Code::ClaimNotFound, format!("there is no claim {key}"))
}
