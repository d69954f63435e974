//! Files that are known, by inode and by name: which log a file belongs to, and from where it is
//! read.
//!
//! # What it guarantees
//! * A file is read by one log, whatever names it has had; two files that begin alike are two.
//! * A file that is found in the place of another one is a new one: its inode may be the same.
//! * After a restart each log goes on where its last durable event ended, though its files have
//!   other names by then; what was deleted meanwhile is counted. Files that came and were renamed
//!   meanwhile are read behind it.
//!
//! # Limits
//! A folder is listed once for each log that is resumed or rotated.
//!
//! # After a crash
//! All of it is made anew from the positions in the queue and the names in the folders.

mod again;
mod copies;
mod missed;
mod names;
mod owners;
mod packed;
mod renames;
mod resume;

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use inrush_event::instant_now;
use inrush_kubernetes::{WorkloadAnswer, WorkloadMetadataState};
use inrush_transport::files::glob::GlobSet;
use inrush_transport::files::identity::{FileIdentity, IdentityMatch, InodeKey};
use inrush_transport::files::tail_file::{AllowedRoots, PathRefusal, TailFile};

use super::counts::SharedCounts;
use super::decoder::{LineForm, LogForm};
use super::form::{FormMaker, is_chained};
use super::log::{Generation, is_within_line};
use super::options::{FileSource, StartAt};
use super::place::LogPlace;
use super::tail::{EndedLog, FoundLog, TailOrder};
use super::workload::WorkloadBoard;
use again::{ClosedFile, ClosedFiles, LaterNames, LaterReason};
use copies::{CopyFiles, CopyState, leave_hole};
use missed::NameAccounts;
use names::{is_generation_of, is_packed_path, is_rotated, leads_to, name_of, siblings};
use packed::{OpenFile, PackedFiles, unpacker_of};
use resume::OrphanLogs;

/// Stream of a file that no log has read: a copy.
pub(super) const NO_LOG: u64 = u64::MAX;

/// Generations of a log that are known without a look at which have a name.
const FILES_KEPT: usize = 16;

/// File systems keep times by the kernel's coarse clock, which is up to a tick (10 ms) late.
pub(super) const BIRTH_GRAIN_NS: i64 = 10_000_000;

/// A file that a log reads, or has read.
pub(super) struct KnownFile {
    pub(super) stream: u64,
    pub(super) identity: FileIdentity,
    /// Bytes that are taken, once it is closed; `u64::MAX`: others of its log followed it.
    pub(super) closed_at: Option<u64>,
    /// Bytes that were taken when the reader left it for the next one of its log.
    pub(super) left_at: Option<u64>,
    pub(super) open: OpenFile,
}

/// A log that is read.
pub(super) struct KnownLog {
    /// Its name, which the newest generation has.
    pub(super) path: Arc<Path>,
    /// Other names of that file which match, such as links.
    pub(super) others: Vec<PathBuf>,
    pub(super) form: Arc<LogForm>,
    /// True if its generations are read one after the other.
    pub(super) is_chained: bool,
    /// True if the newest generation has lost its name.
    pub(super) is_gone: bool,
    /// Its generations, the oldest first.
    pub(super) files: Vec<InodeKey>,
    /// Answer about its container, if it is one's.
    pub(super) workload: Option<Box<WorkloadAnswer>>,
    /// Time until which it waits for that.
    pub(super) held_until: Option<Instant>,
}

/// Files and logs of one source.
pub(super) struct KnownFiles {
    pub(super) maker: Arc<FormMaker>,
    pub(super) board: Arc<WorkloadBoard>,
    globs: Option<GlobSet>,
    pub(super) roots: Arc<AllowedRoots>,
    pub(super) counts: SharedCounts,
    pub(super) start_at: StartAt,
    /// Time of the first start of the source, in nanoseconds since 1970: older files are old.
    pub(super) first_start: i64,
    older_than: Option<Duration>,
    packed: PackedFiles,
    copies: CopyFiles,
    pub(super) by_inode: HashMap<InodeKey, KnownFile>,
    pub(super) by_path: HashMap<Arc<Path>, u64>,
    pub(super) logs: HashMap<u64, Box<KnownLog>>,
    next_stream: u64,
    /// Orders that are to be sent.
    pub(super) orders: Vec<TailOrder>,
    /// Names of files that are being copied.
    pub(super) postponed: Vec<PathBuf>,
    /// Names that could not be opened, and why: said once.
    pub(super) refused: HashMap<PathBuf, PathRefusal>,
    later: LaterNames,
    closed: ClosedFiles,
    /// Logs of an earlier process whose file has another name now, or none.
    orphans: OrphanLogs,
    /// Names that are not quiet.
    pub(super) accounts: NameAccounts,
}

/// An open file that no log has.
pub(super) struct NewFile {
    /// Name under which it was opened.
    pub(super) path: PathBuf,
    pub(super) file: TailFile,
    pub(super) identity: FileIdentity,
    /// Time by which generations are ordered: its birth, or its last change.
    pub(super) born: i64,
    /// Time of its last change.
    pub(super) modified: i64,
    pub(super) length: u64,
    /// Form of its lines, once it was looked for.
    format: OnceCell<Option<LineForm>>,
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
            globs: GlobSet::new(&options.include, &options.exclude).ok(),
            later: LaterNames::new(options.poll_interval.0),
            closed: ClosedFiles::new(options.poll_interval.0),
            packed: PackedFiles::new(options.compressed),
            copies: CopyFiles::default(),
            maker: Arc::new(maker),
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
            orphans: OrphanLogs::default(),
            accounts: NameAccounts::default(),
        }
    }

    /// True if files of that name are to be read.
    pub(super) fn matches(&self, path: &Path) -> bool {
        self.is_included(path) || self.maker.desk().volume_root(path).is_some()
    }

    /// True if the options name a path.
    pub(super) fn is_included(&self, path: &Path) -> bool {
        self.globs.as_ref().is_some_and(|globs| globs.matches(path))
    }

    /// The options that it follows.
    pub(super) fn options(&self) -> &FileSource {
        self.maker.options()
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
    ) -> Vec<u64> {
        self.maker = Arc::new(maker);
        let options = self.maker.options();
        self.older_than = options.older_than.map(|age| age.0);
        self.packed.follow(options.compressed);
        self.start_at = options.start_at;
        self.globs = GlobSet::new(&options.include, &options.exclude).ok();
        // All names are found again.
        self.later = LaterNames::new(options.poll_interval.0);
        self.counts.waiting_files.set(0);
        let closed = ClosedFiles::new(options.poll_interval.0);
        for file in std::mem::replace(&mut self.closed, closed).into_files() {
            if self.matches(&file.path) {
                self.closed.insert(file);
            }
        }
        self.roots = roots;
        let mut gone = Vec::new();
        let desk = Arc::clone(self.maker.desk());
        for (stream, log) in &mut self.logs {
            let globs = self.globs.as_ref();
            let is_included = globs.is_some_and(|globs| globs.matches(&log.path));
            if !is_included && desk.volume_root(&log.path).is_none() {
                gone.push(*stream);
                continue;
            }
            let name = log.path.to_string_lossy();
            log.workload = desk.ask(&name, log.workload.as_deref(), true).map(Box::new);
            let view = log.workload.as_ref().map(|answer| &answer.view);
            if view.is_none_or(|one| one.metadata != WorkloadMetadataState::Awaited) {
                log.held_until = None;
            }
            let form = (self.maker).form_like(&log.form, view, log.held_until);
            log.form = Arc::clone(&form);
            let named = (form, Arc::clone(&log.path));
            self.orders.push(TailOrder::Form(*stream, named));
            match view.filter(|_| desk.is_live()) {
                Some(view) => self.board.show(*stream, view),
                None => self.board.remove(*stream),
            }
            log.workload = log.workload.take().filter(|_| desk.is_live());
        }
        gone
    }

    /// Opens a file, where it may be.
    pub(super) fn open_file(&self, path: &Path) -> Result<TailFile, PathRefusal> {
        // Links never lead out of a volume: its files are written by others than who reads them.
        let volume = self.maker.desk().volume_root(path);
        let volume = volume.map(|root| AllowedRoots::new(vec![root], false));
        TailFile::open(path, volume.as_ref().unwrap_or(&self.roots))
    }

    pub(super) fn open(&mut self, path: &Path) -> Option<NewFile> {
        let opened = self.open_file(path).and_then(|file| {
            let mut identity = FileIdentity::of(file.as_file()).map_err(PathRefusal::from)?;
            leave_hole(&file, &mut identity);
            let status = file.status().map_err(PathRefusal::from)?;
            let modified = i64::try_from(status.modified_ns).unwrap_or(i64::MAX);
            Ok(NewFile {
                path: path.to_owned(),
                format: OnceCell::new(),
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
            Err(PathRefusal::Gone) => {
                self.refused.remove(path);
                None
            }
            Err(refusal) => {
                self.refuse(path, refusal);
                None
            }
        }
    }

    /// A name cannot be opened now. No notice says when it can.
    fn refuse(&mut self, path: &Path, refusal: PathRefusal) {
        self.accounts.refused(path);
        if self.matches(path) {
            self.later.insert(path, path, LaterReason::Refused);
        }
        if self.refused.get(path) != Some(&refusal) {
            self.counts.failed_files.add(1);
            tracing::warn!(file = %path.display(), "not read: {refusal}");
            self.counts.board.refused(path, &refusal);
            self.refused.insert(path.to_owned(), refusal);
        }
    }

    /// Looks at a name that matches the patterns.
    pub(super) fn found(&mut self, path: &Path) {
        self.later.remove(path);
        if is_packed_path(path) {
            return self.found_packed(path);
        }
        let Some(new) = self.open(path) else {
            return;
        };
        let is_read = self.is_read(path, &new);
        let is_new = !is_read || self.is_copy(new.identity.key);
        self.accounts.saw(path, &new.identity, is_new);
        if is_read {
            return self.seen_again(path, &new);
        }
        if self.is_too_old(path, path, &new) {
            return;
        }
        self.find_original(path);
        match self.copied_from(path, &new) {
            Some(CopyState::Whole) => return self.know_copy(path, new.identity),
            Some(CopyState::Begun) => return self.postponed.push(path.to_owned()),
            None => {}
        }
        if !self.counts.has_place() {
            return self.later.insert_full(path, path, new.length);
        }
        let Some(new) = self.adopt(path, new) else {
            return;
        };
        let before = self.by_path.get(path).copied();
        if self.by_inode.contains_key(&new.identity.key) {
            // It was closed, and is read on.
            before.into_iter().for_each(|before| self.name_gone(before));
            self.begin(path, new);
            return;
        }
        match before {
            Some(stream) if self.logs.get(&stream).is_some_and(|log| log.is_chained) => {
                self.follow(stream, path, new);
            }
            Some(stream) => {
                self.name_gone(stream);
                self.by_path.remove(path);
                self.missed(stream, path, &new);
                self.begin(path, new);
            }
            None => self.begin_all(path, new),
        }
    }

    /// True if a file was last written too long ago; it is looked at again.
    pub(super) fn is_too_old(&mut self, name: &Path, log: &Path, new: &NewFile) -> bool {
        let age = self.older_than;
        let is_old = age.is_some_and(|age| is_older(i128::from(new.modified), age));
        if is_old {
            let reason = LaterReason::Old(new.modified);
            self.later.insert(name, log, reason);
        }
        is_old
    }

    /// Takes note of the head of a file that has grown, or that begins anew.
    pub(super) fn learn(&mut self, identity: FileIdentity) {
        let Some(known) = self.by_inode.get_mut(&identity.key) else {
            return;
        };
        known.identity = identity;
    }

    /// A generation of a log was left, with so many bytes taken.
    pub(super) fn left(&mut self, key: InodeKey, taken: u64) {
        if let Some(known) = self.by_inode.get_mut(&key) {
            known.left_at = Some(taken);
        }
        self.left_copy(key);
        self.copied(key);
    }

    /// True if a log reads the file, or has read it to its end.
    pub(super) fn is_read(&mut self, path: &Path, new: &NewFile) -> bool {
        let key = new.identity.key;
        let Some(known) = self.by_inode.get(&key) else {
            return false;
        };
        let (stream, closed_at) = (known.stream, known.closed_at);
        match known.identity.matches(new.file.as_file()) {
            Ok(IdentityMatch::Same | IdentityMatch::OtherDevice) => {}
            Ok(IdentityMatch::Rewritten) if closed_at.is_none() => {
                self.orders.push(TailOrder::Changed(stream));
            }
            _ => {
                self.counts.inode_reused.add(1);
                self.forget_file(key);
                return false;
            }
        }
        match closed_at {
            None => self.name(stream, path, key),
            Some(taken) if new.length > taken => return false,
            Some(_) => {}
        }
        true
    }

    /// Forgets a file that is there no more. A log that has ended with it has no position.
    pub(super) fn forget_file(&mut self, key: InodeKey) {
        let Some(file) = self.by_inode.remove(&key) else {
            return;
        };
        let is_last = file.closed_at.is_some_and(|taken| taken < u64::MAX);
        if is_last && self.has_ended(file.stream) {
            self.orders.push(TailOrder::ForgetPosition(file.stream));
        }
    }

    /// A name leads to a file that a log reads.
    fn name(&mut self, stream: u64, path: &Path, key: InodeKey) {
        let Some(log) = self.logs.get_mut(&stream) else {
            return;
        };
        if log.files.last() != Some(&key) || is_generation_of(&log.path, path) {
            return;
        }
        let is_same = *log.path == *path;
        if !is_same && leads_to(&log.path, key) {
            if !log.others.iter().any(|other| other == path) {
                log.others.push(path.to_owned());
                self.by_path.insert(path.into(), stream);
            }
            return;
        }
        if is_same && !log.is_gone {
            return;
        }
        log.is_gone = false;
        log.others.retain(|other| other != path);
        let before = std::mem::replace(&mut log.path, path.into());
        if !is_same && self.by_path.get(&before) == Some(&stream) {
            self.by_path.remove(&before);
        }
        self.by_path.insert(Arc::clone(&log.path), stream);
        let named = TailOrder::Named(stream, path.to_owned());
        self.orders.push(named);
    }

    /// The newest generation of a log has lost its name.
    pub(super) fn name_gone(&mut self, stream: u64) {
        if let Some(log) = self.logs.get_mut(&stream) {
            log.is_gone = true;
        }
        self.orders.push(TailOrder::NameGone(stream));
    }

    /// Begins to read a log of which nothing is known. Files of a container that were renamed
    /// before anybody saw them are read first.
    fn begin_all(&mut self, path: &Path, new: NewFile) {
        let name = path.to_string_lossy();
        let mut older = match is_chained(self.format_of(path, &new), &name) {
            true => self.unseen(path, Some(&new), self.first_start - BIRTH_GRAIN_NS),
            false => Vec::new(),
        };
        older.push(new);
        let older: Vec<_> = older
            .into_iter()
            .filter_map(|new| self.adopt_nameless(path, new))
            .collect();
        let mut all = older.into_iter();
        let Some(first) = all.next() else {
            return;
        };
        let stream = self.begin(path, first);
        for next in all {
            self.push(stream, next);
        }
    }

    fn format_of(&self, path: &Path, new: &NewFile) -> Option<LineForm> {
        let head = |room: &mut [u8]| new.head(room);
        let look = || self.maker.line_form(&path.to_string_lossy(), head);
        *new.format.get_or_init(look)
    }

    /// Begins to read a file that belongs to no log, or to one that has ended. Returns the log.
    pub(super) fn begin(&mut self, path: &Path, new: NewFile) -> u64 {
        let ended = self.by_inode.get(&new.identity.key);
        let ended = ended.and_then(|one| Some((one.stream, one.closed_at?)));
        let is_old = new.born < self.first_start;
        let (stream, from) = match (ended, self.start_at) {
            // Its position is that of the same file.
            (Some((stream, taken)), _) if self.has_ended(stream) => (stream, taken),
            (Some((_, taken)), _) => (self.new_stream(), taken),
            (None, StartAt::End) if is_old => (self.new_stream(), new.length),
            (None, _) => (self.new_stream(), 0),
        };
        self.closed.remove(path, new.identity.key);
        let mut place = LogPlace::new(stream, path, new.identity);
        place.resume(from, from, [None, None]);
        place.skips = ended.is_none() && is_within_line(&new.file, from);
        self.send(path, new, place, (from, from));
        stream
    }

    /// True if a log has had that number, and is read no more.
    fn has_ended(&self, stream: u64) -> bool {
        stream != NO_LOG && !self.logs.contains_key(&stream)
    }

    pub(super) fn new_stream(&mut self) -> u64 {
        let stream = self.next_stream;
        self.next_stream += 1;
        stream
    }

    /// Has the reader open a log.
    pub(super) fn send(
        &mut self,
        path: &Path,
        new: NewFile,
        place: LogPlace,
        (read, known): (u64, u64),
    ) {
        let name = path.to_string_lossy();
        let stream = place.stream();
        let format = self.format_of(path, &new);
        let desk = self.maker.desk();
        let workload = desk.ask(&name, None, false);
        let view = workload.as_ref().map(|answer| &answer.view);
        let is_awaited = view.is_some_and(|one| one.metadata == WorkloadMetadataState::Awaited);
        let held_until = is_awaited.then(|| instant_now() + desk.wait);
        let form = self.maker.form(format, view, held_until);
        let is_live = desk.is_live();
        if let Some(view) = view.filter(|_| is_live) {
            self.board.show(stream, view);
        }
        let key = new.identity.key;
        let known_as = Arc::clone(place.path());
        let log = KnownLog {
            path: Arc::clone(&known_as),
            others: Vec::new(),
            is_chained: form.is_chained(&name) && !is_packed_path(&known_as),
            is_gone: false,
            form: Arc::clone(&form),
            files: vec![key],
            // Else it is asked again.
            workload: workload.filter(|_| is_live).map(Box::new),
            held_until,
        };
        self.logs.insert(stream, Box::new(log));
        let shown_as = match *known_as == *path {
            true => Arc::clone(&known_as),
            false => path.into(),
        };
        self.by_path.insert(known_as, stream);
        self.know(stream, new.identity);
        self.counts.opened();
        let first = self.generation(new, read, known);
        self.orders.push(TailOrder::Open(Box::new(FoundLog {
            path: shown_as,
            form,
            place,
            first,
        })));
    }

    pub(super) fn know(&mut self, stream: u64, identity: FileIdentity) {
        let file = KnownFile {
            stream,
            identity,
            closed_at: None,
            left_at: None,
            open: OpenFile::new(),
        };
        self.by_inode.insert(identity.key, file);
    }

    /// The name of a log has another file: its generations since are read one after the other.
    fn follow(&mut self, stream: u64, path: &Path, new: NewFile) {
        for missed in self.missed_files(stream, path, Some(&new)) {
            if let Some(missed) = self.adopt_nameless(path, missed) {
                self.push(stream, missed);
            }
        }
        self.push(stream, new);
        if let Some(log) = self.logs.get_mut(&stream) {
            log.is_gone = false;
        }
        self.forget_deleted(stream, path);
    }

    /// Has the reader go on with a file once it has read those of its log before.
    pub(super) fn push(&mut self, stream: u64, new: NewFile) {
        self.push_known(stream, new, 0);
    }

    /// The same for a file of which an earlier process has taken so many bytes.
    pub(super) fn push_known(&mut self, stream: u64, new: NewFile, known: u64) {
        self.know(stream, new.identity);
        if let Some(log) = self.logs.get_mut(&stream) {
            log.files.push(new.identity.key);
        }
        self.counts.opened();
        let next = Box::new(self.generation(new, 0, known));
        self.orders.push(TailOrder::Next(stream, next));
    }

    /// Forgets older generations of a log that have no name any more: nobody can find them.
    fn forget_deleted(&mut self, stream: u64, path: &Path) {
        let Some(log) = self.logs.get_mut(&stream) else {
            return;
        };
        if log.files.len() <= FILES_KEPT {
            return;
        }
        let named: Vec<InodeKey> = siblings(path)
            .iter()
            .filter_map(|name| Some(InodeKey::of(&fs::metadata(name).ok()?)))
            .collect();
        let mut number = log.files.len();
        let is_gone = |key: &mut InodeKey| {
            number -= 1;
            number > 0 && !named.contains(key)
        };
        let gone: Vec<InodeKey> = log.files.extract_if(.., is_gone).collect();
        for key in gone {
            self.by_inode.remove(&key);
        }
    }

    /// Files of older generations that came and lost their name before they were seen.
    fn missed(&mut self, stream: u64, path: &Path, newest: &NewFile) {
        for new in self.missed_files(stream, path, Some(newest)) {
            if let Some(new) = self.adopt_nameless(path, new) {
                self.begin_nameless(path, new);
            }
        }
    }

    /// Begins to read a file that had a name, and has it no more.
    pub(super) fn begin_nameless(&mut self, path: &Path, new: NewFile) {
        let before = self.by_path.get(path).copied();
        let stream = self.begin(path, new);
        match before {
            Some(before) => drop(self.by_path.insert(path.into(), before)),
            // What comes under that name is of the same log.
            None if self.logs.get(&stream).is_some_and(|log| log.is_chained) => {}
            None => drop(self.by_path.remove(path)),
        }
        self.name_gone(stream);
    }

    pub(super) fn missed_files(
        &mut self,
        stream: u64,
        path: &Path,
        newest: Option<&NewFile>,
    ) -> Vec<NewFile> {
        let last = self.logs.get(&stream).and_then(|log| log.files.last());
        let last = last.and_then(|key| self.by_inode.get(key));
        let Some(since) = last.and_then(|last| last.identity.birth_ns) else {
            return Vec::new();
        };
        self.unseen(path, newest, since)
    }

    /// Files beside a log that no log has, and that came after `since` and before `newest`, in the
    /// order in which they came.
    pub(super) fn unseen(
        &mut self,
        path: &Path,
        newest: Option<&NewFile>,
        since: i64,
    ) -> Vec<NewFile> {
        let mut found: Vec<NewFile> = Vec::new();
        for name in siblings(path) {
            if !is_rotated(name_of(path), name_of(&name)) {
                continue;
            }
            let Some(new) = self.open(&name) else {
                continue;
            };
            let is_newest = newest.is_some_and(|newest| newest.identity.key == new.identity.key);
            let is_before = newest.is_none_or(|newest| new.born <= newest.born);
            if !is_newest && new.born > since && is_before && !self.is_known(&new) {
                self.accounts.saw(path, &new.identity, true);
                found.push(new);
            }
        }
        found.sort_by_key(|new| (new.born, new.modified));
        found
    }

    /// True if the file is one that a log reads or has read. One with the inode of a file that was
    /// closed, and another beginning, is a new one: births are kept by a coarse clock.
    pub(super) fn is_known(&mut self, new: &NewFile) -> bool {
        let key = new.identity.key;
        let Some(known) = self.by_inode.get(&key) else {
            return false;
        };
        let is_closed = known.closed_at.is_some();
        let is_other = match known.identity.matches(new.file.as_file()) {
            Ok(IdentityMatch::Other) => true,
            Ok(IdentityMatch::Rewritten) => is_closed,
            _ => false,
        };
        if is_other {
            self.counts.inode_reused.add(1);
            self.forget_file(key);
        }
        !is_other
    }

    /// The reader has closed a log.
    pub(super) fn ended(&mut self, ended: &EndedLog) {
        let Some(log) = self.logs.remove(&ended.stream) else {
            return;
        };
        self.board.remove(ended.stream);
        self.packed_ended(ended.stream, ended.is_deleted);
        for path in log.others.iter().map(PathBuf::as_path).chain([&*log.path]) {
            if self.by_path.get(path) == Some(&ended.stream) {
                self.by_path.remove(path);
            }
        }
        let is_wanted = self.matches(&log.path);
        let last = log.files.iter().position(|key| *key == ended.last);
        let last = last.unwrap_or_default();
        for (number, key) in log.files.iter().enumerate() {
            self.copied(*key);
            if self.is_done(*key) {
                if let Some(file) = self.by_inode.get_mut(key) {
                    // Whatever is added to it.
                    file.closed_at = Some(u64::MAX);
                }
                continue;
            }
            let Some(file) = self.by_inode.get(key) else {
                continue;
            };
            let length = file.left_at.or((number == last).then_some(ended.taken));
            self.remember(&log.path, file.identity.head, length.unwrap_or(0));
            let Some(file) = self.by_inode.get_mut(key) else {
                continue;
            };
            if number > last || number == last && ended.is_deleted {
                self.by_inode.remove(key);
                continue;
            }
            file.closed_at = Some(match number == last {
                true => ended.taken,
                false => u64::MAX,
            });
            if is_wanted {
                self.closed.insert(ClosedFile {
                    key: *key,
                    path: log.path.to_path_buf(),
                    unread: if number == last { ended.unread } else { 0 },
                });
            }
        }
        if log.files.len() > last + 1 {
            // They came while the reader closed it.
            self.found(&log.path);
            self.missed_name(&log.path, &log.path);
        }
    }

    /// A file as the reader has it.
    pub(super) fn generation(&mut self, new: NewFile, read: u64, known: u64) -> Generation {
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
            is_behind_gap: false,
        }
    }

    pub(super) fn open_if_there(&mut self, path: &Path) -> Option<NewFile> {
        fs::symlink_metadata(path).ok()?;
        self.open(path)
    }
}

fn is_older(modified_ns: i128, age: Duration) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos() as i128);
    modified_ns < now - age.as_nanos() as i128
}
