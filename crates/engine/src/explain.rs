//! One user at one event: everything that is known, and why it came out as it did.

use crate::engine::Engine;
use crate::failure::Failure;
use crate::page::PageRequest;
use guerdon_core::allocations::view::{AllocationFilter, AllocationView};
use guerdon_core::claims::view::{ClaimFilter, ClaimView};
use guerdon_core::events::EventView;
use guerdon_core::explain::{ExplanationView, Facts, explain};
use guerdon_core::{EventId, UserId};
use guerdon_store::{entries, requests, users};
use std::sync::Arc;

/// Requests of one user that are looked through for the one at this event.
const REQUESTS_MAX: i64 = 10_000;
/// Claims and allocations that are shown.
const SHOWN_MAX: usize = 100;

impl Engine {
    pub async fn explanation(
        &self,
        event_id: &EventId,
        user_id: &UserId,
    ) -> Result<ExplanationView, Failure> {
        let event = self.event(event_id).await?;
        let now = self.now();
        let (event_at, user, intake) = (event_id.clone(), user_id.clone(), Arc::clone(self.intake()));
        let (user_status, request, standing) = self
            .read(move |tx| {
                let line = requests::find_line(tx, &event_at)?;
                let mut of_user = match line {
                    Some(_) => requests::of_user(tx, &intake.index, &user, REQUESTS_MAX)?,
                    None => Vec::new(),
                };
                of_user.retain(|row| line.as_ref().is_some_and(|line| line.event_key == row.key.event_key()));
                let standing = entries::find_standing(tx, &event_at, &user)?;
                Ok((users::find(tx, &user)?, of_user.first().map(|row| row.id), standing))
            })
            .await?;
        let request = match request {
            Some(id) => Some(self.request(id, None).await?.view(now)),
            None => None,
        };
        let first = PageRequest { limit: SHOWN_MAX, after: None };
        let filter = ClaimFilter {
            user_id: Some(user_id.clone()),
            event_id: Some(event_id.clone()),
            ..ClaimFilter::default()
        };
        let claims = self.claims(filter, first.clone()).await?.items;
        let claims: Vec<_> = claims.iter().map(ClaimView::for_operators).collect();
        let filter = AllocationFilter {
            member_id: Some(user_id.clone()),
            event_id: Some(event_id.clone()),
            ..AllocationFilter::default()
        };
        let allocations = self.allocations(filter, first).await?.items;
        let allocations: Vec<_> = allocations.iter().map(AllocationView::of).collect();
        let (verdict, reasons) = explain(&Facts {
            event: &event,
            user_status,
            request: request.as_ref(),
            claims: &claims,
            standing,
            allocations: &allocations,
            now,
        });
        Ok(ExplanationView {
            event_id: event_id.to_string(),
            user_id: user_id.to_string(),
            verdict,
            reasons,
            user_status,
            event: EventView::of(&event, now),
            request,
            claims,
            allocations,
        })
    }
}
