//! Senders of a source: counts, rate, clock skew, format and a sample record of each address.
//!
//! # What it guarantees
//! * A newcomer is always listed. In a full list the sender not seen for longest makes room.
//! * Counts of a sender that made room go to [`EvictedSenders`], so that the sums stay right.
//! * A system clock that is set back stops neither the rate nor the samples.
//!
//! # Limits
//! `SENDERS_MAX` senders a source. `SAMPLES_MAX` of them have a sample of `SAMPLE_BYTES_MAX` bytes,
//! replaced after `SAMPLE_EVERY_NS`. Each has `PRODUCTS_MAX` products of `PRODUCT_BYTES_MAX` bytes.
//! Rates are measured over windows of `WINDOW_NS`.
//!
//! # After a crash
//! Nothing is kept. A reload that keeps the source keeps its senders.

use std::collections::hash_map::RandomState;
use std::net::IpAddr;
use std::sync::Arc;

use inrush_event::{Anomalies, Batch, EventNames, Format, Record, Timestamp};
use lru::LruCache;

/// Senders remembered for a source; it bounds what spoofed addresses can make us hold to some
/// 15 MB.
const SENDERS_MAX: usize = 65_536;

/// Senders of which a record is kept to be shown; with [`SAMPLE_BYTES_MAX`], 4 MB.
const SAMPLES_MAX: usize = 4096;

/// Bytes of such a record.
const SAMPLE_BYTES_MAX: usize = 1024;

/// Products of a sender that are remembered: a relay sends for many.
const PRODUCTS_MAX: usize = 4;

/// Bytes of a product's name: packs choose it, and some take it from the event.
const PRODUCT_BYTES_MAX: usize = 64;

/// A record is kept for at least so long before a newer one takes its place, in nanoseconds.
const SAMPLE_EVERY_NS: i64 = 1_000_000_000;

/// The rate is measured over windows of this length, in nanoseconds: long enough for a sender of
/// one event in several seconds, short enough to see a surge.
const WINDOW_NS: i64 = 10_000_000_000;

/// Counts of what one sender brought in a batch.
#[derive(Clone, Copy, Debug)]
pub struct PeerTally {
    /// Address of the sender; `None` for an origin that is no peer.
    pub ip: Option<IpAddr>,
    /// Events taken in from the sender, also those that rules filter later.
    pub events: u64,
    /// Bytes of the raw records of those events, without framing.
    pub bytes: u64,
    /// Its last event, as an index into the batch.
    pub last: u32,
    /// Events that packs were asked about and no rule recognised.
    pub unrecognised: u64,
}

/// A record as it came, cut, and when it was taken.
#[derive(Clone)]
struct RecordSample {
    bytes: Arc<[u8]>,
    at: Timestamp,
}

/// State of one sender: counts, rate, clock skew, last format, sample.
#[derive(Clone)]
pub struct SenderState {
    /// Time at which its first batch was noted; it begins anew after the sender made room.
    pub first_seen: Timestamp,
    /// Time at which its latest batch was noted.
    pub last_seen: Timestamp,
    /// Events since `first_seen`, also those that rules filtered.
    pub events: u64,
    /// Bytes of the raw records of those events, without framing.
    pub bytes: u64,
    /// Events since `first_seen` that packs were asked about and no rule recognised.
    pub unrecognised: u64,
    /// Vendor and product of its last events, the latest first; empty while none was recognised.
    pub products: Vec<Arc<str>>,
    /// Header format of its last event.
    pub format: Format,
    /// The clock of its last event less ours, in nanoseconds; `None` if it carried no time.
    pub skew_ns: Option<i64>,
    /// Minutes east of UTC of the zone that its last time without one was read by, if that was
    /// guessed.
    pub zone_guessed: Option<i16>,
    window_start: Timestamp,
    window_events: u64,
    /// Events a second in the last whole window; `None` before the first has passed.
    window_rate: Option<f32>,
    sample: Option<RecordSample>,
}

impl SenderState {
    fn new(now: Timestamp) -> Self {
        Self {
            first_seen: now,
            last_seen: now,
            events: 0,
            bytes: 0,
            unrecognised: 0,
            products: Vec::new(),
            format: Format::Unparsed,
            skew_ns: None,
            zone_guessed: None,
            window_start: now,
            window_events: 0,
            window_rate: None,
            sample: None,
        }
    }

    /// Events a second of late. It falls with every second that nothing comes.
    pub fn rate(&self, now: Timestamp) -> f64 {
        let elapsed = now.0.saturating_sub(self.window_start.0).max(1);
        match self.window_rate {
            Some(rate) if elapsed < WINDOW_NS => f64::from(rate),
            // In its first second a sender has the rate that it would have if nothing more came.
            _ => self.window_events as f64 * 1e9 / elapsed.max(1_000_000_000) as f64,
        }
    }

    /// True if not all of its events are understood: packs did not recognise some, or there is
    /// neither a product nor a header.
    pub fn is_unknown(&self) -> bool {
        self.unrecognised > 0 || (self.products.is_empty() && self.format == Format::Unparsed)
    }

    /// The last record that was kept of it.
    pub fn sample(&self) -> Option<&[u8]> {
        self.sample.as_ref().map(|sample| &*sample.bytes)
    }

    fn count(&mut self, now: Timestamp, tally: &PeerTally) {
        let elapsed = now.0.saturating_sub(self.window_start.0);
        if is_over(elapsed, WINDOW_NS) {
            let rate = self.window_events as f64 * 1e9 / elapsed.max(WINDOW_NS) as f64;
            (self.window_rate, self.window_events) = (Some(rate as f32), 0);
            self.window_start = now;
        }
        self.window_events += tally.events;
        self.last_seen = now;
        self.events += tally.events;
        self.bytes += tally.bytes;
        self.unrecognised += tally.unrecognised;
    }

    /// Takes note of how its last event was read.
    fn recognise(&mut self, record: &Record) {
        self.format = record.format;
        let sent = record.event_time.is_some();
        self.skew_ns = sent.then(|| record.event_time.0.saturating_sub(record.received.0));
        // A time that has a zone says nothing of the guess.
        if record.anomalies.contains(Anomalies::ZONE_GUESSED) {
            self.zone_guessed = Some(record.zone_minutes);
        } else if record.anomalies.contains(Anomalies::ZONE_ASSUMED) {
            self.zone_guessed = None;
        }
    }

    /// Takes note of the product that its last event is of.
    fn note_product(&mut self, names: &EventNames<'_>) {
        if names.vendor.is_empty() && names.product.is_empty() {
            return;
        }
        let name = [names.vendor, names.product].join(&b' ');
        let name = &name[..name.len().min(PRODUCT_BYTES_MAX)];
        let name = String::from_utf8_lossy(name.trim_ascii());
        match self.products.iter().position(|known| **known == *name) {
            Some(at) => self.products[..=at].rotate_right(1),
            None => {
                self.products.truncate(PRODUCTS_MAX - 1);
                self.products.insert(0, name.into());
            }
        }
    }

    fn is_sample_due(&self, now: Timestamp) -> bool {
        self.sample
            .as_ref()
            .is_none_or(|sample| is_over(now.0.saturating_sub(sample.at.0), SAMPLE_EVERY_NS))
    }
}

/// True if a span of so many nanoseconds has passed. A clock that was set back ends it too.
fn is_over(elapsed: i64, span: i64) -> bool {
    !(0..span).contains(&elapsed)
}

/// Sums over the senders that are not remembered any more.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EvictedSenders {
    /// Times that a sender made room; one that came back counts anew.
    pub senders: u64,
    /// Events that those senders brought, as a sum.
    pub events: u64,
    /// Bytes of the raw records of those events, without framing.
    pub bytes: u64,
    /// Latest time at which any of them was seen; [`Timestamp::NONE`] if there is none.
    pub last_seen: Timestamp,
}

impl EvictedSenders {
    /// Takes in a sender that is not listed.
    pub fn add(&mut self, sender: &SenderState) {
        self.senders += 1;
        self.events += sender.events;
        self.bytes += sender.bytes;
        self.last_seen = self.last_seen.max(sender.last_seen);
    }
}

/// The senders of one source.
pub struct SenderTable {
    /// The one that was not seen for longest goes first.
    by_ip: LruCache<IpAddr, SenderState, RandomState>,
    samples: usize,
    others: EvictedSenders,
}

impl Default for SenderTable {
    fn default() -> Self {
        Self {
            by_ip: LruCache::unbounded_with_hasher(RandomState::new()),
            samples: 0,
            others: EvictedSenders::default(),
        }
    }
}

impl SenderTable {
    /// Takes note of a batch.
    pub fn note(&mut self, now: Timestamp, batch: &Batch, tallies: &[PeerTally]) {
        let tallies = tallies.iter().enumerate();
        for (peer, tally) in tallies.filter(|(_, tally)| tally.events > 0) {
            let Some(ip) = tally.ip else {
                continue;
            };
            let sender = self.by_ip.get_or_insert_mut(ip, || SenderState::new(now));
            sender.count(now, tally);
            // Where rules took events out, another one may stand there.
            let is_its = |record: &&Record| record.peer as usize == peer;
            let last = batch.records().get(tally.last as usize);
            if let Some(record) = last.filter(is_its) {
                sender.recognise(record);
                sender.note_product(&batch.names(record));
                let room = sender.sample.is_some() || self.samples < SAMPLES_MAX;
                if room && sender.is_sample_due(now) {
                    self.samples += usize::from(sender.sample.is_none());
                    let raw = batch.get(record.raw);
                    let bytes = raw[..raw.len().min(SAMPLE_BYTES_MAX)].into();
                    sender.sample = Some(RecordSample { bytes, at: now });
                }
            }
            self.make_room();
        }
    }

    /// Forgets the one that was not seen for longest, if there are too many.
    fn make_room(&mut self) {
        if self.by_ip.len() > SENDERS_MAX
            && let Some((_, gone)) = self.by_ip.pop_lru()
        {
            self.samples -= usize::from(gone.sample.is_some());
            self.others.add(&gone);
        }
    }

    /// All of them. Copies no record: a worker may be waiting to note its batch.
    pub fn list(&self) -> Vec<(IpAddr, SenderState)> {
        let row = |(ip, sender): (&IpAddr, &SenderState)| (*ip, sender.clone());
        self.by_ip.iter().map(row).collect()
    }

    /// Sums over the senders that are not in the list.
    pub const fn others(&self) -> EvictedSenders {
        self.others
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use inrush_event::{Anomalies, BatchPool, SourceInfo, Span};

    const SECOND: i64 = 1_000_000_000;

    /// One event of one sender, read as `format`, with the sender's clock ahead by `ahead_ns`.
    fn batch(raw: &[u8], format: Format, received: i64, ahead_ns: Option<i64>) -> Batch {
        let source = Arc::new(SourceInfo {
            name: "syslog".into(),
            index: "main".into(),
            sourcetype: "syslog".into(),
        });
        let mut builder = BatchPool::new().lend(&source, raw.len());
        builder.extend(raw);
        let span = Span::new(0, raw.len());
        let mut record = Record::unparsed(span, Timestamp(received), 0, Anomalies::NONE);
        record.format = format;
        record.event_time = ahead_ns.map_or(Timestamp::NONE, |ns| Timestamp(received + ns));
        builder.parts().1.push(record);
        builder.freeze(0)
    }

    fn tally(last: u8, events: u64) -> PeerTally {
        PeerTally {
            ip: Some(IpAddr::from([10, 0, 0, last])),
            events,
            bytes: 10 * events,
            last: 0,
            unrecognised: 0,
        }
    }

    #[test]
    fn a_record_of_another_says_nothing_of_a_sender() {
        let mut senders = SenderTable::default();
        let batch = batch(b"<13>of the first", Format::Rfc3164, SECOND, None);
        senders.note(Timestamp(SECOND), &batch, &[tally(1, 0), tally(2, 3)]);
        let sender = only(&senders);
        assert_eq!((sender.events, sender.sample()), (3, None));
    }

    fn only(senders: &SenderTable) -> SenderState {
        let [(_, sender)] = &senders.list()[..] else {
            panic!("one sender")
        };
        sender.clone()
    }

    #[test]
    fn the_last_event_says_what_a_sender_is() {
        let mut senders = SenderTable::default();
        let first = batch(b"what?", Format::Unparsed, 5, None);
        senders.note(Timestamp(5), &first, &[tally(1, 1)]);
        let sender = only(&senders);
        assert_eq!((sender.format, sender.skew_ns), (Format::Unparsed, None));
        let second = batch(b"<13>x", Format::Rfc3164, 2 * SECOND, Some(-3));
        senders.note(Timestamp(2 * SECOND), &second, &[tally(1, 4)]);
        let sender = only(&senders);
        assert_eq!((sender.format, sender.skew_ns), (Format::Rfc3164, Some(-3)));
        assert_eq!((sender.events, sender.bytes), (5, 50));
        assert_eq!(
            (sender.first_seen, sender.last_seen),
            (Timestamp(5), Timestamp(2 * SECOND))
        );
        assert_eq!(sender.sample(), Some(&b"<13>x"[..]));
    }

    #[test]
    fn a_sender_is_the_products_of_its_last_events_and_unknown_while_some_have_none() {
        let mut sender = SenderState::new(Timestamp(0));
        assert!(sender.is_unknown());
        let mut note = |vendor: &'static str, product: &'static str| {
            sender.note_product(&EventNames {
                vendor: vendor.as_bytes(),
                product: product.as_bytes(),
                ..EventNames::default()
            });
        };
        for (vendor, product) in [
            ("cisco", "asa"),
            ("", ""),
            ("squid", ""),
            ("cisco", "asa"),
            ("a", "1"),
            ("b", "2"),
            ("c", "3"),
        ] {
            note(vendor, product);
        }
        let shown: Vec<&str> = sender.products.iter().map(|name| &**name).collect();
        assert_eq!(shown, ["c 3", "b 2", "a 1", "cisco asa"]);
        assert!(!sender.is_unknown(), "a product is known without a header");
        let some = PeerTally {
            unrecognised: 1,
            ..tally(1, 2)
        };
        sender.count(Timestamp(1), &some);
        assert!(sender.is_unknown());
        assert_eq!((sender.events, sender.unrecognised), (2, 1));
    }

    #[test]
    fn a_guess_is_that_of_the_last_time_without_a_zone() {
        let mut sender = SenderState::new(Timestamp(0));
        let mut zone = |anomalies| {
            let span = Span::new(0, 0);
            let mut record = Record::unparsed(span, Timestamp(0), 0, anomalies);
            record.zone_minutes = -300;
            sender.recognise(&record);
            sender.zone_guessed
        };
        let (assumed, guessed) = (Anomalies::ZONE_ASSUMED, Anomalies::ZONE_GUESSED);
        let seen = [assumed, guessed, Anomalies::NONE, assumed].map(&mut zone);
        assert_eq!(seen, [None, Some(-300), Some(-300), None]);
    }

    #[test]
    fn a_record_is_kept_for_a_second_and_cut() {
        let mut senders = SenderTable::default();
        let mut note = |at: i64, raw: &[u8]| {
            let batch = batch(raw, Format::Rfc5424, at, None);
            senders.note(Timestamp(at), &batch, &[tally(1, 1)]);
            only(&senders).sample().unwrap().to_vec()
        };
        assert_eq!(note(0, b"first"), b"first");
        assert_eq!(note(SECOND - 1, b"too soon"), b"first");
        assert_eq!(note(SECOND, &[b'x'; 5000]), [b'x'; SAMPLE_BYTES_MAX]);
    }

    #[test]
    fn the_rate_is_that_of_the_last_window_and_falls_in_silence() {
        let mut senders = SenderTable::default();
        let mut at = |seconds: i64, events: u64| {
            let now = Timestamp(seconds * SECOND);
            let batch = batch(b"x", Format::Unparsed, now.0, None);
            senders.note(now, &batch, &[tally(1, events)]);
            only(&senders).rate(now)
        };
        assert_eq!(
            at(0, 100),
            100.0,
            "as if nothing more came in its first second"
        );
        assert_eq!(at(5, 900), 200.0);
        assert_eq!(at(10, 1), 100.0, "the first window is over");
        assert_eq!(at(19, 1), 100.0);
        let sender = only(&senders);
        assert_eq!(sender.rate(Timestamp(30 * SECOND)), 0.1, "2 in 20 seconds");
        // The clock was set back: nothing odd comes of it.
        assert_eq!(sender.rate(Timestamp(0)), 100.0);
    }

    #[test]
    fn a_clock_that_was_set_back_stops_neither_rate_nor_sample() {
        let mut senders = SenderTable::default();
        let mut note = |at: i64, raw: &[u8]| {
            let batch = batch(raw, Format::Rfc3164, at, None);
            senders.note(Timestamp(at), &batch, &[tally(1, 50)]);
            let sender = only(&senders);
            (
                sender.sample().unwrap().to_vec(),
                sender.rate(Timestamp(at)),
            )
        };
        note(9000 * SECOND, b"ahead");
        assert_eq!(note(0, b"right").0, b"right");
        note(WINDOW_NS, b"later");
        assert_eq!(note(WINDOW_NS + SECOND, b"last"), (b"last".to_vec(), 5.0));
    }

    #[test]
    fn spoofed_addresses_take_bounded_memory_and_a_newcomer_is_listed() {
        let mut senders = SenderTable::default();
        let batch = batch(b"x", Format::Unparsed, 0, None);
        let mut note = |n: u32| {
            let ip = IpAddr::from(n.to_be_bytes());
            senders.note(
                Timestamp(n.into()),
                &batch,
                &[PeerTally {
                    ip: Some(ip),
                    ..tally(1, 1)
                }],
            );
        };
        // One that sends all the time stays, whoever else comes.
        for n in 0..(SENDERS_MAX as u32 + 10) {
            note(n);
            note(0);
        }
        let all = senders.list();
        assert_eq!(all.len(), SENDERS_MAX);
        let of = |n: u32| {
            all.iter()
                .find(|(ip, _)| *ip == IpAddr::from(n.to_be_bytes()))
        };
        assert_eq!(of(0).unwrap().1.events, SENDERS_MAX as u64 + 11);
        assert!(of(SENDERS_MAX as u32 + 9).is_some(), "the newcomer");
        assert!(of(1).is_none(), "not seen for longest");
        let others = senders.others();
        assert_eq!((others.senders, others.events), (10, 10));
        let sum: u64 = all.iter().map(|(_, sender)| sender.events).sum();
        assert_eq!(sum + others.events, 2 * (SENDERS_MAX as u64 + 10));
        let with_sample = all.iter().filter(|(_, s)| s.sample().is_some()).count();
        assert_eq!(with_sample, senders.samples);
        assert!(with_sample <= SAMPLES_MAX);
    }

    #[test]
    fn who_brought_nothing_is_not_listed() {
        let mut senders = SenderTable::default();
        let batch = batch(b"x", Format::Unparsed, 0, None);
        senders.note(Timestamp(0), &batch, &[tally(1, 0)]);
        assert!(senders.list().is_empty());
    }
}
