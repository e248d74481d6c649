use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::list::{List, ListQuery};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::audit::AuditRecord;
use guerdon_core::{EventId, UserId};
use guerdon_engine::AuditFilter;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use utoipa::ToSchema;

/// One change that somebody made.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditLine {
    /// Without gaps, in the order of the changes.
    sequence: i64,
    at: i64,
    /// Who.
    actor: String,
    /// In which call.
    request_id: String,
    /// What: `EVENT_CREATED`, `EVENT_PATCHED`, `EVENT_OPENED`, `EVENT_CLOSED`, `EVENT_CANCELLED`, `EVENT_DRAWN`,
    /// `EVENT_ANNOUNCED`, `USER_STATUS_SET`, `ACCOUNT_OPENED`, `ACCOUNT_DEPOSITED`, `TRANSFER_REFUNDED`, `MESSAGES_REPLAYED`,
    /// `SINK_ENABLED`.
    action: &'static str,
    target_type: &'static str,
    target_id: String,
    /// `null` when there was nothing.
    #[schema(value_type = Option<Object>)]
    before: Option<Value>,
    #[schema(value_type = Option<Object>)]
    after: Option<Value>,
}

impl From<AuditRecord> for AuditLine {
    fn from(record: AuditRecord) -> Self {
        let entry = record.entry;
        Self {
            sequence: record.sequence,
            at: entry.at.as_millis(),
            actor: entry.actor.user_id.into(),
            request_id: entry.actor.request_id,
            action: entry.action.as_str(),
            target_type: entry.action.target_type(),
            target_id: entry.target_id,
            before: entry.before,
            after: entry.after,
        }
    }
}

/// Who changed what, newest first.
#[utoipa::path(
    get, path = "/v1/admin/audit-log", tag = "Operators", operation_id = "listAuditLog",
    params(
        ("eventId" = Option<String>, Query, description = "Only what was done to this event"),
        ("userId" = Option<String>, Query, description = "Only what was done to this user"),
        ("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)
    ),
    responses((status = 200, body = List<AuditLine>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    query: ListQuery,
) -> Result<Json<List<AuditLine>>, Problem> {
    let target = match (query.text("eventId"), query.text("userId")) {
        (Some(_), Some(_)) => return Err(Problem::field("userId", "cannot be combined with eventId")),
        (Some(id), None) => {
            let id = EventId::parse(id).map_err(|reason| Problem::field("eventId", reason))?;
            Some(("EVENT".to_owned(), id.to_string()))
        }
        (None, Some(id)) => {
            let id = UserId::parse(id).map_err(|reason| Problem::field("userId", reason))?;
            Some(("USER".to_owned(), id.to_string()))
        }
        (None, None) => None,
    };
    // A cursor is good for the lines that it was given out with.
    let name = match &target {
        Some((kind, id)) => format!("audit-log/{kind}/{id}"),
        None => "audit-log".into(),
    };
    let page = app.engine.audit_log(AuditFilter { target }, query.page(&name)?).await?;
    Ok(Json(List::of(&name, page, AuditLine::from)))
}
