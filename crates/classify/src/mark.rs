//! Marks of names of values: they tell most names apart without a look at their texts.

/// The length of a name, its first, middle and last byte: what differs there is another name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct NameFingerprint(u32);

impl NameFingerprint {
    /// The mark of a name.
    #[inline]
    pub fn of(name: &[u8]) -> Self {
        let at = |at: usize| name.get(at).copied().unwrap_or(0);
        let (middle, last) = (name.len() / 2, name.len().wrapping_sub(1));
        let bytes = [name.len() as u8, at(0), at(middle), at(last)];
        Self(u32::from_le_bytes(bytes))
    }

    /// The last byte of the name.
    pub(crate) fn last(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// Eight bits that differ for most marks.
    #[inline]
    pub(crate) fn hash(self) -> usize {
        (self.0.wrapping_mul(0x9e37_79b1) >> 24) as usize
    }
}
