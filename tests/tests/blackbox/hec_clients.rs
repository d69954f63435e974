//! Clients of Splunk that others wrote, against the HTTP Event Collector: every event once, with
//! its names, host and time.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use inrush_tests::*;

use crate::store::python_tool;

/// Runs a script with the Python that `make test` installs. False if it lacks the module.
fn run_python(module: &str, peer: &HecPeer, token: &str, script: &str) -> bool {
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
    run_ok(Command::new(&python).args(["-c", script, &peer.port(), token]));
    true
}

#[test]
fn splunk_handler_of_pypi_is_served() {
    let peer = HecPeer::start();
    let script = "import logging, sys
from splunk_handler import SplunkHandler
handler = SplunkHandler(host='127.0.0.1', port=sys.argv[1], token=sys.argv[2], index='netops',
    sourcetype='peer:test', source='src', hostname='h1', protocol='http', verify=False)
log = logging.getLogger('x'); log.setLevel(logging.INFO); log.addHandler(handler)
log.info('one'); log.info('two'); handler.force_flush(); logging.shutdown()
";
    if !run_python("splunk_handler", &peer, HEC_TOKEN, script) {
        skip!("no splunk-handler here: `make test` installs it from PyPI");
    }
    peer.assert_served("splunk-handler");
}

#[test]
fn splunk_hec_handler_of_pypi_is_served() {
    let peer = HecPeer::start();
    let script = "import logging, sys
from splunk_hec_handler import SplunkHecHandler
handler = SplunkHecHandler('127.0.0.1', sys.argv[2], port=int(sys.argv[1]), proto='http',
    ssl_verify=False, source='src', sourcetype='peer:test', index='netops', hostname='h1')
log = logging.getLogger('x'); log.setLevel(logging.INFO); log.addHandler(handler)
log.info({'a': 1, 'fields': {'colour': 'blue'}}); log.info('text'); logging.shutdown()
";
    if !run_python("splunk_hec_handler", &peer, HEC_TOKEN, script) {
        skip!("no splunk-hec-handler here: `make test` installs it from PyPI");
    }
    peer.assert_served("splunk-hec-handler");
}

#[test]
fn splunk_data_sender_of_pypi_is_served() {
    let peer = HecPeer::start();
    let script = "import sys
from splunk_data_sender import SplunkSender
sender = SplunkSender(endpoint='127.0.0.1', port=sys.argv[1], token=sys.argv[2], protocol='http',
    verify=False, index='netops', source='src', source_type='peer:test', hostname='h1',
    channel='11111111-2222-3333-4444-555555555555', channel_in='header', compress=True)
assert sender.get_health()
assert 'ackId' in sender.send_data({'a': 1})
";
    if !run_python("splunk_data_sender", &peer, HEC_ACK_TOKEN, script) {
        skip!("no splunk-data-sender here: `make test` installs it from PyPI");
    }
    peer.assert_served("splunk-data-sender");
}

/// A POST of what its standard input has.
fn curl(program: &Path, url: &str, options: &[&str], body: impl AsRef<[u8]>) {
    let mut child = Command::new(program)
        .args(["--silent", "--show-error", "--data-binary", "@-", url])
        .args(["--header", &format!("Authorization: Splunk {HEC_TOKEN}")])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(body.as_ref()).unwrap();
    drop(input);
    let said = child.wait_with_output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&said.stdout),
        r#"{"text":"Success","code":0}"#
    );
}

/// Names in the query, as all clients are told.
const NAMES: &str = "host=h1&index=netops&source=src&sourcetype=peer:test";

#[test]
fn curl_is_served_in_every_way_that_it_sends() {
    let Some(program) = tool("curl") else {
        skip!("no curl here");
    };
    let peer = HecPeer::start();
    let url = format!("http://{}/services/collector/event?{NAMES}", peer.address());
    let curl = |options: &[&str], body: &[u8]| curl(&program, &url, options, body);
    curl(&[], br#"{"event":"plain","time":1700000000.123456}"#);
    curl(
        &["--header", "Transfer-Encoding: chunked"],
        br#"{"event":"chunked"}"#,
    );
    curl(
        &["--header", "Content-Encoding: gzip"],
        &gzip(r#"{"event":"compressed"}"#),
    );
    curl(
        &["--header", "Expect: 100-continue"],
        br#"{"event":"expects"}"#,
    );
    curl(&["--http1.0"], br#"{"event":"old"}"#);
    curl(&["--http2"], br#"{"event":"asks for h2"}"#);
    peer.assert_served("curl");
}

#[test]
fn curl_waits_for_continue_before_a_long_body() {
    let Some(program) = tool("curl") else {
        skip!("no curl here");
    };
    let peer = HecPeer::start();
    let url = format!("http://{}/services/collector/event", peer.address());
    let long = format!(r#"{{"event":"{}"}}"#, "x".repeat(2_000_000));
    curl(&program, &url, &["--header", "Expect: 100-continue"], &long);
    let texts = field(&peer.inrush().collected(1), "raw");
    assert_eq!(texts[0].len(), 2_000_000);
}
