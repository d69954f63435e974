//! The accept loop: every connection is bounded in number, size and time.

use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::auth::PeerAddress;
use crate::seats::{self, ClientLimiter, ClientSlot};
use crate::tls::ListenerTls;

/// Bounds of what one client, and all of them together, may take.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Connections at once; the next one takes the place of one that has no request in hand. A
    /// scraper and a dozen browsers need fewer than 64.
    pub connections: usize,
    /// Connections of the health listener at once; at most half of them from one address.
    pub health_connections: usize,
    /// Connections at once from one address; a reverse proxy is one.
    pub per_address: usize,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Headers of a request.
    pub headers: usize,
    /// Longest time for a request's head, the wait on an idle connection included.
    pub head: Duration,
    /// Longest time for the body of a login.
    pub body: Duration,
    /// Longest lifetime of a connection; a client that is well opens the next one. One on which an
    /// answer streams goes on for as long as its reader keeps up with it.
    pub connection: Duration,
    /// Longest time for requests in hand to finish when the server or a connection ends.
    pub stop: Duration,
    /// Between two snapshots of the flow there is at least this time.
    pub flow_every: Duration,
    /// Readers of the flow's stream at once: a wall of screens and some curious people, and still
    /// most of the connections are left for others.
    pub flow_readers: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 128,
            health_connections: 64,
            per_address: 64,
            head_bytes: 16 * 1024,
            headers: 64,
            head: Duration::from_secs(5),
            body: Duration::from_secs(5),
            connection: Duration::from_secs(60),
            stop: Duration::from_secs(2),
            flow_every: Duration::from_secs(1),
            flow_readers: 16,
        }
    }
}

/// By which an answer that streams keeps its connection alive. It is an extension of every request.
#[derive(Clone, Default)]
pub(crate) struct StreamProgress(Arc<AtomicU64>);

impl StreamProgress {
    /// A part of the answer was asked for, so the one before is on its way: the connection may live
    /// for another [`ServerLimits::connection`].
    pub(crate) fn gets_on(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// True if an answer has streamed over the connection.
    pub(crate) fn streams(&self) -> bool {
        self.0.load(Relaxed) > 0
    }
}

/// Pause after a failed accept (out of file descriptors): long enough not to spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts until `stopped` turns true, then waits for what is in hand, at most
/// [`ServerLimits::stop`].
pub(crate) async fn serve(
    listener: StdListener,
    app: Router,
    tls: Option<Arc<ListenerTls>>,
    limits: ServerLimits,
    mut stopped: watch::Receiver<bool>,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "a listener for HTTP cannot be polled; it answers nobody");
            return;
        }
    };
    let seats = ClientLimiter::new(limits.connections, limits.per_address);
    let (in_hand, mut all_gone) = mpsc::channel::<()>(1);
    loop {
        let accepted = tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, from)) = accepted else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Some(taken) = seats.take(from.ip()) else {
            continue;
        };
        let (app, stopped, peer) = (app.clone(), stopped.clone(), PeerAddress(from.ip()));
        let (tls, in_hand) = (tls.clone(), in_hand.clone());
        tokio::spawn(async move {
            let seat = Arc::clone(&taken.seat);
            let served = async {
                match tls {
                    None => connection(stream, peer, app, limits, stopped, &seat).await,
                    Some(tls) => {
                        if let Some(stream) = tls.accept(stream, limits.head).await {
                            connection(stream, peer, app, limits, stopped, &seat).await;
                        }
                    }
                }
            };
            tokio::select! {
                () = served => {}
                () = taken.seat.taken_away() => {}
            }
            drop((taken, in_hand));
        });
    }
    drop((listener, in_hand));
    // Nothing is sent: it ends when the last connection has.
    let _ = timeout(limits.stop, all_gone.recv()).await;
}

/// Serves one connection. Its errors are the client's (gone, slow, no HTTP) and not worth a line.
async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: PeerAddress,
    app: Router,
    limits: ServerLimits,
    mut stopped: watch::Receiver<bool>,
    seat: &Arc<ClientSlot>,
) {
    let stay = seat.stay();
    let (app, marker) = (TowerToHyperService::new(app), stay.clone());
    let seat = Arc::clone(seat);
    let marked = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(marker.clone());
        request.extensions_mut().insert(peer);
        seat.begin();
        let (answer, seat) = (app.call(request), Arc::clone(&seat));
        async move {
            answer
                .await
                .map(|answer| seats::until_answered(answer, seat))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(limits.head_bytes)
        .max_headers(limits.headers)
        .serve_connection(TokioIo::new(stream), marked);
    let mut connection = std::pin::pin!(connection);
    let mut parts = 0;
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            () = sleep(limits.connection) => {
                let before = std::mem::replace(&mut parts, stay.0.load(Relaxed));
                if before == parts {
                    break;
                }
            }
            _ = stopped.wait_for(|stop| *stop) => break,
        }
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(limits.stop, connection).await;
}
