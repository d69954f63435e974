//! Headers of any bytes, and RFC 5424 headers made by its grammar.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/records.rs"]
mod records;

use std::net::IpAddr;

use inrush_codec::{SyslogParser, Zone, ZoneGuesses};
use inrush_event::{Anomalies, Format, Record, Span, Timestamp};
use proptest::prelude::*;

/// Pieces of headers, put together at random: close enough to syslog to reach every branch.
fn piece() -> impl Strategy<Value = String> {
    let fixed = [
        "<34>",
        "<191>",
        "<192>",
        "<",
        ">",
        "<-1>",
        "1",
        "2",
        "1 ",
        "- ",
        " ",
        "  ",
        ": ",
        ":",
        "[",
        "]",
        "[1]",
        "Nov 21 19:00:00",
        "Nov  1 19:00:00",
        "Feb 29 12:00:00",
        "Nov 99 99:99:99",
        "Dec 31 2025 23:59:60",
        "2026-11-21T19:00:00Z",
        "2026-11-21 19:00:00,123",
        "2026-02-30T00:00:00+02:00",
        ".123456",
        " 2026",
        " CEST",
        "1795287600.5 ",
        "123: ",
        "*",
        ".",
        "%ASA-6-302013: ",
        "00:01:01: ",
        "host",
        "host: ",
        "fe80::1 ",
        "sshd",
        "sshd[77]: ",
        "[a b=\"c\"]",
        "[a b=\"\\\"]\"]",
        "[a b=\"c",
        "\u{feff}",
        "CEF:0|",
        "{\"a\":1}",
        "ö",
        "text of it",
    ];
    prop_oneof![
        12 => prop::sample::select(fixed.to_vec()).prop_map(str::to_owned),
        1 => "\\PC{0,6}",
    ]
}

#[derive(Debug, Clone)]
struct Sent {
    pri: u8,
    fields: [Option<String>; 4],
    elements: Vec<(String, Vec<(String, String)>)>,
    message: Option<String>,
}

fn sent() -> impl Strategy<Value = Sent> {
    let field = |max: usize| {
        prop::option::of(
            prop::string::string_regex(&format!("[!-~]{{1,{max}}}"))
                .unwrap()
                .prop_filter("nil", |text| text != "-"),
        )
    };
    let name = || "[!#-<>-\\\\^-~]{1,32}";
    let element = (name(), prop::collection::vec((name(), "(?s).{0,12}"), 0..4));
    (
        0u8..192,
        (field(255), field(48), field(128), field(32)),
        prop::collection::vec(element, 0..3),
        prop::option::of("(?s).{0,40}"),
    )
        .prop_map(|(pri, (a, b, c, d), elements, message)| Sent {
            pri,
            fields: [a, b, c, d],
            elements,
            message,
        })
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace(']', "\\]")
}

impl Sent {
    fn sdata(&self) -> String {
        let elements = self.elements.iter().map(|(id, params)| {
            let params = params
                .iter()
                .map(|(name, value)| format!(" {name}=\"{}\"", escaped(value)));
            format!("[{id}{}]", params.collect::<String>())
        });
        elements.collect()
    }

    fn to_text(&self) -> String {
        let fields = self
            .fields
            .each_ref()
            .map(|field| field.as_deref().unwrap_or("-"))
            .join(" ");
        let sdata = self.sdata();
        let sdata = if sdata.is_empty() { "-" } else { &sdata };
        let message = self
            .message
            .as_ref()
            .map_or(String::new(), |message| format!(" {message}"));
        format!(
            "<{}>1 2026-11-21T19:00:00.5+02:00 {fields} {sdata}{message}",
            self.pri
        )
    }
}

/// What a parser that guesses zones makes of `raw`.
fn guessed(parser: &mut SyslogParser, raw: &str, received: Timestamp) -> Record {
    let mut record = Record::unparsed(Span::new(0, raw.len()), received, 7, Anomalies::NONE);
    parser.parse_from(raw.as_bytes(), &mut record, IpAddr::from([192, 0, 2, 1]));
    record
}

/// A parser of a source in UTC that takes the host `host` to be five hours behind.
fn taught() -> SyslogParser {
    let mut parser = SyslogParser::guessing(Zone::utc(), ZoneGuesses::new());
    for second in (0..60).step_by(5) {
        let raw = format!("<13>2026-11-21T14:00:{second:02} host app: x");
        let received = Timestamp(records::RECEIVED.0 + (second - 5) * 1_000_000_000);
        guessed(&mut parser, &raw, received);
    }
    parser
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_make_a_sound_record(raw in prop::collection::vec(any::<u8>(), 0..200)) {
        records::check(&mut SyslogParser::new(Zone::utc()), &raw);
    }

    #[test]
    fn any_pieces_make_sound_records(
        lines in prop::collection::vec(prop::collection::vec(piece(), 0..14), 1..6),
    ) {
        let mut parser = SyslogParser::new(Zone::utc());
        for line in lines {
            records::check(&mut parser, line.concat().as_bytes());
        }
    }

    #[test]
    fn guessing_changes_nothing_but_times_without_a_zone(
        lines in prop::collection::vec(prop::collection::vec(piece(), 0..14), 1..6),
        known in any::<bool>(),
    ) {
        let mut parser = taught();
        for line in lines {
            let start = if known { "<34>Nov 21 14:01:00 host app: " } else { "" };
            let raw = format!("{start}{}", line.concat());
            let mut untaught = SyslogParser::new(Zone::utc());
            let plain = records::parse(&mut untaught, b"", raw.as_bytes(), b"");
            let mut record = guessed(&mut parser, &raw, records::RECEIVED);
            if record.anomalies.contains(Anomalies::ZONE_GUESSED) {
                prop_assert!(plain.anomalies.contains(Anomalies::ZONE_ASSUMED), "{}", raw);
                let bits = record.anomalies.bits() & !Anomalies::ZONE_GUESSED.bits();
                record.anomalies = Anomalies::from_bits(bits).union(Anomalies::ZONE_ASSUMED);
                record.event_time.0 += i64::from(record.zone_minutes) * 60_000_000_000;
                record.zone_minutes = Record::ZONE_NONE;
            } else {
                prop_assert!(!known, "{}", raw);
            }
            prop_assert_eq!(format!("{record:?}"), format!("{plain:?}"), "{}", raw);
        }
    }

    #[test]
    fn rfc5424_comes_out_as_it_went_in(sent in sent()) {
        let text = sent.to_text();
        let record = records::parse(&mut SyslogParser::new(Zone::utc()), b"", text.as_bytes(), b"");
        let get = |span: Span| String::from_utf8(span.of(text.as_bytes()).to_vec()).unwrap();
        prop_assert_eq!(record.format, Format::Rfc5424);
        prop_assert_eq!(record.pri, sent.pri);
        prop_assert_eq!(record.zone_minutes, 120);
        prop_assert_eq!(record.event_time.0, 1_795_280_400_500_000_000);
        let spans = [record.host, record.app, record.proc_id, record.msg_id];
        for (span, field) in spans.into_iter().zip(&sent.fields) {
            prop_assert_eq!(&get(span), field.as_deref().unwrap_or_default());
        }
        prop_assert_eq!(get(record.sdata), sent.sdata());
        let message = sent.message.unwrap_or_default();
        prop_assert_eq!(get(record.message), message.strip_prefix('\u{feff}').unwrap_or(&message));
        let expected = if sent.fields[0].is_none() { Anomalies::NO_HOST } else { Anomalies::NONE };
        prop_assert_eq!(record.anomalies, expected);
    }
}
