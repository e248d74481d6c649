//! How an allocation reads, and what others hear of it.

use super::{Allocation, AllocationStatus, Cause};
use crate::fields::FieldErrors;
use crate::id::{EventId, UserId};
use crate::rejection::Rejection;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllocationView {
    pub allocation_id: String,
    pub event_id: String,
    pub member_id: String,
    pub reward_id: String,
    pub reward_status: AllocationStatus,
    pub idempotency_key: String,
    /// Tries that failed.
    pub retry_count: i64,
    /// When it is tried again; none when it is at its end.
    #[schema(value_type = Option<i64>)]
    pub next_retry_at: Option<Timestamp>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    pub external_transaction_id: Option<String>,
    #[schema(value_type = Option<i64>)]
    pub processed_at: Option<Timestamp>,
    #[schema(value_type = i64)]
    pub created_at: Timestamp,
    /// The request that won it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The check-in or the play that won it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry_id: Option<String>,
    /// Who delivers it; for operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Whether a try may have been applied that nobody heard of; for operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome_unknown: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub cancel_requested_at: Option<Timestamp>,
}

impl AllocationView {
    /// For whom it is about: not how it is delivered.
    pub fn public(allocation: &Allocation) -> Self {
        Self { provider: None, outcome_unknown: None, error_message: None, ..Self::of(allocation) }
    }

    pub fn of(allocation: &Allocation) -> Self {
        let (request_id, entry_id) = match allocation.cause {
            Cause::Request(id) => (Some(id.to_string()), None),
            Cause::Entry(id) => (None, Some(id.to_string())),
        };
        let trouble = allocation.trouble.as_ref();
        Self {
            allocation_id: allocation.id.to_string(),
            event_id: allocation.event_id.to_string(),
            member_id: allocation.member_id.to_string(),
            reward_id: allocation.reward_id.to_string(),
            reward_status: allocation.status,
            idempotency_key: allocation.key.clone(),
            retry_count: allocation.retry_count,
            next_retry_at: allocation.next_retry_at,
            error_code: trouble.map(|trouble| trouble.code.clone()),
            error_message: trouble.map(|trouble| trouble.message.clone()),
            external_transaction_id: allocation.transaction_id.clone(),
            processed_at: allocation.processed_at,
            created_at: allocation.created_at,
            request_id,
            entry_id,
            provider: Some(allocation.provider.clone()),
            outcome_unknown: Some(allocation.outcome_unknown),
            cancel_requested_at: allocation.cancel_requested_at,
        }
    }
}

/// What others hear of an allocation that came to an end.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllocationNews<'a> {
    pub allocation_id: String,
    pub event_id: &'a str,
    pub user_id: &'a str,
    pub reward_id: &'a str,
    pub reward_status: AllocationStatus,
    pub idempotency_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_transaction_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<&'a str>,
    pub retry_count: i64,
    #[schema(value_type = i64)]
    pub at: Timestamp,
}

impl<'a> AllocationNews<'a> {
    pub fn of(allocation: &'a Allocation, at: Timestamp) -> Self {
        Self {
            allocation_id: allocation.id.to_string(),
            event_id: allocation.event_id.as_str(),
            user_id: allocation.member_id.as_str(),
            reward_id: allocation.reward_id.as_str(),
            reward_status: allocation.status,
            idempotency_key: &allocation.key,
            external_transaction_id: allocation.transaction_id.as_deref(),
            error_code: allocation.trouble.as_ref().map(|trouble| trouble.code.as_str()),
            retry_count: allocation.retry_count,
            at,
        }
    }

    /// The type of the message, for an allocation that is at its end.
    pub fn event_type(allocation: &Allocation) -> Option<&'static str> {
        match allocation.status {
            AllocationStatus::Success => Some("ALLOCATION_SUCCEEDED"),
            AllocationStatus::Cancelled => Some("ALLOCATION_CANCELLED"),
            AllocationStatus::Failed if allocation.is_final() => Some("ALLOCATION_FAILED"),
            _ => None,
        }
    }
}

/// Which allocations: all that fit everything that is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocationFilter {
    pub status: Option<AllocationStatus>,
    pub event_id: Option<EventId>,
    pub member_id: Option<UserId>,
}

/// What an operator sends to have many tried again, or cancelled.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RetryBody {
    /// `FAILED` unless set; `PENDING` is the other that can be retried or cancelled.
    status: Option<AllocationStatus>,
    event_id: Option<String>,
    member_id: Option<String>,
    /// Why, for the audit log; needed to cancel.
    note: Option<String>,
}

/// What is wanted of many: which of them, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bulk {
    pub filter: AllocationFilter,
    pub action: BulkAction,
    pub note: Option<String>,
}

/// Of a note, in characters.
const NOTE_MAX: usize = 500;

impl RetryBody {
    pub fn validate(self, action: BulkAction) -> Result<Bulk, Rejection> {
        let mut errors = FieldErrors::default();
        let note = self.note.as_deref().map(str::trim).filter(|note| !note.is_empty()).map(ToOwned::to_owned);
        if note.as_ref().is_some_and(|note| note.chars().count() > NOTE_MAX || note.contains('\0')) {
            errors.refuse("note", format!("must have at most {NOTE_MAX} characters, none of them NUL"));
        }
        if action == BulkAction::Cancel && note.is_none() {
            errors.refuse("note", "must say why they are cancelled");
        }
        let status = self.status.unwrap_or(AllocationStatus::Failed);
        if !matches!(status, AllocationStatus::Failed | AllocationStatus::Pending) {
            errors.refuse("status", "must be FAILED or PENDING: no other can be retried or cancelled");
        }
        let event_id = self.event_id.and_then(|id| errors.check("eventId", EventId::parse(id)));
        let member_id = self.member_id.and_then(|id| errors.check("memberId", UserId::parse(id)));
        errors.into_result()?;
        Ok(Bulk { filter: AllocationFilter { status: Some(status), event_id, member_id }, action, note })
    }
}

/// Many that are tried again, or cancelled, in the background.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryView {
    pub retry_id: String,
    /// `RUNNING`, `DONE` or `STOPPED`.
    pub status: RetryStatus,
    pub filter: RetryFilter,
    /// What is done with each.
    pub action: BulkAction,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How many were looked at, and how many of them were set to be tried now, or cancelled.
    pub looked_at: i64,
    pub retried: i64,
    #[schema(value_type = i64)]
    pub created_at: Timestamp,
    #[schema(value_type = Option<i64>)]
    pub finished_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryFilter {
    pub status: AllocationStatus,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub member_id: Option<String>,
}

/// How many there are, as far as it was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CountView {
    pub count: i64,
    /// Whether all were counted; otherwise there may be more.
    pub complete: bool,
}

crate::named::named! {
    BulkAction {
        Retry "RETRY",
        Cancel "CANCEL",
    }
}

crate::named::named! {
    RetryStatus {
        Running "RUNNING",
        Done "DONE",
        Stopped "STOPPED",
    }
}
