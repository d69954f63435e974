//! In what order texts are given to the search for many of them at once.
//!
//! That search (Teddy, in `aho-corasick`) puts the texts into eight buckets, one after the other,
//! and looks for the low and the high halves of their first bytes. A bucket of texts that begin
//! unlike each other is found in many places where none of them stands, and each of them is then
//! compared there. The order changes how often, never what is found.

/// Buckets; up to so many texts each have their own.
const BUCKETS: usize = 8;

/// Bytes of each text that are looked for at once, at most.
const MASK_MAX: usize = 4;

/// Rounds of exchanges at most; the third seldom finds any.
const ROUNDS_MAX: usize = 3;

/// Puts texts into the order in which the fewest comparisons are made for nothing.
pub fn arrange(texts: &mut Vec<&[u8]>) {
    texts.sort_unstable();
    let shortest = texts.iter().map(|text| text.len()).min().unwrap_or(0);
    if texts.len() <= BUCKETS || shortest == 0 {
        return;
    }
    let mask = shortest.min(MASK_MAX);
    // Those that begin alike into one bucket, to start with.
    let rows = texts.len().div_ceil(BUCKETS);
    let columns: Vec<_> = texts.chunks(rows).collect();
    let spread = (0..rows).flat_map(|row| columns.iter().filter_map(move |c| c.get(row).copied()));
    *texts = spread.collect();
    let common = ByteFrequencies::new();
    let mut least = common.cost(texts, mask);
    for _ in 0..ROUNDS_MAX {
        let before = least;
        for first in 0..texts.len() {
            for second in 0..first {
                texts.swap(first, second);
                let cost = common.cost(texts, mask);
                if cost < least {
                    least = cost;
                } else {
                    texts.swap(first, second);
                }
            }
        }
        if least >= before {
            return;
        }
    }
}

/// Share of each byte in all bytes of messages, roughly.
struct ByteFrequencies([f64; 256]);

impl ByteFrequencies {
    fn new() -> Self {
        let mut common = [0.0; 256];
        for (byte, share) in common.iter_mut().enumerate() {
            *share = match byte as u8 {
                b' ' => 90.0,
                b'a' | b'c' | b'd' | b'e' | b'i' | b'l' | b'n' | b'o' | b'r' | b's' | b't' => 36.0,
                b'a'..=b'z' => 14.0,
                b'0'..=b'9' => 24.0,
                b'A'..=b'Z' => 7.0,
                b'.' | b':' | b'=' | b'/' | b'-' | b'_' | b',' | b'"' => 22.0,
                b'!'..=b'~' => 3.0,
                _ => 1.0,
            };
        }
        let all: f64 = common.iter().sum();
        Self(common.map(|share| share / all))
    }

    /// Comparisons at one place of a message, on the average.
    fn cost(&self, texts: &[&[u8]], mask: usize) -> f64 {
        // The halves that a bucket looks for at each of the first bytes, and its texts.
        let mut buckets = [([(0u16, 0u16); MASK_MAX], 0.0); BUCKETS];
        let low_halves = |text: &[u8]| {
            let halves = text.iter().take(mask);
            halves.fold(0u16, |all, byte| all << 4 | u16::from(byte & 15))
        };
        for (at, text) in texts.iter().enumerate() {
            let same = |other: &&[u8]| low_halves(other) == low_halves(text);
            let first = texts[..at].iter().position(same).unwrap_or(at);
            let (halves, count) = &mut buckets[first % BUCKETS];
            for ((low, high), byte) in halves.iter_mut().zip(text.iter().take(mask)) {
                *low |= 1 << (byte & 15);
                *high |= 1 << (byte >> 4);
            }
            *count += 1.0;
        }
        let found = |(low, high): &(u16, u16)| -> f64 {
            let bytes = self.0.iter().enumerate();
            let of = bytes.filter(|(byte, _)| low >> (byte & 15) & high >> (byte >> 4) & 1 == 1);
            of.map(|(_, share)| share).sum()
        };
        let cost = |(halves, count): &([(u16, u16); MASK_MAX], f64)| -> f64 {
            let places: f64 = halves[..mask].iter().map(found).product();
            places * (1.0 + count)
        };
        buckets.iter().map(cost).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_stays_and_those_that_begin_alike_meet() {
        let texts = [
            "vendor=",
            "device=",
            "devid=",
            "devname=",
            "%ASA-",
            "%FTD-",
            "%PIX-",
            "CEF:",
            "LEEF:",
            "[Origin",
            "[Bright",
            "<Severity",
            ",f5_",
            ",com.",
            "msg_id=",
            "log_id=",
        ];
        let mut arranged: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        arrange(&mut arranged);
        let mut sorted = arranged.clone();
        sorted.sort_unstable();
        let mut all: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        all.sort_unstable();
        assert_eq!(sorted, all);
        let common = ByteFrequencies::new();
        let (before, after) = (common.cost(&all, 4), common.cost(&arranged, 4));
        assert!(after * 3.0 < before, "{after} of {before}");
    }
}
