//! Intake of frames into a batch: rows that are parsed at once, or by another core later.

use std::net::IpAddr;
use std::sync::Arc;

use inrush_codec::Frame;
use inrush_event::{ClassList, Counter, FilledParts, Record, Timestamp};

use super::decoded::{AppendedTexts, NamedClasses};
use super::open_batch::{FramedEvent, OpenBatch, UnstudiedEvent, UnwantedEvents};
use super::processor::EventProcessor;
use super::tally::BatchTally;

/// Peer that frames come from, and the time of receipt.
#[derive(Clone, Copy)]
pub(super) struct FrameOrigin {
    /// Address of the sender, if it is a peer.
    pub(super) ip: Option<IpAddr>,
    /// Index of [`inrush_event::BatchBuilder::origin`].
    pub(super) peer: u32,
    pub(super) received: Timestamp,
}

/// Takes frames into a batch.
pub struct FrameIntake<'a> {
    pub(super) arena: &'a [u8],
    pub(super) records: &'a mut Vec<Record>,
    pub(super) classes: &'a mut ClassList,
    pub(super) named: &'a mut NamedClasses,
    pub(super) texts: &'a mut AppendedTexts,
    rows: &'a mut Vec<FramedEvent>,
    pub(super) decoded: &'a mut Vec<UnstudiedEvent>,
    pub(super) tally: &'a mut BatchTally,
    unwanted: &'a mut UnwantedEvents,
    pub(super) processor: &'a mut EventProcessor,
    /// True if events are studied later, and perhaps elsewhere.
    pub(super) lends: bool,
    pub(super) from: FrameOrigin,
    pub(super) events: u64,
    pub(super) bytes: u64,
}

impl<'a> FrameIntake<'a> {
    // Inlined with the rest: made for each datagram, it would go through memory otherwise.
    #[inline(always)]
    pub(super) fn new(
        open: &'a mut OpenBatch,
        processor: &'a mut EventProcessor,
        lends: bool,
        named: &'a mut NamedClasses,
        from: FrameOrigin,
    ) -> Self {
        let FilledParts {
            arena,
            records,
            classes,
        } = open.builder.filled_parts();
        Self {
            arena,
            records,
            classes,
            named,
            texts: &mut open.texts,
            rows: &mut open.rows,
            decoded: &mut open.decoded,
            tally: &mut open.tally,
            unwanted: &mut open.unwanted,
            processor,
            lends,
            from,
            events: 0,
            bytes: 0,
        }
    }

    /// Takes a frame as an event.
    #[inline(always)]
    pub fn take(&mut self, Frame { span, anomalies }: Frame) {
        let FrameOrigin { ip, peer, received } = self.from;
        self.events += 1;
        self.bytes += u64::from(span.len);
        if self.lends {
            return self.rows.push(FramedEvent {
                span,
                received,
                peer,
                anomalies,
            });
        }
        // Parsed where it stays: its 96 bytes are written once.
        self.records
            .push(Record::unparsed(span, received, peer, anomalies));
        if let Some(record) = self.records.last_mut() {
            self.processor.parse(self.arena, record, ip);
            self.tally.add(record.anomalies);
        }
    }

    /// Takes an event whose record the source has decoded; nothing of it is parsed.
    pub(super) fn take_record(&mut self, decode: impl FnOnce(&[u8], &mut Record), frame: Frame) {
        let FrameOrigin { peer, received, .. } = self.from;
        self.events += 1;
        self.bytes += u64::from(frame.span.len);
        let mut record = Record::unparsed(frame.span, received, peer, frame.anomalies);
        decode(self.arena, &mut record);
        self.tally.add(record.anomalies);
        self.records.push(record);
    }

    /// Counts a message without a byte: it is no event.
    pub fn note_empty(&mut self) {
        self.tally.empty += 1;
    }

    /// Counts an event of so many bytes that its source filters by `rule`, a counter of
    /// [`inrush_event::Ledger::filtered`]: it is received and accepted, and goes nowhere.
    pub fn note_filtered(&mut self, bytes: usize, rule: &Arc<Counter>) {
        self.unwanted.add(bytes, rule);
    }

    #[inline(always)]
    pub(super) fn end(self) {
        let events = self.records.len() + self.rows.len() + self.decoded.len();
        let last = events.wrapping_sub(1);
        let FrameOrigin { ip, peer, .. } = self.from;
        self.tally.add_peer(peer, ip, self.events, self.bytes, last);
    }
}
