//! The Lease object (coordination.k8s.io/v1), and the thread that holds it.
//!
//! # What it guarantees
//! * Labels, annotations and fields of others stay as they are; a write replaces the version read.
//! * With each renewal the annotation [`PLACE`] says up to which version events are durable here,
//!   so that the next process goes on behind them.
//! * At the stop the Lease is given back, within [`RELEASE_WAIT`].

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::lease::{LeaseAction, LeaseElection, LeaseRecord, LeaseReply, LeaseTiming};
use super::outlet::EventOutlet;
use super::watcher::EventFeedCounts;
use crate::answer::read_status;
use crate::client::{ApiExchange, ApiMethod, HttpTransport};
use crate::reflector::StopSignal;

/// Annotation with the place of the process that holds the Lease.
const PLACE: &str = "inrush.io/events-version";
/// Times of the election: those of Kubernetes' own controllers (`client-go`, leaderelection), but
/// for a quieter renewal.
pub(super) const TIMING: LeaseTiming = LeaseTiming {
    duration: Duration::from_secs(15),
    lead: Duration::from_secs(10),
    retry: Duration::from_secs(3),
};
/// Longest time of a request: of a lead of ten seconds some are left.
const REQUEST_WAIT: Duration = Duration::from_secs(4);
/// Longest time of the request that gives the Lease back.
const RELEASE_WAIT: Duration = Duration::from_secs(2);
/// Time between two warnings of one fault that lasts.
const WARN_EVERY: Duration = Duration::from_secs(600);

/// Lease of a name, and the way to it.
pub(super) struct LeaseHolder<'a> {
    pub(super) transport: &'a HttpTransport,
    pub(super) outlet: &'a EventOutlet,
    pub(super) stop: &'a StopSignal,
    pub(super) counts: &'a EventFeedCounts,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) identity: &'a str,
}

/// The object as it was last read or written.
#[derive(Default)]
struct LeaseState {
    object: Map<String, Value>,
    warned: Option<Instant>,
}

impl LeaseHolder<'_> {
    /// Takes the Lease, renews it, and gives it back at the stop.
    pub(super) fn run(&self) {
        let begun = Instant::now();
        let mut election = LeaseElection::new(self.identity.to_owned(), TIMING);
        let mut state = LeaseState::default();
        while !self.stop.is_stopped() {
            let action = election.next(begun.elapsed());
            if let LeaseAction::Wait(wait) = action {
                self.stop.wait(wait);
                continue;
            }
            let foreign_place = state.place();
            let sent = begun.elapsed();
            let reply = self.perform(&action, &mut state);
            let takes = match (&reply, &action) {
                (LeaseReply::Written(_), LeaseAction::Create) => true,
                (LeaseReply::Written(_), LeaseAction::Replace { takes, .. }) => *takes,
                _ => false,
            };
            election.reply(reply, sent, begun.elapsed());
            if takes {
                self.counts.takeovers.fetch_add(1, Ordering::Relaxed);
                let (namespace, name) = (self.namespace, self.name);
                tracing::info!("kubernetes: this process has the Lease {namespace}/{name}");
            }
            let until = election.leads_until().map(|until| begun + until);
            self.outlet.lead(until, takes, foreign_place);
        }
        self.outlet.lead(None, false, 0);
        if let Some(record) = election.release() {
            let place = self.outlet.durable();
            let body = state.body(self, "", &record.version, place, record.transitions);
            // Without it others wait for the duration.
            let _ = self.exchange(ApiMethod::Put, body, RELEASE_WAIT);
        }
    }

    fn perform(&self, action: &LeaseAction, state: &mut LeaseState) -> LeaseReply {
        let (method, body) = match action {
            LeaseAction::Read | LeaseAction::Wait(_) => (ApiMethod::Get, Vec::new()),
            LeaseAction::Create => {
                state.object = Map::new();
                let place = self.outlet.durable();
                (
                    ApiMethod::Post,
                    state.body(self, self.identity, "", place, 0),
                )
            }
            LeaseAction::Replace {
                version,
                transitions,
                takes,
            } => {
                // What the one before has noted counts until it is ours to go on.
                let place = self.outlet.durable();
                let place = if *takes {
                    place.max(state.place())
                } else {
                    place
                };
                let body = state.body(self, self.identity, version, place, *transitions);
                (ApiMethod::Put, body)
            }
        };
        let answer = self.exchange(method, body, REQUEST_WAIT);
        let (status, body) = match answer {
            Ok(answer) => answer,
            Err(words) => return self.fail(state, &words),
        };
        match (status, method) {
            (200 | 201, _) => match state.keep(&body) {
                Some(record) if method == ApiMethod::Get => LeaseReply::Found(record),
                Some(record) => LeaseReply::Written(record),
                None => self.fail(state, "the answer is no Lease"),
            },
            (404, ApiMethod::Get | ApiMethod::Put) => LeaseReply::Missing,
            (409, ApiMethod::Post | ApiMethod::Put) => LeaseReply::Conflict,
            _ => {
                let said = read_status(status, &body);
                self.fail(state, &format!("HTTP {status}: {}", said.message))
            }
        }
    }

    fn exchange(
        &self,
        method: ApiMethod,
        body: Vec<u8>,
        wait: Duration,
    ) -> Result<(u16, Vec<u8>), String> {
        let leases = format!(
            "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
            self.namespace
        );
        let path = match method {
            ApiMethod::Post => leases,
            ApiMethod::Get | ApiMethod::Put => format!("{leases}/{}", self.name),
        };
        let exchange = ApiExchange {
            method,
            path,
            body,
            wait,
        };
        self.transport
            .exchange(&exchange)
            .map_err(|failure| failure.to_string())
    }

    fn fail(&self, state: &mut LeaseState, words: &str) -> LeaseReply {
        self.counts.lease_failures.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        if state.warned.is_none_or(|at| at + WARN_EVERY <= now) {
            state.warned = Some(now);
            tracing::warn!(
                "kubernetes: the Lease {}/{} cannot be read or written: {words}; no events are \
                 read without it. Grant `get`, `create` and `update` on `leases` in this namespace",
                self.namespace,
                self.name
            );
        }
        LeaseReply::Failed
    }
}

impl LeaseState {
    /// The place that the holder has noted; 0: none.
    fn place(&self) -> u64 {
        let noted = self
            .object
            .get("metadata")
            .and_then(|metadata| metadata.get("annotations")?.get(PLACE)?.as_str());
        noted.and_then(|noted| noted.parse().ok()).unwrap_or(0)
    }

    /// Keeps the object of an answer; `None` if it is no Lease.
    fn keep(&mut self, body: &[u8]) -> Option<LeaseRecord> {
        let object: Map<String, Value> = serde_json::from_slice(body).ok()?;
        let spec = object.get("spec").and_then(Value::as_object);
        let of = |name: &str| spec.and_then(|spec| spec.get(name));
        let seconds = of("leaseDurationSeconds").and_then(Value::as_u64);
        let transitions = of("leaseTransitions").and_then(Value::as_u64);
        let holder = of("holderIdentity").and_then(Value::as_str);
        let version = object.get("metadata")?.get("resourceVersion")?.as_str()?;
        let record = LeaseRecord {
            version: version.to_owned(),
            holder: holder.unwrap_or_default().to_owned(),
            duration: Duration::from_secs(seconds.unwrap_or_default()),
            transitions: transitions
                .and_then(|count| u32::try_from(count).ok())
                .unwrap_or_default(),
        };
        self.object = object;
        Some(record)
    }

    /// The object with our name and place; without a name it is given back.
    fn body(
        &self,
        of: &LeaseHolder<'_>,
        holder: &str,
        version: &str,
        place: u64,
        transitions: u32,
    ) -> Vec<u8> {
        let mut object = self.object.clone();
        object.insert("apiVersion".into(), "coordination.k8s.io/v1".into());
        object.insert("kind".into(), "Lease".into());
        change(&mut object, "metadata", |metadata| {
            metadata.insert("name".into(), of.name.into());
            metadata.insert("namespace".into(), of.namespace.into());
            if !version.is_empty() {
                metadata.insert("resourceVersion".into(), version.into());
            }
            metadata.remove("managedFields");
            change(metadata, "annotations", |annotations| {
                annotations.insert(PLACE.into(), place.to_string().into());
            });
        });
        // The API wants six digits of a second, neither more nor fewer.
        let now = format!("{:.6}", Timestamp::now());
        change(&mut object, "spec", |spec| {
            if spec.get("holderIdentity").and_then(Value::as_str) != Some(holder) {
                spec.insert("acquireTime".into(), now.clone().into());
            }
            spec.insert("holderIdentity".into(), holder.into());
            spec.insert(
                "leaseDurationSeconds".into(),
                TIMING.duration.as_secs().into(),
            );
            spec.insert("renewTime".into(), now.into());
            spec.insert("leaseTransitions".into(), transitions.into());
        });
        serde_json::to_vec(&object).unwrap_or_default()
    }
}

/// Changes the mapping of that name, which is made anew if it is none.
fn change(of: &mut Map<String, Value>, name: &str, how: impl FnOnce(&mut Map<String, Value>)) {
    let mut inner = match of.remove(name) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    how(&mut inner);
    of.insert(name.to_owned(), Value::Object(inner));
}
