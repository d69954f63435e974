//! Positions of a source's streams in the names block of a frame, right behind the source.

use std::sync::Arc;

use inrush_event::{Batch, StreamPosition, limits};

use super::frame::{FLAGS_KNOWN, FrameHeader};
use super::payload::text;
use super::{FieldReader, FieldWriter};

/// The number of a stream, and the length of its state.
const POSITION_BYTES_MIN: usize = 12;

/// Bytes that the positions of a batch take in its frame.
pub(crate) fn position_bytes(batch: &Batch) -> usize {
    let states = batch.positions().iter().map(|one| one.state.len());
    states.map(|state| POSITION_BYTES_MIN + state).sum()
}

/// Appends the positions: their number, then of each its stream, the length of the state, and the
/// state.
pub(crate) fn push<'a>(
    positions: impl ExactSizeIterator<Item = (u64, &'a [u8])>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&(positions.len() as u32).to_le_bytes());
    for (stream, state) in positions {
        let mut head = FieldWriter::<POSITION_BYTES_MIN>::new();
        head.put(&stream.to_le_bytes());
        head.put(&(state.len() as u32).to_le_bytes());
        out.extend_from_slice(&head.done());
        out.extend_from_slice(state);
    }
}

/// Shows each position to `look`; `None` if they are none.
pub(crate) fn take(fields: &mut FieldReader<'_>, mut look: impl FnMut(u64, &[u8])) -> Option<()> {
    let count = fields.u32();
    if count as usize > fields.0.len() / POSITION_BYTES_MIN {
        return None;
    }
    for _ in 0..count {
        let (stream, length) = (fields.u64(), fields.u32() as usize);
        let (state, rest) = fields.0.split_at_checked(length)?;
        if length > limits::POSITION_BYTES_MAX {
            return None;
        }
        look(stream, state);
        fields.0 = rest;
    }
    Some(())
}

/// The source and the positions in the payload of a sound frame; `None` if it has none, or
/// contradicts itself.
pub(crate) fn decode_positions(
    header: &FrameHeader,
    payload: &[u8],
) -> Option<(String, Arc<[StreamPosition]>)> {
    if !header.has_positions() || header.flags & !FLAGS_KNOWN != 0 {
        return None;
    }
    let mut fields = FieldReader(payload.get(..header.names_bytes as usize)?);
    let _sequence = fields.u64();
    let source = text(&mut fields)?;
    let (_index, _sourcetype) = (text(&mut fields)?, text(&mut fields)?);
    let mut positions = Vec::new();
    take(&mut fields, |stream, state| {
        let state = state.into();
        positions.push(StreamPosition { stream, state });
    })?;
    Some((source, positions.into()))
}
