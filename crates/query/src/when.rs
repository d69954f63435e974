//! Times as people give them beside a query: `15m`, `24h`, `7d`, `1y`, an RFC 3339 time, or a
//! number since 1970: seconds as `date +%s` prints them, or milliseconds, microseconds or
//! nanoseconds. `-15m` and `now-15m`, as Splunk and Grafana write it, are `15m`.

use jiff::Timestamp;

/// Forms of a time that [`time`] takes, for messages.
pub const TIMES: &str = "write 15m, 24h, 7d or 1y (before now), 2026-11-22T10:00:00Z, or \
    seconds or milliseconds since 1970";

/// The time that `text` means, in nanoseconds since 1970; `now_ns` is when it is read. Times
/// outside of what 64 bits hold are the first and the last that they do.
pub fn time(text: &str, now_ns: i64) -> Option<i64> {
    let text = text.trim();
    if let Ok(since) = text.parse::<i64>() {
        return Some(since.saturating_mul(unit_ns(since)));
    }
    if let Some(ns) = seconds(text) {
        return Some(ns);
    }
    if text == "now" {
        return Some(now_ns);
    }
    let before = text.strip_prefix("now").unwrap_or(text);
    if let Some(ago) = stretch(before.strip_prefix('-').unwrap_or(text)) {
        return Some(now_ns.saturating_sub(ago));
    }
    let time: Timestamp = text.parse().ok()?;
    let ns = time.as_nanosecond();
    Some(i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX }))
}

/// The nanoseconds of the unit in which somebody has written a number since 1970. Seconds have
/// eleven digits at most until the year 5138; as milliseconds those would be before March 1973, as
/// microseconds and nanoseconds what is longer has the same distance.
pub(super) const fn unit_ns(since: i64) -> i64 {
    match since.unsigned_abs() {
        0..100_000_000_000 => 1_000_000_000,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000,
        _ => 1,
    }
}

/// Seconds since 1970 with a fraction, as `date +%s.%N` prints them.
fn seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let whole: i64 = whole.parse().ok()?;
    let ns: i64 = format!("{fraction:0<9}").parse().ok()?;
    let whole = whole.saturating_mul(unit_ns(whole));
    (unit_ns(whole / 1_000_000_000) == 1_000_000_000).then_some(whole.saturating_add(ns))
}

/// A time in nanoseconds since 1970 as RFC 3339 writes it, in UTC with milliseconds.
pub fn shown(ns: i64) -> String {
    // Every i64 of nanoseconds is a year between 1677 and 2262, all of which jiff has.
    let time = Timestamp::from_nanosecond(i128::from(ns)).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// The nanoseconds of `15m` and its like.
fn stretch(text: &str) -> Option<i64> {
    let unit = text.chars().next_back()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        'y' => 365 * 86_400,
        _ => return None,
    };
    let digits = text.strip_suffix(unit)?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let count: i64 = digits.parse().unwrap_or(i64::MAX);
    Some(count.saturating_mul(seconds).saturating_mul(1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_give_them() {
        const NOW: i64 = 1_795_287_605_000_000_000;
        let cases = [
            ("15m", Some(NOW - 900_000_000_000)),
            ("1w", Some(NOW - 604_800_000_000_000)),
            ("99999999999999999999d", Some(NOW.saturating_sub(i64::MAX))),
            ("now", Some(NOW)),
            (" 1795287605000 ", Some(NOW)),
            ("1795287605", Some(NOW)),
            ("1795287605.25", Some(NOW + 250_000_000)),
            ("1795287605000000", Some(NOW)),
            ("1795287605000000000", Some(NOW)),
            ("99999999999", Some(i64::MAX)),
            ("100000000000", Some(100_000_000_000_000_000)),
            ("-1", Some(-1_000_000_000)),
            ("1795287605.", None),
            ("1795287605.x", None),
            ("1.2.3", None),
            ("2026-11-21T19:00:05Z", Some(NOW)),
            ("2026-11-21T20:00:05+01:00", Some(NOW)),
            ("9999-01-01T00:00:00Z", Some(i64::MAX)),
            ("99999999999999999", Some(i64::MAX)),
            ("m", None),
            ("-5m", Some(NOW - 300_000_000_000)),
            ("now-5m", Some(NOW - 300_000_000_000)),
            ("now5m", None),
            ("now-now", None),
            ("--5m", None),
            ("1y", Some(NOW - 31_536_000_000_000_000)),
            ("5x", None),
            ("yesterday", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(time(text, NOW), expected, "{text}");
        }
    }
}
