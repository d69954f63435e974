//! The admin HTTP API: health, metrics, the ledger, reload and the dashboard. Beside it the health
//! listener, which says yes or no to everybody (`health.rs`).
//!
//! # What it guarantees
//! * It runs on one thread of its own and holds handles ([`Admin`]), never events: a scrape, a
//!   stuck browser or a hostile client costs the pipeline nothing but a snapshot of counters.
//!   What flows is gathered on another thread, once a second for all who look (`flow.rs`).
//! * It binds the address that the configuration names and nothing else.
//! * Nothing that a web page of another origin does can reach it (`guard.rs` has the rules).
//! * Where a password or a token is configured, nothing is told to those without one (`auth/`).
//!
//! # Limits
//! [`ServerLimits`] bounds connections, request heads and the time that a slow client may take, a
//! TLS handshake included. The only request bodies that are read are that of a login, up to 8 KiB,
//! and a record to be explained, up to 64 KiB.
//!
//! # Endpoints
//! `GET /livez /healthz /metrics /api/v1/ledger /api/v1/sources /api/v1/destinations`
//! `/api/v1/senders /api/v1/doors /api/v1/files /`
//! `GET /api/v1/flow /api/v1/flow/stream /api/v1/quarantine` and `POST /api/v1/explain
//! /api/v1/reload /api/v1/quarantine/replay /api/v1/quarantine/drop`; `GET /api/v1/session` and
//! `POST /api/v1/login /api/v1/logout`; `GET /api/v1/search /api/v1/sql /api/v1/export
//! /api/v1/tail` where there is somebody to answer (`search.rs`). Answers other than the page, the
//! metrics and the stream are JSON.
#![forbid(unsafe_code)]

mod api;
mod assets;
mod auth;
mod docs;
mod flow;
mod front;
mod guard;
mod health;
mod metrics;
mod search;
mod seats;
mod serve;
#[cfg(test)]
mod tests;
mod tls;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Extension;
use inrush_config::{AdminOptions, HashingError};
use inrush_pipeline::ReloadReport;
use inrush_status::Admin;
use inrush_transport::tls::TlsError;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use assets::Asset;
use auth::AccessControl;
use health::HealthDoor;
use tls::ListenerTls;

pub use assets::HAS_DASHBOARD;
pub use search::{SearchQuery, SearchReplies, Searcher};
pub use serve::ServerLimits;

/// A running admin API. Dropping it stops it.
pub struct AdminServer {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    _gatherer: flow::Gatherer,
    followers: Arc<ReloadFollowers>,
}

/// Parts of the server that follow a reload.
struct ReloadFollowers {
    access: Arc<AccessControl>,
    health: Arc<HealthDoor>,
    admin: Arc<dyn Admin>,
}

/// Reason that the admin API cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be bound, or there are no threads: the environment is at fault.
    #[error("cannot listen on {address}: {source}; set admin.listen")]
    Address {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The address of the health listener cannot be bound: the environment is at fault.
    #[error("cannot listen on {address}: {source}; set health.listen")]
    Health {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// A file of `admin.tls` went bad after it was checked.
    #[error("admin.tls: {0}")]
    Tls(#[from] TlsError),
    /// A plain password cannot be hashed.
    #[error("admin.password: {0}")]
    Password(#[from] HashingError),
}

/// Binds the address that `options` name and serves `admin`, and the answers of `searcher`, on a
/// thread of its own. Opens the health listener too, if the configuration of `admin` has one.
///
/// # Errors
/// An address cannot be bound, or what `options` name cannot be used.
pub fn start(
    options: &AdminOptions,
    admin: Arc<dyn Admin>,
    searcher: Option<Arc<dyn Searcher>>,
) -> Result<AdminServer, StartError> {
    start_within(options, admin, searcher, ServerLimits::default())
}

/// [`start`] with limits of the caller's choice.
///
/// # Errors
/// As for [`start`].
pub fn start_within(
    options: &AdminOptions,
    admin: Arc<dyn Admin>,
    searcher: Option<Arc<dyn Searcher>>,
    limits: ServerLimits,
) -> Result<AdminServer, StartError> {
    open(options, admin, searcher, limits, assets::BUILT_IN)
}

/// [`start_within`] with a dashboard of the caller's choice.
fn open(
    options: &AdminOptions,
    admin: Arc<dyn Admin>,
    searcher: Option<Arc<dyn Searcher>>,
    limits: ServerLimits,
    assets: &'static [Asset],
) -> Result<AdminServer, StartError> {
    let tls = options.tls.as_ref().map(ListenerTls::load).transpose()?;
    let tls = tls.map(Arc::new);
    let bound = |source| StartError::Address {
        address: options.listen.0,
        source,
    };
    let listener = TcpListener::bind(options.listen.0).map_err(bound)?;
    listener.set_nonblocking(true).map_err(bound)?;
    let address = listener.local_addr().map_err(bound)?;
    let runtime = runtime().map_err(bound)?;
    let access = Arc::new(AccessControl::new(options, address.port(), limits.body)?);
    let loopback = options.listen.is_loopback();
    let (stop, stopped) = watch::channel(false);
    let (flow, gatherer) =
        flow::start(Arc::clone(&admin), limits, stopped.clone()).map_err(bound)?;
    let followers = Arc::new(ReloadFollowers {
        access: Arc::clone(&access),
        health: HealthDoor::new(Arc::clone(&admin), &limits),
        admin: Arc::clone(&admin),
    });
    let mut api = api::router(admin, flow)
        .layer(Extension(tls.clone()))
        .layer(Extension(Arc::clone(&followers)));
    if let Some(searcher) = searcher {
        api = api.merge(search::router(searcher));
    }
    let app = front::router(api, access, assets, loopback);
    followers
        .health
        .follow()
        .map_err(|(address, source)| StartError::Health { address, source })?;
    let thread = std::thread::Builder::new()
        .name("inrush-admin".into())
        .spawn(move || {
            if let Some(tls) = &tls {
                runtime.spawn(Arc::clone(tls).watch(stopped.clone()));
            }
            runtime.block_on(serve::serve(listener, app, tls, limits, stopped));
            // A reload that is still reading files must not hold up the end of the process.
            runtime.shutdown_background();
        })
        .map_err(bound)?;
    Ok(AdminServer {
        address,
        stop,
        thread: Some(thread),
        _gatherer: gatherer,
        followers,
    })
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // What reads files leaves the one thread; there is one of it at a time.
        .max_blocking_threads(1)
        .thread_name("inrush-files")
        .build()
}

impl ReloadFollowers {
    /// Lets doors follow the configuration that runs now, and adds to the result of its reload.
    fn follow(
        &self,
        reloaded: Result<ReloadReport, Vec<String>>,
    ) -> Result<ReloadReport, Vec<String>> {
        if let Err(error) = self.access.renew(&self.admin.admin_options()) {
            tracing::error!(%error, "admin: the old password and tokens stay in use");
        }
        let Err((address, error)) = self.health.follow() else {
            return reloaded;
        };
        let mut problems = vec![format!(
            "health.listen: cannot listen on {address}: {error}"
        )];
        match reloaded {
            Ok(_) => {
                problems.push("everything else in the configuration was taken on".to_owned());
            }
            Err(others) => problems.extend(others),
        }
        Err(problems)
    }
}

impl AdminServer {
    /// The address really bound, with its port where the configuration left it to the kernel.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The address of the health listener really bound, if there is one.
    pub fn health_addr(&self) -> Option<SocketAddr> {
        self.followers.health.address()
    }

    /// Lets passwords, tokens and the health listener follow the configuration, after a reload that
    /// was not asked for over this API. Waits for a running one; hashing a plain password takes
    /// 30 ms.
    ///
    /// # Errors
    /// Those of the reload, and an address that cannot be bound.
    pub fn follow(
        &self,
        reloaded: Result<ReloadReport, Vec<String>>,
    ) -> Result<ReloadReport, Vec<String>> {
        self.followers.follow(reloaded)
    }

    /// Has the health listener say no from now on: the process stops.
    pub fn stopping(&self) {
        self.followers.health.stopping();
    }

    /// Takes no new connection, lets requests in hand finish within [`ServerLimits::stop`], and
    /// ends.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the admin thread panicked");
        }
        self.followers.health.close();
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.end();
    }
}
