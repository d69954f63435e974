//! Sets of bytes that all programs share.
//!
//! Most expressions ask for digits, for what is no blank and the like. A set that is kept once lies
//! in the cache whichever program ran before; one of each program's own would be waited for.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

/// Tables of all sets. An expression that would need one more is left to the general engine.
const TABLES_MAX: usize = 128;

/// Sets that share a table: each is a bit of it.
const OF_TABLE: usize = 8;

type ByteSetTable = [AtomicU8; 256];

static TABLES: [ByteSetTable; TABLES_MAX] =
    [const { [const { AtomicU8::new(0) }; 256] }; TABLES_MAX];

/// The sets that there are, in the order of their numbers.
static KNOWN: Mutex<Vec<ByteMembers>> = Mutex::new(Vec::new());

/// The members of a set.
pub(super) type ByteMembers = Box<[bool; 256]>;

/// A set of bytes. It stays as it is from when it was made on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ByteSet {
    table: u8,
    /// Its bit of the table.
    bit: u8,
}

impl ByteSet {
    /// The set of all bytes, which is made first.
    const ALL: Self = Self { table: 0, bit: 1 };

    /// The set of these bytes; `None`: there are too many sets.
    pub(super) fn new(members: ByteMembers) -> Option<Self> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_empty() {
            TABLES[0]
                .iter()
                .for_each(|bits| bits.store(Self::ALL.bit, Ordering::Relaxed));
            known.push(Box::new([true; 256]));
        }
        let number = known.iter().position(|known| *known == members);
        let number = number.unwrap_or(known.len());
        let set = Self {
            table: u8::try_from(number / OF_TABLE).ok()?,
            bit: 1 << (number % OF_TABLE),
        };
        if number == known.len() {
            let table = TABLES.get(usize::from(set.table))?;
            for (bits, member) in table.iter().zip(members.iter()) {
                bits.fetch_or(u8::from(*member) * set.bit, Ordering::Relaxed);
            }
            known.push(members);
        }
        Some(set)
    }

    /// True if the set has the byte. Whoever has a set has seen it being made: no memory order is
    /// needed.
    #[inline]
    pub(super) fn contains(self, byte: u8) -> bool {
        let table = &TABLES[usize::from(self.table) % TABLES_MAX];
        table[usize::from(byte)].load(Ordering::Relaxed) & self.bit != 0
    }

    /// Number of bytes at the beginning of a text that are of the set.
    #[inline]
    pub(super) fn run(self, text: &[u8]) -> usize {
        if self == Self::ALL {
            return text.len();
        }
        // A branch for every four bytes.
        let (fours, _) = text.as_chunks::<4>();
        let whole = |four: &&[u8; 4]| {
            four.iter()
                .fold(true, |all, byte| all & self.contains(*byte))
        };
        let begun = 4 * fours.iter().take_while(whole).count();
        let rest = text[begun..].iter();
        begun + rest.take_while(|byte| self.contains(**byte)).count()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_has_the_bytes_that_were_given(
            some in prop::collection::vec(any::<u8>(), 0..4),
            invert in any::<bool>(),
        ) {
            let mut members = Box::new([invert; 256]);
            some.iter().for_each(|byte| members[usize::from(*byte)] = !invert);
            let set = ByteSet::new(members.clone());
            prop_assert_eq!(set, ByteSet::new(members.clone()));
            if let Some(set) = set {
                for byte in 0..=u8::MAX {
                    prop_assert_eq!(set.contains(byte), members[usize::from(byte)]);
                    let text = [byte, b'a', byte];
                    let run = text.iter().take_while(|byte| set.contains(**byte)).count();
                    prop_assert_eq!(set.run(&text), run);
                }
                prop_assert_eq!(set == ByteSet::ALL, members.iter().all(|member| *member));
            }
        }
    }
}
