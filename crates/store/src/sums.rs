//! Checksums of a file: CRC-32C of each block of it, from the first byte to the last. They stand in
//! the commit, so a reader knows before it decodes whether a file is what was written.

use std::fmt::Write;
use std::ops::Range;

use inrush_event::crc32c;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Bytes of a block: what is read at least to check any of it. Larger ones cost a search that looks
/// at single pages more; smaller ones make the list of files longer (8 bytes a block).
pub const BLOCK_BYTES: u64 = 32 * 1024;

/// The checksums of a file; none for one that was written before there were any.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileChecksums(Vec<u32>);

impl FileChecksums {
    /// The checksums of a file's bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(bytes.chunks(BLOCK_BYTES as usize).map(crc32c).collect())
    }

    /// True if there are none: nothing can be checked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The blocks that have all bytes of `range`, as a range of bytes of a file of `size`.
    pub fn around(&self, range: &Range<u64>, size: u64) -> Range<u64> {
        if self.is_empty() || range.is_empty() {
            return range.clone();
        }
        let begin = range.start / BLOCK_BYTES * BLOCK_BYTES;
        let end = range.end.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
        begin..end.min(size)
    }

    /// The first block that is not as it was written, by its place in the file. `bytes` begin at
    /// `begin`, where a block does, and end where one does.
    pub fn broken(&self, begin: u64, bytes: &[u8]) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let first = (begin / BLOCK_BYTES) as usize;
        let blocks = bytes.chunks(BLOCK_BYTES as usize).enumerate();
        blocks
            .map(|(at, block)| (first + at, block))
            .find(|(number, block)| self.0.get(*number) != Some(&crc32c(block)))
            .map(|(number, _)| number as u64 * BLOCK_BYTES)
    }
}

impl Serialize for FileChecksums {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut digits = String::with_capacity(self.0.len() * 8);
        for sum in &self.0 {
            // Writing to a string does not fail.
            let _ = write!(digits, "{sum:08x}");
        }
        serializer.serialize_str(&digits)
    }
}

impl<'de> Deserialize<'de> for FileChecksums {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let sum = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).ok()?;
            (digits.len() == 8).then(|| u32::from_str_radix(digits, 16).ok())?
        };
        let sums: Option<Vec<u32>> = digits.as_bytes().chunks(8).map(sum).collect();
        sums.map(Self)
            .ok_or_else(|| de::Error::custom("checksums are eight hexadecimal digits each"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_is_noticed_and_its_block_named() {
        let bytes: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
        let sums = FileChecksums::of(&bytes);
        assert_eq!(sums.broken(0, &bytes), None);
        for at in [0, 1, 32_767, 32_768, 65_535, 65_536, 99_999] {
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            let block = at as u64 / BLOCK_BYTES * BLOCK_BYTES;
            assert_eq!(sums.broken(0, &flipped), Some(block), "{at}");
            let around = sums.around(&(at as u64..at as u64 + 1), bytes.len() as u64);
            assert_eq!(around.start, block);
            let part = &flipped[around.start as usize..around.end as usize];
            assert_eq!(sums.broken(around.start, part), Some(block));
        }
        assert_eq!(sums.broken(0, &bytes[..99_999]), Some(98_304), "cut short");
        let json = serde_json::to_string(&sums).unwrap();
        assert_eq!(serde_json::from_str::<FileChecksums>(&json).unwrap(), sums);
        assert!(serde_json::from_str::<FileChecksums>("\"1234\"").is_err());
        assert!(serde_json::from_str::<FileChecksums>("\"ü234567\"").is_err());
    }
}
