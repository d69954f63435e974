//! A request body under construction, and where each of its events came from.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use inrush_codec::encode::HecEncoder;
use inrush_event::{Batch, Delivery};

use super::pack::Buffer;
use crate::file::records;

/// Events of one delivery in a body.
pub(super) struct Part {
    pub(super) position: u64,
    pub(super) batch: Arc<Batch>,
    /// Which of the batch's records.
    pub(super) events: Range<u32>,
    /// The index in the body of the first of them.
    first: usize,
}

impl Part {
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

/// Envelopes joined by line feeds. The buffers are kept from request to request.
pub(super) struct Body {
    bytes: Buffer,
    /// Where each event ends, its line feed not included.
    ends: Vec<usize>,
    parts: Vec<Part>,
    bytes_max: usize,
    events_max: usize,
}

impl Body {
    pub(super) fn new(bytes_max: usize, events_max: usize) -> Self {
        let (bytes, ends, parts) = (Buffer::default(), Vec::new(), Vec::new());
        Self {
            bytes,
            ends,
            parts,
            bytes_max,
            events_max,
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.empty();
        self.ends.clear();
        self.parts.clear();
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
        let room = self.append(encoder, &delivery.batch, &delivery.events);
        let taken = (self.ends.len() - first) as u32;
        delivery.events.start += taken;
        if taken > 0 {
            let events = start..start + taken;
            let (position, batch) = (delivery.position, Arc::clone(&delivery.batch));
            self.parts.push(Part {
                position,
                batch,
                events,
                first,
            });
        }
        room
    }

    fn append(&mut self, encoder: &mut HecEncoder, batch: &Batch, events: &Range<u32>) -> bool {
        let bytes = self.bytes.edit();
        for record in records(batch, events) {
            if self.ends.len() >= self.events_max {
                return false;
            }
            let before = bytes.len();
            if before > 0 {
                bytes.push(b'\n');
            }
            encoder.encode(batch, record, bytes);
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

    /// Where the events in `range` came from, in order.
    pub(super) fn parts(&self, range: &Range<usize>) -> impl Iterator<Item = (&Part, Range<u32>)> {
        let range = range.clone();
        let of_part = move |part| (part, Part::records_in(part, &range));
        self.parts
            .iter()
            .map(of_part)
            .filter(|(_, events)| !events.is_empty())
    }
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
        }
    }

    fn encoder() -> HecEncoder {
        let options = HecOptions {
            source: None,
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
        let (mut body, mut encoder) = (Body::new(1 << 20, 100), encoder());
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
        let (mut body, mut encoder) = (Body::new(250, 100), encoder());
        let mut many = delivery(0, &["a", "b", "c", "d", "e", "f"]);
        assert!(!body.fill(&mut encoder, &mut many));
        assert!(body.slice(&(0..body.len())).len() <= 250);
        assert_eq!(many.events.start as usize, body.len());
        let (mut body, mut many) = (Body::new(1 << 20, 2), delivery(0, &["a", "b", "c"]));
        assert!(!body.fill(&mut encoder, &mut many));
        assert_eq!(many.events, 2..3);
    }

    #[test]
    fn an_event_beyond_the_limit_is_sent_alone() {
        let (mut body, mut encoder) = (Body::new(250, 100), encoder());
        let long = "x".repeat(1000);
        let mut two = delivery(0, &[&long, "b"]);
        assert!(!body.fill(&mut encoder, &mut two));
        assert_eq!(texts(&body.slice(&(0..body.len()))), [long]);
    }
}
