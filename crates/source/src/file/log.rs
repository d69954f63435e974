//! A log that is read: its generations, the oldest first.
//!
//! # What it guarantees
//! * Generations are read one after the other: what follows a rotation comes behind what was
//!   written before it, and an event whose pieces lie in two generations is one event.
//! * A generation is left only at its end, or when it may be held no longer; what is left unread is
//!   counted to the byte.
//!
//! # States
//! A generation waits behind others, then is read. It ends once its name is gone or another one
//! follows, and all of it is read.
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
use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_event::Origin;
use inrush_ingest::batch_writer::BatchWriter;
use inrush_ingest::batch_writer::stream::{StreamBuffer, StreamDecoder};
use inrush_ingest::now::Now;
use inrush_transport::files::identity::{FileIdentity, HEAD_BYTES_MAX};
use inrush_transport::files::tail_file::TailFile;

use super::board::LogRow;
use super::budget::ReadBudget;
use super::counts::FileCounts;
use super::decoder::LogDecoder;

/// A deleted file to which nothing was added for so long has no writer any more.
const DELETED_IDLE: Duration = Duration::from_secs(5);

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
}

impl Generation {
    /// Takes the head of a file that has grown into its identity. Returns true if it has changed.
    fn learn_head(&mut self) -> bool {
        let known = usize::from(self.identity.head.len);
        if known >= HEAD_BYTES_MAX || self.read <= known as u64 {
            return false;
        }
        let learnt = FileIdentity::of(self.file.as_file());
        learnt.is_ok_and(|identity| {
            self.identity = identity;
            true
        })
    }
}

/// Outcome of a turn of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LogTurn {
    /// So many bytes were read, and there may be more at once.
    Read(usize),
    /// So many bytes were read, all that there are.
    Drained(usize),
    /// There is nothing more to read now.
    AtEnd,
    /// Nothing is to be read before that time.
    HeldUntil(Instant),
    /// The log has ended; all that could be read of it is taken.
    Ended,
}

/// A log that is read.
pub(super) struct TailedLog {
    pub(super) buffer: StreamBuffer<LogDecoder>,
    origin: Origin,
    /// The first one is read.
    generations: VecDeque<Generation>,
    /// Time at which something was last read.
    pub(super) last_growth: Instant,
    /// True while the kernel says when something is added.
    pub(super) is_watched: bool,
    /// True if it is among those that are read at every tick.
    pub(super) is_queued: bool,
    /// Identity of the file that is read, once its head has grown.
    pub(super) learnt: Option<FileIdentity>,
    budget: ReadBudget,
    row: Arc<LogRow>,
}

impl TailedLog {
    /// A log that begins with `generation`.
    pub(super) fn new(
        path: &str,
        buffer: StreamBuffer<LogDecoder>,
        generation: Generation,
        counts: &FileCounts,
        now: Instant,
    ) -> Self {
        let path: Arc<str> = path.into();
        let (stream, read) = (buffer.decoder.place.stream(), generation.read);
        Self {
            buffer,
            row: (counts.board).open(stream, &path, &generation.file, read),
            origin: Origin::File(path),
            generations: VecDeque::from([generation]),
            last_growth: now,
            is_watched: false,
            is_queued: false,
            learnt: None,
            budget: ReadBudget::default(),
        }
    }

    /// Another generation follows: the one before has lost its name.
    pub(super) fn push(&mut self, generation: Generation, now: Instant) {
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
        self.generations
            .front()
            .is_some_and(|one| one.gone.is_some())
    }

    /// Reads once, or goes on with the next generation. `hold`: the time that a file is held open
    /// whose name is gone.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn turn(
        &mut self,
        writer: &mut BatchWriter,
        counts: &FileCounts,
        hold: Duration,
        now: Now,
    ) -> io::Result<LogTurn> {
        let before = counts.line_costs();
        let turn = self.take_turn(writer, counts, hold, now);
        let position = self.generations.front().map_or(0, |one| one.read);
        let costs = counts.line_costs().since(before);
        self.row.moved(position, self.is_ending(), costs);
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
        hold: Duration,
        now: Now,
    ) -> io::Result<LogTurn> {
        // Looked at before the read: what is added to this one comes before that.
        let followed = match self.generations.get(1) {
            Some(next) => next.file.len()? > 0,
            None => false,
        };
        let Some(generation) = self.generations.front() else {
            return Ok(LogTurn::Ended);
        };
        let held = generation
            .gone
            .map(|gone| now.instant.saturating_duration_since(gone));
        if held.is_some_and(|held| held >= hold) {
            let unread = generation.file.len()?.saturating_sub(generation.read);
            self.tell_unread(unread, counts);
            return Ok(self.leave(writer, counts, now));
        }
        let form = self.buffer.decoder.form();
        let (read, is_full) = match (form.is_excluded, form.rate_bytes) {
            (true, _) => (self.pass_over(writer, counts, now)?, false),
            (false, None) => self.read(writer, counts, usize::MAX, now)?,
            (false, Some(rate)) => match self.budget.room(rate, now.instant) {
                Ok(most) => self.read(writer, counts, most, now)?,
                Err(at) => return Ok(LogTurn::HeldUntil(at)),
            },
        };
        self.budget.take(read);
        if read > 0 {
            self.last_growth = now.instant;
            return Ok(match is_full {
                true => LogTurn::Read(read),
                false => LogTurn::Drained(read),
            });
        }
        let Some(generation) = self.generations.front() else {
            return Ok(LogTurn::Ended);
        };
        let status = generation.file.status()?;
        if status.len < generation.read {
            counts.truncated.add(1);
            tracing::info!(file = %path_of(&self.origin), "the file became shorter: read anew");
            self.start_anew(writer, now);
            return Ok(LogTurn::Read(0));
        }
        let idle = now.instant.saturating_duration_since(self.last_growth);
        if followed || (held.is_some() && status.links == 0 && idle >= DELETED_IDLE) {
            return Ok(self.leave(writer, counts, now));
        }
        Ok(LogTurn::AtEnd)
    }

    fn tell_unread(&self, bytes: u64, counts: &FileCounts) {
        if bytes > 0 {
            counts.rotated_away_unread_bytes.add(bytes);
            self.row.lost(bytes);
            let file = path_of(&self.origin);
            tracing::warn!(
                file,
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
        writer.end_stream(&self.origin, &mut self.buffer, now);
        self.generations.pop_front();
        self.row.pop();
        counts.open_files.sub(1);
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
        let Some(generation) = self.generations.front() else {
            return Ok(0);
        };
        let (file, from) = (Arc::clone(&generation.file), generation.read);
        let end = file.len()?;
        let Some(bytes) = end.checked_sub(from).filter(|bytes| *bytes > 0) else {
            return Ok(0);
        };
        self.end(writer, now);
        let decoder = &mut self.buffer.decoder;
        decoder.is_last = false;
        decoder.place.pass(end, is_within_line(&file, end));
        if let Some(generation) = self.generations.front_mut() {
            generation.read = end;
            if generation.learn_head() {
                decoder.place.identify(generation.identity);
                self.learnt = Some(generation.identity);
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
        let space = writer.begin_read(&self.buffer, 0, now);
        let room = space.len().min(most);
        let read = match generation.file.read_at(&mut space[..room], generation.read) {
            Ok(read) => read,
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
        generation.read += read as u64;
        decoder.place.length = generation.read;
        if generation.learn_head() {
            decoder.place.identify(generation.identity);
            self.learnt = Some(generation.identity);
        }
        counts.read_bytes.add(read as u64);
        writer.end_read(&self.origin, &mut self.buffer, read, false, now);
        Ok((read, is_full))
    }

    /// The file became shorter than what was read: what is in it now is new.
    fn start_anew(&mut self, writer: &mut BatchWriter, now: Now) {
        writer.end_stream(&self.origin, &mut self.buffer, now);
        self.buffer.decoder.restart();
        if let Some(generation) = self.generations.front_mut() {
            (generation.read, generation.known) = (0, 0);
        }
    }

    /// Takes what is unfinished: the log ends.
    pub(super) fn end(&mut self, writer: &mut BatchWriter, now: Now) {
        self.buffer.decoder.now = now.instant;
        self.buffer.decoder.is_last = true;
        writer.end_stream(&self.origin, &mut self.buffer, now);
    }

    /// Gives up the unfinished line and open events, for want of memory.
    pub(super) fn relieve(&mut self, writer: &mut BatchWriter, now: Now) {
        writer.give_up(&self.origin, &mut self.buffer, now);
    }

    /// Its row of the listing.
    pub(super) fn row(&self) -> &LogRow {
        &self.row
    }

    /// The path of the log, for people.
    pub(super) fn path(&self) -> &str {
        path_of(&self.origin)
    }

    /// The newest file, for the kernel to watch.
    pub(super) fn newest(&self) -> Option<&Generation> {
        self.generations.back()
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

fn path_of(origin: &Origin) -> &str {
    origin.named().map_or("", |(_, path)| path)
}
