use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::path::Id;
use crate::problem::Problem;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use guerdon_core::draw::{Document, Hash};
use guerdon_core::{Code, EventId};
use std::fmt::Write;
use std::sync::Arc;

/// All that a verifier needs: the entries as leaves, without names, and the winners. Sent piece by piece, since a million
/// entries make 67 MB.
#[utoipa::path(
    get, path = "/v1/events/{eventId}/draw/document", tag = "Draws", operation_id = "getDrawDocument",
    params(("eventId" = String, Path)),
    responses((status = 200, body = Document))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Participate>,
    Id(id): Id<EventId>,
) -> Result<Response, Problem> {
    let mut head = app.engine.draw_document(&id).await?;
    let text = serde_json::to_string(&head.document).unwrap_or_default();
    // There may be a million of them, and they are in the text now.
    head.document.winners = Vec::new();
    let Some((before, after)) = text.split_once(NO_LEAVES) else {
        return Err(Problem::new(Code::InternalError, "the document could not be written"));
    };
    let (before, after) = (format!("{before}{LEAVES_BEGIN}"), format!("]{after}"));
    let leaves = stream::unfold(Some(0), move |from| {
        let (app, head) = (Arc::clone(&app), head.clone());
        async move {
            let from = from?;
            match app.engine.draw_leaves(&head, from).await {
                Ok((leaves, next)) => Some((Ok(piece(&leaves, from > 0)), next)),
                // The connection breaks off, which nobody takes for a whole document.
                Err(failure) => Some((Err(std::io::Error::other(failure.to_string())), None)),
            }
        }
    });
    let ends = |text: String| stream::iter([Ok(Bytes::from(text))]);
    let body = Body::from_stream(ends(before).chain(leaves).chain(ends(after)));
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

const NO_LEAVES: &str = r#""leaves":[]"#;
const LEAVES_BEGIN: &str = r#""leaves":["#;

fn piece(leaves: &[Hash], has_more_before: bool) -> Bytes {
    let mut text = String::with_capacity(leaves.len() * 67);
    for (index, leaf) in leaves.iter().enumerate() {
        let comma = if has_more_before || index > 0 { "," } else { "" };
        // Writing to a string does not fail.
        let _ = write!(text, "{comma}\"{leaf}\"");
    }
    text.into()
}
