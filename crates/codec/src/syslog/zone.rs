//! The zone of timestamps that carry none, with the stretch around the last one cached.

use std::fmt;

use inrush_event::{Anomalies, Record, instants_of_twice, named_zone};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use crate::rfc3339::SECOND_NS;

/// A time zone, and the stretch of local time around the last reading within which its offset is
/// constant: as long as readings stay there, a lookup is two comparisons.
///
/// A local time that the clocks skip in spring is read with the offset before the change (it
/// lands after the gap); of one that occurs twice in autumn the closest to the receive time is
/// taken, and [`Anomalies::HOUR_ASSUMED`] set.
#[derive(Clone, Debug)]
pub struct Zone {
    zone: TimeZone,
    /// Local seconds, first of the cached stretch.
    from: i64,
    /// Local seconds, first after the cached stretch.
    to: i64,
    /// Seconds east of UTC within the stretch.
    offset: i64,
    /// The last reading that occurs twice.
    twice: TwiceShown,
}

/// A local time that occurs twice.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct TwiceShown {
    /// Seconds since 1970 of the first and the second time.
    pub(super) first: i64,
    pub(super) second: i64,
}

/// A name that is no zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZoneError(String);

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name) = self;
        write!(
            f,
            "`{name}` is not a time zone known here; write an IANA name such as Europe/Berlin, \
             `local`, or an offset such as +02:00"
        )
    }
}

impl std::error::Error for ZoneError {}

impl Zone {
    /// Coordinated universal time.
    pub const fn utc() -> Self {
        Self {
            zone: TimeZone::UTC,
            from: i64::MIN,
            to: i64::MAX,
            offset: 0,
            twice: TwiceShown {
                first: 0,
                second: 0,
            },
        }
    }

    /// The zone of an IANA name, of `local`, or of an offset such as `+02:00`.
    ///
    /// # Errors
    /// The name is none of these, or this host's time zone cannot be read.
    pub fn named(name: &str) -> Result<Self, ZoneError> {
        let bad = || ZoneError(name.to_owned());
        let zone = match name {
            "local" => TimeZone::try_system().map_err(|_| bad())?,
            _ if name.starts_with(['+', '-']) => fixed(name.as_bytes()).ok_or_else(bad)?,
            _ => named_zone(name).map_err(|_| bad())?,
        };
        // An empty stretch: the first reading fills it.
        Ok(Self {
            zone,
            from: 0,
            to: 0,
            offset: 0,
            twice: TwiceShown::default(),
        })
    }

    /// The zone itself.
    pub fn time_zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The last reading that occurs twice.
    pub(super) fn twice(&self) -> TwiceShown {
        self.twice
    }

    /// Seconds since 1970 UTC of a local reading of a record, given as seconds since 1970 by its
    /// own clock. One that occurs twice is flagged.
    #[inline]
    pub(super) fn utc_of(&mut self, local: i64, record: &mut Record) -> i64 {
        if (self.from..self.to).contains(&local) {
            return local - self.offset;
        }
        self.look_up(local, record)
    }

    #[cold]
    fn look_up(&mut self, local: i64, record: &mut Record) -> i64 {
        let Some(reading) = civil(local) else {
            return local;
        };
        if let Some((first, second)) = instants_of_twice(&self.zone, reading) {
            let (first, second) = (first.as_second(), second.as_second());
            self.twice = TwiceShown { first, second };
            record.anomalies.insert(Anomalies::HOUR_ASSUMED);
            let received = record.received.0.div_euclid(SECOND_NS);
            let is_second = received > first.midpoint(second);
            return if record.received.is_some() && is_second {
                second
            } else {
                first
            };
        }
        let Ok(instant) = self.zone.to_ambiguous_timestamp(reading).compatible() else {
            return local;
        };
        self.cache_around(instant);
        instant.as_second()
    }

    /// Makes the stretch around `instant` the cached one. Local times that a change makes
    /// ambiguous stay outside of it.
    fn cache_around(&mut self, instant: Timestamp) {
        let offset = seconds(self.zone.to_offset(instant));
        // `preceding` looks strictly before, so an instant on the change itself asks one later.
        let after = Timestamp::from_second(instant.as_second() + 1).unwrap_or(instant);
        let before = self
            .zone
            .preceding(after)
            .next()
            .map(|change| change.timestamp());
        let next = self.zone.following(instant).next();
        self.offset = offset;
        self.from = before.map_or(i64::MIN, |at| {
            let just_before = Timestamp::from_second(at.as_second() - 1).unwrap_or(at);
            at.as_second() + offset.max(seconds(self.zone.to_offset(just_before)))
        });
        self.to = next.map_or(i64::MAX, |change| {
            change.timestamp().as_second() + offset.min(seconds(change.offset()))
        });
    }
}

fn seconds(offset: Offset) -> i64 {
    i64::from(offset.seconds())
}

fn civil(local: i64) -> Option<DateTime> {
    let instant = Timestamp::from_second(local).ok()?;
    Some(Offset::UTC.to_datetime(instant))
}

/// `+02:00`, `-0330` or `+2`.
fn fixed(text: &[u8]) -> Option<TimeZone> {
    let (minutes, end) = crate::rfc3339::offset_minutes(text, 0)?;
    if end != text.len() {
        return None;
    }
    Offset::from_seconds(i32::from(minutes) * 60)
        .ok()
        .map(TimeZone::fixed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn local(text: &str) -> i64 {
        Offset::UTC
            .to_timestamp(text.parse::<DateTime>().unwrap())
            .unwrap()
            .as_second()
    }

    #[test]
    fn names_offsets_and_nonsense() {
        for name in ["UTC", "Europe/Berlin", "local", "+02:00", "-0330", "+14"] {
            assert!(Zone::named(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "Mars/Olympus",
            "+99:00",
            "+02:00x",
            "+",
            "CEST7CEST",
            "+02:60",
        ] {
            assert!(Zone::named(name).is_err(), "{name}");
        }
    }

    fn utc(zone: &mut Zone, local: i64) -> i64 {
        let at = inrush_event::Timestamp::NONE;
        let mut record = Record::unparsed(inrush_event::Span::EMPTY, at, 0, Anomalies::NONE);
        zone.utc_of(local, &mut record)
    }

    #[test]
    fn gaps_and_folds_follow_the_stated_rule() {
        let cases = [
            ("2026-01-15T12:00:00", "2026-01-15T11:00:00"),
            ("2026-03-29T01:59:59", "2026-03-29T00:59:59"),
            ("2026-03-29T02:30:00", "2026-03-29T01:30:00"), // skipped: read as 03:30 summer time
            ("2026-03-29T03:00:00", "2026-03-29T01:00:00"),
            ("2026-10-25T01:59:59", "2026-10-24T23:59:59"),
            ("2026-10-25T02:30:00", "2026-10-25T00:30:00"), // twice: without a reception the first
            ("2026-10-25T03:00:00", "2026-10-25T02:00:00"),
        ];
        // In any order through one cache, and each with a fresh one.
        let mut shared = Zone::named("Europe/Berlin").unwrap();
        for (reading, wanted) in cases.iter().chain(cases.iter().rev()) {
            let mut fresh = Zone::named("Europe/Berlin").unwrap();
            for zone in [&mut fresh, &mut shared] {
                assert_eq!(utc(zone, local(reading)), local(wanted), "{reading}");
            }
        }
    }

    #[test]
    fn the_cache_never_changes_an_answer() {
        for name in [
            "Europe/Berlin",
            "America/St_Johns",
            "Australia/Lord_Howe",
            "+05:30",
            "UTC",
        ] {
            let mut cached = Zone::named(name).unwrap();
            for step in 0..2_000 {
                let reading = local("2024-01-01T00:00:00") + step * 14_347;
                let direct = cached.zone.to_ambiguous_timestamp(civil(reading).unwrap());
                let direct = direct.compatible().unwrap().as_second();
                assert_eq!(utc(&mut cached, reading), direct, "{name} {reading}");
            }
        }
    }

    #[test]
    fn times_beyond_the_calendar_are_taken_as_utc() {
        let mut zone = Zone::named("Europe/Berlin").unwrap();
        assert_eq!(utc(&mut zone, i64::MAX), i64::MAX);
    }
}
