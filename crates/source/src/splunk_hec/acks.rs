//! Indexer acknowledgement: numbers of requests by channel, and whether their events are safe.
//!
//! # What it guarantees
//! * A number is true once its events are durable (`ack: received`) or settled by every destination
//!   (`ack: delivered`), and once only: then it is forgotten, as at Splunk.
//! * Numbers of a channel begin at a random place, so that a poll which a balancer sends to another
//!   instance is answered false there, and not for another request.
//!
//! # Limits
//! [`AckLimits`]: channels, and numbers that nobody asked for. A channel that nothing came for in
//! [`IDLE_MAX`] is forgotten with its numbers.
//!
//! # After a crash
//! Numbers of the last ten minutes are known again (`ack_file`), if the queue has a disk. Polls for
//! all others are answered false: their clients send again.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inrush_event::{Timestamp, instant_now};

use super::ack_file::{AckFile, AckRecord};

/// Bounds of a table, from the options of its collector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AckLimits {
    /// Channels at once, at most.
    pub(super) channels: usize,
    /// Numbers of all channels that nobody asked for, at most.
    pub(super) numbers: usize,
}

/// A channel that is not used for so long is forgotten; no known client asks later.
const IDLE_MAX: Duration = Duration::from_secs(10 * 60);

/// Numbers begin below this.
const FIRST_MAX: u32 = 1 << 31;

/// A channel: the GUID that a client made up for itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct ChannelId([u8; 16]);

impl ChannelId {
    /// The channel of a text `8-4-4-4-12` of hexadecimal digits (RFC 9562 section 4).
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        const DASHES: [usize; 4] = [8, 13, 18, 23];
        if text.len() != 36 || DASHES.iter().any(|at| text[*at] != b'-') {
            return None;
        }
        let mut digits = text
            .iter()
            .enumerate()
            .filter(|(at, _)| !DASHES.contains(at))
            .map(|(_, digit)| char::from(*digit).to_digit(16));
        let mut id = [0; 16];
        for byte in &mut id {
            *byte = (digits.next()?? << 4 | digits.next()??) as u8;
        }
        Some(Self(id))
    }
}

/// State of the events of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AckState {
    /// They are not durable yet.
    Pending,
    /// They are safe once all destinations have settled the events below this number.
    Until(u64),
    /// They are safe.
    Safe,
}

struct AckChannel {
    /// Number of the next request.
    next: u64,
    requests: HashMap<u64, AckState>,
    used: Instant,
}

#[derive(Default)]
struct ChannelTable {
    channels: HashMap<(u32, ChannelId), AckChannel>,
    numbers: usize,
    /// Memory over a restart, if there is one.
    file: Option<AckFile>,
}

/// Place of a request's acknowledgement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AckPlace {
    /// Checksum of the token's name.
    token: u32,
    channel: ChannelId,
    number: u64,
}

impl AckPlace {
    /// The `ackId` in the answer.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

/// Acknowledgements of a collector.
#[derive(Default)]
pub(super) struct AckTable {
    channels: Mutex<ChannelTable>,
}

/// Seconds since 1970.
fn seconds() -> u64 {
    (Timestamp::now().0 / 1_000_000_000).max(0) as u64
}

/// No room for another acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AckTableFull;

impl AckTable {
    fn lock(&self) -> MutexGuard<'_, ChannelTable> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers numbers over a restart, and takes up those of the last process.
    ///
    /// # Errors
    /// The error of the system.
    pub(super) fn remember(&self, data_dir: &Path, name: &str) -> io::Result<()> {
        let (file, records) = AckFile::open(data_dir, name, seconds())?;
        let mut table = self.lock();
        table.file = Some(file);
        let used = instant_now();
        for record in records {
            let key = (record.token, ChannelId(record.channel));
            let channel = table.channels.entry(key).or_insert_with(|| AckChannel {
                next: 0,
                requests: HashMap::new(),
                used,
            });
            channel.next = channel.next.max(record.number + 1);
            let state = match record.settled_at {
                0 => AckState::Safe,
                event => AckState::Until(event),
            };
            let known = channel.requests.insert(record.number, state);
            table.numbers += usize::from(known.is_none());
        }
        Ok(())
    }

    /// Gives a request of a token's channel its number.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn give(
        &self,
        token: &str,
        channel: ChannelId,
        limits: AckLimits,
    ) -> Result<AckPlace, AckTableFull> {
        let mut table = self.lock();
        if table.numbers >= limits.numbers {
            return Err(AckTableFull);
        }
        let token = AckRecord::token_sum(token);
        let key = (token, channel);
        if table.channels.len() >= limits.channels && !table.channels.contains_key(&key) {
            return Err(AckTableFull);
        }
        table.numbers += 1;
        let now = instant_now();
        let channel_state = table.channels.entry(key).or_insert_with(|| AckChannel {
            next: u64::from(fastrand::u32(..FIRST_MAX)),
            requests: HashMap::new(),
            used: now,
        });
        channel_state.used = now;
        let number = channel_state.next;
        channel_state.next += 1;
        channel_state.requests.insert(number, AckState::Pending);
        Ok(AckPlace {
            token,
            channel,
            number,
        })
    }

    /// The events of a request are durable. `settled_at`: the number of the event below which all
    /// must be settled before they are safe; `None`: they are.
    pub(super) fn durable(&self, place: &AckPlace, settled_at: Option<u64>) {
        let state = settled_at.map_or(AckState::Safe, AckState::Until);
        let mut table = self.lock();
        let key = (place.token, place.channel);
        let channel = table.channels.get_mut(&key);
        let request = channel.and_then(|channel| channel.requests.get_mut(&place.number));
        if let Some(request) = request {
            *request = state;
        }
        let record = AckRecord {
            token: place.token,
            channel: place.channel.0,
            number: place.number,
            settled_at: settled_at.unwrap_or(0),
            seconds: seconds(),
        };
        if let Some(file) = &mut table.file
            && let Err(error) = file.push(&record)
        {
            tracing::warn!(%error, "acknowledgements will not be known after a restart");
            table.file = None;
        }
    }

    /// The queue did not take the events of a request: it has no number any more.
    pub(super) fn forget(&self, place: &AckPlace) {
        let mut table = self.lock();
        let key = (place.token, place.channel);
        let channel = table.channels.get_mut(&key);
        if channel.is_some_and(|channel| channel.requests.remove(&place.number).is_some()) {
            table.numbers -= 1;
        }
    }

    /// The answer to a poll for these numbers; all events below `settled` are settled.
    pub(super) fn poll(
        &self,
        token: &str,
        channel: ChannelId,
        numbers: &[u64],
        settled: impl FnOnce() -> u64,
    ) -> String {
        let mut table = self.lock();
        let mut text = String::from("{\"acks\":{");
        let settled = settled();
        let channel = table
            .channels
            .get_mut(&(AckRecord::token_sum(token), channel));
        let mut taken = 0;
        let mut is_safe = {
            let mut channel = channel;
            move |number: u64| {
                let Some(channel) = &mut channel else {
                    return false;
                };
                channel.used = instant_now();
                let safe = match channel.requests.get(&number) {
                    None | Some(AckState::Pending) => false,
                    Some(AckState::Until(end)) => *end <= settled,
                    Some(AckState::Safe) => true,
                };
                safe && channel.requests.remove(&number).is_some()
            }
        };
        for (at, number) in numbers.iter().enumerate() {
            let safe = is_safe(*number);
            taken += usize::from(safe);
            let comma = if at == 0 { "" } else { "," };
            // Writing to a string does not fail.
            let _ = write!(text, "{comma}\"{number}\":{safe}");
        }
        table.numbers -= taken;
        text.push_str("}}");
        text
    }

    /// Forgets the channels that were not used for long.
    pub(super) fn tidy(&self, now: Instant) {
        let mut table = self.lock();
        let mut gone = 0;
        table.channels.retain(|_, channel| {
            let idle = now.saturating_duration_since(channel.used) > IDLE_MAX;
            if idle {
                gone += channel.requests.len();
            }
            !idle
        });
        table.numbers -= gone;
    }

    /// Share of the room for acknowledgements that is used: 1 if it is full.
    pub(super) fn fill(&self, limits: AckLimits) -> f64 {
        let table = self.lock();
        let numbers = table.numbers as f64 / limits.numbers as f64;
        numbers.max(table.channels.len() as f64 / limits.channels as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: AckLimits = AckLimits {
        channels: 10,
        numbers: 100,
    };

    const CHANNEL: &[u8] = b"11111111-2222-3333-4444-55555555555A";

    fn poll(table: &AckTable, number: u64, settled: u64) -> bool {
        let channel = ChannelId::parse(CHANNEL).unwrap();
        let text = table.poll("t", channel, &[number], || settled);
        text == format!("{{\"acks\":{{\"{number}\":true}}}}")
    }

    #[test]
    fn a_channel_is_a_guid() {
        assert!(ChannelId::parse(CHANNEL).is_some());
        for bad in [&CHANNEL[1..], b"", b"11111111-2222-3333-4444-55555555555G"] {
            assert_eq!(ChannelId::parse(bad), None);
        }
    }

    #[test]
    fn a_number_is_true_once_its_events_are_safe_and_once_only() {
        let table = AckTable::default();
        let channel = ChannelId::parse(CHANNEL).unwrap();
        let one = table.give("t", channel, LIMITS).unwrap();
        let two = table.give("t", channel, LIMITS).unwrap();
        assert_eq!(two.number(), one.number() + 1);
        assert!(!poll(&table, one.number(), 9), "not durable");
        table.durable(&one, None);
        table.durable(&two, Some(10));
        assert!(poll(&table, one.number(), 0) && !poll(&table, one.number(), 0));
        assert!(!poll(&table, two.number(), 9) && poll(&table, two.number(), 10));
        assert!(table.fill(LIMITS) <= 0.1);
        let other = table.poll("other token", channel, &[one.number()], || 10);
        assert!(other.contains("false"));
    }

    #[test]
    fn idle_channels_are_forgotten_with_their_numbers() {
        let table = AckTable::default();
        let channel = ChannelId::parse(CHANNEL).unwrap();
        table.give("t", channel, LIMITS).unwrap();
        table.tidy(Instant::now() + IDLE_MAX / 2);
        assert_eq!(table.lock().numbers, 1);
        table.tidy(Instant::now() + IDLE_MAX * 2);
        let left = table.lock();
        assert_eq!((left.numbers, left.channels.len()), (0, 0));
    }
}
