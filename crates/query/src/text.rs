//! Case-insensitive search in texts: the one definition of "whatever its case" for the words and
//! phrases of a query.
//!
//! The SQL function `has(raw, 'needle')`, and whatever skips files or blocks by the needles of a
//! query, must agree on it to the letter, or a search would lose events. So both use [`fold`].
//!
//! Folding goes character by character and keeps ASCII and the rest apart: `A` becomes `a` and `Ä`
//! becomes `ä`, but the Kelvin sign does not become `k`. That is less than Unicode's case folding
//! and keeps the usual case fast: what is ASCII is folded bytewise, and an ASCII needle is never
//! hidden in anything else.

use memchr::memmem::Finder;
use memchr::{memchr_iter, memchr2_iter};

/// Characters of logs, the most frequent first; what is not among them is rare.
const FREQUENT: &[u8] = b" e0t1a2i3noslr.d-c5467=9m8up:_/fhgbvyw\"kx,[]();qzj";

/// The character with its case taken away.
pub fn fold_char(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(only), None) if !only.is_ascii() => only,
        _ => c,
    }
}

/// Appends the text with its case taken away to `to`.
pub fn fold_into(text: &str, to: &mut String) {
    if text.is_ascii() {
        let begin = to.len();
        to.push_str(text);
        if let Some(added) = to.get_mut(begin..) {
            added.make_ascii_lowercase();
        }
    } else {
        to.extend(text.chars().map(fold_char));
    }
}

/// The text with its case taken away.
pub fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    fold_into(text, &mut folded);
    folded
}

/// A word or phrase to look for, whatever its case. Looking costs time in step with the text, for
/// any needle.
#[derive(Debug, Clone)]
pub struct Needle {
    finder: Finder<'static>,
    /// Needle for texts that are not folded, if it is ASCII. Only the two cases of its own letters
    /// fold into it.
    plain: Option<AsciiNeedle>,
}

/// A needle of ASCII, and which of its bytes to look for first.
#[derive(Debug, Clone)]
struct AsciiNeedle {
    folded: Box<[u8]>,
    /// Offset of its rarest byte, and that byte in both cases.
    at: usize,
    cases: [u8; 2],
}

impl AsciiNeedle {
    /// None where there is nothing to look for.
    fn new(folded: &str) -> Option<Self> {
        let bytes = folded.as_bytes();
        if !folded.is_ascii() {
            return None;
        }
        let rarity = |byte: &u8| {
            FREQUENT
                .iter()
                .position(|b| b == byte)
                .unwrap_or(usize::MAX)
        };
        let (at, rarest) = bytes.iter().enumerate().max_by_key(|(_, b)| rarity(b))?;
        Some(Self {
            at,
            cases: [*rarest, rarest.to_ascii_uppercase()],
            folded: bytes.into(),
        })
    }

    fn is_in(&self, text: &[u8]) -> bool {
        let (before, length) = (self.at, self.folded.len());
        let Some(last) = text.len().checked_sub(length) else {
            return false;
        };
        // The rarest byte can only be where all of the needle has room around it.
        let room = &text[before..=last + before];
        let here = |at: usize| text[at..at + length].eq_ignore_ascii_case(&self.folded);
        let [lower, upper] = self.cases;
        if lower == upper {
            memchr_iter(lower, room).any(here)
        } else {
            memchr2_iter(lower, upper, room).any(here)
        }
    }
}

impl Needle {
    /// The needle of a phrase; its case does not matter.
    pub fn new(phrase: &str) -> Self {
        let folded = fold(phrase);
        Self {
            plain: AsciiNeedle::new(&folded),
            finder: Finder::new(folded.as_bytes()).into_owned(),
        }
    }

    /// True if `text` contains it anywhere. `scratch` may be overwritten; give the same one again
    /// and nothing is allocated.
    pub fn is_in(&self, text: &str, scratch: &mut String) -> bool {
        if let Some(plain) = &self.plain {
            return plain.is_in(text.as_bytes());
        }
        scratch.clear();
        fold_into(text, scratch);
        self.is_in_folded(scratch)
    }

    /// True if a text that went through [`fold_into`] contains it. So a text is folded once for
    /// several needles, as are many texts that lie beside each other.
    pub fn is_in_folded(&self, folded: &str) -> bool {
        self.finder.find(folded.as_bytes()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_needle_is_found_as_in_the_folded_text(
            text in "[a-cA-C ÄäÜ\u{212a}kK1]{0,12}",
            phrase in "[a-cA-C ÄäkK1]{0,3}",
        ) {
            let expected = fold(&text).contains(&fold(&phrase));
            let needle = Needle::new(&phrase);
            prop_assert_eq!(needle.is_in(&text, &mut String::new()), expected);
        }
    }

    #[test]
    fn case_is_ignored_and_nothing_else() {
        let cases = [
            ("Access denied for ROOT", "access DENIED", true),
            ("Access  denied", "access denied", false),
            ("keepalive", "keep", true),
            ("Zugriff für MÜLLER", "müller", true),
            ("ΣΟΦΟΣ", "σοφοσ", true),
            ("3 \u{212a}", "3 k", false),
            ("3 k", "3 \u{212a}", false),
            ("Straße", "STRASSE", false),
            ("İ", "İ", true),
            ("", "a", false),
            ("a", "", true),
        ];
        let mut scratch = String::from("what was there before");
        for (text, phrase, found) in cases {
            let needle = Needle::new(phrase);
            assert_eq!(
                needle.is_in(text, &mut scratch),
                found,
                "{phrase} in {text}"
            );
        }
    }

    #[test]
    fn folding_twice_changes_nothing() {
        for c in (0..=0x10ffff).filter_map(char::from_u32) {
            let once = fold_char(c);
            assert_eq!(fold_char(once), once, "{c:?}");
            assert_eq!(once.is_ascii(), c.is_ascii(), "{c:?}");
        }
    }
}
