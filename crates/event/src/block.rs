//! Positions of signs in a text, 64 bytes at a time.

use wide::u8x16;

/// A block of a text: a bit of each mask stands for a byte, the lowest for the first.
///
/// Texts of many short pieces are taken apart by masks: a branch for each byte of a piece is
/// guessed wrong once a piece, which costs more than to look at all 64 bytes.
pub struct SimdBlock {
    lanes: [u8x16; 4],
    /// The bytes that are there.
    there: u64,
}

impl SimdBlock {
    /// Bytes of a block.
    pub const BYTES: usize = 64;

    /// The bytes from `at` on. Behind the end of the text no sign stands.
    #[inline]
    pub fn at(text: &[u8], at: usize) -> Self {
        let rest = text.get(at..).unwrap_or_default();
        match rest.first_chunk() {
            Some(bytes) => Self::of(bytes, u64::MAX),
            None => {
                let mut bytes = [0; Self::BYTES];
                bytes[..rest.len()].copy_from_slice(rest);
                Self::of(&bytes, (1 << rest.len()) - 1)
            }
        }
    }

    #[inline]
    fn of(bytes: &[u8; Self::BYTES], there: u64) -> Self {
        let lane = |lane: usize| {
            let bytes = bytes.as_chunks::<16>().0;
            u8x16::from(bytes[lane])
        };
        let lanes = [lane(0), lane(1), lane(2), lane(3)];
        Self { lanes, there }
    }

    #[inline]
    fn mask(&self, of_lane: impl Fn(u8x16) -> u8x16) -> u64 {
        let lanes = self.lanes.iter().rev();
        let mask = lanes.fold(0, |mask, lane| {
            mask << 16 | u64::from(of_lane(*lane).to_bitmask())
        });
        mask & self.there
    }

    /// The bytes that are `sign`.
    #[inline]
    pub fn equal(&self, sign: u8) -> u64 {
        self.mask(|lane| lane.simd_eq(u8x16::splat(sign)))
    }

    /// The bytes that are one of `signs` or no larger than `most`.
    #[inline]
    pub fn equal_any_or_most<const N: usize>(&self, signs: [u8; N], most: u8) -> u64 {
        self.mask(|lane| {
            let low = lane.min(u8x16::splat(most)).simd_eq(lane);
            let all = signs.iter().map(|sign| lane.simd_eq(u8x16::splat(*sign)));
            all.fold(low, |all, one| all | one)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_say_where_bytes_stand() {
        let text: Vec<u8> = (0..=u8::MAX).chain(*b"=\"a ").collect();
        for at in 0..text.len() + 2 {
            let block = SimdBlock::at(&text, at);
            let mask = |is: &dyn Fn(u8) -> bool| {
                let rest = text.get(at..).unwrap_or_default();
                let bytes = rest.iter().take(SimdBlock::BYTES).enumerate();
                bytes.fold(0, |mask, (bit, byte)| mask | u64::from(is(*byte)) << bit)
            };
            for sign in [0, b'=', b'"', 0x80, 0xff] {
                assert_eq!(block.equal(sign), mask(&|byte| byte == sign), "{at} {sign}");
            }
            let found = block.equal_any_or_most([b'=', 0xff], b' ');
            let expected = mask(&|byte| byte <= b' ' || byte == b'=' || byte == 0xff);
            assert_eq!(found, expected, "{at}");
        }
    }
}
