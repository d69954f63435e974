//! Study of events: their header, their class, the name of their host, and what a user's rules make
//! of them. It reads no socket and posts nothing, so it can run in any thread.

use std::net::IpAddr;
use std::sync::Arc;

use inrush_codec::charset::CharsetConversion;
use inrush_codec::{Charset, SyslogParser};
use inrush_event::{Anomalies, BatchBuilder, Ledger, Origin, Record, Span, Timestamp};

use super::open_batch::{FramedEvent, OpenBatch, UnstudiedEvent};
use super::source::{IngestSettings, IngestSource};
use super::tally::flag_skewed;
use super::{RECOGNISE_STEP, SUM_STEP_BYTES, WorkerContext};
use crate::classification::{BatchClassifier, TimedAssembler};
use crate::hostname::Namer;
use crate::now::Now;
use crate::transform::{BatchRouting, EventTransformer};
use crate::unclassified::UnclassifiedTable;

/// Studies the events of one source in one thread, one batch after the other.
pub struct EventProcessor {
    source: Arc<IngestSource>,
    ledger: Arc<Ledger>,
    unknown: Arc<UnclassifiedTable>,
    parser: SyslogParser,
    /// Says what events are; `None` if nobody wants to know.
    recogniser: Option<BatchClassifier>,
    /// Names their hosts; `None` if nobody wants that.
    namer: Option<Namer>,
    /// Changes, filters and routes them; `None` if nobody wants that.
    shaper: Option<EventTransformer>,
    /// Events of the batch that were recognised.
    recognised: usize,
    /// True if batches are to know their checksums: the queue has a disk.
    sums: bool,
    /// Nanoseconds that an event's time may be from ours.
    skew_ns_max: u64,
    /// Charset of texts that are not UTF-8, if it is configured.
    encoding: Option<Charset>,
}

impl EventProcessor {
    /// A study of the events of `source` by these settings.
    pub fn new(
        doors: &WorkerContext,
        source: &Arc<IngestSource>,
        settings: &IngestSettings,
    ) -> Self {
        let recognition = settings.recognition.clone();
        Self {
            source: Arc::clone(source),
            ledger: Arc::clone(&doors.ledger),
            unknown: Arc::clone(&doors.unknown),
            parser: source.zones.parser(&settings.zone, settings.guess_timezone),
            recogniser: recognition.map(|known| BatchClassifier::new(known).watch()),
            namer: settings.names.clone().map(Namer::new),
            shaper: settings.transforms.clone().map(EventTransformer::new),
            recognised: 0,
            sums: doors.log.has_disk(),
            skew_ns_max: settings.skew_ns_max,
            encoding: settings.encoding,
        }
    }

    /// A study that reads headers and nothing else, beside all workers.
    pub(super) fn of_headers(
        ledger: &Arc<Ledger>,
        source: &Arc<IngestSource>,
        settings: &IngestSettings,
    ) -> Self {
        Self {
            source: Arc::clone(source),
            ledger: Arc::clone(ledger),
            unknown: UnclassifiedTable::new(),
            parser: source.zones.parser(&settings.zone, settings.guess_timezone),
            recogniser: None,
            namer: None,
            shaper: None,
            recognised: 0,
            sums: false,
            skew_ns_max: settings.skew_ns_max,
            encoding: settings.encoding,
        }
    }

    /// True if it does much for each event, also for one about which packs are not asked.
    pub(super) fn shapes(&self) -> bool {
        self.encoding.is_some() || self.shaper.is_some()
    }

    /// True if texts of its own are appended to a batch. One that outgrows its arena moves into
    /// fresh memory, which costs as much as to read it.
    pub(super) fn appends(&self) -> bool {
        let converts = self.encoding.is_some();
        converts || self.recogniser.is_some() || self.namer.is_some() || self.shaper.is_some()
    }

    /// A new batch is studied.
    pub(super) fn begin(&mut self) {
        self.recognised = 0;
        if let Some(recogniser) = &mut self.recogniser {
            recogniser.begin();
        }
        if let Some(namer) = &mut self.namer {
            namer.begin();
        }
        if let Some(shaper) = &mut self.shaper {
            shaper.begin();
        }
    }

    /// Reads the header of an event. Inlined into the loops over events: a call costs as much as a
    /// third of the taking in.
    #[inline(always)]
    pub(super) fn parse(&mut self, arena: &[u8], record: &mut Record, ip: Option<IpAddr>) {
        let Some(ip) = ip else {
            return self.parser.parse(arena, record);
        };
        if let Some(guess) = self.parser.parse_from(arena, record, ip) {
            let host = record.host.of(arena);
            let IngestSource { zones, name, .. } = &*self.source;
            zones.note(name, ip, host, guess, record.received);
        }
    }

    /// Says what the new events are, if there are so many, while they are warm. What a rule takes
    /// out is counted with the batch.
    pub(super) fn recognise(
        &mut self,
        open: &mut OpenBatch,
        events_min: usize,
        hold: Option<TimedAssembler<'_>>,
        now: Now,
    ) {
        if open.builder.len() < self.recognised + events_min {
            return;
        }
        let from = self.recognised;
        if let Some(encoding) = self.encoding {
            self.convert(open, from, encoding);
        }
        if let Some(recogniser) = &mut self.recogniser {
            let taken = recogniser.run(&mut open.builder, from, hold);
            for (sum, more) in [
                (&mut open.filtered, taken.filtered),
                (&mut open.held, taken.held),
            ] {
                sum.0 += more.0;
                sum.1 += more.1;
                // A rule or charset may have made a record longer than it came.
                open.tally.bytes = open.tally.bytes.saturating_sub(more.1);
            }
        }
        self.flag_skewed(open, from);
        if let Some(namer) = &mut self.namer {
            namer.run(&mut open.builder, from, now);
        }
        if let Some(shaper) = &mut self.shaper {
            let (events, bytes) = shaper.run(&mut open.builder, from);
            open.filtered.0 += events;
            open.filtered.1 += bytes;
            open.tally.bytes = open.tally.bytes.saturating_sub(bytes);
        }
        self.recognised = open.builder.len();
    }

    /// Converts the events from number `from` on that are not UTF-8. The text goes behind what was
    /// received, and the header is read again from there.
    fn convert(&mut self, open: &mut OpenBatch, from: usize, encoding: Charset) {
        for at in from..open.builder.len() {
            let record = open.builder.records()[at];
            let text = match encoding.convert(record.raw.of(open.builder.bytes())) {
                CharsetConversion::Not => continue,
                CharsetConversion::Invalid => {
                    open.tally.add_later(Anomalies::NOT_UTF8, 1);
                    open.builder.records_mut()[at]
                        .anomalies
                        .insert(Anomalies::NOT_UTF8);
                    continue;
                }
                CharsetConversion::Text(text) => text,
            };
            let start = open.builder.filled();
            open.builder.append(text.as_bytes());
            let span = Span::new(start, open.builder.filled());
            let mut framed = record.anomalies.framed();
            framed.insert(Anomalies::CONVERTED);
            let mut anew = Record::unparsed(span, record.received, record.peer, framed);
            self.parser.parse(open.builder.bytes(), &mut anew);
            open.tally.add_later(Anomalies::CONVERTED, 1);
            open.builder.records_mut()[at] = anew;
        }
    }

    /// The last event was put together from parts: all is known of it but its host's name and what
    /// a user's rules make of it. Its bytes were counted when its parts came.
    pub(super) fn put_together(&mut self, open: &mut OpenBatch, now: Now) {
        let last = open.builder.len() - 1;
        self.flag_skewed(open, last);
        if let Some(namer) = &mut self.namer {
            namer.run(&mut open.builder, last, now);
        }
        if let Some(shaper) = &mut self.shaper {
            open.filtered.0 += shaper.run(&mut open.builder, last).0;
        }
        self.recognised = open.builder.len();
    }

    /// Flags the events from number `from` on whose time is far from ours. Rules may have set it,
    /// so that is known only once they were asked.
    fn flag_skewed(&mut self, open: &mut OpenBatch, from: usize) {
        let records = &mut open.builder.records_mut()[from..];
        let events = flag_skewed(records, self.skew_ns_max);
        if events > 0 {
            open.tally.add_later(Anomalies::TIME_SKEWED, events);
        }
    }

    /// Studies up to `events` more of what was only read. Parts of events wait in `hold`; without
    /// one `false` is returned once there is a part, and the batch must be studied anew.
    #[must_use]
    pub(super) fn go_on(
        &mut self,
        open: &mut OpenBatch,
        events: usize,
        mut hold: Option<TimedAssembler<'_>>,
        now: Now,
    ) -> bool {
        let until = open.unstudied().min(open.studied.saturating_add(events));
        while open.studied < until {
            let end = until.min(open.studied + RECOGNISE_STEP);
            for at in open.studied..end {
                let record = match open.decoded.get(at) {
                    Some(event) => self.complete(event, &open.builder),
                    None => self.framed(open.rows[at], &open.builder),
                };
                open.builder.records_mut().push(record);
                open.tally.add(record.anomalies);
            }
            open.studied = end;
            let hold = hold.as_mut().map(|(groups, at)| (&mut **groups, *at));
            let may_hold = hold.is_some();
            self.recognise(open, 1, hold, now);
            let parts = self
                .recogniser
                .as_ref()
                .is_some_and(BatchClassifier::saw_part);
            if parts && !may_hold {
                self.forget();
                return false;
            }
            self.sum_up(open, SUM_STEP_BYTES);
        }
        true
    }

    /// The record of a frame, with its header.
    #[inline]
    fn framed(&mut self, row: FramedEvent, builder: &BatchBuilder) -> Record {
        let mut record = Record::unparsed(row.span, row.received, row.peer, row.anomalies);
        let ip = builder.origin_at(row.peer).and_then(Origin::ip);
        self.parse(builder.bytes(), &mut record, ip);
        record
    }

    /// The record of a decoded event. What its source gave holds, whatever its header says.
    fn complete(&mut self, event: &UnstudiedEvent, builder: &BatchBuilder) -> Record {
        let given = event.record;
        if !event.parses {
            return given;
        }
        let framed = FramedEvent {
            span: given.raw,
            received: given.received,
            peer: given.peer,
            anomalies: given.anomalies,
        };
        let mut record = self.framed(framed, builder);
        (record.class, record.extra) = (given.class, given.extra);
        if given.event_time != Timestamp::NONE {
            record.event_time = given.event_time;
        }
        if !given.host.is_empty() {
            record.host = given.host;
        }
        record
    }

    /// Sums up what was taken in, if the queue will write it and it is so many bytes.
    pub(super) fn sum_up(&self, open: &mut OpenBatch, bytes_min: usize) {
        if self.sums && open.builder.unsummed() >= bytes_min {
            open.builder.sum_up();
        }
    }

    /// The batch is whole: tells others what it taught us, and says by which rules events were
    /// filtered and where they go.
    pub(super) fn end(&mut self, open: &mut OpenBatch, now: Now) {
        if let Some(namer) = &mut self.namer {
            namer.tell(&open.builder, now);
        }
        if let Some(recogniser) = &mut self.recogniser {
            if let Some(fallen) = recogniser.fallen() {
                let events = fallen.tell(&self.unknown, &open.builder, now.wall);
                self.source.unrecognised.add(events);
                for (peer, events) in fallen.take_by_peer() {
                    open.tally.add_unrecognised(peer, events);
                }
            }
            let dropped = recogniser.take_dropped();
            let dropped = dropped.map(|(rule, n)| (self.ledger.filtered(rule), n));
            open.by_rule.extend(dropped);
        }
        if let Some(shaper) = &mut self.shaper {
            let filtered = shaper.take_filtered();
            let filtered = filtered.iter();
            let filtered = filtered.map(|(rule, n)| (self.ledger.filtered(rule), *n));
            open.by_rule.extend(filtered);
            open.routing = Some(shaper.routing());
        }
        if let Some(owned) = BatchRouting::by_owners(open.routing.as_ref(), &open.builder) {
            open.routing = Some(owned);
        }
        open.tally.end_run();
        self.sum_up(open, 0);
    }

    /// Forgets what was found out about the batch.
    fn forget(&mut self) {
        if let Some(recogniser) = &mut self.recogniser {
            recogniser.take_dropped().for_each(drop);
            if let Some(fallen) = recogniser.fallen() {
                fallen.forget();
            }
        }
        if let Some(shaper) = &mut self.shaper {
            shaper.take_filtered();
        }
        self.begin();
    }
}
