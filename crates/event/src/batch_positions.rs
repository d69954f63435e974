//! Positions of streams in a batch: noted while it is filled, carried when it is frozen.

use std::sync::Arc;

use crate::{Batch, BatchBuilder, PositionList, StreamPosition, limits};

impl BatchBuilder {
    /// Notes how far a stream was read: durable with this batch, and in place of what was noted of
    /// the stream before. A state that is longer than [`limits::POSITION_BYTES_MAX`] is refused,
    /// and `false` returned.
    pub fn note_position(&mut self, stream: u64, state: Box<[u8]>) -> bool {
        let fits = state.len() <= limits::POSITION_BYTES_MAX;
        if fits {
            self.positions.note(StreamPosition { stream, state });
        }
        fits
    }

    /// Takes what was noted.
    pub fn take_positions(&mut self) -> PositionList {
        std::mem::take(&mut self.positions)
    }

    /// Puts back what [`Self::take_positions`] took of this batch or an earlier one.
    pub fn put_positions(&mut self, earlier: PositionList) {
        let later = std::mem::replace(&mut self.positions, earlier);
        if !later.is_empty() {
            self.positions.append(later);
        }
    }

    /// Positions noted so far.
    pub fn positions(&self) -> &PositionList {
        &self.positions
    }
}

impl Batch {
    /// Places of streams that are durable with this batch, one a stream, by number. Empty for a
    /// batch that was read back from storage.
    pub fn positions(&self) -> &[StreamPosition] {
        self.positions.as_deref().unwrap_or_default()
    }

    /// The same, shared; `None` if there is none.
    pub fn shared_positions(&self) -> Option<&Arc<[StreamPosition]>> {
        self.positions.as_ref()
    }

    /// Has it carry these, in place of what it carries.
    pub fn carry(&mut self, positions: &Arc<[StreamPosition]>) {
        self.positions = Some(Arc::clone(positions));
    }

    /// Bytes of memory that its positions take.
    pub(crate) fn position_bytes(&self) -> usize {
        let each = |position: &StreamPosition| position.state.len() + size_of::<StreamPosition>();
        self.positions().iter().map(each).sum()
    }
}
