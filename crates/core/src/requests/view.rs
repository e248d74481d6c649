//! How a request reads.

use super::{Request, RequestState, RequestStatus, ResultCode, UiResult};
use crate::events::view::UiPhase;
use crate::events::{Event, EventType};
use crate::hash::Hash;
use crate::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestView {
    pub request_id: String,
    pub event_id: String,
    pub user_id: String,
    pub event_type: EventType,
    pub status: RequestStatus,
    pub ui_result: UiResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_code: Option<ResultCode>,
    /// The place in line, from 1.
    pub position: i64,
    /// How many are still before it.
    pub ahead: i64,
    #[schema(value_type = i64)]
    pub requested_at: Timestamp,
    #[schema(value_type = i64)]
    pub queued_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub finished_at: Option<Timestamp>,
    /// Whether this call found an earlier request instead of making one.
    pub duplicate: bool,
    pub idempotency_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ui_phase: Option<UiPhase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub lottery_cutoff_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub announced_at: Option<Timestamp>,
    /// A lottery entry's leaf in the tree of the draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub receipt: Option<Hash>,
    /// What happened and when, derived from the timestamps.
    pub timeline: Vec<TimelineEntry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct TimelineEntry {
    pub from: Option<RequestStatus>,
    pub to: RequestStatus,
    #[schema(value_type = i64)]
    pub at: Timestamp,
}

impl RequestView {
    /// `decided_position` is the watermark of the line; `event` adds what a lottery shows.
    pub fn of(request: &Request, decided_position: i64, event: Option<&Event>, now: Timestamp) -> Self {
        let (result_code, started_at, finished_at) = match request.state {
            RequestState::Queued => (None, None, None),
            RequestState::Finished { result, started_at, finished_at } => {
                (Some(result), Some(started_at), Some(finished_at))
            }
        };
        let status = request.state.status();
        let lottery = event.map(|event| crate::events::EventView::of(event, now));
        Self {
            request_id: request.id.to_string(),
            event_id: request.event_id.to_string(),
            user_id: request.user_id.to_string(),
            event_type: request.event_type,
            status,
            ui_result: match status {
                RequestStatus::Succeeded => UiResult::Success,
                RequestStatus::Rejected => UiResult::Rejected,
                RequestStatus::FailedFinal => UiResult::Failed,
                RequestStatus::Received | RequestStatus::Queued | RequestStatus::Processing => {
                    UiResult::Pending
                }
            },
            result_code,
            position: request.position,
            ahead: if result_code.is_some() { 0 } else { (request.position - 1 - decided_position).max(0) },
            requested_at: request.requested_at,
            queued_at: request.queued_at,
            started_at,
            finished_at,
            duplicate: false,
            idempotency_key: format!("IDEMP#{}#{}", request.event_id, request.user_id),
            ui_phase: lottery.as_ref().and_then(|view| view.ui_phase),
            lottery_cutoff_at: lottery.as_ref().and_then(|view| view.lottery_cutoff_at),
            announced_at: lottery.as_ref().and_then(|view| view.announced_at),
            receipt: None,
            timeline: timeline(request),
        }
    }
}

fn timeline(request: &Request) -> Vec<TimelineEntry> {
    let mut entries = vec![
        TimelineEntry { from: None, to: RequestStatus::Received, at: request.requested_at },
        TimelineEntry {
            from: Some(RequestStatus::Received),
            to: RequestStatus::Queued,
            at: request.queued_at,
        },
    ];
    if let RequestState::Finished { result, started_at, finished_at } = request.state {
        let from = Some(RequestStatus::Queued);
        entries.push(TimelineEntry { from, to: RequestStatus::Processing, at: started_at });
        let from = Some(RequestStatus::Processing);
        entries.push(TimelineEntry { from, to: result.status(), at: finished_at });
    }
    entries
}

/// What others hear of a request that was decided.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestDecided<'a> {
    pub request_id: String,
    pub event_id: &'a str,
    pub user_id: &'a str,
    pub status: RequestStatus,
    pub result_code: ResultCode,
    pub position: i64,
    #[schema(value_type = i64)]
    pub requested_at: Timestamp,
    #[schema(value_type = i64)]
    pub finished_at: Timestamp,
}
