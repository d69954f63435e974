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
    let near = bytes.get(at..).and_then(<[u8]>::first_chunk::<5>);
    let usual = near.and_then(|near| usual_pri(*near));
    match usual {
        Some((value, len)) => Pri::Good {
            value,
            end: at + len,
        },
        None => rare_pri(bytes, at),
    }
}

/// The value and length of a PRI of one to three digits; `None` if it needs a closer look.
#[inline]
fn usual_pri([open, a, b, c, d]: [u8; 5]) -> Option<(u8, usize)> {
    let digit = |byte: u8| byte.wrapping_sub(b'0');
    let (first, second, third) = (digit(a), digit(b), digit(c));
    if open != b'<' || first > 9 {
        return None;
    }
    if b == b'>' {
        return Some((first, 3));
    }
    if second > 9 {
        return None;
    }
    let two = first * 10 + second;
    if c == b'>' {
        return Some((two, 4));
    }
    // Above 191 is no PRI.
    let value = u16::from(two) * 10 + u16::from(third);
    (third <= 9 && d == b'>' && value < 192).then_some((value as u8, 5))
}

/// The PRI of a record that ends behind it, or one that is none.
#[cold]
fn rare_pri(bytes: &[u8], at: usize) -> Pri {
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

    /// All that five bytes of these can be, with more behind them and without.
    #[test]
    fn usual_and_rare_ways_read_the_same() {
        const BYTES: &[u8] = b"<>0125689-a ";
        let count = BYTES.len();
        for number in 0..count.pow(5) {
            let digit = |place: u32| BYTES[number / count.pow(place) % count];
            let bytes: [u8; 5] = std::array::from_fn(|place| digit(place as u32));
            for text in [[&bytes[..], b"> x"].concat(), bytes.to_vec()] {
                let (read, rare) = (read_pri(&text, 0), rare_pri(&text, 0));
                assert_eq!(read, rare, "{}", text.escape_ascii());
            }
        }
    }
}
