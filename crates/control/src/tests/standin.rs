//! An `Admin` that answers what the test put there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender};

use inrush_config::{AdminOptions, HealthOptions};
use inrush_event::{Ledger, LedgerSnapshot, Metric, MetricPart, MetricSample, RejectReason};
use inrush_inspect::explain::{NearestRule, UnknownStatus};
use inrush_pipeline::ReloadReport;
use inrush_pipeline::quarantine::{QuarantineList, QuarantineQuery, ReplayReport};
use inrush_status::doors::DoorList;
use inrush_status::files::{FileList, FileListing, SourceFiles};
use inrush_status::overview::{FlowSnapshot, QueueFlow};
use inrush_status::{
    Admin, DestinationStatus, EdgeHealth, EdgeKind, HealthReport, HealthVerdict, SenderList,
    SenderStatus, SourceStatus,
};
use inrush_store::Store;

#[derive(Default)]
pub(super) struct StandIn {
    pub(super) unhealthy: bool,
    pub(super) problems: Vec<String>,
    /// What a reload finds under `admin`.
    pub(super) options: Mutex<AdminOptions>,
    /// The section `health` as a reload finds it.
    pub(super) health: Mutex<Option<HealthOptions>>,
    /// Answers of [`Admin::verdict`] so far.
    pub(super) verdicts: Arc<AtomicI64>,
    /// A reload says that it began, then waits to be let go.
    pub(super) gate: Option<(SyncSender<()>, Mutex<Receiver<()>>)>,
    /// Counts the snapshots of the flow; the time of a snapshot is its number.
    pub(super) gathered: Arc<AtomicI64>,
    /// How large a snapshot is at least.
    pub(super) ballast_bytes: usize,
}

impl Admin for StandIn {
    fn ledger(&self) -> LedgerSnapshot {
        let ledger = Ledger::new();
        let source = ledger.source("syslog");
        source.received.add(11);
        source.accepted.add(10);
        source.kernel_dropped.add(3);
        source.rejected(RejectReason::Empty).add(1);
        let destination = ledger.destination("tape");
        destination.accepted.add(10);
        destination.delivered.add(6);
        destination.pending.add(4);
        ledger.snapshot()
    }

    fn health(&self) -> HealthReport {
        let well = EdgeHealth {
            name: "syslog".into(),
            kind: EdgeKind::Source,
            ok: true,
            since_ns: None,
            reason: None,
        };
        let ill = EdgeHealth {
            name: "tape".into(),
            kind: EdgeKind::Destination,
            ok: !self.unhealthy,
            since_ns: self.unhealthy.then_some(1_700_000_000_000_000_001),
            reason: self.unhealthy.then(|| "No space left on device".into()),
        };
        HealthReport {
            healthy: !self.unhealthy,
            edges: vec![well, ill],
        }
    }

    fn verdict(&self) -> Option<HealthVerdict> {
        self.verdicts.fetch_add(1, Relaxed);
        Some(HealthVerdict::of(&self.health().edges, true))
    }

    fn health_options(&self) -> Option<HealthOptions> {
        self.health.lock().unwrap().clone()
    }

    fn sources(&self) -> Vec<SourceStatus> {
        vec![SourceStatus {
            name: "syslog".into(),
            type_name: "syslog".into(),
            listeners: vec!["udp://127.0.0.1:5514".into(), "tls://[::1]:6514".into()],
            connections: 21,
            sockets: 2,
            receive_buffer_bytes: 1 << 26,
            certificate_not_after: Some(1_800_000_000),
            anomalies: BTreeMap::from([("no_pri".to_owned(), 5)]),
            cut_bytes: BTreeMap::from([("oversize".to_owned(), 7)]),
            connection_errors: BTreeMap::from([("tls_handshake".to_owned(), 6)]),
            refused: Vec::new(),
            refused_others: 0,
        }]
    }

    fn doors(&self) -> DoorList {
        DoorList {
            at_ms: 5,
            bounds_s: Vec::new(),
            doors: Vec::new(),
        }
    }

    fn files(&self) -> FileList {
        let listing = FileListing {
            logs: 81,
            ..FileListing::default()
        };
        FileList {
            at_ms: 82,
            sources: vec![SourceFiles {
                source: "pods".into(),
                listing,
                workloads: Vec::new(),
            }],
        }
    }

    fn destinations(&self) -> Vec<DestinationStatus> {
        vec![DestinationStatus {
            name: "tape".into(),
            type_name: "file".into(),
            healthy: false,
            last_error: Some("disk full".into()),
            last_error_at_ns: Some(41),
            last_success_at_ns: Some(42),
            errors: BTreeMap::from([("io".to_owned(), 43)]),
            requests: 44,
            bytes: 45,
            retried: 46,
            rerouted: BTreeMap::from([("typo".to_owned(), 47)]),
            overflow: 0,
            concurrency: Some(4),
        }]
    }

    fn senders(&self) -> SenderList {
        let one = SenderStatus {
            ip: "2001:db8::7".parse().unwrap(),
            first_seen_ns: 51,
            last_seen_ns: 52,
            first_seen_ms: 55,
            last_seen_ms: 56,
            silent_s: 0.5,
            events: 53,
            bytes: 54,
            rate: 57.5,
            clock_skew_ms: Some(-58.0),
            zone_guessed: Some("-05:00".into()),
            format: "unparsed",
            recognised: Vec::new(),
            unrecognised: 0,
            unknown: true,
            sample: Some("what?".into()),
            source: "syslog".into(),
        };
        SenderList {
            senders: vec![one],
            others: Vec::new(),
        }
    }

    fn unknown(&self) -> Vec<UnknownStatus> {
        vec![UnknownStatus {
            source: "syslog".into(),
            format: "rfc3164",
            program: "gadget".into(),
            events: 61,
            first_seen_ns: 62,
            last_seen_ns: 63,
            sender: Some("192.0.2.7".parse().unwrap()),
            sample: "<13>gadget: x".into(),
            nearest: Some(NearestRule {
                rule: "acme".into(),
                why: "it is not so that message is `y*`".into(),
            }),
            recognised_by: None,
        }]
    }

    fn stores(&self) -> Vec<(String, Arc<Store>)> {
        Vec::new()
    }

    fn flow(&self) -> FlowSnapshot {
        FlowSnapshot {
            at_ms: self.gathered.fetch_add(1, Relaxed) + 1,
            version: "0.0.0",
            started_ms: 71,
            balanced: true,
            sources: Vec::new(),
            filtered: BTreeMap::from([("x".repeat(self.ballast_bytes), 0)]),
            destinations: Vec::new(),
            edges: Vec::new(),
            queue: QueueFlow {
                bytes: 72,
                bytes_max: 73,
                disk_bytes: 74,
                disk_bytes_max: 75,
                segments: 76,
                stall: None,
                full_in_s: Some(77),
            },
            threads: Vec::new(),
            resident_bytes: None,
            loss: Vec::new(),
            alarms: Vec::new(),
        }
    }

    fn explain(&self, source: Option<&str>, record: &[u8]) -> Result<Vec<u8>, String> {
        if record.is_empty() {
            return Err("the record is empty".to_owned());
        }
        let told = serde_json::json!({ "source": source, "bytes": record.len() });
        Ok(serde_json::to_vec(&told).unwrap())
    }

    fn admin_options(&self) -> AdminOptions {
        self.options.lock().unwrap().clone()
    }

    fn reload(&self) -> Result<ReloadReport, Vec<String>> {
        if let Some((began, go)) = &self.gate {
            began.send(()).unwrap();
            go.lock().unwrap().recv().unwrap();
        }
        if self.problems.is_empty() {
            return Ok(ReloadReport {
                changed: vec!["destination tape: path".into()],
            });
        }
        Err(self.problems.clone())
    }

    fn quarantine(&self, query: &QuarantineQuery) -> Result<QuarantineList, String> {
        Ok(QuarantineList {
            bytes: 61,
            bytes_max: 62,
            entries: vec![serde_json::to_value(query).unwrap()],
            more: true,
        })
    }

    fn replay(&self, query: &QuarantineQuery) -> Result<ReplayReport, String> {
        match &query.destination {
            Some(_) => Ok(ReplayReport {
                replayed: 63,
                ..ReplayReport::default()
            }),
            None => Err("the disk is on fire".to_owned()),
        }
    }

    fn drop_quarantined(&self, _: &QuarantineQuery) -> Result<u64, String> {
        Ok(64)
    }

    fn metrics(&self) -> Vec<MetricSample> {
        vec![MetricSample {
            metric: Metric::SourceReceived,
            part: MetricPart::Whole,
            labels: vec![("source", "sys\"log".into())],
            value: 11.0,
        }]
    }
}
