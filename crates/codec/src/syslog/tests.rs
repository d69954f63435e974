//! Records with their fields, written out: first as they should be sent, then as they are.
#![allow(clippy::unwrap_used)]

use inrush_event::{Span, Timestamp};
use proptest::prelude::*;

use super::odd_host::odd_host;
use super::rfc3164::{host_word, is_host};
use super::scan::word_end;
use super::*;

/// 2026-11-21T19:00:05Z.
const RECEIVED: Timestamp = Timestamp(1_795_287_605_000_000_000);
/// 2026-11-21T19:00:00Z, the time of most samples.
const SEVEN: i64 = 1_795_287_600_000_000_000;

/// Fields as text; `None` where the record has none.
struct Read {
    record: Record,
    text: String,
}

impl Read {
    fn get(&self, span: Span) -> &str {
        &self.text[span.start()..span.end()]
    }

    /// host, app, proc id, message.
    fn fields(&self) -> [&str; 4] {
        let r = &self.record;
        [r.host, r.app, r.proc_id, r.message].map(|span| self.get(span))
    }

    fn odd(&self) -> String {
        self.record.anomalies.names().collect::<Vec<_>>().join(" ")
    }
}

fn read(text: &str) -> Read {
    // Bytes of neighbours must not be touched.
    let arena = format!("<1>x\n{text}\n<2>y");
    let raw = Span::new(5, 5 + text.len());
    let mut record = Record::unparsed(raw, RECEIVED, 0, Anomalies::NONE);
    SyslogParser::new(Zone::utc()).parse(arena.as_bytes(), &mut record);
    Read {
        record,
        text: arena,
    }
}

#[track_caller]
fn check_5424(text: &str, fields: [&str; 4], msg_id: &str, sdata: &str, odd: &str) {
    let read = read(text);
    assert_eq!(read.record.format, Format::Rfc5424, "{text}");
    assert_eq!(read.fields(), fields, "{text}");
    assert_eq!(read.get(read.record.msg_id), msg_id, "{text}");
    assert_eq!(read.get(read.record.sdata), sdata, "{text}");
    assert_eq!(read.odd(), odd, "{text}");
}

/// Everything whose time is [`SEVEN`].
#[track_caller]
fn check_3164(text: &str, fields: [&str; 4], odd: &str) {
    let read = read(text);
    assert_eq!(read.fields(), fields, "{text}");
    assert_eq!(read.odd(), odd, "{text}");
    assert_eq!(read.record.format, Format::Rfc3164, "{text}");
    let expected = if odd.contains("_time") {
        Timestamp::NONE
    } else {
        Timestamp(SEVEN)
    };
    assert_eq!(read.record.event_time, expected, "{text}");
}

#[track_caller]
fn check_cisco(text: &str, fields: [&str; 4], odd: &str) {
    let read = read(text);
    assert_eq!(read.record.format, Format::Cisco, "{text}");
    assert_eq!(read.fields(), fields, "{text}");
    assert_eq!(read.odd(), odd, "{text}");
}

#[test]
fn rfc5424_in_full() {
    let read = read("<165>1 2026-11-21T21:00:00.000003+02:00 web-1 su 77 ID47 - 'su root' failed");
    assert_eq!((read.record.pri, read.record.zone_minutes), (165, 120));
    assert_eq!(read.record.event_time, Timestamp(SEVEN + 3000));
    let head = "<165>1 2026-11-21T19:00:00Z web-1 su 77 ID47";
    let fields = ["web-1", "su", "77", "hello"];
    check_5424(&format!("{head} - hello"), fields, "ID47", "", "");
    check_5424(&format!("{head} - \u{feff}hello"), fields, "ID47", "", "");
    check_5424(&format!("{head} [a@1] hello"), fields, "ID47", "[a@1]", "");
    let two = r#"[a@1 x="1" y=""][b z="\"\\\]"]"#;
    check_5424(&format!("{head} {two} hello"), fields, "ID47", two, "");
    check_5424(
        &format!("{head} {two}"),
        ["web-1", "su", "77", ""],
        "ID47",
        two,
        "",
    );
    check_5424(
        &format!("{head} - "),
        ["web-1", "su", "77", ""],
        "ID47",
        "",
        "",
    );
    check_5424(
        &format!("{head} -"),
        ["web-1", "su", "77", ""],
        "ID47",
        "",
        "",
    );
    check_5424(
        &format!("{head} -  two spaces"),
        ["web-1", "su", "77", " two spaces"],
        "ID47",
        "",
        "",
    );
    check_5424(
        "<0>1 - - - - - -",
        ["", "", "", ""],
        "",
        "",
        "no_time no_host",
    );
}

#[test]
// tidy: long because it is one table, a row a case
fn rfc5424_as_it_is_sent() {
    let head = "<165>1 2026-11-21T19:00:00Z web-1 su 77 ID47";
    let with = |message| ["web-1", "su", "77", message];
    check_5424(head, with(""), "ID47", "", "no_sdata");
    // A tab before a name, as Check Point writes it.
    let tab = "[a@1 \tx=\"1\"]";
    check_5424(
        &format!("{head} {tab} hello"),
        with("hello"),
        "ID47",
        tab,
        "",
    );
    check_5424(
        &format!("{head} hello"),
        with("hello"),
        "ID47",
        "",
        "no_sdata",
    );
    check_5424(
        &format!("{head} -hello"),
        with("-hello"),
        "ID47",
        "",
        "no_sdata",
    );
    for broken in [
        "[a",
        "[a b]x",
        "[]",
        "[ a=\"1\"]",
        "[a b=\"1]",
        "[a b=1]",
        "[a b=\"1\"]x",
        "[a b=\"1\"c=\"2\"]",
        r#"[a b="\"]"#,
        "[action:\"Accept\"; x] hello",
    ] {
        check_5424(
            &format!("{head} {broken}"),
            with(broken),
            "ID47",
            "",
            "bad_sdata",
        );
    }
    check_5424(
        &format!("{head} [a b=\"]\" ] hi"),
        with("hi"),
        "ID47",
        "[a b=\"]\" ]",
        "",
    );
    check_5424(
        "  <165> 1  2026-11-21T19:00:00Z   web-1  su 77  ID47 - hello",
        with("hello"),
        "ID47",
        "",
        "",
    );
    check_5424(
        "<165>2 2026-11-21T19:00:00Z web-1 su 77 ID47 - x",
        with("x"),
        "ID47",
        "",
        "bad_version",
    );
    check_5424(
        "1 2026-11-21T19:00:00Z web-1 su 77 ID47 - x",
        with("x"),
        "ID47",
        "",
        "no_pri",
    );
    check_5424(
        "<165>1 2026-11-21T19:00:00 web-1 su 77 ID47 - x",
        with("x"),
        "ID47",
        "",
        "zone_assumed",
    );
    for time in [
        "2026-11-21",
        "2026-11-21T19:00:00ZZ",
        "2026-99-21T19:00:00Z",
    ] {
        check_5424(
            &format!("<165>1 {time} web-1 su 77 ID47 - x"),
            with("x"),
            "ID47",
            "",
            "bad_time",
        );
    }
    check_5424(
        "<165>1 2026-11-21T19:00:00Z",
        ["", "", "", ""],
        "",
        "",
        "no_host no_sdata",
    );
    let long = "a".repeat(49);
    check_5424(
        &format!("<165>1 2026-11-21T19:00:00Z web-1 {long} 77 ID47 - x"),
        ["web-1", &long, "77", "x"],
        "ID47",
        "",
        "long_field",
    );
}

const BSD: &str = "year_assumed zone_assumed";
const SSHD: [&str; 4] = ["web-1", "sshd", "77", "hello"];

#[test]
fn rfc3164_times() {
    for (time, odd) in [
        ("Nov 21 19:00:00", BSD),
        ("Nov 21 2026 19:00:00", "zone_assumed"),
        ("Nov 21 19:00:00 2026", "zone_assumed"),
        ("Nov 21 19:00:00 2026:", "zone_assumed"),
        ("Nov 21 19:00:00:", BSD),
        ("Nov 21 19:00:00 UTC", "year_assumed"),
        ("Nov 21 20:00:00 CET:", "year_assumed"),
        ("Nov 21 21:00:00 +02:00", "year_assumed"),
        ("Nov 21 21:00:00+0200", "year_assumed"),
        ("Nov 21 19:00:00.000", BSD),
        ("2026-11-21T19:00:00", "zone_assumed"),
        ("2026-11-21T19:00:00Z", ""),
        ("2026-11-21T19:00:00.000+00:00", ""),
        ("2026-11-21 19:00:00", "zone_assumed"),
        ("2026-11-21 14:00:00,000 -0500", ""),
        ("2026-11-21 19:00:00 UTC", ""),
        ("1795287600.000", ""),
        ("1795287600", ""),
    ] {
        check_3164(&format!("<38>{time} web-1 sshd[77]: hello"), SSHD, odd);
        check_3164(&format!("<38>  {time}  web-1  sshd[77]: hello"), SSHD, odd);
    }
    check_3164("<38>1 1795287600.0 web-1 sshd[77]: hello", SSHD, "");
    check_3164("<38>Nov 21 19:00:00web-1 sshd[77]: hello", SSHD, BSD);
    check_3164(
        "Nov 21 19:00:00 web-1 sshd[77]: hello",
        SSHD,
        &format!("no_pri {BSD}"),
    );
    check_3164(
        "\u{feff}<38>Nov 21 19:00:00 web-1 sshd[77]: hello",
        SSHD,
        BSD,
    );
    let bad = format!("bad_time {BSD}");
    check_3164("<38>Nov 31 19:00:00 web-1 sshd[77]: hello", SSHD, &bad);
}

#[test]
fn rfc3164_hosts() {
    let at = |rest: &str| format!("<38>Nov 21 19:00:00 {rest}");
    let none = format!("no_host {BSD}");
    for host in [
        "web-1",
        "10.0.0.1",
        "fe80::1",
        "2001:db8::1",
        "::1",
        "[]",
        "h\u{f6}st",
    ] {
        let text = at(&format!("{host} sshd[77]: hello"));
        match host {
            "[]" => check_3164(&text, ["", "", "", "[] sshd[77]: hello"], &none),
            _ => check_3164(&text, [host, "sshd", "77", "hello"], BSD),
        }
    }
    check_3164(&at("sshd[77]: hello"), ["", "sshd", "77", "hello"], &none);
    check_3164(&at("sshd: hello"), ["", "sshd", "", "hello"], &none);
    check_3164(
        &at("%ASA-6-302013: Built"),
        ["", "%ASA-6-302013", "", "Built"],
        &none,
    );
    check_3164(
        &at("fw : %ASA-6-302013: Built"),
        ["fw", "%ASA-6-302013", "", "Built"],
        BSD,
    );
    check_3164(
        &at(": %ASA-6-302013: Built"),
        ["", "%ASA-6-302013", "", "Built"],
        &none,
    );
    check_3164(&at("- sshd[77]: hello"), ["", "sshd", "77", "hello"], &none);
    check_3164(&at("date=2026 a=b"), ["", "", "", "date=2026 a=b"], &none);
    check_3164(&at("web,a=b c"), ["", "", "", "web,a=b c"], &none);
    check_3164(&at("CEF:0|a|b c"), ["", "", "", "CEF:0|a|b c"], &none);
    check_3164(&at("alone"), ["", "", "", "alone"], &none);
    check_3164(&at(""), ["", "", "", ""], &none);
    check_3164("<38>Nov 21 19:00:00", ["", "", "", ""], &none);
    let long = "h".repeat(256);
    check_3164(
        &at(&format!("{long} sshd[77]: hello")),
        [&long, "sshd", "77", "hello"],
        "year_assumed zone_assumed long_field",
    );
}

#[test]
fn rfc3164_tags() {
    let long = "t".repeat(129);
    for (rest, app, pid, message) in [
        ("sshd[77]: hello", "sshd", "77", "hello"),
        ("sshd[77] hello", "sshd", "77", "hello"),
        ("sshd[77]:hello", "sshd", "77", "hello"),
        ("sshd[77]:  hello", "sshd", "77", " hello"),
        ("sshd[77]:", "sshd", "77", ""),
        ("postfix/smtpd: hello", "postfix/smtpd", "", "hello"),
        ("kernel hello", "kernel", "", "hello"),
        ("a[b c]: hello", "a", "", "[b c]: hello"),
        ("a[77 hello", "a", "", "[77 hello"),
        ("a[]: hello", "a", "", "[]: hello"),
        ("[77]: hello", "", "", "[77]: hello"),
        ("vectra -: CEF:0|", "vectra", "", "-: CEF:0|"),
        ("CEF: 0|a", "", "", "CEF: 0|a"),
        ("LEEF:2.0|a", "", "", "LEEF:2.0|a"),
        ("{\"a\": 1}", "", "", "{\"a\": 1}"),
        ("a=b c=d", "", "", "a=b c=d"),
        ("1,2026/11/21 x", "", "", "1,2026/11/21 x"),
        // A lone colon is the text's, and what follows is no tag; before `%` it is nobody's.
        (": hello world", "", "", ": hello world"),
        (": %ASA-1-1: up", "%ASA-1-1", "", "up"),
        (&long, "", "", &long),
    ] {
        let read = read(&format!("<38>Nov 21 19:00:00 web-1 {rest}"));
        assert_eq!(read.fields(), ["web-1", app, pid, message], "{rest}");
    }
}

#[test]
fn the_text_from_the_tag_on_is_one_slice() {
    for tail in [
        "sshd[77]: hello",
        "kernel: x",
        "a  b",
        "sshd[77]:",
        "{\"a\":1}",
    ] {
        let read = read(&format!("<38>Nov 21 19:00:00 web-1 {tail}"));
        let r = &read.record;
        let start = if r.app.is_empty() {
            r.message.start()
        } else {
            r.app.start()
        };
        assert_eq!(&read.text[start..r.message.end()], tail);
    }
}

#[test]
fn records_without_a_time() {
    let none = "no_time no_host";
    check_3164("<38>sshd[77]: hello", ["", "sshd", "77", "hello"], none);
    check_3164(
        "<38>fenotify-7.warning: {\"a\":1}",
        ["", "fenotify-7.warning", "", "{\"a\":1}"],
        none,
    );
    check_3164(
        "<38>User admin logged in",
        ["", "", "", "User admin logged in"],
        none,
    );
    check_3164("<38>", ["", "", "", ""], none);
    check_3164("<38>1 test", ["", "", "", "1 test"], none);
    check_3164(
        "<999>sshd[77]: hello",
        ["", "sshd", "77", "hello"],
        "bad_pri no_time no_host",
    );
    check_3164(
        "<>sshd[77]: hello",
        ["", "sshd", "77", "hello"],
        "bad_pri no_time no_host",
    );
    check_3164(
        "<x>Nov 21 19:00:00 web-1 sshd[77]: hello",
        SSHD,
        &format!("bad_pri {BSD}"),
    );
}

#[test]
fn what_is_not_syslog_is_kept_whole() {
    for (text, odd) in [
        ("hello", "no_pri no_time no_host unparsed"),
        ("", "no_pri no_time no_host unparsed"),
        ("<event>x</event>", "bad_pri no_time no_host unparsed"),
        ("{\"a\":1}", "no_pri no_time no_host unparsed"),
        (
            "1795287600.123 374 10.0.0.1 TCP_MISS/200",
            "no_pri no_time no_host unparsed",
        ),
        ("app: Nov 21 19:00:00 x", "no_pri no_time no_host unparsed"),
    ] {
        let read = read(text);
        assert_eq!(read.record.format, Format::Unparsed, "{text}");
        assert_eq!(read.fields(), ["", "", "", text], "{text}");
        assert_eq!(read.odd(), odd, "{text}");
    }
}

#[test]
// tidy: long because it is one table, a row a case
fn cisco() {
    let text = "%SYS-5-CONFIG_I: Configured";
    let (tag, message) = ("%SYS-5-CONFIG_I", "Configured");
    let fields = |host| [host, tag, "", message];
    let none = format!("no_host {BSD}");
    check_cisco(
        &format!("<189>123: Nov 21 19:00:00.123: {text}"),
        fields(""),
        &none,
    );
    check_cisco(
        &format!("<189>: Nov 21 19:00:00: {text}"),
        fields(""),
        &none,
    );
    check_cisco(
        &format!("<189>: 2026 Nov 21 19:00:00 UTC: {text}"),
        fields(""),
        "no_host",
    );
    check_cisco(
        &format!("<189>20: r1: 000123: Nov 21 19:00:00 CET: {text}"),
        fields("r1"),
        "year_assumed",
    );
    check_cisco(
        &format!("<189>20: r1: Nov 21 19:00:00: {text}"),
        fields("r1"),
        BSD,
    );
    check_cisco(
        &format!("000123: r1: *Mar  1 00:00:00.123: {text}"),
        fields("r1"),
        &format!("no_pri {BSD} clock_unsynced"),
    );
    check_cisco(
        &format!("<189>*Mar  1 00:00:00.123: {text}"),
        fields(""),
        &format!("{none} clock_unsynced"),
    );
    check_cisco(
        &format!("<189>20: .Nov 21 19:00:00: {text}"),
        fields(""),
        &format!("{none} clock_unsynced"),
    );
    check_cisco(
        &format!("<189>r1: *Nov 21 19:00:00: {text}"),
        fields("r1"),
        &format!("{BSD} clock_unsynced"),
    );
    check_cisco(
        &format!("<189>20: 00:01:01: {text}"),
        fields(""),
        "no_time no_host",
    );
    check_cisco(
        &format!("<189>20: r1: 1w2d: {text}"),
        fields("r1"),
        "no_time",
    );
    check_cisco(&format!("<189>20: {text}"), fields(""), "no_time no_host");
    check_cisco(
        &format!("<189>:Nov 21 19:00:00 UTC: {text}"),
        fields(""),
        "no_host year_assumed",
    );
    check_cisco(
        &format!("<189>20: r1 RP/0/RP0/CPU0:Nov 21 19:00:00 : {text}"),
        fields("r1"),
        BSD,
    );
    check_cisco(
        &format!("<189>20: RP/0/RP0/CPU0:Nov 21 19:00:00.5 CET: {text}"),
        fields(""),
        "no_host year_assumed",
    );
    // A colon and a time alone are no sign of Cisco.
    check_3164(
        "<38>app: Nov 21 19:00:00 x",
        ["", "app", "", "Nov 21 19:00:00 x"],
        "no_time no_host",
    );
}

#[test]
fn a_span_outside_the_arena_is_survived() {
    let mut record = Record::unparsed(Span::new(3, 90), RECEIVED, 0, Anomalies::NONE);
    SyslogParser::new(Zone::utc()).parse(b"short", &mut record);
    assert_eq!(record.format, Format::Unparsed);
}

#[test]
fn a_line_without_pri_is_not_taken_for_rfc_5424_by_a_one_and_a_hyphen() {
    let read = read("1 - hello world foo bar baz");
    assert_eq!(read.record.format, Format::Unparsed);
    assert_eq!(read.fields(), ["", "", "", "1 - hello world foo bar baz"]);
}

proptest! {
    /// A host that is found together with its end is the word before the space, if it can be one;
    /// else it is looked at as a rare one.
    #[test]
    fn a_host_is_the_word_before_the_space(
        bytes in prop::collection::vec(prop::sample::select(&b"  ab.-%:{[\xe9f1"[..]), 0..24)
    ) {
        let end = word_end(&bytes, 0);
        let (word, next) = (&bytes[..end], skip_spaces(&bytes, end));
        let is_one = next < bytes.len() && word.last() != Some(&b':') && is_host(word);
        let wanted = match is_one {
            true if word == b"-" => (Span::EMPTY, next),
            true => (Span::new(0, end), next),
            false => odd_host(&bytes, 0).unwrap_or((Span::EMPTY, 0)),
        };
        let mut record = Record::unparsed(Span::EMPTY, RECEIVED, 0, Anomalies::NONE);
        let found = host_word(&bytes, 0, &mut record);
        prop_assert_eq!((record.host, found), wanted);
    }
}
