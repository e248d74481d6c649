//! The calls.

use crate::Partners;
use crate::book::{Applied, Granted};
use crate::faults::{Faults, Program, Scripted};
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GrantBody {
    idempotency_key: String,
    user_id: String,
    event_id: String,
    reward_id: String,
    quantity: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RevokeBody {
    grant_key: String,
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// What is wrong with a call before it is looked at.
fn refuse(partners: &Partners, headers: &HeaderMap, body: &[u8]) -> Option<Response> {
    partners.book().calls += 1;
    let (id, time) = (header(headers, "webhook-id"), header(headers, "webhook-timestamp"));
    let signed = partners.secrets.is_empty()
        || partners.secrets.verifies(id, time, body, header(headers, "webhook-signature"));
    (!signed).then(|| problem(StatusCode::UNAUTHORIZED, "the signature is not right"))
}

fn problem(status: StatusCode, detail: &str) -> Response {
    (status, Json(json!({"detail": detail}))).into_response()
}

pub(crate) async fn grant(
    State(partners): State<Arc<Partners>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Some(refused) = refuse(&partners, &headers, &body) {
        return refused;
    }
    let Ok(wanted) = serde_json::from_slice::<GrantBody>(&body) else {
        return problem(StatusCode::BAD_REQUEST, "the body cannot be read");
    };
    if header(&headers, "idempotency-key") != wanted.idempotency_key {
        return problem(StatusCode::BAD_REQUEST, "the header has another key than the body");
    }
    let scripted = partners.program().next(&wanted.reward_id);
    let wanted = Applied {
        idempotency_key: wanted.idempotency_key,
        transaction_id: String::new(),
        user_id: wanted.user_id,
        event_id: wanted.event_id,
        reward_id: wanted.reward_id,
        quantity: wanted.quantity,
        calls: 0,
        revoked: false,
    };
    let pause = Duration::from_millis(scripted.delay_ms);
    let mut granted = None;
    if scripted.does_apply() && scripted.late {
        // Whether or not anybody waits for it.
        let partners = Arc::clone(&partners);
        let applies = tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            partners.book().grant(wanted)
        });
        granted = applies.await.ok();
    } else {
        if scripted.does_apply() {
            granted = Some(partners.book().grant(wanted));
        }
        tokio::time::sleep(pause).await;
    }
    answer(scripted, granted)
}

fn answer(scripted: Scripted, granted: Option<Granted>) -> Response {
    if matches!(granted, Some(Granted::Barred)) {
        return problem(StatusCode::GONE, "this key was revoked");
    }
    let status = StatusCode::from_u16(scripted.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let transaction = match granted {
        Some(Granted::Applied(id)) if scripted.tells => json!({"transactionId": id}),
        _ => json!({}),
    };
    if scripted.loses {
        let broken = futures_util::stream::iter([Err::<Bytes, _>(std::io::Error::other("lost on purpose"))]);
        return (status, Body::from_stream(broken)).into_response();
    }
    let mut response = (status, Json(transaction)).into_response();
    if let Some(seconds) = scripted.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

pub(crate) async fn revoke(
    State(partners): State<Arc<Partners>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Some(refused) = refuse(&partners, &headers, &body) {
        return refused;
    }
    let Ok(wanted) = serde_json::from_slice::<RevokeBody>(&body) else {
        return problem(StatusCode::BAD_REQUEST, "the body cannot be read");
    };
    let scripted = partners.program().next_revocation();
    if scripted.does_apply() {
        partners.book().revoke(&wanted.grant_key);
    }
    tokio::time::sleep(Duration::from_millis(scripted.delay_ms)).await;
    let taken_back = Granted::Applied(header(&headers, "idempotency-key").to_owned());
    answer(scripted, scripted.does_apply().then_some(taken_back))
}

pub(crate) async fn look(
    State(partners): State<Arc<Partners>>,
    Path(key): Path<String>,
    headers: HeaderMap,
) -> Response {
    if let Some(refused) = refuse(&partners, &headers, b"") {
        return refused;
    }
    let (status, no_lookup) = {
        let program = partners.program();
        (program.faults.status, program.faults.no_lookup)
    };
    if no_lookup {
        return problem(StatusCode::METHOD_NOT_ALLOWED, "this cannot be asked");
    }
    if let Some(status) = status.and_then(|status| StatusCode::from_u16(status).ok()) {
        return problem(status, "as it was told to");
    }
    match partners.book().look(&key) {
        Some(id) => Json(json!({"applied": true, "transactionId": id})).into_response(),
        None => problem(StatusCode::NOT_FOUND, "nothing was applied under this key"),
    }
}

pub(crate) async fn faults(State(partners): State<Arc<Partners>>) -> Json<Faults> {
    Json(partners.program().faults.clone())
}

pub(crate) async fn set_faults(State(partners): State<Arc<Partners>>, body: Bytes) -> Response {
    match serde_json::from_slice::<Faults>(&body) {
        Ok(faults) => {
            *partners.program() = Program::new(faults.clone());
            Json(faults).into_response()
        }
        Err(error) => problem(StatusCode::BAD_REQUEST, &error.to_string()),
    }
}

#[derive(Serialize)]
pub(crate) struct Listed {
    items: Vec<Applied>,
    calls: u64,
}

pub(crate) async fn applied(State(partners): State<Arc<Partners>>) -> Json<Listed> {
    let book = partners.book();
    Json(Listed { items: book.all(), calls: book.calls })
}

pub(crate) async fn forget(State(partners): State<Arc<Partners>>) -> Json<Value> {
    partners.book().forget();
    Json(json!({}))
}
