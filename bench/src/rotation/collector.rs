//! HEC endpoint in this process that reads every event as a numbered line.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flate2::read::MultiGzDecoder;
use inrush_harness::child::{wait, wait_until};
use inrush_harness::sink::{HecHandler, RequestHead, SUCCESS, serve_on_threads};
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

use super::account::ArrivalAccount;
use super::line::{ArrivedLine, read_line};

/// Bytes of a body at most, compressed or not.
const BODY_BYTES_MAX: u64 = 64 << 20;

/// Interval between two looks at what has arrived.
const LOOK: Duration = Duration::from_millis(20);

/// Lines taken a second, and the time until which the endpoint is busy with what came.
struct SinkPace {
    rate: u64,
    busy_until: Instant,
}

/// The endpoint.
pub(crate) struct LineCollector {
    account: Mutex<ArrivalAccount>,
    pace: Mutex<SinkPace>,
}

impl LineCollector {
    /// Listens, on threads that live as long as this process; gives the port. It takes so many
    /// lines a second, any number if 0.
    pub(crate) fn start(account: ArrivalAccount, rate: u64) -> Result<(Arc<Self>, u16)> {
        let collector = Arc::new(Self {
            account: Mutex::new(account),
            pace: Mutex::new(SinkPace {
                rate,
                busy_until: Instant::now(),
            }),
        });
        let ours = Arc::clone(&collector);
        let address = serve_on_threads(thread::Builder::new, move |stream| {
            Ok((stream, LineConnection(Arc::clone(&ours))))
        });
        let port = address.context("the collector")?.port();
        Ok((collector, port))
    }

    /// Account of the lines that arrived, locked.
    pub(crate) fn account(&self) -> MutexGuard<'_, ArrivalAccount> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until so many different lines have arrived, or nothing has for `still_max`; how many
    /// have.
    pub(crate) fn settle(&self, lines: u64, still_max: Duration) -> u64 {
        let (mut arrived, mut moved) = (0, Instant::now());
        loop {
            let now = self.account().counts().distinct;
            if now != arrived {
                (arrived, moved) = (now, Instant::now());
            }
            if arrived >= lines || moved.elapsed() > still_max {
                return arrived;
            }
            wait(LOOK);
        }
    }

    fn take(&self, body: &[u8]) {
        let events = lines_of(body);
        let ns = std::time::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_nanos());
        self.account().take(&events, Instant::now(), ns as u64);
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        if pace.rate > 0 {
            let takes = Duration::from_secs_f64(events.len() as f64 / pace.rate as f64);
            pace.busy_until = pace.busy_until.max(Instant::now()) + takes;
            let until = pace.busy_until;
            drop(pace);
            wait_until(until);
        }
    }
}

/// A connection to it.
struct LineConnection(Arc<LineCollector>);

impl HecHandler for LineConnection {
    /// Bytes, and whether they are compressed.
    type Body = (Vec<u8>, bool);

    fn begin(&mut self, head: &RequestHead<'_>) -> Option<Self::Body> {
        Some((Vec::new(), head.gzip))
    }

    fn take(&mut self, (body, _): &mut Self::Body, bytes: &[u8]) -> Option<()> {
        body.extend_from_slice(bytes);
        (body.len() as u64 <= BODY_BYTES_MAX).then_some(())
    }

    fn finish(&mut self, (body, gzip): Self::Body) -> Option<Cow<'static, str>> {
        let body = match gzip {
            false => body,
            true => {
                let mut plain = Vec::new();
                let gzip = MultiGzDecoder::new(&body[..]);
                gzip.take(BODY_BYTES_MAX).read_to_end(&mut plain).ok()?;
                plain
            }
        };
        self.0.take(&body);
        Some(SUCCESS.into())
    }
}

/// The lines of the events in a body; `None` for one that is none of ours. What is not JSON is one.
pub(crate) fn lines_of(body: &[u8]) -> Vec<Option<ArrivedLine>> {
    let events = serde_json::Deserializer::from_slice(body).into_iter::<HecEvent>();
    events
        .map(|event| event.ok().and_then(|event| event.event.0))
        .collect()
}

/// An event of HEC.
#[derive(Deserialize)]
struct HecEvent {
    event: EventLine,
}

/// The line in an event: the event itself, or the first of its members that is one, as Fluent Bit
/// sends it.
struct EventLine(Option<ArrivedLine>);

impl<'de> Deserialize<'de> for EventLine {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(LineVisitor)
    }
}

struct LineVisitor;

impl<'de> Visitor<'de> for LineVisitor {
    type Value = EventLine;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a line")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<EventLine, E> {
        // A line feed that a collector left at its end is no part of it.
        let text = text.strip_suffix('\n').unwrap_or(text);
        Ok(EventLine(read_line(text.as_bytes())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EventLine, A::Error> {
        let mut found = EventLine(None);
        while let Some(_key) = map.next_key::<IgnoredAny>()? {
            let member: EventLine = map.next_value()?;
            found.0 = found.0.or(member.0);
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<EventLine, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(EventLine(None))
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<EventLine, E> {
        Ok(EventLine(None))
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<EventLine, E> {
        Ok(EventLine(None))
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<EventLine, E> {
        Ok(EventLine(None))
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<EventLine, E> {
        Ok(EventLine(None))
    }

    fn visit_unit<E: de::Error>(self) -> Result<EventLine, E> {
        Ok(EventLine(None))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;
    use std::net::{Shutdown, TcpStream};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::super::line::{LineNumber, push_line};
    use super::*;

    fn text(number: u32) -> String {
        let mut bytes = Vec::new();
        let line = LineNumber { writer: 1, number };
        push_line(line, 900, 5, &mut bytes);
        serde_json::to_string(&String::from_utf8(bytes).unwrap()).unwrap()
    }

    fn body() -> String {
        let (a, b, c) = (text(1), text(2), text(3));
        let first = format!("{{\"time\":1.5,\"event\":{a},\"fields\":{{\"x\":[1]}}}}");
        let second = format!("{{\"event\":{{\"stream\":\"stdout\",\"n\":1,\"log\":{b}}}}}");
        format!("{first}\n{second}{{\"event\":\"other\"}}{{\"event\":{c}}}")
    }

    #[test]
    fn lines_are_found_in_events_of_all_kinds() {
        let found = lines_of(body().as_bytes());
        let numbers: Vec<_> = found
            .iter()
            .map(|line| line.map(|line| (line.line.number, line.whole)))
            .collect();
        let whole = |number| Some((number, true));
        assert_eq!(numbers, [whole(1), whole(2), None, whole(3)]);
        assert_eq!(lines_of(b"{\"event\":\"x\"}{\"ev"), [None, None]);
    }

    #[test]
    fn a_request_is_taken_plain_and_compressed() {
        let (collector, port) = LineCollector::start(ArrivalAccount::new(2, 0), 0).unwrap();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(body().as_bytes()).unwrap();
        let bodies = [
            (body().into_bytes(), ""),
            (gzip.finish().unwrap(), "Content-Encoding: gzip\r\n"),
        ];
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        for (body, extra) in bodies {
            let length = body.len();
            let head = format!("POST /x HTTP/1.1\r\n{extra}Content-Length: {length}\r\n\r\n");
            stream
                .write_all(&[head.as_bytes(), &body].concat())
                .unwrap();
        }
        stream.shutdown(Shutdown::Write).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
        let counts = collector.account().counts();
        assert_eq!((counts.distinct, counts.doubled, counts.foreign), (3, 3, 2));
    }
}
