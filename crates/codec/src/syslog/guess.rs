//! The zones of senders whose times carry none, guessed from when their events come.
//!
//! # What it guarantees
//! * **A guess is made** when [`GUESS_EVENTS`] events in a row, each [`SPACING_S`] after the one
//!   before it, are within [`FIT_S`] of what a clock in one and the same zone would say, and within
//!   [`AGREE_S`] of each other. Late events do not agree: a backlog that is sent at twice the pace
//!   at which it was made moves by 14 s while it is looked at. What comes in between is not
//!   counted, but starts all anew if it contradicts.
//! * **A guess stays** while times are within [`BAND_S`] of it, and also while they move away from
//!   it without a jump, as those of a clock that drifts. What comes late does not change it, and is
//!   read by it.
//! * **A guess changes** after [`CHANGE_EVENTS`] events that agree on another zone, counted in the
//!   same way, and ends if that is the zone of the source.
//! * A sender whose times fit the zone of the source has no guess: a zone that is configured knows
//!   when clocks change, a guess finds out.
//!
//! # Limits
//! A sender is an address with a host name. At most [`SENDERS_MAX`] guesses are kept, and as many
//! senders are being watched, which takes 20 MB for a source if all are, and 36 MB with the
//! longest names; of both, those that were not heard of for the longest are forgotten. Who invents
//! senders makes none of those be forgotten that have a guess, unless each of them sends enough for
//! one.
//!
//! # After a crash
//! Nothing is kept here; who wants to writes [`ZoneGuesses::list`] down, and has it
//! [filled in](Guesses::fill) again (`kept`).

mod kept;

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inrush_event::{Anomalies, Record, Timestamp};

use super::zone::Zone;
use crate::rfc3339::SECOND_NS;
pub use kept::KeptGuess;
use kept::SenderIdentity;

/// Events in a row that make a guess: at [`SPACING_S`] they take 14 seconds at least.
const GUESS_EVENTS: u8 = 8;

/// Events in a row that change a guess: half a minute at least, after a change of clocks.
const CHANGE_EVENTS: u8 = 16;

/// Seconds between two events that count.
const SPACING_S: u64 = 2;

/// Seconds by which a time may differ from a zone that it speaks for: more than a clock that is
/// set by hand differs, and less than would let one late event in three fit a zone by chance.
const FIT_S: i64 = 120;

/// Seconds by which events that agree may differ from each other.
const AGREE_S: i64 = 10;

/// Seconds around a guess in which nothing speaks against it: half of the least step of zones.
const BAND_S: i64 = 450;

/// Seconds by which a clock may move from one event to the next and still count as drifting.
const DRIFT_STEP_S: i64 = 60;

/// Guesses that are kept, and senders that are watched.
const SENDERS_MAX: usize = 65_536;

/// Tables with a lock of their own, so that workers seldom wait for each other.
const SHARDS: usize = 16;

/// Senders in a generation of a table; there are two.
const GENERATION_MAX: usize = SENDERS_MAX / SHARDS / 2;

/// Minutes in the least step of zones.
const STEP_MINUTES: i64 = 15;

/// Offsets between the hours at which clocks stand somewhere, in minutes east of UTC: the
/// Marquesas, Newfoundland, Iran, Afghanistan, India, Nepal, Myanmar, Eucla, Adelaide and Lord
/// Howe, and the Chathams.
const BETWEEN_HOURS: [i64; 13] = [
    -570, -210, -150, 210, 270, 330, 345, 390, 525, 570, 630, 765, 825,
];

/// Change of a guess: the zone before and the zone from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuessChange {
    /// Minutes east of UTC before; `None` if the zone of the source held.
    pub from: Option<i16>,
    /// Minutes east of UTC from now on; `None` if the zone of the source holds.
    pub to: Option<i16>,
}

/// Observed clocks and guessed zones of the senders of one source, shared by its workers.
#[derive(Debug, Default)]
pub struct ZoneGuesses {
    keys: RandomState,
    /// Each is locked for one event that has no zone, and for nothing else meanwhile.
    shards: [Mutex<SenderTable>; SHARDS],
    /// True if a guess was made, changed or ended since somebody asked.
    news: AtomicBool,
}

impl ZoneGuesses {
    /// Nothing is known.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Takes note of an event: the zone to read it by, and whether that is news. The hash of a
    /// sender stands for it; its seed is our secret, so that nobody can find two with the same.
    fn note(
        &self,
        sender: IpAddr,
        host: &[u8],
        seen: OffsetSample,
    ) -> (Option<i16>, Option<GuessChange>) {
        let key = self.keys.hash_one((sender, host));
        let (minutes, news) = self
            .shard(key)
            .note(key, seen, || SenderIdentity::new(sender, host));
        if news.is_some() {
            self.news.store(true, Relaxed);
        }
        (minutes, news)
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, SenderTable> {
        // By other bits than those by which tables spread their keys: their ends.
        let shard = &self.shards[(key >> 32) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads times without a zone by what is known of who sent them.
#[derive(Debug)]
pub(super) struct ZoneGuesser {
    /// That of the source.
    zone: Zone,
    guesses: Arc<ZoneGuesses>,
}

impl ZoneGuesser {
    pub(super) fn new(zone: Zone, guesses: Arc<ZoneGuesses>) -> Self {
        Self { zone, guesses }
    }

    /// The zone of the source.
    pub(super) fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Sets the time of a record, whose time without a zone was read as UTC, by the zone of its
    /// source.
    pub(super) fn assume(&mut self, record: &mut Record) {
        if let Some(local) = local(record) {
            let utc = self.zone.utc_of(local.div_euclid(SECOND_NS), record);
            set(record, local, local.div_euclid(SECOND_NS).checked_sub(utc));
        }
    }

    /// Does so by what is known of its sender, and learns from it.
    pub(super) fn settle(
        &mut self,
        arena: &[u8],
        record: &mut Record,
        sender: IpAddr,
    ) -> Option<GuessChange> {
        let nanos = local(record)?;
        let local = nanos.div_euclid(SECOND_NS);
        let at = record.received.0.div_euclid(SECOND_NS);
        let configured = local.checked_sub(self.zone.utc_of(local, record));
        let seen = OffsetSample {
            ahead: local.saturating_sub(at),
            configured: configured.unwrap_or(0),
            at,
        };
        let (minutes, news) = self.guesses.note(sender, record.host.of(arena), seen);
        let Some(minutes) = minutes else {
            set(record, nanos, configured);
            return news;
        };
        set(record, nanos, Some(i64::from(minutes) * 60));
        record.zone_minutes = minutes;
        let assumed = Anomalies::ZONE_ASSUMED.union(Anomalies::HOUR_ASSUMED);
        let bits = record.anomalies.bits() & !assumed.bits();
        record.anomalies = Anomalies::from_bits(bits).union(Anomalies::ZONE_GUESSED);
        news
    }
}

/// Nanoseconds since 1970 by the sender's own clock, if it did not say its zone.
fn local(record: &Record) -> Option<i64> {
    let assumed = record.anomalies.contains(Anomalies::ZONE_ASSUMED);
    (assumed && record.event_time.is_some()).then_some(record.event_time.0)
}

/// The time of a reading that many seconds east of UTC, if nanoseconds can hold it.
fn set(record: &mut Record, local: i64, offset: Option<i64>) {
    let offset = offset.and_then(|offset| offset.checked_mul(SECOND_NS));
    match offset.and_then(|offset| local.checked_sub(offset)) {
        Some(nanos) => record.event_time = Timestamp(nanos),
        None => {
            record.event_time = Timestamp::NONE;
            record.anomalies.insert(Anomalies::BAD_TIME);
        }
    }
}

/// A time without a zone, in seconds.
#[derive(Clone, Copy, Debug)]
struct OffsetSample {
    /// The reading less the receive time: the offset from UTC, what the clock is ahead, and less
    /// what the event is late.
    ahead: i64,
    /// Seconds east of UTC that the zone of the source has at that time.
    configured: i64,
    /// The receive time.
    at: i64,
}

impl OffsetSample {
    /// The zone that it speaks for, in minutes east of UTC, and by how many seconds it differs.
    fn fit(self) -> Option<(i16, i64)> {
        let step = STEP_MINUTES * 60;
        let minutes = self.ahead.saturating_add(step / 2).div_euclid(step) * STEP_MINUTES;
        let apart = self.ahead.saturating_sub(minutes.saturating_mul(60));
        (is_real(minutes) && apart.abs() <= FIT_S).then_some((minutes as i16, apart))
    }
}

/// True if clocks stand somewhere so many minutes east of UTC.
fn is_real(minutes: i64) -> bool {
    let whole = minutes % 60 == 0 && (-12 * 60..=14 * 60).contains(&minutes);
    whole || BETWEEN_HOURS.contains(&minutes)
}

/// Events in a row that agree.
#[derive(Clone, Copy, Default, Debug)]
struct OffsetStreak {
    minutes: i16,
    events: u8,
    /// Seconds by which they differ from the zone, the least and the most.
    low: i64,
    high: i64,
    /// Receive time of the last one that was counted, in seconds.
    at: i64,
}

impl OffsetStreak {
    /// Takes an event in, as the first one if it does not agree; how many there are.
    fn note(&mut self, fit: Option<(i16, i64)>, at: i64) -> u8 {
        let Some((minutes, apart)) = fit else {
            *self = Self::default();
            return 0;
        };
        let (low, high) = (self.low.min(apart), self.high.max(apart));
        if self.events == 0 || self.minutes != minutes || high - low > AGREE_S {
            *self = Self {
                minutes,
                events: 1,
                low: apart,
                high: apart,
                at,
            };
            return 1;
        }
        (self.low, self.high) = (low, high);
        if at.abs_diff(self.at) >= SPACING_S {
            self.events = self.events.saturating_add(1);
            self.at = at;
        }
        self.events
    }
}

/// A sender with a guess.
#[derive(Debug)]
struct SenderGuess {
    /// Address and host name of the sender, if they can be written down.
    who: Option<Box<SenderIdentity>>,
    minutes: i16,
    /// [`Seen::ahead`] of the last event that came from the clock that the guess is of.
    ahead: i64,
    /// Events in a row that speak against the guess.
    against: OffsetStreak,
}

impl SenderGuess {
    fn new(who: Option<Box<SenderIdentity>>, minutes: i16, ahead: i64) -> Self {
        Self {
            who,
            minutes,
            ahead,
            against: OffsetStreak::default(),
        }
    }

    /// True if an event can be of the clock that the guess is of: near it, or moved from the last
    /// one by no more than clocks drift.
    fn is_its(&self, seen: OffsetSample) -> bool {
        let near = |ahead: i64, most: i64| seen.ahead.saturating_sub(ahead).abs() <= most;
        near(i64::from(self.minutes) * 60, BAND_S) || near(self.ahead, DRIFT_STEP_S)
    }
}

/// Some of the senders, by the hash of who they are.
#[derive(Debug, Default)]
struct SenderTable {
    known: Generations<SenderGuess>,
    watched: Generations<OffsetStreak>,
}

impl SenderTable {
    /// Takes note of an event; `who` sent it.
    fn note(
        &mut self,
        key: u64,
        seen: OffsetSample,
        who: impl FnOnce() -> Option<Box<SenderIdentity>>,
    ) -> (Option<i16>, Option<GuessChange>) {
        let Some(known) = self.known.get(key) else {
            return self.watch(key, seen, who);
        };
        let from = Some(known.minutes);
        if known.is_its(seen) {
            known.ahead = seen.ahead;
            known.against = OffsetStreak::default();
            return (from, None);
        }
        if known.against.note(seen.fit(), seen.at) < CHANGE_EVENTS {
            return (from, None);
        }
        let to = known.against.minutes;
        if i64::from(to) * 60 == seen.configured {
            self.known.remove(key);
            return (None, Some(GuessChange { from, to: None }));
        }
        *known = SenderGuess::new(known.who.take(), to, seen.ahead);
        let to = Some(to);
        (to, Some(GuessChange { from, to }))
    }

    /// Takes note of an event of a sender that has no guess. Who gives no reason for one takes no
    /// memory.
    fn watch(
        &mut self,
        key: u64,
        seen: OffsetSample,
        who: impl FnOnce() -> Option<Box<SenderIdentity>>,
    ) -> (Option<i16>, Option<GuessChange>) {
        let right = seen.ahead.saturating_sub(seen.configured).abs() <= BAND_S;
        let fit = seen.fit().filter(|_| !right);
        let mut run = self.watched.remove(key).unwrap_or_default();
        match run.note(fit, seen.at) {
            0 => (None, None),
            GUESS_EVENTS.. => {
                let known = SenderGuess::new(who(), run.minutes, seen.ahead);
                self.known.put(key, known);
                let to = Some(run.minutes);
                (to, Some(GuessChange { from: None, to }))
            }
            _ => {
                self.watched.put(key, run);
                (None, None)
            }
        }
    }
}

/// A table that forgets: when the younger half is full it becomes the older one, and what is still
/// in the older half then has not been asked for since.
#[derive(Debug)]
struct Generations<T> {
    young: ByHash<T>,
    old: ByHash<T>,
}

type ByHash<T> = HashMap<u64, T, BuildHasherDefault<IdentityHasher>>;

/// The hash of a key that is one.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

impl<T> Default for Generations<T> {
    fn default() -> Self {
        Self {
            young: ByHash::default(),
            old: ByHash::default(),
        }
    }
}

impl<T> Generations<T> {
    fn get(&mut self, key: u64) -> Option<&mut T> {
        if !self.young.contains_key(&key) {
            let value = self.old.remove(&key)?;
            self.put(key, value);
        }
        self.young.get_mut(&key)
    }

    fn put(&mut self, key: u64, value: T) {
        if self.young.len() >= GENERATION_MAX && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    fn remove(&mut self, key: u64) -> Option<T> {
        self.young.remove(&key).or_else(|| self.old.remove(&key))
    }
}

#[cfg(test)]
#[path = "guess_tests.rs"]
mod tests;
