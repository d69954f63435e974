//! Texts that are not UTF-8, and characters that a terminal would obey.

use std::process::Command;

use inrush_tests::{Hec, Inrush, Tcp, binary, send_udp};
use serde_json::Value;

use crate::{UDP_TCP, to_file};

/// So that `inrush search` finds the store beside the process.
const DATA_DIR: &str = "data_dir: \"{dir}/data\"\n";

const HEADER: &str = "<13>Nov 25 05:00:00 h win: ";

/// `Anmeldung für Müller` in ISO 8859-1.
fn latin() -> Vec<u8> {
    [HEADER.as_bytes(), b"Anmeldung f\xfcr M\xfcller"].concat()
}

/// The same in base64, as `base64 -w0` writes it.
const LATIN_BASE64: &str = "PDEzPk5vdiAyNSAwNTowMDowMCBoIHdpbjogQW5tZWxkdW5nIGb8ciBN/GxsZXI=";

fn has_flag(event: &Value, flag: &str) -> bool {
    let flags = event["anomalies"].as_array();
    flags.is_some_and(|flags| flags.iter().any(|one| one == flag))
}

fn stored(inrush: &Inrush) -> Vec<Value> {
    let output = Command::new(binary())
        .args(["search", "*", "--since", "all", "--json", "-c"])
        .arg(inrush.path("inrush.yaml"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let odd = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}' || c == '\u{200b}');
    assert!(!text.contains(odd), "{text}");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn what_is_not_utf8_is_flagged_and_its_bytes_are_kept_by_every_destination() {
    let hec = Hec::start();
    let more = format!(
        "  kept: {{ type: store, flush_after: 200ms }}\n  hec: {{ type: splunk_hec, endpoints: [\"{}\"], token: t }}\n",
        hec.url()
    );
    let inrush = Inrush::start(&(DATA_DIR.to_owned() + &to_file(UDP_TCP, "") + &more));
    send_udp(
        inrush.address("udp"),
        [latin(), format!("{HEADER}grün").into_bytes()],
    );
    inrush.conserved(2);
    let events = inrush.events("out.jsonl");
    assert!(has_flag(&events[0], "not_utf8"), "{events:?}");
    assert_eq!(events[0]["raw_base64"], LATIN_BASE64);
    assert!(!has_flag(&events[1], "not_utf8") && events[1]["raw_base64"].is_null());
    let sent: Vec<Value> = hec.taken();
    let odd: Vec<&Value> = sent
        .iter()
        .filter(|e| !e["fields"]["raw_base64"].is_null())
        .collect();
    assert_eq!(odd.len(), 1, "{sent:?}");
    assert_eq!(odd[0]["fields"]["raw_base64"], LATIN_BASE64);
    let flags = odd[0]["fields"]["inrush_anomalies"].as_str().unwrap();
    assert!(flags.contains("not_utf8"), "{flags}");
    let found = stored(&inrush);
    let kept = |event: &&Value| event["fields"]["raw_base64"] == LATIN_BASE64;
    assert_eq!(found.iter().filter(kept).count(), 1, "{found:?}");
}

#[test]
fn the_encoding_of_a_source_is_converted() {
    for (encoding, bytes, text) in [
        ("iso-8859-1", &b"M\xfcller"[..], "Müller"),
        ("shift_jis", b"\x83\x8d\x83O\x83C\x83\x93", "ログイン"),
        ("gb18030", b"\xb5\xc7\xc2\xbc", "登录"),
    ] {
        let inrush = Inrush::start(&to_file(UDP_TCP, &format!("encoding: {encoding}")));
        let message = [HEADER.as_bytes(), bytes].concat();
        send_udp(inrush.address("udp"), [&message]);
        inrush.conserved(1);
        let mut tcp = Tcp::connect(inrush.address("tcp"));
        tcp.send([&message[..], b"\n", HEADER.as_bytes(), "grün\n".as_bytes()].concat());
        drop(tcp);
        inrush.conserved(3);
        let events = inrush.events("out.jsonl");
        for event in &events[..2] {
            assert_eq!(event["message"], text, "{event}");
            assert_eq!(
                (&event["host"], &event["app"]),
                (&"h".into(), &"win".into())
            );
            assert!(
                has_flag(event, "converted") && event["raw_base64"].is_null(),
                "{event}"
            );
        }
        assert_eq!(
            events[2]["message"], "grün",
            "{encoding}: what is UTF-8 stays"
        );
        assert!(!has_flag(&events[2], "converted"));
        assert_eq!(inrush.source()["anomalies"]["converted"], 2);
    }
}

#[test]
fn a_datagram_in_utf16_is_read_and_what_is_not_valid_is_flagged() {
    let inrush = Inrush::start(&to_file(UDP_TCP, "encoding: utf-16"));
    let text = format!("{HEADER}Logon failed");
    let mut wide = vec![0xff, 0xfe];
    wide.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    send_udp(inrush.address("udp"), [wide, latin()]);
    inrush.conserved(2);
    let events = inrush.events("out.jsonl");
    assert_eq!(
        (&events[0]["message"], &events[0]["raw"]),
        (&"Logon failed".into(), &text.into())
    );
    assert!(has_flag(&events[1], "not_utf8"), "{events:?}");
    assert_eq!(events[1]["raw_base64"], LATIN_BASE64);
}

#[test]
fn no_output_has_characters_that_do_not_show_what_they_are() {
    let more = "  kept: { type: store, flush_after: 200ms }\n  out2: { type: stdout }\n";
    let inrush = Inrush::start(&(DATA_DIR.to_owned() + &to_file(UDP_TCP, "") + more));
    let text = format!("{HEADER}a\u{9b}31mb\u{202e}c\u{200b}d");
    send_udp(inrush.address("udp"), [&text]);
    inrush.conserved(1);
    for file in ["out.jsonl", "stdout"] {
        let json = std::fs::read_to_string(inrush.path(file)).unwrap();
        assert!(
            json.contains("\\u009b") && json.contains("\\u202e"),
            "{json}"
        );
        let event: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        assert_eq!(event["raw"], text.as_str(), "a reader gets what was sent");
    }
    let found = stored(&inrush);
    assert_eq!(found[0]["raw"], text.as_str());
    let table = Command::new(binary())
        .args(["sql", "select raw from events", "-c"])
        .arg(inrush.path("inrush.yaml"))
        .output()
        .unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("win"), "{table}");
    let odd = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}' || c == '\u{200b}');
    assert!(!table.contains(odd), "{table}");
}
