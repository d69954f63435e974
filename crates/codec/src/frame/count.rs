//! Octet counts: `MSG-LEN SP`, at the start of a frame or in the middle of garbage.

use inrush_event::limits::{OCTET_COUNT_DIGITS_MAX, OCTET_COUNT_MAX};

/// Octet count at the start of a frame, if there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OctetCount {
    /// A count and its space, `header` bytes together, of a message of `body` bytes.
    Of { header: usize, body: usize },
    /// It may become a count when more bytes are there.
    Open,
    /// No count: no digit, too many, zero, more than is believed, or no space after them.
    Broken,
}

/// Reads the count at the start of `bytes`.
pub(super) fn read_count(bytes: &[u8]) -> OctetCount {
    let mut body = 0;
    for (digits, &byte) in bytes.iter().enumerate().take(OCTET_COUNT_DIGITS_MAX + 1) {
        match byte {
            b'0'..=b'9' if digits < OCTET_COUNT_DIGITS_MAX => {
                body = body * 10 + usize::from(byte - b'0');
            }
            b' ' if digits > 0 && (1..=OCTET_COUNT_MAX).contains(&body) => {
                return OctetCount::Of {
                    header: digits + 1,
                    body,
                };
            }
            _ => return OctetCount::Broken,
        }
    }
    // All digits so far; that many plus one would have been refused above.
    OctetCount::Open
}

/// Start of a counted message before a `<` in garbage, if there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CountedStart {
    /// Its count begins at this offset.
    At(usize),
    /// It depends on bytes that have not come yet.
    Open,
    /// It does not.
    No,
}

/// Start of the counted message of which the `<` at `angle` opens the PRI, if it follows a
/// believable count that begins after `from`. Digits after a digit, `-` or `.` are part of some
/// other number.
pub(super) fn start_before(arena: &[u8], from: usize, angle: usize) -> CountedStart {
    let before = &arena[from..angle];
    let Some(digits_and_before) = before.strip_suffix(b" ") else {
        return CountedStart::No;
    };
    let digits = digits_and_before
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit());
    // One more than allowed is enough to know that there are too many.
    let digits = digits.take(OCTET_COUNT_DIGITS_MAX + 1).count();
    let begin = angle - 1 - digits;
    if begin == from || matches!(arena[begin - 1], b'-' | b'.') {
        return CountedStart::No;
    }
    if !matches!(read_count(&arena[begin..angle]), OctetCount::Of { .. }) {
        return CountedStart::No;
    }
    match opens_pri(&arena[angle..]) {
        Some(true) => CountedStart::At(begin),
        Some(false) => CountedStart::No,
        None => CountedStart::Open,
    }
}

/// True if `bytes` begin with `<`, one to three digits and `>`; `None` while that is open.
pub(super) fn opens_pri(bytes: &[u8]) -> Option<bool> {
    for (index, &byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            b'0'..=b'9' if index <= 3 => {}
            b'>' => return Some(index > 1),
            _ => return Some(false),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_are_believed_and_counts_that_are_not() {
        let of = |header, body| OctetCount::Of { header, body };
        for (bytes, expected) in [
            (&b"5 hello"[..], of(2, 5)),
            (b"16777216 ", of(9, OCTET_COUNT_MAX)),
            (b"007 x", of(4, 7)),
            (b"", OctetCount::Open),
            (b"12345678", OctetCount::Open),
            (b"123456789", OctetCount::Broken),
            (b"12345678901234567890 <34>", OctetCount::Broken),
            (b"16777217 ", OctetCount::Broken),
            (b"10737418240 <34>", OctetCount::Broken),
            (b"0 <34>", OctetCount::Broken),
            (b"-1 <34>", OctetCount::Broken),
            (b" 5 hello", OctetCount::Broken),
            (b"5\thello", OctetCount::Broken),
            (b"<34>", OctetCount::Broken),
        ] {
            assert_eq!(read_count(bytes), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn starts_in_garbage() {
        for (bytes, expected) in [
            (&b"x12 <34>"[..], CountedStart::At(1)),
            (b"x12 <191>1", CountedStart::At(1)),
            (b"x12 <19", CountedStart::Open),
            (b"x12 <", CountedStart::Open),
            (b"x12 <>", CountedStart::No),
            (b"x12 <1913>", CountedStart::No),
            (b"x12 <b>", CountedStart::No),
            (b"12 <34>", CountedStart::No), // at the very start it was looked at already
            (b"x <34>", CountedStart::No),
            (b"x12  <34>", CountedStart::No),
            (b"-12 <34>", CountedStart::No),
            (b"x123456789 <34>", CountedStart::No),
            (b"x0 <34>", CountedStart::No),
        ] {
            let angle = bytes.iter().position(|&byte| byte == b'<').unwrap_or(0);
            assert_eq!(
                start_before(bytes, 0, angle),
                expected,
                "{}",
                bytes.escape_ascii()
            );
        }
    }
}
