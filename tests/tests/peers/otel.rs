//! The OpenTelemetry Collector: its `splunk_hec` exporter before Inrush, its receiver behind.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use inrush_tests::*;
use serde_json::{Value, json};

/// Starts a collector with its receiver at a port and this exporter, in a folder.
pub(crate) fn start(
    program: PathBuf,
    dir: &Path,
    receiver: &str,
    exporter: &str,
) -> (Daemon, SocketAddr) {
    let port = free_port();
    let name = exporter.split(':').next().unwrap();
    let config = format!(
        "receivers: {{ splunk_hec: {{ endpoint: \"127.0.0.1:{port}\", {receiver} }} }}\n\
         exporters: {{ {exporter} }}\n\
         service:\n  telemetry: {{ metrics: {{ level: none }} }}\n  \
         pipelines: {{ logs: {{ receivers: [splunk_hec], exporters: [{name}] }} }}\n"
    );
    std::fs::write(dir.join("otel.yaml"), config).unwrap();
    let mut command = Command::new(program);
    command.arg("--config").arg(dir.join("otel.yaml"));
    let mut daemon = Daemon::start(&mut command, &dir.join("otel.log"));
    daemon.await_words("Everything is ready");
    (daemon, SocketAddr::from(([127, 0, 0, 1], port)))
}

/// A HEC event that is named as all clients are told.
fn named(event: &Value, time: f64) -> Value {
    json!({
        "time": time, "host": "h1", "index": "netops", "sourcetype": "peer:test", "source": "src",
        "event": event,
    })
}

#[test]
#[ignore = "foreign program: make test-peers"]
fn the_exporter_of_opentelemetry_is_served() {
    let Some(program) = peer_tool("otel/otelcol") else {
        skip!("OpenTelemetry Collector: it was not built");
    };
    let peer = HecPeer::start();
    let exporter = format!(
        "splunk_hec: {{ endpoint: \"http://127.0.0.1:{}/services/collector\", \
         token: {HEC_TOKEN}, source: x, sourcetype: x, index: x, \
         sending_queue: {{ enabled: false }} }}",
        peer.port()
    );
    let (_daemon, receiver) = start(program, &peer.inrush().path(""), "", &exporter);
    let mut hec = HecClient::connect(receiver, HEC_TOKEN);
    let texts = hec_peer_texts("otel");
    let mut body = String::new();
    for (n, text) in texts.iter().enumerate() {
        let event = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()));
        let mut event = named(&event, 1_700_000_000.25 + n as f64);
        if n > 0 {
            event["fields"] = json!({ "colour": "blue", "n": n });
        }
        body += &event.to_string();
    }
    // One request alone for the first event: it is short, and so not compressed.
    let (first, others) = body.split_at(body.find("}{").unwrap() + 1);
    assert_eq!(hec.event(first).status, 200);
    let mut hec = HecClient::connect(receiver, HEC_TOKEN);
    assert_eq!(hec.event(others).status, 200);
    peer.assert_served("otel");
}

/// An event as the collector understood it.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Understood {
    text: String,
    /// Time in microseconds: the collector makes a double of it on the way.
    microseconds: u64,
    names: BTreeMap<String, String>,
}

/// Attributes, or other lists of keys and values.
fn attributes(of: &Value) -> BTreeMap<String, String> {
    let pairs = of["attributes"].as_array().into_iter().flatten();
    let pair = |pair: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&pair["key"]), text(&pair["value"]["stringValue"]))
    };
    pairs.map(pair).collect()
}

fn nanoseconds(record: &Value) -> u64 {
    record["timeUnixNano"].as_str().unwrap().parse().unwrap()
}

/// Every event in the file of the collector's exporter.
fn understood(inrush: &Inrush) -> Vec<Understood> {
    let mut found = Vec::new();
    for line in inrush.events_so_far("otel.jsonl") {
        for resource in line["resourceLogs"].as_array().unwrap() {
            let names = attributes(&resource["resource"]);
            let scopes = resource["scopeLogs"].as_array().unwrap().iter();
            for record in scopes.flat_map(|scope| scope["logRecords"].as_array().unwrap()) {
                let mut names = names.clone();
                names.extend(attributes(record));
                found.push(Understood {
                    text: record["body"]["stringValue"].as_str().unwrap().to_owned(),
                    microseconds: (nanoseconds(record) + 500) / 1000,
                    names,
                });
            }
        }
    }
    found.sort();
    found
}

/// Events that are sent, and those of a request to us.
const EVENTS: usize = 1000;
const EVENTS_OF_REQUEST: usize = 50;

/// Sends events to Inrush, all on one connection; gives them as the receiver behind must read them.
fn send_through(inrush: &Inrush) -> Vec<Understood> {
    let mut hec = HecClient::connect(inrush.address("http"), HEC_TOKEN);
    let numbers: Vec<usize> = (0..EVENTS).collect();
    for some in numbers.chunks(EVENTS_OF_REQUEST) {
        let event = |n: &usize| {
            let mut event = named(&Value::from(numbered(*n)), 1_700_000_000.25 + *n as f64);
            event["fields"] = json!({ "number": n.to_string() });
            event.to_string()
        };
        let body: String = some.iter().map(event).collect();
        assert_eq!(hec.event(body).status, 200);
    }
    let names = |n: usize| {
        let pairs = [
            ("com.splunk.index", "netops".to_owned()),
            ("com.splunk.source", "src".to_owned()),
            ("com.splunk.sourcetype", "peer:test".to_owned()),
            ("host.name", "h1".to_owned()),
            ("number", n.to_string()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    };
    let wanted = |n| Understood {
        text: numbered(n),
        microseconds: (1_700_000_000 + n as u64) * 1_000_000 + 250_000,
        names: names(n),
    };
    let mut wanted: Vec<_> = (0..EVENTS).map(wanted).collect();
    wanted.sort();
    wanted
}

/// Has our destination send through a recorder to the receiver with this option; gives the number
/// of requests of each connection.
fn requests_to_receiver(program: PathBuf, option: &str) -> Vec<usize> {
    let dir = tempfile::tempdir().unwrap();
    let exporter = format!("file: {{ path: \"{}/otel.jsonl\" }}", dir.path().display());
    let (_daemon, receiver) = start(program, dir.path(), option, &exporter);
    let recorder = Recorder::before(receiver);
    let config = hec_peer_config("")
        .split("destinations:")
        .next()
        .unwrap()
        .to_owned()
        + &format!(
            "destinations:\n  otel: {{ type: splunk_hec, endpoints: [\"http://{}\"], \
             token: {HEC_TOKEN}, batch: {{ max_events: 20 }} }}\n",
            recorder.address()
        );
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let inrush = Inrush::with(&config, options);
    let wanted = send_through(&inrush);
    inrush.conserved(EVENTS as u64);
    let found = eventually("all events in the collector's file", || {
        let found = understood(&inrush);
        (found.len() >= wanted.len()).then_some(found)
    });
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(found, wanted);
    }
    let connections = recorder.connections();
    let requests = connections
        .iter()
        .map(|bytes| RecordedRequest::all_of(bytes));
    let requests: Vec<_> = requests.collect();
    let objects = requests
        .iter()
        .flatten()
        .map(|request| request.objects().len());
    assert_eq!(objects.sum::<usize>(), EVENTS, "nothing was sent again");
    requests.iter().map(Vec::len).collect()
}

#[test]
#[ignore = "foreign program: make test-peers"]
fn the_receiver_of_opentelemetry_takes_every_event_once() {
    let Some(program) = peer_tool("otel/otelcol") else {
        skip!("OpenTelemetry Collector: it was not built");
    };
    let kept = requests_to_receiver(program.clone(), "keep_alives_enabled: true");
    assert!(kept.iter().any(|requests| *requests > 1), "{kept:?}");
    // The collector's default: each connection ends after one answer.
    let closed = requests_to_receiver(program, "keep_alives_enabled: false");
    assert!(closed.iter().all(|requests| *requests == 1), "{closed:?}");
}
