//! Files that are known, by inode and by name: which log a file belongs to, and from where it is
//! read.
//!
//! # What it guarantees
//! * A file is read by one log, whatever names it has had; two files that begin alike are two.
//! * A file that is found in the place of another one is a new one: its inode may be the same.
//! * After a restart each log goes on where its last durable event ended, though its files have
//!   other names by then; what was deleted meanwhile is counted.
//!
//! # Limits
//! A folder is listed once for each log that is resumed or rotated.
//!
//! # After a crash
//! All of it is made anew from the positions in the queue and the names in the folders.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use inrush_event::instant_now;
use inrush_kubernetes::{WorkloadAnswer, WorkloadMetadataState, WorkloadView};
use inrush_transport::files::identity::{FileIdentity, IdentityMatch, InodeKey};
use inrush_transport::files::tail_file::{AllowedRoots, PathRefusal, TailFile};

use super::counts::SharedCounts;
use super::decoder::{LineForm, LogForm};
use super::form::{FormMaker, is_chained};
use super::log::{Generation, is_within_line};
use super::options::StartAt;
use super::place::LogPlace;
use super::position::LogPosition;
use super::tail::{FoundLog, TailOrder};
use super::workload::WorkloadBoard;
use packed::{OpenFile, PackedFiles, is_copy_of, is_same, unpacker_of};

mod packed;

/// Endings of names of what is compressed, or not complete yet: never read as text.
const PACKED: [&[u8]; 7] = [b".gz", b".bz2", b".xz", b".zst", b".lz4", b".Z", b".tmp"];

/// File systems keep times by the kernel's coarse clock, which is up to a tick (10 ms) late.
const BIRTH_GRAIN_NS: i64 = 10_000_000;

/// A file that a log reads, or has read.
struct KnownFile {
    stream: u64,
    identity: FileIdentity,
    /// Bytes that are taken, once it is closed.
    closed_at: Option<u64>,
    open: OpenFile,
}

/// A log that is read.
struct KnownLog {
    /// Its name, which the newest generation has.
    path: PathBuf,
    form: Arc<LogForm>,
    /// True if its generations are read one after the other.
    is_chained: bool,
    /// Its generations, the oldest first.
    files: Vec<InodeKey>,
    /// Knowledge of its container, if it is one's.
    workload: Option<WorkloadAnswer>,
    /// Time until which it waits for that.
    held_until: Option<Instant>,
}

/// Files and logs of one source.
pub(super) struct KnownFiles {
    maker: FormMaker,
    board: Arc<WorkloadBoard>,
    roots: Arc<AllowedRoots>,
    counts: SharedCounts,
    start_at: StartAt,
    /// Time of the first start of the source, in nanoseconds since 1970: older files are old.
    first_start: i64,
    older_than: Option<Duration>,
    packed: PackedFiles,
    by_inode: HashMap<InodeKey, KnownFile>,
    by_path: HashMap<PathBuf, u64>,
    logs: HashMap<u64, KnownLog>,
    next_stream: u64,
    /// Orders that are to be sent.
    orders: Vec<TailOrder>,
    /// Names of files that are being copied.
    postponed: Vec<PathBuf>,
    /// Names that could not be opened, and why: said once.
    refused: HashMap<PathBuf, PathRefusal>,
}

/// A copy of a log.
enum CopyState {
    /// Of this log; it has the log's beginning.
    Whole(u64),
    /// It is shorter than the log's beginning, and may become a copy.
    Begun,
}

/// An open file that no log has.
struct NewFile {
    path: PathBuf,
    file: TailFile,
    identity: FileIdentity,
    /// Time by which generations are ordered: its birth, or its last change.
    born: i64,
    /// Time of its last change.
    modified: i64,
    length: u64,
}

fn is_packed(name: &[u8]) -> bool {
    PACKED.iter().any(|ending| name.ends_with(ending))
}

/// True if a name is that of an older generation of `base`: `base.1`, `base.20261128-101500`,
/// `base-20261128`.
fn is_generation(base: &[u8], name: &[u8]) -> bool {
    let rest = name.strip_prefix(base);
    rest.is_some_and(|rest| matches!(rest.first(), Some(b'.' | b'-'))) && !is_packed(name)
}

impl KnownFiles {
    /// Nothing is known yet. Logs go on at `positions`, in the order of [`Self::resume`].
    pub(super) fn new(
        (maker, board): (FormMaker, Arc<WorkloadBoard>),
        roots: Arc<AllowedRoots>,
        counts: SharedCounts,
        first_start: i64,
        next_stream: u64,
    ) -> Self {
        let options = maker.options();
        Self {
            start_at: options.start_at,
            older_than: options.older_than.map(|age| age.0),
            packed: PackedFiles::new(options.compressed),
            maker,
            board,
            roots,
            counts,
            first_start,
            by_inode: HashMap::new(),
            by_path: HashMap::new(),
            logs: HashMap::new(),
            next_stream,
            orders: Vec::new(),
            postponed: Vec::new(),
            refused: HashMap::new(),
        }
    }

    /// Takes the orders to the reader.
    pub(super) fn take_orders(&mut self) -> Vec<TailOrder> {
        std::mem::take(&mut self.orders)
    }

    /// All logs that are read.
    pub(super) fn streams(&self) -> Vec<u64> {
        self.logs.keys().copied().collect()
    }

    /// Follows other options. Returns the logs whose names do not match any more.
    pub(super) fn follow_options(
        &mut self,
        maker: FormMaker,
        roots: Arc<AllowedRoots>,
        matches: impl Fn(&Path) -> bool,
    ) -> Vec<u64> {
        self.older_than = maker.options().older_than.map(|age| age.0);
        self.start_at = maker.options().start_at;
        self.packed.follow(maker.options().compressed);
        (self.maker, self.roots) = (maker, roots);
        let mut gone = Vec::new();
        for (stream, log) in &mut self.logs {
            if !matches(&log.path) {
                gone.push(*stream);
                continue;
            }
            let name = log.path.to_string_lossy();
            let before = log.workload.as_ref();
            log.workload = self.maker.desk().ask(&name, before, true);
            let view = log.workload.as_ref().map(|answer| &*answer.view);
            if view.is_none_or(|one| one.metadata != WorkloadMetadataState::Awaited) {
                log.held_until = None;
            }
            let form = (self.maker).form_like(&name, &log.form, view, log.held_until);
            log.form = Arc::clone(&form);
            self.orders.push(TailOrder::Form(*stream, form));
            match view.filter(|_| self.maker.desk().is_live()) {
                Some(view) => self.board.show(*stream, view),
                None => self.board.remove(*stream),
            }
        }
        gone
    }

    /// Asks the desk about all containers: something may have changed.
    pub(super) fn look_at_workloads(&mut self) {
        for (stream, log) in &mut self.logs {
            let Some(before) = &log.workload else {
                continue;
            };
            let name = log.path.to_string_lossy();
            let Some(now) = self.maker.desk().ask(&name, Some(before), false) else {
                continue;
            };
            if !Arc::ptr_eq(&now.view, &before.view) && now.view != before.view {
                log.held_until = None;
                let form = (self.maker).form_like(&name, &log.form, Some(&now.view), None);
                log.form = Arc::clone(&form);
                self.orders.push(TailOrder::Form(*stream, form));
                self.board.show(*stream, &now.view);
            }
            log.workload = Some(now);
        }
    }

    /// Other files in volumes are wanted from now on. Returns the logs that are not wanted any
    /// more; those of removed pods are read to their end.
    pub(super) fn follow_volumes(&mut self, is_named: impl Fn(&Path) -> bool) -> Vec<u64> {
        let (mut gone, mut vanished) = (Vec::new(), Vec::new());
        for (stream, log) in &self.logs {
            let view = log.workload.as_ref().map(|workload| &workload.view);
            let Some(view) = view.filter(|view| view.is_volume) else {
                continue;
            };
            if fs::symlink_metadata(&log.path).is_err() {
                vanished.push(log.path.clone());
            } else if !is_named(&log.path) && view.metadata != WorkloadMetadataState::Removed {
                gone.push(*stream);
            }
        }
        // Nobody watched the names while the watches changed.
        vanished.iter().for_each(|path| self.vanished(path));
        gone
    }

    /// Shows which containers have waited for their metadata in vain.
    pub(super) fn end_waits(&mut self, now: Instant) {
        for (stream, log) in &mut self.logs {
            if log.held_until.is_some_and(|until| until <= now)
                && let Some(workload) = &log.workload
            {
                log.held_until = None;
                let missing = WorkloadView {
                    metadata: WorkloadMetadataState::Missing,
                    ..WorkloadView::clone(&workload.view)
                };
                self.board.show(*stream, &missing);
            }
        }
    }

    fn open(&mut self, path: &Path) -> Option<NewFile> {
        // Links never lead out of a volume: its files are written by others than who reads them.
        let volume = self.maker.desk().volume_root(path);
        let volume = volume.map(|root| AllowedRoots::new(vec![root], false));
        let roots = volume.as_ref().unwrap_or(&self.roots);
        let opened = TailFile::open(path, roots).and_then(|file| {
            let identity = FileIdentity::of(file.as_file()).map_err(PathRefusal::from)?;
            let status = file.status().map_err(PathRefusal::from)?;
            let modified = i64::try_from(status.modified_ns).unwrap_or(i64::MAX);
            Ok(NewFile {
                path: path.to_owned(),
                file,
                identity,
                born: identity.birth_ns.unwrap_or(modified),
                modified,
                length: status.len,
            })
        });
        match opened {
            Ok(new) => {
                self.refused.remove(path);
                self.counts.board.settled(path);
                Some(new)
            }
            Err(PathRefusal::Gone) => None,
            Err(refusal) => {
                if self.refused.get(path) != Some(&refusal) {
                    self.counts.failed_files.add(1);
                    tracing::warn!(file = %path.display(), "not read: {refusal}");
                    self.counts.board.refused(path, &refusal);
                    self.refused.insert(path.to_owned(), refusal);
                }
                None
            }
        }
    }

    /// Looks at a name that matches the patterns.
    pub(super) fn found(&mut self, path: &Path) {
        if is_packed(path.file_name().map_or(&b""[..], OsStr::as_bytes)) {
            return self.found_packed(path);
        }
        let Some(new) = self.open(path) else {
            return;
        };
        if self.is_read(path, &new) {
            return;
        }
        if self.is_too_old(&new) {
            return;
        }
        match self.copied_from(path, &new) {
            Some(CopyState::Whole(stream)) => {
                self.know(stream, new.identity);
                if let Some(copy) = self.by_inode.get_mut(&new.identity.key) {
                    copy.closed_at = Some(new.length);
                }
                return;
            }
            Some(CopyState::Begun) => return self.postponed.push(path.to_owned()),
            None => {}
        }
        match self.by_path.get(path).copied() {
            Some(stream) if self.logs.get(&stream).is_some_and(|log| log.is_chained) => {
                self.follow(stream, path, new);
            }
            Some(stream) => {
                self.orders.push(TailOrder::NameGone(stream));
                self.by_path.remove(path);
                self.missed(stream, path, &new);
                self.begin(path, new);
            }
            None => self.begin_all(path, new),
        }
    }

    fn is_too_old(&self, new: &NewFile) -> bool {
        let is_old = |age| is_older(i128::from(new.modified), age);
        self.older_than.is_some_and(is_old)
    }

    /// Takes note of the head of a file that has grown.
    pub(super) fn learn(&mut self, identity: FileIdentity) {
        if let Some(known) = self.by_inode.get_mut(&identity.key) {
            known.identity = identity;
        }
    }

    /// A generation of a log was left, with so many bytes taken.
    pub(super) fn left(&mut self, key: InodeKey, taken: u64) {
        if let Some(known) = self.by_inode.get_mut(&key) {
            known.closed_at = Some(taken);
        }
        self.copied(key);
    }

    /// A file that has the name of an older generation and begins as the log's own file, which has
    /// another inode, is a copy of it (`copytruncate` of logrotate). Nothing else makes a new file
    /// under such a name, so one that is still shorter is looked at again.
    fn copied_from(&self, path: &Path, new: &NewFile) -> Option<CopyState> {
        let name = path.file_name()?.as_bytes();
        self.logs.iter().find_map(|(stream, log)| {
            let base = log.path.file_name().map_or(&b""[..], OsStrExt::as_bytes);
            if log.path.parent() != path.parent() || !is_generation(base, name) {
                return None;
            }
            let newest = log.files.last().and_then(|key| self.by_inode.get(key))?;
            if newest.identity.key == new.identity.key {
                return None;
            }
            if new.length < u64::from(newest.identity.head.len) {
                return Some(CopyState::Begun);
            }
            let same = newest.identity.same_content(new.file.as_file());
            same.unwrap_or(false).then_some(CopyState::Whole(*stream))
        })
    }

    /// Looks again at names of files that were being copied.
    pub(super) fn look_again(&mut self) {
        for path in std::mem::take(&mut self.postponed) {
            self.found(&path);
        }
        self.forget_gone();
    }

    /// True if a log reads the file, or has read it to its end.
    fn is_read(&mut self, path: &Path, new: &NewFile) -> bool {
        let Some(known) = self.by_inode.get(&new.identity.key) else {
            return false;
        };
        match known.identity.matches(new.file.as_file()) {
            Ok(IdentityMatch::Same | IdentityMatch::OtherDevice) => {}
            Ok(IdentityMatch::Rewritten) if known.closed_at.is_none() => {
                self.orders.push(TailOrder::Changed(known.stream));
            }
            _ => {
                self.counts.inode_reused.add(1);
                self.by_inode.remove(&new.identity.key);
                return false;
            }
        }
        if known.closed_at.is_some_and(|taken| new.length > taken) {
            return false;
        }
        let stream = known.stream;
        self.by_path.entry(path.to_owned()).or_insert(stream);
        true
    }

    /// Begins to read a log of which nothing is known. Files of a container that were renamed
    /// before anybody saw them are read first.
    fn begin_all(&mut self, path: &Path, new: NewFile) {
        let name = path.to_string_lossy();
        let format = self.format_of(path, &new);
        let mut older = match is_chained(format, &name) {
            true => self.unseen(path, &new, self.first_start - BIRTH_GRAIN_NS),
            false => Vec::new(),
        };
        if older.is_empty() {
            return self.begin_as(path, new, format);
        }
        let rest = older.split_off(1);
        for first in older {
            self.begin(path, first);
        }
        let stream = self.next_stream - 1;
        for next in rest.into_iter().chain([new]) {
            self.push(stream, next);
        }
    }

    /// Begins to read a file that belongs to no log.
    fn begin(&mut self, path: &Path, new: NewFile) {
        let format = self.format_of(path, &new);
        self.begin_as(path, new, format);
    }

    fn format_of(&self, path: &Path, new: &NewFile) -> Option<LineForm> {
        let head = |room: &mut [u8]| new.head(room);
        self.maker.line_form(&path.to_string_lossy(), head)
    }

    fn begin_as(&mut self, path: &Path, new: NewFile, format: Option<LineForm>) {
        let stream = self.next_stream;
        self.next_stream += 1;
        let is_old = new.born < self.first_start;
        let closed = self
            .by_inode
            .get(&new.identity.key)
            .and_then(|one| one.closed_at);
        let from = match (closed, self.start_at) {
            (Some(taken), _) => taken,
            (None, StartAt::End) if is_old => new.length,
            (None, _) => 0,
        };
        let mut place = LogPlace::new(stream, path.as_os_str().as_bytes(), new.identity);
        place.resume(from, from, [None, None]);
        place.skips = closed.is_none() && is_within_line(&new.file, from);
        self.send(path, format, new, place, (from, from));
    }

    /// Has the reader open a log.
    fn send(
        &mut self,
        path: &Path,
        format: Option<LineForm>,
        new: NewFile,
        place: LogPlace,
        (read, known): (u64, u64),
    ) {
        let (name, stream) = (path.to_string_lossy(), place.stream());
        let desk = self.maker.desk();
        let workload = desk.ask(&name, None, false);
        let view = workload.as_ref().map(|answer| &*answer.view);
        let is_awaited = view.is_some_and(|one| one.metadata == WorkloadMetadataState::Awaited);
        let held_until = is_awaited.then(|| instant_now() + desk.wait);
        let form = self.maker.form(&name, format, view, held_until);
        if let Some(view) = view.filter(|_| desk.is_live()) {
            self.board.show(stream, view);
        }
        let key = new.identity.key;
        let log = KnownLog {
            path: path.to_owned(),
            is_chained: form.is_chained(&name) && !is_packed(path.as_os_str().as_bytes()),
            form: Arc::clone(&form),
            files: vec![key],
            workload,
            held_until,
        };
        self.logs.insert(stream, log);
        self.by_path.insert(path.to_owned(), stream);
        self.know(stream, new.identity);
        let first = self.generation(new, read, known);
        self.orders.push(TailOrder::Open(Box::new(FoundLog {
            path: name.into_owned(),
            form,
            place,
            first,
        })));
    }

    fn know(&mut self, stream: u64, identity: FileIdentity) {
        let file = KnownFile {
            stream,
            identity,
            closed_at: None,
            open: OpenFile::new(),
        };
        self.by_inode.insert(identity.key, file);
    }

    /// The name of a log has another file: its generations since are read one after the other.
    fn follow(&mut self, stream: u64, path: &Path, new: NewFile) {
        for new in self
            .missed_files(stream, path, &new)
            .into_iter()
            .chain([new])
        {
            self.push(stream, new);
        }
    }

    /// Has the reader go on with a file once it has read those of its log before.
    fn push(&mut self, stream: u64, new: NewFile) {
        self.know(stream, new.identity);
        if let Some(log) = self.logs.get_mut(&stream) {
            log.files.push(new.identity.key);
        }
        let next = Box::new(self.generation(new, 0, 0));
        self.orders.push(TailOrder::Next(stream, next));
    }

    /// Files of older generations that came and lost their name before they were seen.
    fn missed(&mut self, stream: u64, path: &Path, newest: &NewFile) {
        for new in self.missed_files(stream, path, newest) {
            let path = path.to_owned();
            self.begin(&path, new);
            if let Some(stream) = self.by_path.remove(&path) {
                self.orders.push(TailOrder::NameGone(stream));
            }
        }
    }

    fn missed_files(&mut self, stream: u64, path: &Path, newest: &NewFile) -> Vec<NewFile> {
        let last = self.logs.get(&stream).and_then(|log| log.files.last());
        let last = last.and_then(|key| self.by_inode.get(key));
        let Some(since) = last.and_then(|last| last.identity.birth_ns) else {
            return Vec::new();
        };
        self.unseen(path, newest, since)
    }

    /// Files beside a log that no log has, and that came after `since` and before `newest`, in the
    /// order in which they came.
    fn unseen(&mut self, path: &Path, newest: &NewFile, since: i64) -> Vec<NewFile> {
        let mut found: Vec<NewFile> = Vec::new();
        for name in siblings(path) {
            let Some(new) = self.open(&name) else {
                continue;
            };
            let key = new.identity.key;
            let is_between = new.born > since && new.born <= newest.born;
            if is_between && !self.by_inode.contains_key(&key) && key != newest.identity.key {
                found.push(new);
            }
        }
        found.sort_by_key(|new| (new.born, new.modified));
        found
    }

    /// A name is gone: deleted, or renamed.
    pub(super) fn vanished(&mut self, path: &Path) {
        self.refused.remove(path);
        self.counts.board.settled(path);
        self.packed_vanished(path);
        let Some(stream) = self.by_path.remove(path) else {
            return;
        };
        let is_chained = self.logs.get(&stream).is_some_and(|log| log.is_chained);
        if is_chained {
            // What comes under that name is of the same log.
            self.by_path.insert(path.to_owned(), stream);
        }
        self.orders.push(TailOrder::NameGone(stream));
    }

    /// The reader has closed a log, with so many bytes taken of its last file.
    pub(super) fn ended(&mut self, stream: u64, taken: u64, is_deleted: bool) {
        let Some(log) = self.logs.remove(&stream) else {
            return;
        };
        self.board.remove(stream);
        if self.by_path.get(&log.path) == Some(&stream) {
            self.by_path.remove(&log.path);
        }
        let newest = log.files.last().copied();
        self.packed_ended(stream, is_deleted);
        for key in log.files {
            self.copied(key);
            let taken = if self.is_done(key) { u64::MAX } else { taken };
            if let Some(file) = self.by_inode.get(&key) {
                let length = file.closed_at.or((Some(key) == newest).then_some(taken));
                let head = file.identity.head;
                self.remember(&log.path, head, length.unwrap_or(0));
            }
            match self.by_inode.get_mut(&key) {
                Some(file) if Some(key) == newest && !is_deleted => {
                    file.closed_at.get_or_insert(taken);
                }
                _ => {
                    self.by_inode.remove(&key);
                }
            }
        }
    }

    /// Goes on with the logs of an earlier process. Returns the streams of those that are gone.
    pub(super) fn resume(&mut self, positions: &[(u64, LogPosition)]) -> Vec<u64> {
        let mut gone = Vec::new();
        let mut resumed = Vec::new();
        for (stream, position) in positions {
            if position.is_complete {
                if !self.resume_done(*stream, position) {
                    gone.push(*stream);
                }
                continue;
            }
            match self.resume_one(*stream, position) {
                Some(newest) => resumed.push((*stream, position, newest)),
                None => gone.push(*stream),
            }
        }
        // Once all files are known that a log has: the file of a name may be another log's.
        for (stream, position, newest) in resumed {
            self.settle_name(stream, Path::new(OsStr::from_bytes(&position.path)), newest);
        }
        gone
    }

    fn resume_one(&mut self, stream: u64, position: &LogPosition) -> Option<FileIdentity> {
        let path = PathBuf::from(OsStr::from_bytes(&position.path));
        // The name first: what is renamed before it was opened is among the others then.
        let mut files: Vec<NewFile> = self.open_if_there(&path).into_iter().collect();
        let older = siblings(&path);
        files.extend(older.iter().filter_map(|name| self.open_if_there(name)));
        files.extend(self.packed_of(&path));
        let mut chain: Vec<(u8, NewFile)> = Vec::new();
        for (number, generation) in position.generations.iter().enumerate() {
            let is_it = |new: &NewFile| is_same(&generation.identity, &new.file);
            if let Some(at) = files.iter().position(is_it) {
                chain.push((number as u8, files.swap_remove(at)));
            }
        }
        let last = position.generations.len().saturating_sub(1);
        if let Some(lost) = position.generations.last()
            && !chain.iter().any(|(number, _)| usize::from(*number) == last)
            && let Some(at) = files.iter().position(|new| is_copy_of(lost, new))
        {
            let copy = files.swap_remove(at);
            self.note_done(&copy.path, copy.identity);
            chain.push((last as u8, copy));
        }
        if !chain.iter().any(|(number, _)| usize::from(*number) == last) {
            let lost = position.generations.last();
            let unread = lost.map_or(0, |one| one.length.saturating_sub(one.taken));
            self.counts.rotated_away_unread_bytes.add(unread);
            return None;
        }
        self.go_on(stream, &path, position, chain)
    }

    /// Reads on from a position; `chain` has its generations that are still there. Returns the
    /// newest of them.
    fn go_on(
        &mut self,
        stream: u64,
        path: &Path,
        position: &LogPosition,
        chain: Vec<(u8, NewFile)>,
    ) -> Option<FileIdentity> {
        let numbers: Vec<u8> = chain.iter().map(|(number, _)| *number).collect();
        let origin = |at: usize| {
            let open = position.open[at]?;
            let number = numbers
                .iter()
                .position(|number| *number == open.generation)?;
            Some(LogPlace::origin_of(number as u16, open.offset))
        };
        let resumed = [origin(0), origin(1)];
        let last = position.generations.len() - 1;
        let begins = |number: u8, taken: u64| {
            let open = position.open.iter().flatten();
            let here = open
                .filter(|open| open.generation == number)
                .map(|open| open.offset);
            here.chain([taken]).min().unwrap_or(taken)
        };
        let mut chain = chain.into_iter();
        let (number, first) = chain.next()?;
        let known = |number: u8| match usize::from(number) == last {
            true => position.generations[last].taken,
            // Read to its end by then.
            false => u64::MAX,
        };
        let from = begins(number, position.generations[usize::from(number)].taken);
        let mut place = LogPlace::new(stream, path.as_os_str().as_bytes(), first.identity);
        place.resume(from, known(number), resumed);
        // Before that place, the line that is too long is met anew.
        let is_last = usize::from(number) == last;
        place.skips = position.skips && is_last && from == position.generations[last].taken;
        let newest = first.identity;
        let format = self.format_of(path, &first);
        if is_packed(path.as_os_str().as_bytes()) {
            self.reads(stream, path, first.identity);
        }
        self.send(path, format, first, place, (from, known(number)));
        let mut newest = newest;
        for (number, new) in chain {
            newest = new.identity;
            self.know(stream, new.identity);
            if let Some(log) = self.logs.get_mut(&stream) {
                log.files.push(new.identity.key);
            }
            let next = self.generation(new, 0, known(number));
            self.orders.push(TailOrder::Next(stream, Box::new(next)));
        }
        Some(newest)
    }

    /// After all logs are resumed: has this one still its name?
    fn settle_name(&mut self, stream: u64, path: &Path, newest: FileIdentity) {
        let now = self.open_if_there(path).map(|now| now.identity.key);
        if now == Some(newest.key) {
            self.by_path.insert(path.to_owned(), stream);
            return;
        }
        match now.and_then(|key| self.by_inode.get(&key)) {
            // The file is another log's, which was resumed too.
            Some(other) => {
                let other = other.stream;
                self.by_path.insert(path.to_owned(), other);
                self.orders.push(TailOrder::NameGone(stream));
            }
            None => {
                self.by_path.insert(path.to_owned(), stream);
                match now {
                    Some(_) => self.found(path),
                    None => self.vanished(path),
                }
            }
        }
    }

    /// A file as the reader has it.
    fn generation(&mut self, new: NewFile, read: u64, known: u64) -> Generation {
        let file = Arc::new(new.file);
        if let Some(one) = self.by_inode.get_mut(&new.identity.key) {
            one.open = Arc::downgrade(&file);
        }
        Generation {
            file,
            identity: new.identity,
            read,
            known,
            gone: None,
            packed: unpacker_of(&new.path),
            packed_end: None,
        }
    }

    fn open_if_there(&mut self, path: &Path) -> Option<NewFile> {
        fs::symlink_metadata(path).ok()?;
        self.open(path)
    }
}

/// Names beside a log that are those of its older generations.
fn siblings(path: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(base)) = (path.parent(), path.file_name()) else {
        return Vec::new();
    };
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let older = names.filter(|name| is_generation(base.as_bytes(), name.as_bytes()));
    older.map(|name| folder.join(name)).collect()
}

fn is_older(modified_ns: i128, age: Duration) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos() as i128);
    modified_ns < now - age.as_nanos() as i128
}
