//! The services that claims ask: who is active, and who did what.

use crate::Partners;
use crate::faults::ServiceFaults;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What is known of somebody.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Person {
    /// `ACTIVE` unless set; empty for somebody whom the service does not know.
    pub status: String,
    pub activity: Map<String, Value>,
}

impl Default for Person {
    fn default() -> Self {
        Self { status: "ACTIVE".into(), activity: Map::new() }
    }
}

/// Everybody of whom something was said.
#[derive(Debug, Default)]
pub(crate) struct People(BTreeMap<String, Person>);

impl People {
    fn of(&self, user_id: &str) -> Person {
        self.0.get(user_id).cloned().unwrap_or_default()
    }
}

impl Partners {
    /// Says what is to be known of somebody.
    pub fn know(&self, user_id: &str, person: Person) {
        self.people().0.insert(user_id.to_owned(), person);
    }
}

/// Does wrong what it was told to do wrong; what it answers then.
async fn fail(faults: ServiceFaults, chance: f64) -> Option<Response> {
    tokio::time::sleep(Duration::from_millis(faults.delay_ms)).await;
    let status = faults.status.or_else(|| (chance < faults.fails).then_some(503))?;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Some((status, Json(json!({"detail": "as it was told to"}))).into_response())
}

fn unknown() -> Response {
    (StatusCode::NOT_FOUND, Json(json!({"detail": "nobody has this id"}))).into_response()
}

pub(crate) async fn status(State(partners): State<Arc<Partners>>, Path(user_id): Path<String>) -> Response {
    let (faults, chance) = {
        let mut program = partners.program();
        (program.faults.auth, program.chance())
    };
    if let Some(failed) = fail(faults, chance).await {
        return failed;
    }
    let person = partners.people().of(&user_id);
    if person.status.is_empty() {
        return unknown();
    }
    Json(json!({"userId": user_id, "status": person.status})).into_response()
}

pub(crate) async fn activity(State(partners): State<Arc<Partners>>, Path(user_id): Path<String>) -> Response {
    let (faults, chance) = {
        let mut program = partners.program();
        (program.faults.game_data, program.chance())
    };
    if let Some(failed) = fail(faults, chance).await {
        return failed;
    }
    let person = partners.people().of(&user_id);
    Json(json!({"userId": user_id, "activity": person.activity})).into_response()
}

pub(crate) async fn set(
    State(partners): State<Arc<Partners>>,
    Path(user_id): Path<String>,
    body: Bytes,
) -> Response {
    match serde_json::from_slice::<Person>(&body) {
        Ok(person) => {
            partners.know(&user_id, person.clone());
            Json(person).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, Json(json!({"detail": error.to_string()}))).into_response(),
    }
}
