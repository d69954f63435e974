//! Each kind is told by an example of it, and not by another's.

use serde_json::{Value, json};

use super::super::against::ComparedEvent;
use super::*;

/// The name of the kind by which a key differs.
fn kind_of(message: &str, key: &'static str, there: &Value, here: &Value) -> &'static str {
    let (there, here) = (&ComparedEvent::read(there), &ComparedEvent::read(here));
    let difference = Difference {
        message,
        key,
        there,
        here,
    };
    of(&difference).map_or("", |kind| kind.name)
}

/// Of answers that have one key.
fn of_key(message: &str, key: &'static str, there: &str, here: &str) -> &'static str {
    kind_of(message, key, &json!({ key: there }), &json!({ key: here }))
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn a_host_that_is_none() {
    let zone = "<30>May  6 07:08:09 UTC ap1 app: x";
    assert_eq!(
        of_key(zone, "host", "utc", "ap1"),
        "zone taken for the host"
    );
    assert_eq!(of_key(zone, "host", "ap2", "ap1"), "");
    assert_eq!(of_key(zone, "host", "-", "ap1"), "empty host");
    let facility = "<14>May  6 07:08:09.250 user.info cms1 host:server: INFO : x";
    let kind = of_key(facility, "host", "user.info", "cms1");
    assert_eq!(kind, "facility taken for the host");
    assert_eq!(of_key(facility, "host", "user.example", "cms1"), "");
    let colon = "<13>1 2024-05-06T07:08:09Z db1: app - - - x";
    assert_eq!(
        of_key(colon, "host", "192.0.2.1", "db1:"),
        "colon behind the host"
    );
    assert_eq!(of_key(colon, "host", "db1", "db1:"), "");
    let address = "<13>May  6 07:08:09 2001:db8::17 app: x";
    let kind = of_key(address, "host", "192.0.2.1", "2001:db8::17");
    assert_eq!(kind, "IPv6 address as the host");
    let bare = "<30>192.0.2.5 dhcpd[5]: x";
    let kind = of_key(bare, "host", "192.0.2.1", "192.0.2.5");
    assert_eq!(kind, "address before the program");
    let cef = "<134>May  6 07:08:09 UTC gc1 CEF:0|Example|Gate|1|2|3|4|";
    assert_eq!(of_key(cef, "host", "may", "gc1"), "time taken for the host");
    assert_eq!(of_key(cef, "host", "gc2", "gc1"), "");
}

#[test]
fn a_header_that_sc4s_reads_in_part() {
    let number = "<13>339: gw2: May  6 07:08:09: app: x";
    let there = json!({ "host": "192.0.2.1", "event": "gw2: May  6 07:08:09: app: x" });
    let here = json!({ "host": "gw2", "event": "app: x" });
    for key in ["host", "event", "time"] {
        assert_eq!(
            kind_of(number, key, &there, &here),
            "sequence number before a text"
        );
    }
    let kept = json!({ "host": "192.0.2.1", "event": "339: gw2: May  6 07:08:09: app: x" });
    assert_eq!(kind_of(number, "event", &there, &kept), "");
    let cisco = "<189>12: sw1: May  6 07:08:09 UTC: %LINK-5-CHANGED: x";
    let kind = of_key(cisco, "host", "192.0.2.1", "sw1");
    assert_eq!(kind, "short host in Cisco's header");
    assert_eq!(of_key(cisco, "event", "a", "b"), "");
    let iso = "<189>12: sw-1a: 2024-05-06T07:08:08.5Z: %LINK-5-CHANGED: x";
    let kind = of_key(iso, "time", "1714979289.123", "1714979288.5");
    assert_eq!(kind, "time in Cisco's header");
    let hexadecimal = "<46>2024-05-06 07:08:08 db1: up";
    let there = json!({ "source": "sc4s", "event": "db1: up" });
    let here = json!({ "source": "program:db1", "event": "db1: up" });
    let kind = kind_of(hexadecimal, "source", &there, &here);
    assert_eq!(kind, "host of hexadecimal letters");
}

#[test]
fn structured_data_that_is_not_to_the_letter() {
    let event = |data: &str| format!("- - CheckPoint 7 - {data}");
    let message = |data: &str| format!("<134>1 2024-05-06T07:08:09Z gw1 CheckPoint 7 - {data}");
    for data in [
        r#"[sc4s@2620  product="Firewall"]"#,
        r#"[sc4s@2620 product="[1]"]"#,
        r#"[sc4s@2620 rule="a" rule="b"]"#,
        r#"[sc4s@2620 größe="1"]"#,
        r#"[sc4s@2620 rule=a]"#,
        r#"[sc4s@2620 rule="a""#,
    ] {
        let kind = of_key(&message(data), "event", "x", &event(data));
        assert_eq!(kind, "RFC 5424 not to the letter", "{data}");
    }
    for data in [
        r#"[sc4s@2620 product="Firewall" x="\]"]"#,
        r#"[sc4s@2620][b c=""] text"#,
        "- text [x",
        "-",
    ] {
        assert_eq!(
            of_key(&message(data), "event", "x", &event(data)),
            "",
            "{data}"
        );
    }
    let blanks = "<134>1 2024-05-06T07:08:09Z  gw1 app - - - x";
    let kind = of_key(blanks, "event", "x", "- - app - - -x");
    assert_eq!(kind, "RFC 5424 not to the letter");
    let lax = message(r#"[sc4s@2620  rule="a"]"#);
    let (kept, dropped) = (json!({ "sourcetype": "cp_log:syslog" }), json!({}));
    let kind = kind_of(&lax, EVENT_COUNT, &kept, &dropped);
    assert_eq!(kind, "RFC 5424 not to the letter");
    assert_eq!(kind_of(&lax, EVENT_COUNT, &dropped, &kept), "");
}

#[test]
fn a_text_that_was_not_sent() {
    let of_text = |there: &str, here: &str| of_key("<13>x y", "event", there, here);
    assert_eq!(
        of_text(r#"path="C:\\x""#, r#"path="C:\x""#),
        "backslashes doubled"
    );
    assert_eq!(of_text("", "x"), "empty text");
    assert_eq!(of_text("a <13>x y", "y"), "record within the text");
    assert_eq!(
        of_text("- - - - - -x", "- - kernel - - -x"),
        "program lost from the text"
    );
    let here = r#"- - app 1 - [a@6876 b="c" ="d"]x"#;
    assert_eq!(
        of_text(r#"- - app 1 - [a@6876 b="c"]x"#, here),
        "parameter lost from the text"
    );
    assert_eq!(of_text("a", "b"), "");
    let dump = "<14>2024-05-06T07:08:09Z esx4 cmmdsTimeMachineDump: 1714979280.5,9,NODE";
    let there = "- - cmmdsTimeMachineDump - - -";
    let here = format!("{there}1714979280.5,9,NODE");
    assert_eq!(
        of_key(dump, "event", there, &here),
        "dump without its columns"
    );
    let trace = json!({ "vendor": "dell-rsa", "class": "trace", "event": "at at x\nat x" });
    let kind = kind_of("<13>at x", "event", &trace, &json!({ "event": "at x" }));
    assert_eq!(kind, "trace joined twice");
}

#[test]
fn objects_that_say_less_or_more() {
    let of_text = |there: &str, here: &str| of_key("<13>x", "event", there, here);
    let internal = "internal names in JSON";
    assert_eq!(
        of_text(r#"{"a": 1, "_metadata": {}}"#, r#"{"a": 1}"#),
        internal
    );
    assert_eq!(
        of_text(r#"{"_metadata": {"id": "@@ x"}}"#, "Core: @@ x"),
        internal
    );
    assert_eq!(of_text(r#"{"a": 1, "_metadata": {}}"#, r#"{"a": 2}"#), "");
    let lost = "values lost from JSON";
    assert_eq!(
        of_text(r#"{"a": {"b": 1}}"#, r#"{"a": {"b": 1, "c": 2}}"#),
        lost
    );
    assert_eq!(
        of_text(r#"{"a": "Brute"}"#, r#"{"a": "Brute force"}"#),
        lost
    );
    assert_eq!(of_text(r#"{"a": "Brute force"}"#, r#"{"a": "Brute"}"#), "");
    let quotes = "quotes added in JSON";
    assert_eq!(
        of_text(r#"{"a": "\"10:43 AM\""}"#, r#"{"a": "10:43 AM"}"#),
        quotes
    );
    let there = r#"{"a": "\"10:43 AM\"", "b": ["  ", " "]}"#;
    assert_eq!(of_text(there, r#"{"a": "10:43 AM"}"#), quotes);
    let there = json!({ "sourcetype": "vmware:vcenter:json" });
    let here = json!({ "sourcetype": "nix:syslog" });
    let kind = kind_of(r#"<14>{"ok": TRUE}"#, "sourcetype", &there, &here);
    assert_eq!(kind, "object that is not JSON");
    assert_eq!(
        kind_of(r#"<14>{"ok": true}"#, "sourcetype", &there, &here),
        ""
    );
}

#[test]
fn what_an_event_is_not() {
    let of_class =
        |message: &str, there: &str, here: &str| of_key(message, "sourcetype", there, here);
    assert_eq!(of_class("<13>x", "fgt_", "fgt_log"), "sourcetype ends in _");
    let path = of_class("<13>x", "aviatrix:/bin/x", "aviatrix:x");
    assert_eq!(path, "path in a sourcetype");
    let log = "<14>1,2024/05/06 07:08:09,007,SYSTEM,auth,User x,THREAT,y failed";
    let kind = of_class(log, "pan:threat", "pan:system");
    assert_eq!(kind, "kind from a later column");
    assert_eq!(of_class(log, "pan:system", "pan:threat"), "");
    let accident = "another vendor's by accident";
    let cimc = "<187>May  6 07:08:09 c240 CIMC[7]: %CIMC-3-FAULT: x";
    assert_eq!(of_class(cimc, "arista:eos", "cisco:cimc"), accident);
    let access = "<30>May  6 07:08:09 ap1 hostapd: ath0: associated";
    assert_eq!(
        of_class(access, "vmware:esxlog:hostapd", "nix:syslog"),
        accident
    );
    let there = json!({ "sourcetype": "fgt_traffic" });
    let event = "sshd[3]: Invalid user ann b c d devid=FGT60 date=2024-05-06 time=07:08:09";
    let here = json!({ "sourcetype": "nix:syslog", "event": event });
    assert_eq!(kind_of("<86>x", "sourcetype", &there, &here), accident);
    let here = json!({ "sourcetype": "nix:syslog", "event": "date=2024-05-06 devid=FGT60" });
    assert_eq!(kind_of("<86>x", "sourcetype", &there, &here), "");
    let listener = "listener of a product unknown there";
    assert_eq!(
        of_key("<13>x", "source", "cisco_wsa", "cisco_wsa_splunk"),
        listener
    );
    let source = of_key("<13>x", "source", "program:", "program:dhcp2");
    assert_eq!(source, "source ends in a colon");
    let mark = "<86>May  6 07:08:09 db1 sshd[7]: Invalid user -- MARK --";
    let kind = kind_of(
        mark,
        EVENT_COUNT,
        &json!({}),
        &json!({ "sourcetype": "nix:syslog" }),
    );
    assert_eq!(kind, "mark at the end of an event");
}

#[test]
fn a_time_that_was_not_meant() {
    let of_time = |message: &str, there: &str, here: &str| of_key(message, "time", there, here);
    let year = of_time("<13>x", "419109889", "1714979289");
    assert_eq!(year, "time in another year");
    let none = "time or zone that does not exist";
    assert_eq!(
        of_time(
            "<13>2024-05-06T07:78:09Z a b: x",
            "1714983489",
            "1714979289.1"
        ),
        none
    );
    let zone = "<13>2024-05-06T07:08:09+51:00 a b: x";
    assert_eq!(of_time(zone, "1714795689", "1714979289"), none);
    let mac = "<13>May  6 07:08:09 00:1b:63:84:45:e6 x";
    assert_eq!(of_time(mac, "1714979288", "1714979289"), "");
    let written = "<13>2024-05-06T07:08:09+02:00 gw1 app: x";
    let kind = of_time(written, "1714979289", "1714972089");
    assert_eq!(kind, "written zone not believed");
    let kind = of_key(
        written,
        "event",
        "May 06 07:08:09 gw1 x",
        "May 06 05:08:09 gw1 x",
    );
    assert_eq!(kind, "written zone not believed");
    assert_eq!(
        of_key(
            written,
            "event",
            "May 06 07:08:09 gw1 x",
            "May 06 05:08:09 gw2 x"
        ),
        ""
    );
    let guessed = of_time("<13>May  6 09:08:09 gw1 app: x", "1714979289", "1714986489");
    assert_eq!(guessed, "zone guessed from one event");
    let firepower = "May 06 2024 07:08:01 ftd-2  %FTD-6-305012: x";
    let kind = of_time(firepower, "1714979289.123", "1714979281");
    assert_eq!(kind, "Firepower without a PRI");
    let kind = of_key(firepower, "host", "\tftd-2", "ftd-2");
    assert_eq!(kind, "Firepower without a PRI");
}

#[test]
fn a_time_of_one_product() {
    let day = "<134> 28/04/2024:10:11:12 GMT adc1 0-PPE-1 : x";
    let here = json!({ "sourcetype": "citrix:netscaler:syslog", "time": 1_714_299_072 });
    let there = json!({ "sourcetype": "citrix:netscaler:syslog", "time": 1_714_979_289 });
    assert_eq!(
        kind_of(day, "time", &there, &here),
        "NetScaler's day and month"
    );
    let month = "<134> 04/28/2024:10:11:12 GMT adc1 0-PPE-1 : x";
    assert_eq!(kind_of(month, "time", &there, &here), "");
    let ten = "<189>date=2024-05-06 time=09:08:02 devid=FGT60 eventtime=1714979282 x=y";
    let kind = of_key(ten, "time", "1714986482.5", "1714979282");
    assert_eq!(kind, "eventtime of ten digits");
    let cef = "<164>hx4 CEF:0|a|b|c|d|e|f|rt=May 06 2024 07:07:41 UTC   dvchost=hx4   dhost=pc-62";
    let blanks = "blanks behind a value of CEF";
    assert_eq!(of_key(cef, "time", "1714979289", "1714979261"), blanks);
    assert_eq!(of_key(cef, "host", "hx4  ", "hx4"), blanks);
    let plain = "<164>hx4 CEF:0|a|b|c|d|e|f|rt=May 06 2024 07:07:41 UTC dvchost=hx4 port=7  x=y";
    assert_eq!(of_key(plain, "time", "1714979289", "1714979261"), "");
}
