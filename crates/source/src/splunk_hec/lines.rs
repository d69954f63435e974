//! Lines of a body, and events of several lines.
//!
//! # What it guarantees
//! * With a rule for first lines, a line that it does not match belongs to the event before. The
//!   event is the bytes from its first line to its last, with the line ends between.
//! * Requests are not joined: the end of a body ends its event.
//!
//! # Limits
//! An event that would be longer than it may ends before the line that does not fit, which begins
//! another one. No more than one event and one line are kept between two reads.

use inrush_codec::{Frame, FrameDecoder, StreamFraming};
use inrush_event::{Anomalies, Span};
use regex::bytes::Regex;

/// Splits a body into lines, and joins those of an event.
pub(super) struct LineReader {
    decoder: FrameDecoder,
    /// Bytes of the unfinished event, which are shown again, and its anomalies.
    open: Option<(usize, Anomalies)>,
    /// Bytes shown again that the decoder has taken.
    ahead: usize,
}

impl LineReader {
    pub(super) fn new(event_bytes_max: usize) -> Self {
        Self {
            decoder: FrameDecoder::new(StreamFraming::Newline, event_bytes_max),
            open: None,
            ahead: 0,
        }
    }

    /// Bytes that were cut off lines that are too long.
    pub(super) fn cut_bytes(&self) -> u64 {
        self.decoder.cut_bytes()
    }

    /// Takes the events that end in `arena`, from `start` on; with `last` the body ends there.
    /// Without a rule for first lines each line is an event. Returns the offset of the first byte
    /// that must be shown again.
    pub(super) fn take(
        &mut self,
        (arena, start, last): (&[u8], usize, bool),
        first_line: Option<&Regex>,
        event_bytes_max: usize,
        mut emit: impl FnMut(Frame),
    ) -> usize {
        let mut open = self.open.take().map(|(bytes, anomalies)| Frame {
            span: Span::new(start, start + bytes),
            anomalies,
        });
        let mut join = |frame: Frame| {
            let Some(first_line) = first_line else {
                return emit(frame);
            };
            match &mut open {
                Some(event)
                    if frame.span.end() - event.span.start() <= event_bytes_max
                        && !first_line.is_match(frame.span.of(arena)) =>
                {
                    event.span = Span::new(event.span.start(), frame.span.end());
                    event.anomalies.insert(frame.anomalies);
                }
                _ => {
                    if let Some(event) = open.replace(frame) {
                        emit(event);
                    }
                }
            }
        };
        let mut resume = self.decoder.decode(arena, start + self.ahead, &mut join);
        if last {
            self.decoder.finish(arena, resume, &mut join);
            resume = arena.len();
        }
        let ends = |event: &mut Frame| last || arena.len() - event.span.start() > event_bytes_max;
        if let Some(event) = open.take_if(ends) {
            emit(event);
        }
        let keep = open.map_or(resume, |event| event.span.start());
        self.ahead = resume - keep;
        self.open = open.map(|event| (event.span.of(arena).len(), event.anomalies));
        keep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of the events of a body that comes in pieces of that length.
    fn events(body: &[u8], piece: usize, first_line: Option<&str>, most: usize) -> Vec<Vec<u8>> {
        let rule = first_line.map(|rule| Regex::new(rule).unwrap());
        let mut reader = LineReader::new(most);
        let (mut arena, mut found) = (Vec::new(), Vec::new());
        let mut rest = body;
        loop {
            let (shown, later) = rest.split_at(piece.min(rest.len()));
            rest = later;
            arena.extend_from_slice(shown);
            let last = rest.is_empty();
            let keep = reader.take((&arena, 0, last), rule.as_ref(), most, |frame| {
                found.push(frame.span.of(&arena).to_vec());
            });
            assert!(arena.len() - keep <= 2 * most + piece + 32);
            if last {
                return found;
            }
            arena.drain(..keep);
        }
    }

    #[test]
    fn lines_that_begin_no_event_belong_to_the_one_before() {
        let body = b"  early\nERROR a\r\n at b\n\n at c\nERROR d\n";
        let wanted: [&[u8]; 3] = [b"  early", b"ERROR a\r\n at b\n\n at c", b"ERROR d"];
        for piece in 1..=body.len() {
            assert_eq!(events(body, piece, Some("^ERROR"), 1000), wanted);
        }
        assert_eq!(events(body, 7, None, 1000).len(), 5);
    }

    #[test]
    fn an_event_is_no_longer_than_it_may_be() {
        let body = [b"ERROR a\n".to_vec(), b" at b\n".repeat(100)].concat();
        let all = events(&body, 13, Some("^ERROR"), 50);
        assert!(all.iter().all(|event| event.len() <= 50), "{all:?}");
        assert_eq!(
            all.concat().iter().filter(|byte| **byte == b'a').count(),
            101
        );
        let endless = events(&[b'x'; 10_000], 100, Some("^ERROR"), 50);
        assert_eq!(endless.len(), 1);
    }
}
