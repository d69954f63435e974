//! Watch of events: each version of each event once, in the order of the versions.
//!
//! # What it guarantees
//! * A place is a version of the server (`resourceVersion`): all events up to it were handed over.
//!   A watch goes on from it, after a cut, a restart or at another process.
//! * Where the server has forgotten the place (410 Gone), all events are listed. Those up to the
//!   place are passed over and counted; versions are compared as numbers, as Kubernetes 1.35 allows
//!   and all before did.
//! * If the numbers begin anew (a restored etcd), the events are read as new ones, but for those
//!   that this process remembers by uid and version.
//!
//! # Limits
//! A list keeps [`LIST_BYTES_MAX`] bytes at a time. [`RECENT_MAX`] events are remembered.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::listed::ListedEvents;
use super::object::ClusterEvent;
use super::outlet::{EventItem, EventOutlet, LeadTerm};
use crate::anomaly::{ObjectAnomaly, ObjectAnomalyCounts};
use crate::answer::{WatchEvent, read_event, read_list};
use crate::client::{ApiRequest, ApiTransport, RequestPurpose};
use crate::lines::{EventLine, EventSplitter};
use crate::objects::WatchedObject;
use crate::reflector::{RoundFailure, StopSignal, WatchCounts, pause, push_escaped, refused};

/// Bytes of a list's events that are kept at once. Kubernetes keeps events for an hour; a busy
/// cluster has some ten thousand of 1.5 KiB.
const LIST_BYTES_MAX: usize = 64 << 20;
/// Events asked for in a page.
const PAGE_OBJECTS: usize = 500;
/// Pages of one list; a server that always has one more lies.
const PAGES_MAX: usize = 10_000;
/// Shortest time asked of the server for a watch; up to half of it is added at random.
const WATCH_SECONDS: u64 = 240;
/// Bytes asked of a watch at once.
const READ_BYTES: usize = 64 << 10;
/// Time after which an idle watch is no reason for a pause.
const LONG_WATCH: Duration = Duration::from_secs(30);
/// Events that are remembered by uid and version.
const RECENT_MAX: usize = 16_384;
/// Words of the server for a version that it has not reached.
const TOO_LARGE: &str = "Too large resource version";

/// Counts of a feed since the start.
#[derive(Debug, Default)]
pub struct EventFeedCounts {
    /// Those of the watch.
    pub watch: WatchCounts,
    /// Odd things in answers.
    pub anomalies: ObjectAnomalyCounts,
    /// True while this process leads.
    pub leads: AtomicBool,
    /// Events that came again and were passed over.
    pub repeated: AtomicU64,
    /// Times at which the numbers of the server began anew.
    pub resets: AtomicU64,
    /// Times at which this process took the Lease.
    pub takeovers: AtomicU64,
    /// Requests for the Lease that failed.
    pub lease_failures: AtomicU64,
}

/// The last events, by uid and version.
#[derive(Default)]
struct RecentEvents {
    keys: RandomState,
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl RecentEvents {
    fn key(&self, event: &ClusterEvent) -> u64 {
        self.keys.hash_one((&event.uid, event.version))
    }

    fn add(&mut self, key: u64) {
        if self.known.insert(key) {
            self.order.push_back(key);
        }
        if self.order.len() > RECENT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// Reason for which a watch ended, other than a failure.
enum EventWatchEnd {
    Ended,
    Gone,
    TermOver,
}

/// Parts that a watcher works with.
pub(super) struct WatcherContext<'a> {
    pub(super) transport: &'a dyn ApiTransport,
    pub(super) outlet: &'a EventOutlet,
    pub(super) stop: &'a StopSignal,
    pub(super) counts: &'a EventFeedCounts,
    /// Path of the events, up to the query.
    pub(super) path: &'a str,
}

/// Watches events, and hands them to an outlet.
pub(super) struct EventWatcher<'a> {
    context: WatcherContext<'a>,
    term: u64,
    /// All up to here was handed over.
    place: u64,
    /// True once events have to be listed before they are watched.
    must_list: bool,
    /// True if the events that are there at the first list are passed over.
    skips_first: bool,
    recent: RecentEvents,
    has_progress: bool,
}

impl<'a> EventWatcher<'a> {
    /// A watcher without a place. `skips_first`: without one, it begins with the events to come.
    pub(super) fn new(context: WatcherContext<'a>, skips_first: bool) -> Self {
        Self {
            context,
            term: 0,
            place: 0,
            must_list: true,
            skips_first,
            recent: RecentEvents::default(),
            has_progress: false,
        }
    }

    /// Lists and watches while this process leads, until it is told to stop.
    pub(super) fn run(&mut self) {
        let (mut failures, mut is_failing) = (0_u32, false);
        while !self.context.stop.is_stopped() {
            let Some(term) = self.context.outlet.await_lead() else {
                continue;
            };
            self.begin(term);
            self.has_progress = false;
            let result = self.round();
            if self.context.stop.is_stopped() {
                return;
            }
            failures = match self.has_progress {
                true => 0,
                false => failures.saturating_add(1),
            };
            let wait = match result {
                Ok(()) if self.has_progress => Duration::ZERO,
                Ok(()) => pause(failures),
                Err(failure) => {
                    self.note(&failure, !is_failing);
                    is_failing = true;
                    let asked = match &failure {
                        RoundFailure::Refused(_, asked) => asked.unwrap_or_default(),
                        RoundFailure::Broken(_) => Duration::ZERO,
                    };
                    pause(failures.max(1)).max(asked)
                }
            };
            if self.has_progress && std::mem::take(&mut is_failing) {
                tracing::info!("kubernetes: events are watched again");
            }
            self.context.stop.wait(wait);
        }
    }

    fn begin(&mut self, term: LeadTerm) {
        if term.number == self.term {
            return;
        }
        self.term = term.number;
        // What was handed over and not taken is read again, by whoever leads.
        self.recent = RecentEvents::default();
        self.place = term.place;
        self.must_list = term.place == 0;
        self.skips_first &= term.place == 0;
    }

    fn note(&self, failure: &RoundFailure, is_new: bool) {
        self.context
            .counts
            .watch
            .failures
            .fetch_add(1, Ordering::Relaxed);
        self.context.transport.renew();
        if is_new {
            let words = match failure {
                RoundFailure::Broken(words) => words.clone(),
                RoundFailure::Refused(status, _) => {
                    format!("HTTP {}: {}", status.code, status.message)
                }
            };
            tracing::warn!("kubernetes: events cannot be read: {words}; it is tried again");
        }
    }

    /// A list if one is needed, and one watch.
    fn round(&mut self) -> Result<(), RoundFailure> {
        let begun = Instant::now();
        while self.must_list {
            if !self.list()? {
                return Ok(());
            }
        }
        let end = self.watch()?;
        self.context
            .counts
            .watch
            .ends
            .fetch_add(1, Ordering::Relaxed);
        self.has_progress |= begun.elapsed() > LONG_WATCH;
        match end {
            EventWatchEnd::Gone => {
                self.context
                    .counts
                    .watch
                    .gone
                    .fetch_add(1, Ordering::Relaxed);
                self.must_list = true;
            }
            EventWatchEnd::TermOver => self.has_progress = true,
            EventWatchEnd::Ended => {}
        }
        Ok(())
    }

    /// Lists the events beyond the place, or as many as may be kept. False: the term is over.
    fn list(&mut self) -> Result<bool, RoundFailure> {
        let (mut listed, mut page_token) = (ListedEvents::new(LIST_BYTES_MAX), String::new());
        let mut repeated = 0;
        for _ in 0..PAGES_MAX {
            let answer = self
                .context
                .transport
                .get(&self.list_request(&page_token))?;
            if answer.status != 200 {
                return Err(refused(answer));
            }
            let (place, skips) = (self.place, self.skips_first);
            let mut take = |event: ClusterEvent| match event.version {
                _ if skips => {}
                Some(version) if version > place => listed.add(version, event),
                _ => repeated += 1,
            };
            let page = read_list(answer.body, &self.context.counts.anomalies, &mut take);
            let page = page.map_err(|error| RoundFailure::Broken(format!("its list: {error}")))?;
            let version: u64 = page.version.parse().map_err(|_| {
                RoundFailure::Broken(format!("the version `{}` is no number", page.version))
            })?;
            if version < self.place {
                return Ok(self.begin_numbering(version));
            }
            if page.next.is_empty() {
                self.context
                    .counts
                    .repeated
                    .fetch_add(repeated, Ordering::Relaxed);
                return Ok(self.hand_over(listed, version));
            }
            page_token = page.next;
        }
        Err(RoundFailure::Broken("its list has no end".into()))
    }

    /// The server's numbers are lower than ours: nothing of what it has was read under them.
    /// False: the term is over.
    fn begin_numbering(&mut self, version: u64) -> bool {
        tracing::warn!(
            "kubernetes: the versions of events have begun anew: {version} comes after {}; all \
             events that the API has are read",
            self.place
        );
        self.context.counts.resets.fetch_add(1, Ordering::Relaxed);
        self.place = 0;
        self.context.outlet.renumber(self.term)
    }

    fn hand_over(&mut self, listed: ListedEvents, version: u64) -> bool {
        let is_partial = listed.is_partial();
        for (version, event) in listed.into_events() {
            if !self.deliver(event, version) {
                return false;
            }
        }
        self.context
            .counts
            .watch
            .lists
            .fetch_add(1, Ordering::Relaxed);
        self.skips_first = false;
        self.must_list = is_partial;
        is_partial || self.advance(version)
    }

    /// Hands an event over, unless it was before. False: the term is over.
    fn deliver(&mut self, event: ClusterEvent, version: u64) -> bool {
        self.has_progress = true;
        let key = self.recent.key(&event);
        if version <= self.place || self.recent.known.contains(&key) {
            self.context.counts.repeated.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        // Counted first, so that no one sees an event that is not in the count.
        self.context
            .counts
            .watch
            .events
            .fetch_add(1, Ordering::Relaxed);
        let item = EventItem::Event(Box::new(event), version);
        let handed = self.context.outlet.push(self.term, item);
        if handed {
            self.place = version;
            self.recent.add(key);
        }
        handed
    }

    /// Notes that nothing happened up to a version. False: the term is over.
    fn advance(&mut self, version: u64) -> bool {
        self.place = self.place.max(version);
        let item = EventItem::Place(self.place);
        self.context.outlet.push(self.term, item)
    }

    /// Watches from the place on, until the watch ends.
    fn watch(&mut self) -> Result<EventWatchEnd, RoundFailure> {
        let answer = self.context.transport.get(&self.watch_request())?;
        match answer.status {
            200 => {}
            410 => return Ok(EventWatchEnd::Gone),
            _ => return self.unless_too_large(refused(answer)),
        }
        let mut body = answer.body;
        let mut splitter = EventSplitter::default();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            // A read that fails is a cut, or a silence that lasted too long: the same watch again.
            let read = body.read(&mut buffer).unwrap_or_default();
            if read == 0 {
                if splitter.has_rest() {
                    self.context.counts.anomalies.count(ObjectAnomaly::CutEvent);
                }
                return Ok(EventWatchEnd::Ended);
            }
            splitter.push(buffer.get(..read).unwrap_or_default());
            while let Some(line) = splitter.next_line() {
                if let Some(end) = self.take_line(line)? {
                    return Ok(end);
                }
            }
        }
    }

    /// Takes one event of the watch; the end of the watch, if it says so.
    fn take_line(&mut self, line: EventLine<'_>) -> Result<Option<EventWatchEnd>, RoundFailure> {
        let anomalies = &self.context.counts.anomalies;
        let EventLine::Whole(line) = line else {
            anomalies.count(ObjectAnomaly::ObjectTooLarge);
            return Ok(None);
        };
        let (event, version) = read_event::<ClusterEvent>(line).map_err(|error| {
            anomalies.count(ObjectAnomaly::MalformedEvent);
            // A list has it too, if it is an event at all.
            self.must_list = true;
            RoundFailure::Broken(format!("an event that cannot be read: {error}"))
        })?;
        let version: Option<u64> = version.parse().ok();
        let goes_on = match (event, version) {
            (WatchEvent::Applied(event), Some(version)) if event.is_named() => {
                self.deliver(event, version)
            }
            (WatchEvent::Deleted(_) | WatchEvent::Bookmark, Some(version)) => {
                self.has_progress = true;
                self.advance(version)
            }
            (WatchEvent::Failed(status), _) if status.code == 410 => {
                return Ok(Some(EventWatchEnd::Gone));
            }
            (WatchEvent::Failed(status), _) => {
                return self
                    .unless_too_large(RoundFailure::Refused(status, None))
                    .map(Some);
            }
            (WatchEvent::Unknown, _) => {
                anomalies.count(ObjectAnomaly::UnknownEvent);
                true
            }
            _ => {
                anomalies.count(ObjectAnomaly::UnnamedObject);
                true
            }
        };
        Ok((!goes_on).then_some(EventWatchEnd::TermOver))
    }

    /// Lists if the server has not reached our place: its numbers may have begun anew.
    fn unless_too_large(&mut self, failure: RoundFailure) -> Result<EventWatchEnd, RoundFailure> {
        if let RoundFailure::Refused(status, _) = &failure {
            self.must_list |= status.message.contains(TOO_LARGE);
        }
        Err(failure)
    }

    fn list_request(&self, page_token: &str) -> ApiRequest {
        let mut path = format!("{}?limit={PAGE_OBJECTS}", self.context.path);
        if !page_token.is_empty() {
            path.push_str("&continue=");
            push_escaped(&mut path, page_token);
        }
        ApiRequest {
            path,
            accept: "application/json",
            purpose: RequestPurpose::List,
        }
    }

    fn watch_request(&self) -> ApiRequest {
        let seconds = WATCH_SECONDS + fastrand::u64(..=WATCH_SECONDS / 2);
        ApiRequest {
            path: format!(
                "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={}",
                self.context.path, self.place
            ),
            accept: "application/json",
            purpose: RequestPurpose::Watch,
        }
    }
}
