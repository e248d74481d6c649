use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::list::{List, ListQuery};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::outbox::MessageStatus;
use guerdon_core::outbox::view::OutboxEventView;
use guerdon_engine::OutboxFilter;
use std::sync::Arc;

/// Messages for others, the newest first. A filtered page may come back short with a `nextCursor`.
#[utoipa::path(
    get, path = "/v1/admin/outbox", tag = "Operators", operation_id = "listOutbox",
    params(
        ("status" = Option<MessageStatus>, Query, description = "Only those that stand there"),
        ("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)
    ),
    responses((status = 200, body = List<OutboxEventView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    query: ListQuery,
) -> Result<Json<List<OutboxEventView>>, Problem> {
    let status = query.one_of("status", MessageStatus::parse)?;
    // A cursor is good for the messages that it was given out with.
    let name = format!("outbox/{}", status.map_or("", MessageStatus::as_str));
    let page = app.engine.outbox(OutboxFilter { status }, query.page(&name)?).await?;
    Ok(Json(List::of(&name, page, OutboxEventView::of)))
}
