//! Way through a journal over the lives of several children: where the next one begins, which of
//! its entries are new, and where some are missing. Neither processes nor clocks are here.
//!
//! # What it guarantees
//! * An entry is taken once: the child begins with the entry of the last cursor, which is passed
//!   over only if it is the same one.
//! * Where entries are missing is counted as a gap. How many are missing is known where nothing is
//!   filtered and both neighbours have numbers of one numbering, and is never guessed.
//! * A damage at which children die again and again is passed in growing steps of time.
//!
//! # States
//! | State | Test | Meaning |
//! |---|---|---|
//! | seeking | `sought` | no entry of this child was taken or recognised |
//! | following | `!sought` | entries are compared with the one before |
//!
//! # Limits
//! Numbers that are missing between entries of several numberings are not counted. Where a cursor
//! that is gone has no time, which those of systemd have, the journal is read again.

use std::time::Duration;

use super::arguments::JournalSeek;
use super::place::{JournalPlace, KeptPlace};

/// Deaths without a new entry after which the journal is taken as damaged there.
const DEATHS_BEFORE_SKIP: u32 = 3;

/// First step over a damage; each further one is [`SKIP_GROWTH`] times as long.
const SKIP_FIRST_US: u64 = 1_000_000;

const SKIP_GROWTH: u64 = 8;

/// Time in which a child has to show the entry of its cursor, if that is there.
const CURSOR_WAIT: Duration = Duration::from_secs(10);

/// Fate of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EntryVerdict {
    /// It is new. So many entries before it are missing, if that is known, where there is a gap.
    Take(Option<EntryGap>),
    /// It was read before.
    Known,
    /// The child begins at the wrong place: another one is to be started.
    Reseek,
}

/// Entries that are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EntryGap {
    /// Their number, if it is known.
    pub(super) missing: Option<u64>,
}

/// Way through a journal.
#[derive(Debug)]
pub(super) struct JournalFollower {
    /// The last entry that was taken.
    last: Option<JournalPlace>,
    /// Time from which entries are read where there is none before; `None`: from the first.
    from_us: Option<u64>,
    seek: JournalSeek,
    /// True until an entry of this child was taken, or the last one of the child before was seen.
    sought: bool,
    /// True if other entries were read before than are now, so that none between need be missing.
    refiltered: bool,
    filter: u32,
    is_filtered: bool,
    /// Children in a row that died and brought nothing.
    deaths: u32,
}

impl JournalFollower {
    /// Goes on from what was kept, or from `from_us` where nothing was.
    pub(super) fn new(kept: Option<KeptPlace>, from_us: Option<u64>) -> Self {
        let (last, from_us, filter) = match kept {
            Some(KeptPlace::Behind(place, filter)) => (Some(place), None, Some(filter)),
            Some(KeptPlace::From(time)) => (None, Some(time), None),
            None => (None, from_us, None),
        };
        let mut new = Self {
            last,
            from_us,
            seek: JournalSeek::Beginning,
            sought: true,
            refiltered: false,
            filter: filter.unwrap_or_default(),
            is_filtered: false,
            deaths: 0,
        };
        new.aim();
        new
    }

    /// The filter of the next child.
    pub(super) fn filter(&mut self, filter: u32, is_filtered: bool) {
        self.refiltered |= self.filter != filter;
        (self.filter, self.is_filtered) = (filter, is_filtered);
    }

    /// Aims at the last entry.
    fn aim(&mut self) {
        self.seek = match (&self.last, self.from_us) {
            (Some(last), _) => JournalSeek::Cursor(last.cursor.clone()),
            (None, Some(time)) => JournalSeek::Since(time),
            (None, None) => JournalSeek::Beginning,
        };
    }

    /// Aims at the time of the last entry, since its cursor is gone.
    fn aim_at_time(&mut self) {
        let time = self.last.as_ref().and_then(|last| last.realtime_us);
        self.seek = time.map_or(JournalSeek::Beginning, JournalSeek::Since);
    }

    /// A child begins: the place for it.
    pub(super) fn begin(&mut self) -> &JournalSeek {
        self.sought = true;
        &self.seek
    }

    /// Time that a child may take for its first entry; `None`: any.
    pub(super) fn patience(&self) -> Option<Duration> {
        let waits = self.sought && matches!(self.seek, JournalSeek::Cursor(_));
        waits.then_some(CURSOR_WAIT)
    }

    /// The child was told to go, by us, and the next one goes on.
    pub(super) fn pause(&mut self) {
        if !self.sought {
            self.aim();
        }
    }

    /// The cursor is gone: the child said so, or showed nothing in time.
    pub(super) fn lose_cursor(&mut self) {
        if matches!(self.seek, JournalSeek::Cursor(_)) {
            self.aim_at_time();
        }
    }

    /// A child crashed, or wrote what is no entry.
    pub(super) fn die(&mut self, now_us: u64) {
        self.deaths = self.deaths.saturating_add(1);
        let Some(skips) = self.deaths.checked_sub(DEATHS_BEFORE_SKIP) else {
            return self.pause();
        };
        let last = self.last.as_ref().and_then(|last| last.realtime_us);
        let step = SKIP_GROWTH
            .saturating_pow(skips)
            .saturating_mul(SKIP_FIRST_US);
        let beyond = match last.or(self.from_us) {
            Some(time) => time.saturating_add(step),
            // How far back the journal goes is not known.
            None => now_us,
        };
        self.seek = JournalSeek::Since(beyond.min(now_us));
    }

    /// True if children died here until the journal was taken as damaged.
    pub(super) fn skips_damage(&self) -> bool {
        self.deaths >= DEATHS_BEFORE_SKIP
    }

    /// Judges an entry, which comes behind those before.
    pub(super) fn judge(&mut self, place: &JournalPlace) -> EntryVerdict {
        let verdict = match (&self.last, self.sought) {
            (None, _) => {
                EntryVerdict::Take(self.skips_damage().then_some(EntryGap { missing: None }))
            }
            (Some(last), _) if last.cursor == place.cursor => EntryVerdict::Known,
            (Some(last), false) => EntryVerdict::Take(self.numbers_between(last, place)),
            (Some(last), true) => self.seek_verdict(last, place),
        };
        match verdict {
            EntryVerdict::Take(_) => {
                self.last = Some(place.clone());
                (self.sought, self.refiltered, self.deaths) = (false, false, 0);
            }
            EntryVerdict::Known => self.sought &= self.last.as_ref() != Some(place),
            EntryVerdict::Reseek => self.aim_at_time(),
        }
        verdict
    }

    /// Judges an entry before any was found that is known: the last one is not where it was.
    fn seek_verdict(&self, last: &JournalPlace, place: &JournalPlace) -> EntryVerdict {
        let at_cursor = matches!(self.seek, JournalSeek::Cursor(_));
        // What journald wrote before the host lost its power may be gone, and the numbers are used
        // again: by the cursor the entries of the new boot up to there would be passed over.
        if at_cursor && place.boot != last.boot && last.realtime_us.is_some() {
            return EntryVerdict::Reseek;
        }
        if !at_cursor && place.is_not_behind(last) && place.realtime_us <= last.realtime_us {
            return EntryVerdict::Known;
        }
        if self.refiltered {
            return EntryVerdict::Take(None);
        }
        let missing = match self.is_filtered {
            true => None,
            false => place.missing_since(last),
        };
        let gap = (missing != Some(0)).then_some(EntryGap { missing });
        EntryVerdict::Take(gap)
    }

    /// The gap between two entries, one behind the other, if their numbers show one.
    fn numbers_between(&self, last: &JournalPlace, place: &JournalPlace) -> Option<EntryGap> {
        let missing = place.missing_since(last).filter(|n| *n > 0)?;
        (!self.is_filtered && !self.refiltered).then_some(EntryGap {
            missing: Some(missing),
        })
    }

    /// Place to be kept: the one behind the last entry, or before the first.
    pub(super) fn kept(&self) -> Option<Vec<u8>> {
        match (&self.last, self.from_us) {
            (Some(last), _) => Some(KeptPlace::behind(last, self.filter)),
            (None, Some(time)) => Some(KeptPlace::from(time)),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place of an entry: numbering, number, boot, and time in seconds.
    fn place(numbering: u32, number: u64, boot: u32, seconds: u64) -> JournalPlace {
        let time = seconds * 1_000_000;
        let cursor = format!("s={numbering};i={number:x};b={boot};t={time:x};x={number}");
        JournalPlace::of(cursor.as_bytes()).unwrap_or_else(|| panic!("{cursor}"))
    }

    /// A follower that was behind this entry when the process began.
    fn behind(place: &JournalPlace) -> JournalFollower {
        let mut follower = JournalFollower::new(Some(KeptPlace::Behind(place.clone(), 0)), None);
        follower.filter(0, false);
        follower.begin();
        follower
    }

    fn gap(missing: Option<u64>) -> EntryVerdict {
        EntryVerdict::Take(Some(EntryGap { missing }))
    }

    const NO_GAP: EntryVerdict = EntryVerdict::Take(None);

    #[test]
    fn the_entry_of_the_cursor_is_known_and_numbers_show_what_is_missing() {
        let mut follower = behind(&place(1, 10, 1, 100));
        assert_eq!(follower.judge(&place(1, 10, 1, 100)), EntryVerdict::Known);
        assert_eq!(follower.judge(&place(1, 11, 1, 101)), NO_GAP);
        assert_eq!(follower.judge(&place(1, 14, 1, 102)), gap(Some(2)));
        assert_eq!(follower.judge(&place(1, 14, 1, 102)), EntryVerdict::Known);
        // Another file has a numbering of its own.
        assert_eq!(follower.judge(&place(2, 90, 1, 103)), NO_GAP);
        assert_eq!(follower.judge(&place(1, 20, 1, 104)), NO_GAP);
        assert_eq!(follower.judge(&place(1, 19, 2, 105)), NO_GAP);
    }

    #[test]
    fn an_entry_that_is_gone_is_a_gap_only_if_others_are_gone_too() {
        let last = place(1, 10, 1, 100);
        assert_eq!(behind(&last).judge(&place(1, 11, 1, 101)), NO_GAP);
        assert_eq!(behind(&last).judge(&place(1, 15, 1, 101)), gap(Some(4)));
        assert_eq!(behind(&last).judge(&place(2, 15, 1, 101)), gap(None));
        let mut filtered = behind(&last);
        filtered.filter(0, true);
        assert_eq!(filtered.judge(&place(1, 15, 1, 101)), gap(None));
        assert_eq!(filtered.judge(&place(1, 19, 1, 102)), NO_GAP);
        let mut refiltered = behind(&last);
        refiltered.filter(7, false);
        assert_eq!(refiltered.judge(&place(1, 15, 1, 101)), NO_GAP);
        assert_eq!(refiltered.judge(&place(1, 17, 1, 102)), gap(Some(1)));
    }

    #[test]
    fn numbers_that_are_used_again_after_a_power_cut_hide_nothing() {
        // The end of the journal was not on the disk: by its cursor the child passes over the
        // entries 8 to 10 of the next boot.
        let mut follower = behind(&place(1, 10, 1, 100));
        assert_eq!(follower.judge(&place(1, 11, 2, 211)), EntryVerdict::Reseek);
        follower.lose_cursor();
        assert_eq!(follower.begin(), &JournalSeek::Since(100_000_000));
        assert_eq!(follower.judge(&place(1, 8, 2, 208)), gap(None));
        assert_eq!(follower.judge(&place(1, 9, 2, 209)), NO_GAP);
    }

    #[test]
    fn by_time_what_was_read_is_known() {
        let mut follower = behind(&place(1, 10, 1, 100));
        follower.lose_cursor();
        assert_eq!(follower.begin(), &JournalSeek::Since(100_000_000));
        assert_eq!(follower.judge(&place(1, 9, 1, 100)), EntryVerdict::Known);
        assert_eq!(follower.judge(&place(1, 10, 1, 100)), EntryVerdict::Known);
        assert_eq!(follower.judge(&place(1, 11, 1, 100)), NO_GAP);
        follower.pause();
        let cursor = place(1, 11, 1, 100).cursor;
        assert_eq!(follower.begin(), &JournalSeek::Cursor(cursor));
    }

    #[test]
    fn a_child_is_given_time_for_its_cursor_alone() {
        let mut follower = behind(&place(1, 10, 1, 100));
        assert_eq!(follower.patience(), Some(CURSOR_WAIT));
        follower.judge(&place(1, 10, 1, 100));
        assert_eq!(follower.patience(), None);
        let mut new = JournalFollower::new(None, Some(5_000_000));
        assert_eq!(new.begin(), &JournalSeek::Since(5_000_000));
        assert_eq!(
            (new.patience(), new.kept()),
            (None, Some(b"@5000000".to_vec()))
        );
        let mut first = JournalFollower::new(None, None);
        assert_eq!(first.begin(), &JournalSeek::Beginning);
        assert_eq!(first.kept(), None);
    }

    #[test]
    fn steps_over_a_damage_grow_up_to_now_and_a_new_entry_ends_them() {
        let now = 1_000_000_000;
        let mut follower = behind(&place(1, 10, 1, 100));
        let mut seeks = Vec::new();
        for _ in 0..8 {
            follower.die(now);
            seeks.push(follower.begin().clone());
        }
        let cursor = JournalSeek::Cursor(place(1, 10, 1, 100).cursor);
        let since = |seconds: u64| JournalSeek::Since(seconds * 1_000_000);
        let steps = [101, 108, 164, 612, 1000, 1000].map(since);
        assert_eq!(seeks[..2], [cursor.clone(), cursor]);
        assert_eq!(seeks[2..], steps);
        assert_eq!(follower.judge(&place(1, 30, 1, 999)), gap(Some(19)));
        assert!(!follower.skips_damage());
    }
}
