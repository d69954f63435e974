//! Short texts, compared where they stand.

/// True if two texts are the same, as `a == b` says. Most texts that rules compare have a few
/// bytes: for them a call of `memcmp` costs more than the comparison.
#[inline]
pub fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match a.len() {
        0 => true,
        // The first, the last and the one in the middle are all there are.
        length @ 1..4 => {
            let at = |text: &[u8]| (text[0], text[length / 2], text[length - 1]);
            at(a) == at(b)
        }
        // Both ends overlap, or meet.
        4..8 => ends::<4>(a) == ends::<4>(b),
        8..=16 => ends::<8>(a) == ends::<8>(b),
        _ => a == b,
    }
}

/// The first and the last bytes of a text that has so many.
#[inline]
fn ends<const N: usize>(text: &[u8]) -> (Option<&[u8; N]>, Option<&[u8; N]>) {
    (text.first_chunk(), text.last_chunk())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_what_equality_says(mut text in "[ab]{0,40}", at in 0usize..40, add in 0usize..2) {
            let other = text.clone();
            if let Some(old) = text.get(at..=at).map(str::to_owned) {
                text.replace_range(at..=at, if old == "a" { "b" } else { "a" });
            }
            text.truncate(text.len() - add.min(text.len()));
            prop_assert_eq!(same(text.as_bytes(), other.as_bytes()), text == other);
            prop_assert!(same(other.as_bytes(), other.clone().as_bytes()));
        }
    }
}
