//! Events whose whole content follows from the seed and their number, so that any that comes out
//! can be compared with what went in, without keeping it.

use std::sync::Arc;

use fastrand::Rng;
use inrush_event::{
    Anomalies, Batch, BatchPool, Format, Peer, Protocol, Record, SourceInfo, Span, Timestamp,
    limits,
};

use crate::streams;

/// Names of the sources; an event's batch decides which is its own.
pub(crate) const SOURCES: [&str; 3] = ["edge", "core", "lab"];

/// Name of the HEC server; its events are made by [`EventGenerator::write_envelope`].
pub(crate) const COLLECTOR: &str = "collector";

/// Bytes of the number at the start of every event, in hexadecimal.
const NUMBER_BYTES: usize = 8;

/// Makes events and knows them again.
pub(crate) struct EventGenerator {
    seed: u64,
    pool: Arc<BatchPool>,
    sources: Vec<Arc<SourceInfo>>,
    sequence: u64,
    /// The event that was made last.
    text: Vec<u8>,
    /// Bytes of text of an event of the collector, at most.
    text_max: usize,
}

impl EventGenerator {
    /// Events of one seed; the pool may be shared by many seeds.
    pub(crate) fn new(seed: u64, pool: &Arc<BatchPool>) -> Self {
        let source = |name: &&str| {
            Arc::new(SourceInfo {
                name: (*name).to_owned(),
                index: format!("index-{name}"),
                sourcetype: "simulated".to_owned(),
            })
        };
        Self {
            seed,
            pool: Arc::clone(pool),
            sources: SOURCES.iter().map(source).collect(),
            sequence: 0,
            text: Vec::new(),
            text_max: 0,
        }
    }

    /// The source of this number.
    pub(crate) fn source(&self, source: usize) -> &Arc<SourceInfo> {
        &self.sources[source]
    }

    /// The batch of events `first..first + events` from a source, with positions of its streams.
    pub(crate) fn batch(
        &mut self,
        source: usize,
        (first, events): (u32, u32),
        positions: &[(u64, u64)],
    ) -> Batch {
        let mut builder = self
            .pool
            .lend(&self.sources[source], limits::MESSAGE_BYTES_DEFAULT);
        builder.stamp(Timestamp(1_000_000 + i64::from(first)));
        for number in first..first + events {
            let mut rng = self.write(number);
            let start = builder.filled();
            builder.extend(&self.text);
            let peer = builder.peer(peer(&mut rng));
            let record = record(&mut rng, start, self.text.len(), peer);
            builder.parts().1.push(record);
        }
        for (stream, token) in positions {
            builder.note_position(*stream, streams::state(*token));
        }
        self.sequence += 1;
        builder.freeze(self.sequence)
    }

    /// The number of an event that came out, once all of it is as it was made.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check(&mut self, batch: &Batch, index: u32) -> Result<u32, String> {
        let record = batch
            .records()
            .get(index as usize)
            .ok_or("a range beyond the batch")?;
        let raw = batch.get(record.raw);
        let digits = raw
            .get(..NUMBER_BYTES)
            .and_then(|d| std::str::from_utf8(d).ok());
        let number = digits
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .ok_or("an event that nobody sent")?;
        if batch.source().name == COLLECTOR {
            return self.check_envelope(number, raw, record);
        }
        let mut rng = self.write(number);
        if raw != self.text {
            return Err(format!("event {number} has other bytes"));
        }
        let sender = peer(&mut rng);
        if batch.peer(record) != Some(&sender) {
            return Err(format!("event {number} has another sender"));
        }
        let made = self::record(&mut rng, record.raw.start as usize, raw.len(), record.peer);
        if !same(&made, record) {
            return Err(format!("event {number}: {record:?} instead of {made:?}"));
        }
        Ok(number)
    }

    /// Appends an event as a client sends it to the collector.
    pub(crate) fn write_envelope(&mut self, number: u32, text_max: usize, out: &mut Vec<u8>) {
        let mut rng = self.rng(number);
        let length = match rng.u8(..8) {
            0 => rng.usize(..text_max.max(1)),
            _ => rng.usize(..20),
        };
        self.text.clear();
        self.text
            .extend_from_slice(format!("{number:08x}").as_bytes());
        self.text.extend((0..length).map(|_| rng.u8(b'a'..=b'z')));
        out.extend_from_slice(format!("{{\"time\":{number},\"event\":\"").as_bytes());
        out.extend_from_slice(&self.text);
        out.extend_from_slice(b"\"}");
        self.text_max = text_max;
    }

    fn check_envelope(&mut self, number: u32, raw: &[u8], record: &Record) -> Result<u32, String> {
        self.write_envelope(number, self.text_max, &mut Vec::new());
        let time = Timestamp(i64::from(number) * 1_000_000_000);
        let same = raw == self.text && record.format == Format::Hec && record.event_time == time;
        match same {
            true => Ok(number),
            false => Err(format!("event {number} of the collector is {record:?}")),
        }
    }

    fn rng(&self, number: u32) -> Rng {
        Rng::with_seed(self.seed ^ (u64::from(number) << 20))
    }

    /// Puts the event's bytes into `text`; the generator goes on to its other properties.
    fn write(&mut self, number: u32) -> Rng {
        let mut rng = self.rng(number);
        let length = match rng.u8(..32) {
            0 => rng.usize(..3000),
            1..8 => rng.usize(..300),
            _ => rng.usize(..40),
        };
        self.text.clear();
        let digit = |place: u32| b"0123456789abcdef"[(number >> (4 * place)) as usize & 15];
        self.text.extend((0..NUMBER_BYTES as u32).rev().map(digit));
        self.text.resize(NUMBER_BYTES + length, 0);
        rng.fill(&mut self.text[NUMBER_BYTES..]);
        rng
    }
}

fn same(a: &Record, b: &Record) -> bool {
    let spans = |r: &Record| {
        [
            r.raw, r.host, r.app, r.proc_id, r.msg_id, r.sdata, r.message,
        ]
    };
    let marks = |r: &Record| {
        (
            r.event_time,
            r.received,
            r.anomalies,
            r.zone_minutes,
            r.class,
        )
    };
    spans(a) == spans(b) && marks(a) == marks(b) && (a.pri, a.format) == (b.pri, b.format)
}

fn peer(rng: &mut Rng) -> Peer {
    let last = rng.u8(..3);
    let protocol = [Protocol::Udp, Protocol::Tcp, Protocol::Tls][rng.usize(..3)];
    // One that has shown a certificate among others of the same batch that have not.
    let client = (protocol == Protocol::Tls && last > 0).then(|| format!("relay-{last}").into());
    Peer {
        ip: [10, 0, 0, last].into(),
        local_port: 514,
        protocol,
        client,
    }
}

fn record(rng: &mut Rng, start: usize, length: usize, peer: u32) -> Record {
    let raw = Span::new(start, start + length);
    let mut part = || {
        let from = rng.usize(..=length);
        let to = rng.usize(from..=length);
        Span::new(start + from, start + to)
    };
    let mut record = Record::unparsed(raw, Timestamp(7), peer, Anomalies::NONE);
    record.host = part();
    record.message = part();
    record.event_time = Timestamp(rng.i64(1..1 << 40));
    record.pri = rng.u8(..192);
    record.format = [Format::Unparsed, Format::Rfc3164, Format::Rfc5424][rng.usize(..3)];
    record
}
