//! Kinds that show in an event's text, or in what it is taken for.

use serde_json::{Map, Value};

use super::{Difference, behind_pri};

/// Texts by which SC4S knows products wherever they stand, and the sourcetypes that it gives then.
const MARKS: [(&str, &str); 6] = [
    ("fgt_", "devid="),
    ("fwb_", "device_id="),
    ("sophos:xg:", "device=\"SFW\""),
    ("dell:avamar:msc", "<HwSource>"),
    ("dell:emc:powerstore", "[PowerStore_"),
    ("cisco:ise:syslog", "CISE_"),
];

/// Words before such a text by which another's event is told from a product's own.
const WORDS_BEFORE: usize = 6;

/// Text that a device sends from time to time to say that it is there.
const MARK: &str = "-- MARK --";

/// A name was misspelt there, so that what follows the colon is missing.
pub(super) fn source_ends_in_colon(one: &Difference<'_>) -> bool {
    let (there, here) = (one.there.get("source"), one.here.get("source"));
    one.key == "source" && there.ends_with(':') && here.starts_with(there)
}

/// Both texts, where it is the text that differs.
fn texts<'a>(one: &Difference<'a>) -> Option<(&'a str, &'a str)> {
    (one.key == "event").then(|| (one.there.get("event"), one.here.get("event")))
}

/// The whole record stands in the text, its PRI among it.
pub(super) fn record_within_text(one: &Difference<'_>) -> bool {
    let begin = one.message.split_whitespace().next().unwrap_or_default();
    let has_pri = behind_pri(begin).is_some_and(|text| !text.is_empty());
    let holds = |text: &str| text.contains(begin);
    has_pri && holds(one.there.get("event")) && !holds(one.here.get("event"))
}

/// `- - - - - -text` of what came as `- - kernel - - -text`.
pub(super) fn program_lost(one: &Difference<'_>) -> bool {
    texts(one).is_some_and(|(there, here)| {
        let behind = here
            .strip_prefix("- - ")
            .and_then(|text| text.split_once(' '));
        behind.is_some_and(|(_, behind)| there.strip_prefix("- - - ") == Some(behind))
    })
}

/// A parameter of structured data without a name goes there.
pub(super) fn parameter_lost(one: &Difference<'_>) -> bool {
    texts(one).is_some_and(|(there, here)| {
        let data = here
            .split_once('[')
            .and_then(|(_, data)| data.split(']').next());
        here.len() > there.len() && data.is_some_and(|data| data.contains(" ="))
    })
}

/// A dump of vSAN that is not of seven columns loses its message.
pub(super) fn dump_lost(one: &Difference<'_>) -> bool {
    texts(one).is_some_and(|(there, here)| {
        one.message.contains("cmmdsTimeMachineDump")
            && there.ends_with("- - -")
            && here.starts_with(there)
    })
}

/// Splunk refuses an event without a text.
pub(super) fn empty_text(one: &Difference<'_>) -> bool {
    texts(one).is_some_and(|(there, here)| there.is_empty() && !here.is_empty())
}

/// Lines of a trace, each once as it came and once with the program before it.
pub(super) fn trace_joined_twice(one: &Difference<'_>) -> bool {
    let is_trace = one.there.get("vendor") == "dell-rsa" && one.there.get("class") == "trace";
    is_trace && texts(one).is_some_and(|(there, here)| there.contains(here))
}

/// A backslash within structured data or pairs stands twice.
pub(super) fn backslashes_doubled(one: &Difference<'_>) -> bool {
    texts(one).is_some_and(|(there, here)| there.replace("\\\\", "\\") == here)
}

/// Both texts as objects, where it is the text that differs.
fn objects(one: &Difference<'_>) -> Option<(Map<String, Value>, Map<String, Value>)> {
    let (there, here) = texts(one)?;
    object(there).zip(object(here))
}

fn object(text: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(text).ok()
}

fn is_internal(name: &str) -> bool {
    matches!(name, "_metadata" | "_SDATA")
}

/// All members of the one are in the other; texts may differ as `is_same` allows.
fn covers(
    there: &Map<String, Value>,
    here: &Map<String, Value>,
    is_same: fn(&str, &str) -> bool,
) -> bool {
    let is_covered = |there: &Value, here: &Value| match (there, here) {
        (Value::Object(there), Value::Object(here)) => covers(there, here, is_same),
        (Value::String(there), Value::String(here)) => there == here || is_same(there, here),
        _ => there == here,
    };
    there
        .iter()
        .filter(|(name, _)| !is_internal(name))
        .all(|(name, value)| match here.get(name) {
            Some(here) => is_covered(value, here),
            None => is_blank(value),
        })
}

/// Texts between elements, of blanks only.
fn is_blank(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            let text = text.trim_matches('"');
            !text.is_empty() && text.trim().is_empty()
        }
        Value::Array(values) => !values.is_empty() && values.iter().all(is_blank),
        _ => false,
    }
}

/// All members but those for SC4S itself are there, or it has none but these.
pub(super) fn internal_names(one: &Difference<'_>) -> bool {
    let Some(there) = texts(one).and_then(|(there, _)| object(there)) else {
        return false;
    };
    let has_all = || objects(one).is_some_and(|(there, here)| covers(&there, &here, |_, _| false));
    there.keys().any(|name| is_internal(name))
        && (there.keys().all(|name| is_internal(name)) || has_all())
}

/// Members are missing there, or cut.
pub(super) fn values_lost(one: &Difference<'_>) -> bool {
    let is_cut = |there: &str, here: &str| here.starts_with(there);
    objects(one).is_some_and(|(there, here)| covers(&there, &here, is_cut))
}

/// Quotes around values are those of SC4S's own lists.
pub(super) fn quotes_added(one: &Difference<'_>) -> bool {
    let is_quoted = |there: &str, here: &str| {
        let bare = there
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'));
        bare == Some(here)
    };
    objects(one).is_some_and(|(there, here)| covers(&there, &here, is_quoted))
}

/// `TRUE` and the like, which no other reader of JSON takes.
pub(super) fn not_json(one: &Difference<'_>) -> bool {
    let begin = one.message.find('{').and_then(|at| one.message.get(at..));
    one.there.get("sourcetype") == "vmware:vcenter:json"
        && begin.is_some_and(|text| object(text.trim_end()).is_none())
}

/// FortiOS without a type.
pub(super) fn sourcetype_ends_in_underscore(one: &Difference<'_>) -> bool {
    let (there, here) = (one.there.get("sourcetype"), one.here.get("sourcetype"));
    let is_class = matches!(one.key, "index" | "sourcetype" | "source" | "class");
    is_class && there.ends_with('_') && here.starts_with(there)
}

/// Of a program that is a path with two slashes.
pub(super) fn path_in_sourcetype(one: &Difference<'_>) -> bool {
    let has_slash = |text: &str| text.contains('/');
    has_slash(one.there.get("sourcetype")) && !has_slash(one.here.get("sourcetype"))
}

/// PAN-OS names a log's kind in its fourth column, and others may stand in what users wrote.
pub(super) fn later_column(one: &Difference<'_>) -> bool {
    let kind = one.message.split(',').nth(3).unwrap_or_default();
    let here = one.here.get("sourcetype").strip_prefix("pan:");
    let is_here = here.is_some_and(|here| here.eq_ignore_ascii_case(kind));
    let there = one.there.get("sourcetype").strip_prefix("pan:");
    is_here && there.is_some() && there != here
}

/// A listener of its own called cisco/wsa_recommended: there all are cisco/wsa.
pub(super) fn unknown_listener(one: &Difference<'_>) -> bool {
    one.there.get("source") == "cisco_wsa" && one.here.get("source") == "cisco_wsa_splunk"
}

/// A word in a host, a tag or another's text decides there what an event is.
pub(super) fn another_vendors(one: &Difference<'_>) -> bool {
    let (there, here) = (one.there.get("sourcetype"), one.here.get("sourcetype"));
    let is_far = |mark: &str| {
        let before = one
            .here
            .get("event")
            .split_once(mark)
            .map(|(before, _)| before);
        before.is_some_and(|before| before.split_whitespace().count() >= WORDS_BEFORE)
    };
    match there {
        _ if there == here => false,
        "arista:eos" => one.message.contains("%CIMC-"),
        "cisco:ios" => one.message.contains("%LIVEACTION-"),
        "vmware:esxlog:hostd" => false,
        _ if there.starts_with("vmware:esxlog:host") => !here.starts_with("vmware:"),
        _ => MARKS
            .iter()
            .any(|&(begin, mark)| there.starts_with(begin) && is_far(mark)),
    }
}

/// Whatever ends like a mark is dropped there; here what is nothing else.
pub(super) fn dropped_as_mark(one: &Difference<'_>) -> bool {
    let is_kept = !one.here.get("sourcetype").is_empty();
    is_kept && one.message.trim_end().ends_with(MARK)
}
