//! Events of several lines: which lines belong together, and putting them together.
//!
//! # What it guarantees
//! * An event is its lines, as they came, with one LF between two of them. Empty lines at its end
//!   are left out; they alone make no event.
//! * Each other line that was pushed is in exactly one event; nothing is cut.
//! * An event has the time and the origin of its first line, and the anomalies of all its lines.
//! * An event of one line that ends at once is handed on without a copy.
//!
//! # States
//! Idle → open (a line came, and nothing has said yet that it was the last one) → idle.
//!
//! # Limits
//! An event that would be longer than `bytes_max` ends before the line that does not fit, which
//! begins another one; a longer line is an event alone. An event waits for its next line for at
//! most `timeout`, and for its last line ten times that, if [`MultilineJoiner::expire`] is called.
//! An idle joiner keeps at most 4 KiB.
//!
//! # After a crash
//! The joiner is rebuilt by pushing the lines again from [`OpenLine::origin`] on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_event::{Anomalies, ByteSize, Period, Timestamp};
use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::container::{JoinEnd, OpenLine};

/// Bytes of a buffer that an idle joiner keeps for the next event, at most.
const KEPT_BYTES_MAX: usize = 4096;

/// Memory of a compiled expression, at most: annotations of a pod can have one.
const EXPRESSION_BYTES_MAX: usize = 1 << 20;

/// An event ends so many times the timeout after its first line, although lines still come.
const AGE_FACTOR: u32 = 10;

/// Rules that put lines together to events. Exactly one of `start`, `continue` and `end` is given.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MultilineOptions {
    /// Regular expression that the first line of an event matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Regular expression of lines that belong to the event before.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub continuation: Option<String>,
    /// Regular expression that the last line of an event matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Time that an event waits for its next line, once there is nothing more to read.
    pub timeout: Period,
    /// Bytes of an event, at most. It ends before the line that does not fit.
    pub max: ByteSize,
}

impl Default for MultilineOptions {
    fn default() -> Self {
        Self {
            start: None,
            continuation: None,
            end: None,
            timeout: Period(Duration::from_secs(2)),
            max: ByteSize(1 << 20),
        }
    }
}

impl MultilineOptions {
    /// The rule that these options describe.
    ///
    /// # Errors
    /// In words: not exactly one expression is given, or it cannot be read.
    pub fn rule(&self) -> Result<MultilineRule, String> {
        let given = [
            ("start", LineRole::First, &self.start),
            ("continue", LineRole::Further, &self.continuation),
            ("end", LineRole::Last, &self.end),
        ];
        let mut given = given.iter().filter_map(|(key, role, text)| {
            let text = text.as_ref()?;
            Some((key, *role, text))
        });
        let (Some((key, role, text)), None) = (given.next(), given.next()) else {
            return Err("give exactly one of `start`, `continue` and `end`".to_owned());
        };
        let built = RegexBuilder::new(text)
            .size_limit(EXPRESSION_BYTES_MAX)
            .dfa_size_limit(EXPRESSION_BYTES_MAX)
            .build();
        let expression = built.map_err(|error| format!("`{key}`: {error}"))?;
        Ok(MultilineRule {
            role,
            expression,
            timeout: self.timeout.0,
            bytes_max: usize::try_from(self.max.0).unwrap_or(usize::MAX),
        })
    }
}

/// The lines that an expression matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LineRole {
    /// They begin an event.
    First,
    /// They belong to the event before.
    Further,
    /// They end an event.
    Last,
}

/// Rule by which lines are put together; one for all files of a source.
#[derive(Clone, Debug)]
pub struct MultilineRule {
    role: LineRole,
    expression: Regex,
    timeout: Duration,
    bytes_max: usize,
}

impl PartialEq for MultilineRule {
    fn eq(&self, other: &Self) -> bool {
        let bounds = (self.role, self.timeout, self.bytes_max);
        bounds == (other.role, other.timeout, other.bytes_max)
            && self.expression.as_str() == other.expression.as_str()
    }
}

impl Eq for MultilineRule {}

impl MultilineRule {
    /// True if an event that ended for this reason can be whole: before a pause, nothing else says
    /// that its last line was the last one, unless a rule does.
    pub const fn is_whole(&self, end: JoinEnd) -> bool {
        match end {
            JoinEnd::Complete => true,
            JoinEnd::Age | JoinEnd::Ended => !matches!(self.role, LineRole::Last),
            JoinEnd::Size | JoinEnd::Memory => false,
        }
    }

    /// True if a line begins an event, and if it ends the one that it is in.
    fn borders(&self, line: &[u8]) -> (bool, bool) {
        let matches = self.expression.is_match(line);
        match self.role {
            LineRole::First => (matches, false),
            LineRole::Further => (!matches && !line.is_empty(), false),
            LineRole::Last => (false, matches),
        }
    }
}

/// Facts about a line beside its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineFacts {
    /// Its time; [`Timestamp::NONE`] if it has none.
    pub time: Timestamp,
    /// Minutes east of UTC of the offset that the time was written with.
    pub zone_minutes: i16,
    /// Place that it was read from, in the caller's own form: the offset in the file, for example.
    pub origin: u64,
    /// Its anomalies.
    pub anomalies: Anomalies,
}

/// An event of one or more lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MultilineEvent<'a> {
    /// Its text, without an LF at its end.
    pub text: &'a [u8],
    /// Those of its first line, with the anomalies of all.
    pub facts: LineFacts,
    /// Number of its lines.
    pub lines: u32,
    /// Reason why it was handed on.
    pub end: JoinEnd,
    /// True if it may have all its lines ([`MultilineRule::is_whole`]).
    pub is_whole: bool,
}

/// The open event, but its text.
#[derive(Clone, Copy, Debug)]
struct OpenEventLines {
    facts: LineFacts,
    lines: u32,
    since: Instant,
}

/// Puts the lines of one file, or of one stream of a container, together.
#[derive(Debug)]
pub struct MultilineJoiner {
    rule: Arc<MultilineRule>,
    bytes_max: usize,
    open: Option<OpenEventLines>,
    /// The reader's clock when the last line came.
    last: Option<Instant>,
    text: Vec<u8>,
}

impl MultilineJoiner {
    /// An idle joiner, whose events have at most the bytes of the rule, and at most `bytes_max`.
    pub fn new(rule: Arc<MultilineRule>, bytes_max: usize) -> Self {
        Self {
            bytes_max: rule.bytes_max.min(bytes_max),
            rule,
            open: None,
            last: None,
            text: Vec::new(),
        }
    }

    /// The rule.
    pub fn rule(&self) -> &Arc<MultilineRule> {
        &self.rule
    }

    /// Takes the next line, without its LF, read at `now`, and hands the events that end here to
    /// `emit`: two at most.
    pub fn push(
        &mut self,
        line: &[u8],
        facts: LineFacts,
        now: Instant,
        mut emit: impl FnMut(MultilineEvent<'_>),
    ) {
        let (begins, ends) = self.rule.borders(line);
        if begins {
            self.flush(JoinEnd::Complete, &mut emit);
        }
        let bytes_max = self.bytes_max;
        if self.text.len() + 1 + line.len() > bytes_max {
            self.flush(JoinEnd::Size, &mut emit);
        }
        let too_long = line.len() > bytes_max;
        if self.open.is_none() && (ends || too_long) {
            if !line.is_empty() {
                let end = match too_long {
                    true => JoinEnd::Size,
                    false => JoinEnd::Complete,
                };
                emit(MultilineEvent {
                    text: line,
                    facts,
                    lines: 1,
                    end,
                    is_whole: self.rule.is_whole(end),
                });
            }
            return;
        }
        self.append(line, facts, now);
        if ends {
            self.flush(JoinEnd::Complete, &mut emit);
        }
    }

    fn append(&mut self, line: &[u8], facts: LineFacts, now: Instant) {
        match &mut self.open {
            Some(open) => {
                open.lines = open.lines.saturating_add(1);
                open.facts.anomalies.insert(facts.anomalies);
                self.text.push(b'\n');
            }
            None if line.is_empty() => return,
            None => {
                self.open = Some(OpenEventLines {
                    facts,
                    lines: 1,
                    since: now,
                });
            }
        }
        self.last = Some(now);
        self.text.extend_from_slice(line);
    }

    /// Hands an open event to `emit` that has waited long enough. To be called while there is
    /// nothing more to read: its next line may stand in what was not read yet.
    pub fn expire(&mut self, now: Instant, emit: impl FnMut(MultilineEvent<'_>)) {
        if self.due().is_some_and(|due| due <= now) {
            self.release(JoinEnd::Age, emit);
        }
    }

    /// Ends the file: an open event is handed to `emit`.
    pub fn finish(&mut self, emit: impl FnMut(MultilineEvent<'_>)) {
        self.release(JoinEnd::Ended, emit);
    }

    /// Gives up an open event for want of memory: what there is of it is handed to `emit`.
    pub fn give_up(&mut self, emit: impl FnMut(MultilineEvent<'_>)) {
        self.release(JoinEnd::Memory, emit);
    }

    /// Hands the open event on, and keeps no memory.
    fn release(&mut self, end: JoinEnd, mut emit: impl FnMut(MultilineEvent<'_>)) {
        self.flush(end, &mut emit);
        self.text = Vec::new();
    }

    fn flush(&mut self, end: JoinEnd, emit: &mut impl FnMut(MultilineEvent<'_>)) {
        let Some(open) = self.open.take() else {
            return;
        };
        // Empty lines at the end are no part of an event.
        let is_text = |byte: &u8| *byte != b'\n';
        let len = self.text.iter().rposition(is_text).map_or(0, |at| at + 1);
        let empty = (self.text.len() - len) as u32;
        self.text.truncate(len);
        // A line of nothing but LF, which came as escapes, is empty too.
        if len > 0 {
            emit(MultilineEvent {
                text: &self.text,
                facts: open.facts,
                lines: open.lines - empty.min(open.lines - 1),
                end,
                is_whole: self.rule.is_whole(end),
            });
        }
        self.text.clear();
        if self.text.capacity() > KEPT_BYTES_MAX {
            self.text = Vec::new();
        }
    }

    /// Ends an open event, because other rules hold from the next line on: it is handed to `emit`.
    pub fn close(&mut self, emit: impl FnMut(MultilineEvent<'_>)) {
        self.release(JoinEnd::Complete, emit);
    }

    /// The open event: time and origin of its first line, and the number of its lines so far.
    pub fn open(&self) -> Option<OpenLine> {
        self.open.map(|open| OpenLine {
            time: open.facts.time,
            origin: open.facts.origin,
            pieces: open.lines,
            since: open.since,
        })
    }

    /// The reader's clock when the open event has waited long enough.
    pub fn due(&self) -> Option<Instant> {
        let open = self.open.as_ref()?;
        let timeout = self.rule.timeout;
        let age = open.since.checked_add(timeout.saturating_mul(AGE_FACTOR));
        let quiet = self.last?.checked_add(timeout);
        [age, quiet].into_iter().flatten().min()
    }

    /// Bytes of memory of its buffer.
    pub fn memory_bytes(&self) -> usize {
        self.text.capacity()
    }
}

#[cfg(test)]
#[path = "multiline_tests.rs"]
mod tests;
