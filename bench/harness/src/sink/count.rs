//! Counts of the sink, and the search for sequence numbers in what it is sent.
//!
//! [`Counter`] takes the requests of all connections, one [`BodyCounter`] the body of each: events
//! are counted as the bytes flow past, gzip undone first. Sequence numbers are looked for once a
//! body is whole, and only where they are asked for; times of sending in one event of 16.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};

use super::http::{HecHandler, RequestHead, SUCCESS};

/// Key before every event of a HEC body, in ours and in every peer's.
const EVENT_KEY: &[u8] = b"\"event\":";

/// Key before the sequence number in a message of the generator.
const SEQUENCE_KEY: &[u8] = b"seq=";

/// Key before the number of the connection that the message went out on.
const SENDER_KEY: &[u8] = b"conn=";

/// Key before the time of sending in a message of the generator, nanoseconds since 1970.
const SENT_KEY: &[u8] = b"sent=";

/// Digits of that time.
const SENT_DIGITS: usize = 19;

/// Bytes from the start of an event within which its time of sending stands.
const SENT_WITHIN: usize = 256;

/// One event in so many is looked at for its time of sending, so that looking costs little.
const SENT_EVERY: usize = 16;

/// Sequence numbers from here on are not the generator's: one is never asked for so many.
const SEQUENCE_MAX: u64 = 1 << 31;

/// Counts of what the sink has seen, as `GET /count` tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SinkCounts {
    pub requests: u64,
    pub events: u64,
    /// Events of requests that were answered.
    #[serde(default)]
    pub answered: u64,
    /// Bytes of bodies as they came, compressed if they were.
    pub wire_bytes: u64,
    /// Different sequence numbers, over all connections of the generator.
    pub distinct: u64,
    /// Events whose sequence number had been seen before.
    pub duplicates: u64,
    /// Events in which no sequence number was found.
    pub unnumbered: u64,
    /// Latency of events from the generator to here; absent if it was not noted.
    pub latency: Option<Latency>,
}

/// Quantiles of the time from sending to arrival, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub p50_us: f64,
    pub p99_us: f64,
    pub samples: usize,
}

impl Latency {
    /// Of some times in microseconds; nothing if there are none.
    fn of(times: &[u32]) -> Option<Self> {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let at = |percent: usize| sorted.get((sorted.len() * percent / 100).min(sorted.len() - 1));
        (!sorted.is_empty()).then(|| Self {
            p50_us: at(50).copied().map_or(0.0, f64::from),
            p99_us: at(99).copied().map_or(0.0, f64::from),
            samples: sorted.len(),
        })
    }
}

/// All of it.
pub(super) struct Counter {
    counts: SinkCounts,
    seen: Option<HashMap<u64, SequenceBitmap>>,
    /// Latencies of events, in microseconds.
    times: Option<Vec<u32>>,
}

/// The sequence numbers of one connection that were seen: a bit each.
#[derive(Default)]
struct SequenceBitmap(Vec<u64>);

impl SequenceBitmap {
    /// Notes `number`; true if it is new.
    fn insert(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1_u64 << (number % 64));
        if self.0.len() <= word {
            self.0.resize((word + 1).next_power_of_two(), 0);
        }
        let new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        new
    }
}

impl Counter {
    pub(super) fn new(verify: bool, latency: bool) -> Self {
        Self {
            counts: SinkCounts::default(),
            seen: verify.then(HashMap::new),
            times: latency.then(Vec::new),
        }
    }

    /// A request with so many events was answered.
    pub(super) fn answer(&mut self, events: u64) {
        self.counts.answered += events;
    }

    /// All that came so far.
    pub(super) fn counts(&self) -> SinkCounts {
        self.counts
    }

    /// Takes the account of one whole body.
    fn body(&mut self, body: BodyCounter) {
        self.counts.requests += 1;
        self.counts.events += body.events;
        if let (Some(times), Some(new)) = (&mut self.times, &body.times) {
            times.extend_from_slice(new);
        }
        if let (Some(seen), Some(kept)) = (&mut self.seen, &body.kept) {
            note_sequences(kept, seen, &mut self.counts);
        }
    }

    fn json(&self) -> String {
        let latency = self.times.as_deref().and_then(Latency::of);
        let counts = SinkCounts {
            latency,
            ..self.counts
        };
        serde_json::to_string(&counts).unwrap_or_default()
    }
}

impl HecHandler for Counter {
    type Body = CountedRequest;

    fn begin(&mut self, head: &RequestHead<'_>) -> Option<CountedRequest> {
        if head.line.starts_with("GET /count") {
            return Some(CountedRequest::Question);
        }
        let plain = Box::new(BodyCounter::new(self.seen.is_some(), self.times.is_some()));
        Some(match head.gzip {
            true => CountedRequest::Gzip(Box::new(MultiGzDecoder::new(plain))),
            false => CountedRequest::Plain(plain),
        })
    }

    fn take(&mut self, body: &mut CountedRequest, bytes: &[u8]) -> Option<()> {
        self.counts.wire_bytes += bytes.len() as u64;
        match body {
            CountedRequest::Question => Some(()),
            CountedRequest::Plain(plain) => plain.write_all(bytes).ok(),
            CountedRequest::Gzip(gzip) => gzip.write_all(bytes).ok(),
        }
    }

    fn finish(&mut self, body: CountedRequest) -> Option<Cow<'static, str>> {
        self.body(*match body {
            CountedRequest::Question => return Some(self.json().into()),
            CountedRequest::Plain(plain) => plain,
            CountedRequest::Gzip(gzip) => gzip.finish().ok()?,
        });
        Some(SUCCESS.into())
    }
}

/// A request whose body is still to come.
pub(super) enum CountedRequest {
    /// `GET /count`.
    Question,
    Plain(Box<BodyCounter>),
    Gzip(Box<MultiGzDecoder<Box<BodyCounter>>>),
}

/// Counts the events of one body as it flows past, keeping no more than a key's length of it;
/// the whole of it where sequence numbers are wanted.
pub(super) struct BodyCounter {
    finder: Finder<'static>,
    /// The last bytes seen: a key may be cut by the end of a read.
    tail: Vec<u8>,
    events: u64,
    kept: Option<Vec<u8>>,
    times: Option<Vec<u32>>,
}

impl BodyCounter {
    fn new(keep: bool, latency: bool) -> Self {
        let tail = Vec::with_capacity(2 * EVENT_KEY.len());
        Self {
            finder: Finder::new(EVENT_KEY),
            tail,
            events: 0,
            kept: keep.then(Vec::new),
            times: latency.then(Vec::new),
        }
    }

    /// Notes how long ago some of the events in `bytes` were sent. Those that a read has cut are
    /// left out: where it cuts has nothing to do with how long they took.
    fn note_times(&mut self, bytes: &[u8]) {
        let Some(times) = &mut self.times else { return };
        let now_ns = jiff::Timestamp::now().as_nanosecond();
        let took = |at: usize| {
            let event = &bytes[at..bytes.len().min(at + SENT_WITHIN)];
            let sent = memchr::memmem::find(event, SENT_KEY)? + SENT_KEY.len();
            let digits = std::str::from_utf8(event.get(sent..sent + SENT_DIGITS)?).ok()?;
            let us = (now_ns - digits.parse::<i128>().ok()?) / 1000;
            Some(u32::try_from(us.max(0)).unwrap_or(u32::MAX))
        };
        times.extend(
            self.finder
                .find_iter(bytes)
                .step_by(SENT_EVERY)
                .filter_map(took),
        );
    }

    /// Keys that lie across the border between what came before and `bytes`.
    fn count_border(&mut self, bytes: &[u8]) {
        let overlap = EVENT_KEY.len() - 1;
        let before = self.tail.len();
        self.tail
            .extend_from_slice(&bytes[..bytes.len().min(overlap)]);
        self.events += self.finder.find_iter(&self.tail).count() as u64;
        if bytes.len() < overlap {
            let excess = (before + bytes.len()).saturating_sub(overlap);
            self.tail.drain(..excess);
        } else {
            self.tail.clear();
            self.tail.extend_from_slice(&bytes[bytes.len() - overlap..]);
        }
    }
}

impl Write for BodyCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.count_border(bytes);
        self.events += self.finder.find_iter(bytes).count() as u64;
        self.note_times(bytes);
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn note_sequences(body: &[u8], seen: &mut HashMap<u64, SequenceBitmap>, counts: &mut SinkCounts) {
    let finder = Finder::new(EVENT_KEY);
    let mut starts = finder.find_iter(body).peekable();
    while let Some(start) = starts.next() {
        let event = &body[start..starts.peek().copied().unwrap_or(body.len())];
        match number_after(SEQUENCE_KEY, event) {
            Some(number) if number < SEQUENCE_MAX => {
                let sender = number_after(SENDER_KEY, event).unwrap_or(0);
                match seen.entry(sender).or_default().insert(number) {
                    true => counts.distinct += 1,
                    false => counts.duplicates += 1,
                }
            }
            _ => counts.unnumbered += 1,
        }
    }
}

fn number_after(key: &[u8], text: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(text, key)? + key.len();
    let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit());
    let mut number = None;
    for digit in digits.take(18) {
        number = Some(number.unwrap_or(0) * 10 + u64::from(digit - b'0'));
    }
    number
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn numbered(pairs: &[(u64, u64)]) -> Vec<u8> {
        let event = |(sender, seq)| {
            format!("{{\"event\":\"p[1]: seq={seq:010} conn={sender:02} run=5eed PADD\"}}")
        };
        pairs
            .iter()
            .copied()
            .map(event)
            .collect::<String>()
            .into_bytes()
    }

    fn counted(bodies: &[&[u8]]) -> SinkCounts {
        let mut counter = Counter::new(true, false);
        for bytes in bodies {
            let mut body = BodyCounter::new(true, false);
            body.write_all(bytes).unwrap();
            counter.body(body);
        }
        counter.counts()
    }

    #[test]
    fn a_number_is_new_once_for_each_connection() {
        let counts = counted(&[
            &numbered(&[(0, 0), (0, 1), (1, 0)]),
            &numbered(&[(0, 1), (1, 7)]),
        ]);
        assert_eq!(
            (counts.events, counts.distinct, counts.duplicates),
            (5, 4, 1)
        );
    }

    #[test]
    fn an_event_without_a_number_is_said_to_be_one() {
        let counts = counted(&[br#"{"event":"plain"}{"event":"seq=99999999999999999999"}"#]);
        assert_eq!((counts.distinct, counts.unnumbered), (0, 2));
    }

    #[test]
    fn of_some_events_it_is_noted_how_long_they_took() {
        let second_ago = jiff::Timestamp::now().as_nanosecond() - 1_000_000_000;
        let event = format!("{{\"event\":\"p[1]: seq=1 conn=1 run=5eed sent={second_ago} PADD\"}}");
        let mut counter = Counter::new(false, true);
        let mut body = BodyCounter::new(false, true);
        body.write_all(event.repeat(2 * SENT_EVERY).as_bytes())
            .unwrap();
        // A time that is cut, and one that is none.
        body.write_all(&event.as_bytes()[..50]).unwrap();
        body.write_all(b"{\"event\":\"sent=the day before yesterday\"}")
            .unwrap();
        counter.body(body);
        let counts: SinkCounts = serde_json::from_str(&counter.json()).unwrap();
        let latency = counts.latency.unwrap();
        assert_eq!(latency.samples, 2);
        assert!(latency.p50_us >= 1e6 && latency.p99_us >= latency.p50_us);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let times: Vec<u32> = (0..1000).rev().collect();
        let latency = Latency::of(&times).unwrap();
        assert_eq!((latency.p50_us, latency.p99_us), (500.0, 990.0));
        assert_eq!(Latency::of(&[7]).unwrap().p99_us, 7.0);
        assert_eq!(Latency::of(&[]), None);
    }

    #[test]
    fn a_key_cut_in_two_counts_once_wherever_the_cut_is() {
        let body = numbered(&[(0, 0), (0, 1), (0, 2)]);
        for cut in 0..body.len() {
            let mut counter = BodyCounter::new(false, false);
            counter.write_all(&body[..cut]).unwrap();
            counter.write_all(&body[cut..]).unwrap();
            assert_eq!(counter.events, 3, "cut at {cut}");
        }
    }
}
