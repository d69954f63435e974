//! What a filler counts, and when: on clocks that the tests set.
#![allow(clippy::unwrap_used)]

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use inrush_codec::SyslogOptions;
use inrush_event::{
    Batch, Delivery, Fate, Feed, FeedNext, Peer, Protocol, SourceInfo, SourceSnapshot,
    StreamPosition, Timestamp,
};
use inrush_queue::{DestinationFeed, Durability, QueueOptions};
use inrush_transport::nodes::NumaNodes;

use super::*;
use crate::enrichment::Enrichment;
use crate::numa::NumaPlacement;
use crate::options::HostsOptions;
use crate::options::{EnrichmentOptions, PacksOptions, TransformOptions};
use crate::pool::{WorkPool, sleepless};

/// Rules of a bench: a transform that takes events out that a program writes.
pub(super) const DROP_NOISE: &str = "drop noise; ";

/// Rules of a bench: the packs that come with Inrush.
pub(super) const ISE: &str = "packs; ";

/// One worker of one source, and what it counts.
pub(super) struct Bench {
    doors: WorkerContext,
    pub(super) filler: BatchWriter,
    pub(super) source: Arc<IngestSource>,
    feed: Arc<DestinationFeed>,
    start: Now,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.doors.pool_threads.stop();
    }
}

fn settings(rules: &str) -> IngestSettings {
    let info = SourceInfo {
        name: "s".to_owned(),
        index: "main".to_owned(),
        sourcetype: "syslog".to_owned(),
    };
    let syslog = SyslogOptions::default();
    let zone = syslog.zone().unwrap();
    known(rules).settings(info, None, &syslog, zone)
}

/// Compiled once for all tests of the same rules: it takes a second in a debug build.
fn known(rules: &str) -> Enrichment {
    static ALL: Mutex<Vec<(String, Enrichment)>> = Mutex::new(Vec::new());
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = all.iter().find(|(of, _)| of == rules) {
        return known.clone();
    }
    let noise = TransformOptions {
        name: Some("noise".to_owned()),
        condition: Some("program == \"noise\"".to_owned()),
        drop: true,
        ..TransformOptions::default()
    };
    let packs = PacksOptions {
        enabled: rules.contains(ISE),
        ..PacksOptions::default()
    };
    let options = EnrichmentOptions {
        packs: &packs,
        hosts: &HostsOptions::default(),
        transforms: match rules.contains(DROP_NOISE) {
            true => std::slice::from_ref(&noise),
            false => &[],
        },
        routes: &[],
        data_dir: Path::new(""),
    };
    let known = Enrichment::load(options, None).unwrap();
    all.push((rules.to_owned(), known.clone()));
    known
}

fn in_memory() -> QueueOptions {
    QueueOptions {
        durability: Durability::Memory,
        ..QueueOptions::default()
    }
}

/// Texts of a batch in the queue, and the positions that it carries: stream and state.
pub(super) type AppendedBatch = (Vec<String>, Vec<(u64, u64)>);

impl Bench {
    pub(super) fn new(rules: &str) -> Self {
        Self::of(rules, 1)
    }

    /// With so many workers in the process.
    pub(super) fn of(rules: &str, workers: usize) -> Self {
        Self::with(rules, workers, in_memory())
    }

    /// With such a queue.
    pub(super) fn with(rules: &str, workers: usize, options: QueueOptions) -> Self {
        let ledger = Ledger::new();
        let log = Log::new(options, Arc::clone(&ledger));
        let feed = log.attach(&ledger.destination("out"));
        let source = IngestSource::new("s", settings(rules), &ledger);
        let near = NumaPlacement::new(NumaNodes::of_process(), log.pool());
        let doors = WorkerContext {
            pool: log.pool(),
            log,
            ledger,
            room: MemoryBudget::new(),
            unknown: UnclassifiedTable::new(),
            pool_threads: WorkPool::new(workers),
            near,
            worker: 0,
        };
        Self {
            filler: BatchWriter::new(doors.clone(), Arc::clone(&source), sleepless()),
            doors,
            source,
            feed,
            start: Now::read(),
        }
    }

    pub(super) fn at(&self, ms: u64) -> Now {
        let later = Duration::from_millis(ms);
        Now {
            instant: self.start.instant + later,
            since: self.start.instant + later,
            wall: Timestamp(self.start.wall.0 + later.as_nanos() as i64),
        }
    }

    /// Takes in so many datagrams of a sender in one read.
    pub(super) fn read(&mut self, sender: u8, text: &str, times: usize, ms: u64) {
        let now = self.at(ms);
        for _ in 0..times {
            let peer = Origin::Peer(Peer {
                ip: IpAddr::from([192, 0, 2, sender]),
                local_port: 514,
                protocol: Protocol::Udp,
                client: None,
            });
            self.filler
                .take_datagram(text.as_bytes(), false, &peer, now);
        }
        self.filler.flush_if_due(now);
    }

    /// Hands on all that is due by then.
    pub(super) fn rest(&mut self, ms: u64) {
        let now = self.at(ms);
        while self.filler.due().is_some_and(|due| due <= now.instant) {
            self.filler.flush_if_due(now);
        }
    }

    pub(super) fn reload(&self, rules: &str) {
        self.source.replace_settings(settings(rules));
    }

    pub(super) fn row(&self) -> SourceSnapshot {
        let ledger = self.doors.ledger.snapshot();
        assert!(ledger.balanced, "{ledger:#?}");
        ledger.sources["s"].clone()
    }

    pub(super) fn filtered(&self, rule: &str) -> u64 {
        let filtered = self.doors.ledger.snapshot().filtered;
        filtered.get(rule).copied().unwrap_or(0)
    }

    /// Ends the threads that help; there will be no others.
    pub(super) fn stop_pool(&self) {
        self.doors.pool_threads.stop();
    }

    /// Position below which all is as durable as the queue promises.
    pub(super) fn durable_end(&self) -> u64 {
        self.doors.log.durable_end()
    }

    /// Notes that a stream was read up to a number.
    pub(super) fn note(&mut self, stream: u64, number: u64) {
        let state = number.to_le_bytes().to_vec();
        self.filler.note_position(stream, state);
    }

    /// The batches that reached the queue since the last time: their texts, and the positions that
    /// they carry.
    pub(super) fn batches(&self) -> Vec<AppendedBatch> {
        let mut batches = Vec::new();
        while let FeedNext::Batch(Delivery {
            position, batch, ..
        }) = self.feed.next(Duration::ZERO)
        {
            let text = |record: &Record| String::from_utf8_lossy(batch.get(record.raw)).into();
            let texts = batch.records().iter().map(text).collect();
            batches.push((texts, numbers(batch.positions())));
            let all = 0..batch.len() as u32;
            self.feed.settle(position, all, Fate::Delivered);
        }
        batches
    }

    /// The positions of streams that are durable.
    pub(super) fn positions(&self) -> Vec<(u64, u64)> {
        numbers(&self.doors.log.positions("s"))
    }

    /// The queue takes nothing any more.
    pub(super) fn close_queue(&self) {
        self.doors.log.close();
    }

    /// What reached the queue since the last time, in order: who sent it, and its text.
    pub(super) fn events(&self) -> Vec<(IpAddr, String)> {
        self.take_events(|batch, record| String::from_utf8_lossy(batch.get(record.raw)).into())
    }

    /// The same with all that is known of each event.
    pub(super) fn described(&self) -> Vec<(IpAddr, String)> {
        self.take_events(|batch, record| {
            let names = batch.names(record);
            let texts = [
                names.index,
                names.sourcetype,
                names.product,
                batch.get(record.host),
                batch.get(record.app),
                batch.get(record.raw),
                batch.get(record.message),
            ];
            let texts = texts.map(String::from_utf8_lossy);
            let (time, odd) = (record.event_time, record.anomalies);
            format!(
                "{texts:?} {time:?} {odd:?} {:?} {}",
                record.format, record.pri
            )
        })
    }

    fn take_events(&self, told: impl Fn(&Batch, &Record) -> String) -> Vec<(IpAddr, String)> {
        let mut events = Vec::new();
        while let FeedNext::Batch(Delivery {
            position, batch, ..
        }) = self.feed.next(Duration::ZERO)
        {
            let ip = |record: &Record| batch.peer(record).unwrap().ip;
            let event = |record: &Record| (ip(record), told(&batch, record));
            events.extend(batch.records().iter().map(event));
            let all = 0..batch.len() as u32;
            self.feed.settle(position, all, Fate::Delivered);
        }
        events
    }

    /// Events of each sender, by the last number of its address.
    pub(super) fn senders(&self) -> Vec<(IpAddr, u64)> {
        let all = self.source.senders().into_iter();
        let mut all: Vec<_> = all.map(|(ip, sender)| (ip, sender.events)).collect();
        all.sort();
        all
    }
}

fn numbers(positions: &[StreamPosition]) -> Vec<(u64, u64)> {
    let number = |state: &[u8]| state.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let each = positions.iter();
    each.map(|one| (one.stream, number(&one.state).unwrap()))
        .collect()
}

pub(super) const NOISE: &str = "<13>May  6 07:08:09 h1 noise: x";
pub(super) const OTHER: &str = "<13>May  6 07:08:09 h1 other: x";

#[test]
fn what_was_filtered_before_a_reload_counts_by_the_rule_of_then() {
    let mut bench = Bench::new(DROP_NOISE);
    bench.read(1, NOISE, RECOGNISE_STEP, 0);
    bench.reload("");
    bench.read(2, OTHER, 1, 1);
    bench.rest(50);
    let step = RECOGNISE_STEP as u64;
    assert_eq!(bench.row().accepted, step + 1);
    assert_eq!(bench.filtered("noise"), step);
    let ip = |last| IpAddr::from([192, 0, 2, last]);
    assert_eq!(bench.senders(), [(ip(1), step), (ip(2), 1)]);
}

#[test]
fn what_is_all_filtered_is_counted_as_soon_as_what_is_not() {
    let mut bench = Bench::new(DROP_NOISE);
    for ms in [0, 10, 20] {
        bench.read(1, NOISE, RECOGNISE_STEP, ms);
        assert_eq!(bench.row().received, 0, "the batch is open");
    }
    bench.read(1, NOISE, RECOGNISE_STEP, 27);
    assert_eq!(bench.row().received, 4 * RECOGNISE_STEP as u64);
}

#[test]
fn what_has_not_a_byte_does_not_have_others_handed_on_sooner() {
    let mut bench = Bench::new("");
    bench.read(1, OTHER, 1, 0);
    bench.rest(50);
    bench.read(1, "", 1, 100);
    bench.read(1, OTHER, 1, 105);
    assert_eq!(bench.row().received, 1);
    bench.rest(126);
    let row = bench.row();
    assert_eq!((row.received, row.accepted), (3, 2));
}

#[test]
fn an_event_after_a_lull_waits_for_no_others() {
    let mut bench = Bench::new("");
    bench.read(1, OTHER, 1, 0);
    bench.rest(50);
    bench.read(1, OTHER, 1, 120);
    assert_eq!(bench.row().received, 1, "others may come soon after");
    bench.rest(150);
    bench.read(1, OTHER, 1, 300);
    assert_eq!(bench.row().received, 3);
}

#[test]
fn parts_of_an_event_that_is_not_taken_are_rejected_with_it() {
    let part = |number: u32| {
        format!("<181>May  6 07:08:09 psn1 CISE_RADIUS_Accounting 0000000007 3 {number} Step=2,")
    };
    let mut bench = Bench::new(ISE);
    for number in 0..2 {
        bench.read(1, &part(number), 1, 0);
    }
    bench.rest(50);
    assert_eq!((bench.row().held, bench.row().accepted), (2, 0));
    bench.doors.log.close();
    bench.read(1, &part(2), 1, 60);
    bench.rest(100);
    bench.rest(150);
    let row = bench.row();
    assert_eq!((row.held, row.accepted, row.received), (0, 0, 3));
    assert_eq!(row.rejected["shutdown"], 3);
    assert_eq!(bench.filtered("grouped:cisco_ise_parts"), 0);
}

#[test]
fn what_trickles_in_is_handed_on_at_a_tick() {
    let mut bench = Bench::new("");
    bench.read(1, OTHER, 1, 0);
    bench.filler.pace(true);
    let begun = bench.at(0).instant;
    assert_eq!(bench.filler.due(), Some(tick_after(begun, 0)));
    bench.filler.pace(false);
    assert_eq!(bench.filler.due(), Some(begun + LINGER));
    // After a lull there is nobody to wait for.
    bench.rest(100);
    bench.filler.pace(true);
    bench.read(1, OTHER, 1, 201);
    assert_eq!(bench.row().received, 2);
}
