//! Times of RFC 3339, and the parts of a calendar that they are read with.

use inrush_event::Timestamp;

/// Nanoseconds of a second.
pub(crate) const SECOND_NS: i64 = 1_000_000_000;
/// Seconds of a day.
pub(crate) const DAY_SECONDS: i64 = 86_400;

/// `YYYY-MM-DDTHH:MM:SS`.
pub(crate) const ISO_BYTES: usize = 19;

/// A time with its offset from UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ZonedTime {
    /// [`Timestamp::NONE`] if it is no date, or one that nanoseconds since 1970 cannot hold (before
    /// 1677, after 2262).
    pub(crate) time: Timestamp,
    /// Minutes east of UTC.
    pub(crate) zone_minutes: i16,
    /// Offset after it.
    pub(crate) end: usize,
}

/// The time at the start of `bytes`: `YYYY-MM-DDTHH:MM:SS`, a fraction or none, and `Z` or an
/// offset. Decimals beyond nine are passed over.
#[inline]
pub(crate) fn zoned_time(bytes: &[u8]) -> Option<ZonedTime> {
    let prefix = bytes.first_chunk::<ISO_BYTES>()?;
    if prefix[10] != b'T' {
        return None;
    }
    let local = iso_prefix(prefix)?;
    let (nanos, end) = fraction(bytes, ISO_BYTES);
    let (zone_minutes, end) = offset_minutes(bytes, end)?;
    let time = local.and_then(|local| {
        let seconds = local - i64::from(zone_minutes) * 60;
        seconds.checked_mul(SECOND_NS)?.checked_add(nanos)
    });
    Some(ZonedTime {
        time: time.map_or(Timestamp::NONE, Timestamp),
        zone_minutes,
        end,
    })
}

/// True if `bytes` at `at` have the shape `dddd-dd-dd`.
pub(crate) fn looks_like_iso(bytes: &[u8], at: usize) -> bool {
    let date = bytes.get(at..).and_then(<[u8]>::first_chunk::<10>);
    date.is_some_and(|d| {
        d[4] == b'-'
            && d[7] == b'-'
            && [0, 1, 2, 3, 5, 6, 8, 9]
                .iter()
                .all(|&i| d[i].is_ascii_digit())
    })
}

/// `Z`, `+02:00`, `+0200` or `+02`, as minutes east of UTC, and the offset after it.
#[inline]
pub(crate) fn offset_minutes(bytes: &[u8], at: usize) -> Option<(i16, usize)> {
    let sign = match bytes.get(at)? {
        b'Z' | b'z' => return Some((0, at + 1)),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let hours = digits(bytes, at + 1, 2).filter(|&hours| hours < 24)?;
    let colon = usize::from(bytes.get(at + 3) == Some(&b':'));
    let (minutes, end) = match digits(bytes, at + 3 + colon, 2) {
        Some(minutes) => (minutes, at + 5 + colon),
        None => (0, at + 3),
    };
    (minutes < 60).then_some((sign * (hours * 60 + minutes) as i16, end))
}

/// Nanoseconds of a `.123` or `,123` at `at`, and the offset after it.
#[inline]
pub(crate) fn fraction(bytes: &[u8], at: usize) -> (i64, usize) {
    const SCALE: [i64; 10] = [
        SECOND_NS,
        100_000_000,
        10_000_000,
        1_000_000,
        100_000,
        10_000,
        1_000,
        100,
        10,
        1,
    ];
    if !matches!(bytes.get(at), Some(b'.' | b',')) {
        return (0, at);
    }
    let mut nanos = 0;
    let mut end = at + 1;
    while let Some(byte @ b'0'..=b'9') = bytes.get(end) {
        if end - at <= 9 {
            nanos = nanos * 10 + i64::from(byte - b'0');
        }
        end += 1;
    }
    match end - at - 1 {
        0 => (0, at),
        digits => (nanos * SCALE[digits.min(9)], end),
    }
}

/// The number that exactly `count` digits at `at` write.
#[inline]
pub(crate) fn digits(bytes: &[u8], at: usize, count: usize) -> Option<i64> {
    let mut value = 0;
    for &byte in bytes.get(at..at + count)? {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(byte - b'0');
    }
    Some(value)
}

/// Seconds since 1970 of an ISO prefix: `None` if it has not the shape, `Some(None)` if it has
/// and is no date.
pub(crate) fn iso_prefix(prefix: &[u8; ISO_BYTES]) -> Option<Option<i64>> {
    if prefix[4] != b'-' || prefix[7] != b'-' || !matches!(prefix[10], b'T' | b't' | b' ') {
        return None;
    }
    let time_of_day = time_of_day(prefix, 11)?;
    let (year, month) = (digits(prefix, 0, 4)?, digits(prefix, 5, 2)?);
    let day = digits(prefix, 8, 2)?;
    Some(
        day_number(year, month, day)
            .zip(time_of_day)
            .map(|(days, s)| days * DAY_SECONDS + s),
    )
}

/// Seconds of `HH:MM:SS` at `at`: `None` if it has not the shape, `Some(None)` if it is no time.
pub(crate) fn time_of_day(bytes: &[u8], at: usize) -> Option<Option<i64>> {
    if bytes.get(at + 2) != Some(&b':') || bytes.get(at + 5) != Some(&b':') {
        return None;
    }
    let (hour, minute) = (digits(bytes, at, 2)?, digits(bytes, at + 3, 2)?);
    let second = digits(bytes, at + 6, 2)?;
    let valid = hour < 24 && minute < 60 && second <= 60;
    Some(valid.then_some(hour * 3600 + minute * 60 + second))
}

/// Days since 1970-01-01 in the Gregorian calendar, carried on before its introduction; `None` if
/// the month has no such day.
pub(crate) fn day_number(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if !(1..=days).contains(&day) {
        return None;
    }
    // Years begin in March, so that the leap day is the last of its year: a year's days before
    // a month are then (153 × month + 2) / 5.
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let before_year = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(before_year + (153 * month + 2) / 5 + day - 1 - DAYS_TO_1970)
}

/// Days from 0000-03-01 to 1970-01-01.
pub(crate) const DAYS_TO_1970: i64 = 719_468;
