//! Taking of lines as events, or as lines of an event: into the batch, with what is odd about them.

use inrush_codec::Frame;
use inrush_codec::container::{JoinEnd, JoinedLine, PieceText};
use inrush_codec::lines::character_border;
use inrush_codec::multiline::{LineFacts, MultilineEvent};
use inrush_event::{Anomalies, Span};
use inrush_ingest::batch_writer::FrameIntake;
use inrush_ingest::batch_writer::decoded::AppendedPart;
use inrush_kubernetes::{EditOutcome, FilterReason};

use super::{LogForm, StreamEdits, StreamForm};
use crate::counts::FileCounts;
use crate::place::LogPlace;

/// Text of a line or of an event.
#[derive(Clone, Copy)]
pub(super) enum TakenText<'a> {
    /// It stands there in what was read.
    Read(Span),
    /// It was put together, converted, or has escapes.
    Made(PieceText<'a>),
    /// It was converted from the bytes that stand there, some of which are no characters.
    Replaced(&'a [u8], Span),
}

/// Bytes of an edited text that are kept for the next one, at most.
const KEPT_BYTES_MAX: usize = 4096;

/// Takes events of one stream into a batch.
pub(super) struct EventTaker<'t, 'f> {
    /// Bytes that were read; empty where none were.
    pub(super) arena: &'t [u8],
    pub(super) form: &'t LogForm,
    pub(super) of: &'t StreamForm,
    /// Number of the log.
    pub(super) log: u64,
    pub(super) counts: &'t FileCounts,
    pub(super) cut_bytes: &'t mut u64,
    /// Memory for edited texts.
    pub(super) edited: &'t mut Vec<u8>,
    pub(super) frames: &'t mut FrameIntake<'f>,
}

impl<'a> TakenText<'a> {
    /// The bytes as they were written.
    pub(super) fn written(self, arena: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Read(span) => span.of(arena),
            Self::Made(text) => text.written(),
            Self::Replaced(text, _) => text,
        }
    }
}

impl EventTaker<'_, '_> {
    /// Takes an event, edited as its owner wishes.
    pub(super) fn event(&mut self, text: TakenText<'_>, facts: &LineFacts) {
        if text.written(self.arena).is_empty() {
            return self.frames.note_empty();
        }
        match &self.of.edits {
            Some(edits) => self.edited(text, *facts, edits),
            None => self.put(text, facts),
        }
    }

    /// Edits a text, and takes what becomes of it.
    fn edited(&mut self, text: TakenText<'_>, mut facts: LineFacts, of: &StreamEdits) {
        let mut resolved = Vec::new();
        let bytes = match text {
            TakenText::Made(text @ PieceText::Escaped(_)) => {
                text.push(&mut resolved);
                &resolved
            }
            text => text.written(self.arena),
        };
        let mut edited = std::mem::take(self.edited);
        let place = LogPlace::number_of_event(self.log, facts.origin);
        let most = self.form.event_bytes_max;
        match of.edits.apply(bytes, place, most, &mut edited) {
            EditOutcome::Same => self.put(text, &facts),
            EditOutcome::Left(reason) => {
                let mut rules = FilterReason::ALL.iter().zip(&of.filtered);
                if let Some((_, rule)) = rules.find(|(one, _)| **one == reason) {
                    self.frames.note_filtered(bytes.len(), rule);
                }
            }
            EditOutcome::Changed { .. } if edited.is_empty() => self.frames.note_empty(),
            EditOutcome::Changed { cut_bytes } => {
                if cut_bytes > 0 {
                    facts.anomalies.insert(Anomalies::OVERSIZE);
                    self.counts.lines_cut.add(1);
                    *self.cut_bytes += cut_bytes as u64;
                }
                self.put(TakenText::Made(PieceText::Raw(&edited)), &facts);
            }
        }
        edited.clear();
        edited.shrink_to(KEPT_BYTES_MAX);
        *self.edited = edited;
    }

    fn put(&mut self, text: TakenText<'_>, facts: &LineFacts) {
        if self.form.lacks_metadata {
            self.counts.metadata_missing.add(1);
        }
        let written = text.written(self.arena);
        let mut anomalies = facts.anomalies;
        if std::str::from_utf8(written).is_err() {
            anomalies.insert(Anomalies::NOT_UTF8);
        }
        let span = match text {
            TakenText::Read(span) | TakenText::Replaced(_, span) => span,
            TakenText::Made(_) => Span::EMPTY,
        };
        let host = &self.of.host;
        let frame = Frame { span, anomalies };
        self.frames
            .take_classed(frame, &self.of.class, |mut event| {
                event.record.event_time = facts.time;
                event.record.zone_minutes = facts.zone_minutes;
                event.record.anomalies.insert(anomalies);
                match text {
                    TakenText::Read(_) => {}
                    TakenText::Made(text) => event.append(AppendedPart::Text, |out| text.push(out)),
                    TakenText::Replaced(text, _) => {
                        event.append(AppendedPart::Message, |out| out.extend_from_slice(text));
                    }
                }
                event.append(AppendedPart::Host, |out| out.extend_from_slice(host));
            });
    }

    /// Cuts the text of a plain line where it is too long.
    pub(super) fn bound(&mut self, text: &[u8], anomalies: &mut Anomalies) -> usize {
        let mut end = text.len();
        if end > self.form.event_bytes_max {
            end = character_border(text, self.form.event_bytes_max);
            *self.cut_bytes += (text.len() - end) as u64;
            anomalies.insert(Anomalies::OVERSIZE);
        }
        if anomalies.contains(Anomalies::OVERSIZE) {
            self.counts.lines_cut.add(1);
        }
        end
    }

    /// Notes what is odd about a line that was put together from pieces.
    pub(super) fn joined(&mut self, line: &JoinedLine<'_>, zone_minutes: i16) -> LineFacts {
        let mut anomalies = Anomalies::NONE;
        if !line.time.is_some() {
            anomalies.insert(Anomalies::BAD_TIME);
        }
        if line.cut_bytes > 0 {
            anomalies.insert(Anomalies::OVERSIZE);
            self.counts.lines_cut.add(1);
            *self.cut_bytes += line.cut_bytes;
        }
        if !matches!(line.end, JoinEnd::Complete | JoinEnd::Size) {
            anomalies.insert(Anomalies::UNTERMINATED);
        }
        self.counts.flushed(line.end);
        if line.pieces > 1 {
            self.counts.joined_events.add(1);
        }
        LineFacts {
            time: line.time,
            zone_minutes,
            origin: line.origin,
            anomalies,
        }
    }

    /// Takes an event of several lines.
    pub(super) fn lines(&mut self, event: &MultilineEvent<'_>) {
        self.counts.flushed(event.end);
        if event.lines > 1 {
            self.counts.joined_events.add(1);
        }
        let mut facts = event.facts;
        if !event.is_whole {
            facts.anomalies.insert(Anomalies::GROUP_INCOMPLETE);
        }
        self.event(TakenText::Made(PieceText::Raw(event.text)), &facts);
    }
}
