//! Connections: accepted within limits, encrypted where that is wanted, and let finish when the server stops.

use crate::address::Peer;
use crate::app::HttpOptions;
use crate::header_time::HeaderTime;
use axum::body::Body;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use prometheus_client::metrics::gauge::Gauge;
use rustix::net::sockopt::set_tcp_user_timeout;
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower::Service;

const HEADER_BYTES_MAX: usize = 64 * 1024;
/// How long bytes may stay on their way to a client that does not take them.
const UNREAD_MS: u32 = 30_000;
/// When the machine is out of descriptors, trying again at once would only burn its time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How connections are treated.
#[derive(Clone)]
pub struct Listening {
    pub http: HttpOptions,
    /// Encrypts what comes and goes.
    pub tls: Option<TlsAcceptor>,
    /// How many connections are open.
    pub connections: Gauge,
    /// Becomes true when the server is asked to stop, so that streams end.
    pub stopping: watch::Sender<bool>,
}

/// What answers requests.
pub trait Answers:
    Service<axum::extract::Request, Response = Response, Error = Infallible, Future: Send>
    + Clone
    + Send
    + 'static
{
}

impl<S> Answers for S where
    S: Service<axum::extract::Request, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static
{
}

/// Serves until `stop` comes, then answers what was accepted.
pub async fn serve(
    listener: TcpListener,
    listening: Listening,
    answers: impl Answers,
    stop: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(listening.http.connections_max));
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
            (Ok((stream, peer)), Ok(place)) => {
                let answers = FromPeer { answers: answers.clone(), peer: peer.ip() };
                attend(stream, place, &listening, answers, &graceful);
            }
            (Err(error), _) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            (_, Err(_)) => break,
        }
    }
    drop(listener);
    listening.stopping.send_replace(true);
    tracing::info!("stopping: answering what was accepted");
    if tokio::time::timeout(listening.http.shutdown_timeout, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not end in time and were cut off");
    }
}

fn attend<S: Answers>(
    stream: TcpStream,
    place: OwnedSemaphorePermit,
    listening: &Listening,
    answers: FromPeer<S>,
    graceful: &GracefulShutdown,
) {
    // Whoever asks and does not take the answer is given up after a while.
    let prepared = stream.set_nodelay(true).and_then(|()| Ok(set_tcp_user_timeout(&stream, UNREAD_MS)?));
    if let Err(error) = prepared {
        tracing::debug!(%error, "a connection was gone at once");
        return;
    }
    let open = listening.connections.clone();
    let done = move || {
        open.dec();
        drop(place);
    };
    listening.connections.inc();
    let Some(tls) = listening.tls.clone() else {
        let connection = graceful.watch(connection(stream, listening.http, answers));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended");
            }
            done();
        });
        return;
    };
    let (http, watcher) = (listening.http, graceful.watcher());
    tokio::spawn(async move {
        // Whoever does not come to terms in the time that headers have is gone.
        match tokio::time::timeout(http.header_timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                if let Err(error) = watcher.watch(connection(stream, http, answers)).await {
                    tracing::debug!(%error, "a connection ended");
                }
            }
            Ok(Err(error)) => tracing::debug!(%error, "a connection could not be encrypted"),
            Err(_) => tracing::debug!("a connection took too long to be encrypted"),
        }
        done();
    });
}

type Serving<T, S> = http1::Connection<TokioIo<T>, TowerToHyperService<FromPeer<S>>>;

fn connection<T, S: Answers>(stream: T, http: HttpOptions, answers: FromPeer<S>) -> Serving<T, S>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    // No more than a hundred headers, which is hyper's own limit: to name one makes it prepare room for all of them anew
    // with every request.
    builder
        .timer(HeaderTime::default())
        .header_read_timeout(http.header_timeout)
        .max_buf_size(HEADER_BYTES_MAX);
    builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(answers))
}

/// Says with every request whom the connection is to.
#[derive(Clone)]
struct FromPeer<S> {
    answers: S,
    peer: IpAddr,
}

impl<S: Answers> Service<hyper::Request<Incoming>> for FromPeer<S> {
    type Response = Response;
    type Error = Infallible;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.answers.poll_ready(context)
    }

    fn call(&mut self, request: hyper::Request<Incoming>) -> Self::Future {
        let mut request = request.map(|body| Body::new(body.map_err(axum::Error::new)));
        request.extensions_mut().insert(Peer(self.peer));
        self.answers.call(request)
    }
}
