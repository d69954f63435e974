//! Laws of events that are put together from the lines of a file: they do not depend on how it is
//! read, no character is lost, and what is kept is bounded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_codec::container::{
    ContainerFormat, JoinBounds, LinePiece, LogStream, PieceJoiner, parse_cri, parse_docker,
};
use inrush_codec::lines::{LineEncoding, LineSplitter};
use inrush_codec::multiline::{LineFacts, MultilineJoiner, MultilineOptions, MultilineRule};
use inrush_event::{Anomalies, ByteSize, Timestamp};

/// Bytes of an event, at most.
const EVENT_BYTES_MAX: usize = 60;

/// Bytes of a line, at most.
const LINE_BYTES_MAX: usize = 200;

/// A reader of one file, up to its events.
struct FileReader {
    splitter: LineSplitter,
    format: Option<ContainerFormat>,
    pieces: [PieceJoiner; 2],
    lines: [MultilineJoiner; 2],
    now: Instant,
    /// Stream, text and origin of each event.
    events: Vec<(usize, Vec<u8>, u64)>,
    /// Bytes of text that were given to the joiners, without LF.
    given: u64,
}

fn rule(number: u8) -> Arc<MultilineRule> {
    let given = |wanted: u8, text: &str| (number % 3 == wanted).then(|| text.to_owned());
    let options = MultilineOptions {
        start: given(0, "^[E{]"),
        continuation: given(1, "^[ \\t]"),
        end: given(2, ";$"),
        max: ByteSize(EVENT_BYTES_MAX as u64),
        ..MultilineOptions::default()
    };
    Arc::new(options.rule().unwrap())
}

fn text_bytes(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte != b'\n').count() as u64
}

impl FileReader {
    fn new(options: u8) -> Self {
        let bounds = JoinBounds {
            bytes_max: EVENT_BYTES_MAX,
            age_max: Duration::from_secs(30),
        };
        let encoding = match options / 12 % 3 {
            0 => LineEncoding::Bytes,
            1 => LineEncoding::Utf16Le,
            _ => LineEncoding::Utf16Be,
        };
        let rule = rule(options);
        let joiner = || MultilineJoiner::new(Arc::clone(&rule), EVENT_BYTES_MAX);
        Self {
            splitter: LineSplitter::new(encoding, LINE_BYTES_MAX),
            format: match options / 3 % 4 {
                0 => Some(ContainerFormat::Cri),
                1 => Some(ContainerFormat::Docker),
                _ => None,
            },
            pieces: [PieceJoiner::new(bounds), PieceJoiner::new(bounds)],
            lines: [joiner(), joiner()],
            now: Instant::now(),
            events: Vec::new(),
            given: 0,
        }
    }

    fn whole(&mut self, stream: usize, text: &[u8], origin: u64) {
        let facts = LineFacts {
            time: Timestamp(origin as i64),
            zone_minutes: 0,
            origin,
            anomalies: Anomalies::NONE,
        };
        self.given += text_bytes(text);
        let events = &mut self.events;
        self.lines[stream].push(text, facts, self.now, |event| {
            assert_eq!(event.facts.time.0, event.facts.origin as i64);
            assert!(!event.text.is_empty());
            let lines = event.text.split(|byte| *byte == b'\n').count();
            assert!(event.text.len() <= EVENT_BYTES_MAX || event.lines == 1);
            assert!(lines >= event.lines as usize);
            events.push((stream, event.text.to_vec(), event.facts.origin));
        });
    }

    fn line(&mut self, line: &[u8], origin: u64) {
        let encoding = self.splitter.encoding();
        let line = encoding.text(line);
        let found = match self.format {
            None => None,
            Some(ContainerFormat::Cri) => parse_cri(&line)
                .ok()
                .map(|found| (found.stream, found.partial, found.time, found.text(&line))),
            Some(ContainerFormat::Docker) => parse_docker(&line)
                .ok()
                .map(|found| (found.stream, !found.complete, found.time, found.text(&line))),
        };
        let Some((stream, partial, time, text)) = found else {
            return self.whole(LogStream::Stdout as usize, &line, origin);
        };
        let piece = LinePiece {
            text,
            partial,
            time,
            origin,
        };
        let mut joined = None;
        self.pieces[stream as usize].push(piece, self.now, |line| {
            let mut text = Vec::new();
            line.text.push(&mut text);
            assert!(text.len() <= EVENT_BYTES_MAX);
            joined = Some((text, line.origin));
        });
        assert!(self.pieces[stream as usize].memory_bytes() < 2 * EVENT_BYTES_MAX + 200);
        if let Some((text, origin)) = joined {
            self.whole(stream as usize, &text, origin);
        }
    }

    /// Takes the lines of a file, in pieces; the splitter is put aside while it gives them.
    fn read(&mut self, file: &[u8], pieces: &[usize]) {
        let (mut arena, mut rest, mut base) = (Vec::new(), file, 0_u64);
        let mut pieces = pieces.iter().cycle();
        let mut splitter = self.splitter.clone();
        while !rest.is_empty() {
            let piece = pieces.next().copied().unwrap_or(1).clamp(1, rest.len());
            arena.extend_from_slice(&rest[..piece]);
            rest = &rest[piece..];
            let keep = splitter.decode(&arena, 0, |line| {
                self.line(line.span.of(&arena), base + line.span.start() as u64);
            });
            arena.drain(..keep);
            base += keep as u64;
            assert!(arena.len() <= LINE_BYTES_MAX + 1);
        }
        splitter.finish(&arena, 0, |line| {
            self.line(line.span.of(&arena), base + line.span.start() as u64);
        });
    }

    /// The file has ended.
    fn finish(&mut self) {
        for stream in 0..2 {
            let mut joined = None;
            self.pieces[stream].finish(|line| {
                joined = Some((line.text.written().to_vec(), line.origin));
            });
            if let Some((text, origin)) = joined {
                self.whole(stream, &text, origin);
            }
            let events = &mut self.events;
            self.lines[stream].finish(|event| {
                events.push((stream, event.text.to_vec(), event.facts.origin));
            });
            assert_eq!(self.lines[stream].memory_bytes(), 0);
        }
    }
}

fn events(options: u8, file: &[u8], pieces: &[usize]) -> Vec<(usize, Vec<u8>, u64)> {
    let mut reader = FileReader::new(options);
    reader.read(file, pieces);
    reader.finish();
    let text: u64 = reader.events.iter().map(|event| text_bytes(&event.1)).sum();
    assert_eq!(text, reader.given);
    reader.events
}

/// Reads a file as a whole, and in pieces. `options` choose its form, its encoding and the rule.
pub(crate) fn check(options: u8, file: &[u8], pieces: &[usize]) {
    let whole = events(options, file, &[usize::MAX]);
    assert_eq!(events(options, file, pieces), whole);
}
