//! `GET /api/v1/flow` and `GET /api/v1/flow/stream`: one gathering a second for all who look, and
//! none while nobody does.
//!
//! A snapshot is gathered on a thread of its own, made into text once, and shared by all readers.
//! The thread sleeps until somebody asks. A reader that is slow skips snapshots: nothing is queued
//! for it, and when it reads nothing at all for [`ServerLimits::connection`] it is cut off.

use std::convert::Infallible;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use inrush_status::Admin;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use crate::api::problem;
use crate::serve::{ServerLimits, StreamProgress};

/// Longest wait for a snapshot: a reload holds it up while it waits for a destination to end.
const GATHER_MAX: Duration = Duration::from_secs(15);

/// First message to a reader: the wait before it connects again, in milliseconds.
const HELLO: &[u8] = b"retry: 1000\n\n";

/// The latest snapshot, made into text.
#[derive(Clone)]
struct EncodedSnapshot {
    json: Bytes,
    /// The same as a message of the stream.
    message: Bytes,
    at: Instant,
}

#[derive(Default)]
struct GatherFlags {
    wanted: bool,
    stopped: bool,
}

/// State shared by the gathering thread and those who ask.
struct GatherSignal {
    asked: Mutex<GatherFlags>,
    rung: Condvar,
}

impl GatherSignal {
    fn asked(&self) -> MutexGuard<'_, GatherFlags> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a snapshot is wanted, and at least until `earliest`; false once it is over.
    fn wait(&self, earliest: Option<Instant>) -> bool {
        let mut asked = self.asked();
        loop {
            let early = earliest.and_then(|at| at.checked_duration_since(Instant::now()));
            let early = early.filter(|left| !left.is_zero());
            if asked.stopped {
                return false;
            }
            asked = match (asked.wanted, early) {
                (true, None) => {
                    asked.wanted = false;
                    return true;
                }
                (true, Some(left)) => {
                    self.rung
                        .wait_timeout(asked, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                (false, _) => self
                    .rung
                    .wait(asked)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn ring(&self, change: impl FnOnce(&mut GatherFlags)) {
        change(&mut self.asked());
        self.rung.notify_one();
    }
}

/// Gathers snapshots for all who ask.
#[derive(Clone)]
pub(crate) struct SnapshotHub {
    bell: Arc<GatherSignal>,
    told: watch::Receiver<Option<EncodedSnapshot>>,
    readers: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
    limits: ServerLimits,
}

/// The thread that gathers. Dropping it ends the thread.
pub(crate) struct Gatherer {
    bell: Arc<GatherSignal>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Gatherer {
    fn drop(&mut self) {
        self.bell.ring(|asked| asked.stopped = true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that gathers the flow panicked");
        }
    }
}

/// Starts the thread. Streams end when `stopped` turns true.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn start(
    admin: Arc<dyn Admin>,
    limits: ServerLimits,
    stopped: watch::Receiver<bool>,
) -> std::io::Result<(SnapshotHub, Gatherer)> {
    let bell = Arc::new(GatherSignal {
        asked: Mutex::default(),
        rung: Condvar::new(),
    });
    let (teller, told) = watch::channel(None);
    let heard = Arc::clone(&bell);
    let thread = thread::Builder::new()
        .name("inrush-flow".into())
        .spawn(move || {
            let mut earliest = None;
            while heard.wait(earliest) {
                earliest = Some(Instant::now() + limits.flow_every);
                teller.send_replace(tell(&*admin));
            }
        })?;
    let hub = SnapshotHub {
        bell: Arc::clone(&bell),
        told,
        readers: Arc::new(Semaphore::new(limits.flow_readers)),
        stopped,
        limits,
    };
    let thread = Some(thread);
    Ok((hub, Gatherer { bell, thread }))
}

fn tell(admin: &dyn Admin) -> Option<EncodedSnapshot> {
    let json = match serde_json::to_vec(&admin.flow()) {
        Ok(json) => json,
        Err(error) => {
            tracing::error!(%error, "a snapshot of the flow cannot be written as JSON");
            return None;
        }
    };
    let message = [b"data: ", &json[..], b"\n\n"].concat();
    Some(EncodedSnapshot {
        json: json.into(),
        message: message.into(),
        at: Instant::now(),
    })
}

/// One who looks.
struct SnapshotSubscriber {
    hub: SnapshotHub,
    told: watch::Receiver<Option<EncodedSnapshot>>,
    stay: StreamProgress,
    /// First message, which it gets at once; `None` once it was taken.
    greeting: Option<Bytes>,
    _permit: OwnedSemaphorePermit,
}

impl SnapshotSubscriber {
    /// The next message; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        self.stay.gets_on();
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        loop {
            // Asked for only now that the one before was taken: a reader that is stuck costs none.
            self.hub.bell.ring(|asked| asked.wanted = true);
            tokio::select! {
                _ = self.hub.stopped.wait_for(|stop| *stop) => return None,
                changed = self.told.changed() => changed.ok()?,
            }
            let told = self.told.borrow_and_update().clone();
            if let Some(told) = told {
                return Some(told.message);
            }
        }
    }
}

impl SnapshotHub {
    /// The latest snapshot, if it is too young for a new one.
    fn fresh(
        &self,
        told: &mut watch::Receiver<Option<EncodedSnapshot>>,
    ) -> Option<EncodedSnapshot> {
        let latest = told.borrow_and_update().clone();
        latest.filter(|told| told.at.elapsed() < self.limits.flow_every)
    }

    /// One snapshot, at most a second old.
    pub(crate) async fn snapshot(&self) -> Response {
        let mut told = self.told.clone();
        let json = match self.fresh(&mut told) {
            Some(told) => Some(told.json),
            None => {
                self.bell.ring(|asked| asked.wanted = true);
                let changed = timeout(GATHER_MAX, told.changed()).await;
                let told = told.borrow().clone().filter(|_| changed.is_ok());
                told.map(|told| told.json)
            }
        };
        match json {
            Some(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
            None => problem(
                StatusCode::SERVICE_UNAVAILABLE,
                "no snapshot could be gathered; a reload may be waiting for a destination to end",
            ),
        }
    }

    /// A snapshot a second, as server-sent events.
    pub(crate) fn stream(&self, stay: StreamProgress) -> Response {
        let Ok(permit) = Arc::clone(&self.readers).try_acquire_owned() else {
            let readers = self.limits.flow_readers;
            return problem(
                StatusCode::SERVICE_UNAVAILABLE,
                &format!("{readers} others read this stream; try later, or ask for /api/v1/flow"),
            );
        };
        let mut told = self.told.clone();
        let greeting = match self.fresh(&mut told) {
            Some(told) => [HELLO, &told.message].concat().into(),
            None => Bytes::from_static(HELLO),
        };
        let reader = SnapshotSubscriber {
            hub: self.clone(),
            told,
            stay,
            greeting: Some(greeting),
            _permit: permit,
        };
        let messages = stream::unfold(reader, |mut reader| async move {
            let message = reader.next().await?;
            Some((Ok::<_, Infallible>(message), reader))
        });
        let kind = [(header::CONTENT_TYPE, "text/event-stream")];
        (kind, Body::from_stream(messages)).into_response()
    }
}
