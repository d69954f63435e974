//! The admin HTTP API: health, metrics, the ledger, reload and the dashboard.
//!
//! # What it guarantees
//! * It runs on one thread of its own and holds handles ([`Admin`]), never events: a scrape, a
//!   stuck browser or a hostile client costs the pipeline nothing but a snapshot of counters.
//! * It binds the address that the configuration names and nothing else.
//! * Nothing that a web page of another origin does can reach it (`guard.rs` has the rules).
//!
//! # Limits
//! [`Limits`] bounds connections, request heads and the time that a slow client may take. Request
//! bodies are never read: no endpoint has one.
//!
//! # Endpoints
//! `GET /healthz /metrics /api/v1/ledger /api/v1/sources /api/v1/destinations /api/v1/senders /`
//! `GET /api/v1/quarantine` and `POST /api/v1/reload /api/v1/quarantine/replay
//! /api/v1/quarantine/drop`. Answers other than the page and the metrics are JSON.
#![forbid(unsafe_code)]

mod api;
mod assets;
mod front;
mod guard;
mod metrics;
mod serve;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use assets::Asset;
use inrush_pipeline::Admin;
use tokio::sync::watch;

pub use serve::Limits;

/// A running admin API. Dropping it stops it.
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// Binds `listen` and serves `admin` on a thread of its own.
///
/// # Errors
/// When the address cannot be bound or the thread cannot be started: the environment is at fault.
pub fn start(listen: SocketAddr, admin: Arc<dyn Admin>) -> io::Result<Server> {
    start_within(listen, admin, Limits::default())
}

/// [`start`] with limits of the caller's choice.
///
/// # Errors
/// As for [`start`].
pub fn start_within(
    listen: SocketAddr,
    admin: Arc<dyn Admin>,
    limits: Limits,
) -> io::Result<Server> {
    open(listen, admin, limits, assets::BUILT_IN)
}

/// [`start_within`] with a dashboard of the caller's choice.
fn open(
    listen: SocketAddr,
    admin: Arc<dyn Admin>,
    limits: Limits,
    assets: &'static [Asset],
) -> io::Result<Server> {
    let listener = TcpListener::bind(listen)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // What reads files leaves the one thread; there is one of it at a time.
        .max_blocking_threads(1)
        .thread_name("inrush-files")
        .build()?;
    let (stop, stopped) = watch::channel(false);
    let loopback = address.ip().to_canonical().is_loopback();
    let app = front::router(api::router(admin), assets, loopback);
    let thread = std::thread::Builder::new()
        .name("inrush-admin".into())
        .spawn(move || {
            runtime.block_on(serve::serve(listener, app, limits, stopped));
            // A reload that is still reading files must not hold up the end of the process.
            runtime.shutdown_background();
        })?;
    Ok(Server {
        address,
        stop,
        thread: Some(thread),
    })
}

impl Server {
    /// The address really bound, with its port where the configuration left it to the kernel.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Takes no new connection, lets requests in hand finish within [`Limits::stop`], and ends.
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
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
