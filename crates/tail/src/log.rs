//! A log that is read: its generations, the oldest first.
//!
//! # What it guarantees
//! * Generations are read one after the other: what follows a rotation comes behind what was
//!   written before it, and an event whose pieces lie in two generations is one event.
//! * A generation is left only at its end, or when it may be held no longer; what is left unread is
//!   counted to the byte.
//! * An event ends before generations that were deleted unread: it is not joined over a gap.
//! * What a file had before it was cut (`copytruncate` of logrotate) is read to its end in the
//!   copy.
//! # States
//! A generation waits behind others, then is read. It ends once its name is gone or another one
//! follows, and all of it is read. A compressed one ends with its text.
//!
//! * A hole is not read, however long. While nothing comes behind it, as in a file that was made at
//!   its full length, it is not taken: its writer may fill it.
//!
//! # Limits
//! A generation whose name is gone is held `rotate_hold` at most. One that is deleted is closed
//! when nothing was added for `DELETED_IDLE`.
//!
//! # After a crash
//! The position in the queue says where the log goes on; a generation that has another name by then
//! is found by its identity.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use inrush_event::Origin;
use inrush_ingest::batch_writer::BatchWriter;
use inrush_ingest::batch_writer::stream::{StreamBuffer, StreamDecoder};
use inrush_ingest::now::Now;
use inrush_queue::PatientRoom;
use inrush_transport::files::identity::{FileHead, FileIdentity, HEAD_BYTES_MAX, InodeKey};
use inrush_transport::files::packed_file::{PackedEnd, PackedFile, PackedRead};
use inrush_transport::files::tail_file::TailFile;

use super::board::LogRow;
use super::budget::ReadBudget;
use super::counts::FileCounts;
use super::decoder::LogDecoder;
use super::turn::LogTurn;

/// A deleted file to which nothing was added for so long has no writer any more.
const DELETED_IDLE: Duration = Duration::from_secs(5);

/// A compressed file that ends within its text, and to which nothing was added for so long, is cut.
const PACKED_IDLE: Duration = Duration::from_secs(60);

/// Zeros at the end of a read that may be a hole: a block of most file systems. Fewer are text.
const HOLE_BYTES_MIN: usize = 4096;

/// One file of a log.
pub(super) struct Generation {
    /// The open file.
    pub(super) file: Arc<TailFile>,
    /// Its identity when it was opened.
    pub(super) identity: FileIdentity,
    /// Bytes that were read; the first ones of a file that is resumed count as read.
    pub(super) read: u64,
    /// Bytes that an earlier process has taken.
    pub(super) known: u64,
    /// Time at which its name went, if it has.
    pub(super) gone: Option<Instant>,
    /// Reader of its text, if it is compressed: offsets are those of the text.
    pub(super) packed: Option<Box<PackedFile>>,
    /// End of the text, once it was met.
    pub(super) packed_end: Option<PackedEnd>,
    /// True if files between this one and the one before were deleted unread.
    pub(super) is_behind_gap: bool,
}

impl Generation {
    /// The bytes that may be the byte order mark of its file.
    pub(super) fn mark(&mut self) -> [u8; 3] {
        let mut mark = [0; 3];
        // A file that cannot be read is told of at its next read.
        let _ = match &mut self.packed {
            Some(packed) => packed.read_at(&self.file, &mut mark, 0).map(drop),
            None => self.file.read_at(&mut mark, 0).map(drop),
        };
        mark
    }

    /// Bytes of the file that are read.
    fn taken_bytes(&self) -> u64 {
        match &self.packed {
            Some(packed) => packed.packed_bytes(),
            None => self.read,
        }
    }

    /// Bytes of the file that are not read.
    fn unread(&self) -> io::Result<u64> {
        Ok(self.file.len()?.saturating_sub(self.taken_bytes()))
    }

    /// True if nothing more comes out of a compressed file.
    fn is_unpacked(&self) -> io::Result<bool> {
        Ok(match self.packed_end {
            None => false,
            Some(PackedEnd::Cut) => {
                let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let age = age.map_or(0, |now| now.as_nanos() as i128);
                age - self.file.status()?.modified_ns >= PACKED_IDLE.as_nanos() as i128
            }
            Some(_) => true,
        })
    }

    /// True if the file still begins as it did: it was not cut and written anew since.
    fn begins_alike(&self) -> io::Result<bool> {
        let mut bytes = [0; HEAD_BYTES_MAX];
        let known = usize::from(self.identity.head.len).min(HEAD_BYTES_MAX);
        let read = self.file.read_at(&mut bytes[..known], 0)?;
        Ok(self.identity.head.begins(&bytes[..read]))
    }

    /// True if the file is shorter than what was read of it, or begins in another way.
    fn is_cut(&self) -> io::Result<bool> {
        Ok(self.file.len()? < self.read || !self.begins_alike()?)
    }

    /// Reads on. `between`: no line is unfinished, so a hole can be left out.
    fn read_text(&mut self, space: &mut [u8], between: bool) -> io::Result<FileRead> {
        if let Some(packed) = &mut self.packed {
            return Ok(match packed.read_at(&self.file, space, self.read)? {
                PackedRead::Text(read) => FileRead::Text(read),
                PackedRead::Skipped => FileRead::Hole(self.read),
                PackedRead::End(end) => {
                    self.packed_end = Some(end);
                    FileRead::Text(0)
                }
            });
        }
        let read = self.file.read_at(space, self.read)?;
        // Looked at behind the read. A file may have been cut before its first one.
        if read > 0 && !self.begins_alike()? {
            return Ok(FileRead::Cut);
        }
        let zeros = zeros_at_end(&space[..read]);
        if zeros < HOLE_BYTES_MIN {
            return Ok(FileRead::Text(read));
        }
        if zeros < read {
            // Looked at by the next read.
            return Ok(FileRead::Text(read - zeros));
        }
        let end = self.read + read as u64;
        if end >= self.file.len()? {
            return Ok(FileRead::Text(0));
        }
        Ok(match self.file.next_data(end)? {
            None => FileRead::Text(0),
            Some(to) if to > end && between => FileRead::Hole(to),
            Some(_) => FileRead::Text(read),
        })
    }

    /// Takes the head of a file that has grown, or is read from its beginning, into its identity.
    /// Returns true if it has changed.
    fn learn_head(&mut self, is_first: bool) -> bool {
        let known = usize::from(self.identity.head.len);
        let is_known = known >= HEAD_BYTES_MAX || self.read <= known as u64;
        if is_known && !is_first {
            return false;
        }
        let mut bytes = [0; HEAD_BYTES_MAX];
        // What is behind may be a hole that is filled later.
        let most = match self.packed {
            Some(_) => HEAD_BYTES_MAX,
            None => usize::try_from(self.read).map_or(HEAD_BYTES_MAX, |it| it.min(HEAD_BYTES_MAX)),
        };
        let read = self.file.read_at(&mut bytes[..most], 0);
        read.is_ok_and(|read| {
            self.identity.head = FileHead::of(&bytes[..read]);
            true
        })
    }
}

/// Bytes that were read of a file which is shorter now.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortenedFile {
    /// Its identity before.
    pub(super) identity: FileIdentity,
    /// Bytes that were read of it.
    pub(super) read: u64,
}

/// Outcome of a read of a file.
enum FileRead {
    /// Nothing: it was cut and written anew since.
    Cut,
    /// So many bytes.
    Text(usize),
    /// Nothing that is to be taken up to this offset: a hole, or text that was taken before.
    Hole(u64),
}

/// Zero bytes that a text ends with.
fn zeros_at_end(text: &[u8]) -> usize {
    text.iter().rev().take_while(|byte| **byte == 0).count()
}

/// Bounds of a turn of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TurnBounds {
    /// Time that a file is held open whose name is gone, at most.
    pub(super) hold: Duration,
    /// Room of the queue: without, nothing is read.
    pub(super) room: PatientRoom,
}

/// News of a turn, for the finder.
#[derive(Default)]
pub(super) struct TurnNews {
    /// Identity of the file that is read, once its head has grown.
    pub(super) learnt: Option<FileIdentity>,
    /// The generation that was left, and the bytes that were taken of it.
    pub(super) left: Option<(InodeKey, u64)>,
    /// Bytes that were read of the file, once it became shorter.
    pub(super) shortened: Option<ShortenedFile>,
}

/// A log that is read.
pub(super) struct TailedLog {
    pub(super) buffer: StreamBuffer<LogDecoder>,
    /// Its path, for people.
    path: Arc<Path>,
    /// The first one is read.
    generations: VecDeque<Generation>,
    /// Time at which something was last read.
    pub(super) last_growth: Instant,
    /// True while the kernel says when something is added.
    pub(super) is_watched: bool,
    /// True if it is among those that are read at every tick.
    pub(super) is_queued: bool,
    pub(super) news: Option<Box<TurnNews>>,
    budget: ReadBudget,
    row: Arc<LogRow>,
    /// Bytes of its last file that were left unread when it was held for too long.
    pub(super) unread: u64,
    /// True once it was read, or could have been.
    had_turn: bool,
    /// True until the finder has looked for a copy.
    is_cut: bool,
    /// True if files were deleted unread that came behind those that there are.
    gap_follows: bool,
}

impl TailedLog {
    /// A log that begins with `generation`.
    pub(super) fn new(
        path: Arc<Path>,
        buffer: StreamBuffer<LogDecoder>,
        generation: Generation,
        counts: &FileCounts,
        now: Instant,
    ) -> Self {
        let (stream, read) = (buffer.decoder.place.stream(), generation.read);
        Self {
            buffer,
            row: (counts.board).open(stream, &path, &generation.file, read),
            path,
            generations: VecDeque::from([generation]),
            last_growth: now,
            is_watched: false,
            is_queued: false,
            news: None,
            budget: ReadBudget::default(),
            unread: 0,
            had_turn: false,
            is_cut: false,
            gap_follows: false,
        }
    }

    /// The next generation does not follow the last one: others between them are gone.
    pub(super) fn gap_follows(&mut self) {
        self.gap_follows = true;
    }

    /// Another generation follows: the one before has lost its name.
    pub(super) fn push(&mut self, mut generation: Generation, now: Instant) {
        generation.is_behind_gap = std::mem::take(&mut self.gap_follows);
        self.name_gone(now);
        self.row.push(&generation.file);
        self.generations.push_back(generation);
        self.is_watched = false;
    }

    /// The newest generation has lost its name.
    pub(super) fn name_gone(&mut self, now: Instant) {
        if let Some(newest) = self.generations.back_mut() {
            newest.gone.get_or_insert(now);
        }
    }

    /// The newest generation has a name again.
    pub(super) fn name_back(&mut self) {
        if let Some(newest) = self.generations.back_mut() {
            newest.gone = None;
        }
    }

    /// True if nothing of it was ever read.
    pub(super) fn is_untouched(&self) -> bool {
        let front = self.generations.front();
        !self.is_followed() && front.is_some_and(|one| one.read == 0)
    }

    /// Files that it holds open.
    pub(super) fn open_files(&self) -> usize {
        self.generations.len()
    }

    /// Time at which the log has something to do though nothing is added.
    pub(super) fn due(&self) -> Option<Instant> {
        self.buffer.decoder.due()
    }

    /// True if another generation follows the one that is read.
    pub(super) fn is_followed(&self) -> bool {
        self.generations.len() > 1
    }

    /// True if the log may end by itself: a name is gone.
    pub(super) fn is_ending(&self) -> bool {
        let front = self.generations.front();
        front.is_some_and(|one| one.gone.is_some() || one.packed.is_some())
    }

    /// Reads once, or goes on with the next generation.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn turn(
        &mut self,
        writer: &mut BatchWriter,
        counts: &FileCounts,
        bounds: TurnBounds,
        now: Now,
    ) -> io::Result<LogTurn> {
        let before = counts.line_costs();
        let turn = self.take_turn(writer, counts, bounds, now);
        let position = self.generations.front().map_or(0, Generation::taken_bytes);
        let costs = counts.line_costs().since(before);
        let is_held = self
            .generations
            .front()
            .is_some_and(|one| one.gone.is_some());
        self.row.moved(position, is_held, costs);
        match &turn {
            Err(error) => self.row.failed(error, now.wall),
            Ok(turn) => self.row.succeeded(*turn, now.wall),
        }
        turn
    }

    fn take_turn(
        &mut self,
        writer: &mut BatchWriter,
        counts: &FileCounts,
        bounds: TurnBounds,
        now: Now,
    ) -> io::Result<LogTurn> {
        if self.is_cut {
            return Ok(LogTurn::Shortened);
        }
        let Some(generation) = self.generations.front() else {
            return Ok(LogTurn::Ended);
        };
        let held = generation
            .gone
            .map(|gone| now.instant.saturating_duration_since(gone));
        // One read comes before that: else a file that is opened so late would never be read.
        let is_over = held.is_some_and(|held| held >= bounds.hold);
        if is_over && (self.had_turn || bounds.room == PatientRoom::Full) {
            self.note_unread(counts)?;
            return Ok(self.leave(writer, counts, now));
        }
        if bounds.room != PatientRoom::Free {
            return Ok(LogTurn::Waits);
        }
        self.had_turn = true;
        // Looked at before the read: what is added to this one comes before that.
        let followed = match self.generations.get(1) {
            Some(next) => next.file.len()? > 0,
            None => false,
        };
        let form = self.buffer.decoder.form();
        let (read, is_full) = match (form.is_excluded, form.rate_bytes) {
            (true, _) => (self.pass_over(writer, counts, now)?, false),
            (false, None) => self.read(writer, counts, usize::MAX, now)?,
            (false, Some(rate)) => match self.budget.room(rate, now.instant) {
                Ok(most) => self.read(writer, counts, most, now)?,
                Err(at) => return Ok(LogTurn::HeldUntil(at)),
            },
        };
        if self.is_cut {
            return Ok(self.shorten(counts));
        }
        self.budget.take(read);
        if read > 0 {
            self.last_growth = now.instant;
            return Ok(match is_full {
                true => LogTurn::Read(read),
                false => LogTurn::Drained(read),
            });
        }
        self.at_end(writer, counts, followed, now)
    }

    /// A turn that found nothing to read; `followed`: the next generation had text before.
    fn at_end(
        &mut self,
        writer: &mut BatchWriter,
        counts: &FileCounts,
        followed: bool,
        now: Now,
    ) -> io::Result<LogTurn> {
        let Some(generation) = self.generations.front() else {
            return Ok(LogTurn::Ended);
        };
        if generation.packed.is_some() {
            return match generation.is_unpacked()? {
                true => Ok(self.unpacked(writer, counts, now)),
                false => Ok(LogTurn::AtEnd),
            };
        }
        let status = generation.file.status()?;
        // It may have become as long again.
        let is_anew = status.len == generation.read && !generation.begins_alike()?;
        if status.len < generation.read || is_anew {
            return Ok(self.shorten(counts));
        }
        let idle = now.instant.saturating_duration_since(self.last_growth);
        let is_deleted = generation.gone.is_some() && status.links == 0;
        if followed || (is_deleted && idle >= DELETED_IDLE) {
            return Ok(self.leave(writer, counts, now));
        }
        Ok(LogTurn::AtEnd)
    }

    /// Leaves a compressed generation.
    fn unpacked(&mut self, writer: &mut BatchWriter, counts: &FileCounts, now: Now) -> LogTurn {
        let end = self.generations.front().and_then(|one| one.packed_end);
        if let Some(end) = end.filter(|end| counts.packed(*end)) {
            let (file, end) = (self.path.display(), end.name());
            tracing::warn!(
                %file,
                end,
                "a compressed file is not whole: its text is read so far"
            );
        }
        self.buffer.decoder.place.is_complete = self.generations.len() == 1;
        self.leave(writer, counts, now)
    }

    /// Notes what is unread of a generation that is left before its end.
    fn note_unread(&mut self, counts: &FileCounts) -> io::Result<()> {
        let Some(generation) = self.generations.front() else {
            return Ok(());
        };
        let unread = generation.unread()?;
        match self.is_followed() {
            true => self.tell_unread(unread, counts),
            // If the file has a name, it may be read on under that.
            false => self.unread = unread,
        }
        Ok(())
    }

    /// Counts bytes that nobody reads any more.
    pub(super) fn tell_unread(&self, bytes: u64, counts: &FileCounts) {
        if bytes > 0 {
            counts.rotated_away(bytes);
            self.row.lost(bytes);
            let file = self.path.display();
            tracing::warn!(
                %file,
                bytes,
                "a file without a name was held for too long: not read on"
            );
        }
    }

    /// Leaves the first generation, at its end: goes on with the next one, or ends the log.
    fn leave(&mut self, writer: &mut BatchWriter, counts: &FileCounts, now: Now) -> LogTurn {
        if self.generations.len() <= 1 {
            self.end(writer, now);
            return LogTurn::Ended;
        }
        self.buffer.decoder.now = now.instant;
        // What was begun before a gap goes on in what is gone.
        let next = self.generations.get(1);
        self.buffer.decoder.is_last = next.is_some_and(|next| next.is_behind_gap);
        writer.end_stream(&origin_of(&self.path), &mut self.buffer, now);
        self.buffer.decoder.is_last = false;
        let left = self.generations.pop_front();
        self.news.get_or_insert_default().left = left.map(|left| (left.identity.key, left.read));
        self.row.pop();
        counts.closed(1);
        counts.rotations.add(1);
        if let Some(next) = self.generations.front() {
            (self.buffer.decoder).begin_next(next.identity, next.known);
        }
        self.last_growth = now.instant;
        LogTurn::Read(0)
    }

    /// Passes over what is in the first generation, for nothing of it is wanted; its bytes. What
    /// was begun before is ended.
    fn pass_over(
        &mut self,
        writer: &mut BatchWriter,
        counts: &FileCounts,
        now: Now,
    ) -> io::Result<usize> {
        let Some(generation) = self.generations.front_mut() else {
            return Ok(0);
        };
        if generation.packed.is_some() {
            counts.excluded_bytes.add(generation.unread()?);
            generation.packed_end = Some(PackedEnd::Whole);
            return Ok(0);
        }
        let (file, from) = (Arc::clone(&generation.file), generation.read);
        let end = file.len()?;
        let Some(bytes) = end.checked_sub(from).filter(|bytes| *bytes > 0) else {
            return Ok(0);
        };
        self.end(writer, now);
        let decoder = &mut self.buffer.decoder;
        decoder.is_last = false;
        let mut mark = [0; 3];
        file.read_at(&mut mark, 0)?;
        decoder.pass(end, is_within_line(&file, end), &mark);
        if let Some(generation) = self.generations.front_mut() {
            generation.read = end;
            if generation.learn_head(false) {
                decoder.place.identify(generation.identity);
                self.news.get_or_insert_default().learnt = Some(generation.identity);
            }
        }
        if let Some((stream, state)) = decoder.position() {
            writer.note_position(stream, state);
        }
        counts.excluded_bytes.add(bytes);
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Reads the first generation once, `most` bytes at most; the bytes, and true if there may be
    /// more.
    fn read(
        &mut self,
        writer: &mut BatchWriter,
        counts: &FileCounts,
        most: usize,
        now: Now,
    ) -> io::Result<(usize, bool)> {
        let Some(generation) = self.generations.front_mut() else {
            return Ok((0, false));
        };
        let decoder = &mut self.buffer.decoder;
        decoder.now = now.instant;
        let is_due = decoder.due().is_some_and(|due| due <= now.instant);
        let between = decoder.place.taken() == generation.read;
        let space = writer.begin_read(&self.buffer, 0, now);
        let room = space.len().min(most);
        let read = match generation.read_text(&mut space[..room], between) {
            Ok(FileRead::Hole(to)) => {
                writer.cancel_read();
                if to > generation.read {
                    (self.buffer.decoder).skip_hole(to - generation.read);
                }
                generation.read = to;
                // One byte stands for all of them: there is more at once.
                return Ok((1, true));
            }
            Ok(FileRead::Cut) => {
                writer.cancel_read();
                self.is_cut = true;
                return Ok((0, false));
            }
            Ok(FileRead::Text(read)) => read,
            Err(error) => {
                writer.cancel_read();
                return Err(error);
            }
        };
        let decoder = &mut self.buffer.decoder;
        decoder.at_end = read == 0 && is_due;
        if read == 0 && !is_due {
            writer.cancel_read();
            return Ok((0, false));
        }
        let is_full = read == room;
        let is_first = read > 0 && generation.read == 0 && generation.packed.is_none();
        generation.read += read as u64;
        decoder.place.length = generation.read;
        if generation.learn_head(is_first) {
            decoder.place.identify(generation.identity);
            self.news.get_or_insert_default().learnt = Some(generation.identity);
        }
        counts.read_bytes.add(read as u64);
        writer.end_read(&origin_of(&self.path), &mut self.buffer, read, false, now);
        Ok((read, is_full))
    }

    /// The file became shorter than what was read, or begins in another way: the finder is asked
    /// for a copy of what it had.
    fn shorten(&mut self, counts: &FileCounts) -> LogTurn {
        counts.truncated.add(1);
        tracing::info!(file = %self.path.display(), "the file became shorter: read anew");
        self.is_cut = true;
        let shortened = self.generations.front().map(|one| ShortenedFile {
            identity: one.identity,
            read: one.read,
        });
        self.news.get_or_insert_default().shortened = shortened;
        LogTurn::Shortened
    }

    /// Takes all that is in the shortened file as new. `copies` have what it had, the first one
    /// from where it was read.
    pub(super) fn start_anew(
        &mut self,
        writer: &mut BatchWriter,
        copies: Vec<Generation>,
        now: Now,
    ) {
        self.is_cut = false;
        let Some(file) = self.generations.front_mut() else {
            return;
        };
        (file.read, file.known) = (0, 0);
        // Its head is learnt anew: it begins with other bytes.
        file.identity.head = FileHead::default();
        self.news.get_or_insert_default().learnt = Some(file.identity);
        let identity = file.identity;
        match copies.first() {
            Some(copy) => {
                let place = &mut self.buffer.decoder.place;
                place.move_to(copy.identity, copy.read);
            }
            None => {
                // The beginning of an open event is gone, so nothing could go on with it after a
                // crash.
                self.buffer.decoder.now = now.instant;
                self.buffer.decoder.is_last = true;
                writer.end_stream(&origin_of(&self.path), &mut self.buffer, now);
                self.buffer.decoder.is_last = false;
                self.buffer.decoder.restart();
                self.buffer.decoder.place.identify(identity);
            }
        }
        for copy in copies.into_iter().rev() {
            self.row.push_front(&copy.file);
            self.generations.push_front(copy);
        }
        (self.last_growth, self.is_watched) = (now.instant, false);
    }

    /// Takes what is unfinished: the log ends.
    pub(super) fn end(&mut self, writer: &mut BatchWriter, now: Now) {
        self.buffer.decoder.now = now.instant;
        self.buffer.decoder.is_last = true;
        writer.end_stream(&origin_of(&self.path), &mut self.buffer, now);
    }

    /// Gives up the unfinished line and open events, for want of memory.
    pub(super) fn relieve(&mut self, writer: &mut BatchWriter, now: Now) {
        writer.give_up(&origin_of(&self.path), &mut self.buffer, now);
        if let Some(generation) = self.generations.front_mut() {
            generation.read = self.buffer.decoder.place.taken();
        }
    }

    /// Gives back the memory that is needed only while something is read.
    pub(super) fn rest(&mut self) {
        self.buffer.decoder.rest();
        self.buffer.rest();
    }

    /// Its row of the listing.
    pub(super) fn row(&self) -> &LogRow {
        &self.row
    }

    /// The path of the log, for people.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The newest file, for the kernel to watch.
    pub(super) fn newest(&self) -> Option<&Generation> {
        self.generations.back()
    }

    /// Bytes that were read of the newest file since it was last cut; `None` if it was cut again,
    /// which no turn has found yet, or for which no copy was looked yet.
    pub(super) fn read_of_newest(&self) -> Option<u64> {
        let newest = self.generations.back()?;
        // One that cannot be read is told of by its turn.
        let is_cut = newest.is_cut().unwrap_or(false);
        (!is_cut && !self.is_cut).then_some(newest.read)
    }

    /// True if its last file has no name any more.
    pub(super) fn is_deleted(&self) -> bool {
        let newest = self.generations.back();
        newest.is_none_or(|one| one.file.links().is_ok_and(|links| links == 0))
    }
}

/// True if a line began before the offset and goes on there.
pub(super) fn is_within_line(file: &TailFile, offset: u64) -> bool {
    let mut before = [0];
    match offset.checked_sub(1) {
        Some(at) => file.read_at(&mut before, at).is_ok_and(|read| read == 1) && before != *b"\n",
        None => false,
    }
}

/// Origin of the events of a log; made for each read, so that an idle log has its path once.
fn origin_of(path: &Path) -> Origin {
    Origin::File(path.to_string_lossy().into())
}
