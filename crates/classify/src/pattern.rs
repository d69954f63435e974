//! Pattern matcher on bytes: `text`, `text*`, `*text*`, `*text`, `a*b` and `/expression/`.
//!
//! # What it guarantees
//! * Matching takes time linear in the text.
//! * The prefix `i:`, or the flag `i` of an expression, ignores the case of ASCII letters only.
//! * Every match has the pattern's anchor, so that a search for anchors misses no match.
//! * `TextPattern::covers` is conservative: true is certain, false proves nothing.
//!
//! # States
//! A [`TextPattern`] is immutable after [`TextPattern::parse`].
//!
//! # Limits
//! A literal of up to `SHORT` bytes is stored within the pattern. An expression that is too large
//! once compiled is rejected (`BYTES_MAX` of `expression`).

use memchr::memmem::Finder;

use crate::PackError;
use inrush_multipattern::{Anchor, CompiledRegex, same};

/// A compiled pattern. Matching takes time linear in the text.
///
/// It is small, so that one line of the cache holds most tests of a condition: of two events that
/// meet a rule there were others in between.
#[derive(Clone, Debug)]
pub struct TextPattern {
    shape: PatternKind,
    /// The bytes of a text that is looked for, if its case counts.
    needs: ByteMask,
    /// True if ASCII case is ignored; the literals are then in lower case.
    ignore_case: bool,
}

/// Set of the bytes of a text, roughly: a bit for each value but its two highest bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteMask(u64);

impl ByteMask {
    /// Not found out yet: no text that is asked about has none.
    pub(crate) const UNKNOWN: Self = Self(0);

    fn of(text: &[u8]) -> Self {
        let bits = text.iter().map(|byte| 1 << (byte & 63));
        Self(bits.fold(0, |all: u64, bit: u64| all | bit))
    }
}

/// Bytes of a text up to which it is worth finding out which ones it has, where several others are
/// looked for in it.
const BYTES_MAX: usize = 48;

/// Bytes of a literal that lies in its pattern.
const SHORT: usize = 21;

#[derive(Clone, Debug)]
enum PatternKind {
    /// A literal of so many bytes: most are asked about and do not match.
    Short(LiteralPosition, u8, [u8; SHORT]),
    Long(LiteralPosition, Box<[u8]>),
    Contains(Box<SubstringFinder>),
    Glob(Box<Glob>),
    Regex(Box<CompiledRegex>),
}

/// Literals with anything between them; an empty first or last one: anything goes there.
#[derive(Clone, Debug)]
struct Glob {
    parts: Box<[Box<[u8]>]>,
    /// Finders of those in between.
    finders: Box<[Finder<'static>]>,
}

/// Place of a literal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LiteralPosition {
    /// It is the text.
    Alone,
    First,
    Last,
}

/// A literal that may stand anywhere.
#[derive(Clone, Debug)]
struct SubstringFinder {
    finder: Finder<'static>,
    /// Place in it of the byte by which it is looked for, if its case does not count.
    rarest: usize,
}

impl TextPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// The regular expression is none, or is too large.
    pub fn parse(text: &str) -> Result<Self, PackError> {
        let (ignore_case, body) = match text.strip_prefix("i:") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if let Some((expression, flags)) = expression(body) {
            let ignore_case = ignore_case || flags == "i";
            let shape = PatternKind::Regex(Box::new(CompiledRegex::new(expression, ignore_case)?));
            return Ok(Self {
                shape,
                needs: ByteMask::UNKNOWN,
                ignore_case,
            });
        }
        let mut parts = pieces(body);
        if ignore_case {
            parts
                .iter_mut()
                .for_each(|part| part.make_ascii_lowercase());
        }
        let mut needs = ByteMask::UNKNOWN;
        let shape = match parts.as_slice() {
            [all] => PatternKind::literal(LiteralPosition::Alone, all),
            [first, last] if last.is_empty() => PatternKind::literal(LiteralPosition::First, first),
            [first, last] if first.is_empty() => PatternKind::literal(LiteralPosition::Last, last),
            [first, middle, last] if first.is_empty() && last.is_empty() => {
                if !ignore_case {
                    needs = ByteMask::of(middle);
                }
                PatternKind::Contains(Box::new(SubstringFinder {
                    finder: Finder::new(middle).into_owned(),
                    rarest: rarest(middle),
                }))
            }
            parts => {
                let middle = parts.get(1..parts.len() - 1).unwrap_or_default();
                let finders = middle.iter().map(|part| Finder::new(part).into_owned());
                PatternKind::Glob(Box::new(Glob {
                    finders: finders.collect(),
                    parts: parts.iter().map(|part| part.as_slice().into()).collect(),
                }))
            }
        };
        Ok(Self {
            shape,
            needs,
            ignore_case,
        })
    }

    /// The same as [`Self::matches`], for a text that is asked about several patterns: which bytes
    /// it has is found out once.
    #[inline]
    pub(crate) fn matches_of(&self, text: &[u8], bytes: &mut ByteMask) -> bool {
        if self.needs.0 != 0 && text.len() <= BYTES_MAX {
            if bytes.0 == 0 {
                *bytes = ByteMask::of(text);
            }
            if self.needs.0 & !bytes.0 != 0 {
                return false;
            }
        }
        self.matches(text)
    }

    /// True if `text` matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        match &self.shape {
            PatternKind::Short(stands, length, bytes) => {
                self.stands(*stands, &bytes[..usize::from(*length).min(SHORT)], text)
            }
            PatternKind::Long(stands, literal) => self.stands(*stands, literal, text),
            PatternKind::Contains(part) => self.find(text, &part.finder, part.rarest).is_some(),
            PatternKind::Glob(glob) => self.glob(text, glob),
            PatternKind::Regex(regex) => regex.is_match(text),
        }
    }

    /// True if a literal stands there.
    #[inline]
    fn stands(&self, stands: LiteralPosition, literal: &[u8], text: &[u8]) -> bool {
        let part = match stands {
            LiteralPosition::Alone => Some(text),
            LiteralPosition::First => text.get(..literal.len()),
            LiteralPosition::Last => text.len().checked_sub(literal.len()).map(|at| &text[at..]),
        };
        part.is_some_and(|part| self.is_same(part, literal))
    }

    #[inline]
    fn is_same(&self, text: &[u8], literal: &[u8]) -> bool {
        match self.ignore_case {
            true => text.eq_ignore_ascii_case(literal),
            false => same(text, literal),
        }
    }

    /// Place of a text in another; `by` is the byte of it by which it is looked for, if its
    /// case does not count.
    fn find(&self, text: &[u8], finder: &Finder<'_>, by: usize) -> Option<usize> {
        if !self.ignore_case {
            return finder.find(text);
        }
        let part = finder.needle();
        let Some(byte) = part.get(by).copied() else {
            return Some(0);
        };
        let last = text.len().checked_sub(part.len())?;
        let rest = text.get(by..=last + by)?;
        let same = |at: &usize| text[*at..*at + part.len()].eq_ignore_ascii_case(part);
        let upper = byte.to_ascii_uppercase();
        if byte == upper {
            return memchr::memchr_iter(byte, rest).find(same);
        }
        memchr::memchr2_iter(byte, upper, rest).find(same)
    }

    fn glob(&self, text: &[u8], Glob { parts, finders }: &Glob) -> bool {
        let (Some((first, rest)), mut at) = (parts.split_first(), 0) else {
            return true;
        };
        let Some((last, middle)) = rest.split_last() else {
            return text == &**first;
        };
        if text.len() < first.len() + last.len() || !self.is_same(&text[..first.len()], first) {
            return false;
        }
        let end = text.len() - last.len();
        if !self.is_same(&text[end..], last) {
            return false;
        }
        at += first.len();
        for (part, finder) in middle.iter().zip(finders) {
            match self.find(&text[at..end], finder, rarest(part)) {
                Some(found) => at += found + part.len(),
                None => return false,
            }
        }
        true
    }

    /// Anchor by which candidates can be found. Case is ignored by whoever looks.
    pub(crate) fn anchor(&self) -> Option<Anchor<'_>> {
        match &self.shape {
            PatternKind::Contains(part) => {
                let text = part.finder.needle();
                (text.len() >= 2).then_some(Anchor::Contains(text))
            }
            PatternKind::Glob(glob) => {
                let first = glob.parts.first().filter(|part| !part.is_empty());
                let longest = glob.parts.iter().max_by_key(|part| part.len());
                first.map(|part| Anchor::Prefix(part)).or_else(|| {
                    longest
                        .filter(|p| p.len() >= 2)
                        .map(|p| Anchor::Contains(p))
                })
            }
            PatternKind::Regex(expression) => expression.anchor(),
            PatternKind::Short(..) | PatternKind::Long(..) => match self.literal()? {
                (LiteralPosition::Alone, text) => Some(Anchor::Exact(text)),
                (_, []) => None,
                (LiteralPosition::First, text) => Some(Anchor::Prefix(text)),
                (LiteralPosition::Last, text) => Some(Anchor::Suffix(text)),
            },
        }
    }

    /// True if it matches wherever one text stands.
    pub(crate) fn is_contained(&self) -> bool {
        matches!(self.shape, PatternKind::Contains(..))
    }

    /// The literal that stands at one place, if it is nothing else.
    fn literal(&self) -> Option<(LiteralPosition, &[u8])> {
        match &self.shape {
            PatternKind::Short(stands, length, bytes) => {
                Some((*stands, bytes.get(..usize::from(*length))?))
            }
            PatternKind::Long(stands, text) => Some((*stands, text)),
            _ => None,
        }
    }

    /// True if ASCII case is ignored.
    pub(crate) fn ignores_case(&self) -> bool {
        self.ignore_case
    }

    /// True if it surely matches all that `other` matches.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        if other.ignore_case && !self.ignore_case {
            return false;
        }
        let begins = |long: &[u8], short: &[u8]| {
            long.get(..short.len())
                .is_some_and(|head| match self.ignore_case {
                    true => head.eq_ignore_ascii_case(short),
                    false => head == short,
                })
        };
        match (&self.shape, &other.shape) {
            (PatternKind::Contains(wide), PatternKind::Contains(one)) => {
                let one = one.finder.needle();
                self.find(one, &wide.finder, wide.rarest).is_some()
            }
            (PatternKind::Contains(wide), _) => match other.literal() {
                Some((LiteralPosition::Alone | LiteralPosition::First, one)) => {
                    self.find(one, &wide.finder, wide.rarest).is_some()
                }
                _ => false,
            },
            (PatternKind::Regex(wide), PatternKind::Regex(one)) => {
                wide.written() == one.written() && self.ignore_case == other.ignore_case
            }
            _ => match (self.literal(), other.literal()) {
                (Some((LiteralPosition::Alone, wide)), Some((LiteralPosition::Alone, one))) => {
                    wide.len() == one.len() && begins(one, wide)
                }
                (
                    Some((LiteralPosition::First, wide)),
                    Some((LiteralPosition::Alone | LiteralPosition::First, one)),
                ) => begins(one, wide),
                _ => false,
            },
        }
    }
}

impl PatternKind {
    fn literal(stands: LiteralPosition, text: &[u8]) -> Self {
        let mut bytes = [0; SHORT];
        match bytes.get_mut(..text.len()) {
            Some(short) => {
                short.copy_from_slice(text);
                Self::Short(stands, text.len() as u8, bytes)
            }
            None => Self::Long(stands, text.into()),
        }
    }
}

/// Letters that stand in few texts, the fewest first.
const RARE: &[u8] = b"qzxjkvwybfghpmu";

/// Place of the byte that is found in the fewest texts.
fn rarest(part: &[u8]) -> usize {
    let rank = |byte: &u8| memchr::memchr(*byte, RARE).unwrap_or(RARE.len());
    let ranks = part.iter().map(rank).enumerate();
    ranks.min_by_key(|(_, rank)| *rank).map_or(0, |(at, _)| at)
}

/// The expression between slashes, and what stands behind the second.
fn expression(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('/')?;
    let end = rest.rfind('/')?;
    let flags = &rest[end + 1..];
    (matches!(flags, "" | "i") && end > 0).then(|| (&rest[..end], flags))
}

/// The literals between the stars; a backslash takes the meaning from what follows.
fn pieces(text: &str) -> Vec<Vec<u8>> {
    let mut parts = vec![Vec::new()];
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let literal = match byte {
            b'*' => {
                parts.push(Vec::new());
                continue;
            }
            b'\\' => bytes.next().unwrap_or(b'\\'),
            other => other,
        };
        if let Some(part) = parts.last_mut() {
            part.push(literal);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        let compiled = TextPattern::parse(pattern).expect(pattern);
        for text in yes {
            assert!(compiled.matches(text.as_bytes()), "{pattern} on {text}");
        }
        for text in no {
            assert!(!compiled.matches(text.as_bytes()), "{pattern} on {text}");
        }
    }

    #[test]
    fn every_shape_matches_what_it_says() {
        check("sshd", &["sshd"], &["sshd2", "SSHD", ""]);
        check("i:sshd", &["sshd", "SshD"], &["sshd2"]);
        check("hx-*", &["hx-", "hx-a"], &["hx", "ahx-"]);
        check("*.py", &["a.py", ".py"], &["py", "a.pyc"]);
        check("*Id=*", &["xId=3", "Id="], &["id=", ""]);
        check("i:*ID=*", &["xiD=3"], &["i="]);
        check("a*b*c", &["abc", "axxbyyc"], &["ab", "acb", "abcd"]);
        check("*a*b*", &["xaxbx", "ab"], &["ba"]);
        check("", &[""], &["x"]);
        check("*", &["", "x"], &[]);
        check(r"\*a", &["*a"], &["xa"]);
        check(r"\/a/", &["/a/"], &["a"]);
        check("/^a+$/", &["a", "aaa"], &["ab", ""]);
        check("/^a+$/i", &["AA"], &["ab"]);
        // A character beyond ASCII is as many bytes as it has.
        check("/a.{1,2}b/", &["a\u{e9}b", "axb"], &["ab"]);
        check("/opt/x/y", &["/opt/x/y"], &["opt"]);
    }

    #[test]
    fn what_would_explode_is_refused() {
        let error = TextPattern::parse("/((a{1,100}){1,100}){1,100}/").expect_err("too large");
        assert!(error.to_string().contains("too large"), "{error}");
        assert!(TextPattern::parse("/a(/").is_err());
    }
}
