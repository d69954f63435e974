//! Kinds that come of how a header is read. Where SC4S takes the host for something else, or
//! something else for the host, all other keys hang on it.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Difference, behind_pri, is_number};

/// Abbreviations of time zones, in small letters as hosts are.
const ZONES: [&str; 22] = [
    "utc", "gmt", "est", "edt", "cst", "cdt", "mst", "mdt", "pst", "pdt", "cet", "cest", "cedt",
    "eet", "eest", "west", "akst", "akdt", "aest", "aedt", "jst", "ist",
];

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

const LEVELS: [&str; 10] = [
    "emerg", "alert", "crit", "err", "error", "warning", "warn", "notice", "info", "debug",
];

/// Words of an RFC 5424 header before its structured data, the version among them.
const WORDS_5424: usize = 6;

/// Digits of a year.
const YEAR: usize = 4;

fn hosts_differ(one: &Difference<'_>) -> bool {
    one.there.get("host") != one.here.get("host")
}

/// No host, or the `-` that says so; behind which `CEF:` is lost, too.
pub(super) fn empty_host(one: &Difference<'_>) -> bool {
    let host = one.there.get("host");
    match one.key {
        "host" => matches!(host, "" | "-"),
        "event" => host == "-" && one.here.get("event").ends_with(one.there.get("event")),
        _ => false,
    }
}

/// `time UTC host program: text`.
pub(super) fn zone_for_host(one: &Difference<'_>) -> bool {
    ZONES.contains(&one.there.get("host")) && hosts_differ(one)
}

/// `time user.info host program: text`.
pub(super) fn facility_for_host(one: &Difference<'_>) -> bool {
    let host = one.there.get("host").split_once('.');
    host.is_some_and(|(_, level)| LEVELS.contains(&level)) && hosts_differ(one)
}

/// `1 time host: program …`: the host is the program there.
pub(super) fn colon_behind_host(one: &Difference<'_>) -> bool {
    let text = behind_pri(one.message).and_then(|text| text.strip_prefix("1 "));
    let host = text.and_then(|text| text.split(' ').nth(1));
    let Some(host) = host.and_then(|host| host.strip_suffix(':')) else {
        return false;
    };
    let there = one.there.get("host");
    !there
        .strip_suffix(':')
        .unwrap_or(there)
        .eq_ignore_ascii_case(host)
}

/// An address with colons is no host there, so it begins the message.
pub(super) fn ipv6_host(one: &Difference<'_>) -> bool {
    let host = one.here.get("host");
    let is_written = || one.message.to_ascii_lowercase().contains(host);
    host.parse::<Ipv6Addr>().is_ok() && hosts_differ(one) && is_written()
}

/// `address program[pid]: text`, without a time.
pub(super) fn address_before_program(one: &Difference<'_>) -> bool {
    let word = behind_pri(one.message).and_then(|text| text.split(' ').next());
    word.is_some_and(|word| {
        word.parse::<Ipv4Addr>().is_ok() && one.here.get("host") == word && hosts_differ(one)
    })
}

/// A text before `CEF:0` begins with the host there, whatever it is.
pub(super) fn time_for_host(one: &Difference<'_>) -> bool {
    let host = one.there.get("host");
    let is_time = MONTHS.contains(&host) || is_number(host) && host.len() <= YEAR;
    one.message.contains("CEF:") && is_time && hosts_differ(one)
}

/// `time adc1: text`: up to four of the letters a to f and a colon are a piece of an address.
pub(super) fn hexadecimal_host(one: &Difference<'_>) -> bool {
    let sources = (one.there.get("source"), one.here.get("source"));
    let Some(word) = sources.1.strip_prefix("program:") else {
        return false;
    };
    let is_piece =
        (1..=4).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let behind = one.there.get("event").strip_prefix(word);
    is_piece && sources.0 != sources.1 && behind.is_some_and(|text| text.starts_with(':'))
}

/// `77: host: time: text` that is none of Cisco's.
pub(super) fn sequence_number(one: &Difference<'_>) -> bool {
    let text = behind_pri(one.message).filter(|_| !one.message.contains(": %"));
    let mut words = text.unwrap_or_default().trim_start_matches(' ').split(' ');
    let (Some(number), Some(host), Some(_)) = (words.next(), words.next(), words.next()) else {
        return false;
    };
    let (Some(digits), Some(host)) = (number.strip_suffix(':'), host.strip_suffix(':')) else {
        return false;
    };
    let is_host = one.here.get("host").eq_ignore_ascii_case(host) && hosts_differ(one);
    let is_text = matches!(one.key, "time" | "event") && !one.here.get("event").starts_with(number);
    is_number(digits) && (is_host || is_text)
}

/// `12: sw1: time: %…`: there a host has four characters or more.
pub(super) fn short_cisco_host(one: &Difference<'_>) -> bool {
    let host = one.here.get("host");
    let Some((header, _)) = one.message.split_once(": %").filter(|_| one.key == "host") else {
        return false;
    };
    let is_written = header.to_ascii_lowercase().contains(&format!("{host}:"));
    (1..4).contains(&host.len()) && is_written
}

/// Structured data that RFC 5424 does not allow, or two blanks: there it is RFC 3164 of another
/// version, without structured data.
pub(super) fn lax_5424(one: &Difference<'_>) -> bool {
    let Some(text) = behind_pri(one.message).filter(|text| text.starts_with("1 ")) else {
        return false;
    };
    let here = one.here.get("event");
    let has_blanks = || text.split(' ').take(WORDS_5424).any(str::is_empty);
    here.starts_with("- - ") && (has_blanks() || here.contains('[') && !is_strict(text))
}

/// The same, where what the structured data says makes us drop the event.
pub(super) fn lax_5424_dropped(one: &Difference<'_>) -> bool {
    let text = behind_pri(one.message).filter(|text| text.starts_with("1 "));
    let is_lax = text.is_some_and(|text| text.contains('[') && !is_strict(text));
    is_lax && one.here.get("sourcetype").is_empty()
}

/// True if what stands behind the PRI is RFC 5424 to the letter.
fn is_strict(text: &str) -> bool {
    let Some(data) = text.splitn(WORDS_5424 + 1, ' ').nth(WORDS_5424) else {
        return false;
    };
    let mut rest = data.strip_prefix('-').unwrap_or(data);
    while rest.starts_with('[') {
        match behind_element(rest) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    rest.len() < data.len() && (rest.is_empty() || rest.starts_with(' '))
}

/// Rest behind an element of structured data, if it is one.
fn behind_element(text: &str) -> Option<&str> {
    let (_, mut rest) = split_name(text.strip_prefix('[')?)?;
    let mut names = Vec::new();
    while !rest.starts_with(']') {
        let (name, behind) = split_name(rest.strip_prefix(' ')?)?;
        if names.contains(&name) {
            return None;
        }
        names.push(name);
        rest = behind_value(behind.strip_prefix("=\"")?)?;
    }
    rest.strip_prefix(']')
}

/// A name of structured data and what follows it.
fn split_name(text: &str) -> Option<(&str, &str)> {
    let is_end = |letter: char| !letter.is_ascii_graphic() || matches!(letter, '=' | ']' | '"');
    let end = text.find(is_end).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// Rest behind a value and its quote.
fn behind_value(text: &str) -> Option<&str> {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return text.get(at + 1..),
            b']' => return None,
            _ => {}
        }
    }
    None
}
