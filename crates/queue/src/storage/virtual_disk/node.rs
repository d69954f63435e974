//! One file: what readers see, what is on stable storage, and the writes in between.

use std::collections::HashMap;

use fastrand::Rng;

/// Bytes that a disk writes whole or not at all.
const SECTOR_BYTES: u64 = 512;

#[derive(Default)]
pub(super) struct VirtualInode {
    /// Bytes that reads see.
    cached: Vec<u8>,
    /// Bytes that a power cut cannot take.
    durable: Vec<u8>,
    /// Changes since the last sync, oldest first.
    unsynced: Vec<UnsyncedChange>,
    /// Mark of the last write that went well, of those that a power cut cannot take.
    pub(super) synced_mark: Option<u64>,
    /// Mark of the last write that went well, of those that reads show.
    pub(super) written_mark: Option<u64>,
    /// [`Self::written_mark`] when the sync began that is under way, if it was said.
    begun_mark: Option<Option<u64>>,
    /// Of what was to be written, by offset and checksum: when that was first. Written once more,
    /// it is no newer.
    marks: HashMap<(u64, u32), u64>,
    /// True if a sync has failed since that write: then no later one makes it durable.
    forgotten: bool,
}

enum UnsyncedChange {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
}

/// Part of the unsynced changes that outlives a power cut. Chance alone would hardly ever keep or
/// lose everything, and those are the usual cases.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Survival {
    All,
    Nothing,
    /// Writes reached the disk in order, up to one that is torn.
    InOrder,
    /// Each write for itself.
    AtWill,
}

impl Survival {
    pub(super) fn of_power_cut(rng: &mut Rng) -> Self {
        match rng.u8(..6) {
            0 => Self::All,
            1 => Self::Nothing,
            2 => Self::InOrder,
            _ => Self::AtWill,
        }
    }

    pub(super) fn name_survives(self, rng: &mut Rng) -> bool {
        match self {
            Self::All => true,
            Self::Nothing => false,
            Self::InOrder | Self::AtWill => rng.bool(),
        }
    }
}

impl VirtualInode {
    pub(super) fn len(&self) -> u64 {
        self.cached.len() as u64
    }

    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let start = (offset as usize).min(self.cached.len());
        let read = buffer.len().min(self.cached.len() - start);
        buffer[..read].copy_from_slice(&self.cached[start..start + read]);
        read
    }

    /// Takes note of what is to be written at `mark`; says since when it is known.
    pub(super) fn meant(&mut self, offset: u64, bytes: &[u8], mark: u64) -> u64 {
        let sum = inrush_event::crc32c(bytes);
        *self.marks.entry((offset, sum)).or_insert(mark)
    }

    /// Writes; `mark` says since when it is known, if the whole of what was meant.
    pub(super) fn write(&mut self, offset: u64, bytes: Vec<u8>, mark: Option<u64>) {
        if mark.is_some() {
            self.written_mark = self.written_mark.max(mark);
            self.forgotten = false;
        }
        put(&mut self.cached, offset, &bytes);
        self.unsynced.push(UnsyncedChange::Write { offset, bytes });
    }

    pub(super) fn set_len(&mut self, bytes: u64) {
        self.cached.resize(bytes as usize, 0);
        self.unsynced.push(UnsyncedChange::SetLen(bytes));
    }

    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            change.survive(&mut self.durable);
        }
        let begun = self.begun_mark.take();
        if !self.forgotten {
            self.synced_mark = begun.unwrap_or(self.written_mark);
        }
    }

    /// A sync begins; it promises nothing of what is written from now on.
    pub(super) fn begin_sync(&mut self) {
        self.begun_mark = Some(self.written_mark);
    }

    /// Nobody waits for a sync any more.
    pub(super) fn end_process(&mut self) {
        self.begun_mark = None;
    }

    /// A sync failed: what was dirty counts as clean from now on, wherever it got to.
    pub(super) fn forget_dirty(&mut self, rng: &mut Rng) {
        self.settle(Survival::of_power_cut(rng), rng);
        self.forgotten = true;
        self.begun_mark = None;
        if rng.bool() {
            // The pages were evicted: reads show the disk.
            self.cached.clone_from(&self.durable);
            self.written_mark = self.synced_mark;
        }
    }

    pub(super) fn cut_power(&mut self, survival: Survival, rng: &mut Rng) {
        self.settle(survival, rng);
        self.cached.clone_from(&self.durable);
    }

    /// Flips a bit; says in which byte. An empty file has none.
    pub(super) fn rot(&mut self, rng: &mut Rng) -> Option<u64> {
        let bytes = self.cached.len().min(self.durable.len());
        let (at, bit) = (rng.usize(..bytes.max(1)), rng.u8(..8));
        *self.cached.get_mut(at)? ^= 1 << bit;
        *self.durable.get_mut(at)? ^= 1 << bit;
        Some(at as u64)
    }

    /// Decides what of the unsynced changes is on stable storage.
    fn settle(&mut self, survival: Survival, rng: &mut Rng) {
        let changes = std::mem::take(&mut self.unsynced);
        let whole = match survival {
            Survival::All => changes.len(),
            Survival::Nothing => return,
            Survival::InOrder => rng.usize(..=changes.len()),
            Survival::AtWill => 0,
        };
        for (number, change) in changes.into_iter().enumerate() {
            if number < whole {
                change.survive(&mut self.durable);
            } else if survival == Survival::AtWill {
                change.survive_in_part(&mut self.durable, rng);
            } else {
                return change.survive_in_part(&mut self.durable, rng);
            }
        }
    }
}

impl UnsyncedChange {
    fn survive(self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => put(content, offset, &bytes),
            Self::SetLen(bytes) => content.resize(bytes as usize, 0),
        }
    }

    fn survive_in_part(self, content: &mut Vec<u8>, rng: &mut Rng) {
        let Self::Write { offset, bytes } = self else {
            if rng.bool() {
                self.survive(content);
            }
            return;
        };
        match rng.u8(..8) {
            0 | 1 => put(content, offset, &bytes),
            2 | 3 => {}
            4 => put(content, offset, &bytes[..rng.usize(..=bytes.len())]),
            // The length is kept in the file's own block, which may reach the disk alone.
            5 => grow(content, offset + bytes.len() as u64),
            _ => put_sectors(content, offset, &bytes, rng),
        }
    }
}

fn grow(content: &mut Vec<u8>, bytes: u64) {
    if (content.len() as u64) < bytes {
        content.resize(bytes as usize, 0);
    }
}

fn put(content: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = offset + bytes.len() as u64;
    grow(content, end);
    content[offset as usize..end as usize].copy_from_slice(bytes);
}

/// Writes each sector of the range or leaves it, at will.
fn put_sectors(content: &mut Vec<u8>, offset: u64, bytes: &[u8], rng: &mut Rng) {
    let end = offset + bytes.len() as u64;
    let mut at = offset;
    while at < end {
        let next = end.min((at / SECTOR_BYTES + 1) * SECTOR_BYTES);
        if rng.bool() {
            let part = (at - offset) as usize..(next - offset) as usize;
            put(content, at, &bytes[part]);
        }
        at = next;
    }
}
