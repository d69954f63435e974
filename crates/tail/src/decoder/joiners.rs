//! Joiners of one stream of a log: its pieces become lines, its lines events.
//!
//! A plain file is one stream; that of a container has two.

use std::sync::Arc;
use std::time::Instant;

use inrush_codec::container::{JoinBounds, JoinEnd, JoinedLine, LinePiece, PieceJoiner, PieceText};
use inrush_codec::multiline::{LineFacts, MultilineJoiner};
use inrush_event::{Record, Span};

use super::LogForm;
use super::taker::{EventTaker, TakenText};

/// Bytes of a scratch that is kept, at most.
const KEPT_BYTES_MAX: usize = 4096;

/// Reason why open events are handed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OpenEnd {
    /// There is nothing more to read, and some may have waited long enough.
    Due,
    /// The log has ended.
    Ended,
    /// There is no memory for them.
    Memory,
}

/// Joiner of whole lines, where lines are put together to events.
struct LineJoiner {
    lines: Option<MultilineJoiner>,
    /// Text of a line whose escapes were resolved.
    scratch: Vec<u8>,
}

/// Joiners of a stream.
pub(super) struct StreamJoiners {
    pieces: PieceJoiner,
    whole: LineJoiner,
}

fn line_joiner(form: &LogForm, stream: usize) -> Option<MultilineJoiner> {
    let rule = form.multiline[stream].as_ref()?;
    Some(MultilineJoiner::new(Arc::clone(rule), form.event_bytes_max))
}

impl LineJoiner {
    /// Takes a whole line: an event, or a line of one.
    fn line(
        &mut self,
        text: TakenText<'_>,
        facts: &LineFacts,
        now: Instant,
        taker: &mut EventTaker<'_, '_>,
    ) {
        let Some(lines) = &mut self.lines else {
            return taker.event(text, facts);
        };
        let line = match text {
            TakenText::Made(text @ PieceText::Escaped(_)) => {
                self.scratch.clear();
                text.push(&mut self.scratch);
                &self.scratch
            }
            text => text.written(taker.arena),
        };
        lines.push(line, *facts, now, |event| taker.lines(&event));
        if self.scratch.capacity() > KEPT_BYTES_MAX {
            self.scratch = Vec::new();
        }
    }

    /// Takes a line that was put together; its only piece stands at `text`.
    fn joined(
        &mut self,
        line: &JoinedLine<'_>,
        (text, zone_minutes): (Span, i16),
        now: Instant,
        taker: &mut EventTaker<'_, '_>,
    ) {
        let facts = taker.joined(line, zone_minutes);
        // A lone piece whose line never ended is not in what was read.
        let is_whole = line.end == JoinEnd::Complete && line.cut_bytes == 0;
        let text = match line.text {
            PieceText::Raw(_) if line.pieces == 1 && is_whole && !text.is_empty() => {
                TakenText::Read(text)
            }
            text => TakenText::Made(text),
        };
        self.line(text, &facts, now, taker);
    }
}

impl StreamJoiners {
    /// Idle ones of a stream.
    pub(super) fn new(form: &LogForm, stream: usize) -> Self {
        let bounds = JoinBounds {
            bytes_max: form.event_bytes_max,
            ..JoinBounds::default()
        };
        Self {
            pieces: PieceJoiner::new(bounds),
            whole: LineJoiner {
                lines: line_joiner(form, stream),
                scratch: Vec::new(),
            },
        }
    }

    /// Follows another form from the next line on: an event that is open by another rule ends.
    pub(super) fn follow(&mut self, stream: usize, taker: &mut EventTaker<'_, '_>) {
        let known = self.whole.lines.as_ref().map(MultilineJoiner::rule);
        let is_same = match (known, &taker.form.multiline[stream]) {
            (Some(known), Some(wanted)) => known == wanted,
            (None, None) => true,
            _ => false,
        };
        if is_same {
            return;
        }
        if let Some(lines) = &mut self.whole.lines {
            lines.close(|event| taker.lines(&event));
        }
        self.whole.lines = line_joiner(taker.form, stream);
    }

    /// Takes a line that has no pieces.
    pub(super) fn line(
        &mut self,
        text: TakenText<'_>,
        facts: &LineFacts,
        now: Instant,
        taker: &mut EventTaker<'_, '_>,
    ) {
        self.whole.line(text, facts, now, taker);
    }

    /// Takes a piece of a line, whose text stands at `text`.
    pub(super) fn piece(
        &mut self,
        piece: LinePiece<'_>,
        (text, zone_minutes): (Span, i16),
        now: Instant,
        taker: &mut EventTaker<'_, '_>,
    ) {
        let whole = &mut self.whole;
        self.pieces.push(piece, now, |line| {
            whole.joined(&line, (text, zone_minutes), now, taker);
        });
    }

    /// Hands on what is open and ends now.
    pub(super) fn end(&mut self, why: OpenEnd, now: Instant, taker: &mut EventTaker<'_, '_>) {
        let whole = &mut self.whole;
        let emit = |line: JoinedLine<'_>| {
            whole.joined(&line, (Span::EMPTY, Record::ZONE_NONE), now, taker);
        };
        match why {
            OpenEnd::Due => self.pieces.expire(now, emit),
            OpenEnd::Ended => self.pieces.finish(emit),
            OpenEnd::Memory => self.pieces.give_up(emit),
        }
        let Some(lines) = &mut self.whole.lines else {
            return;
        };
        match why {
            // An open line goes on the event.
            OpenEnd::Due if self.pieces.open().is_some() => {}
            OpenEnd::Due => lines.expire(now, |event| taker.lines(&event)),
            OpenEnd::Ended => lines.finish(|event| taker.lines(&event)),
            OpenEnd::Memory => lines.give_up(|event| taker.lines(&event)),
        }
    }

    /// Origin of the first line or piece that is in no event yet.
    pub(super) fn origin(&self) -> Option<u64> {
        let lines = self.whole.lines.as_ref().and_then(MultilineJoiner::open);
        let pieces = self.pieces.open();
        // The piece came behind the lines before it.
        Some(lines.or(pieces)?.origin)
    }

    /// Time at which something open has waited long enough.
    pub(super) fn due(&self) -> Option<Instant> {
        let lines = self.whole.lines.as_ref();
        (self.pieces.due()).or_else(|| lines.and_then(MultilineJoiner::due))
    }

    /// Bytes of memory of what is open.
    pub(super) fn memory_bytes(&self) -> usize {
        let lines = self.whole.lines.as_ref();
        self.pieces.memory_bytes() + lines.map_or(0, MultilineJoiner::memory_bytes)
    }
}
