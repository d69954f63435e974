//! Errors of a query, each with its place.

use std::fmt;
use std::ops::Range;

/// Characters of what someone wrote that a message repeats.
const SHOWN_CHARS: usize = 40;

/// Error of a query that cannot be read. It is the fault of whoever wrote it, who can mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryError {
    /// Description of the error, in one line.
    pub message: String,
    /// The character where it begins, counted from 1; one past the last if something is missing at
    /// the end.
    pub column: usize,
    /// Characters that it covers, at least 1.
    pub length: usize,
    /// Advice on what to write instead, where that is known.
    pub hint: Option<String>,
}

impl QueryError {
    pub(super) fn at_the_start(message: String) -> Self {
        Self {
            message,
            column: 1,
            length: 1,
            hint: None,
        }
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for QueryError {}

/// A [`QueryError`] while the parser still counts in bytes.
#[derive(Debug)]
pub(super) struct SyntaxError {
    span: Range<usize>,
    message: String,
    hint: Option<String>,
}

impl SyntaxError {
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            span,
            message: message.into(),
            hint: None,
        }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The error in characters of `text`, whose bytes the span counts.
    pub(super) fn of(self, text: &str) -> QueryError {
        let chars = |range: Range<usize>| text.get(range).map_or(0, |part| part.chars().count());
        QueryError {
            column: chars(0..self.span.start) + 1,
            length: chars(self.span).max(1),
            message: self.message,
            hint: self.hint,
        }
    }
}

/// Quotes what someone wrote: in one line, without control characters, cut where it is long.
pub(super) fn shown(text: &str) -> String {
    let plain = |c: char| {
        if inrush_event::is_unprintable(c) {
            '\u{fffd}'
        } else {
            c
        }
    };
    let mut chars = text.chars();
    let begin: String = chars.by_ref().take(SHOWN_CHARS).map(plain).collect();
    let more = if chars.next().is_some() { "…" } else { "" };
    format!("`{begin}{more}`")
}

/// The candidate that `written` was probably meant to be.
pub(super) fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // Comparing costs length × length: nothing as long as this is a slip of the hand.
    if written.len() > 64 {
        return None;
    }
    let written = written.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&written, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
