//! The health listener: yes or no for load balancers and orchestrators.
//!
//! # What it guarantees
//! * It answers `yes` (200) or `no` (503) at four paths, and 404 without a body everywhere else. No
//!   answer names a source, a destination or a version; so it asks for no password.
//! * It runs on a thread of its own, so that neither a busy admin API nor a reload delays it.
//! * The pipeline is asked at most once in [`VERDICT_EVERY`], however many clients ask.
//! * From the start of the shutdown on, only `/livez` says yes.
//! * A reload adds, moves or removes it. An address that cannot be bound leaves the old one open.
//!
//! # Limits
//! Those of [`ServerLimits`], with a smaller head and [`ServerLimits::health_connections`]. While a
//! reload holds the pipeline, the last verdict counts; after [`VERDICT_OLD`] it is no.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use inrush_status::{Admin, HealthVerdict};
use tokio::sync::watch;

use crate::serve::{self, ServerLimits};

/// Least time between two verdicts: a second of delay is less than any load balancer's interval.
const VERDICT_EVERY: Duration = Duration::from_secs(1);

/// Age after which a verdict that cannot be renewed counts as no. A reload takes less than this.
const VERDICT_OLD: Duration = Duration::from_secs(60);

/// Bytes of a request's head; a probe sends some 100. Hyper allows no fewer.
const HEAD_BYTES: usize = 8 * 1024;

/// The health listener, open or not.
pub(crate) struct HealthDoor {
    desk: Arc<VerdictDesk>,
    limits: ServerLimits,
    /// Locked by reloads and the end of the process alone.
    open: Mutex<Option<HealthListener>>,
}

impl HealthDoor {
    /// A door that is closed until [`Self::follow`].
    pub(crate) fn new(admin: Arc<dyn Admin>, limits: &ServerLimits) -> Arc<Self> {
        let connections = limits.health_connections;
        let limits = ServerLimits {
            connections,
            per_address: connections.div_ceil(2),
            head_bytes: HEAD_BYTES,
            ..*limits
        };
        Arc::new(Self {
            desk: Arc::new(VerdictDesk::new(admin)),
            limits,
            open: Mutex::default(),
        })
    }

    /// The address really bound, if it is open.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.lock().as_ref().map(|open| open.address)
    }

    /// Opens, moves or closes the listener as the configuration that runs now has it.
    ///
    /// # Errors
    /// The address, and the error of the system. The old listener stays open.
    pub(crate) fn follow(&self) -> Result<(), (SocketAddr, io::Error)> {
        let options = self.desk.admin.health_options();
        let wanted = options.map(|options| options.listen.0);
        let mut open = self.lock();
        let before = open.as_ref().map(|open| open.wanted);
        if wanted == before {
            return Ok(());
        }
        let Some(wanted) = wanted else {
            *open = None;
            return Ok(());
        };
        // Two addresses of one port may overlap, as 0.0.0.0 and 127.0.0.1 do.
        let bound = open.as_ref().map(|open| open.address);
        let overlapping = bound.filter(|bound| bound.port() == wanted.port());
        if overlapping.is_some() {
            *open = None;
        }
        match self.listen(wanted) {
            Ok(listener) => *open = Some(listener),
            Err(error) => {
                if let Some(bound) = overlapping {
                    *open = self.listen(bound).ok();
                }
                return Err((wanted, error));
            }
        }
        Ok(())
    }

    /// True if the process accepts events, as `/readyz` says.
    pub(crate) fn is_ready(&self) -> bool {
        is_ready(self.desk.verdict(Instant::now()))
    }

    /// Says no from now on, but for `/livez`.
    pub(crate) fn stopping(&self) {
        self.desk.stopping.store(true, Relaxed);
    }

    /// Closes the listener.
    pub(crate) fn close(&self) {
        *self.lock() = None;
    }

    fn listen(&self, wanted: SocketAddr) -> io::Result<HealthListener> {
        let listener = TcpListener::bind(wanted)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = watch::channel(false);
        let (app, limits) = (router(Arc::clone(&self.desk)), self.limits);
        let thread = std::thread::Builder::new()
            .name("inrush-health".into())
            .spawn(move || runtime.block_on(serve::serve(listener, app, None, limits, stopped)))?;
        tracing::info!(%address, "the health listener is open");
        Ok(HealthListener {
            wanted,
            address,
            stop,
            thread: Some(thread),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<HealthListener>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open listener. Dropping it closes it, and lets requests in hand finish.
struct HealthListener {
    /// The address of the configuration.
    wanted: SocketAddr,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for HealthListener {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the health thread panicked");
        }
    }
}

/// Keeps the last verdict.
struct VerdictDesk {
    admin: Arc<dyn Admin>,
    stopping: AtomicBool,
    /// Taken by the health thread alone.
    last: Mutex<Option<(HealthVerdict, Instant)>>,
}

impl VerdictDesk {
    fn new(admin: Arc<dyn Admin>) -> Self {
        Self {
            admin,
            stopping: AtomicBool::new(false),
            last: Mutex::default(),
        }
    }

    fn verdict(&self, now: Instant) -> HealthVerdict {
        if self.stopping.load(Relaxed) {
            return HealthVerdict::default();
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let age = |at: Instant| now.saturating_duration_since(at);
        if last.is_none_or(|(_, at)| age(at) >= VERDICT_EVERY)
            && let Some(verdict) = self.admin.verdict()
        {
            *last = Some((verdict, now));
        }
        let fresh = last.filter(|(_, at)| age(*at) < VERDICT_OLD);
        fresh.map_or_else(HealthVerdict::default, |(verdict, _)| verdict)
    }
}

fn router(desk: Arc<VerdictDesk>) -> Router {
    Router::new()
        .route("/livez", get(|| async { answer(true) }))
        .route("/readyz", ask(is_ready))
        .route("/healthz", ask(|verdict| verdict.progress))
        .route("/health", ask(|verdict| verdict.progress && verdict.within))
        .fallback(|| async { StatusCode::NOT_FOUND })
        .with_state(desk)
}

/// True if all sources and the queue accept events, within the bounds.
fn is_ready(verdict: HealthVerdict) -> bool {
    verdict.accepts && verdict.within
}

fn ask(is_well: fn(HealthVerdict) -> bool) -> axum::routing::MethodRouter<Arc<VerdictDesk>> {
    get(async move |State(desk): State<Arc<VerdictDesk>>| {
        answer(is_well(desk.verdict(Instant::now())))
    })
}

fn answer(well: bool) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/plain"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    match well {
        true => (headers, "yes").into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, headers, "no").into_response(),
    }
}
