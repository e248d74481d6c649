//! Server-sent events: a view of something, sent again whenever it has changed.

use crate::app::App;
use crate::limits::Underway;
use crate::problem::Problem;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::unfold;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

/// What a look found: the text to send, and whether it is the last.
pub(crate) struct Frame {
    pub(crate) name: &'static str,
    pub(crate) data: String,
    pub(crate) last: bool,
}

/// Sends what `look` finds at once, and again each time it finds something else after `changed`, until the last frame,
/// a failure, or the server's stop.
pub(crate) fn changes<L, C>(
    app: Arc<App>,
    place: Option<Underway>,
    look: impl Fn(Arc<App>) -> L + Send + 'static,
    changed: impl Fn(Arc<App>) -> C + Send + 'static,
) -> impl IntoResponse
where
    L: Future<Output = Result<Frame, Problem>> + Send,
    C: Future<Output = ()> + Send,
{
    // A stream is one of its user's for as long as it lasts.
    let state = Some((String::new(), look, changed, place));
    let frames = unfold(state, move |state| {
        let app = Arc::clone(&app);
        async move {
            let (mut sent, look, changed, place) = state?;
            loop {
                let frame = look(Arc::clone(&app)).await.ok()?;
                if frame.data != sent {
                    sent.clone_from(&frame.data);
                    let event = Event::default().event(frame.name).data(frame.data);
                    let next = (!frame.last).then_some((sent, look, changed, place));
                    return Some((Ok::<_, Infallible>(event), next));
                }
                let mut stopping = app.stopping.subscribe();
                tokio::select! {
                    () = changed(Arc::clone(&app)) => {}
                    _ = stopping.wait_for(|stopping| *stopping) => return None,
                }
            }
        }
    });
    (
        [("cache-control", "no-store"), ("x-accel-buffering", "no")],
        Sse::new(frames).keep_alive(KeepAlive::default()),
    )
}
