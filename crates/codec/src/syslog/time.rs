//! Timestamps of every shape that senders use, read without a calendar library: the usual case
//! costs one comparison with the timestamp before it.
//!
//! # Rules
//! * **No year**: the year in which the reading, taken as UTC, lies closest to the receive time;
//!   of two equally close ones the earlier. February 29th looks for the closest leap year.
//! * **No zone**: the zone of the source, or that which is guessed of the sender. A local time
//!   skipped by a clock change is read with the offset before it. Of one that occurs twice the
//!   closest to the receive time is taken (`twice`).
//! * Second 60 is the first second of the next minute. Fractions are kept to the nanosecond.
//! * What has the shape of a timestamp and is no date is passed over and flagged.

use inrush_event::{Anomalies, Record, Timestamp};

use super::behind_time;
use super::scan::{digit_count, skip_spaces};
use super::zone::Zone;
use crate::rfc3339::{
    DAY_SECONDS, DAYS_TO_1970, ISO_BYTES, SECOND_NS, day_number, digits, fraction, iso_prefix,
    offset_minutes, time_of_day,
};

/// `Mmm dd HH:MM:SS`.
const BSD_BYTES: usize = 15;

/// Years around the receive time in which a date without a year is looked for, and those of a
/// February 29th: leap years are up to eight years apart, and a neighbour is needed on each side.
const YEARS_AROUND: i64 = 2;
const LEAP_YEARS_AROUND: i64 = 16;

/// The zone of a reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadZone {
    /// None was sent.
    Absent,
    /// Minutes east of UTC.
    Minutes(i16),
    /// Seconds since 1970 need none.
    Epoch,
}

/// A timestamp as it stands in a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ParsedTimestamp {
    /// Offset after it.
    pub(super) end: usize,
    /// Seconds since 1970 by the sender's clock; `None` if it is no date.
    local: Option<i64>,
    nanos: i64,
    pub(super) zone: ReadZone,
    year_assumed: bool,
}

impl ParsedTimestamp {
    /// Makes a reading of a clock of twelve hours one of the morning or the afternoon. One that
    /// such a clock does not show stays.
    pub(super) fn set_half(&mut self, afternoon: bool) {
        let half_day = DAY_SECONDS / 2;
        self.local = self.local.map(|local| {
            let hour = local.rem_euclid(DAY_SECONDS) / 3600;
            match (afternoon, hour) {
                (true, 1..=11) => local + half_day,
                (false, 12) => local - half_day,
                _ => local,
            }
        });
    }

    /// Gives a reading its year, if it had none; it may be no date then.
    pub(super) fn set_year(&mut self, year: i64) {
        if !self.year_assumed {
            return;
        }
        self.year_assumed = false;
        self.local = self.local.and_then(|local| {
            let day = local.div_euclid(DAY_SECONDS);
            let (month, of_month) = month_and_day(day);
            let day = day_number(year, month, of_month)?;
            Some(day * DAY_SECONDS + local.rem_euclid(DAY_SECONDS))
        });
    }
}

/// Reads timestamps; remembers the last of each shape.
#[derive(Debug)]
pub(super) struct TimestampParser {
    zone: Zone,
    iso: IsoCache,
    bsd: BsdCache,
}

#[derive(Debug)]
struct IsoCache {
    key: [u8; ISO_BYTES],
    local: i64,
}

/// The year that was chosen holds for receive times `from..to` in nanoseconds.
#[derive(Debug)]
struct BsdCache {
    key: [u8; BSD_BYTES],
    local: i64,
    from: i64,
    to: i64,
}

impl TimestampParser {
    pub(super) fn new(zone: Zone) -> Self {
        Self {
            zone,
            iso: IsoCache {
                key: [0; ISO_BYTES],
                local: 0,
            },
            bsd: BsdCache {
                key: [0; BSD_BYTES],
                local: 0,
                from: 0,
                to: 0,
            },
        }
    }

    /// The timestamp at `at`, in any shape with a date.
    #[inline]
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        at: usize,
        received: Timestamp,
    ) -> Option<ParsedTimestamp> {
        match bytes.get(at)? {
            b'A'..=b'Z' | b'a'..=b'z' => self.bsd(bytes, at, received),
            b'0'..=b'9' => self.year_or_iso(bytes, at),
            _ => None,
        }
    }

    #[inline(never)]
    fn year_or_iso(&mut self, bytes: &[u8], at: usize) -> Option<ParsedTimestamp> {
        match bytes.get(at + 4) {
            Some(b' ') => self.year_first(bytes, at),
            _ => self.iso(bytes, at),
        }
    }

    /// `YYYY-MM-DDTHH:MM:SS`, `T` or a space between, with or without fraction and zone.
    #[inline]
    pub(super) fn iso(&mut self, bytes: &[u8], at: usize) -> Option<ParsedTimestamp> {
        let prefix = bytes.get(at..)?.first_chunk::<ISO_BYTES>()?;
        let local = if *prefix == self.iso.key {
            Some(self.iso.local)
        } else {
            let local = iso_prefix(prefix)?;
            if let Some(local) = local {
                self.iso = IsoCache {
                    key: *prefix,
                    local,
                };
            }
            local
        };
        let (nanos, end) = fraction(bytes, at + ISO_BYTES);
        let (zone, end) = match offset_minutes(bytes, end) {
            Some((minutes, end)) => (ReadZone::Minutes(minutes), end),
            None => (ReadZone::Absent, end),
        };
        Some(ParsedTimestamp {
            end,
            local,
            nanos,
            zone,
            year_assumed: false,
        })
    }

    /// `Mmm dd HH:MM:SS` with everything that is put into and after it.
    #[inline]
    fn bsd(&mut self, bytes: &[u8], at: usize, received: Timestamp) -> Option<ParsedTimestamp> {
        let key = bytes.get(at..)?.first_chunk::<BSD_BYTES>();
        let known = key.is_some_and(|key| two_words(key) == two_words(&self.bsd.key))
            && (self.bsd.from..self.bsd.to).contains(&received.0);
        let stop = at + BSD_BYTES;
        if known && !may_have_year(bytes, stop) {
            let (nanos, end) = fraction(bytes, stop);
            if end == stop || !may_have_year(bytes, end) {
                let local = Some(self.bsd.local);
                let zone = ReadZone::Absent;
                return Some(ParsedTimestamp {
                    end,
                    local,
                    nanos,
                    zone,
                    year_assumed: true,
                });
            }
        }
        self.bsd_slow(bytes, at, received)
    }

    #[inline(never)]
    fn bsd_slow(
        &mut self,
        bytes: &[u8],
        at: usize,
        received: Timestamp,
    ) -> Option<ParsedTimestamp> {
        let (date, end) = BsdDate::bsd(bytes, at)?;
        let (nanos, end) = fraction(bytes, end);
        let (year, end) = match date.year {
            Some(year) => (Some(year), end),
            None => year_after(bytes, end),
        };
        let zone = ReadZone::Absent;
        if let Some(year) = year {
            let local = date.local(year);
            return Some(ParsedTimestamp {
                end,
                local,
                nanos,
                zone,
                year_assumed: false,
            });
        }
        let closest = date.closest(received);
        if let Some(key) = bytes.get(at..).and_then(<[u8]>::first_chunk::<BSD_BYTES>)
            && let Some((local, from, to)) = closest
            && date.end == at + BSD_BYTES
        {
            self.bsd = BsdCache {
                key: *key,
                local,
                from,
                to,
            };
        }
        let local = closest.map(|(local, ..)| local);
        Some(ParsedTimestamp {
            end,
            local,
            nanos,
            zone,
            year_assumed: true,
        })
    }

    /// `YYYY Mmm dd HH:MM:SS`, as Cisco NX-OS sends it.
    fn year_first(&mut self, bytes: &[u8], at: usize) -> Option<ParsedTimestamp> {
        let year = digits(bytes, at, 4)?;
        let (date, end) = BsdDate::bsd(bytes, at + 5)?;
        let (nanos, end) = fraction(bytes, end);
        let local = date.local(year);
        Some(ParsedTimestamp {
            end,
            local,
            nanos,
            zone: ReadZone::Absent,
            year_assumed: false,
        })
    }

    /// The zone of times without one.
    pub(super) fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Writes what was read into the record.
    #[inline]
    pub(super) fn settle(&mut self, reading: &ParsedTimestamp, record: &mut Record) {
        let utc = reading.local.map(|local| match reading.zone {
            ReadZone::Absent => self.zone.utc_of(local, record),
            ReadZone::Minutes(minutes) => local - i64::from(minutes) * 60,
            ReadZone::Epoch => local,
        });
        match reading.zone {
            ReadZone::Absent => record.anomalies.insert(Anomalies::ZONE_ASSUMED),
            ReadZone::Minutes(minutes) => record.zone_minutes = minutes,
            ReadZone::Epoch => {}
        }
        if reading.year_assumed {
            record.anomalies.insert(Anomalies::YEAR_ASSUMED);
        }
        // A date that nanoseconds since 1970 cannot hold (1677 to 2262) is no date either.
        let nanos = utc.and_then(|utc| utc.checked_mul(SECOND_NS)?.checked_add(reading.nanos));
        match nanos {
            Some(nanos) => record.event_time = Timestamp(nanos),
            None => record.anomalies.insert(Anomalies::BAD_TIME),
        }
    }
}

/// Seconds since 1970 as ten digits, with or without a fraction, and a space after them.
pub(super) fn epoch(bytes: &[u8], at: usize) -> Option<ParsedTimestamp> {
    if !matches!(bytes.get(at)?, b'1'..=b'4') || digit_count(bytes, at, 11) != 10 {
        return None;
    }
    let seconds = digits(bytes, at, 10)?;
    let (nanos, end) = fraction(bytes, at + 10);
    let zone = ReadZone::Epoch;
    let reading = ParsedTimestamp {
        end,
        local: Some(seconds),
        nanos,
        zone,
        year_assumed: false,
    };
    (bytes.get(end) == Some(&b' ')).then_some(reading)
}

/// A date of the form `Mmm dd [yyyy] HH:MM:SS`.
#[derive(Clone, Copy, Debug)]
struct BsdDate {
    month: i64,
    day: i64,
    /// `None` if it is no time.
    time_of_day: Option<i64>,
    year: Option<i64>,
    /// Offset after the seconds.
    end: usize,
}

impl BsdDate {
    fn bsd(bytes: &[u8], at: usize) -> Option<(Self, usize)> {
        let month = month(bytes.get(at..at + 3)?)?;
        if bytes.get(at + 3) != Some(&b' ') {
            return None;
        }
        let day_at = at + 4 + usize::from(bytes.get(at + 4) == Some(&b' '));
        let day_digits = digit_count(bytes, day_at, 2);
        let day = digits(bytes, day_at, day_digits).filter(|_| day_digits > 0)?;
        let space = day_at + day_digits;
        if bytes.get(space) != Some(&b' ') {
            return None;
        }
        let mut time_at = space + 1;
        let mut year = None;
        if bytes.get(time_at + 4) == Some(&b' ') {
            year = Some(digits(bytes, time_at, 4)?);
            time_at += 5;
        }
        let Some(time_of_day) = time_of_day(bytes, time_at) else {
            return Self::twelve_hours(bytes, time_at, month, day, year);
        };
        let end = time_at + 8;
        if bytes.get(end).is_some_and(u8::is_ascii_digit) {
            return None;
        }
        Some((
            Self {
                month,
                day,
                time_of_day,
                year,
                end,
            },
            end,
        ))
    }

    /// The rest of a date with `H:MM:SS` before `AM` or `PM`; a fraction may be between.
    #[cold]
    fn twelve_hours(
        bytes: &[u8],
        at: usize,
        month: i64,
        day: i64,
        year: Option<i64>,
    ) -> Option<(Self, usize)> {
        let at = skip_spaces(bytes, at);
        let mut padded = *b"0H:MM:SS";
        padded[1..].copy_from_slice(bytes.get(at..at + 7)?);
        let time_of_day = time_of_day(&padded, 0)?;
        let end = at + 7;
        behind_time::half_of_day(bytes, fraction(bytes, end).1)?;
        let date = Self {
            month,
            day,
            time_of_day,
            year,
            end,
        };
        Some((date, end))
    }

    /// Seconds since 1970 by its own clock; `None` if it is no date.
    fn local(&self, year: i64) -> Option<i64> {
        Some(day_number(year, self.month, self.day)? * DAY_SECONDS + self.time_of_day?)
    }

    /// The reading in the year closest to the receive time, and the receive times (nanoseconds,
    /// the last one excluded) for which that year is the closest.
    fn closest(&self, received: Timestamp) -> Option<(i64, i64, i64)> {
        let received = received.or(Timestamp(0)).0.div_euclid(SECOND_NS);
        let this_year = year_of(received.div_euclid(DAY_SECONDS));
        let leap_day = self.month == 2 && self.day == 29;
        let around = if leap_day {
            LEAP_YEARS_AROUND
        } else {
            YEARS_AROUND
        };
        let (mut best, mut after, mut until) = (None, i64::MIN, i64::MAX);
        for year in this_year - around..=this_year + around {
            let Some(local) = self.local(year) else {
                continue;
            };
            let middle = best.map(|best: i64| (best + local).div_euclid(2));
            match middle {
                Some(middle) if received <= middle => {
                    until = middle;
                    break;
                }
                _ => {
                    after = middle.unwrap_or(i64::MIN);
                    best = Some(local);
                }
            }
        }
        let bound = |second: i64| second.saturating_add(1).saturating_mul(SECOND_NS);
        Some((best?, bound(after), bound(until)))
    }
}

/// The bytes of a key as two numbers, for a comparison in registers. The middle one is in both.
#[inline]
fn two_words(key: &[u8; BSD_BYTES]) -> [u64; 2] {
    let first = key.first_chunk().copied().unwrap_or_default();
    let last = key.last_chunk().copied().unwrap_or_default();
    [u64::from_le_bytes(first), u64::from_le_bytes(last)]
}

/// True if a year may stand after a time at `end`.
#[inline]
fn may_have_year(bytes: &[u8], end: usize) -> bool {
    match bytes.get(end) {
        Some(b' ') => matches!(bytes.get(end + 1), Some(b'1' | b'2')),
        Some(byte) => byte.is_ascii_digit(),
        None => false,
    }
}

/// ` yyyy` after a time, and the offset after it.
pub(super) fn year_after(bytes: &[u8], at: usize) -> (Option<i64>, usize) {
    let year = match bytes.get(at..) {
        Some([b' ', b'1', b'9', ..] | [b' ', b'2', b'0', ..]) => digits(bytes, at + 1, 4),
        _ => None,
    };
    let ends = match bytes.get(at + 5..) {
        None | Some([] | [b' ' | b'\t', ..] | [b':'] | [b':', b' ' | b'\t', ..]) => true,
        // `2001:db8::1` is a host.
        Some(_) => false,
    };
    match year.is_some() && ends {
        true => (year, at + 5),
        false => (None, at),
    }
}

/// 1 to 12 for the English abbreviation of a month, in any case.
fn month(name: &[u8]) -> Option<i64> {
    const NAMES: [&[u8; 3]; 12] = [
        b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov",
        b"dec",
    ];
    let index = NAMES
        .iter()
        .position(|month| month.eq_ignore_ascii_case(name))?;
    Some(index as i64 + 1)
}

/// The year of a day given in days since 1970.
fn year_of(day: i64) -> i64 {
    let day = day + DAYS_TO_1970;
    let era = day.div_euclid(146_097);
    let day = day.rem_euclid(146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    // Day 306 of a year that begins in March is the 1st of January.
    era * 400 + year + i64::from(day_of_year >= 306)
}

/// The month and the day of it of a day given in days since 1970.
fn month_and_day(day: i64) -> (i64, i64) {
    let year = year_of(day);
    let of_year = |month: i64| day_number(year, month, 1).unwrap_or(day);
    let month = (1..=12)
        .rev()
        .find(|&month| of_year(month) <= day)
        .unwrap_or(1);
    (month, day - of_year(month) + 1)
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
