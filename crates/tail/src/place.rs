//! Place that the reader of a log has come to: the generation that it reads, and those in which an
//! event began that is not complete.
//!
//! # What it guarantees
//! * A generation below its known end brings no event again; only pieces of events that were open
//!   are taken.
//!
//! # Limits
//! 65,536 generations of a log in one process, of 256 TiB each.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use inrush_transport::files::identity::FileIdentity;

use super::position::{GENERATIONS_MAX, GenerationPosition, LogPosition, OpenEvent};

/// Bits of an origin that are the offset in its generation.
const OFFSET_BITS: u32 = 48;

/// Number of the generation of an origin.
fn number_of(origin: u64) -> u16 {
    (origin >> OFFSET_BITS) as u16
}

/// Place in a log.
#[derive(Debug)]
pub(super) struct LogPlace {
    /// Number of the log among the streams of its source.
    stream: u64,
    /// Name under which the log was found.
    path: Arc<Path>,
    /// Generations that were read to their end, with their numbers, oldest first.
    before: Vec<(u16, GenerationPosition)>,
    /// Number of the generation that is read.
    number: u16,
    identity: FileIdentity,
    /// Bytes of it that are taken.
    taken: u64,
    /// Bytes of it that an earlier process has taken.
    known: u64,
    /// Its length when it was last looked at.
    pub(super) length: u64,
    /// Origins of the events that were open when an earlier process ended, by stream.
    resumed: Option<Box<[Option<u64>; 2]>>,
    /// True while the rest of a line that is too long is skipped.
    pub(super) skips: bool,
    /// True once nothing more of the log is read.
    pub(super) is_complete: bool,
}

impl LogPlace {
    /// The beginning of a log.
    pub(super) fn new(stream: u64, path: &Path, identity: FileIdentity) -> Self {
        Self {
            stream,
            path: path.into(),
            before: Vec::new(),
            number: 0,
            identity,
            taken: 0,
            known: 0,
            length: 0,
            resumed: None,
            skips: false,
            is_complete: false,
        }
    }

    /// The place at which reading begins, below `known` only for what is still open.
    pub(super) fn resume(&mut self, from: u64, known: u64, resumed: [Option<u64>; 2]) {
        (self.taken, self.known) = (from, known);
        self.resumed = (resumed != [None, None]).then(|| Box::new(resumed));
    }

    /// The log has another name. Returns true if it had not before.
    pub(super) fn rename(&mut self, path: &Path) -> bool {
        let is_new = *self.path != *path;
        if is_new {
            self.path = path.into();
        }
        is_new
    }

    /// Name of the log.
    pub(super) fn path(&self) -> &Arc<Path> {
        &self.path
    }

    /// Number of the log among the streams of its source.
    pub(super) fn stream(&self) -> u64 {
        self.stream
    }

    /// Bytes of the present generation that are taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Origin of the next line.
    pub(super) fn origin(&self) -> u64 {
        Self::origin_of(self.number, self.taken)
    }

    /// Origin of a line at an offset of a generation.
    pub(super) fn origin_of(number: u16, offset: u64) -> u64 {
        (u64::from(number) << OFFSET_BITS) | (offset & ((1 << OFFSET_BITS) - 1))
    }

    /// A number of the event of a log that begins there, which is the same whenever it is read:
    /// numbers of generations are not.
    pub(super) fn number_of_event(stream: u64, origin: u64) -> u64 {
        let offset = origin & ((1 << OFFSET_BITS) - 1);
        offset ^ stream.rotate_right(24)
    }

    /// All before an offset of the generation is passed over; `skips`: it lies within a line.
    pub(super) fn pass(&mut self, to: u64, skips: bool) {
        (self.taken, self.length, self.skips) = (to, to, skips);
    }

    /// So many bytes are taken.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.taken += bytes as u64;
    }

    /// The generation begins anew: it became shorter.
    pub(super) fn restart(&mut self) {
        (self.taken, self.known, self.skips) = (0, 0, false);
    }

    /// The next generation begins. Those before are kept from the first on in which one of the
    /// open events began.
    pub(super) fn begin_next(
        &mut self,
        identity: FileIdentity,
        known: u64,
        open: [Option<u64>; 2],
    ) {
        let generation = GenerationPosition {
            identity: std::mem::replace(&mut self.identity, identity),
            taken: self.taken,
            length: self.length,
        };
        self.before.push((self.number, generation));
        let oldest = open.iter().flatten().map(|origin| number_of(*origin)).min();
        self.before
            .retain(|(number, _)| oldest.is_some_and(|oldest| *number >= oldest));
        self.number = self.number.wrapping_add(1);
        (self.taken, self.known, self.length, self.skips) = (0, known, 0, false);
    }

    /// The head of the present generation has grown.
    pub(super) fn identify(&mut self, identity: FileIdentity) {
        self.identity = identity;
    }

    /// The present generation is read on in a copy, which has at least `length` bytes.
    pub(super) fn move_to(&mut self, identity: FileIdentity, length: u64) {
        (self.identity, self.taken) = (identity, self.taken.min(length));
    }

    /// True if an earlier process has taken the line that begins here.
    pub(super) fn is_known(&self) -> bool {
        self.taken < self.known
    }

    /// True if a piece of a stream is to be taken: it is new, or belongs to an event that was open.
    pub(super) fn takes(&self, stream: usize, origin: u64) -> bool {
        let from = || self.resumed.as_ref()?[stream];
        !self.is_known() || from().is_some_and(|from| origin >= from)
    }

    /// The position from which a new process goes on, with the origins of open events by stream.
    /// `None` while what an earlier process has taken is read again: its position holds.
    pub(super) fn position(&self, open: [Option<u64>; 2]) -> Option<(u64, Vec<u8>)> {
        if self.is_known() {
            return None;
        }
        let oldest = open.iter().flatten().map(|origin| number_of(*origin)).min();
        let needed = |number: u16| oldest.is_some_and(|oldest| number >= oldest);
        let kept: Vec<_> = (self.before.iter())
            .filter(|(number, _)| needed(*number))
            .collect();
        let kept = &kept[kept.len().saturating_sub(GENERATIONS_MAX - 1)..];
        let mut generations: Vec<_> = kept.iter().map(|(_, one)| one.clone()).collect();
        generations.push(GenerationPosition {
            identity: self.identity,
            taken: self.taken,
            length: self.length.max(self.taken),
        });
        let numbers: Vec<u16> = kept
            .iter()
            .map(|(number, _)| *number)
            .chain([self.number])
            .collect();
        let open = open.map(|origin| {
            let origin = origin?;
            let at = numbers
                .iter()
                .position(|number| *number == number_of(origin))?;
            Some(OpenEvent {
                generation: at as u8,
                offset: origin & ((1 << OFFSET_BITS) - 1),
            })
        });
        let position = LogPosition {
            path: self.path.as_os_str().as_bytes().to_vec(),
            generations,
            open,
            skips: self.skips,
            is_complete: self.is_complete,
        };
        Some((self.stream, position.encode()))
    }
}
