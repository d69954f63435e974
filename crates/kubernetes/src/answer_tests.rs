//! Tests of lists and events, with broken and hostile ones.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::objects::PodObject;

/// A list's page, its objects' names, and the counts.
fn list(json: &str) -> (Result<ListPage, String>, Vec<String>, ObjectAnomalyCounts) {
    let counts = ObjectAnomalyCounts::default();
    let mut names = Vec::new();
    let mut take = |pod: PodObject| names.push(pod.name.to_string());
    let page = read_list(json.as_bytes(), &counts, &mut take);
    (page.map_err(|error| error.to_string()), names, counts)
}

fn item(name: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"u-{name}"}}}}"#)
}

fn listed(items: &str) -> String {
    format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"7",
        "continue":"more","remainingItemCount":3}},"items":[{items}]}}"#
    )
}

#[test]
fn a_page_is_read_with_its_version_and_token() {
    let (page, names, _) = list(&listed(&[item("a"), item("b")].join(",")));
    let expected = ListPage {
        version: "7".into(),
        next: "more".into(),
    };
    assert_eq!(page, Ok(expected));
    assert_eq!(names, ["a", "b"]);
    let late = r#"{"items":null,"metadata":{"resourceVersion":"8","continue":null}}"#;
    let (page, names, _) = list(late);
    assert_eq!(page.unwrap().version, "8");
    assert!(names.is_empty());
}

#[test]
fn what_is_no_list_is_an_error() {
    for json in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"items":[]}"#,
        r#"{"metadata":{"resourceVersion":"7"}}"#,
        r#"{"metadata":{"resourceVersion":7},"items":[]}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[1]}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":{}}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[]}x"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":"#,
    ] {
        assert!(list(json).0.is_err(), "{json}");
    }
}

#[test]
fn odd_objects_are_counted_and_the_others_kept() {
    let huge = format!(
        r#"{{"metadata":{{"name":"h","x":"{}"}}}}"#,
        "x".repeat(10 << 20)
    );
    let label = format!(
        r#"{{"metadata":{{"name":"l","namespace":"n","uid":"u","labels":{{"a":"{}"}}}}}}"#,
        "x".repeat(256 << 10)
    );
    let items = [
        item("a"),
        huge,
        r#"{"metadata":{"name":"x"}}"#.into(),
        label,
        item("b"),
    ];
    let (page, names, counts) = list(&listed(&items.join(",")));
    assert!(page.is_ok());
    assert_eq!(names, ["a", "l", "b"]);
    assert_eq!(counts.get(ObjectAnomaly::ObjectTooLarge), 1);
    assert_eq!(counts.get(ObjectAnomaly::UnnamedObject), 1);
    assert_eq!(counts.get(ObjectAnomaly::PartSkipped), 1);
}

#[test]
fn an_object_without_end_ends_the_list() {
    let head = r#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":""#;
    let endless = head.as_bytes().chain(io::repeat(b'x'));
    let counts = ObjectAnomalyCounts::default();
    let error = read_list::<PodObject>(endless, &counts, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("too large"), "{error}");
}

fn event(json: &str) -> (WatchEvent<PodObject>, String) {
    read_event(json.as_bytes()).unwrap()
}

#[test]
fn events_are_read_by_their_type() {
    let object = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"12"},
        "status":{"phase":"Running"}}"#;
    for kind in ["ADDED", "MODIFIED", "DELETED", "OTHER"] {
        let json = format!(r#"{{"type":"{kind}","object":{object}}}"#);
        let (event, version) = event(&json);
        assert_eq!(version, "12");
        match (kind, event) {
            ("ADDED" | "MODIFIED", WatchEvent::Applied(pod)) => assert_eq!(&*pod.name, "a"),
            ("DELETED", WatchEvent::Deleted(pod)) => assert_eq!(&*pod.uid, "u"),
            ("OTHER", WatchEvent::Unknown) => {}
            (kind, event) => panic!("{kind}: {event:?}"),
        }
    }
    let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":
        {"resourceVersion":"99","creationTimestamp":null},"spec":{"containers":null}}}"#;
    assert_eq!(event(bookmark), (WatchEvent::Bookmark, "99".into()));
    let gone = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},
        "status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired",
        "code":410}}"#;
    let status = StatusAnswer {
        code: 410,
        message: "too old resource version: 1 (2)".into(),
    };
    assert_eq!(event(gone), (WatchEvent::Failed(status), String::new()));
}

#[test]
fn what_is_no_event_is_an_error_or_unknown() {
    for json in [
        "",
        "x",
        "1",
        r#"{"type":"ADDED"}"#,
        r#"{"type":"ADDED","object":"#,
        "[1]",
    ] {
        assert!(read_event::<PodObject>(json.as_bytes()).is_err(), "{json}");
    }
    assert!(read_event::<PodObject>(b"{\"type\":\"\xff\"}").is_err());
    assert_eq!(event("{}"), (WatchEvent::Unknown, String::new()));
}

#[test]
fn messages_of_the_api_are_cut() {
    let long = format!(r#"{{"message":"a\n{}","code":403}}"#, "é".repeat(400));
    let status = read_status(403, long.as_bytes());
    assert!(status.message.len() <= MESSAGE_BYTES_SHOWN && status.message.starts_with("aé"));
    assert_eq!(read_status(500, b"\xff").message, "");
}

#[path = "../tests/support/kube_watch.rs"]
mod laws;

/// Pieces of streams, whole and broken.
const PIECES: [&str; 12] = [
    "\n",
    r#"{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"n","uid":"u","labels":{"a":1}}}}"#,
    r#"{"type":"DELETED","object":{"metadata":{"name":"a"},"spec":null}}"#,
    r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#,
    r#"{"type":"ERROR","object":{"code":410}}"#,
    r#"{"metadata":{"resourceVersion":"7","continue":"x"},"items":["#,
    r#"{"metadata":{"name":"a","namespace":"n","uid":"u"}}"#,
    "]}",
    ",",
    "{\"type\":\"ADDED\",\"obj",
    "\u{0}\\\"",
    "                                                                                ",
];

proptest::proptest! {
    #[test]
    fn any_stream_keeps_the_laws(
        cut in 0u8..,
        pieces in proptest::collection::vec(0..PIECES.len(), 0..40),
    ) {
        let text: String = pieces.into_iter().map(|at| PIECES[at]).collect();
        laws::check(&[&[cut][..], text.as_bytes()].concat());
    }

    #[test]
    fn any_bytes_keep_the_laws(bytes in proptest::collection::vec(0u8.., 0..300)) {
        laws::check(&bytes);
    }
}
