//! Looking for the ends of words, and what bytes words are made of.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// A word of which the lowest byte with its high bit set is the first that equals `byte`. (Bytes
/// above that one may be set falsely.)
#[inline]
const fn equal_to(eight: u64, byte: u8) -> u64 {
    let difference = eight ^ (ONES * byte as u64);
    difference.wrapping_sub(ONES) & !difference & HIGHS
}

/// Offset of the first space from `at` on, or the end. Header words are a few bytes long, so
/// eight bytes at a time in a register are quicker than a call into a vector search; and quicker
/// than sixteen, because the next word is begun on the guess that this one is as long as the
/// last, which a branch allows and arithmetic does not.
#[inline]
pub(super) fn word_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at;
    while let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let spaces = equal_to(u64::from_le_bytes(*eight), b' ');
        if spaces != 0 {
            return at + spaces.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < bytes.len() && bytes[at] != b' ' {
        at += 1;
    }
    at
}

/// Offset of the first byte from `at` on that is no space, or the end. One space is the rule; it
/// is stepped over without a branch.
#[inline]
pub(super) fn skip_spaces(bytes: &[u8], at: usize) -> usize {
    let mut at = at + usize::from(bytes.get(at) == Some(&b' '));
    while bytes.get(at) == Some(&b' ') {
        at += 1;
    }
    at
}

/// True for the blanks that separate words: a space, and the tab that some senders write.
#[inline]
pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Offset of the first byte from `at` on that is no blank, or the end.
#[inline]
pub(super) fn skip_blanks(bytes: &[u8], at: usize) -> usize {
    let mut at = at;
    while bytes.get(at).copied().is_some_and(is_blank) {
        at += 1;
    }
    at
}

/// Digits from `at` on, at most `most`.
#[inline]
pub(super) fn digit_count(bytes: &[u8], at: usize, most: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter()
        .take(most)
        .take_while(|byte| byte.is_ascii_digit())
        .count()
}

/// Offset of the first byte in `bytes` that is `one` or `other`.
#[inline]
pub(super) fn first_of(bytes: &[u8], one: u8, other: u8) -> Option<usize> {
    let (eights, rest) = bytes.as_chunks::<8>();
    for (at, eight) in eights.iter().enumerate() {
        let eight = u64::from_le_bytes(*eight);
        let found = equal_to(eight, one) | equal_to(eight, other);
        if found != 0 {
            return Some(at * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|byte| [one, other].contains(byte))?;
    Some(bytes.len() - rest.len() + at)
}

/// Class of a byte that may be part of a name: no bit, so that the classes of several bytes are
/// looked at together.
const NAME: u8 = 0;
/// Ends an RFC 3164 tag.
const TAG_END: u8 = 1;
/// Part of no name, and the end of no tag.
const OTHER: u8 = 2;

/// Host names and tags are made of everything printable but what opens a text of another kind:
/// JSON, XML, key=value, CSV, quotes.
static CLASS: [u8; 256] = {
    let mut class = [OTHER; 256];
    let mut byte = 0x21;
    while byte < 256 {
        class[byte] = match byte as u8 {
            0x7f | b'{' | b'}' | b'"' | b'<' | b'>' | b'(' | b')' | b'=' | b'|' | b',' | b';' => {
                OTHER
            }
            b'\'' | b'`' | b'\\' => OTHER,
            b'[' | b':' => TAG_END,
            _ => NAME,
        };
        byte += 1;
    }
    class[b' ' as usize] = TAG_END;
    class
};

/// Bytes at the start of `bytes` that can stand in a name. A colon or bracket cannot.
#[inline]
pub(super) fn name_len(bytes: &[u8]) -> usize {
    let class = |byte: &u8| CLASS[usize::from(*byte)];
    let (fours, _) = bytes.as_chunks::<4>();
    let mut len = 0;
    for [a, b, c, d] in fours {
        if class(a) | class(b) | class(c) | class(d) != NAME {
            break;
        }
        len += 4;
    }
    while bytes.get(len).is_some_and(|byte| class(byte) == NAME) {
        len += 1;
    }
    len
}

/// True if every byte of `word` can stand in a name.
#[inline]
pub(super) fn is_name(word: &[u8]) -> bool {
    name_len(word) == word.len()
}

/// True if `word` can be an IPv6 address, with or without its zone.
pub(super) fn is_ipv6_like(word: &[u8]) -> bool {
    let address = word.split(|&byte| byte == b'%').next().unwrap_or_default();
    address.iter().filter(|&&byte| byte == b':').count() >= 2
        && address
            .iter()
            .all(|&byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'))
}

/// Length of the name at the start of `bytes` if a space, `[`, `:` or the end follows it.
#[inline]
pub(super) fn tag_len(bytes: &[u8]) -> Option<usize> {
    let len = name_len(bytes);
    let ends = |byte: &u8| CLASS[usize::from(*byte)] == TAG_END;
    bytes.get(len).is_none_or(ends).then_some(len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes of every class, those of names more often.
    fn headers() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            8 => prop::sample::select(&b"abcxyzABZ019-._%/@"[..]),
            1 => prop::sample::select(&b" []:{}\"=,;'`\\|<>()"[..]),
            1 => any::<u8>(),
        ];
        prop::collection::vec(byte, 0..40)
    }

    proptest! {
        #[test]
        fn bytes_looked_at_together_are_as_those_looked_at_singly(bytes in headers()) {
            let class = |byte: &u8| CLASS[usize::from(*byte)];
            let name = bytes.iter().take_while(|byte| class(byte) == NAME).count();
            prop_assert_eq!(name_len(&bytes), name);
            prop_assert_eq!(is_name(&bytes), bytes.iter().all(|byte| class(byte) == NAME));
            let tag = bytes.iter().find(|byte| class(byte) != NAME);
            let tag = tag.is_none_or(|byte| class(byte) == TAG_END).then_some(name);
            prop_assert_eq!(tag_len(&bytes), tag);
            let first = bytes.iter().position(|byte| matches!(byte, b']' | b' '));
            prop_assert_eq!(first_of(&bytes, b']', b' '), first);
        }
    }

    #[test]
    fn names_are_of_what_is_printable_and_opens_no_other_text() {
        for byte in 0..=255_u8 {
            let other = byte < 0x20 || b"\x7f{}\"<>()=|,;'`\\".contains(&byte);
            let expected = match byte {
                b' ' | b'[' | b':' => TAG_END,
                _ if other => OTHER,
                _ => NAME,
            };
            assert_eq!(
                CLASS[usize::from(byte)],
                expected,
                "{}",
                byte.escape_ascii()
            );
        }
    }

    #[test]
    fn words_end_at_the_first_space_wherever_it_lies() {
        for len in 0..40 {
            for tail in [
                &b" rest of it, long enough"[..],
                b" ",
                b"",
                b" \x1f\x21\xa0",
            ] {
                let bytes = [&vec![b'\xa0'; len][..], tail].concat();
                assert_eq!(word_end(&bytes, 0), len, "{}", bytes.escape_ascii());
            }
        }
        assert_eq!(word_end(b"", 0), 0);
    }

    #[test]
    fn addresses_with_colons_are_told_from_tags() {
        for word in [
            &b"fe80::1%eth0"[..],
            b"::1",
            b"2001:db8::17",
            b"::ffff:192.0.2.1",
        ] {
            assert!(is_ipv6_like(word), "{}", word.escape_ascii());
        }
        for word in [&b"CEF:0|x"[..], b"kernel:", b"a:b", b"10.0.0.1"] {
            assert!(!is_ipv6_like(word), "{}", word.escape_ascii());
        }
    }
}
