//! Bytes of a long event that wait for more.
//!
//! An unfinished event is shown again with each read. A peer that is slow would so cost as much as
//! all of it with each byte. So a part is shown only once it is worth it.

use inrush_event::limits;

/// An unfinished event from which on parts are gathered, in bytes.
const EVENT_BYTES_MIN: usize = 256 * 1024;

/// Bytes that were read and not shown yet. Empty while events are short.
#[derive(Debug, Default)]
pub(super) struct GatheredBytes(Vec<u8>);

impl GatheredBytes {
    /// True if so much of an event, `kept` bytes, is shown again that parts are gathered.
    pub(super) fn is_for(kept: usize) -> bool {
        kept >= EVENT_BYTES_MIN
    }

    /// Memory that they take.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.capacity()
    }

    /// Takes the first `filled` bytes of the room, half of it at most, behind those of before.
    /// Returns how many bytes at the start of the room are to be shown now: all or none.
    pub(super) fn add(
        &mut self,
        room: &mut [u8],
        filled: usize,
        kept: usize,
        ended: bool,
    ) -> usize {
        if self.0.is_empty() && (ended || !Self::is_for(kept)) {
            return filled;
        }
        self.0.extend_from_slice(&room[..filled]);
        // The room is another one each time: this much and half a room always fit.
        let least = (kept / 4).min(limits::READ_BYTES_MIN / 2);
        if self.0.len() < least && !ended {
            return 0;
        }
        let gathered = std::mem::take(&mut self.0);
        room[..gathered.len()].copy_from_slice(&gathered);
        gathered.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes shown of an event of which 1 MiB is kept; each read has a room and what was filled.
    fn shown(reads: &[(usize, usize)]) -> Vec<usize> {
        let mut gathered = GatheredBytes::default();
        let mut add = |(bytes, filled): &(usize, usize)| {
            gathered.add(&mut vec![1; *bytes], *filled, 1 << 20, false)
        };
        reads.iter().map(&mut add).collect()
    }

    #[test]
    fn what_was_gathered_fits_into_a_room_that_has_become_smaller() {
        let smallest = limits::READ_BYTES_MIN;
        let reads = [(1 << 20, 250_000), (434_176, 217_088)];
        assert_eq!(shown(&reads), [250_000, 217_088]);
        let reads = [(1 << 20, smallest / 2 - 1), (smallest, smallest / 2)];
        assert_eq!(shown(&reads), [0, smallest - 1]);
    }

    #[test]
    fn short_events_and_ends_do_not_wait() {
        let (mut gathered, mut room) = (GatheredBytes::default(), [7; 8]);
        assert_eq!(gathered.add(&mut room, 4, EVENT_BYTES_MIN - 1, false), 4);
        assert_eq!(gathered.add(&mut room, 4, 1 << 20, false), 0);
        assert_eq!(gathered.add(&mut room, 3, 1 << 20, true), 7);
    }
}
