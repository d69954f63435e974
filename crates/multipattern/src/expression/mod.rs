//! Regular expressions on bytes: compiled matchers, and the anchors by which candidates are found.
//!
//! # What it guarantees
//! * Matching takes time linear in the text. A small program runs first, within a budget of steps;
//!   the `regex` engine answers beyond it.
//! * Expressions match bytes, without Unicode: `.` matches a byte that is not UTF-8.
//! * Every match has the expression's anchor, so that a search for anchors misses no candidate.
//!
//! # Limits
//! `BYTES_MAX` bounds the compiled expression, and separately the cache of its lazy DFA. A larger
//! expression is rejected. A program has at most `OPS_MAX` elements (`program`); beyond that the
//! `regex` engine runs alone.

mod byte_set;
mod matcher;
mod program;

use matcher::MatchOutcome;
use program::RegexProgram;
use regex::bytes::{CaptureLocations, Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use crate::anchor::Anchor;

pub use program::CaptureSlots;

/// Memory of one compiled expression: what explodes is refused instead of compiled.
const BYTES_MAX: usize = 1 << 20;

/// A regular expression that does not compile.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RegexError {
    /// It takes more memory than it may.
    #[error(
        "the regular expression `{expression}` is too large: it takes more than {bytes} bytes of \
         memory; bound its repetitions more closely"
    )]
    TooLarge {
        /// The expression.
        expression: String,
        /// Bytes that it may take.
        bytes: usize,
    },
    /// It is no expression.
    #[error(
        "`{expression}` is no regular expression: {why} (look-around and back-references are not \
         supported: they have no bound on time)"
    )]
    Syntax {
        /// The expression.
        expression: String,
        /// The last line of the parser's message.
        why: String,
    },
}

impl RegexError {
    fn new(expression: &str, error: &regex::Error) -> Self {
        let expression = expression.to_owned();
        if let regex::Error::CompiledTooBig(bytes) = error {
            let bytes = *bytes;
            return Self::TooLarge { expression, bytes };
        }
        let text = error.to_string();
        let why = text.lines().last().unwrap_or_default();
        let why = why.strip_prefix("error: ").unwrap_or(why).to_owned();
        Self::Syntax { expression, why }
    }
}

/// A compiled expression. It runs in time linear in the text. What is asked first comes first.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct CompiledRegex {
    /// A bit for each byte that a match can begin with.
    begins: [u64; 4],
    /// Bytes that a match has at least.
    least: usize,
    /// The group that goes on to the end of the text, which then need not be run through.
    rest: Option<usize>,
    /// The expression as programs, which are asked first: where its groups lie, and whether it
    /// matches.
    read: Option<RegexProgram>,
    test: Option<RegexProgram>,
    regex: Regex,
    /// As it was written.
    written: String,
    /// The bytes that a match can begin with, if it must stand at the beginning of the text.
    first: Option<Box<[bool; 256]>>,
    /// A text that every match has.
    literal: Option<Literal>,
}

#[derive(Clone, Debug)]
enum Literal {
    Prefix(Vec<u8>),
    Contains(Vec<u8>),
}

impl CompiledRegex {
    /// Compiles an expression.
    ///
    /// # Errors
    /// It is none, or is too large.
    pub fn new(written: &str, ignore_case: bool) -> Result<Self, RegexError> {
        let whole = build(written, ignore_case)?;
        let shorter = without_rest(written).and_then(|text| build(&text, ignore_case).ok());
        // The group that went on to the end is the last one that was closed: the outermost of
        // those that end there, which `without_rest` leaves as the only one.
        let rest = shorter.as_ref().map(|_| last_group(written, &whole));
        let hir = |text: &str| {
            let mut parser = ParserBuilder::new()
                .unicode(false)
                .utf8(false)
                .case_insensitive(ignore_case)
                .build();
            parser.parse(text).ok()
        };
        // Which group goes on is known; its end need not be looked for.
        let cut = without_rest(written).filter(|_| shorter.is_some());
        let program = hir(cut.as_deref().unwrap_or(written));
        let hir = hir(written);
        let first = hir.as_ref().and_then(first_bytes);
        Ok(Self {
            regex: shorter.unwrap_or(whole),
            test: program
                .as_ref()
                .and_then(|hir| RegexProgram::new(hir, false)),
            read: program
                .as_ref()
                .and_then(|hir| RegexProgram::new(hir, true)),
            written: written.to_owned(),
            begins: first.as_deref().map_or([u64::MAX; 4], bits),
            first,
            least: hir
                .as_ref()
                .and_then(|hir| hir.properties().minimum_len())
                .unwrap_or(0),
            literal: hir.as_ref().and_then(literal),
            rest: rest.flatten(),
        })
    }

    /// The expression as it was written.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// The engine that answers beyond the budget of the small program.
    pub fn regex(&self) -> &Regex {
        &self.regex
    }

    #[inline]
    fn can_begin(&self, text: &[u8]) -> bool {
        if text.len() < self.least {
            return false;
        }
        text.first()
            .is_none_or(|byte| self.begins[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1)
    }

    /// True if it matches anywhere in the text.
    #[inline]
    pub fn is_match(&self, text: &[u8]) -> bool {
        if !self.can_begin(text) {
            return false;
        }
        let tested = self
            .test
            .as_ref()
            .map(|program| program.search(text, &mut CaptureSlots::new()));
        match tested {
            Some(MatchOutcome::Yes) => true,
            Some(MatchOutcome::No) => false,
            Some(MatchOutcome::Unknown) | None => self.regex.is_match(text),
        }
    }

    /// Puts where the groups lie into `slots`; `false`: it does not match. `rooms` are used again,
    /// that of this number for this expression.
    #[inline]
    pub fn captures(
        &self,
        text: &[u8],
        slots: &mut CaptureSlots,
        rooms: &mut Vec<Option<CaptureLocations>>,
        id: usize,
    ) -> bool {
        if !self.can_begin(text) {
            return false;
        }
        match self
            .read
            .as_ref()
            .map(|program| program.search(text, slots))
        {
            Some(MatchOutcome::Yes) => return true,
            Some(MatchOutcome::No) => return false,
            Some(MatchOutcome::Unknown) | None => {}
        }
        if rooms.len() <= id {
            rooms.resize_with(id + 1, || None);
        }
        let room = rooms[id].get_or_insert_with(|| self.regex.capture_locations());
        if self.regex.captures_read(room, text).is_none() {
            return false;
        }
        slots.clear();
        for index in 0..room.len() {
            let (from, to) = room
                .get(index)
                .map_or((u32::MAX, u32::MAX), |(from, to)| (from as u32, to as u32));
            slots.extend([from, to]);
        }
        true
    }

    /// Start and end of a group, if it takes part in the match.
    #[inline]
    pub fn group(&self, index: usize, slots: &CaptureSlots, text: &[u8]) -> Option<(usize, usize)> {
        let (from, to) = (*slots.get(2 * index)?, *slots.get(2 * index + 1)?);
        // A group that was begun but not left takes no part in the match.
        if from == u32::MAX || to == u32::MAX {
            return None;
        }
        let to = if self.rest == Some(index) {
            text.len()
        } else {
            to as usize
        };
        Some((from as usize, to))
    }

    /// Anchor by which candidates can be found.
    pub fn anchor(&self) -> Option<Anchor<'_>> {
        match &self.literal {
            Some(Literal::Prefix(text)) => Some(Anchor::Prefix(text)),
            Some(Literal::Contains(text)) => Some(Anchor::Contains(text)),
            None => self.first.as_deref().map(Anchor::First),
        }
    }
}

fn build(expression: &str, ignore_case: bool) -> Result<Regex, RegexError> {
    RegexBuilder::new(expression)
        .case_insensitive(ignore_case)
        // Messages are bytes: `.` must pass what is not UTF-8.
        .unicode(false)
        .size_limit(BYTES_MAX)
        .dfa_size_limit(BYTES_MAX)
        .build()
        .map_err(|error| RegexError::new(expression, &error))
}

/// The expression without the `.*` of its last group, if that goes on to the end whatever stands
/// there: `(?s)…(?<rest>.*)$`, `…(?<rest>x(?s:.*))$`.
fn without_rest(written: &str) -> Option<String> {
    let (before, tail) = if let Some(before) = written.strip_suffix("(?s:.*))$") {
        (before, ")")
    } else if written.starts_with("(?s)") {
        (written.strip_suffix(".*)$")?, ")")
    } else {
        return None;
    };
    // An alternation outside of a group would end there too.
    (!before.ends_with('\\')).then(|| format!("{before}{tail}"))
}

/// The number of the group that the last parenthesis closes, if it is one that has a name.
fn last_group(written: &str, regex: &Regex) -> Option<usize> {
    let bytes = written.as_bytes();
    let mut open = Vec::new();
    let (mut at, mut class) = (0, false);
    let mut last = None;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'[' => class = true,
            b']' => class = false,
            b'(' if !class => open.push(at),
            b')' if !class => last = open.pop(),
            _ => {}
        }
        at += 1;
    }
    let name = written[last?..].strip_prefix("(?<")?.split_once('>')?.0;
    regex.capture_names().position(|known| known == Some(name))
}

/// The text that every match begins with, or has somewhere.
fn literal(hir: &Hir) -> Option<Literal> {
    let mut prefix = Vec::new();
    if hir.properties().look_set_prefix().contains(Look::Start) {
        // How far it got is in the text itself.
        let _ = collect(hir, &mut prefix);
        if !prefix.is_empty() {
            return Some(Literal::Prefix(prefix));
        }
    }
    let text = longest(hir)?;
    (text.len() >= 2).then_some(Literal::Contains(text))
}

/// Appends the literals that `hir` begins with; `None`: it goes on with something else.
fn collect(hir: &Hir, out: &mut Vec<u8>) -> Option<()> {
    match hir.kind() {
        HirKind::Literal(text) => {
            out.extend_from_slice(&text.0);
            Some(())
        }
        HirKind::Look(_) | HirKind::Empty => Some(()),
        HirKind::Capture(capture) => collect(&capture.sub, out),
        HirKind::Concat(parts) => {
            for part in parts {
                collect(part, out)?;
            }
            Some(())
        }
        _ => None,
    }
}

/// The longest text that every match has.
fn longest(hir: &Hir) -> Option<Vec<u8>> {
    match hir.kind() {
        HirKind::Literal(text) => Some(text.0.to_vec()),
        HirKind::Capture(capture) => longest(&capture.sub),
        HirKind::Repetition(again) if again.min >= 1 => longest(&again.sub),
        HirKind::Concat(parts) => parts.iter().filter_map(longest).max_by_key(Vec::len),
        _ => None,
    }
}

/// The bytes that a match can begin with, if it must stand at the beginning and is not empty.
fn first_bytes(hir: &Hir) -> Option<Box<[bool; 256]>> {
    if !hir.properties().look_set_prefix().contains(Look::Start) {
        return None;
    }
    let mut set = Box::new([false; 256]);
    let empty = first(hir, &mut set);
    (!empty).then_some(set)
}

/// A bit for each byte of a set.
fn bits(set: &[bool; 256]) -> [u64; 4] {
    let mut bits = [0; 4];
    for (byte, member) in set.iter().enumerate() {
        bits[byte >> 6] |= u64::from(*member) << (byte & 63);
    }
    bits
}

/// Adds the bytes that `hir` can begin with; whether it can be empty.
fn first(hir: &Hir, set: &mut [bool; 256]) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => true,
        HirKind::Literal(text) => match text.0.first() {
            Some(byte) => {
                set[usize::from(*byte)] = true;
                false
            }
            None => true,
        },
        HirKind::Class(Class::Bytes(class)) => {
            for range in class.ranges() {
                for byte in range.start()..=range.end() {
                    set[usize::from(byte)] = true;
                }
            }
            false
        }
        HirKind::Class(Class::Unicode(_)) => {
            set.fill(true);
            false
        }
        HirKind::Repetition(again) => first(&again.sub, set) || again.min == 0,
        HirKind::Capture(capture) => first(&capture.sub, set),
        HirKind::Concat(parts) => parts.iter().all(|part| first(part, set)),
        HirKind::Alternation(parts) => {
            let mut empty = false;
            for part in parts {
                empty |= first(part, set);
            }
            empty
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(written: &str, text: &str) -> Vec<String> {
        let expression = CompiledRegex::new(written, false).expect(written);
        let mut slots = CaptureSlots::new();
        if !expression.captures(text.as_bytes(), &mut slots, &mut Vec::new(), 0) {
            return vec!["no match".to_owned()];
        }
        let count = expression.regex().captures_len();
        let group = |at| expression.group(at, &slots, text.as_bytes());
        (1..count)
            .filter_map(group)
            .map(|(from, to)| text[from..to].to_owned())
            .collect()
    }

    #[test]
    fn a_group_that_goes_on_to_the_end_does() {
        assert_eq!(
            groups(r"(?s)^(?<a>\d+) (?<rest>.*)$", "12 and\nso on"),
            ["12", "and\nso on"]
        );
        assert_eq!(
            groups(r"^(?<a>\d+) (?<rest>%(?:A|B)-(?s:.*))$", "1 %B-x\ny"),
            ["1", "%B-x\ny"]
        );
        assert_eq!(
            groups(r"^(?<a>\d+) (?<rest>.*)$", "12 one\ntwo"),
            ["no match"]
        );
        assert_eq!(groups(r"(?s)^(?<a>x(?<b>.*))$", "xyz"), ["xyz", "yz"]);
    }

    #[test]
    fn what_a_match_begins_with_is_known() {
        let anchor = |written: &str| {
            let expression = CompiledRegex::new(written, false).expect(written);
            match expression.anchor() {
                Some(Anchor::Prefix(text)) => format!("^{}", String::from_utf8_lossy(text)),
                Some(Anchor::Contains(text)) => String::from_utf8_lossy(text).into_owned(),
                _ => String::new(),
            }
        };
        assert_eq!(anchor(r"^M_\d+:"), "^M_");
        assert_eq!(anchor(r"^(?<a>ab)c\d"), "^abc");
        assert_eq!(anchor(r"\d+ Limiting .+ from"), " Limiting ");
        assert_eq!(anchor(r"^(a|b)x"), "");
        assert_eq!(anchor(r"(?i)^abc"), "");
        let digits = CompiledRegex::new(r"^\d+ ?x", false).expect("sound");
        assert!(digits.is_match(b"1x") && !digits.is_match(b"x1x"));
        assert!(digits.can_begin(b"7x") && !digits.can_begin(b"x7") && !digits.can_begin(b"7"));
    }
}
