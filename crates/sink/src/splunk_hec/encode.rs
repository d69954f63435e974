//! A request body under construction, and where each of its events came from.

use std::borrow::Cow;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use inrush_codec::encode::{HecEncoder, json_escape};
use inrush_event::{Batch, BatchOrigin, Delivery};

use super::config::SplunkHecConfig;
use crate::file::records;
use crate::http::compression::Buffer;

/// Events of one delivery in a body.
pub(super) struct BodyPart {
    pub(super) position: u64,
    pub(super) batch: Arc<Batch>,
    pub(super) origin: BatchOrigin,
    /// Range of the batch's records.
    pub(super) events: Range<u32>,
    /// The index in the body of the first of them.
    first: usize,
}

impl BodyPart {
    /// The index that one of the batch's records is meant for.
    fn index(&self, record: u32) -> Cow<'_, str> {
        let batch = &self.batch;
        let index = match batch.records().get(record as usize) {
            Some(record) => batch.names(record).index,
            None => batch.source().index.as_bytes(),
        };
        String::from_utf8_lossy(index)
    }

    /// The records of this part that lie in `range` of the body; empty if none does.
    fn records_in(&self, range: &Range<usize>) -> Range<u32> {
        let end = self.first + self.events.len();
        let (from, to) = (
            range.start.clamp(self.first, end),
            range.end.clamp(self.first, end),
        );
        let at = |index: usize| self.events.start + (index - self.first) as u32;
        at(from)..at(to)
    }
}

/// Events of a body that follow each other and go to one index.
pub(super) struct IndexRun<'b> {
    /// Range of the body's events.
    pub(super) events: Range<usize>,
    /// The index.
    pub(super) index: Cow<'b, str>,
}

/// Envelopes joined by line feeds. The buffers are kept from request to request.
pub(super) struct RequestBody {
    bytes: Buffer,
    /// End offset of each event, its line feed not included.
    ends: Vec<usize>,
    parts: Vec<BodyPart>,
    bytes_max: usize,
    events_max: usize,
    /// True if events get their `inrush_id`.
    ids: bool,
    /// The index of all, in place of their own.
    index: Option<String>,
    /// True if they are sent to another index than theirs, and get `inrush_index`.
    rerouted: bool,
    /// Further indexed fields of the event that is being encoded.
    more: Vec<u8>,
}

impl RequestBody {
    pub(super) fn new(bytes_max: usize, events_max: usize, config: &SplunkHecConfig) -> Self {
        Self {
            bytes: Buffer::default(),
            ends: Vec::new(),
            parts: Vec::new(),
            bytes_max,
            events_max,
            ids: config.event_id,
            index: config.index.clone(),
            rerouted: false,
            more: Vec::new(),
        }
    }

    /// Empties it, for events that go to their own index or to another.
    pub(super) fn clear(&mut self, rerouted: bool) {
        self.rerouted = rerouted;
        self.bytes.empty();
        self.ends.clear();
        self.parts.clear();
    }

    /// True if these events are at least half of a full body, by bytes or by number.
    pub(super) fn is_half_full(&self, range: &Range<usize>) -> bool {
        2 * self.slice(range).len() >= self.bytes_max || 2 * range.len() >= self.events_max
    }

    /// Events in it.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Takes events from the front of `delivery` as long as there is room; false once there is
    /// none. A single event that is larger than the limit is taken when it is the first.
    pub(super) fn fill(&mut self, encoder: &mut HecEncoder, delivery: &mut Delivery) -> bool {
        let first = self.ends.len();
        let start = delivery.events.start;
        let room = self.append(encoder, delivery);
        let taken = (self.ends.len() - first) as u32;
        delivery.events.start += taken;
        if taken > 0 {
            let events = start..start + taken;
            self.parts.push(BodyPart {
                position: delivery.position,
                batch: Arc::clone(&delivery.batch),
                origin: delivery.origin,
                events,
                first,
            });
        }
        room
    }

    fn append(&mut self, encoder: &mut HecEncoder, delivery: &Delivery) -> bool {
        let (batch, events) = (&*delivery.batch, &delivery.events);
        let bytes = self.bytes.edit();
        self.more.clear();
        for (event, record) in events.clone().zip(records(batch, events)) {
            if self.ends.len() >= self.events_max {
                return false;
            }
            let before = bytes.len();
            if before > 0 {
                bytes.push(b'\n');
            }
            self.more.clear();
            if self.rerouted {
                self.more.extend_from_slice(b",\"inrush_index\":\"");
                json_escape(batch.names(record).index, &mut self.more);
                self.more.push(b'"');
            }
            if self.ids {
                push_id(&delivery.origin, event, &mut self.more);
            }
            encoder.encode(batch, record, &self.more, bytes);
            if bytes.len() > self.bytes_max && before > 0 {
                bytes.truncate(before);
                return false;
            }
            self.ends.push(bytes.len());
        }
        bytes.len() < self.bytes_max && self.ends.len() < self.events_max
    }

    /// The envelopes of the events in `range`, lent.
    pub(super) fn slice(&self, range: &Range<usize>) -> Bytes {
        let start = match range.start {
            0 => 0,
            first => self.ends[first - 1] + 1,
        };
        let end = match range.is_empty() {
            true => start,
            false => self.ends[range.end - 1],
        };
        self.bytes.share().slice(start..end)
    }

    /// The events in `range`, in runs that go to one index each, with which events of the body they
    /// are.
    pub(super) fn runs(&self, range: &Range<usize>) -> impl Iterator<Item = IndexRun<'_>> {
        self.parts(range).flat_map(move |(part, events)| {
            let mut from = events.start;
            std::iter::from_fn(move || {
                let index = (from < events.end).then(|| self.index(part, from))?;
                let same = |at: &u32| self.index(part, *at) == index;
                let to = from + (from..events.end).take_while(same).count() as u32;
                let first = part.first + (from - part.events.start) as usize;
                let events = first..first + (to - from) as usize;
                from = to;
                Some(IndexRun { events, index })
            })
        })
    }

    /// The index that a record of a part is sent to.
    fn index<'b>(&'b self, part: &'b BodyPart, record: u32) -> Cow<'b, str> {
        match &self.index {
            Some(index) => Cow::Borrowed(index),
            None => part.index(record),
        }
    }

    /// Parts that the events in `range` came from, in order.
    pub(super) fn parts(
        &self,
        range: &Range<usize>,
    ) -> impl Iterator<Item = (&BodyPart, Range<u32>)> {
        let range = range.clone();
        let of_part = move |part| (part, BodyPart::records_in(part, &range));
        self.parts
            .iter()
            .map(of_part)
            .filter(|(_, events)| !events.is_empty())
    }
}

/// Appends the field that names an event: `LOG-EPOCH-NUMBER`.
fn push_id(origin: &BatchOrigin, event: u32, out: &mut Vec<u8>) {
    let (log, epoch) = (origin.log, origin.epoch);
    let number = origin.first_event + u64::from(event);
    // Writing into a Vec cannot fail.
    let _ = write!(out, ",\"inrush_id\":\"{log:012x}-{epoch}-{number}\"");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use inrush_codec::encode::HecOptions;
    use inrush_event::{Anomalies, BatchPool, Record, SourceInfo, Span, Timestamp, limits};

    use super::*;

    fn delivery(position: u64, texts: &[&str]) -> Delivery {
        let source = Arc::new(SourceInfo {
            name: "s".into(),
            index: "i".into(),
            sourcetype: "t".into(),
        });
        let mut builder = BatchPool::new().lend(&source, limits::MESSAGE_BYTES_DEFAULT);
        for text in texts {
            let start = builder.filled();
            builder.extend(text.as_bytes());
            let span = Span::new(start, builder.filled());
            builder
                .parts()
                .1
                .push(Record::unparsed(span, Timestamp(0), 0, Anomalies::NONE));
        }
        let batch = Arc::new(builder.freeze(position));
        Delivery {
            position,
            batch,
            events: 0..texts.len() as u32,
            origin: BatchOrigin::default(),
        }
    }

    fn config() -> SplunkHecConfig {
        SplunkHecConfig::new(vec![], inrush_event::Secret::new("t"))
    }

    fn encoder() -> HecEncoder {
        let options = HecOptions {
            source: None,
            index: None,
            container: String::new(),
            indexed_fields: vec![],
        };
        HecEncoder::new(options)
    }

    fn texts(slice: &[u8]) -> Vec<String> {
        let lines = slice.split(|b| *b == b'\n').filter(|line| !line.is_empty());
        let text =
            |line| serde_json::from_slice::<serde_json::Value>(line).unwrap()["event"].clone();
        lines
            .map(|line| text(line).as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn a_body_knows_where_its_events_came_from() {
        let (mut body, mut encoder) = (RequestBody::new(1 << 20, 100, &config()), encoder());
        let (mut one, mut two) = (delivery(7, &["a", "b", "c"]), delivery(8, &["d", "e"]));
        one.events.start = 1;
        assert!(body.fill(&mut encoder, &mut one));
        assert!(body.fill(&mut encoder, &mut two));
        assert!(one.events.is_empty() && two.events.is_empty());
        assert_eq!(texts(&body.slice(&(0..4))), ["b", "c", "d", "e"]);
        assert_eq!(texts(&body.slice(&(1..3))), ["c", "d"]);
        let parts = |range| -> Vec<(u64, Range<u32>)> {
            body.parts(&range)
                .map(|(part, events)| (part.position, events))
                .collect()
        };
        assert_eq!(parts(0..4), [(7, 1..3), (8, 0..2)]);
        assert_eq!(parts(1..3), [(7, 2..3), (8, 0..1)]);
        assert_eq!(parts(3..4), [(8, 1..2)]);
        assert_eq!(parts(2..2), []);
    }

    #[test]
    fn limits_leave_the_rest_in_the_delivery() {
        let (mut body, mut encoder) = (RequestBody::new(250, 100, &config()), encoder());
        let mut many = delivery(0, &["a", "b", "c", "d", "e", "f"]);
        assert!(!body.fill(&mut encoder, &mut many));
        assert!(body.slice(&(0..body.len())).len() <= 250);
        assert_eq!(many.events.start as usize, body.len());
        let (mut body, mut many) = (
            RequestBody::new(1 << 20, 2, &config()),
            delivery(0, &["a", "b", "c"]),
        );
        assert!(!body.fill(&mut encoder, &mut many));
        assert_eq!(many.events, 2..3);
    }

    #[test]
    fn an_event_beyond_the_limit_is_sent_alone() {
        let (mut body, mut encoder) = (RequestBody::new(250, 100, &config()), encoder());
        let long = "x".repeat(1000);
        let mut two = delivery(0, &[&long, "b"]);
        assert!(!body.fill(&mut encoder, &mut two));
        assert_eq!(texts(&body.slice(&(0..body.len()))), [long]);
    }
}
