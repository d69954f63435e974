//! Numbered events in requests to an HTTP Event Collector: one request at a time, which is sent
//! again until it is answered.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use inrush_harness::child::wait;

use super::stage::{EventLane, RunControl, TokenBucket};

/// The token of the collector.
pub(super) const TOKEN: &str = "crash-bench-token";

/// Events of a request at most, as collectors send them.
const REQUEST_EVENTS: usize = 50;

/// Time for which the process may owe an answer.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Pause before a request is sent again that there was no room for.
const BUSY: Duration = Duration::from_millis(20);

/// Pause while nothing is due.
const IDLE: Duration = Duration::from_millis(2);

/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: usize = 4096;

/// Sends until the last call, and until everything is answered.
pub(super) fn run(lane: &EventLane, stage: &RunControl) {
    let mut request = Vec::new();
    while !is_done(stage, &request) {
        let Some((stream, _)) = lane.dial(stage) else {
            return;
        };
        if let Err(error) = session(lane, stage, stream, &mut request) {
            // A kill breaks it anywhere; what the peer says must still be HTTP.
            if error.downcast_ref::<std::io::Error>().is_none() {
                lane.account().faults.push(format!("{error:#}"));
            }
        }
    }
}

/// True if there is nothing more to send and nothing more to wait for.
fn is_done(stage: &RunControl, request: &[u32]) -> bool {
    stage.is_over() || (stage.is_last_call() && request.is_empty())
}

/// Sends over one connection, first the request that has no answer yet.
fn session(
    lane: &EventLane,
    stage: &RunControl,
    mut stream: TcpStream,
    request: &mut Vec<u32>,
) -> Result<()> {
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    let mut pace = TokenBucket::new();
    for number in &*request {
        let sends = &mut lane.account().sends[*number as usize];
        *sends = sends.saturating_add(1);
    }
    while !is_done(stage, request) {
        if request.is_empty() {
            let due = pace.due().min(REQUEST_EVENTS);
            let mut account = lane.account();
            request.extend((0..due).map(|_| account.begin()));
        }
        if request.is_empty() {
            wait(IDLE);
            continue;
        }
        stream.write_all(&bytes_of(lane, request))?;
        match answer(&mut stream)? {
            (200, _) => {
                let mut account = lane.account();
                for number in request.drain(..) {
                    account.acked[number as usize] = true;
                }
            }
            (429 | 503, _) => wait(BUSY),
            (status, body) => {
                lane.account().refused += request.len() as u64;
                ensure!(false, "answered {status}: {body}");
            }
        }
    }
    Ok(())
}

fn bytes_of(lane: &EventLane, request: &[u32]) -> Vec<u8> {
    let object = |number: &u32| format!(r#"{{"event":"{}"}}"#, lane.message(*number));
    let body: String = request.iter().map(object).collect();
    let length = body.len();
    format!(
        "POST /services/collector/event HTTP/1.1\r\nHost: crash\r\n\
         Authorization: Splunk {TOKEN}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Status and body of the next answer.
fn answer(stream: &mut TcpStream) -> Result<(u16, String)> {
    let asked = Instant::now();
    let mut bytes = Vec::new();
    loop {
        if let Some(answer) = parse(&bytes)? {
            return Ok(answer);
        }
        ensure!(bytes.len() < ANSWER_BYTES_MAX, "an endless answer");
        ensure!(asked.elapsed() < SILENCE_MAX, "no answer to a request");
        let mut buffer = [0; 1024];
        match stream.read(&mut buffer)? {
            0 => return Err(std::io::Error::from(ErrorKind::BrokenPipe).into()),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Status and body, once all of it is there.
fn parse(bytes: &[u8]) -> Result<Option<(u16, String)>> {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return Ok(None);
    };
    let status = head
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3));
    let status = status.context("no status")?.parse()?;
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "));
    let length: usize = length.context("no length")?.parse()?;
    Ok((body.len() >= length).then(|| (status, body.to_owned())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn answers_are_read_however_they_are_cut() {
        let wire = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        for cut in 0..wire.len() {
            assert_eq!(parse(&wire[..cut]).unwrap(), None, "cut at {cut}");
        }
        assert_eq!(parse(wire).unwrap(), Some((200, "{}".to_owned())));
        assert!(parse(b"no HTTP\r\n\r\n").is_err());
    }
}
