//! `/v1/admin/events`

pub(crate) mod cancel;
pub(crate) mod close;
pub(crate) mod create;
pub(crate) mod draw;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod open;
pub(crate) mod pace;
pub(crate) mod patch;
pub(crate) mod requests;
pub(crate) mod stream;
pub(crate) mod summary;
pub(crate) mod users;

use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::problem::Problem;
use axum::Json;
use guerdon_core::EventId;
use guerdon_core::events::EventView;
use guerdon_core::events::lifecycle::Move;

/// Opening, closing and cancelling differ only in the move.
async fn make_move(
    app: &App,
    caller: &Caller<Operate>,
    id: EventId,
    step: Move,
) -> Result<Json<EventView>, Problem> {
    let event = app.engine.move_event(caller.actor(), id, step).await?;
    Ok(Json(EventView::of(&event, app.engine.now())))
}
