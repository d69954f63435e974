//! JSON lines on standard output, a whole batch at a time.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_codec::encode::JsonLines;
use inrush_event::{Delivery, Fate, Feed, FeedNext};

use crate::{ErrorReason, IDLE_WAIT, Sink, SinkError, SinkStatus, backoff, file};

/// First and longest pause after a failed write.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Bytes encoded before they are written: bounds what a batch of hostile bytes can grow to.
const FLUSH_BYTES: usize = 1024 * 1024;

/// The sink that writes JSON lines to a stream, which must not buffer: what it takes counts as
/// written.
pub struct StdoutSink<W> {
    writer: W,
    encoder: JsonLines,
    lines: Vec<u8>,
    /// End offset of each line of `lines`.
    ends: Vec<usize>,
    /// True if the last write ended inside a line, which the next one ends first.
    torn: bool,
    failures: u32,
    status: Arc<SinkStatus>,
}

impl<W: Write + Send> StdoutSink<W> {
    pub(crate) fn new(writer: W, status: Arc<SinkStatus>) -> Self {
        let (encoder, lines, ends) = (JsonLines::new(), Vec::new(), Vec::new());
        Self {
            writer,
            encoder,
            lines,
            ends,
            torn: false,
            failures: 0,
            status,
        }
    }

    fn deliver(&mut self, feed: &dyn Feed, delivery: &Delivery) {
        let mut left = delivery.events.clone();
        while !left.is_empty() {
            let encoded = self.encode(delivery, left.clone());
            left.start = encoded.end;
            if self.write(feed, delivery.position, encoded).is_err() {
                let pause = backoff::pause(self.failures, PAUSES.0, PAUSES.1);
                settle_some(feed, delivery.position, left, Fate::RetryAfter(pause));
                return backoff::wait(feed, pause);
            }
        }
    }

    /// Encodes as many of the events as fit, at least one; says which.
    fn encode(&mut self, delivery: &Delivery, events: Range<u32>) -> Range<u32> {
        self.lines.clear();
        self.ends.clear();
        if self.torn {
            self.lines.push(b'\n');
        }
        for record in file::records(&delivery.batch, &events) {
            self.encoder
                .encode(&delivery.batch, record, &mut self.lines);
            self.ends.push(self.lines.len());
            if self.lines.len() >= FLUSH_BYTES {
                break;
            }
        }
        events.start..events.start + self.ends.len() as u32
    }

    /// Writes the encoded lines. After an error, the lines that went out whole are settled as
    /// delivered and the others put back.
    fn write(&mut self, feed: &dyn Feed, position: u64, events: Range<u32>) -> io::Result<()> {
        self.status.attempted();
        let begun = Instant::now();
        let (written, result) = write_counted(&mut self.writer, &self.lines);
        if written > 0 {
            self.torn = self.lines[written - 1] != b'\n';
        }
        match &result {
            Ok(()) => {
                feed.settle(position, events, Fate::Delivered);
                self.failures = 0;
                self.status.timed(begun.elapsed());
                self.status.succeeded(written);
            }
            Err(error) => {
                self.failures += 1;
                self.status
                    .failed(ErrorReason::of_file(error), &error.to_string());
                let whole = self.ends.partition_point(|end| *end <= written) as u32;
                let split = events.start + whole;
                let pause = backoff::pause(self.failures, PAUSES.0, PAUSES.1);
                settle_some(feed, position, events.start..split, Fate::Delivered);
                settle_some(feed, position, split..events.end, Fate::RetryAfter(pause));
            }
        }
        result
    }
}

fn settle_some(feed: &dyn Feed, position: u64, events: Range<u32>, fate: Fate) {
    if !events.is_empty() {
        feed.settle(position, events, fate);
    }
}

/// Writes everything; says how many bytes went out.
fn write_counted(writer: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match writer.write(&bytes[written..]) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(n) => written += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

impl StdoutSink<File> {
    /// Standard output itself, past the standard library's buffer, so that what a broken pipe
    /// has not taken is known to the byte.
    pub(crate) fn open(status: Arc<SinkStatus>) -> Result<Self, SinkError> {
        let unbuffered = io::stdout().as_fd().try_clone_to_owned();
        let unreadable = |cause| SinkError::Unreadable {
            path: "/dev/stdout".into(),
            cause,
        };
        Ok(Self::new(
            File::from(unbuffered.map_err(unreadable)?),
            status,
        ))
    }
}

impl<W: Write + Send> Sink for StdoutSink<W> {
    fn run(mut self: Box<Self>, feed: Arc<dyn Feed>) {
        loop {
            match feed.next(IDLE_WAIT) {
                FeedNext::Batch(delivery) => self.deliver(&*feed, &delivery),
                FeedNext::Idle if feed.stopping() => return,
                FeedNext::Idle => {}
                FeedNext::Closed => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Mutex;

    use inrush_event::{Anomalies, BatchPool, Record, SourceInfo, Span, Timestamp, limits};

    use super::*;

    /// Takes so many bytes, then fails once, then takes everything.
    struct Breaking {
        left: Option<usize>,
        taken: Vec<u8>,
    }

    impl Write for Breaking {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = match &mut self.left {
                Some(0) => {
                    self.left = None;
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                Some(left) => {
                    let n = bytes.len().min(*left);
                    *left -= n;
                    n
                }
                None => bytes.len(),
            };
            self.taken.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[derive(Default)]
    struct Settled(Mutex<Vec<(Range<u32>, bool)>>);

    impl Feed for Settled {
        fn next(&self, _: Duration) -> FeedNext {
            FeedNext::Closed
        }

        fn settle(&self, _: u64, events: Range<u32>, fate: Fate) {
            self.0
                .lock()
                .unwrap()
                .push((events, fate == Fate::Delivered));
        }

        fn stopping(&self) -> bool {
            true
        }
    }

    fn delivery(count: u32) -> Delivery {
        let source = SourceInfo {
            name: "s".into(),
            index: "i".into(),
            sourcetype: "t".into(),
        };
        let mut builder = BatchPool::new().lend(&Arc::new(source), limits::MESSAGE_BYTES_DEFAULT);
        builder.extend(b"text");
        let record = Record::unparsed(Span::new(0, 4), Timestamp(0), 0, Anomalies::NONE);
        builder.parts().1.extend((0..count).map(|_| record));
        Delivery {
            position: 0,
            batch: Arc::new(builder.freeze(0)),
            events: 0..count,
            origin: inrush_event::BatchOrigin::default(),
        }
    }

    #[test]
    fn after_a_broken_pipe_whole_lines_count_and_torn_ones_are_written_again() {
        let line_bytes = {
            let (delivery, mut line) = (delivery(1), Vec::new());
            JsonLines::new().encode(&delivery.batch, &delivery.batch.records()[0], &mut line);
            line.len()
        };
        let writer = Breaking {
            left: Some(2 * line_bytes + 5),
            taken: Vec::new(),
        };
        let status = Arc::new(SinkStatus::new("out", "stdout"));
        let mut sink = StdoutSink::new(writer, Arc::clone(&status));
        let feed = Settled::default();
        sink.deliver(&feed, &delivery(4));
        assert_eq!(*feed.0.lock().unwrap(), [(0..2, true), (2..4, false)]);
        assert!(!status.healthy());
        sink.deliver(
            &feed,
            &Delivery {
                events: 2..4,
                ..delivery(4)
            },
        );
        assert_eq!(feed.0.lock().unwrap()[2], (2..4, true));
        assert!(status.healthy());
        let text = String::from_utf8(sink.writer.taken).unwrap();
        let whole = text
            .lines()
            .filter(|l| serde_json::from_str::<serde_json::Value>(l).is_ok());
        assert_eq!(whole.count(), 4, "{text}");
        assert_eq!(text.lines().count(), 5, "and the torn one: {text}");
    }
}
