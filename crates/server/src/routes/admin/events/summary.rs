use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::EventId;
use guerdon_core::requests::{RequestStatus, ResultCode};
use guerdon_engine::Summary;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

/// An event's figures.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SummaryView {
    #[schema(value_type = BTreeMap<String, i64>)]
    by_status: BTreeMap<RequestStatus, i64>,
    #[schema(value_type = BTreeMap<String, i64>)]
    by_result_code: BTreeMap<ResultCode, i64>,
    /// How many are in line and undecided.
    queue_depth: i64,
    capacity_total: i64,
    capacity_remaining: i64,
    latency_ms: LatencyView,
    /// Requests that ended `FAILED_FINAL`.
    dead_letter_candidates: i64,
}

/// From a request to its result; the upper bound of the bucket that the percentile falls into.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LatencyView {
    p50: Option<i64>,
    p99: Option<i64>,
}

impl From<Summary> for SummaryView {
    fn from(summary: Summary) -> Self {
        Self {
            by_status: summary.by_status,
            by_result_code: summary.by_result,
            queue_depth: summary.queue_depth,
            capacity_total: summary.capacity_total,
            capacity_remaining: summary.capacity_remaining,
            latency_ms: LatencyView { p50: summary.latency_p50_ms, p99: summary.latency_p99_ms },
            dead_letter_candidates: summary.dead_letter_candidates,
        }
    }
}

/// How an event is doing: counts that are kept, not counted.
#[utoipa::path(
    get, path = "/v1/admin/events/{eventId}/summary", tag = "Operators", operation_id = "getEventSummary",
    params(("eventId" = String, Path)),
    responses((status = 200, body = SummaryView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    Id(id): Id<EventId>,
) -> Result<Json<SummaryView>, Problem> {
    Ok(Json(app.engine.summary(&id).await?.into()))
}
