//! Kinds that show in an event's time.

use super::{Difference, behind_pri};

/// Quarters of an hour that a zone may be from another.
const ZONE_QUARTERS_MAX: i64 = 26 * 4;

/// Quarters of an hour that a zone may be from UTC.
const OFFSET_QUARTERS_MAX: i64 = 14 * 4;

/// Bytes within which a header's time ends.
const HEADER_BYTES: usize = 64;

/// Bytes of `May 06 07:08:09`.
const STAMP_BYTES: usize = 15;

/// A year of four other digits, or seconds of more than 32 bits.
pub(super) fn another_year(one: &Difference<'_>) -> bool {
    hours_apart(one).is_some_and(|hours| hours > 180.0 * 24.0)
}

/// A written offset is taken for the default zone. A text may begin with the time.
pub(super) fn written_zone(one: &Difference<'_>) -> bool {
    let written = offsets(one.message.as_bytes());
    let mut zones = written
        .iter()
        .filter(|quarters| **quarters <= OFFSET_QUARTERS_MAX);
    match one.key {
        "event" => zones.next().is_some() && only_stamps_differ(one),
        _ => quarters_apart(one).is_some_and(|apart| zones.any(|zone| *zone == apart)),
    }
}

/// No zone is written, so it is guessed there from the hour at which the event came.
pub(super) fn guessed_zone(one: &Difference<'_>) -> bool {
    let written = offsets(one.message.as_bytes());
    let is_zone = |quarters: &i64| *quarters <= OFFSET_QUARTERS_MAX;
    quarters_apart(one).is_some() && !written.iter().any(is_zone)
}

/// `07:78:09`, or an offset of 51 hours: there the rest is added.
pub(super) fn is_none(one: &Difference<'_>) -> bool {
    let bytes = one.message.as_bytes();
    let header = &bytes[..bytes.len().min(HEADER_BYTES)];
    let is_beyond = |two: &[u8]| matches!(two[0], b'6'..=b'9') && two[1].is_ascii_digit();
    // with what stands before it; hardware addresses look much the same
    let is_clock = |(at, clock): &(usize, &[u8])| {
        let digits = clock[1].is_ascii_digit() && clock[2].is_ascii_digit();
        let colons = clock[3] == b':' && clock[6] == b':' && header.get(at + 9) != Some(&b':');
        matches!(clock[0], b' ' | b'T') && digits && colons
    };
    let clock = header
        .windows(9)
        .enumerate()
        .filter(is_clock)
        .any(|(_, clock)| is_beyond(&clock[4..6]) || is_beyond(&clock[7..9]));
    let zone = || {
        let mut offsets = offsets(header).into_iter();
        offsets.any(|quarters| quarters > OFFSET_QUARTERS_MAX)
    };
    one.key == "time" && (clock || zone())
}

/// Of Firepower without a PRI the time is asked for by a misspelt name.
pub(super) fn firepower(one: &Difference<'_>) -> bool {
    let is_it = behind_pri(one.message).is_none() && one.message.contains("%FTD-");
    is_it
        && match one.key {
            "time" => true,
            "host" => one.there.get("host").trim() == one.here.get("host"),
            _ => false,
        }
}

/// ISO with a fraction, and a year with AM or PM, fit none of the formats there.
pub(super) fn cisco_header(one: &Difference<'_>) -> bool {
    let Some((header, _)) = one.message.split_once(": %").filter(|_| one.key == "time") else {
        return false;
    };
    let is_iso = |word: &str| {
        let bytes = word.as_bytes();
        bytes.get(10) == Some(&b'T') && bytes.get(19) == Some(&b'.')
    };
    let mut words = header.split([' ', '>']);
    words.any(|word| is_iso(word) || matches!(word.trim_end_matches(':'), "AM" | "PM"))
}

/// `28/04/2024:…` can only be a day and a month, whatever today's date.
pub(super) fn netscaler_day(one: &Difference<'_>) -> bool {
    let text = behind_pri(one.message).unwrap_or_default();
    let first = text.trim_start().split('/').next().unwrap_or_default();
    let is_day = first.len() == 2 && first.parse::<u8>().is_ok_and(|number| number > 12);
    let is_it = one.here.get("sourcetype").starts_with("citrix:netscaler");
    one.key == "time" && is_it && is_day
}

/// FortiOS sends seconds, too, where SC4S wants a fraction.
pub(super) fn event_time(one: &Difference<'_>) -> bool {
    let Some((_, behind)) = one.message.split_once("eventtime=") else {
        return false;
    };
    let behind = behind.trim_start_matches('"');
    let end = behind.find(|letter: char| !letter.is_ascii_digit());
    let digits = &behind[..end.unwrap_or(behind.len())];
    let whole = one.here.get("time").split('.').next();
    one.key == "time" && digits.len() == 10 && whole == Some(digits)
}

/// Blanks before the next name count there as part of the value.
pub(super) fn cef_blanks(one: &Difference<'_>) -> bool {
    let has_blanks = |name: &&str| {
        let behind = one.message.split_once(*name).map(|(_, behind)| behind);
        let value = behind.and_then(|behind| behind.split('=').next());
        let value = value.map(|value| value.trim_end_matches(|letter: char| !is_blank(letter)));
        value.is_some_and(|value| value.ends_with("  ") || value.ends_with('\t'))
    };
    one.message.contains("CEF:")
        && match one.key {
            "time" => [" rt=", "|rt=", " end=", "|end="].iter().any(has_blanks),
            "host" => one.there.get("host").trim() == one.here.get("host"),
            _ => false,
        }
}

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t')
}

fn hours_apart(one: &Difference<'_>) -> Option<f64> {
    let seconds = |text: &str| text.parse::<f64>().ok();
    let apart = seconds(one.here.get("time"))? - seconds(one.there.get("time"))?;
    (one.key == "time").then_some(apart.abs() / 3600.0)
}

/// Quarters of an hour between the times, if there is nothing else between them.
fn quarters_apart(one: &Difference<'_>) -> Option<i64> {
    let quarters = 4.0 * hours_apart(one)?;
    let whole = (quarters - quarters.round()).abs() < 1e-6 && quarters > 0.5;
    let whole = whole.then_some(quarters.round() as i64)?;
    (whole <= ZONE_QUARTERS_MAX).then_some(whole)
}

/// The texts are the same but for the time with which they begin.
fn only_stamps_differ(one: &Difference<'_>) -> bool {
    let (there, here) = (one.there.get("event"), one.here.get("event"));
    let is_at = |at: usize, byte: u8| here.as_bytes().get(at) == Some(&byte);
    let is_stamp = is_at(3, b' ') && is_at(9, b':') && is_at(12, b':');
    is_stamp && here.len() > STAMP_BYTES && there.get(STAMP_BYTES..) == here.get(STAMP_BYTES..)
}

/// The offsets in a text that are written as `+02:00` or `-0700`, as quarters of an hour.
fn offsets(bytes: &[u8]) -> Vec<i64> {
    let sign = |at: &usize| matches!(bytes[*at], b'+' | b'-') && *at > 0;
    let offset = |at: usize| {
        let digits = bytes[at + 1..].iter().filter(|byte| **byte != b':');
        let digits: Vec<u8> = digits.take(5).copied().collect();
        let is_longer = digits.get(4).is_some_and(u8::is_ascii_digit);
        let number = std::str::from_utf8(digits.get(..4)?).ok()?;
        let number = number.parse::<i64>().ok().filter(|_| !is_longer)?;
        let behind = bytes[at - 1].is_ascii_digit() || bytes[at - 1] == b' ';
        let (hours, minutes) = (number / 100, number % 100);
        (behind && number >= 0 && minutes % 15 == 0).then_some(hours * 4 + minutes / 15)
    };
    (0..bytes.len()).filter(sign).filter_map(offset).collect()
}
