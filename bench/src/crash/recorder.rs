//! A Splunk HEC endpoint in this process that notes which event came in which request, and what
//! became of the request: answered, and when, or left without an answer.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use inrush_harness::child::wait;
use inrush_harness::sink::{HecHandler, RequestHead, SUCCESS, serve_on_threads};
use memchr::memmem::Finder;

use super::stage::{MARK, RunControl};

/// Digits of lane and number, and what stands between and behind them.
const MARK_BYTES: usize = 2 + 1 + 10 + 1;

/// Bytes of a body; a request of Inrush has at most 4 MiB.
const BODY_BYTES_MAX: usize = 8 << 20;

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
        let recorder = Arc::new(Self::default());
        let (ours, stage) = (Arc::clone(&recorder), Arc::clone(stage));
        let mut numbers = 0..;
        let address = serve_on_threads(thread::Builder::new, move |stream| {
            let number: u64 = numbers.next().unwrap_or_default();
            let connection = RecordedConnection {
                recorder: Arc::clone(&ours),
                stage: Arc::clone(&stage),
                chance: fastrand::Rng::with_seed(seed ^ (number << 20)),
                last: None,
                unsent: Vec::new(),
            };
            Ok((stream, connection))
        });
        let port = address.context("the recorder")?.port();
        Ok((recorder, port))
    }

    pub(super) fn requests(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Events without a mark.
    pub(super) fn odd(&self) -> u64 {
        *self.odd.lock().unwrap_or_else(PoisonError::into_inner)
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
}

/// A connection to the recorder.
struct RecordedConnection {
    recorder: Arc<Recorder>,
    stage: Arc<RunControl>,
    chance: fastrand::Rng,
    /// The place of its last request among all.
    last: Option<usize>,
    /// Places of the requests whose answers are still to be sent.
    unsent: Vec<usize>,
}

impl HecHandler for RecordedConnection {
    /// Life and bytes.
    type Body = (u32, Vec<u8>);

    /// The path tells the life: `/life/17/…`.
    fn begin(&mut self, head: &RequestHead<'_>) -> Option<Self::Body> {
        let life = head.line.split('/').nth(2)?.parse().ok()?;
        Some((life, Vec::new()))
    }

    fn take(&mut self, (_, body): &mut Self::Body, bytes: &[u8]) -> Option<()> {
        body.extend_from_slice(bytes);
        (body.len() <= BODY_BYTES_MAX).then_some(())
    }

    /// Notes it, and answers at once, after a while, or not at all.
    fn finish(&mut self, (life, body): Self::Body) -> Option<Cow<'static, str>> {
        if let Some(last) = self.last {
            self.recorder.requests()[last].followed = true;
        }
        if self.stage.is_dead() {
            return None;
        }
        let index = self.recorder.note(life, &body);
        self.last = Some(index);
        match self.chance.u32(..100) {
            0..2 => {
                self.recorder.requests()[index].outcome = RequestOutcome::Broken;
                return None;
            }
            2..16 => wait(Duration::from_millis(self.chance.u64(1..80))),
            _ => {}
        }
        self.unsent.push(index);
        Some(SUCCESS.into())
    }

    fn sent(&mut self) {
        let now = Instant::now();
        for index in self.unsent.drain(..) {
            self.recorder.requests()[index].outcome = RequestOutcome::Answered(now);
        }
    }
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

    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};

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
    fn the_path_tells_the_life_and_only_a_whole_request_is_noted() {
        let (recorder, port) = Recorder::start(1, &Arc::default()).unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let wire = "POST /life/17/a HTTP/1.1\r\nhost: x\r\nContent-Length: 3\r\n\r\nabc";
        let wire = wire.repeat(3);
        stream
            .write_all(&wire.as_bytes()[..wire.len() - 1])
            .unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
        let requests = recorder.requests();
        let noted: Vec<_> = requests.iter().map(|r| (r.life, r.followed)).collect();
        assert_eq!(noted, [(17, true), (17, false)]);
        let answered = |r: &Request| matches!(r.outcome, RequestOutcome::Answered(_));
        assert!(requests.iter().all(answered), "{requests:?}");
    }
}
