//! Events of the cluster, read by one process at a time.
//!
//! # In reading order
//! 1. [`ClusterEventFeed`]: two threads, and where the events come out.
//! 2. [`ClusterEvent`]: what is made of an object of the API.
//! 3. `watcher`: lists and watches; `listed`: the events of a list in their order.
//! 4. `outlet`: the way to the one that takes them, open while this process leads.
//! 5. `lease`: who leads; `lease_object`: the Lease in the API.

mod lease;
mod lease_object;
mod listed;
mod object;
mod outlet;
mod watcher;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::client::{ApiTransport, HttpTransport};
use crate::kubeconfig::ClusterAccess;
use crate::reflector::{StopSignal, push_escaped};

use lease_object::LeaseHolder;
use outlet::EventOutlet;
use watcher::{EventWatcher, WatcherContext};

pub use object::ClusterEvent;
pub use outlet::EventItem;
pub use watcher::EventFeedCounts;

/// Events to read, and the Lease that it needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventFeedSettings {
    /// Namespace whose events are read; `None`: those of all.
    pub namespace: Option<String>,
    /// Namespace and name of the Lease.
    pub lease: (String, String),
    /// Place from which to go on; 0: none.
    pub place: u64,
    /// True if events that are there before the first watch are passed over, without a place.
    pub skips_first: bool,
}

/// Events of a cluster, as they come. Dropping it stops it.
pub struct ClusterEventFeed {
    shared: Arc<FeedShared>,
    watching: Arc<HttpTransport>,
    threads: Vec<JoinHandle<()>>,
}

struct FeedShared {
    settings: EventFeedSettings,
    outlet: EventOutlet,
    stop: StopSignal,
    counts: Arc<EventFeedCounts>,
    /// Name of this process among those that share the Lease. No two have the same.
    identity: String,
}

impl ClusterEventFeed {
    /// Starts the threads `kube-lease` and `kube-events`. Nothing is asked before this returns.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        access: &ClusterAccess,
        settings: EventFeedSettings,
        counts: Arc<EventFeedCounts>,
    ) -> io::Result<Self> {
        let shared = Arc::new(FeedShared {
            outlet: EventOutlet::new(settings.place),
            settings,
            stop: StopSignal::default(),
            counts,
            identity: identity(),
        });
        let watching = Arc::new(HttpTransport::new(access.clone()));
        let leasing = HttpTransport::new(access.clone());
        let mut feed = Self {
            shared: Arc::clone(&shared),
            watching: Arc::clone(&watching),
            threads: Vec::new(),
        };
        let (watched, leased) = (Arc::clone(&shared), shared);
        let thread = std::thread::Builder::new().name("kube-lease".into());
        feed.threads
            .push(thread.spawn(move || leased.hold_lease(&leasing))?);
        let thread = std::thread::Builder::new().name("kube-events".into());
        feed.threads
            .push(thread.spawn(move || watched.watch(&watching))?);
        Ok(feed)
    }

    /// The next item, if there is one and this process leads. Never waits.
    pub fn take(&self) -> Option<EventItem> {
        self.shared.outlet.take()
    }

    /// Notes that all events up to a place are durable.
    pub fn note_durable(&self, place: u64) {
        self.shared.outlet.note_durable(place);
    }

    /// True while this process leads.
    pub fn leads(&self) -> bool {
        self.shared.outlet.leads()
    }

    /// Ends all requests, gives the Lease back and waits for the threads: six seconds at most where
    /// the API does not answer.
    pub fn stop(&mut self) {
        self.shared.stop.stop();
        self.shared.outlet.stop();
        self.watching.stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("kubernetes: a thread of events ended by a panic");
            }
        }
    }
}

impl Drop for ClusterEventFeed {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A name that no other process has, and by which people find this one: that of the pod.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "inrush".to_owned());
    format!("{host}_{:016x}", fastrand::u64(..))
}

impl FeedShared {
    fn watch(&self, transport: &HttpTransport) {
        let path = match &self.settings.namespace {
            None => "/api/v1/events".to_owned(),
            Some(namespace) => {
                let mut path = "/api/v1/namespaces/".to_owned();
                push_escaped(&mut path, namespace);
                path.push_str("/events");
                path
            }
        };
        let context = WatcherContext {
            transport,
            outlet: &self.outlet,
            stop: &self.stop,
            counts: &self.counts,
            path: &path,
        };
        EventWatcher::new(context, self.settings.skips_first).run();
    }

    fn hold_lease(&self, transport: &HttpTransport) {
        let (namespace, name) = &self.settings.lease;
        let holder = LeaseHolder {
            transport,
            outlet: &self.outlet,
            stop: &self.stop,
            counts: &self.counts,
            namespace,
            name,
            identity: &self.identity,
        };
        holder.run();
    }
}
