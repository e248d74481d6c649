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

/// Something that is shown as it changes.
pub(crate) trait Shown: Send + 'static {
    /// How it is now.
    fn look(&mut self, app: &App) -> impl Future<Output = Result<Frame, Problem>> + Send;

    /// Comes back when another look may find something else.
    fn changed(&mut self, app: &App) -> impl Future<Output = ()> + Send;
}

/// Sends what a look finds at once, and again each time it finds something else, until the last frame, a failure, or the
/// server's stop.
pub(crate) fn changes(app: Arc<App>, place: Option<Underway>, shown: impl Shown) -> impl IntoResponse {
    // A stream is one of its user's for as long as it lasts.
    let state = Some((String::new(), shown, place));
    let frames = unfold(state, move |state| {
        let app = Arc::clone(&app);
        async move {
            let (mut sent, mut shown, place) = state?;
            loop {
                let frame = shown.look(&app).await.ok()?;
                if frame.data != sent {
                    sent.clone_from(&frame.data);
                    let event = Event::default().event(frame.name).data(frame.data);
                    let next = (!frame.last).then_some((sent, shown, place));
                    return Some((Ok::<_, Infallible>(event), next));
                }
                let mut stopping = app.stopping.subscribe();
                tokio::select! {
                    () = shown.changed(&app) => {}
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
