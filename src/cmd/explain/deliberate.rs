//! Kinds of answers in which SC4S is plainly wrong, so that ours differ on purpose: each is a row
//! of the table in docs/guides/sc4s.md, and here a condition by which it is told.

use serde_json::{Map, Value};

use super::against::Difference;

/// A kind of difference that is meant.
pub(super) struct Kind {
    /// Its name in the guide's table.
    pub(super) name: &'static str,
    applies: fn(&Difference<'_>) -> bool,
}

/// All of them; of those that apply the first counts.
const KINDS: &[Kind] = &[
    Kind {
        name: "source ends in a colon",
        applies: source_ends_in_colon,
    },
    Kind {
        name: "empty host",
        applies: |one| one.key == "host" && matches!(one.there.get("host"), "" | "-"),
    },
    Kind {
        name: "zone taken for the host",
        applies: |one| one.key == "host" && ZONES.contains(&one.there.get("host")),
    },
    Kind {
        name: "backslashes doubled",
        applies: |one| {
            one.key == "event"
                && one.there.get("event").replace("\\\\", "\\") == one.here.get("event")
        },
    },
    Kind {
        name: "internal names in JSON",
        applies: internal_names,
    },
    Kind {
        name: "time in another year",
        applies: |one| hours_apart(one).is_some_and(|hours| hours > 180.0 * 24.0),
    },
    Kind {
        name: "written zone not believed",
        applies: |one| quarters_apart(one).is_some_and(|apart| zones(one.message).contains(&apart)),
    },
    Kind {
        name: "zone guessed from one event",
        applies: |one| quarters_apart(one).is_some() && zones(one.message).is_empty(),
    },
];

/// Abbreviations of time zones, in small letters as hosts are.
const ZONES: [&str; 22] = [
    "utc", "gmt", "est", "edt", "cst", "cdt", "mst", "mdt", "pst", "pdt", "cet", "cest", "cedt",
    "eet", "eest", "west", "akst", "akdt", "aest", "aedt", "jst", "ist",
];

/// Quarters of an hour that a zone may be from another.
const ZONE_QUARTERS_MAX: i64 = 26 * 4;

/// The kind by which a key differs, if it is meant to.
pub(super) fn of(difference: &Difference<'_>) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| (kind.applies)(difference))
}

fn source_ends_in_colon(one: &Difference<'_>) -> bool {
    let (there, here) = (one.there.get("source"), one.here.get("source"));
    one.key == "source" && there.ends_with(':') && here.starts_with(there)
}

/// All members but those for SC4S itself are there.
fn internal_names(one: &Difference<'_>) -> bool {
    let object = |text| serde_json::from_str::<Map<String, Value>>(text).ok();
    let objects = object(one.there.get("event")).zip(object(one.here.get("event")));
    let Some((there, here)) = objects.filter(|_| one.key == "event") else {
        return false;
    };
    let is_internal = |name: &str| name.starts_with('_');
    there.keys().any(|name| is_internal(name))
        && there
            .iter()
            .all(|(name, value)| is_internal(name) || here.get(name) == Some(value))
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

/// The zones in a text that are written as `+02:00` or `-0700`, as quarters of an hour.
fn zones(text: &str) -> Vec<i64> {
    let bytes = text.as_bytes();
    let sign = |at: &usize| matches!(bytes[*at], b'+' | b'-') && *at > 0;
    let zone = |at: usize| {
        let digits: Vec<u8> = bytes[at + 1..]
            .iter()
            .filter(|byte| **byte != b':')
            .take(4)
            .copied()
            .collect();
        let number = std::str::from_utf8(&digits).ok()?.parse::<i64>().ok()?;
        let behind = bytes[at - 1].is_ascii_digit() || bytes[at - 1] == b' ';
        let (hours, minutes) = (number / 100, number % 100);
        (digits.len() == 4 && behind && hours <= 14 && minutes % 15 == 0)
            .then_some(hours * 4 + minutes / 15)
    };
    (0..bytes.len()).filter(sign).filter_map(zone).collect()
}
