//! Indexer acknowledgement: numbers of requests by channel, and whether their events are safe.
//!
//! # What it guarantees
//! * A number is true once its events are durable (`ack: received`) or settled by every destination
//!   (`ack: delivered`), and once only: then it is forgotten, as at Splunk.
//! * Numbers of a channel begin at a random place, in each process again, so that a poll which a
//!   balancer sends to another instance is answered false there, and not for another request; nor
//!   is one whose number a power cut took.
//!
//! * Clients of one token cannot take the room of another's: where all is full, a token that has
//!   less than its share gets the room of the oldest of the token that has most.
//! * Nobody waits for a file while the table is locked.
//!
//! # Limits
//! [`AckLimits`]: channels, and numbers that nobody asked for. A channel that nothing came for in
//! [`IDLE_MAX`] is forgotten with its numbers. A number is given up once nobody has asked for it in
//! that time, though its channel is in use; it is counted, and false from then on.
//!
//! # After a crash
//! Numbers of the last ten minutes are known again (`ack_file`), if the queue has a disk. Polls for
//! all others are answered false: their clients send again.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inrush_event::{Counter, Timestamp, instant_now};

use super::ack_file::{AckFile, AckRecord};
use crate::mutant::{Mutant, is_on};

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

/// Acknowledgement of a request.
#[derive(Clone, Copy)]
struct OpenAck {
    state: AckState,
    /// Time at which somebody asked for it last, or at which it was given.
    asked: Instant,
}

struct AckChannel {
    /// Number of the next request.
    next: u64,
    requests: HashMap<u64, OpenAck>,
    used: Instant,
}

impl AckChannel {
    fn new(next: u64, used: Instant) -> Self {
        Self {
            next,
            requests: HashMap::new(),
            used,
        }
    }
}

/// A number that was given.
struct GivenAck {
    channel: ChannelId,
    number: u64,
    at: Instant,
}

/// Numbers and channels of a token.
#[derive(Default)]
struct TokenAcks {
    channels: usize,
    /// Those that nobody has asked for.
    numbers: usize,
    /// All in the order in which they were given, also some that are forgotten.
    given: VecDeque<GivenAck>,
}

#[derive(Default)]
struct ChannelTable {
    channels: HashMap<(u32, ChannelId), AckChannel>,
    tokens: HashMap<u32, TokenAcks>,
    numbers: usize,
}

impl ChannelTable {
    /// Opens a channel if it is not there.
    fn channel(&mut self, key: (u32, ChannelId), next: u64, now: Instant) -> &mut AckChannel {
        self.channels.entry(key).or_insert_with(|| {
            self.tokens.entry(key.0).or_default().channels += 1;
            AckChannel::new(next, now)
        })
    }

    /// Adds a number to a channel that is there.
    fn insert(&mut self, key: (u32, ChannelId), number: u64, state: AckState, now: Instant) {
        let channel = self.channels.get_mut(&key);
        let ack = OpenAck { state, asked: now };
        let known = channel.is_some_and(|one| one.requests.insert(number, ack).is_some());
        if known {
            return;
        }
        self.numbers += 1;
        let token = self.tokens.entry(key.0).or_default();
        token.numbers += 1;
        token.given.push_back(GivenAck {
            channel: key.1,
            number,
            at: now,
        });
        // Most are asked for, and stay behind in the list.
        if token.given.len() > 2 * token.numbers + GIVEN_SPARE {
            let channels = &self.channels;
            token.given.retain(|one| {
                let channel = channels.get(&(key.0, one.channel));
                channel.is_some_and(|channel| channel.requests.contains_key(&one.number))
            });
        }
    }

    /// Forgets a number; true if it was there.
    fn remove(&mut self, key: (u32, ChannelId), number: u64) -> bool {
        let channel = self.channels.get_mut(&key);
        let known = channel.is_some_and(|one| one.requests.remove(&number).is_some());
        if known {
            self.numbers -= 1;
            if let Some(token) = self.tokens.get_mut(&key.0) {
                token.numbers -= 1;
            }
        }
        known
    }

    /// Forgets the oldest number of a token; false if it has none, or none from before `until`.
    fn give_up(&mut self, token: u32, until: Option<Instant>) -> bool {
        while let Some(list) = self.tokens.get_mut(&token)
            && let Some(oldest) = list.given.front()
            && until.is_none_or(|until| oldest.at < until)
        {
            let (channel, number) = (oldest.channel, oldest.number);
            list.given.pop_front();
            let open = self.channels.get(&(token, channel));
            let asked = open
                .and_then(|open| open.requests.get(&number))
                .map(|ack| ack.asked);
            if let (Some(at), Some(until)) = (asked, until)
                && at >= until
            {
                list.given.push_back(GivenAck {
                    channel,
                    number,
                    at,
                });
                continue;
            }
            if self.remove((token, channel), number) {
                return true;
            }
        }
        false
    }

    /// Forgets a channel with its numbers; how many these were.
    fn close(&mut self, key: (u32, ChannelId)) -> usize {
        let gone = self.channels.remove(&key);
        let numbers = gone.as_ref().map_or(0, |gone| gone.requests.len());
        self.numbers -= numbers;
        if let Some(token) = self.tokens.get_mut(&key.0) {
            token.channels -= usize::from(gone.is_some());
            token.numbers -= numbers;
            if token.channels == 0 {
                self.tokens.remove(&key.0);
            }
        }
        numbers
    }

    /// The token that has most of something, if that is more than its share of what all have and
    /// `asking` has less than that.
    fn most(&self, asking: u32, has: impl Fn(&TokenAcks) -> usize) -> Option<u32> {
        let own = self.tokens.get(&asking).map_or(0, &has);
        let others = self.tokens.iter().filter(|(token, _)| **token != asking);
        let all = own + others.clone().map(|(_, one)| has(one)).sum::<usize>();
        let share = all / (others.clone().count() + 1);
        let (token, most) = others
            .map(|(token, one)| (*token, has(one)))
            .max_by_key(|one| one.1)?;
        (own < share && most > share).then_some(token)
    }

    /// The channel of a token that is not used for longest.
    fn least_used(&self, token: u32) -> Option<(u32, ChannelId)> {
        let its = self.channels.iter().filter(|(key, _)| key.0 == token);
        its.min_by_key(|(_, channel)| channel.used)
            .map(|(key, _)| *key)
    }

    /// Makes room for another number of a channel, which may be a new one. Returns how many numbers
    /// were given up for it.
    fn make_room(
        &mut self,
        key: (u32, ChannelId),
        limits: AckLimits,
    ) -> Result<usize, AckTableFull> {
        let mut given_up = 0;
        if self.channels.len() >= limits.channels && !self.channels.contains_key(&key) {
            let most = self.most(key.0, |token| token.channels);
            let least_used = most.and_then(|most| self.least_used(most));
            given_up += self.close(least_used.ok_or(AckTableFull)?);
        }
        if self.numbers >= limits.numbers {
            let most = self
                .most(key.0, |token| token.numbers)
                .ok_or(AckTableFull)?;
            given_up += usize::from(self.give_up(most, None));
        }
        Ok(given_up)
    }
}

/// Entries of forgotten numbers that a list may have, beside as many as there are others.
const GIVEN_SPARE: usize = 64;

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
    /// Memory over a restart, if there is one. It is never locked together with the channels.
    file: Mutex<Option<AckFile>>,
    /// Numbers that were given up before anyone asked for them.
    pub(super) given_up: Counter,
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

    /// Remembers numbers over a restart, and takes up those of the last process. The log ends below
    /// event `next_event`: what a crash took behind it is not waited for.
    ///
    /// # Errors
    /// The error of the system.
    pub(super) fn remember(&self, data_dir: &Path, name: &str, next_event: u64) -> io::Result<()> {
        let (file, records) = AckFile::open(data_dir, name, seconds())?;
        *self.file() = Some(file);
        let mut table = self.lock();
        let used = instant_now();
        for record in records {
            let key = (record.token, ChannelId(record.channel));
            let channel = table.channel(key, 0, used);
            // A power cut may have taken numbers out of the file, for which clients still ask.
            let lost = u64::from(fastrand::u32(..FIRST_MAX));
            channel.next = channel.next.max(record.number + 1 + lost);
            let state = match record.settled_at {
                0 => AckState::Safe,
                event => AckState::Until(event.min(next_event)),
            };
            table.insert(key, record.number, state, used);
        }
        Ok(())
    }

    fn file(&self) -> MutexGuard<'_, Option<AckFile>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
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
        let token = AckRecord::token_sum(token);
        let (key, now) = ((token, channel), instant_now());
        let mut table = self.lock();
        self.given_up.add(table.make_room(key, limits)? as u64);
        let open = table.channel(key, u64::from(fastrand::u32(..FIRST_MAX)), now);
        open.used = now;
        let number = open.next;
        open.next += 1;
        table.insert(key, number, AckState::Pending, now);
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
        let key = (place.token, place.channel);
        if let Some(channel) = self.lock().channels.get_mut(&key)
            && let Some(request) = channel.requests.get_mut(&place.number)
        {
            request.state = state;
        }
        let record = AckRecord {
            token: place.token,
            channel: place.channel.0,
            number: place.number,
            settled_at: settled_at.unwrap_or(0),
            seconds: seconds(),
        };
        let mut file = self.file();
        if let Some(open) = &mut *file
            && !is_on(Mutant::ForgetAcks)
            && let Err(error) = open.push(&record)
        {
            tracing::warn!(%error, "acknowledgements will not be known after a restart");
            *file = None;
        }
    }

    /// The queue did not take the events of a request: it has no number any more.
    pub(super) fn forget(&self, place: &AckPlace) {
        self.lock()
            .remove((place.token, place.channel), place.number);
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
        let (key, now) = ((AckRecord::token_sum(token), channel), instant_now());
        if let Some(channel) = table.channels.get_mut(&key) {
            channel.used = now;
        }
        for (at, number) in numbers.iter().enumerate() {
            let channel = table.channels.get_mut(&key);
            let request = channel.and_then(|channel| channel.requests.get_mut(number));
            let safe = request.is_some_and(|request| {
                request.asked = now;
                match request.state {
                    AckState::Pending => false,
                    AckState::Until(end) => end <= settled,
                    AckState::Safe => true,
                }
            });
            let safe = safe && table.remove(key, *number);
            let comma = if at == 0 { "" } else { "," };
            // Writing to a string does not fail.
            let _ = write!(text, "{comma}\"{number}\":{safe}");
        }
        text.push_str("}}");
        text
    }

    /// Forgets the channels that were not used for long, and numbers that nobody has asked for.
    pub(super) fn tidy(&self, now: Instant) {
        let mut table = self.lock();
        let idle = |channel: &AckChannel| now.saturating_duration_since(channel.used) > IDLE_MAX;
        let channels = table.channels.iter();
        let gone = channels.filter_map(|(key, channel)| idle(channel).then_some(*key));
        for key in gone.collect::<Vec<_>>() {
            table.close(key);
        }
        let Some(until) = now.checked_sub(IDLE_MAX) else {
            return;
        };
        let tokens: Vec<u32> = table.tokens.keys().copied().collect();
        for token in tokens {
            while table.give_up(token, Some(until)) {
                self.given_up.add(1);
            }
        }
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
    use std::os::fd::OwnedFd;
    use std::sync::atomic::{AtomicU64, Ordering};

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
    fn a_restart_gives_other_numbers_and_waits_for_no_event_that_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let start = || {
            let table = AckTable::default();
            table.remember(dir.path(), "hec", 7).unwrap();
            table
        };
        let channel = ChannelId::parse(CHANNEL).unwrap();
        let (one, two) = {
            let table = start();
            let place = || table.give("t", channel, LIMITS).unwrap();
            let (one, two) = (place(), place());
            table.durable(&one, Some(10));
            (one, two)
        };
        // The second was lost with the end of the file.
        let table = start();
        assert_ne!(table.give("t", channel, LIMITS).unwrap(), two);
        assert!(!poll(&table, one.number(), 6) && poll(&table, one.number(), 7));
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
        assert!(left.tokens.is_empty());
    }

    #[test]
    fn a_number_that_nobody_asks_for_is_given_up_though_its_channel_is_used() {
        let table = AckTable::default();
        let channel = ChannelId::parse(CHANNEL).unwrap();
        table.give("t", channel, LIMITS).unwrap();
        let start = Instant::now();
        table
            .lock()
            .channel((AckRecord::token_sum("t"), channel), 0, start)
            .used = start + IDLE_MAX;
        table.tidy(start + IDLE_MAX / 2);
        assert_eq!((table.lock().numbers, table.given_up.get()), (1, 0));
        table.tidy(start + IDLE_MAX * 3 / 2);
        assert_eq!((table.lock().numbers, table.given_up.get()), (0, 1));
        assert_eq!(table.lock().channels.len(), 1);
    }

    #[test]
    fn a_number_that_somebody_asks_for_is_kept_while_it_is_not_safe() {
        let table = AckTable::default();
        let channel = ChannelId::parse(CHANNEL).unwrap();
        let start = Instant::now();
        let place = table.give("t", channel, LIMITS).unwrap();
        {
            let mut table = table.lock();
            let open = table.channel((AckRecord::token_sum("t"), channel), 0, start);
            open.used = start + 2 * IDLE_MAX;
            open.requests.get_mut(&place.number).unwrap().asked = start + IDLE_MAX;
        }
        table.tidy(start + IDLE_MAX * 3 / 2);
        assert_eq!((table.lock().numbers, table.given_up.get()), (1, 0));
        table.tidy(start + IDLE_MAX * 5 / 2);
        assert_eq!((table.lock().numbers, table.given_up.get()), (0, 1));
    }

    #[test]
    fn the_list_of_given_numbers_has_no_more_than_twice_those_that_are_left() {
        let table = AckTable::default();
        let channel = ChannelId::parse(CHANNEL).unwrap();
        for _ in 0..10_000 {
            let place = table.give("t", channel, LIMITS).unwrap();
            table.durable(&place, None);
            assert!(poll(&table, place.number(), 0));
        }
        let left = table.lock();
        let given = left.tokens.values().map(|token| token.given.len());
        assert!(given.sum::<usize>() <= GIVEN_SPARE + 1 && left.numbers == 0);
    }

    /// A pipe that is full stands in for a disk that hangs.
    #[test]
    fn nobody_waits_for_the_file_but_who_writes_to_it() {
        let (reader, writer) = std::io::pipe().unwrap();
        let table = AckTable::default();
        *table.file() = Some(AckFile::over(OwnedFd::from(writer).into()));
        let channel = ChannelId::parse(CHANNEL).unwrap();
        let give = || table.give("t", channel, LIMITS).unwrap();
        let written = AtomicU64::new(0);
        let place = give();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2000 {
                    table.durable(&place, None);
                    written.fetch_add(1, Ordering::SeqCst);
                }
            });
            // The kernel's buffer has room for 64 KiB: the writer waits in the middle of a record.
            while written.load(Ordering::SeqCst) < 1400 || table.file.try_lock().is_ok() {
                std::thread::yield_now();
            }
            give();
            assert!(table.lock().numbers > 0);
            drop(reader);
        });
    }
}
