//! Copy of one kind of object in the store: list, then watch, and again where that is needed.
//!
//! # What it guarantees
//! * After any sequence of lists, events, cuts and lost versions the store has what the server has,
//!   once the server is quiet and answers. Skipped objects are the exception; they are counted.
//! * A watch that ends goes on from the version of its last event. It is listed again only if the
//!   server has forgotten that version (410 Gone), after an event that cannot be read, and every
//!   [`RELIST_AFTER`], for a server may lie.
//! * Requests that fail are repeated after a pause that doubles, see [`pause`]. A server that ends
//!   each watch at once is asked no faster.
//!
//! # States
//! [`KindPhase`]. `Denied` follows HTTP 403 and 404; the others are failures.
//!
//! # Limits
//! Pages of [`PAGE_OBJECTS`]; a server that answers from its cache sends all at once, and they are
//! read one by one. [`PAGES_MAX`] pages make a list.

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::anomaly::{ObjectAnomaly, ObjectAnomalyCounts};
use crate::answer::{StatusAnswer, WatchEvent, read_event, read_list, read_status};
use crate::client::{ApiAnswer, ApiFailure, ApiRequest, ApiTransport, RequestPurpose};
use crate::lines::{EventLine, EventSplitter};
use crate::objects::{NamespaceObject, PodObject, WatchedObject, WorkloadKind, WorkloadObject};
use crate::store::{KindPhase, MetadataStore, OBJECTS_MAX, ObjectKind, is_of_use};

/// Objects asked for in a page.
const PAGE_OBJECTS: usize = 500;
/// Pages of one list: 5 million objects. A server that always has one more page lies.
const PAGES_MAX: usize = 10_000;
/// Age of a list at which it is made anew.
const RELIST_AFTER: Duration = Duration::from_secs(3600);
/// Shortest time asked of the server for a watch; up to half of it is added at random.
const WATCH_SECONDS: u64 = 240;
/// First pause after a failure.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
/// Longest pause after failures.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Pause before something denied is asked for again.
const PAUSE_DENIED: Duration = Duration::from_secs(300);
/// Bytes of an error's body that are read.
const STATUS_BYTES_MAX: u64 = 64 << 10;
/// Bytes asked of a watch at once.
const READ_BYTES: usize = 64 << 10;

/// Metadata alone, or the whole object from a server that does not know this form.
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Counts of one watch since the start.
#[derive(Debug, Default)]
pub struct WatchCounts {
    /// Lists that were completed.
    pub lists: AtomicU64,
    /// Events that were taken.
    pub events: AtomicU64,
    /// Versions that the server had forgotten.
    pub gone: AtomicU64,
    /// Streams that ended, by either side.
    pub ends: AtomicU64,
    /// Requests that failed.
    pub failures: AtomicU64,
}

/// Signal by which waiting threads learn that they shall stop.
#[derive(Debug, Default)]
pub(crate) struct StopSignal {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl StopSignal {
    pub(crate) fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, but not beyond the stop.
    pub(crate) fn wait(&self, how_long: Duration) {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        drop(
            self.changed
                .wait_timeout_while(stopped, how_long, |stopped| !*stopped),
        );
    }
}

/// Pause after the `failures`-th failure in a row: doubled each time, and shortened by up to half,
/// so that the nodes of a cluster do not come back to its API all at once.
pub(crate) fn pause(failures: u32) -> Duration {
    let doubled = PAUSE_FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(PAUSE_MAX).mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Object that a reflector copies.
pub(crate) trait ReflectedObject: WatchedObject {
    /// True if it is worth the memory.
    fn is_kept(&self) -> bool {
        true
    }
    fn replace_all(store: &MetadataStore, kind: ObjectKind, objects: Vec<Self>, now: Instant);
    fn apply(self, store: &MetadataStore, kind: ObjectKind, now: Instant);
    fn remove(self, store: &MetadataStore, kind: ObjectKind, now: Instant);
}

impl ReflectedObject for PodObject {
    fn replace_all(store: &MetadataStore, _: ObjectKind, objects: Vec<Self>, now: Instant) {
        store.replace_pods(objects, now);
    }

    fn apply(self, store: &MetadataStore, _: ObjectKind, now: Instant) {
        store.apply_pod(self, now);
    }

    fn remove(self, store: &MetadataStore, _: ObjectKind, now: Instant) {
        store.remove_pod(&self, now);
    }
}

impl ReflectedObject for NamespaceObject {
    fn replace_all(store: &MetadataStore, _: ObjectKind, objects: Vec<Self>, _: Instant) {
        store.replace_namespaces(objects);
    }

    fn apply(self, store: &MetadataStore, _: ObjectKind, _: Instant) {
        store.apply_namespace(self);
    }

    fn remove(self, store: &MetadataStore, _: ObjectKind, _: Instant) {
        store.remove_namespace(&self);
    }
}

/// The kind of workload that is meant.
fn workload_kind(kind: ObjectKind) -> WorkloadKind {
    match kind {
        ObjectKind::Workload(kind) => kind,
        // A reflector of workloads is made for a kind of them.
        ObjectKind::Pod | ObjectKind::Namespace => WorkloadKind::Deployment,
    }
}

impl ReflectedObject for WorkloadObject {
    fn is_kept(&self) -> bool {
        is_of_use(self)
    }

    fn replace_all(store: &MetadataStore, kind: ObjectKind, objects: Vec<Self>, _: Instant) {
        store.replace_workloads(workload_kind(kind), objects);
    }

    fn apply(self, store: &MetadataStore, kind: ObjectKind, _: Instant) {
        store.apply_workload(workload_kind(kind), self);
    }

    fn remove(self, store: &MetadataStore, kind: ObjectKind, _: Instant) {
        store.remove_workload(workload_kind(kind), &self);
    }
}

/// Reason for which a round ended early.
#[derive(Debug)]
pub(crate) enum RoundFailure {
    /// The environment: no connection, a broken body, an event that cannot be read.
    Broken(String),
    /// The API refused.
    Refused(StatusAnswer, Option<Duration>),
}

impl From<ApiFailure> for RoundFailure {
    fn from(failure: ApiFailure) -> Self {
        Self::Broken(failure.to_string())
    }
}

/// Reason for which a watch ended.
enum WatchEnd {
    /// Its time was over, or the connection was cut.
    Ended,
    /// The server has forgotten the version.
    Gone,
}

/// Reads all of the error's body that is needed.
pub(crate) fn refused(answer: ApiAnswer) -> RoundFailure {
    let mut body = Vec::new();
    // What came before an error is enough.
    let _ = answer.body.take(STATUS_BYTES_MAX).read_to_end(&mut body);
    RoundFailure::Refused(read_status(answer.status, &body), answer.retry_after)
}

/// Everything that the reflectors of a cluster share.
pub(crate) struct ReflectorContext<'a> {
    pub(crate) store: &'a MetadataStore,
    pub(crate) transport: &'a dyn ApiTransport,
    pub(crate) stop: &'a StopSignal,
    /// Called after the objects changed.
    pub(crate) after_change: &'a dyn Fn(),
}

/// Copy of one kind.
pub(crate) struct Reflector<'a> {
    kind: ObjectKind,
    context: ReflectorContext<'a>,
    counts: &'a WatchCounts,
    /// Version of the store's objects; `None`: list them.
    version: Option<String>,
    /// The server's cache is not asked again: it forgot, or was behind.
    avoids_cache: bool,
    listed_at: Instant,
    /// True if the last round took an event, or waited long for one.
    has_progress: bool,
}

impl<'a> Reflector<'a> {
    pub(crate) fn new(
        kind: ObjectKind,
        context: ReflectorContext<'a>,
        counts: &'a WatchCounts,
    ) -> Self {
        Self {
            kind,
            context,
            counts,
            version: None,
            avoids_cache: false,
            listed_at: Instant::now(),
            has_progress: false,
        }
    }

    /// Lists and watches until it is told to stop.
    pub(crate) fn run<T: ReflectedObject>(&mut self) {
        let mut failures = 0;
        while !self.context.stop.is_stopped() {
            let result = self.round::<T>();
            if self.context.stop.is_stopped() {
                return;
            }
            failures = match self.has_progress {
                true => 0,
                false => u32::saturating_add(failures, 1),
            };
            let wait = match result {
                Ok(()) if self.has_progress => continue,
                Ok(()) => pause(failures),
                Err(failure) => self.note(failure, failures.max(1)),
            };
            self.context.stop.wait(wait);
        }
    }

    /// A list if one is needed, and one watch.
    pub(crate) fn round<T: ReflectedObject>(&mut self) -> Result<(), RoundError> {
        self.has_progress = false;
        self.round_inner::<T>().map_err(RoundError)
    }

    fn round_inner<T: ReflectedObject>(&mut self) -> Result<(), RoundFailure> {
        let begun = Instant::now();
        if self.version.is_some() && begun.duration_since(self.listed_at) >= RELIST_AFTER {
            self.version = None;
        }
        let version = match self.version.take() {
            Some(version) => version,
            None => self.list::<T>()?,
        };
        self.version = Some(version.clone());
        let end = self.watch::<T>(version)?;
        self.counts.ends.fetch_add(1, Ordering::Relaxed);
        // An idle watch that lasted is no reason for a pause.
        self.has_progress |= begun.elapsed() > PAUSE_MAX;
        if let WatchEnd::Gone = end {
            self.counts.gone.fetch_add(1, Ordering::Relaxed);
            self.version = None;
            self.avoids_cache = true;
        }
        Ok(())
    }

    /// Writes the state down, and says how long to wait.
    fn note(&mut self, RoundError(failure): RoundError, failures: u32) -> Duration {
        self.counts.failures.fetch_add(1, Ordering::Relaxed);
        self.context.transport.renew();
        let (text, denied, asked) = match failure {
            RoundFailure::Broken(text) => (text, false, None),
            RoundFailure::Refused(status, asked) => {
                let denied = matches!(status.code, 403 | 404);
                let text = format!("HTTP {}: {}", status.code, status.message);
                (text, denied, asked)
            }
        };
        let resource = self.kind.resource();
        let before = self.context.store.phase(self.kind);
        let is_known = matches!(
            (&before, denied),
            (KindPhase::Denied(_), true) | (KindPhase::Lost(_) | KindPhase::Failing(_), false)
        );
        if !is_known && denied {
            tracing::warn!(
                "kubernetes: the API denies `{resource}`: {text}; metadata goes without it, and it \
                 is asked again every {} s",
                PAUSE_DENIED.as_secs()
            );
        } else if !is_known {
            tracing::warn!(
                "kubernetes: the watch of `{resource}` failed: {text}; it is tried again"
            );
        }
        let phase = match (before, denied) {
            (_, true) => KindPhase::Denied(text),
            (KindPhase::Live | KindPhase::Lost(_), false) => KindPhase::Lost(text),
            (_, false) => KindPhase::Failing(text),
        };
        self.context.store.set_phase(self.kind, phase);
        match denied {
            true => PAUSE_DENIED,
            false => pause(failures).max(asked.unwrap_or_default()),
        }
    }

    /// Lists all objects, and puts them in place of the store's. Returns the version.
    fn list<T: ReflectedObject>(&mut self) -> Result<String, RoundFailure> {
        let mut objects = Vec::new();
        let mut page_token = String::new();
        for _ in 0..PAGES_MAX {
            let answer = self
                .context
                .transport
                .get(&self.list_request(&page_token))?;
            if answer.status != 200 {
                // The token of a page, or the version, is too old: begin again, without the cache.
                self.avoids_cache |= answer.status == 410;
                return Err(refused(answer));
            }
            let anomalies = self.context.store.anomalies();
            let mut take = |object: T| {
                if object.is_kept() {
                    push_bounded(&mut objects, object, anomalies);
                }
            };
            let page = read_list(answer.body, anomalies, &mut take);
            let page = page.map_err(|error| RoundFailure::Broken(format!("its list: {error}")))?;
            if page.next.is_empty() {
                let now = Instant::now();
                T::replace_all(self.context.store, self.kind, objects, now);
                self.counts.lists.fetch_add(1, Ordering::Relaxed);
                self.listed_at = now;
                self.avoids_cache = false;
                self.set_live();
                (self.context.after_change)();
                return Ok(page.version);
            }
            page_token = page.next;
        }
        Err(RoundFailure::Broken("its list has no end".into()))
    }

    fn set_live(&self) {
        let before = self.context.store.phase(self.kind);
        if self.context.store.set_phase(self.kind, KindPhase::Live) {
            let resource = self.kind.resource();
            match before {
                KindPhase::Starting => {}
                _ => tracing::info!("kubernetes: `{resource}` is watched again"),
            }
        }
    }

    /// Watches from a version on, until the watch ends.
    fn watch<T: ReflectedObject>(&mut self, version: String) -> Result<WatchEnd, RoundFailure> {
        let answer = self.context.transport.get(&self.watch_request(&version))?;
        match answer.status {
            200 => {}
            410 => return Ok(WatchEnd::Gone),
            _ => return Err(refused(answer)),
        }
        self.set_live();
        let mut body = answer.body;
        let mut splitter = EventSplitter::default();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            // A read that fails is a cut, or a silence that lasted too long: the same watch again.
            let read = body.read(&mut buffer).unwrap_or_default();
            if read == 0 {
                if splitter.has_rest() {
                    self.context
                        .store
                        .anomalies()
                        .count(ObjectAnomaly::CutEvent);
                }
                return Ok(WatchEnd::Ended);
            }
            splitter.push(buffer.get(..read).unwrap_or_default());
            while let Some(line) = splitter.next_line() {
                if let Some(end) = self.take_line::<T>(line)? {
                    return Ok(end);
                }
            }
            self.context.store.forget(Instant::now());
        }
    }

    /// Takes one event; the end of the watch, if it says so.
    fn take_line<T: ReflectedObject>(
        &mut self,
        line: EventLine<'_>,
    ) -> Result<Option<WatchEnd>, RoundFailure> {
        let store = self.context.store;
        let EventLine::Whole(line) = line else {
            store.anomalies().count(ObjectAnomaly::ObjectTooLarge);
            return Ok(None);
        };
        let (event, version) = read_event::<T>(line).map_err(|error| {
            store.anomalies().count(ObjectAnomaly::MalformedEvent);
            // It may have been a change that is lost now.
            self.version = None;
            RoundFailure::Broken(format!("an event that cannot be read: {error}"))
        })?;
        // Counted first, so that no one sees an event that is not in the count.
        self.counts.events.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        match event {
            WatchEvent::Applied(object) if is_sound(&object, store.anomalies()) => {
                object.apply(store, self.kind, now);
                (self.context.after_change)();
            }
            WatchEvent::Deleted(object) if is_sound(&object, store.anomalies()) => {
                object.remove(store, self.kind, now);
            }
            WatchEvent::Applied(_) | WatchEvent::Deleted(_) | WatchEvent::Bookmark => {}
            WatchEvent::Failed(status) if status.code == 410 => return Ok(Some(WatchEnd::Gone)),
            WatchEvent::Failed(status) => return Err(RoundFailure::Refused(status, None)),
            WatchEvent::Unknown => store.anomalies().count(ObjectAnomaly::UnknownEvent),
        }
        if !version.is_empty() {
            self.version = Some(version);
        }
        self.has_progress = true;
        Ok(None)
    }

    fn list_request(&self, page_token: &str) -> ApiRequest {
        let mut path = format!("{}limit={PAGE_OBJECTS}", self.path());
        if !page_token.is_empty() {
            path.push_str("&continue=");
            push_escaped(&mut path, page_token);
        } else if !self.avoids_cache {
            // Any version that the server has in memory: a list of the newest one costs it a scan
            // of all pods of the cluster.
            path.push_str("&resourceVersion=0");
        }
        ApiRequest {
            path,
            accept: match self.kind {
                ObjectKind::Pod => "application/json",
                _ => METADATA_LIST,
            },
            purpose: RequestPurpose::List,
        }
    }

    fn watch_request(&self, version: &str) -> ApiRequest {
        let seconds = WATCH_SECONDS + fastrand::u64(..=WATCH_SECONDS / 2);
        let mut path = self.path();
        path.push_str("watch=1&allowWatchBookmarks=true&timeoutSeconds=");
        path.push_str(&seconds.to_string());
        path.push_str("&resourceVersion=");
        push_escaped(&mut path, version);
        ApiRequest {
            path,
            accept: match self.kind {
                ObjectKind::Pod => "application/json",
                _ => METADATA,
            },
            purpose: RequestPurpose::Watch,
        }
    }

    /// The path of the kind, and its query up to where more can follow.
    fn path(&self) -> String {
        let group = match self.kind {
            ObjectKind::Pod | ObjectKind::Namespace => "api/v1",
            ObjectKind::Workload(WorkloadKind::CronJob | WorkloadKind::Job) => "apis/batch/v1",
            ObjectKind::Workload(_) => "apis/apps/v1",
        };
        let mut path = format!("/{group}/{}?", self.kind.resource());
        if self.kind == ObjectKind::Pod {
            path.push_str("fieldSelector=spec.nodeName%3D");
            push_escaped(&mut path, self.context.store.node());
            path.push('&');
        }
        path
    }
}

/// Failure of a round, for the loop around it.
#[derive(Debug)]
pub(crate) struct RoundError(RoundFailure);

fn push_bounded<T>(objects: &mut Vec<T>, object: T, anomalies: &ObjectAnomalyCounts) {
    match objects.len() < OBJECTS_MAX {
        true => objects.push(object),
        false => anomalies.count(ObjectAnomaly::TooManyObjects),
    }
}

/// True if an object has its names; counts what is odd.
fn is_sound<T: WatchedObject>(object: &T, anomalies: &ObjectAnomalyCounts) -> bool {
    anomalies.add(ObjectAnomaly::PartSkipped, u64::from(object.skipped()));
    if !object.is_named() {
        anomalies.count(ObjectAnomaly::UnnamedObject);
    }
    object.is_named()
}

/// Appends a value of a query (RFC 3986 section 2.1).
pub(crate) fn push_escaped(path: &mut String, value: &str) {
    for byte in value.bytes() {
        match byte {
            b if b.is_ascii_alphanumeric() || b"-._~".contains(&b) => path.push(char::from(b)),
            b => path.push_str(&format!("%{b:02X}")),
        }
    }
}

#[cfg(test)]
#[path = "reflector_tests.rs"]
mod tests;
