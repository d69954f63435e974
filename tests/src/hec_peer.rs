//! Clients of HEC that others wrote: what each is told to send, and what must arrive of it.
//!
//! A live client and the replay of its recorded requests are judged alike ([`assert_arrived`]):
//! every text once, with the names that all clients are told, and with the time and the fields
//! that are in its requests.

use std::collections::HashMap;
use std::net::SocketAddr;

use jiff::Timestamp;
use serde_json::Value;

use crate::{Inrush, RecordedRequest, Recorder, field, sorted};

/// Token without acknowledgement.
pub const HEC_TOKEN: &str = "11111111-2222-3333-4444-555555555555";
/// Token whose requests are acknowledged.
pub const HEC_ACK_TOKEN: &str = "11111111-2222-3333-4444-666666666666";

/// A collector before `out.jsonl`. Its defaults are names that no client is told, so a name that
/// is right came from the client.
pub fn hec_peer_config(tls: &str) -> String {
    let defaults = "index: default, sourcetype: default, source: default";
    format!(
        "sources:\n  hec:\n    type: splunk_hec\n    listen: 127.0.0.1:0\n    {tls}\n    tokens:\n      \
         - {{ token: {HEC_TOKEN}, {defaults} }}\n      \
         - {{ token: {HEC_ACK_TOKEN}, ack: received, {defaults} }}\n\
         destinations:\n  out: {{ type: file, path: \"{{dir}}/out.jsonl\" }}\n"
    )
}

/// Clients whose requests are recorded.
pub const HEC_PEERS: [&str; 9] = [
    "camel",
    "curl",
    "docker",
    "npm-splunk-logging",
    "otel",
    "splunk-data-sender",
    "splunk-handler",
    "splunk-hec-handler",
    "syslog-ng",
];

/// Texts of the events that a client is told to send.
pub fn hec_peer_texts(name: &str) -> Vec<String> {
    let texts: &[&str] = match name {
        "camel" => &[
            r#"{"headers":{},"body":"one"}"#,
            r#"{"headers":{},"body":"two"}"#,
        ],
        "curl" => &[
            "plain",
            "chunked",
            "compressed",
            "expects",
            "old",
            "asks for h2",
        ],
        "docker" => &[
            r#"{"line":"one","source":"stdout","tag":"t1"}"#,
            r#"{"line":"two \"quoted\"","source":"stderr","tag":"t1"}"#,
        ],
        "npm-splunk-logging" => &[
            r#"{"message":"one","severity":"warn"}"#,
            r#"{"message":{"two":2},"severity":"warn"}"#,
        ],
        "otel" => return otel_texts(),
        "splunk-data-sender" => &[r#"{"a": 1}"#],
        "splunk-hec-handler" => &[
            r#"{"a": 1, "log_level": "INFO"}"#,
            r#"{"log_level": "INFO", "message": "text"}"#,
        ],
        "splunk-handler" | "syslog-ng" => &["one", "two"],
        _ => panic!("{name} is none of them"),
    };
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// So many that the exporter compresses a request of them.
fn otel_texts() -> Vec<String> {
    let object = r#"{"colour":["blue",null,1.5]}"#.to_owned();
    (0..40)
        .map(|n| format!("number {n}"))
        .chain([object])
        .collect()
}

/// A collector with a [`Recorder`] before it.
pub struct HecPeer {
    inrush: Inrush,
    recorder: Recorder,
}

impl HecPeer {
    /// Starts both.
    pub fn start() -> Self {
        Self::with(Recorder::before)
    }

    /// Starts both, with a recorder as `before` makes it.
    pub fn with(before: impl FnOnce(SocketAddr) -> Recorder) -> Self {
        let inrush = Inrush::start(&hec_peer_config(""));
        let recorder = before(inrush.address("http"));
        Self { inrush, recorder }
    }

    /// The collector.
    pub fn inrush(&self) -> &Inrush {
        &self.inrush
    }

    /// The address that the client is to send to.
    pub fn address(&self) -> SocketAddr {
        self.recorder.address()
    }

    /// The port that the client is to send to, on 127.0.0.1.
    pub fn port(&self) -> String {
        self.recorder.address().port().to_string()
    }

    /// Judges what has arrived of the client with this name, and keeps its requests.
    pub fn assert_served(&self, name: &str) {
        let texts = hec_peer_texts(name);
        let events = self.inrush.collected(texts.len() as u64);
        assert_arrived(&events, &texts, &self.recorder.connections());
        self.recorder.save(name);
    }
}

/// Asserts that the events are of these texts, each once, with the names that clients are told.
pub fn assert_named(events: &[Value], texts: &[String]) {
    assert_eq!(sorted(field(events, "raw")), sorted(texts.to_vec()));
    for event in events {
        assert_eq!(event["index"], "netops", "{event}");
        assert_eq!(event["sourcetype"], "peer:test", "{event}");
        assert_eq!(event["event_source"], "src", "{event}");
        assert_eq!(event["host"], "h1", "{event}");
    }
}

/// [`assert_named`], and their times and fields are those of the requests on these connections.
pub fn assert_arrived(events: &[Value], texts: &[String], connections: &[Vec<u8>]) {
    assert_named(events, texts);
    let requests = connections
        .iter()
        .flat_map(|bytes| RecordedRequest::all_of(bytes));
    let mut sent: HashMap<String, Value> = HashMap::new();
    for object in requests.flat_map(|request| request.objects()) {
        let before = sent.insert(object["event"].to_string(), object);
        assert!(before.is_none(), "sent twice: {before:?}");
    }
    for event in events {
        let text = event["raw"].as_str().unwrap();
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
        let object = &sent[&value.to_string()];
        let wanted = match &object["time"] {
            // A client that gives none gets the time of receipt.
            Value::Null => event["received"].as_str().unwrap()[..23].to_owned() + "Z",
            Value::String(seconds) => milliseconds(seconds),
            seconds => milliseconds(&seconds.to_string()),
        };
        assert_eq!(event["time"], wanted.as_str(), "{event} from {object}");
        assert_eq!(event["fields"], object["fields"], "{event} from {object}");
    }
}

/// Decimal seconds since 1970 as a file has them.
fn milliseconds(seconds: &str) -> String {
    let (whole, part) = seconds.split_once('.').unwrap_or((seconds, ""));
    let milliseconds = &format!("{part:0<3}")[..3];
    let all: i64 = format!("{whole}{milliseconds}").parse().unwrap();
    format!("{:.3}", Timestamp::from_millisecond(all).unwrap())
}

/// A port of 127.0.0.1 that is free now: for programs that must be told one.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}
