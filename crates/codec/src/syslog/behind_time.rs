//! Words between a time and the host: a half of the day, a zone, a year.
//!
//! ```text
//! [AM|PM] [zone] [year]     zone = abbreviation | offset | "UTC" offset | "(" abbreviation ")"
//! ```
//! Behind the time of a Cisco device any word is a zone (`clock timezone NAME`): one that is not
//! known says nothing, and the zone of the source holds.

use inrush_event::abbreviation_minutes;

use super::scan::{digit_count, is_blank, skip_blanks, word_end};
use super::time::{ParsedTimestamp, ReadZone, year_after};
use crate::rfc3339::{digits, offset_minutes};

/// Bytes of the longest word that is taken for the zone of a Cisco device.
const ZONE_BYTES_MAX: usize = 32;
/// Letters of the longest abbreviation.
const ABBREVIATION_BYTES_MAX: usize = 5;
/// Minutes that a zone is away from UTC at most.
const OFFSET_MINUTES_MAX: i64 = 18 * 60;

/// Bytes that such a word begins with behind a space.
static BEGINS_WORD: [bool; 256] = {
    let mut begins = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let is_sign = matches!(byte as u8, b'+' | b'-' | b'(' | b'a' | b'p');
        begins[byte] = is_sign || (byte as u8).is_ascii_uppercase();
        byte += 1;
    }
    begins
};

/// True if the bytes after a time may be such words. Most hosts are told by their first letter, and
/// those that begin with a capital by their second.
#[inline]
pub(super) fn may_follow(bytes: &[u8], end: usize) -> bool {
    match bytes.get(end) {
        Some(b' ') => {
            let first = bytes.get(end + 1).copied().unwrap_or_default();
            BEGINS_WORD[usize::from(first)] && may_be_word(first, bytes.get(end + 2).copied())
        }
        Some(b'Z' | b'+' | b'-' | b'A' | b'P' | b'a' | b'p') => true,
        Some(b'\t') => may_follow_tab(bytes, end),
        _ => false,
    }
}

/// True if a word of these two bytes may be one. A word of one letter has no second.
#[inline]
fn may_be_word(first: u8, second: Option<u8>) -> bool {
    match first {
        b'a' | b'p' => matches!(second, Some(b'm' | b'.')),
        b'+' | b'-' => matches!(second, Some(b'0'..=b'9')),
        b'(' => matches!(second, Some(b'A'..=b'Z')),
        _ => matches!(
            second,
            None | Some(b'A'..=b'Z' | b' ' | b'\t' | b':' | b'+' | b'-' | b'm' | b'.')
        ),
    }
}

/// [`may_follow`] behind a tab.
#[cold]
fn may_follow_tab(bytes: &[u8], end: usize) -> bool {
    let at = skip_blanks(bytes, end);
    match bytes.get(at) {
        Some(b'A'..=b'Z' | b'+' | b'-' | b'(') => true,
        Some(b'a' | b'p') => matches!(bytes.get(at + 1), Some(b'm' | b'M' | b'.')),
        _ => false,
    }
}

/// Takes the words behind a time without a zone into it. With `any_word` the word before a Cisco
/// mnemonic is a zone.
#[inline(never)]
pub(super) fn read(bytes: &[u8], time: &mut ParsedTimestamp, any_word: bool) {
    let begin = time.end;
    if let Some((afternoon, end)) = half_of_day(bytes, time.end) {
        time.set_half(afternoon);
        time.end = end;
    }
    if let Some((minutes, end)) = zone(bytes, time.end) {
        time.zone = ReadZone::Minutes(minutes);
        time.end = end;
    } else if any_word && let Some((minutes, end)) = cisco_zone(bytes, time.end) {
        time.zone = minutes.map_or(ReadZone::Absent, ReadZone::Minutes);
        time.end = end;
    }
    if time.end > begin
        && matches!(bytes.get(time.end + 1), Some(b'1' | b'2'))
        && let (Some(year), end) = year_after(bytes, time.end)
    {
        time.set_year(year);
        time.end = end;
    }
}

/// True if a word ends at `end`.
fn is_end(bytes: &[u8], end: usize) -> bool {
    matches!(bytes.get(end), None | Some(b' ' | b'\t' | b':'))
}

/// `AM`, `pm` or `p.m.`, set off by a blank or not: true for the afternoon, and the offset behind.
#[inline]
pub(super) fn half_of_day(bytes: &[u8], at: usize) -> Option<(bool, usize)> {
    let word = skip_blanks(bytes, at);
    let afternoon = match bytes.get(word)? {
        b'a' | b'A' => false,
        b'p' | b'P' => true,
        _ => return None,
    };
    let end = match bytes.get(word + 1..)? {
        [b'm' | b'M', ..] => word + 2,
        [b'.', b'm' | b'M', b'.', ..] => word + 4,
        _ => return None,
    };
    is_end(bytes, end).then_some((afternoon, end))
}

/// A zone behind a time, attached or set off by blanks, in minutes east of UTC, and the offset
/// after it. Where a name and an offset stand there, the offset counts.
#[inline]
pub(super) fn zone(bytes: &[u8], at: usize) -> Option<(i16, usize)> {
    let attached = !bytes.get(at).copied().is_some_and(is_blank);
    let start = skip_blanks(bytes, at);
    if attached || matches!(bytes.get(start), Some(b'+' | b'-')) {
        let (minutes, end) = offset(bytes, start)?;
        let named = skip_blanks(bytes, end);
        let behind = match bytes.get(named) {
            Some(b'(') if named > end => abbreviation(bytes, named).map(|(_, end)| end),
            _ => None,
        };
        return Some((minutes, behind.unwrap_or(end)));
    }
    let (minutes, end) = abbreviation(bytes, start)?;
    let behind = skip_blanks(bytes, end);
    match bytes.get(behind) {
        Some(b'+' | b'-') if behind > end => Some(offset(bytes, behind).unwrap_or((minutes, end))),
        _ => Some((minutes, end)),
    }
}

/// An offset of two or more digits, or `Z`; a blank, a colon or the end must follow.
#[inline]
fn offset(bytes: &[u8], at: usize) -> Option<(i16, usize)> {
    offset_minutes(bytes, at).filter(|&(_, end)| is_end(bytes, end))
}

/// An abbreviation that is known, in capitals, alone or in parentheses; of UTC also with an offset.
#[inline]
fn abbreviation(bytes: &[u8], at: usize) -> Option<(i16, usize)> {
    let open = usize::from(bytes.get(at) == Some(&b'('));
    let word = bytes.get(at + open..)?;
    let letters = word
        .iter()
        .take(ABBREVIATION_BYTES_MAX + 1)
        .take_while(|byte| byte.is_ascii_uppercase())
        .count();
    let minutes = abbreviation_minutes(word.get(..letters)?)?;
    let end = at + open + letters;
    if minutes == 0 && open == 0 && matches!(bytes.get(end), Some(b'+' | b'-')) {
        return short_offset(bytes, end);
    }
    if open == 1 && bytes.get(end) != Some(&b')') {
        return None;
    }
    is_end(bytes, end + open).then_some((minutes, end + open))
}

/// `+2`, `+02`, `-3:30`, `+0545` or `+05:45` behind a name.
fn short_offset(bytes: &[u8], at: usize) -> Option<(i16, usize)> {
    let sign = if bytes.get(at)? == &b'-' { -1 } else { 1 };
    let count = digit_count(bytes, at + 1, 4);
    let number = digits(bytes, at + 1, count)?;
    let end = at + 1 + count;
    let (hours, minutes, end) = match (count, bytes.get(end)) {
        (1 | 2, Some(b':')) if digit_count(bytes, end + 1, 3) == 2 => {
            (number, digits(bytes, end + 1, 2)?, end + 3)
        }
        (1 | 2, _) => (number, 0, end),
        (3 | 4, _) => (number / 100, number % 100, end),
        _ => return None,
    };
    let total = hours * 60 + minutes;
    let valid = minutes < 60 && total <= OFFSET_MINUTES_MAX && is_end(bytes, end);
    valid.then_some((sign * total as i16, end))
}

/// The word between a time and the mnemonic of Cisco: the minutes east of UTC if it is known in any
/// case, and the offset after it.
fn cisco_zone(bytes: &[u8], at: usize) -> Option<(Option<i16>, usize)> {
    let start = skip_blanks(bytes, at);
    let end = word_end(bytes, start);
    let word = bytes.get(start..end)?.strip_suffix(b":")?;
    if start == at || !(1..=ZONE_BYTES_MAX).contains(&word.len()) || word[0] == b'%' {
        return None;
    }
    let next = skip_blanks(bytes, end);
    let is_mnemonic = |at: usize| bytes.get(at) == Some(&b'%');
    if !is_mnemonic(next) && !is_mnemonic(skip_blanks(bytes, word_end(bytes, next))) {
        return None;
    }
    let minutes = abbreviation_minutes(&word.to_ascii_uppercase());
    Some((minutes, end - 1))
}
