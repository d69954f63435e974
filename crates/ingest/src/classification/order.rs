//! Order in which the events of a batch are recognised.
//!
//! Events that begin alike meet the same rules. One after the other they find these rules, and the
//! code that reads them, in the nearest caches; between others they would wait for both each time.

use inrush_event::{Record, Span};

/// Fewer events are recognised as they came.
const LEAST: usize = 16;

/// Kinds that are told apart. Where two meet, the events of both come by turns, as they came.
const KINDS: usize = 256;

/// Bytes of the program and of the message that make a kind.
const WORD: usize = 8;

/// Memory that is used again for each batch.
#[derive(Default)]
pub(super) struct EventOrder {
    kinds: Vec<u8>,
    places: Vec<u32>,
}

impl EventOrder {
    /// Places of the records with those of one kind together, in the order of their arrival; `None`
    /// if there are too few to gain by it.
    pub(super) fn of(&mut self, arena: &[u8], records: &[Record]) -> Option<&[u32]> {
        if records.len() < LEAST {
            return None;
        }
        let mut ends = [0u32; KINDS];
        self.kinds.clear();
        self.kinds.extend(records.iter().map(|record| {
            let kind = kind(arena, record);
            ends[usize::from(kind)] += 1;
            kind
        }));
        let mut next = 0;
        for end in &mut ends {
            next += *end;
            *end = next;
        }
        self.places.clear();
        self.places.resize(records.len(), 0);
        for (at, kind) in self.kinds.iter().enumerate().rev() {
            let end = &mut ends[usize::from(*kind)];
            *end -= 1;
            self.places[*end as usize] = at as u32;
        }
        Some(&self.places)
    }
}

/// A number that is the same for events that begin alike.
fn kind(arena: &[u8], record: &Record) -> u8 {
    let (program, message) = (word(arena, record.app), word(arena, record.message));
    let both = program.rotate_left(32) ^ message ^ record.format as u64;
    (both.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// The first bytes of a text; one digit is as good as another.
#[inline]
fn word(arena: &[u8], span: Span) -> u64 {
    let length = span.len().min(WORD);
    let bytes = match arena.get(span.start()..).and_then(<[u8]>::first_chunk) {
        Some(bytes) => u64::from_le_bytes(*bytes),
        // The last bytes of the arena.
        None => {
            let rest = arena.get(span.start()..).unwrap_or_default();
            let bytes = rest.iter().rev();
            bytes.fold(0, |word, byte| word << 8 | u64::from(*byte))
        }
    };
    let word = match length {
        WORD => bytes,
        length => bytes & ((1 << (8 * length)) - 1),
    };
    without_digits(word)
}

/// The same bytes with `0` in place of each digit.
#[inline]
fn without_digits(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // A digit is no more than 9 beyond `0`, so that 0x76 more do not reach the highest bit.
    let above = word ^ (ONES * u64::from(b'0'));
    let other = (((above & (ONES * 0x7f)) + ONES * 0x76) | above) & (ONES * 0x80);
    let digits = (other >> 7) ^ ONES;
    word & !(digits * 0x0f)
}

#[cfg(test)]
mod tests {
    use inrush_event::{Anomalies, Timestamp};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Each place comes once, and those of one kind stay in the order of their arrival.
        #[test]
        fn it_is_an_order_of_all(
            texts in prop::collection::vec("(a|b|c|12:|%ASA-[0-9]|)[a-z0-9]{0,9}", 0..200),
        ) {
            let mut arena = Vec::new();
            let mut records = Vec::new();
            for text in &texts {
                let start = arena.len();
                arena.extend_from_slice(text.as_bytes());
                let raw = Span::new(start, arena.len());
                let received = Timestamp::NONE;
                records.push(Record::unparsed(raw, received, 0, Anomalies::NONE));
            }
            let mut order = EventOrder::default();
            let places = order.of(&arena, &records).map(<[u32]>::to_vec);
            prop_assert_eq!(places.is_some(), texts.len() >= LEAST);
            let Some(places) = places else {
                return Ok(());
            };
            let mut sorted = places.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..texts.len() as u32).collect::<Vec<_>>());
            let kind_at = |place: u32| kind(&arena, &records[place as usize]);
            for pair in places.windows(2) {
                let kinds = (kind_at(pair[0]), kind_at(pair[1]));
                prop_assert!(kinds.0 < kinds.1 || kinds.0 == kinds.1 && pair[0] < pair[1]);
            }
        }

        #[test]
        fn only_digits_go(text in prop::collection::vec(any::<u8>(), WORD)) {
            let one = |byte: &u8| if byte.is_ascii_digit() { b'0' } else { *byte };
            let expected: Vec<u8> = text.iter().map(one).collect();
            let word = u64::from_le_bytes(text.try_into().expect("eight bytes"));
            prop_assert_eq!(without_digits(word).to_le_bytes().to_vec(), expected);
        }

        /// Bytes behind a text are none of it, wherever in the arena it lies.
        #[test]
        fn a_word_is_of_its_text(text in "[a-z]{0,12}", behind in "[a-z]{0,12}") {
            let arena = [text.as_bytes(), behind.as_bytes()].concat();
            let mut expected = [0; WORD];
            let length = text.len().min(WORD);
            expected[..length].copy_from_slice(&text.as_bytes()[..length]);
            let found = word(&arena, Span::new(0, text.len()));
            prop_assert_eq!(found.to_le_bytes(), expected);
        }
    }

    #[test]
    fn numbers_do_not_make_kinds() {
        let kinds = |text: &str| {
            let raw = Span::new(0, text.len());
            let record = Record::unparsed(raw, Timestamp::NONE, 0, Anomalies::NONE);
            kind(text.as_bytes(), &record)
        };
        assert_eq!(kinds("%ASA-6-302013: x"), kinds("%ASA-4-106023: y"));
        assert_ne!(kinds("%ASA-6-302013: x"), kinds("%FTD-6-302013: x"));
    }
}
