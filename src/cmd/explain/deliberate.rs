//! Kinds of answers in which SC4S is plainly wrong, so that ours differ on purpose: each is a row
//! of the table in docs/guides/sc4s.md, and here a condition by which it is told.

mod header;
mod text;
mod time;

#[cfg(test)]
mod tests;

use super::against::{Difference, EVENT_COUNT};

/// A kind of difference that is meant.
pub(super) struct DeliberateKind {
    /// Its name in the guide's table.
    pub(super) name: &'static str,
    applies: fn(&Difference<'_>) -> bool,
}

const fn kind(name: &'static str, applies: fn(&Difference<'_>) -> bool) -> DeliberateKind {
    DeliberateKind { name, applies }
}

/// All of them; of those that apply the first counts.
const KINDS: &[DeliberateKind] = &[
    kind("source ends in a colon", text::source_ends_in_colon),
    kind("empty host", header::empty_host),
    kind("zone taken for the host", header::zone_for_host),
    kind("facility taken for the host", header::facility_for_host),
    kind("colon behind the host", header::colon_behind_host),
    kind("IPv6 address as the host", header::ipv6_host),
    kind("address before the program", header::address_before_program),
    kind("time taken for the host", header::time_for_host),
    kind("host of hexadecimal letters", header::hexadecimal_host),
    kind("sequence number before a text", header::sequence_number),
    kind("short host in Cisco's header", header::short_cisco_host),
    kind("RFC 5424 not to the letter", header::lax_5424),
    kind("record within the text", text::record_within_text),
    kind("program lost from the text", text::program_lost),
    kind("parameter lost from the text", text::parameter_lost),
    kind("dump without its columns", text::dump_lost),
    kind("empty text", text::empty_text),
    kind("trace joined twice", text::trace_joined_twice),
    kind("backslashes doubled", text::backslashes_doubled),
    kind("internal names in JSON", text::internal_names),
    kind("values lost from JSON", text::values_lost),
    kind("quotes added in JSON", text::quotes_added),
    kind("object that is not JSON", text::not_json),
    kind("sourcetype ends in _", text::sourcetype_ends_in_underscore),
    kind("path in a sourcetype", text::path_in_sourcetype),
    kind("kind from a later column", text::later_column),
    kind(
        "listener of a product unknown there",
        text::unknown_listener,
    ),
    kind("another vendor's by accident", text::another_vendors),
    kind("time in another year", time::another_year),
    kind("time or zone that does not exist", time::is_none),
    kind("Firepower without a PRI", time::firepower),
    kind("time in Cisco's header", time::cisco_header),
    kind("NetScaler's day and month", time::netscaler_day),
    kind("eventtime of ten digits", time::event_time),
    kind("blanks behind a value of CEF", time::cef_blanks),
    kind("written zone not believed", time::written_zone),
    kind("zone guessed from one event", time::guessed_zone),
];

/// Those of messages of which one makes an event and the other none.
const COUNTS: &[DeliberateKind] = &[
    kind("mark at the end of an event", text::dropped_as_mark),
    kind("RFC 5424 not to the letter", header::lax_5424_dropped),
];

/// The kind by which a key differs, if it is meant to.
pub(super) fn of(difference: &Difference<'_>) -> Option<&'static DeliberateKind> {
    let kinds = match difference.key {
        EVENT_COUNT => COUNTS,
        _ => KINDS,
    };
    kinds.iter().find(|kind| (kind.applies)(difference))
}

/// The record behind its PRI, if it has one.
fn behind_pri(message: &str) -> Option<&str> {
    let (pri, text) = message.strip_prefix('<')?.split_once('>')?;
    (is_number(pri) && pri.len() <= 3).then_some(text)
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}
