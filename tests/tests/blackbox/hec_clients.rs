//! Clients of Splunk that others wrote, against the HTTP Event Collector: every event once, with
//! its names, host and time.

use std::io::Write;
use std::process::{Command, Stdio};

use inrush_tests::*;
use serde_json::Value;

use crate::store::python_tool;

const TOKEN: &str = "11111111-2222-3333-4444-555555555555";

const CONFIG: &str = "sources:\n  hec:\n    type: splunk_hec\n    listen: 127.0.0.1:0\n    tokens: \
                      [{ token: 11111111-2222-3333-4444-555555555555, ack: received }, \
                      { token: no-acknowledgement }]\ndestinations:\n  \
                      out: { type: file, path: \"{dir}/out.jsonl\" }\n";

/// Runs a script with the Python that `make test` installs. False if it lacks the module.
fn run_python(module: &str, inrush: &Inrush, token: &str, script: &str) -> bool {
    let Some(python) = python_tool("python") else {
        return false;
    };
    let import = format!("import {module}");
    let known = Command::new(&python)
        .args(["-c", &import])
        .output()
        .unwrap();
    if !known.status.success() {
        return false;
    }
    let port = inrush.address("http").port().to_string();
    run_ok(Command::new(&python).args(["-c", script, &port, token]));
    true
}

/// The part that every event of these clients has in common.
fn assert_named(events: &[Value]) {
    for event in events {
        assert_eq!(event["index"], "main", "{event}");
        assert_eq!(event["sourcetype"], "py", "{event}");
        assert_eq!(event["host"], "h1", "{event}");
        assert_eq!(event["event_source"], "src", "{event}");
    }
}

#[test]
fn splunk_handler_of_pypi_is_served() {
    let inrush = Inrush::start(CONFIG);
    let script = "import logging, sys
from splunk_handler import SplunkHandler
handler = SplunkHandler(host='127.0.0.1', port=sys.argv[1], token=sys.argv[2], index='main',
    sourcetype='py', source='src', hostname='h1', protocol='http', verify=False)
log = logging.getLogger('x'); log.setLevel(logging.INFO); log.addHandler(handler)
log.info('one'); log.info('two'); handler.force_flush(); logging.shutdown()
";
    if !run_python("splunk_handler", &inrush, "no-acknowledgement", script) {
        skip!("no splunk-handler here: `make test` installs it from PyPI");
    }
    let events = inrush.collected(2);
    assert_eq!(field(&events, "raw"), ["one", "two"]);
    assert_named(&events);
}

#[test]
fn splunk_hec_handler_of_pypi_is_served() {
    let inrush = Inrush::start(CONFIG);
    let script = "import logging, sys
from splunk_hec_handler import SplunkHecHandler
handler = SplunkHecHandler('127.0.0.1', sys.argv[2], port=int(sys.argv[1]), proto='http',
    ssl_verify=False, source='src', sourcetype='py', index='main', hostname='h1')
log = logging.getLogger('x'); log.setLevel(logging.INFO); log.addHandler(handler)
log.info({'a': 1, 'fields': {'colour': 'blue'}}); log.info('text'); logging.shutdown()
";
    if !run_python("splunk_hec_handler", &inrush, "no-acknowledgement", script) {
        skip!("no splunk-hec-handler here: `make test` installs it from PyPI");
    }
    let events = inrush.collected(2);
    assert_named(&events);
    assert_eq!(events[0]["fields"]["colour"], "blue", "{}", events[0]);
    let text: Value = serde_json::from_str(events[1]["raw"].as_str().unwrap()).unwrap();
    assert_eq!(text["message"], "text");
}

#[test]
fn splunk_data_sender_of_pypi_is_served() {
    let inrush = Inrush::start(CONFIG);
    let script = "import sys
from splunk_data_sender import SplunkSender
sender = SplunkSender(endpoint='127.0.0.1', port=sys.argv[1], token=sys.argv[2], protocol='http',
    verify=False, index='main', source='src', source_type='py', hostname='h1',
    channel='11111111-2222-3333-4444-555555555555', channel_in='header', compress=True)
assert sender.get_health()
assert 'ackId' in sender.send_data({'a': 1})
";
    if !run_python("splunk_data_sender", &inrush, TOKEN, script) {
        skip!("no splunk-data-sender here: `make test` installs it from PyPI");
    }
    let events = inrush.collected(1);
    assert_named(&events);
    assert_eq!(events[0]["raw"], r#"{"a": 1}"#);
}

#[test]
fn curl_is_served_in_every_way_that_it_sends() {
    let inrush = Inrush::start(CONFIG);
    let Some(curl) = tool("curl") else {
        skip!("no curl here");
    };
    let url = format!("http://{}/services/collector/event", inrush.address("http"));
    let curl = |options: &[&str], body: &str| {
        let mut child = Command::new(&curl)
            .args(["--silent", "--show-error", "--data-binary", "@-", &url])
            .args(["--header", "Authorization: Splunk no-acknowledgement"])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(body.as_bytes()).unwrap();
        drop(input);
        let said = child.wait_with_output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&said.stdout),
            r#"{"text":"Success","code":0}"#
        );
    };
    curl(&[], r#"{"event":"plain"}"#);
    curl(
        &["--header", "Transfer-Encoding: chunked"],
        r#"{"event":"chunked"}"#,
    );
    curl(&["--http1.0"], r#"{"event":"old"}"#);
    curl(&["--http2"], r#"{"event":"asks for h2"}"#);
    let long = format!(r#"{{"event":"{}"}}"#, "x".repeat(2_000_000));
    curl(&["--header", "Expect: 100-continue"], &long);
    let texts = field(&inrush.collected(5), "raw");
    assert_eq!(texts[..4], ["plain", "chunked", "old", "asks for h2"]);
    assert_eq!(texts[4].len(), 2_000_000);
}
