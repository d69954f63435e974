//! Reads one segment from front to back, over whatever is damaged in it.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use inrush_event::{BatchPool, PooledMemory, limits};
use memchr::memmem;

use crate::format::{
    FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, FrameTrailer, LogId, TRAILER_BYTES,
    TRAILER_MAGIC, payload_sum,
};
use crate::storage::{BLOCK_BYTES, StorageFile, insist};

/// Bytes asked of the file at once.
const READ_BYTES: usize = 1024 * 1024;

/// Tries of one read of the file, before it is read block by block.
const READ_TRIES: usize = 3;

/// Frames from so many bytes on are handed on where they lie.
pub(crate) const LARGE_BYTES: usize = limits::BATCH_COPY_BYTES;

/// Result of one step of a scan.
#[derive(Debug)]
pub(crate) enum ScanItem {
    /// A sound frame; its plain payload is [`SegmentScan::payload`].
    Frame(FrameHeader),
    /// Bytes that belong to no sound frame.
    Bad(Range<u64>),
    /// Nothing more, for now.
    End,
}

/// A place in a segment.
pub(crate) struct SegmentScan {
    file: Arc<dyn StorageFile>,
    log: LogId,
    /// Offset of the next frame.
    offset: u64,
    /// Nothing behind it is looked at: it may be being written.
    limit: u64,
    pool: Arc<BatchPool>,
    /// Its first bytes are what was read; where in the file they begin, which is on a block, and
    /// how many there are.
    buffer: PooledMemory,
    buffer_at: u64,
    held: usize,
    payload: Range<usize>,
    /// The furthest (position, event) that any sound header or trailer spoke of.
    pub(crate) seen_end: Option<(u64, u64)>,
    /// Position and first event in the first sound header, whether its frame is sound or not.
    pub(crate) seen_first: Option<(u64, u64)>,
    /// True if the file ends within a frame whose header is sound.
    pub(crate) is_cut: bool,
}

impl SegmentScan {
    /// From `offset`, which is where a frame begins, up to `limit`.
    pub(crate) fn new(file: Arc<dyn StorageFile>, log: LogId, offset: u64, limit: u64) -> Self {
        Self::with(file, log, offset, limit, BatchPool::new())
    }

    /// The same with memory of this pool, so that [`Self::take_payload`] is cheap.
    pub(crate) fn with(
        file: Arc<dyn StorageFile>,
        log: LogId,
        offset: u64,
        limit: u64,
        pool: Arc<BatchPool>,
    ) -> Self {
        Self {
            file,
            log,
            offset,
            limit,
            pool,
            buffer: PooledMemory::default(),
            buffer_at: block_of(offset),
            held: 0,
            payload: 0..0,
            seen_end: None,
            seen_first: None,
            is_cut: false,
        }
    }

    /// Offset of the next frame.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Lets more of the file be read.
    pub(crate) fn set_limit(&mut self, bytes: u64) {
        self.limit = bytes;
    }

    /// The payload of the frame that [`Self::next`] has just found.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.buffer[self.payload.clone()]
    }

    /// The memory that [`Self::payload`] lies in, and where; it cannot be asked for again. Only
    /// what was read beyond the frame is copied.
    pub(crate) fn take_payload(&mut self) -> (PooledMemory, Range<usize>) {
        let rest = (block_of(self.offset) - self.buffer_at) as usize..self.held;
        let mut fresh = self.memory(rest.len());
        fresh[..rest.len()].copy_from_slice(&self.buffer[rest.clone()]);
        (self.buffer_at, self.held) = (block_of(self.offset), rest.len());
        let buffer = std::mem::replace(&mut self.buffer, fresh);
        (buffer, std::mem::take(&mut self.payload))
    }

    /// The next frame, or what lies in its place.
    ///
    /// # Errors
    /// The length of the file cannot be told.
    pub(crate) fn next(&mut self) -> io::Result<ScanItem> {
        let len = insist(|| self.file.len())?.min(self.limit);
        if self.offset >= len {
            self.let_go();
            return Ok(ScanItem::End);
        }
        let from = self.offset;
        if let Some(header) = self.header_at(from, len) {
            self.saw(header.position + 1, header.end_event());
            self.seen_first
                .get_or_insert((header.position, header.first_event));
            let end = from.saturating_add(header.frame_bytes());
            self.is_cut = end > len;
            if end <= len && self.is_sound(&header, len) {
                self.offset = end;
                return Ok(ScanItem::Frame(header));
            }
        }
        self.offset = self.next_header(from + 1, len);
        if self.offset == len && self.is_padding(from, len) {
            return Ok(ScanItem::End);
        }
        Ok(ScanItem::Bad(from..self.offset))
    }

    /// True if nothing but the zeros of the rest of a block is there.
    fn is_padding(&mut self, from: u64, len: u64) -> bool {
        let count = (len - from) as usize;
        count < BLOCK_BYTES && self.bytes(from, count, len).iter().all(|byte| *byte == 0)
    }

    fn saw(&mut self, position: u64, event: u64) {
        let (p, e) = self.seen_end.unwrap_or_default();
        self.seen_end = Some((p.max(position), e.max(event)));
    }

    fn header_at(&mut self, offset: u64, len: u64) -> Option<FrameHeader> {
        let log = self.log;
        FrameHeader::decode(&log, self.bytes(offset, FRAME_HEADER_BYTES, len))
    }

    /// True if payload and trailer of the frame at the offset are whole.
    fn is_sound(&mut self, header: &FrameHeader, len: u64) -> bool {
        let (offset, log) = (self.offset, self.log);
        let stored = header.stored_bytes as usize;
        let frame = self.bytes(offset, header.frame_bytes() as usize, len);
        let payload = FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + stored;
        let trailer = FrameTrailer::decode(&log, frame.get(payload.end..).unwrap_or_default());
        let sound = trailer.is_some_and(|t| t.end_position == header.position + 1)
            && payload_sum(&log, header, &frame[payload.clone()]) == header.payload_sum;
        let start = (offset - self.buffer_at) as usize;
        self.payload = start + payload.start..start + payload.end;
        sound
    }

    /// Offset of the next sound header, at `from` or behind it; the end of the file if nowhere.
    /// Trailers on the way are taken note of.
    fn next_header(&mut self, from: u64, len: u64) -> u64 {
        let mut at = from;
        while at < len {
            let window = self.bytes(at, READ_BYTES, len);
            let window_bytes = window.len();
            let mut candidates: Vec<(usize, bool)> = memmem::find_iter(window, &FRAME_MAGIC)
                .map(|offset| (offset, true))
                .chain(memmem::find_iter(window, &TRAILER_MAGIC).map(|offset| (offset, false)))
                .collect();
            candidates.sort_unstable();
            for (offset, is_header) in candidates {
                let offset = at + offset as u64;
                if !is_header {
                    self.note_trailer(offset, len);
                } else if self.header_at(offset, len).is_some() {
                    return offset;
                }
            }
            // A header may begin in the last bytes of this window.
            at += window_bytes.saturating_sub(FRAME_HEADER_BYTES).max(1) as u64;
        }
        len
    }

    fn note_trailer(&mut self, offset: u64, len: u64) {
        let log = self.log;
        if let Some(trailer) = FrameTrailer::decode(&log, self.bytes(offset, TRAILER_BYTES, len)) {
            self.saw(trailer.end_position, trailer.end_event);
        }
    }

    /// Up to `count` bytes at `offset`; fewer at the end of the file. What cannot be read is zero.
    fn bytes(&mut self, offset: u64, count: usize, len: u64) -> &[u8] {
        let left = (len - offset.min(len)) as usize;
        let count = count.min(left);
        let held = self.buffer_at..self.buffer_at + self.held as u64;
        if offset < held.start || offset + count as u64 > held.end {
            // A large frame is given away as it lies here: little is read beyond it.
            let want = match count {
                0..LARGE_BYTES => count.max(READ_BYTES),
                LARGE_BYTES.. => count + FRAME_HEADER_BYTES,
            };
            self.read(block_of(offset), offset + want.min(left) as u64);
        }
        let start = (offset - self.buffer_at) as usize;
        &self.buffer[start..start + count]
    }

    /// Has the buffer hold what is between the block at `start` and `end`; the whole blocks of it
    /// that it holds are not read again.
    fn read(&mut self, start: u64, end: u64) {
        let held = self.buffer_at..block_of(self.buffer_at + self.held as u64);
        let kept = match held.contains(&start) {
            true => (start - held.start) as usize..(held.end - held.start) as usize,
            false => 0..0,
        };
        let want = (end - start) as usize;
        let whole = want.next_multiple_of(BLOCK_BYTES);
        if whole > self.buffer.len() {
            let mut longer = self.memory(whole);
            longer[..kept.len()].copy_from_slice(&self.buffer[kept.clone()]);
            self.buffer = longer;
        } else {
            self.buffer.copy_within(kept.clone(), 0);
        }
        (self.buffer_at, self.held) = (start, want.max(kept.len()));
        self.fill(kept.len(), whole.max(kept.len()));
    }

    /// So many bytes: few of their own, or an arena of the pool.
    fn memory(&self, bytes: usize) -> PooledMemory {
        match bytes {
            0..LARGE_BYTES => vec![0; bytes].into(),
            LARGE_BYTES.. => self.pool.lend_bytes(bytes),
        }
    }

    /// Gives the memory back: whoever has caught up may not come again for long.
    fn let_go(&mut self) {
        self.buffer = PooledMemory::default();
        (self.buffer_at, self.held) = (block_of(self.offset), 0);
    }

    /// Reads into these bytes of the buffer, of which only what is held counts.
    fn fill(&mut self, from: usize, to: usize) {
        let at = self.buffer_at + from as u64;
        let wanted = &mut self.buffer[from..to];
        for _ in 0..READ_TRIES {
            if let Ok(read) = self.file.read_at(wanted, at) {
                wanted[read..].fill(0);
                return;
            }
        }
        for (index, block) in wanted.chunks_mut(BLOCK_BYTES).enumerate() {
            let at = at + (index * BLOCK_BYTES) as u64;
            if self.file.read_at(block, at).is_err() {
                block.fill(0);
            }
        }
    }
}

/// Offset of the block that this offset is in.
const fn block_of(offset: u64) -> u64 {
    offset - offset % BLOCK_BYTES as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::storage::{DiskStorage, Storage};

    /// What a file that holds `bytes` and no frame reads as.
    fn scanned(bytes: &[u8]) -> (ScanItem, ScanItem) {
        let folder = tempfile::tempdir().unwrap();
        let file = DiskStorage::open(folder.path())
            .unwrap()
            .create("f")
            .unwrap();
        file.write_at(&[bytes], 0).unwrap();
        let mut scan = SegmentScan::new(file, LogId::from_bytes([7; 16]), 0, u64::MAX);
        (scan.next().unwrap(), scan.next().unwrap())
    }

    #[test]
    fn the_rest_of_a_block_is_no_damage_and_more_than_that_is() {
        assert!(matches!(
            scanned(&[0; 4095]),
            (ScanItem::End, ScanItem::End)
        ));
        let (first, second) = scanned(&[0; 4096]);
        assert!(matches!(first, ScanItem::Bad(ref bytes) if *bytes == (0..4096)));
        assert!(matches!(second, ScanItem::End));
        let (first, _) = scanned(&[&[0; 100][..], b"x"].concat());
        assert!(matches!(first, ScanItem::Bad(ref bytes) if *bytes == (0..101)));
    }
}
