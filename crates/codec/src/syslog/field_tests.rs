//! Headers as they were reported from the field: what stands between the parts of a header, what
//! a syslogd writes itself, and the hour that occurs twice.
#![allow(clippy::unwrap_used)]

use inrush_event::{Span, Timestamp};
use proptest::prelude::*;

use super::*;

/// 2026-11-25T17:00:10Z, by which the records are received.
const RECEIVED: Timestamp = Timestamp(1_795_626_010_000_000_000);

/// The record that a text is read as, in a zone.
fn read_in(parser: &mut SyslogParser, text: &str, received: Timestamp) -> Record {
    let mut record = Record::unparsed(Span::new(0, text.len()), received, 0, Anomalies::NONE);
    parser.parse(text.as_bytes(), &mut record);
    record
}

fn read(text: &str) -> Record {
    read_in(&mut SyslogParser::new(Zone::utc()), text, RECEIVED)
}

/// host, app, proc id, message of a text.
fn fields(text: &str) -> [&str; 4] {
    let record = read(text);
    [record.host, record.app, record.proc_id, record.message]
        .map(|span| &text[span.start()..span.end()])
}

fn time_of(record: &Record) -> String {
    let nanos = i128::from(record.event_time.or(Timestamp(0)).0);
    jiff::Timestamp::from_nanosecond(nanos).unwrap().to_string()
}

#[track_caller]
fn check(text: &str, wanted: [&str; 4]) {
    assert_eq!(fields(text), wanted, "{text}");
}

#[test]
fn every_form_of_an_ipv6_address_is_a_host() {
    for (written, host) in [
        ("2001:db8:5804:29e3::", "2001:db8:5804:29e3::"),
        ("2001:db8::", "2001:db8::"),
        ("fe80::", "fe80::"),
        ("::", "::"),
        ("::1", "::1"),
        ("2001:db8::a:1", "2001:db8::a:1"),
        ("2001:DB8::A:1", "2001:DB8::A:1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6"),
        (
            "2001:0db8:0000:0000:0000:0000:0000:0001",
            "2001:0db8:0000:0000:0000:0000:0000:0001",
        ),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("fe80::%eth0.100", "fe80::%eth0.100"),
        ("fe80::1%12", "fe80::1%12"),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
        ("64:ff9b::192.0.2.33", "64:ff9b::192.0.2.33"),
        // A colon behind the host, and the brackets of RFC 3986 with and without a port.
        ("2001:db8::1:", "2001:db8::1"),
        ("2001:db8:::", "2001:db8::"),
        ("fe80::1%eth0:", "fe80::1%eth0"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::]", "2001:db8::"),
        ("[2001:db8::1]:514", "2001:db8::1"),
        ("[fe80::1%eth0]:", "fe80::1%eth0"),
    ] {
        for time in [
            "Nov 25 17:00:00",
            "2026-11-25T17:00:00Z",
            "Nov 25 17:00:00.5 UTC:",
        ] {
            let text = format!("<14>{time} {written} named[16]: success");
            check(&text, [host, "named", "16", "success"]);
        }
    }
    // Tags and texts that only look alike.
    for (rest, host, app, message) in [
        ("kernel: a::b", "", "kernel", "a::b"),
        ("Net::SSH: x y", "", "Net", ":SSH: x y"),
        ("12:34: x y", "", "12", "34: x y"),
        ("[16]: x y", "", "", "[16]: x y"),
        ("2001:db8:::: x y", "", "2001", "db8:::: x y"),
    ] {
        check(
            &format!("<14>Nov 25 17:00:00 {rest}"),
            [host, app, "", message],
        );
    }
}

#[test]
fn tabs_separate_as_blanks_do() {
    for (head, message) in [
        ("Nov 25 17:00:00\tweb-1\tsshd[77]: hello", "hello"),
        ("Nov 25 17:00:00 web-1\tsshd[77]: hello", "hello"),
        ("Nov 25 17:00:00\tweb-1 sshd[77]: hello", "hello"),
        ("Nov 25 17:00:00\t\tweb-1\t\tsshd[77]: hello", "hello"),
        ("Nov 25 17:00:00 \t web-1 \t sshd[77]: hello", "hello"),
        ("Nov 25 17:00:00\tweb-1\tsshd[77]:\thello", "hello"),
        ("Nov 25 17:00:00\tweb-1\tsshd[77]: a\tb", "a\tb"),
        ("\tNov 25 17:00:00\tweb-1\tsshd[77]: hello", "hello"),
        ("2026-11-25T17:00:00Z\tweb-1\tsshd[77]: hello", "hello"),
        ("2026-11-25 17:00:00\tUTC\tweb-1\tsshd[77]: hello", "hello"),
        ("Nov 25 17:00:00 2026\tweb-1\tsshd[77]: hello", "hello"),
        ("Nov 25 17:00:00:\tweb-1\tsshd[77]: hello", "hello"),
    ] {
        let text = format!("<38>{head}");
        check(&text, ["web-1", "sshd", "77", message]);
        assert_eq!(time_of(&read(&text)), "2026-11-25T17:00:00Z", "{text:?}");
    }
    for host in ["winhost", "192.0.2.7", "2001:db8::7", "2001:db8::"] {
        for blank in [" ", "\t"] {
            let event = "MSWinEventLog\t1\tSecurity\t123\tWed Nov 25 17:00:00 2026\t4624";
            let text = format!("<14>Nov 25 17:00:00 {host}{blank}{event}");
            check(&text, [host, "", "", event]);
        }
    }
    check("<38>Nov 25 17:00:00 a=b\tc=d e", ["", "", "", "a=b\tc=d e"]);
    check(
        "<38>Nov 25 17:00:00 sshd[77]:\thello",
        ["", "sshd", "77", "hello"],
    );
}

#[test]
// tidy: long because it is one table, a row a case
fn what_a_syslogd_writes_itself_is_no_host_and_no_program() {
    for (rest, wanted) in [
        (
            "Message forwarded from aixhost: sshd[123]: text",
            ["aixhost", "sshd", "123", "text"],
        ),
        (
            "Message forwarded from aix.example.com: su: text",
            ["aix.example.com", "su", "", "text"],
        ),
        (
            "Message forwarded from 192.0.2.1: sshd[123]: text",
            ["192.0.2.1", "sshd", "123", "text"],
        ),
        (
            "Message forwarded from 2001:db8::1: su: text",
            ["2001:db8::1", "su", "", "text"],
        ),
        (
            "Message forwarded from 2001:db8::: su: text",
            ["2001:db8::", "su", "", "text"],
        ),
        (
            "Message forwarded from aixhost: CEF:0|a|b",
            ["aixhost", "", "", "CEF:0|a|b"],
        ),
        (
            "Message forwarded from a: Message forwarded from b: su: x",
            ["b", "su", "", "x"],
        ),
        (
            "relay Message forwarded from aixhost: su: x",
            ["aixhost", "su", "", "x"],
        ),
        (
            "From aixhost: sshd[123]: text",
            ["aixhost", "sshd", "123", "text"],
        ),
        ("From 192.0.2.1: su: text", ["192.0.2.1", "su", "", "text"]),
        (
            "Message forwarded from aixhost: last message repeated 2 times",
            ["aixhost", "", "", "last message repeated 2 times"],
        ),
        (
            "web-1 last message repeated 3 times",
            ["web-1", "", "", "last message repeated 3 times"],
        ),
        (
            "last message repeated 3 times",
            ["", "", "", "last message repeated 3 times"],
        ),
        (
            "last message repeated 1 time",
            ["", "", "", "last message repeated 1 time"],
        ),
        (
            "--- last message repeated 3 times ---",
            ["", "", "", "--- last message repeated 3 times ---"],
        ),
        (
            "web-1 --- last message repeated 1 time ---",
            ["web-1", "", "", "--- last message repeated 1 time ---"],
        ),
        (
            "web-1 above message repeats 4 times",
            ["web-1", "", "", "above message repeats 4 times"],
        ),
        (
            "above message repeats 4 times",
            ["", "", "", "above message repeats 4 times"],
        ),
        (
            "web-1 message repeated 2 times: [ sshd[1]: x]",
            ["web-1", "", "", "message repeated 2 times: [ sshd[1]: x]"],
        ),
        ("web-1 -- MARK --", ["web-1", "", "", "-- MARK --"]),
        ("-- MARK --", ["", "", "", "-- MARK --"]),
        (
            "web-1 exiting on signal 15",
            ["web-1", "", "", "exiting on signal 15"],
        ),
        ("exiting on signal 15", ["", "", "", "exiting on signal 15"]),
        // Programs and hosts that begin alike.
        (
            "last last: message repeated",
            ["last", "last", "", "message repeated"],
        ),
        (
            "web-1 last: message repeated 3 times",
            ["web-1", "last", "", "message repeated 3 times"],
        ),
        (
            "web-1 sshd[1]: last message repeated 3 times",
            ["web-1", "sshd", "1", "last message repeated 3 times"],
        ),
        ("Message sshd[1]: x", ["Message", "sshd", "1", "x"]),
        ("From sshd[1]: x", ["From", "sshd", "1", "x"]),
        (
            "web-1 rsyslogd: -- MARK --",
            ["web-1", "rsyslogd", "", "-- MARK --"],
        ),
        ("web-1 exiting now", ["web-1", "exiting", "", "now"]),
    ] {
        let text = format!("<38>Nov 25 17:00:00 {rest}");
        check(&text, wanted);
        let flagged = read(&text).anomalies.contains(Anomalies::NO_HOST);
        assert_eq!(flagged, wanted[0].is_empty(), "{text}");
    }
    let untimed = "<38>Message forwarded from aixhost: sshd[123]: text";
    check(untimed, ["aixhost", "sshd", "123", "text"]);
    check("<46>-- MARK --", ["", "", "", "-- MARK --"]);
    // A chain costs no more than its bytes.
    let chain = format!(
        "<38>Nov 25 17:00:00 {}su: x",
        "Message forwarded from a: ".repeat(4000)
    );
    check(&chain, ["a", "su", "", "x"]);
}

/// The time of a Cisco record, its host, its tag and its text.
#[track_caller]
fn check_cisco(text: &str, time: &str, host: &str) {
    let record = read(text);
    assert_eq!(record.format, Format::Cisco, "{text}");
    assert_eq!(time_of(&record), time, "{text}");
    check(text, [host, "%SYS-5-CONFIG_I", "", "Configured"]);
}

#[test]
fn any_word_is_a_zone_of_cisco() {
    let seven = "2026-11-25T17:00:00.123Z";
    for (clock, zone) in [
        ("17:00:00.123", "NewYork"),
        ("17:00:00.123", "Local"),
        ("17:00:00.123", "zürich"),
        ("17:00:00.123", "HQ-1"),
        ("17:00:00.123", "Europe/Berlin"),
        ("17:00:00.123", "GMT+99"),
        ("17:00:00.123", "X"),
        ("17:00:00.123", "utc"),
        ("18:00:00.123", "Cet"),
        ("19:00:00.123", "GMT+2"),
        ("18:00:00.123", "UTC+01:00"),
        ("18:00:00.123", "UTC+0100"),
        ("18:00:00.123", "UTC+01"),
        ("13:30:00.123", "UTC-3:30"),
        ("13:30:00.123", "GMT-0330"),
        ("22:45:00.123", "GMT+5:45"),
        ("12:00:00.123", "UTC -05:00"),
        ("18:00:00.123", "CET +0100"),
        ("19:00:00.123", "+02:00"),
    ] {
        for (head, host) in [
            ("101: ", ""),
            ("20: sw1: ", "sw1"),
            ("sw1: *", "sw1"),
            (": ", ""),
        ] {
            let text = format!("<189>{head}Nov 25 {clock} {zone}: %SYS-5-CONFIG_I: Configured");
            check_cisco(&text, seven, host);
        }
    }
    for zone in ["NewYork", "UTC"] {
        let text =
            format!("<189>101: sw1: Nov 25 2026 17:00:00 {zone}: %SYS-5-CONFIG_I: Configured");
        check_cisco(&text, "2026-11-25T17:00:00Z", "sw1");
    }
    // IOS XR has a process before the mnemonic.
    let xr = "<189>20: r1 RP/0/RP0/CPU0:Nov 25 17:00:00.5 NewYork: config[65710]: %MGBL-6-X : y";
    check(xr, ["r1", "config", "65710", "%MGBL-6-X : y"]);
    // Behind a colon a word is no zone; and one without a mnemonic behind it is a tag.
    let text = "<189>101: Nov 25 17:00:00: sw1: hello";
    check(text, ["", "sw1", "", "hello"]);
    let text = "<189>101: Nov 25 17:00:00 daemon: hello there";
    check(text, ["", "daemon", "", "hello there"]);
}

#[test]
fn zones_of_offsets_halves_of_the_day_and_years_stand_behind_times() {
    for (time, wanted) in [
        ("Nov 25 05:00:00 PM", "2026-11-25T17:00:00Z"),
        ("Nov 25 05:00:00 pm", "2026-11-25T17:00:00Z"),
        ("Nov 25 05:00:00PM", "2026-11-25T17:00:00Z"),
        ("Nov 25 05:00:00.5 PM", "2026-11-25T17:00:00.5Z"),
        ("Nov 25 5:00:00 PM", "2026-11-25T17:00:00Z"),
        ("Nov 25 05:00:00 p.m.", "2026-11-25T17:00:00Z"),
        ("Nov 25 05:00:00 PM:", "2026-11-25T17:00:00Z"),
        ("Nov 25 05:00:00 AM", "2026-11-25T05:00:00Z"),
        ("Nov 25 12:00:00 AM", "2026-11-25T00:00:00Z"),
        ("Nov 25 12:00:00 PM", "2026-11-25T12:00:00Z"),
        ("Nov 25 17:00:00 PM", "2026-11-25T17:00:00Z"),
        ("Nov 25 05:00:00 PM UTC", "2026-11-25T17:00:00Z"),
        ("Nov 25 06:00:00 PM CET", "2026-11-25T17:00:00Z"),
        ("Nov 25 06:00:00 PM +0100", "2026-11-25T17:00:00Z"),
        ("Nov 25 06:00:00 PM CET 2025", "2025-11-25T17:00:00Z"),
        ("Nov 25 05:00:00 PM 2025", "2025-11-25T17:00:00Z"),
        ("Nov 25 05:00:00 2025 PM", "2025-11-25T17:00:00Z"),
        ("Nov 25 2025 05:00:00 PM", "2025-11-25T17:00:00Z"),
        ("2026-11-25 05:00:00 PM", "2026-11-25T17:00:00Z"),
        ("2026-11-25T05:00:00.25 pm", "2026-11-25T17:00:00.25Z"),
        ("Nov 25 18:00:00 CET 2026", "2026-11-25T17:00:00Z"),
        ("Nov 25 18:00:00 CET 2024:", "2024-11-25T17:00:00Z"),
        ("Nov 25 18:00:00 +0100 2024", "2024-11-25T17:00:00Z"),
        ("Nov 25 18:00:00 GMT+1 2024", "2024-11-25T17:00:00Z"),
        ("Feb 29 18:00:00 CET 2024", "2024-02-29T17:00:00Z"),
        ("Nov 25 19:00:00 GMT+2", "2026-11-25T17:00:00Z"),
        ("Nov 25 18:00:00 UTC+01:00", "2026-11-25T17:00:00Z"),
        ("2026-11-25 18:00:00 UTC+1", "2026-11-25T17:00:00Z"),
        ("2026-11-25 12:00:00 UTC -05:00", "2026-11-25T17:00:00Z"),
        ("Nov 25 18:00:00 +0100 (CET)", "2026-11-25T17:00:00Z"),
        ("Nov 25 18:00:00 (CET)", "2026-11-25T17:00:00Z"),
        ("Wed Nov 25 17:00:00 2026", "2026-11-25T17:00:00Z"),
        ("Wed Nov 25 18:00:00 CET 2026", "2026-11-25T17:00:00Z"),
        ("Wed, Nov 25 17:00:00", "2026-11-25T17:00:00Z"),
    ] {
        let text = format!("<13>{time} web-1 app[7]: x");
        check(&text, ["web-1", "app", "7", "x"]);
        assert_eq!(time_of(&read(&text)), wanted, "{text}");
    }
    let unleap = read("<13>Feb 29 18:00:00 CET 2025 web-1 app[7]: x");
    assert!(unleap.anomalies.contains(Anomalies::BAD_TIME));
    // Hosts that begin alike.
    for host in [
        "PM1", "AMS", "pm-1", "UTC1", "GMT+", "2026a", "CETUS", "Wed", "pmx",
    ] {
        let text = format!("<13>Nov 25 17:00:00 {host} app[7]: x");
        check(&text, [host, "app", "7", "x"]);
        assert_eq!(time_of(&read(&text)), "2026-11-25T17:00:00Z", "{text}");
    }
    check(
        "<13>Nov 25 17:00:00 CET 2001:db8::1 app: x",
        ["2001:db8::1", "app", "", "x"],
    );
    check("<13>Nov 25 17:00:00 CET 1999 app: x", ["", "app", "", "x"]);
}

#[test]
// tidy: long because it is one table, a row a case
fn an_hour_that_occurs_twice_is_the_one_closest_to_its_reception() {
    let at = |text: &str| {
        let time: jiff::Timestamp = text.parse().unwrap();
        Timestamp(i64::try_from(time.as_nanosecond()).unwrap())
    };
    for (zone, shown, received, wanted) in [
        (
            "Europe/Berlin",
            "Oct 25 02:30:00",
            "2026-10-25T00:30:01Z",
            "2026-10-25T00:30:00Z",
        ),
        (
            "Europe/Berlin",
            "Oct 25 02:30:00",
            "2026-10-25T01:30:01Z",
            "2026-10-25T01:30:00Z",
        ),
        (
            "Europe/Berlin",
            "Oct 25 02:59:59",
            "2026-10-25T02:00:00Z",
            "2026-10-25T01:59:59Z",
        ),
        (
            "Europe/Berlin",
            "Oct 25 02:00:00",
            "2026-10-25T00:00:00Z",
            "2026-10-25T00:00:00Z",
        ),
        (
            "Europe/Berlin",
            "Oct 25 02:00:00",
            "2026-10-25T01:00:00Z",
            "2026-10-25T01:00:00Z",
        ),
        (
            "Europe/Berlin",
            "Oct 25 02:30:00",
            "2026-10-25T00:59:59Z",
            "2026-10-25T00:30:00Z",
        ),
        (
            "Europe/Berlin",
            "Oct 25 02:30:00",
            "2026-10-25T08:00:00Z",
            "2026-10-25T01:30:00Z",
        ),
        (
            "Europe/Berlin",
            "Oct 25 02:30:00",
            "2026-10-24T08:00:00Z",
            "2026-10-25T00:30:00Z",
        ),
        (
            "Europe/Berlin",
            "2026-10-25T02:30:00",
            "2026-10-25T01:30:01Z",
            "2026-10-25T01:30:00Z",
        ),
        (
            "America/New_York",
            "Nov  1 01:30:00",
            "2026-11-01T05:30:05Z",
            "2026-11-01T05:30:00Z",
        ),
        (
            "America/New_York",
            "Nov  1 01:30:00",
            "2026-11-01T06:30:05Z",
            "2026-11-01T06:30:00Z",
        ),
        (
            "Australia/Lord_Howe",
            "Apr  5 01:45:00",
            "2026-04-04T14:45:09Z",
            "2026-04-04T14:45:00Z",
        ),
        (
            "Australia/Lord_Howe",
            "Apr  5 01:45:00",
            "2026-04-04T15:15:09Z",
            "2026-04-04T15:15:00Z",
        ),
    ] {
        let mut parser = SyslogParser::new(Zone::named(zone).unwrap());
        for _ in 0..2 {
            let text = format!("<13>{shown} h smartd: x");
            let record = read_in(&mut parser, &text, at(received));
            assert_eq!(time_of(&record), wanted, "{text} at {received}");
            let names: Vec<_> = record.anomalies.names().collect();
            assert!(names.contains(&"hour_assumed"), "{text}: {names:?}");
        }
    }
    let mut parser = SyslogParser::new(Zone::named("Europe/Berlin").unwrap());
    for (shown, wanted) in [
        ("Oct 25 01:59:59", "2026-10-24T23:59:59Z"),
        ("Oct 25 03:00:00", "2026-10-25T02:00:00Z"),
        ("Mar 29 2026 02:30:00", "2026-03-29T01:30:00Z"),
    ] {
        let text = format!("<13>{shown} h smartd: x");
        let record = read_in(&mut parser, &text, at("2026-10-25T01:30:00Z"));
        assert_eq!(time_of(&record), wanted, "{text}");
        assert!(
            !record.anomalies.names().any(|name| name == "hour_assumed"),
            "{text}"
        );
    }
}

/// Zones and an instant at which their clocks are set back, in seconds since 1970.
const SET_BACK: [(&str, i64); 3] = [
    ("Europe/Berlin", 1_792_890_000),
    ("America/New_York", 1_793_512_800),
    ("Australia/Lord_Howe", 1_775_314_800),
];

proptest! {
    /// Whoever's events come within minutes is read right over the change, however often they come.
    #[test]
    fn events_that_come_soon_are_right_over_the_change(
        index in 0..SET_BACK.len(),
        begin in 0_i64..7200,
        steps in prop::collection::vec((1_i64..1800, 0_i64..240), 1..60),
    ) {
        let (zone, change) = SET_BACK[index];
        let clock = jiff::tz::TimeZone::get(zone).unwrap();
        let mut parser = SyslogParser::new(Zone::named(zone).unwrap());
        let sender = IpAddr::from([192, 0, 2, 1]);
        let mut instant = change - begin;
        for (step, delay) in steps {
            instant += step;
            let time = jiff::Timestamp::from_second(instant).unwrap();
            let text = format!("<13>{} h a: x", clock.to_datetime(time).strftime("%b %e %H:%M:%S"));
            let received = Timestamp((instant + delay) * 1_000_000_000);
            let raw = Span::new(0, text.len());
            let mut record = Record::unparsed(raw, received, 0, Anomalies::NONE);
            parser.parse_from(text.as_bytes(), &mut record, sender);
            prop_assert_eq!(record.event_time.0, instant * 1_000_000_000, "{} {}", text, time);
        }
    }
}
