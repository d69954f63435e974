//! Parser of times in texts, by formats of `strptime` and further letters for vendors' variants.
//!
//! # What it guarantees
//! * Formats are tried in order; the first that fits the text and gives a valid instant counts.
//! * A missing year becomes the year closest to the receive time, a missing date the closest day.
//! * A zone in the text precedes the caller's zone. An unknown zone name leaves the caller's zone.
//! * `ParsedTime::stamp` sets the record's time, and renews its anomalies of time and zone.
//!
//! # Limits
//! A fraction counts to the nanosecond. A second above 59 is read as 59, so that leap seconds are
//! accepted. A date outside of 64-bit nanoseconds is no time.

use inrush_event::{
    Anomalies, Record, Timestamp, abbreviation_minutes, closest_instant, named_zone,
};
use jiff::civil::{Date, DateTime, Time as Clock};
use jiff::tz::{Offset, TimeZone};

use crate::PackError;

/// Formats, tried in order.
#[derive(Clone, Debug)]
pub struct TimeFormats {
    formats: Vec<Vec<FormatItem>>,
    /// As they were written, with ` | ` between them.
    written: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FormatItem {
    Literal(u8),
    /// Any number of blanks.
    Blanks,
    /// Anything up to the next item.
    Anything,
    Year,
    ShortYear,
    Month,
    MonthName,
    Day,
    /// The day of the month, if it is today's.
    Today,
    YearDay,
    Hour,
    Hour12,
    Minute,
    Second,
    Half,
    Fraction,
    Offset,
    Zone,
    EpochSeconds,
    EpochMillis,
    EpochAny,
    Weekday,
}

/// A time that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParsedTime {
    time: Timestamp,
    zone: Option<Offset>,
    year_assumed: bool,
    /// True if the time occurs twice in a zone that was not written.
    hour_assumed: bool,
}

impl ParsedTime {
    /// Makes it the event's. Without a zone of its own it was read in one that a rule knows
    /// (`by_rule`), or else in that of the event's header.
    pub(crate) fn stamp(self, record: &mut Record, by_rule: bool) {
        record.event_time = self.time;
        let guessed = record.anomalies.contains(Anomalies::ZONE_GUESSED) && !by_rule;
        let zone = Anomalies::ZONE_ASSUMED.union(Anomalies::ZONE_GUESSED);
        let none = Anomalies::NO_TIME.union(Anomalies::BAD_TIME);
        let gone = zone
            .union(none)
            .union(Anomalies::YEAR_ASSUMED)
            .union(Anomalies::HOUR_ASSUMED);
        record.anomalies = Anomalies::from_bits(record.anomalies.bits() & !gone.bits());
        match self.zone {
            Some(offset) => record.zone_minutes = (offset.seconds() / 60) as i16,
            None if guessed => record.anomalies.insert(Anomalies::ZONE_GUESSED),
            None => {
                record.zone_minutes = Record::ZONE_NONE;
                record.anomalies.insert(Anomalies::ZONE_ASSUMED);
            }
        }
        if self.year_assumed {
            record.anomalies.insert(Anomalies::YEAR_ASSUMED);
        }
        if self.hour_assumed {
            record.anomalies.insert(Anomalies::HOUR_ASSUMED);
        }
    }
}

/// Parts of a time that a format has found so far.
#[derive(Default)]
struct TimeFields {
    year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    /// True if the day has to be today's.
    today: bool,
    year_day: Option<i16>,
    hour: i8,
    minute: i8,
    second: i8,
    nanos: i32,
    /// True if `%p` said afternoon; `None` without `%p`.
    afternoon: Option<bool>,
    offset: Option<Offset>,
    /// True if `%Z` has read an offset behind a name.
    offset_of_name: bool,
    named: Option<TimeZone>,
    epoch: Option<i128>,
}

impl TimeFormats {
    /// Reads formats as packs write them.
    ///
    /// # Errors
    /// A letter that stands for nothing.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, PackError> {
        let texts: Vec<&str> = texts.into_iter().collect();
        let formats = texts.iter().map(|text| items(text));
        Ok(Self {
            formats: formats.collect::<Result<_, _>>()?,
            written: texts.join(" | "),
        })
    }

    /// As they were written, with ` | ` between them.
    pub(crate) fn written(&self) -> &str {
        &self.written
    }

    /// Formats of our own.
    pub(super) fn fixed(texts: &[&str]) -> Self {
        Self::parse(texts.iter().copied()).unwrap_or_else(|_| Self {
            formats: Vec::new(),
            written: String::new(),
        })
    }

    /// The time that the whole of `text` is.
    pub(crate) fn read(&self, text: &[u8], zone: &TimeZone, now: Timestamp) -> Option<ParsedTime> {
        let text = text.trim_ascii();
        let mut formats = self.formats.iter();
        formats.find_map(|format| {
            let (parts, end) = run(format, text)?;
            if end < text.len() && format.last() != Some(&FormatItem::Anything) {
                return None;
            }
            resolve(parts, zone, now)
        })
    }

    /// The time that `text` begins with, and where it ends.
    pub(super) fn prefix(
        &self,
        text: &[u8],
        zone: &TimeZone,
        now: Timestamp,
    ) -> Option<(ParsedTime, usize)> {
        let mut formats = self.formats.iter();
        formats.find_map(|format| {
            let (parts, end) = run(format, text)?;
            Some((resolve(parts, zone, now)?, end))
        })
    }
}

fn items(format: &str) -> Result<Vec<FormatItem>, PackError> {
    let mut out = Vec::new();
    let mut bytes = format.bytes();
    while let Some(byte) = bytes.next() {
        let item = match byte {
            b' ' => FormatItem::Blanks,
            b'%' => match bytes.next() {
                Some(letter) => item(letter)?,
                None => return Err(PackError::new("a time format ends with `%`")),
            },
            literal => FormatItem::Literal(literal),
        };
        out.push(item);
    }
    Ok(out)
}

fn item(letter: u8) -> Result<FormatItem, PackError> {
    Ok(match letter {
        b'Y' => FormatItem::Year,
        b'y' => FormatItem::ShortYear,
        b'm' => FormatItem::Month,
        b'b' | b'B' => FormatItem::MonthName,
        b'd' | b'e' => FormatItem::Day,
        b'D' => FormatItem::Today,
        b'j' => FormatItem::YearDay,
        b'H' => FormatItem::Hour,
        b'I' => FormatItem::Hour12,
        b'M' => FormatItem::Minute,
        b'S' => FormatItem::Second,
        b'p' => FormatItem::Half,
        b'f' => FormatItem::Fraction,
        b'z' => FormatItem::Offset,
        b'Z' => FormatItem::Zone,
        b's' => FormatItem::EpochSeconds,
        b'Q' => FormatItem::EpochMillis,
        b'N' => FormatItem::EpochAny,
        b'a' | b'A' => FormatItem::Weekday,
        b'*' => FormatItem::Anything,
        b'%' => FormatItem::Literal(b'%'),
        other => {
            let words = format!("`%{}` is no part of a time", char::from(other));
            return Err(PackError::new(words));
        }
    })
}

/// Reads along a format; where it ended.
fn run(format: &[FormatItem], text: &[u8]) -> Option<(TimeFields, usize)> {
    let mut parts = TimeFields::default();
    let mut at = 0;
    for (index, item) in format.iter().enumerate() {
        match item {
            FormatItem::Literal(byte) => {
                (text.get(at) == Some(byte)).then_some(())?;
                at += 1;
            }
            FormatItem::Blanks => at += blanks(&text[at..]),
            FormatItem::Anything => match format.get(index + 1) {
                Some(FormatItem::Literal(next)) => at += memchr::memchr(*next, &text[at..])?,
                Some(FormatItem::Blanks) => at += memchr::memchr(b' ', &text[at..])?,
                _ => at = text.len(),
            },
            other => at = part(*other, text, at, &mut parts)?,
        }
    }
    Some((parts, at))
}

fn blanks(text: &[u8]) -> usize {
    text.iter()
        .take_while(|byte| byte.is_ascii_whitespace())
        .count()
}

fn part(item: FormatItem, text: &[u8], mut at: usize, parts: &mut TimeFields) -> Option<usize> {
    let mut number = |most: usize| number(text, &mut at, most);
    match item {
        FormatItem::Year => parts.year = Some(number(4).filter(|year| *year >= 1000)? as i16),
        FormatItem::ShortYear => {
            let year = number(2)? as i16;
            parts.year = Some(if year < 69 { 2000 + year } else { 1900 + year });
        }
        FormatItem::Month => parts.month = Some(number(2)? as i8),
        FormatItem::Day | FormatItem::Today => {
            at += blanks(&text[at..]);
            parts.day = Some(self::number(text, &mut at, 2)? as i8);
            parts.today |= item == FormatItem::Today;
        }
        FormatItem::YearDay => parts.year_day = Some(number(3)? as i16),
        FormatItem::Hour | FormatItem::Hour12 => parts.hour = number(2)? as i8,
        FormatItem::Minute => parts.minute = number(2)? as i8,
        // A leap second is the last one of its minute.
        FormatItem::Second => parts.second = number(2)?.min(59) as i8,
        FormatItem::MonthName => {
            let (month, length) = month(&text[at..])?;
            parts.month = Some(month);
            at += length;
        }
        FormatItem::Half => {
            let word = text.get(at..at + 2)?;
            let afternoon = word.eq_ignore_ascii_case(b"pm");
            (afternoon || word.eq_ignore_ascii_case(b"am")).then_some(())?;
            parts.afternoon = Some(afternoon);
            at += 2;
        }
        FormatItem::Fraction => fraction(text, &mut at, parts),
        FormatItem::Offset => match offset(text, &mut at) {
            Some(offset) => parts.offset = Some(offset),
            // `%Z%z` of `GMT+5:00`: the name has taken it.
            None if parts.offset_of_name => {}
            None => return None,
        },
        FormatItem::Zone => zone(text, &mut at, parts)?,
        FormatItem::EpochSeconds | FormatItem::EpochMillis | FormatItem::EpochAny => {
            epoch(item, text, &mut at, parts)?;
        }
        FormatItem::Weekday => {
            let letters = text[at..]
                .iter()
                .take_while(|byte| byte.is_ascii_alphabetic());
            at += letters.count();
        }
        FormatItem::Literal(_) | FormatItem::Blanks | FormatItem::Anything => {}
    }
    Some(at)
}

/// A number of one to `most` digits.
fn number(text: &[u8], at: &mut usize, most: usize) -> Option<i64> {
    let digits = text[*at..].iter().take(most);
    let length = digits.take_while(|byte| byte.is_ascii_digit()).count();
    let digits = &text[*at..*at + length];
    *at += length;
    // Of 19 digits, which are the most, a `u64` holds all.
    let value = digits
        .iter()
        .fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    let value = i64::try_from(value).ok()?;
    (length > 0).then_some(value)
}

fn month(text: &[u8]) -> Option<(i8, usize)> {
    const NAMES: [&[u8]; 12] = [
        b"january",
        b"february",
        b"march",
        b"april",
        b"may",
        b"june",
        b"july",
        b"august",
        b"september",
        b"october",
        b"november",
        b"december",
    ];
    let short = text.get(..3)?;
    let index = NAMES
        .iter()
        .position(|name| name[..3].eq_ignore_ascii_case(short))?;
    let whole = NAMES[index];
    let long = text
        .get(..whole.len())
        .is_some_and(|t| t.eq_ignore_ascii_case(whole));
    Some((index as i8 + 1, if long { whole.len() } else { 3 }))
}

/// `.123`, `,123` or digits alone; none at all is none.
fn fraction(text: &[u8], at: &mut usize, parts: &mut TimeFields) {
    let mark = usize::from(matches!(text.get(*at), Some(b'.' | b',' | b':')));
    let rest = &text[*at + mark..];
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if length == 0 {
        return;
    }
    let mut nanos = 0;
    for index in 0..9 {
        let digit = rest.get(index).filter(|_| index < length);
        nanos = nanos * 10 + digit.map_or(0, |digit| i32::from(digit - b'0'));
    }
    parts.nanos = nanos;
    *at += mark + length;
}

/// `Z`, `+02`, `+0200` or `+02:00`.
fn offset(text: &[u8], at: &mut usize) -> Option<Offset> {
    let sign = match text.get(*at)? {
        b'Z' | b'z' => {
            *at += 1;
            return Some(Offset::UTC);
        }
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let mut end = *at + 1;
    let hours = number(text, &mut end, 2)?;
    if text.get(end) == Some(&b':') {
        end += 1;
    }
    let minutes = number(text, &mut end, 2).unwrap_or(0);
    *at = end;
    Offset::from_seconds(sign * (hours * 3600 + minutes * 60) as i32).ok()
}

/// An offset, an abbreviation, UTC with an offset (`GMT+2`), or a name; what is not known leaves
/// the source's zone.
fn zone(text: &[u8], at: &mut usize, parts: &mut TimeFields) -> Option<()> {
    let word = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'/' | b'_');
    let length = text[*at..].iter().take_while(|byte| word(byte)).count();
    if length == 0 {
        parts.offset = Some(offset(text, at)?);
        return Some(());
    }
    let name = std::str::from_utf8(&text[*at..*at + length]).ok()?;
    // Halves of the day are `%p`.
    if matches!(name, "AM" | "PM") {
        return None;
    }
    *at += length;
    let signed = matches!(text.get(*at), Some(b'+' | b'-'));
    if signed && matches!(name, "UTC" | "GMT" | "UT") {
        parts.offset = Some(offset(text, at)?);
        parts.offset_of_name = true;
        return Some(());
    }
    match abbreviation_minutes(name.as_bytes()) {
        Some(minutes) => parts.offset = Offset::from_seconds(i32::from(minutes) * 60).ok(),
        None => parts.named = named(name),
    }
    Some(())
}

/// An IANA name, or one of those that stand for either half of a year in North America.
fn named(name: &str) -> Option<TimeZone> {
    let iana = match name {
        "ET" => "America/New_York",
        "CT" => "America/Chicago",
        "MT" => "America/Denver",
        "PT" => "America/Los_Angeles",
        other => other,
    };
    let zone = iana.contains('/').then(|| named_zone(iana).ok());
    zone.flatten()
}

fn epoch(item: FormatItem, text: &[u8], at: &mut usize, parts: &mut TimeFields) -> Option<()> {
    let start = *at;
    let value = number(text, at, 19)?;
    let digits = *at - start;
    let scale = match item {
        FormatItem::EpochMillis => 1_000_000,
        FormatItem::EpochSeconds => 1_000_000_000,
        _ => match digits {
            ..=11 => 1_000_000_000,
            12..=14 => 1_000_000,
            15..=17 => 1_000,
            _ => 1,
        },
    };
    fraction(text, at, parts);
    let extra = if scale == 1_000_000_000 {
        parts.nanos
    } else {
        0
    };
    parts.epoch = Some(i128::from(value) * scale + i128::from(extra));
    Some(())
}

fn resolve(parts: TimeFields, zone: &TimeZone, now: Timestamp) -> Option<ParsedTime> {
    if let Some(epoch) = parts.epoch {
        let time = Timestamp(i64::try_from(epoch).ok()?);
        return Some(ParsedTime {
            time,
            zone: Some(Offset::UTC),
            year_assumed: false,
            hour_assumed: false,
        });
    }
    let hour = match parts.afternoon {
        Some(afternoon) => parts.hour % 12 + if afternoon { 12 } else { 0 },
        None => parts.hour,
    };
    let clock = Clock::new(hour, parts.minute, parts.second, parts.nanos).ok()?;
    let given = parts.offset;
    let own = parts.named.as_ref().unwrap_or(zone);
    let now = jiff::Timestamp::from_nanosecond(i128::from(now.or(Timestamp(0)).0)).ok()?;
    let instant = |date: Date| {
        let civil = date.to_datetime(clock);
        match given {
            Some(offset) => offset.to_timestamp(civil).ok(),
            None => closest_instant(own, civil, now).map(|(time, _)| time),
        }
    };
    let today = || match given {
        Some(offset) => offset.to_datetime(now),
        None => own.to_datetime(now),
    };
    // Today is that of the zone in which times without one are read, whatever zone is written.
    if parts.today && parts.day != Some(zone.to_datetime(now).day()) {
        return None;
    }
    let (time, year_assumed) = match (parts.year, parts.month, parts.day, parts.year_day) {
        (Some(year), _, _, Some(day)) => {
            let date = Date::new(year, 1, 1)
                .ok()?
                .checked_add(jiff::Span::new().days(day - 1));
            (instant(date.ok()?)?, false)
        }
        (Some(year), Some(month), Some(day), None) => {
            (instant(Date::new(year, month, day).ok()?)?, false)
        }
        (None, Some(month), Some(day), None) => {
            (closest_year(today(), month, day, instant, now)?, true)
        }
        (None, None, None, None) => (closest_day(today(), instant, now)?, true),
        _ => return None,
    };
    let nanos = i64::try_from(time.as_nanosecond()).ok()?;
    let zone = given.or_else(|| parts.named.as_ref().map(|zone| zone.to_offset(time)));
    let shown = own.to_datetime(time);
    let hour_assumed = given.is_none() && closest_instant(own, shown, now).is_some_and(|it| it.1);
    Some(ParsedTime {
        time: Timestamp(nanos),
        zone,
        year_assumed,
        hour_assumed,
    })
}

/// The instant of that time of day that is closest to now: yesterday's, today's or tomorrow's.
fn closest_day(
    today: DateTime,
    instant: impl Fn(Date) -> Option<jiff::Timestamp>,
    now: jiff::Timestamp,
) -> Option<jiff::Timestamp> {
    let today = today.date();
    let days = [today.yesterday().ok(), Some(today), today.tomorrow().ok()];
    closest(days.into_iter().flatten().filter_map(instant), now)
}

fn closest(
    times: impl Iterator<Item = jiff::Timestamp>,
    now: jiff::Timestamp,
) -> Option<jiff::Timestamp> {
    times.min_by_key(|time| (time.as_nanosecond() - now.as_nanosecond()).abs())
}

/// The instant of that day and month that is closest to now, in the year before, this one or the
/// next. A 29th of February takes the closest year that has one.
pub fn closest_year(
    today: DateTime,
    month: i8,
    day: i8,
    instant: impl Fn(Date) -> Option<jiff::Timestamp>,
    now: jiff::Timestamp,
) -> Option<jiff::Timestamp> {
    let far = if (month, day) == (2, 29) { 8 } else { 1 };
    let years = (today.year() - far)..=(today.year() + far);
    let times = years.filter_map(|year| instant(Date::new(year, month, day).ok()?));
    closest(times, now)
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod over_the_calendar;

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-05-06T07:08:09.123456Z
    const NOW: Timestamp = Timestamp(1_714_979_289_123_456_000);

    /// Microseconds.
    fn read(format: &str, text: &str) -> Option<i64> {
        let formats = TimeFormats::parse([format]).expect(format);
        let read = formats.read(text.as_bytes(), &TimeZone::UTC, NOW)?;
        Some(read.time.0 / 1000)
    }

    #[test]
    fn a_number_beyond_all_times_is_none() {
        for format in ["%s", "%Q", "%N"] {
            assert_eq!(read(format, "9999999999999999999"), None, "{format}");
            assert_eq!(read(format, "9223372036854775808"), None, "{format}");
        }
        assert_eq!(
            read("%N", "9223372036854775807"),
            Some(9_223_372_036_854_775)
        );
    }

    #[test]
    fn halves_of_the_day_are_no_zones() {
        for text in ["May  6 07:08:09 PM", "May  6 07:08:09 AM"] {
            assert_eq!(read("%b %e %H:%M:%S %Z", text), None, "{text}");
        }
    }

    #[test]
    fn of_an_hour_that_occurs_twice_the_closest_is_taken() {
        let zone = named_zone("Europe/Berlin").expect("a zone");
        for (format, text) in [
            ("%Y-%m-%d %H:%M:%S", "2026-10-25 02:30:00"),
            ("%b %e %H:%M:%S", "Oct 25 02:30:00"),
            ("%H:%M:%S", "02:30:00"),
            ("%Y-%m-%d %H:%M:%S %Z", "2026-10-25 02:30:00 Europe/Berlin"),
        ] {
            let formats = TimeFormats::parse([format]).expect(format);
            // 2026-10-25T00:30:00Z, and an hour later.
            for first in [1_792_888_200_i64, 1_792_891_800] {
                let now = Timestamp((first + 1) * 1_000_000_000);
                let read = formats.read(text.as_bytes(), &zone, now).expect(text);
                assert_eq!(read.time.0 / 1_000_000_000, first, "{text}");
                assert!(read.hour_assumed, "{text}");
            }
        }
        let formats = TimeFormats::parse(["%Y-%m-%d %H:%M:%S %z"]).expect("a format");
        let text = b"2026-10-25 02:30:00 +0100";
        let read = formats.read(text, &zone, NOW).expect("a time");
        assert!(!read.hour_assumed);
    }

    #[test]
    fn formats_read_what_vendors_write() {
        let t = 1_714_979_289_000_000;
        for (format, text, time) in [
            ("%Y-%m-%d %H:%M:%S", "2024-05-06 07:08:09", t),
            (
                "%Y-%m-%dT%H:%M:%S%f%z",
                "2024-05-06T07:08:09.123Z",
                t + 123_000,
            ),
            ("%Y-%m-%dT%H:%M:%S%f%z", "2024-05-06T09:08:09+02:00", t),
            ("%b %d %Y %I:%M:%S %p", "May  6 2024 07:08:09 AM", t),
            ("%b %e %H:%M:%S", "May  6 07:08:09", t),
            ("%d/%b/%Y:%H:%M:%S %z", "06/May/2024:02:08:09 -0500", t),
            ("%a %b %d %H:%M:%S %Y", "Mon May 06 07:08:09 2024", t),
            ("%s", "1714979289.123", t + 123_000),
            ("%Q", "1714979289123", t + 123_000),
            ("%N", "1714979289123456000", t + 123_456),
            (
                "%b %e %H:%M:%S%f %Z",
                "May  6 09:08:09.5 GMT+2",
                t + 500_000,
            ),
            ("%b %e %H:%M:%S %Z", "May  6 08:08:09 UTC+01:00", t),
            ("%b %e %H:%M:%S %Z", "May  6 03:38:09 UTC-3:30", t),
            ("%b %e %H:%M:%S %Z", "May  6 03:38:09 GMT-0330", t),
            ("%b %e %H:%M:%S %Z", "May  6 07:08:09 NewYork", t),
            ("%b %e %H:%M:%S %Z", "May  6 09:08:09 Europe/Berlin", t),
            (
                "%b %e %I:%M:%S%f %p %Z",
                "May  6 09:08:09.5 AM GMT+2",
                t + 500_000,
            ),
            (
                "%d %b %Y %H:%M:%S (%Z%z)",
                "06 May 2024 12:08:09 (GMT+5:00)",
                t,
            ),
            ("%b %d %Y %H:%M:%S %Z", "May 06 2024 03:08:09 EDT", t),
            ("%Y%j %H:%M:%S", "2024127 07:08:09", t),
            ("%m/%d/%y %H:%M:%S%*", "05/06/24 07:08:09 whatever", t),
        ] {
            assert_eq!(read(format, text), Some(time), "{format} on {text}");
        }
        assert_eq!(read("%Y-%m-%d", "2024-02-30"), None);
        assert_eq!(read("%Y-%m-%d %H:%M:%S", "2024-05-06 07:08:09 x"), None);
        assert!(TimeFormats::parse(["%k"]).is_err() && TimeFormats::parse(["a%"]).is_err());
    }

    /// Those that headers know, and beside them names that are no abbreviations.
    #[test]
    fn zones_are_known_by_name() {
        let utc = 1_714_979_289_000_000;
        for (zone, minutes) in [
            ("CEST", 120),
            ("IST", 330),
            ("SGT", 480),
            ("MSD", 240),
            ("PT", -420),
            ("Asia/Kathmandu", 345),
            ("NOWHERE", 0),
            ("-03:30", -210),
        ] {
            let text = format!("May 06 2024 07:08:09 {zone}");
            let found = read("%b %d %Y %H:%M:%S %Z", &text);
            assert_eq!(found, Some(utc - minutes * 60_000_000), "{zone}");
        }
    }

    #[test]
    fn a_day_without_a_year_is_the_closest_one() {
        let formats = TimeFormats::parse(["%b %e %H:%M:%S"]).expect("a format");
        let at = |now: &str, text: &str| {
            let now: jiff::Timestamp = now.parse().expect(now);
            let now = Timestamp(now.as_nanosecond() as i64);
            let read = formats
                .read(text.as_bytes(), &TimeZone::UTC, now)
                .expect(text);
            jiff::Timestamp::from_nanosecond(read.time.0.into())
                .expect("a time")
                .to_string()
        };
        assert_eq!(
            at("2024-01-01T00:00:05Z", "Dec 31 23:59:58"),
            "2023-12-31T23:59:58Z"
        );
        assert_eq!(
            at("2023-12-31T23:59:58Z", "Jan  1 00:00:05"),
            "2024-01-01T00:00:05Z"
        );
        assert_eq!(
            at("2025-03-01T00:00:00Z", "Feb 29 12:00:00"),
            "2024-02-29T12:00:00Z"
        );
        assert_eq!(
            at("2101-03-01T00:00:00Z", "Feb 29 12:00:00"),
            "2104-02-29T12:00:00Z"
        );
    }
}
