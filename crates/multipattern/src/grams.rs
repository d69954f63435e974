//! Looks for thousands of texts at once.
//!
//! Every fourth place of the text is looked at: do the four bytes there stand among the first
//! seven of any text that is looked for? One bit tells for nearly all places that they do not.
//! Where they may, the texts are gone through by how they begin. This costs about the same for ten
//! texts as for ten thousand, and little beside a pass of an automaton, whose states have to be
//! waited for.

use crate::trie::{Trie, TrieBuilder};

/// Bytes that are looked at together.
const GRAM: usize = 4;

/// Places from one look to the next.
const STEP: usize = 4;

/// Bytes that a text must have: one look at least falls on each place where it stands.
pub const LEAST: usize = GRAM + STEP - 1;

/// Bits for each of the bytes' values that stand in a text, and the most and the fewest in all:
/// they have to stay in the first cache.
const BITS_EACH: usize = 16;
const BITS_MAX_LOG2: u32 = 17;
const BITS_MIN_LOG2: u32 = 10;

/// Texts that are looked for.
#[derive(Debug)]
pub struct GramSearcher<V> {
    /// A bit for each hash of four bytes.
    bits: Box<[u64]>,
    shift: u32,
    texts: Trie<V>,
}

impl<V: Copy> GramSearcher<V> {
    /// Texts of [`LEAST`] bytes at least, each with its value.
    pub fn new<'t>(texts: impl Iterator<Item = (&'t [u8], V)> + Clone) -> Self {
        let grams = || {
            let beginnings = texts.clone().filter_map(|(text, _)| text.get(..LEAST));
            beginnings.flat_map(|text| text.windows(GRAM))
        };
        let wanted = (grams().count() * BITS_EACH).next_power_of_two().ilog2();
        let log2 = wanted.clamp(BITS_MIN_LOG2, BITS_MAX_LOG2);
        let shift = u32::BITS - log2;
        let mut bits = vec![0u64; 1 << (log2 - 6)].into_boxed_slice();
        for gram in grams() {
            let place = place(gram, shift);
            bits[place >> 6] |= 1 << (place & 63);
        }
        let mut branches = TrieBuilder::default();
        for (text, value) in texts.clone() {
            branches.insert(text.iter().copied(), value, false);
        }
        Self {
            bits,
            shift,
            texts: Trie::new(&branches),
        }
    }

    /// Adds the values of the texts that stand in `text`, at times those of one that stands there
    /// in another case.
    pub fn find(&self, text: &[u8], out: &mut Vec<V>) {
        for (index, gram) in text.chunks_exact(GRAM).enumerate() {
            let place = place(gram, self.shift);
            if self.bits[place >> 6] >> (place & 63) & 1 == 0 {
                continue;
            }
            let at = index * STEP;
            for from in at.saturating_sub(STEP - 1)..=at {
                self.texts.find(text[from..].iter(), out);
            }
        }
    }
}

// A look at every chunk of four bytes is one at every fourth place.
const _: () = assert!(GRAM == STEP);

fn place(gram: &[u8], shift: u32) -> usize {
    let mut bytes = [0; GRAM];
    bytes.copy_from_slice(gram);
    (u32::from_le_bytes(bytes).wrapping_mul(0x9e37_79b1) >> shift) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_text_is_found_wherever_it_stands(
            texts in prop::collection::vec("[ab]{7,12}", 1..20),
            text in "[ab]{0,40}",
        ) {
            let literals = texts.iter().enumerate();
            let grams = GramSearcher::new(literals.map(|(number, text)| (text.as_bytes(), number)));
            let mut found = Vec::new();
            grams.find(text.as_bytes(), &mut found);
            found.sort_unstable();
            found.dedup();
            let stand = |(_, one): &(usize, &String)| text.contains(one.as_str());
            let expected = texts.iter().enumerate().filter(stand).map(|(rule, _)| rule);
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }
}
