//! Connections: accepted within limits, and let finish when the server stops.

use crate::app::App;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const HEADER_BYTES_MAX: usize = 64 * 1024;
/// When the machine is out of descriptors, trying again at once would only burn its time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` comes, then answers what was accepted.
pub async fn serve(listener: TcpListener, app: Arc<App>, router: Router, stop: impl Future<Output = ()>) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(app.http.connections_max));
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = async {
            // Beyond the limit new connections wait in the system's queue.
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut stop => break,
        };
        match (accepted, place) {
            (Ok((stream, _)), Ok(place)) => attend(stream, place, &app, &router, &graceful),
            (Err(error), _) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            (_, Err(_)) => break,
        }
    }
    drop(listener);
    app.stopping.send_replace(true);
    tracing::info!("stopping: answering what was accepted");
    if tokio::time::timeout(app.http.shutdown_timeout, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not end in time and were cut off");
    }
}

fn attend(
    stream: TcpStream,
    place: OwnedSemaphorePermit,
    app: &Arc<App>,
    router: &Router,
    graceful: &GracefulShutdown,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection was gone at once");
        return;
    }
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(app.http.header_timeout)
        .max_buf_size(HEADER_BYTES_MAX);
    let service = TowerToHyperService::new(router.clone());
    let connection = graceful.watch(builder.serve_connection(TokioIo::new(stream), service));
    let open = app.metrics.connections.clone();
    open.inc();
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended");
        }
        open.dec();
        drop(place);
    });
}
