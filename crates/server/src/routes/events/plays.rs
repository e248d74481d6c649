//! `/v1/events/{eventId}/plays`

pub(crate) mod create;
pub(crate) mod list;

use guerdon_core::allocations::view::AllocationView;
use guerdon_core::entries::view::{PlayView, PrizeView};
use guerdon_core::{EventId, UserId};
use guerdon_engine::Played;

/// How a play reads to whoever made it.
fn view(played: Played, event_id: &EventId, user_id: &UserId) -> PlayView {
    PlayView {
        log_id: played.entry.id.to_string(),
        event_id: event_id.to_string(),
        user_id: user_id.to_string(),
        prize: PrizeView { reward_id: played.play.reward_id.map(String::from) },
        odds_version: played.play.odds_version,
        played_at: played.entry.at,
        allocation: played.allocation.as_ref().map(AllocationView::public),
    }
}
