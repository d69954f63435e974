//! Laws of lines of container logs, held against `serde_json`, jiff and a plain split at spaces.

use std::collections::HashMap;

use inrush_codec::container::{
    ContainerFormat, CriFault, DockerFault, DockerLine, LogStream, detect, parse_cri, parse_docker,
};
use inrush_event::Timestamp;
use serde::de::IgnoredAny;
use serde_json::Value;

/// An object of any JSON: its numbers may be larger than a float.
type AnyObject = HashMap<String, IgnoredAny>;

/// Takes any bytes for a line of a CRI log.
pub(crate) fn check_cri(line: &[u8]) {
    let words: Vec<_> = line.splitn(4, |byte| *byte == b' ').collect();
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    let stream = LogStream::of_name(word(1)).filter(|_| words.len() > 2);
    let tag = word(2).split(|byte| *byte == b':').next();
    match parse_cri(line) {
        Ok(found) => {
            assert_eq!(Some(found.stream), stream);
            assert_eq!(tag, Some(if found.partial { &b"P"[..] } else { b"F" }));
            assert_eq!(found.text(line).written(), word(3));
            assert_eq!(found.text.end(), line.len());
            check_time(found.time, word(0));
        }
        Err(CriFault::Time) => {}
        Err(CriFault::Stream) => assert_eq!(stream, None),
        Err(CriFault::Tag) => assert!(!matches!(tag, Some(b"P" | b"F"))),
    }
    if line.starts_with(b"2") {
        let is_cri = detect(line) == Some(ContainerFormat::Cri);
        assert_eq!(is_cri, parse_cri(line).is_ok());
    }
}

/// Takes any bytes for a line of Docker's.
pub(crate) fn check_docker(line: &[u8]) {
    // Halves of surrogate pairs are no fault here, and one there.
    let is_plain = !line.windows(2).any(|two| two == b"\\u");
    let Some(text) = str::from_utf8(line).ok() else {
        let _ = parse_docker(line);
        return;
    };
    let is_json = serde_json::from_str::<AnyObject>(text).is_ok();
    let value = serde_json::from_str::<Value>(text).ok();
    let found = parse_docker(line);
    if let Err(DockerFault::Cut | DockerFault::Format) = found {
        assert!(!is_json, "{text}");
        return;
    }
    assert!(is_json || !is_plain, "{text}");
    let Some(value) = value else { return };
    match found {
        Ok(found) => check_found(line, found, &value),
        Err(DockerFault::Log) => assert!(!value["log"].is_string()),
        Err(DockerFault::Stream) => {
            assert!(!matches!(
                value["stream"].as_str(),
                Some("stdout" | "stderr")
            ));
        }
        Err(DockerFault::Attrs) => {
            assert!(!value["attrs"].is_object() && !value["attrs"].is_null());
        }
        Err(_) => {}
    }
}

fn check_found(line: &[u8], found: DockerLine, value: &Value) {
    let mut log = Vec::new();
    found.text(line).push(&mut log);
    assert!(log.len() <= found.log.len());
    if !found.escaped {
        assert_eq!(log, found.log.of(line));
    }
    let written = value["log"].as_str().map(str::as_bytes);
    assert_eq!(
        found.complete,
        written.is_some_and(|log| log.ends_with(b"\n"))
    );
    if found.complete {
        log.push(b'\n');
    }
    assert_eq!(Some(&log[..]), written);
    assert_eq!(value["stream"], found.stream.name());
    let attrs = match found.attrs.of(line) {
        [] => Value::Null,
        attrs => serde_json::from_slice(attrs).unwrap_or(Value::Bool(false)),
    };
    assert_eq!(value["attrs"], attrs);
    check_time(
        found.time,
        value["time"].as_str().unwrap_or_default().as_bytes(),
    );
}

/// A time that jiff reads as well is the same there. Of second 60 it makes another one.
fn check_time(time: Timestamp, text: &[u8]) {
    let text = str::from_utf8(text).unwrap_or_default();
    if text.get(17..19) == Some("60") {
        return;
    }
    let read = text.parse::<jiff::Timestamp>().ok();
    if let Some(nanos) = read.and_then(|read| i64::try_from(read.as_nanosecond()).ok()) {
        assert_eq!(time, Timestamp(nanos), "{text}");
    }
}
