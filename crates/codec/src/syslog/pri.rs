//! `<PRI>` (RFC 5424 section 6.2.1).

use super::scan::digit_count;

/// Bytes looked at between `<` and `>` for a PRI that is not one.
const BAD_PRI_BYTES: usize = 8;

/// PRI of a header, or what stands in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pri {
    /// 0 to 191; the header goes on at `end`.
    Good { value: u8, end: usize },
    /// Something else between `<` and `>`; `numeric` if it was meant as a number.
    Bad { numeric: bool, end: usize },
    /// Nothing of the kind.
    Absent,
}

/// Reads the PRI at `at`.
#[inline]
pub(super) fn read_pri(bytes: &[u8], at: usize) -> Pri {
    if bytes.get(at) != Some(&b'<') {
        return Pri::Absent;
    }
    let digits = digit_count(bytes, at + 1, 4);
    let end = at + 1 + digits;
    if !(1..=3).contains(&digits) || bytes.get(end) != Some(&b'>') {
        return bad_pri(bytes, at + 1);
    }
    let value = bytes[at + 1..end]
        .iter()
        .fold(0, |value, b| value * 10 + u32::from(b - b'0'));
    match value {
        0..=191 => Pri::Good {
            value: value as u8,
            end: end + 1,
        },
        _ => Pri::Bad {
            numeric: true,
            end: end + 1,
        },
    }
}

#[cold]
fn bad_pri(bytes: &[u8], at: usize) -> Pri {
    let near = bytes[at..].iter().take(BAD_PRI_BYTES + 1);
    let Some(len) = near.clone().position(|&byte| byte == b'>') else {
        return Pri::Absent;
    };
    let inside = &bytes[at..at + len];
    if inside.iter().any(|&byte| matches!(byte, b' ' | b'<')) {
        return Pri::Absent;
    }
    let numeric = inside
        .iter()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+'));
    Pri::Bad {
        numeric,
        end: at + len + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_bad_and_absent() {
        let good = |value, end| Pri::Good { value, end };
        let bad = |numeric, end| Pri::Bad { numeric, end };
        for (bytes, expected) in [
            (&b"<0>"[..], good(0, 3)),
            (b"<191>x", good(191, 5)),
            (b"<013>x", good(13, 5)),
            (b"<192>x", bad(true, 5)),
            (b"<999>x", bad(true, 5)),
            (b"<1234>x", bad(true, 6)),
            (b"<-1>x", bad(true, 4)),
            (b"<>x", bad(true, 2)),
            (b"<event>", bad(false, 7)),
            (b"<12345678>", bad(true, 10)),
            (b"<123456789>", Pri::Absent),
            (b"<a b>", Pri::Absent),
            (b"<34", Pri::Absent),
            (b"<", Pri::Absent),
            (b"34>", Pri::Absent),
            (b"", Pri::Absent),
        ] {
            assert_eq!(read_pri(bytes, 0), expected, "{}", bytes.escape_ascii());
        }
    }
}
