//! Edits of the text of events, as the policy of their container asks.
//!
//! # What it guarantees
//! * In this order: escape sequences go, then `keep`, `drop` and `sample` decide, then `replace.N`
//!   and `hash.N` change the text in the order of their numbers. So patterns see text without
//!   colours, and what is sent went through every replacement.
//! * An event that is left out has one [`FilterReason`].
//! * The same event is sampled in the same way whenever it is read.
//!
//! # Limits
//! A text grows to the bytes that the caller allows; the rest is cut, and said. Patterns match in
//! linear time.

use std::fmt::Write as _;

use regex::bytes::Regex;
use ring::digest::{SHA256, digest};

use crate::annotations::{ContainerPolicy, LogPattern};

/// Escape, the first byte of each control sequence of a terminal (ECMA-48).
const ESC: u8 = 0x1b;
/// Bell, which ends the commands of xterm.
const BEL: u8 = 0x07;

/// Reason that an event is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterReason {
    /// `exclude` of one stream.
    Exclude,
    /// It does not match `keep`.
    Keep,
    /// It matches `drop`.
    Drop,
    /// `sample` has not chosen it.
    Sample,
}

impl FilterReason {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Exclude, Self::Keep, Self::Drop, Self::Sample];

    /// Name of the rule in the ledger.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Exclude => "annotation:exclude",
            Self::Keep => "annotation:keep",
            Self::Drop => "annotation:drop",
            Self::Sample => "annotation:sample",
        }
    }
}

/// Outcome of the edits of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EditOutcome {
    /// It is as it was.
    Same,
    /// It has another text.
    Changed {
        /// Bytes that were cut, of the text before the edit that cut it.
        cut_bytes: usize,
    },
    /// It is left out.
    Left(FilterReason),
}

/// Edits of the events of one stream of a container.
#[derive(Clone, Debug, Default)]
pub struct EventEdits {
    excluded: bool,
    strip_ansi: bool,
    keep: Option<LogPattern>,
    drop: Option<LogPattern>,
    sample_percent: Option<f64>,
    changes: Vec<TextChange>,
}

/// Change of the matches of a pattern.
#[derive(Clone, Debug)]
enum TextChange {
    Replace(Regex, Box<str>),
    Hash(Regex),
}

impl EventEdits {
    /// The edits that a policy asks for; `None` if there are none.
    pub fn of(policy: &ContainerPolicy) -> Option<Self> {
        let replace = policy.replace.iter();
        let replace =
            replace.map(|rule| TextChange::Replace(rule.pattern.regex.clone(), rule.with.clone()));
        let hash = policy.hash.iter();
        let hash = hash.map(|rule| TextChange::Hash(rule.pattern.regex.clone()));
        let edits = Self {
            excluded: policy.exclude == Some(true),
            strip_ansi: policy.strip_ansi == Some(true),
            keep: policy.keep.clone(),
            drop: policy.drop.clone(),
            sample_percent: policy.sample_percent,
            changes: replace.chain(hash).collect(),
        };
        let asks = edits.excluded
            || edits.strip_ansi
            || edits.keep.is_some()
            || edits.drop.is_some()
            || edits.sample_percent.is_some()
            || !edits.changes.is_empty();
        asks.then_some(edits)
    }

    /// Edits a text; `out` has it if it is another one, `bytes_max` bytes at most. `place` is a
    /// number of the event that is the same whenever it is read.
    pub fn apply(
        &self,
        text: &[u8],
        place: u64,
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> EditOutcome {
        out.clear();
        if self.excluded {
            return EditOutcome::Left(FilterReason::Exclude);
        }
        let mut changed = self.strip_ansi && strip_escapes(text, out);
        let seen = if changed { &**out } else { text };
        if let Some(reason) = self.filter(seen, place) {
            return EditOutcome::Left(reason);
        }
        let mut cut_bytes = 0;
        for change in &self.changes {
            let seen = if changed { &**out } else { text };
            if let Some((new, cut)) = change.apply(seen, bytes_max) {
                *out = new;
                changed = true;
                cut_bytes += cut;
            }
        }
        match changed {
            true => EditOutcome::Changed { cut_bytes },
            false => EditOutcome::Same,
        }
    }

    fn filter(&self, text: &[u8], place: u64) -> Option<FilterReason> {
        let matches = |pattern: &LogPattern| pattern.regex.is_match(text);
        if self.keep.as_ref().is_some_and(|keep| !matches(keep)) {
            return Some(FilterReason::Keep);
        }
        if self.drop.as_ref().is_some_and(matches) {
            return Some(FilterReason::Drop);
        }
        let percent = self.sample_percent?;
        (!is_sampled(place, percent)).then_some(FilterReason::Sample)
    }
}

/// True if a share of `percent` of all numbers has this one.
fn is_sampled(place: u64, percent: f64) -> bool {
    // Finaliser of SplitMix64 (Steele, Lea, Flood 2014): neighbours become far from each other.
    let mut mixed = place.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    let share = (mixed >> 11) as f64 / (1_u64 << 53) as f64;
    share * 100.0 < percent
}

impl TextChange {
    /// The changed text, and the bytes that were cut; `None` without a match.
    fn apply(&self, text: &[u8], bytes_max: usize) -> Option<(Vec<u8>, usize)> {
        let (Self::Replace(pattern, _) | Self::Hash(pattern)) = self;
        let mut captures = pattern.captures_iter(text).peekable();
        captures.peek()?;
        let mut new = Vec::with_capacity(text.len().min(bytes_max));
        let mut taken = 0;
        for found in captures {
            let whole = found.get(0)?;
            let changed = match self {
                Self::Replace(..) => whole,
                Self::Hash(_) => found.get(1).unwrap_or(whole),
            };
            new.extend_from_slice(text.get(taken..changed.start())?);
            match self {
                Self::Replace(_, with) => found.expand(with.as_bytes(), &mut new),
                Self::Hash(_) => push_digest(changed.as_bytes(), &mut new),
            }
            taken = changed.end();
            if new.len() > bytes_max {
                new.truncate(bytes_max);
                return Some((new, text.len() - taken));
            }
        }
        let rest = text.get(taken..)?;
        let fits = rest.len().min(bytes_max - new.len());
        new.extend_from_slice(&rest[..fits]);
        Some((new, rest.len() - fits))
    }
}

fn push_digest(bytes: &[u8], out: &mut Vec<u8>) {
    let mut text = String::with_capacity(64);
    for byte in digest(&SHA256, bytes).as_ref() {
        // A String takes whatever is written to it.
        let _ = write!(text, "{byte:02x}");
    }
    out.extend_from_slice(text.as_bytes());
}

/// Takes control sequences of terminals out. False: there is none, and `out` is empty.
fn strip_escapes(text: &[u8], out: &mut Vec<u8>) -> bool {
    let mut rest = text;
    let mut found = false;
    while let Some(at) = rest.iter().position(|byte| *byte == ESC) {
        found = true;
        out.extend_from_slice(&rest[..at]);
        rest = after_escape(&rest[at + 1..]);
    }
    if found {
        out.extend_from_slice(rest);
    }
    found
}

/// The text behind an escape sequence, whose first byte is before `rest`. One that does not end
/// costs its introducer alone.
fn after_escape(rest: &[u8]) -> &[u8] {
    let is_intermediate = |byte: &u8| (0x20..0x30).contains(byte);
    let (Some(kind), after) = (rest.first(), rest.get(1..).unwrap_or_default()) else {
        return rest;
    };
    let ended = match kind {
        // Control sequence: parameters and a final byte.
        b'[' => {
            let inner = after.iter().position(|byte| !(0x20..0x40).contains(byte));
            let is_final = |at: &usize| (0x40..0x7f).contains(&after[*at]);
            inner.filter(is_final).map(|at| at + 1)
        }
        // Commands and strings, up to a bell or an escape with a backslash.
        b']' | b'P' | b'X' | b'^' | b'_' => {
            let inner = after.iter().position(|byte| matches!(*byte, BEL | ESC));
            inner.and_then(|at| match (after[at], after.get(at + 1)) {
                (BEL, _) => Some(at + 1),
                (_, Some(b'\\')) => Some(at + 2),
                _ => None,
            })
        }
        // Such as the choice of a set of characters.
        byte if is_intermediate(byte) => {
            let inner = after.iter().position(|byte| !is_intermediate(byte));
            let is_final = |at: &usize| (0x30..0x7f).contains(&after[*at]);
            inner.filter(is_final).map(|at| at + 1)
        }
        0x30..0x7f => Some(0),
        _ => return rest,
    };
    after.get(ended.unwrap_or_default()..).unwrap_or_default()
}

#[cfg(test)]
#[path = "edits_tests.rs"]
mod tests;
