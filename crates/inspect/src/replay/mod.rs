//! Records that were kept before, read again by today's packs: for `inrush replay`.
//!
//! # What it guarantees
//! * A record is read as its source would read it now: the same header, the same rules, with the
//!   sender and the receive time of then. What was decided then counts for nothing.
//! * Bounded memory: [`PAGES_OPEN_MAX`] pages of [`PAGE_EVENTS_MAX`] events or 896 KiB each.
//! * What is filtered is counted by its rule, what is sent is counted by a ledger of its own
//!   ([`ReplayDelivery`]): read = filtered + delivered + refused + not delivered.
//!
//! # After a crash
//! Nothing is kept on disk and nothing is deleted: what was not delivered lies where it was read.

mod deliver;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

use inrush_codec::{SyslogParser, ZoneGuesses};
use inrush_config::{Config, SourceOptions};
use inrush_event::{
    Anomalies, Batch, BatchBuilder, BatchParts, BatchPool, Peer, Protocol, Record, SourceInfo,
    Span, Timestamp, limits,
};
use inrush_ingest::classification::BatchClassifier;
use inrush_ingest::enrichment::Enrichment;
use inrush_ingest::transform::EventTransformer;

use crate::explain;

pub use deliver::{DeliveryReport, DeliveryView, RefusalCount, ReplayDelivery};

/// Events of a page at most: what each was called before is kept beside it.
pub const PAGE_EVENTS_MAX: usize = 4096;

/// Pages that are being filled at most, one a source.
pub const PAGES_OPEN_MAX: usize = 16;

/// Metadata of an event: its time, host, index, sourcetype, source and product.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventMetadata {
    /// Its own time, or when it was received.
    pub time: Timestamp,
    /// The host that it is about.
    pub host: String,
    /// The index.
    pub index: String,
    /// The sourcetype.
    pub sourcetype: String,
    /// Splunk's `source`, empty if no rule set one; `None` where that was not kept.
    pub source: Option<String>,
    /// The vendor of the product.
    pub vendor: String,
    /// The product.
    pub product: String,
    /// A kind of event of the product; `None` where that was not kept.
    pub class: Option<String>,
}

impl EventMetadata {
    /// Of an event of a batch.
    pub fn of(batch: &Batch, record: &Record) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let names = batch.names(record);
        let host = match (batch.get(record.host), batch.peer(record)) {
            ([], Some(peer)) => peer.ip.to_string(),
            (host, _) => text(host),
        };
        Self {
            time: batch.time(record),
            host,
            index: text(names.index),
            sourcetype: text(names.sourcetype),
            source: Some(text(names.source)),
            vendor: text(names.vendor),
            product: text(names.product),
            class: Some(text(names.class)),
        }
    }
}

/// A record as it was kept.
#[derive(Debug)]
pub struct StoredRecord<'a> {
    /// Its bytes.
    pub raw: &'a [u8],
    /// Anomalies of its frame; others are found out anew.
    pub framing: Anomalies,
    /// The source that received it, by name.
    pub source: &'a str,
    /// Address of the sender, if it is known.
    pub sender: Option<IpAddr>,
    /// Protocol that it came by, if it is known.
    pub protocol: Option<Protocol>,
    /// The name in the client's certificate.
    pub client: Option<Arc<str>>,
    /// The port of ours that it came to; without one, that of the source's listener.
    pub local_port: Option<u16>,
    /// Receive time.
    pub received: Timestamp,
    /// Metadata that it has where it was kept.
    pub was: EventMetadata,
    /// Its number where it was kept, for whoever wants to find it there again.
    pub number: u64,
}

/// Anomalies of a frame: all that is left of the framing when a record is read again.
const FRAMING: [Anomalies; 4] = [
    Anomalies::OVERSIZE,
    Anomalies::UNTERMINATED,
    Anomalies::BAD_FRAME,
    Anomalies::DATAGRAM_CUT,
];

/// Of the anomalies with these names, joined by commas, those that a frame can have.
pub fn framing(names: &str) -> Anomalies {
    let has = |one: &Anomalies| one.names().all(|name| names.split(',').any(|n| n == name));
    FRAMING
        .into_iter()
        .filter(has)
        .fold(Anomalies::NONE, Anomalies::union)
}

/// The framing's part of a record's anomalies.
pub fn framing_of(all: Anomalies) -> Anomalies {
    let bits = FRAMING.into_iter().fold(0, |bits, one| bits | one.bits());
    Anomalies::from_bits(all.bits() & bits)
}

/// The way of that name.
pub fn protocol(name: &str) -> Option<Protocol> {
    use Protocol::{Relp, Relps, Tcp, Tls, Udp};
    [Udp, Tcp, Tls, Relp, Relps]
        .into_iter()
        .find(|one| one.name() == name)
}

/// Events of one source that were read again.
pub struct ReplayPage {
    /// As they are now.
    pub batch: Batch,
    /// Metadata that each event of the batch had before, and its number where it was kept.
    pub was: Vec<(EventMetadata, u64)>,
    /// Events that a rule took out: the metadata that each had, its number, and the rule.
    pub filtered: Vec<(EventMetadata, u64, String)>,
}

impl ReplayPage {
    /// Leaves out the events that `keep` does not want, by what they are and were.
    pub fn retain(&mut self, keep: impl Fn(&EventMetadata, &EventMetadata) -> bool) {
        let batch = &self.batch;
        let wanted = |(record, (was, _)): &(&Record, &(EventMetadata, u64))| {
            keep(&EventMetadata::of(batch, record), was)
        };
        let kept = batch.records().iter().zip(&self.was).filter(wanted);
        let (records, was): (Vec<Record>, Vec<_>) =
            kept.map(|(record, was)| (*record, was.clone())).unzip();
        if records.len() == self.was.len() {
            return;
        }
        self.was = was;
        self.batch = BatchParts {
            arena: 0..batch.bytes().len(),
            memory: batch.bytes().to_vec().into(),
            records,
            origins: batch.origins().to_vec(),
            classes: batch.classes().to_vec(),
            source: Arc::clone(batch.source()),
            sequence: batch.sequence(),
            received: batch.received(),
            only: None,
            destinations: None,
        }
        .into();
    }
}

/// Reads records again, by today's packs.
pub struct RecordReplayer<'c> {
    config: &'c Config,
    known: Enrichment,
    pool: Arc<BatchPool>,
    /// As whose a record counts whose source is not configured.
    stand_in: String,
    doors: BTreeMap<String, ReplaySource>,
    strangers: BTreeMap<String, u64>,
    sequence: u64,
}

impl<'c> RecordReplayer<'c> {
    /// For the sources and packs of `config`. `stand_in` names the source as whose records count
    /// that came to one which is no longer configured; the first one unless named.
    ///
    /// # Errors
    /// In words: there is no such source, or what is wrong with the packs.
    pub fn new(config: &'c Config, stand_in: Option<&str>) -> Result<Self, Vec<String>> {
        let (stand_in, _) = explain::source(config, stand_in).map_err(|words| vec![words])?;
        Ok(Self {
            known: Enrichment::load(config.enrichment(), None)?,
            config,
            pool: BatchPool::new(),
            stand_in: stand_in.to_owned(),
            doors: BTreeMap::new(),
            strangers: BTreeMap::new(),
            sequence: 0,
        })
    }

    /// Sources that are not configured, and how many records they had received.
    pub fn strangers(&self) -> &BTreeMap<String, u64> {
        &self.strangers
    }

    /// As whose the records of those count.
    pub fn stand_in(&self) -> &str {
        &self.stand_in
    }

    /// Reads one record; returns the pages that had to make room for it.
    ///
    /// # Errors
    /// In words: the source cannot be opened.
    pub fn take(&mut self, stored: StoredRecord<'_>) -> Result<Vec<ReplayPage>, String> {
        let stand_in;
        let mut name = stored.source;
        if !self.config.sources.contains_key(name) {
            *self.strangers.entry(name.to_owned()).or_default() += 1;
            stand_in = self.stand_in.clone();
            name = &stand_in;
        }
        let mut pages = Vec::new();
        let begins = self.doors.get(name).is_none_or(ReplaySource::is_empty);
        if begins && self.open() >= PAGES_OPEN_MAX {
            pages = self.finish();
        }
        let door = match self.doors.entry(name.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let (name, source) = explain::source(self.config, Some(name))?;
                place.insert(ReplaySource::new(name, source, &self.known, &self.pool)?)
            }
        };
        if !door.has_room(stored.raw.len()) {
            self.sequence += 1;
            pages.extend(door.turn(self.sequence));
        }
        door.take(stored);
        Ok(pages)
    }

    fn open(&self) -> usize {
        self.doors.values().filter(|door| !door.is_empty()).count()
    }

    /// Takes the events that were read and are in no page yet.
    pub fn finish(&mut self) -> Vec<ReplayPage> {
        let sequence = &mut self.sequence;
        let turned = self.doors.values_mut().filter_map(|door| {
            *sequence += 1;
            door.turn(*sequence)
        });
        turned.collect()
    }
}

/// Pipeline of a source without its sockets: parser, rules and transforms.
struct ReplaySource {
    pool: Arc<BatchPool>,
    info: Arc<SourceInfo>,
    message_bytes_max: usize,
    /// The ports that it listens at, by how.
    ports: Vec<(Protocol, u16)>,
    parser: SyslogParser,
    /// Nanoseconds that an event's time may be from ours.
    skew_ns_max: u64,
    recogniser: Option<BatchClassifier>,
    /// Transforms; where a record goes is said by who replays it.
    shaper: Option<EventTransformer>,
    builder: BatchBuilder,
    was: Vec<(EventMetadata, u64)>,
    filtered: Vec<(EventMetadata, u64, String)>,
}

/// Bytes that a record may come to need beyond its own: texts that rules make of it.
const SLACK_BYTES: usize = 4096;

impl ReplaySource {
    fn new(
        name: &str,
        source: &dyn SourceOptions,
        known: &Enrichment,
        pool: &Arc<BatchPool>,
    ) -> Result<Self, String> {
        let syslog = source.syslog().cloned().unwrap_or_default();
        let zone = syslog.zone();
        let zone = zone.map_err(|error| format!("source {name}: {error}"))?;
        let info = Arc::new(source.info(name));
        let message_bytes_max = syslog.message_bytes_max();
        let ports = source.listen().into_iter();
        Ok(Self {
            pool: Arc::clone(pool),
            builder: pool.lend(&info, message_bytes_max),
            info,
            message_bytes_max,
            ports: ports.map(|at| (at.protocol, at.addr.port())).collect(),
            recogniser: known
                .classifier(name, source.product(), &zone)
                .map(BatchClassifier::new),
            shaper: known.shape.clone().map(EventTransformer::without_routes),
            parser: match syslog.guess_timezone {
                true => SyslogParser::guessing(zone, ZoneGuesses::new()),
                false => SyslogParser::new(zone),
            },
            skew_ns_max: syslog.time_skew_ns_max(),
            was: Vec::new(),
            filtered: Vec::new(),
        })
    }

    fn is_empty(&self) -> bool {
        self.was.is_empty() && self.filtered.is_empty()
    }

    fn has_room(&mut self, raw_bytes: usize) -> bool {
        let events = self.was.len() + self.filtered.len();
        self.is_empty()
            || events < PAGE_EVENTS_MAX
                && self.builder.filled() < limits::BATCH_FLUSH_BYTES
                && self.builder.space().len() >= raw_bytes + SLACK_BYTES
    }

    fn take(&mut self, stored: StoredRecord<'_>) {
        let StoredRecord { mut framing, .. } = stored;
        let mut raw = stored.raw;
        if raw.len() > self.message_bytes_max {
            framing.insert(Anomalies::OVERSIZE);
            raw = &raw[..self.message_bytes_max];
        }
        if self.builder.is_empty() {
            self.builder.stamp(stored.received);
        }
        let start = self.builder.filled();
        self.builder.extend(raw);
        // Behind the bytes, with the first of which the batch takes its memory.
        let peer = self.peer(&stored);
        let peer = peer.map_or(u32::MAX, |peer| self.builder.peer(peer));
        let span = Span::new(start, self.builder.filled());
        let mut record = Record::unparsed(span, stored.received, peer, framing);
        let (arena, records) = self.builder.parts();
        // What is learnt of the sender shows in what is read next.
        match stored.sender {
            Some(sender) => {
                self.parser.parse_from(arena, &mut record, sender);
            }
            None => self.parser.parse(arena, &mut record),
        }
        records.push(record);
        if let Some(rule) = self.filtered_by() {
            return self.filtered.push((stored.was, stored.number, rule));
        }
        self.was.push((stored.was, stored.number));
    }

    /// Has rules and transforms asked about the last record; the one that took it out.
    fn filtered_by(&mut self) -> Option<String> {
        let last = self.builder.len() - 1;
        if let Some(recogniser) = &mut self.recogniser {
            recogniser.run(&mut self.builder, last, None);
            let dropped = recogniser.take_dropped().next();
            if let Some((rule, _)) = dropped {
                return Some(rule.to_owned());
            }
        }
        for record in &mut self.builder.records_mut()[last..] {
            record.flag_skew(self.skew_ns_max);
        }
        let shaper = self.shaper.as_mut()?;
        shaper.run(&mut self.builder, last);
        shaper.take_filtered().into_keys().next()
    }

    /// Sender of a record, and the port that it came to or would come to today.
    fn peer(&self, stored: &StoredRecord<'_>) -> Option<Peer> {
        let mut ports = self.ports.iter();
        let same = |(protocol, _): &&(Protocol, u16)| Some(*protocol) == stored.protocol;
        let listener = ports.clone().find(same).or_else(|| ports.next());
        Some(Peer {
            ip: stored.sender?,
            local_port: stored.local_port.or(listener.map(|(_, port)| *port))?,
            protocol: stored
                .protocol
                .or(listener.map(|(protocol, _)| *protocol))?,
            client: stored.client.clone(),
        })
    }

    /// Takes the page that was read so far, if it has any events, and begins the next.
    fn turn(&mut self, sequence: u64) -> Option<ReplayPage> {
        if self.is_empty() {
            return None;
        }
        let next = self.pool.lend(&self.info, self.message_bytes_max);
        let builder = std::mem::replace(&mut self.builder, next);
        if let Some(recogniser) = &mut self.recogniser {
            recogniser.begin();
        }
        if let Some(shaper) = &mut self.shaper {
            shaper.begin();
        }
        Some(ReplayPage {
            batch: builder.freeze(sequence),
            was: std::mem::take(&mut self.was),
            filtered: std::mem::take(&mut self.filtered),
        })
    }
}

#[cfg(test)]
mod tests;
