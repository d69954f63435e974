//! Lines of container logs: those made by their grammar, and what is left of them after damage.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/container.rs"]
mod laws;

use inrush_codec::container::{parse_cri, parse_docker};
use proptest::collection::vec;
use proptest::prelude::*;

/// A time as containerd, CRI-O or Docker writes it, and its nanoseconds since 1970.
fn time() -> impl Strategy<Value = (String, i64)> {
    // 1690 to 2250: offsets stay within what 64 bits hold.
    let seconds = -8_835_000_000_i64..8_835_000_000;
    let offset = prop_oneof![Just(None), (-1439_i64..1440).prop_map(Some)];
    (seconds, 0..1_000_000_000_i64, 0..=9_u32, offset).prop_map(
        |(seconds, nanos, places, offset)| {
            let step = 10_i64.pow(9 - places);
            let nanos = nanos / step * step;
            let minutes = offset.unwrap_or(0);
            let local = jiff::Timestamp::from_second(seconds + minutes * 60).unwrap();
            let local = local.to_string().replace('Z', "");
            let decimals = format!(".{nanos:09}");
            let decimals = match places {
                0 => "",
                places => &decimals[..=places as usize],
            };
            let zone = match offset {
                None => "Z".to_owned(),
                Some(_) => {
                    let sign = if minutes < 0 { '-' } else { '+' };
                    let minutes = minutes.abs();
                    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
                }
            };
            let total = seconds * 1_000_000_000 + nanos;
            (format!("{local}{decimals}{zone}"), total)
        },
    )
}

/// Texts with what is special in one of the formats.
fn text() -> impl Strategy<Value = String> {
    const FIXED: &[&str] = &[
        "\\", "\\n", "\n", "\r\n", "\"", "<a>&", "\u{2028}", "🙂", "\u{1}", " F ", "P:",
    ];
    let piece = prop_oneof![
        prop::sample::select(FIXED).prop_map(str::to_owned),
        "[ -~]{0,70}",
        any::<char>().prop_map(String::from),
    ];
    vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

/// A JSON string, by the way of an encoder: `serde_json`, Go's, or all escaped.
fn string(text: &str, way: u8) -> String {
    let plain = serde_json::to_string(text).unwrap();
    match way % 3 {
        0 => plain,
        1 => {
            let go = [
                ("<", "\\u003c"),
                (">", "\\u003e"),
                ("&", "\\u0026"),
                ("\u{2028}", "\\u2028"),
            ];
            go.iter()
                .fold(plain, |text, (from, to)| text.replace(from, to))
        }
        _ => {
            let units = text.encode_utf16().map(|unit| format!("\\u{unit:04X}"));
            format!("\"{}\"", units.collect::<String>())
        }
    }
}

/// Members of an object of Docker's in any order, with doubles, unknown keys and wrong values.
fn members() -> impl Strategy<Value = Vec<String>> {
    let string = |text: String, way| string(&text, way);
    let log = (text(), any::<u8>()).prop_map(move |(text, way)| string(text, way));
    let stream = (
        prop::sample::select(&["stdout", "stderr", "stdin", ""][..]),
        0..9_u8,
    )
        .prop_map(move |(name, way)| string(name.into(), way / 4));
    let time = (time(), 0..9_u8).prop_map(move |((time, _), way)| string(time, way / 4));
    const FIXED: &[&str] = &[
        "null",
        "{}",
        "{\"a\":\"}\"}",
        "[1,{}]",
        "-1.5e3",
        "true",
        "\"\\ud83d\"",
        "{\"a\":[",
    ];
    let other = prop::sample::select(FIXED).prop_map(str::to_owned);
    let key = prop::sample::select(&["attrs", "x", "log", "l\\u006fg", "time", "stream"][..]);
    vec(
        prop_oneof![
            5 => log.prop_map(|value| format!("\"log\":{value}")),
            5 => stream.prop_map(|value| format!("\"stream\": {value}")),
            5 => time.prop_map(|value| format!("\"time\" :{value} ")),
            3 => (key, other).prop_map(|(key, value)| format!("\"{key}\":{value}")),
        ],
        0..7,
    )
}

/// Damage to a line: the place, bytes taken out there, and bytes put in.
fn damage() -> impl Strategy<Value = (prop::sample::Index, usize, Vec<u8>)> {
    let put = prop::sample::select(&[" ", "\"", "\\", "{", "}", ",", ":", "\n", "F", "é"][..]);
    let put = prop_oneof![
        put.prop_map(|text| text.as_bytes().to_vec()),
        vec(any::<u8>(), 0..3),
    ];
    (any::<prop::sample::Index>(), 0..20_usize, put)
}

fn damaged(mut line: Vec<u8>, (at, out, put): (prop::sample::Index, usize, Vec<u8>)) -> Vec<u8> {
    let at = at.index(line.len() + 1);
    let end = line.len().min(at + out);
    line.splice(at..end, put);
    line
}

proptest! {
    #[test]
    fn a_cri_line_is_read_back(
        (written, nanos) in time(),
        (stream, tag) in ("stdout|stderr", "[PF](:[!-9;-~]{0,5}){0,3}"),
        text in vec(any::<u8>(), 0..200),
        damage in damage(),
    ) {
        let header = format!("{written} {stream} {tag} ");
        let line = [header.as_bytes(), &text].concat();
        let found = parse_cri(&line).unwrap();
        prop_assert_eq!(found.time.0, nanos);
        prop_assert_eq!(found.stream.name(), stream);
        prop_assert_eq!(found.partial, tag.starts_with('P'));
        prop_assert_eq!(found.text.of(&line), &text[..]);
        laws::check_cri(&line);
        laws::check_cri(&damaged(line, damage));
    }

    #[test]
    fn a_line_of_docker_is_read_back(
        (written, nanos) in time(),
        (stream, way) in ("stdout|stderr", any::<u8>()),
        (text, newline, attrs) in (text(), any::<bool>(), any::<bool>()),
        damage in damage(),
    ) {
        let log = if newline { text + "\n" } else { text };
        let attrs = if attrs { r#""attrs":{"tag":"a"},"# } else { "" };
        let log_text = string(&log, way);
        let line = format!(
            "{{\"log\":{log_text},\"stream\":\"{stream}\",{attrs}\"time\":\"{written}\"}}"
        );
        let found = parse_docker(line.as_bytes()).unwrap();
        prop_assert_eq!(found.time.0, nanos);
        prop_assert_eq!(found.attrs.is_empty(), attrs.is_empty());
        laws::check_docker(line.as_bytes());
        laws::check_docker(&damaged(line.into_bytes(), damage));
    }

    #[test]
    fn any_object_is_read_as_serde_json_does(members in members(), damage in damage()) {
        let line = format!("{{{}}}", members.join(","));
        laws::check_docker(line.as_bytes());
        laws::check_docker(&damaged(line.into_bytes(), damage));
    }

    #[test]
    fn any_bytes_are_survived(line in vec(any::<u8>(), 0..100)) {
        laws::check_cri(&line);
        laws::check_docker(&line);
    }
}
