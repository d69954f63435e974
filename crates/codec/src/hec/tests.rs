//! Bodies against `serde_json`, and each fault by example.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;

/// Objects and the fault of a body that comes in pieces of these lengths, over and over.
fn split(body: &[u8], pieces: &[usize]) -> (Vec<Envelope>, Option<EnvelopeFault>) {
    let mut splitter = BodySplitter::default();
    let (mut at, mut shown) = (0, 0);
    let mut found = Vec::new();
    let mut pieces = pieces.iter().cycle();
    loop {
        let last = shown == body.len();
        match splitter.step(&body[..shown], at, last) {
            BodyStep::Object { envelope, end } => {
                found.push(envelope);
                at = end;
                assert_eq!(splitter.count(), found.len() as u64);
            }
            BodyStep::More { keep } => {
                assert!(!last, "more is asked for behind the end");
                assert!((at..=shown).contains(&keep));
                at = keep;
                let piece = pieces.next().copied().unwrap_or(1).max(1);
                shown = body.len().min(shown + piece);
            }
            BodyStep::End => return (found, None),
            BodyStep::Fault(fault) => return (found, Some(fault)),
        }
    }
}

fn whole(body: &str) -> (Vec<Envelope>, Option<EnvelopeFault>) {
    split(body.as_bytes(), &[usize::MAX])
}

fn only(body: &str) -> Envelope {
    let (found, fault) = whole(body);
    assert_eq!((found.len(), fault), (1, None), "{body}");
    found[0]
}

fn fault(body: &str) -> Option<EnvelopeFault> {
    whole(body).1
}

fn text(body: &str, text: EnvelopeText) -> String {
    let mut out = Vec::new();
    text.push(body.as_bytes(), &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn an_envelope_gives_its_keys_as_they_were_written() {
    let body = r#" {"time":"1433188255.253","host":"a\"b","source":"s","sourcetype":"t",
        "index":"main","event":{"n":1.0,"e":1e3,"n":[ 1 ]},"fields":{"k":["a","b"],"n":7}} "#;
    let found = only(body);
    let of = |span: inrush_event::Span| str::from_utf8(span.of(body.as_bytes())).unwrap();
    assert_eq!(text(body, found.host), "a\"b");
    assert_eq!(
        (of(found.source.span), of(found.sourcetype.span)),
        ("s", "t")
    );
    assert_eq!(of(found.index.span), "main");
    assert_eq!(of(found.fields), r#"{"k":["a","b"],"n":7}"#);
    assert_eq!(of(found.time_text), "1433188255.253");
    let EventValue::Json(event) = found.event else {
        panic!("{:?}", found.event);
    };
    assert_eq!(of(event), r#"{"n":1.0,"e":1e3,"n":[ 1 ]}"#);
    assert_eq!(
        found.time,
        EnvelopeTime::At(inrush_event::Timestamp(1_433_188_255_253_000_000))
    );
}

#[test]
fn each_fault_has_its_kind() {
    use EnvelopeFault::*;
    let cases = [
        (r#"{"event":""}"#, EventBlank),
        (r#"{"host":"a"}"#, EventRequired),
        (r#"{"fields":{"a":"b"}}"#, EventRequired),
        (r#"{"event":1,"fields":{"a":{"b":1}}}"#, Fields),
        (r#"{"event":1,"fields":{"a":[["b"]]}}"#, Fields),
        (r#"{"event":1,"fields":{"a":null}}"#, Fields),
        (r#"{"event":1,"fields":"a"}"#, Fields),
        (r#"{"event":1,"time":1.7e9}"#, Fields),
        (r#"{"event":1,"time":null}"#, Format),
        (r#"{"event":1,"time":"NaN"}"#, Format),
        (r#"{"event":1,"time":""}"#, Format),
        (r#"{"event":1,"host":1}"#, Format),
        (r#"{"event":1,}"#, Format),
        (r#"{"event":1"#, Format),
        (r#"{"event":"a}"#, Format),
        (r#"{"event":01}"#, Format),
        (r#"{"event":1},{"event":1}"#, Format),
        (r#"[{"event":1} {"event":1}]"#, Format),
        (r#"[{"event":1},]"#, Format),
        (r#"[{"event":1}"#, Format),
        (r#"[{"event":1}]]"#, Format),
        ("\"a\"", Format),
        ("{\"event\":\"a\nb\"}", Format),
    ];
    for (body, kind) in cases {
        assert_eq!(fault(body), Some(kind), "{body}");
    }
    for body in ["", " \r\n", "[]", " [ ] "] {
        assert_eq!(whole(body), (Vec::new(), None), "{body}");
    }
}

#[test]
fn metrics_need_no_event() {
    only(r#"{"fields":{"metric_name:cpu":1,"region":"eu"}}"#);
    only(r#"{"event":"metric","fields":{"metric_name":"cpu","_value":"1"}}"#);
}

#[test]
fn times_keep_nanoseconds_and_what_is_too_far_is_said() {
    let at = |text: &str| epoch(text.as_bytes()).unwrap();
    let ns = |ns: i64| EnvelopeTime::At(inrush_event::Timestamp(ns));
    assert_eq!(at("1.123456789"), ns(1_123_456_789));
    assert_eq!(at("1.1234567899"), ns(1_123_456_789));
    assert_eq!(at("-1.5"), ns(-1_500_000_000));
    assert_eq!(at("0"), ns(0));
    assert_eq!(at("253402300799"), EnvelopeTime::Far);
    assert_eq!(at("99999999999999999999"), EnvelopeTime::Far);
    assert_eq!(epoch(b"1e308"), Err(EnvelopeFault::Fields));
}

#[test]
fn nesting_ends_where_it_does_in_serde_json() {
    for levels in (120..132).chain([100_000]) {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        let body = format!("{{\"event\":{open}{close}}}");
        let good = serde_json::from_str::<Value>(&body).is_ok();
        assert_eq!(fault(&body).is_none(), good, "{levels} levels");
    }
}

#[test]
fn halves_of_surrogate_pairs_stay_and_whole_ones_become_a_character() {
    let body = r#"{"event":"\ud83d\ude00 \ud800 \u00e9\/\t"}"#;
    let EventValue::Text(event) = only(body).event else {
        panic!("no text");
    };
    assert_eq!(text(body, event), "😀 \\ud800 é/\t");
}

#[test]
fn a_long_object_in_small_pieces_is_not_parsed_with_each() {
    let body = format!("{{\"event\":\"{}\"}}", "x".repeat(4 << 20));
    // 65,536 pieces: parsed with each, these would be 137 GB.
    let (found, fault) = split(body.as_bytes(), &[64]);
    assert_eq!((found.len(), fault), (1, None));
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        "[a-z\"\\\\\n\u{1}é]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec(("[a-z]{1,3}", inner), 0..4).prop_map(|pairs| Value::Object(Map::from_iter(pairs))),
        ]
    })
}

/// A body of objects with an event, with up to two bytes changed or cut.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let object = (json(), "[ \n]{0,2}").prop_map(|(value, space)| {
        let mut object = Map::new();
        object.insert("event".to_owned(), value);
        serde_json::to_string(&object).unwrap() + &space
    });
    let damage = vec(
        (any::<prop::sample::Index>(), "[{}\\[\\],:\"\\\\a0 ]?"),
        0..3,
    );
    (vec(object, 0..5), damage).prop_map(|(objects, damage)| {
        let mut body = objects.concat().into_bytes();
        for (at, put) in damage {
            if !body.is_empty() {
                let at = at.index(body.len());
                body.splice(at..=at, put.into_bytes());
            }
        }
        body
    })
}

/// Reading of a body of objects by `serde_json`, up to the first that this dialect refuses.
fn by_serde(body: &[u8]) -> (usize, bool) {
    let mut count = 0;
    for object in serde_json::Deserializer::from_slice(body).into_iter::<Value>() {
        let good = object.is_ok_and(|object| {
            object
                .as_object()
                .is_some_and(|object| object.get("event").is_some_and(|event| event != ""))
        });
        if !good {
            return (count, false);
        }
        count += 1;
    }
    (count, true)
}

proptest! {
    #[test]
    fn objects_and_the_first_bad_one_are_those_of_serde_json(body in bodies()) {
        // Texts that are no UTF-8 are kept here, and refused there.
        prop_assume!(str::from_utf8(&body).is_ok());
        let text = String::from_utf8_lossy(&body);
        prop_assume!(!text.trim_start().starts_with('['));
        let (found, fault) = split(&body, &[usize::MAX]);
        prop_assert_eq!((found.len(), fault.is_none()), by_serde(&body), "{}", text);
    }

    #[test]
    fn cuts_between_reads_change_nothing(body in bodies(), array in any::<bool>(),
                                         pieces in vec(1_usize..40, 1..4)) {
        let body = match array {
            true => [b"[".as_slice(), &body, b"]"].concat(),
            false => body,
        };
        prop_assert_eq!(split(&body, &pieces), split(&body, &[usize::MAX]));
    }

    #[test]
    fn anything_ends_in_objects_or_a_fault(body in vec(any::<u8>(), 0..200),
                                           pieces in vec(1_usize..40, 1..4)) {
        prop_assert_eq!(split(&body, &pieces), split(&body, &[usize::MAX]));
    }
}
