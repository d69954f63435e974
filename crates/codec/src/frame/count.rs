//! Octet counts: `MSG-LEN SP`, at the start of a frame or in the middle of garbage.

use inrush_event::limits::{OCTET_COUNT_DIGITS_MAX, OCTET_COUNT_MAX};

/// Octet count at the start of a frame, if there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Count {
    /// A count and its space, `header` bytes together, of a message of `body` bytes.
    Of { header: usize, body: usize },
    /// It may become a count when more bytes are there.
    Open,
    /// No count: no digit, too many, zero, more than is believed, or no space after them.
    Broken,
}

/// Reads the count at the start of `bytes`.
pub(super) fn read_count(bytes: &[u8]) -> Count {
    let mut body = 0;
    for (digits, &byte) in bytes.iter().enumerate().take(OCTET_COUNT_DIGITS_MAX + 1) {
        match byte {
            b'0'..=b'9' if digits < OCTET_COUNT_DIGITS_MAX => {
                body = body * 10 + usize::from(byte - b'0');
            }
            b' ' if digits > 0 && (1..=OCTET_COUNT_MAX).contains(&body) => {
                return Count::Of {
                    header: digits + 1,
                    body,
                };
            }
            _ => return Count::Broken,
        }
    }
    // All digits so far; that many plus one would have been refused above.
    Count::Open
}

/// Start of a counted message before a `<` in garbage, if there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start {
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
pub(super) fn start_before(arena: &[u8], from: usize, angle: usize) -> Start {
    let before = &arena[from..angle];
    let Some(digits_and_before) = before.strip_suffix(b" ") else {
        return Start::No;
    };
    let digits = digits_and_before
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit());
    // One more than allowed is enough to know that there are too many.
    let digits = digits.take(OCTET_COUNT_DIGITS_MAX + 1).count();
    let begin = angle - 1 - digits;
    if begin == from || matches!(arena[begin - 1], b'-' | b'.') {
        return Start::No;
    }
    if !matches!(read_count(&arena[begin..angle]), Count::Of { .. }) {
        return Start::No;
    }
    match opens_pri(&arena[angle..]) {
        Some(true) => Start::At(begin),
        Some(false) => Start::No,
        None => Start::Open,
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
        let of = |header, body| Count::Of { header, body };
        for (bytes, expected) in [
            (&b"5 hello"[..], of(2, 5)),
            (b"16777216 ", of(9, OCTET_COUNT_MAX)),
            (b"007 x", of(4, 7)),
            (b"", Count::Open),
            (b"12345678", Count::Open),
            (b"123456789", Count::Broken),
            (b"12345678901234567890 <34>", Count::Broken),
            (b"16777217 ", Count::Broken),
            (b"10737418240 <34>", Count::Broken),
            (b"0 <34>", Count::Broken),
            (b"-1 <34>", Count::Broken),
            (b" 5 hello", Count::Broken),
            (b"5\thello", Count::Broken),
            (b"<34>", Count::Broken),
        ] {
            assert_eq!(read_count(bytes), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn starts_in_garbage() {
        for (bytes, expected) in [
            (&b"x12 <34>"[..], Start::At(1)),
            (b"x12 <191>1", Start::At(1)),
            (b"x12 <19", Start::Open),
            (b"x12 <", Start::Open),
            (b"x12 <>", Start::No),
            (b"x12 <1913>", Start::No),
            (b"x12 <b>", Start::No),
            (b"12 <34>", Start::No), // at the very start it was looked at already
            (b"x <34>", Start::No),
            (b"x12  <34>", Start::No),
            (b"-12 <34>", Start::No),
            (b"x123456789 <34>", Start::No),
            (b"x0 <34>", Start::No),
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
