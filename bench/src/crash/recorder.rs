//! A Splunk HEC endpoint in this process that notes which event came in which request, and what
//! became of the request: answered, and when, or left without an answer.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use inrush_harness::child::wait;
use memchr::memmem::Finder;

use super::stage::{MARK, RunControl};

/// Digits of lane and number, and what stands between and behind them.
const MARK_BYTES: usize = 2 + 1 + 10 + 1;

/// Bytes of a body; a request of Inrush has at most 4 MiB.
const BODY_BYTES_MAX: usize = 8 << 20;

const SUCCESS: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
    Content-Length: 27\r\n\r\n{\"text\":\"Success\",\"code\":0}";

/// Outcome of a request of which the whole body came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RequestOutcome {
    /// Not answered yet.
    Open,
    /// The answer was with the kernel at this time.
    Answered(Instant),
    /// The connection was closed without an answer, on purpose.
    Broken,
}

/// A request that was taken whole.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// The life of the process that sent it.
    pub(super) life: u32,
    /// Lane and numbers of its events.
    pub(super) events: Vec<(u8, Range<u32>)>,
    pub(super) outcome: RequestOutcome,
    /// Another request came over the same connection: its worker was done with this one.
    pub(super) followed: bool,
}

/// All requests, in the order in which their last byte came.
#[derive(Default)]
pub(super) struct Recorder {
    requests: Mutex<Vec<Request>>,
    /// Events without a mark, and requests that are not HTTP.
    odd: Mutex<u64>,
}

impl Recorder {
    /// Listens, on threads that live as long as this process; gives the port.
    pub(super) fn start(seed: u64, stage: &Arc<RunControl>) -> Result<(Arc<Self>, u16)> {
        let listener = TcpListener::bind("127.0.0.1:0").context("the recorder")?;
        let port = listener.local_addr()?.port();
        let recorder = Arc::new(Self::default());
        let (ours, stage) = (Arc::clone(&recorder), Arc::clone(stage));
        thread::spawn(move || {
            for (number, stream) in (0..).zip(listener.incoming().map_while(Result::ok)) {
                let (recorder, stage) = (Arc::clone(&ours), Arc::clone(&stage));
                let chance = fastrand::Rng::with_seed(seed ^ (number << 20));
                thread::spawn(move || recorder.serve(stream, chance, &stage));
            }
        });
        Ok((recorder, port))
    }

    pub(super) fn requests(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Events without a mark.
    pub(super) fn odd(&self) -> u64 {
        *self.odd.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: TcpStream, mut chance: fastrand::Rng, stage: &RunControl) {
        let Ok(mut out) = stream.try_clone() else {
            return;
        };
        // An answer is small: without this it would wait for the next one.
        let _ = out.set_nodelay(true);
        let mut input = BufReader::with_capacity(64 << 10, stream);
        let mut before: Option<usize> = None;
        while let Some((life, body)) = read_request(&mut input) {
            if let Some(before) = before {
                self.requests()[before].followed = true;
            }
            if stage.is_dead() {
                return;
            }
            let index = self.note(life, &body);
            before = Some(index);
            let outcome = self.answer(&mut out, &mut chance);
            self.requests()[index].outcome = outcome;
            if outcome == RequestOutcome::Broken {
                return;
            }
        }
    }

    fn note(&self, life: u32, body: &[u8]) -> usize {
        let (events, odd) = marks(body);
        *self.odd.lock().unwrap_or_else(PoisonError::into_inner) += odd;
        let mut requests = self.requests();
        requests.push(Request {
            life,
            events,
            outcome: RequestOutcome::Open,
            followed: false,
        });
        requests.len() - 1
    }

    /// Answers at once, after a while, or not at all.
    fn answer(&self, out: &mut TcpStream, chance: &mut fastrand::Rng) -> RequestOutcome {
        match chance.u32(..100) {
            0..2 => return RequestOutcome::Broken,
            2..16 => wait(Duration::from_millis(chance.u64(1..80))),
            _ => {}
        }
        match out.write_all(SUCCESS.as_bytes()) {
            Ok(()) => RequestOutcome::Answered(Instant::now()),
            Err(_) => RequestOutcome::Open,
        }
    }
}

/// Reads a request; nothing if the connection ends first or it is not HTTP. The path tells the
/// life: `/life/17/…`.
fn read_request(input: &mut impl BufRead) -> Option<(u32, Vec<u8>)> {
    let (mut life, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if life.is_none() {
            life = line.split('/').nth(2)?.parse().ok();
        } else if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    if length > BODY_BYTES_MAX {
        return None;
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some((life?, body))
}

/// Lanes and numbers of the events in a body, and how many have none.
fn marks(body: &[u8]) -> (Vec<(u8, Range<u32>)>, u64) {
    let finder = Finder::new(MARK);
    let mut found: Vec<(u8, Range<u32>)> = Vec::new();
    let mut marked = 0;
    for at in finder.find_iter(body) {
        let Some((lane, number)) = mark(&body[at + MARK.len()..]) else {
            continue;
        };
        marked += 1;
        match found.last_mut() {
            Some((last, range)) if *last == lane && range.end == number => range.end += 1,
            _ => found.push((lane, number..number + 1)),
        }
    }
    let events = Finder::new("\"event\":").find_iter(body).count() as u64;
    (found, events.saturating_sub(marked))
}

/// Lane and number behind a mark.
pub(crate) fn mark(bytes: &[u8]) -> Option<(u8, u32)> {
    let text = std::str::from_utf8(bytes.get(..MARK_BYTES)?).ok()?;
    let (lane, number) = text.strip_suffix(';')?.split_once('-')?;
    Some((lane.parse().ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::crash::stage::{EventLane, LaneProtocol};

    #[test]
    fn numbers_in_a_row_are_one_range_and_what_has_none_is_counted() {
        let lane = EventLane::new(3, LaneProtocol::Tcp, 0);
        let events = [7, 8, 4].map(|n| format!(r#"{{"event":"{}"}}"#, lane.message(n)));
        let body = events.concat() + r#"{"event":"crash=03-000000"}{"event":"x"}"#;
        let (found, odd) = marks(body.as_bytes());
        assert_eq!(found, [(3, 7..9), (3, 4..5)]);
        assert_eq!(odd, 2);
    }

    #[test]
    fn the_path_tells_the_life() {
        let wire = "POST /life/17/a HTTP/1.1\r\nhost: x\r\nContent-Length: 3\r\n\r\nabc";
        let mut input = wire.as_bytes();
        assert_eq!(read_request(&mut input).unwrap(), (17, b"abc".to_vec()));
        assert!(read_request(&mut input).is_none());
        assert!(read_request(&mut &wire.as_bytes()[..wire.len() - 1]).is_none());
    }
}
