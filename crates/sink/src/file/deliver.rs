//! Delivery loop of the `file` destination: events grouped by path, appended, then settled.
//!
//! # What it guarantees
//! * Each event is settled once: as delivered after its write, for a retry, or as refused.
//! * A failed write holds the events of its file alone. A path that is too long refuses its events.
//! * With `fsync: batch`, the file is synced before its events count as delivered.
//! * A closed or rotated file is still synced, unless the option is `fsync: never`.
//!
//! # Limits
//! Encoded events take `BUFFERED_BYTES` and one event. At most `max_open_files` files are open.
//! Pauses after failures grow within `PAUSES`.
//!
//! # After a crash
//! The queue delivers unsettled events again, so lines that were already written may come twice.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use inrush_codec::encode::JsonLines;
use inrush_event::{Batch, Delivery, Fate, Feed, FeedNext, Record, RefuseReason, Timestamp};
use inrush_files::{Access, TightenReport};

use super::open::OpenFile;
use super::paths::PathLimiter;
use super::sync::Syncer;
use super::template::{PathForm, PathTemplate};
use super::tidy::RotationWorker;
use super::{FileConfig, FileFormat, FsyncPolicy};
use crate::quarantine::{EventRefusal, Quarantine, RefusedRecords, Refuser};
use crate::{ErrorReason, IDLE_WAIT, Sink, SinkError, SinkProblem, SinkStatus, backoff};

#[cfg(test)]
mod tests;

/// Bytes of encoded events in memory before they are written, whatever their files.
pub(super) const BUFFERED_BYTES: usize = 4 * 1024 * 1024;

/// Buffers kept from batch to batch; more than that many files a batch pay for fresh ones.
const SPARE_BUFFERS: usize = 8;

/// Interval at which open files are checked: synced when due, closed when moved away.
const TICK: Duration = Duration::from_secs(1);

/// First and longest pause after a failed write.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// The records of a batch that `events` names; those beyond its end do not exist.
pub(crate) fn records<'a>(batch: &'a Batch, events: &Range<u32>) -> &'a [Record] {
    let all = batch.records();
    let end = all.len().min(events.end as usize);
    &all[end.min(events.start as usize)..end]
}

/// The sink that appends to files.
pub struct FileSink {
    config: FileConfig,
    data_dir: PathBuf,
    template: PathTemplate,
    /// `None` where senders have no part in the path.
    paths: Option<PathLimiter>,
    encoder: JsonLines,
    refuser: Refuser,
    status: Arc<SinkStatus>,
    open: HashMap<String, OpenFile>,
    groups: PathGroups,
    /// Batches so far: the clock of the least recently used file.
    uses: u64,
    failures: u32,
    /// Paths whose rotated files want looking after; `None` while the thread does not run.
    rotated: Option<Sender<PathBuf>>,
    tidier: Option<(JoinHandle<()>, Arc<AtomicBool>)>,
    syncer: Syncer,
    access: Access,
    /// Said in the log already that files were readable for others.
    told_wide: bool,
}

/// Encoded events by the file that they go to. The buffers are kept from batch to batch.
#[derive(Default)]
struct PathGroups {
    by_path: HashMap<String, GroupIndex>,
    list: Vec<PathGroup>,
    /// Buffers of earlier batches.
    spare: Vec<Vec<u8>>,
    /// The group of each event in hand; `None` where no path could be made.
    of_event: Vec<Option<usize>>,
    bytes: usize,
    path: String,
}

/// Events that go to one file.
struct PathGroup {
    path: String,
    lines: Vec<u8>,
    /// Events whose own path is another one, which was one too many.
    overflow: u64,
}

/// The group of events of a path.
#[derive(Clone, Copy)]
struct GroupIndex {
    group: usize,
    overflow: bool,
}

impl PathGroups {
    fn clear(&mut self) {
        self.by_path.clear();
        let used = self.list.drain(..).map(|group| group.lines);
        self.spare.extend(used);
        self.spare.truncate(SPARE_BUFFERS);
        self.of_event.clear();
        self.bytes = 0;
    }

    /// The place of events of the path in `self.path`, if there were some. The last one is tried
    /// first: events of one sender come together.
    fn known(&self) -> Option<GroupIndex> {
        if let Some(Some(group)) = self.of_event.last()
            && self.list[*group].path == self.path
        {
            let (group, overflow) = (*group, false);
            return Some(GroupIndex { group, overflow });
        }
        self.by_path.get(&self.path).copied()
    }

    /// A group for the path in `self.path`.
    fn add(&mut self) -> GroupIndex {
        let place = GroupIndex {
            group: self.list.len(),
            overflow: false,
        };
        self.by_path.insert(self.path.clone(), place);
        let mut lines = self.spare.pop().unwrap_or_default();
        lines.clear();
        self.list.push(PathGroup {
            path: self.path.clone(),
            lines,
            overflow: 0,
        });
        place
    }
}

/// Outcome of one event, or of all events of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteOutcome {
    Written,
    Held,
    Refused,
}

impl FileSink {
    pub(crate) fn new(
        name: &str,
        config: &FileConfig,
        data_dir: &Path,
        quarantine: Arc<dyn Quarantine>,
        status: Arc<SinkStatus>,
    ) -> Result<Self, SinkError> {
        let bad_path = |message| SinkError::Config(SinkProblem::new("path", message));
        let template = PathTemplate::parse(&config.path).map_err(bad_path)?;
        let paths = template.is_open().then(|| {
            let root = data_dir.join(template.root());
            PathLimiter::new(config.max_paths, &root, template.inodes())
        });
        let destination = name.to_owned();
        let access = config
            .access()
            .resolve()
            .map_err(|(key, message)| SinkError::Config(SinkProblem::new(key, message)))?;
        Ok(Self {
            config: config.clone(),
            data_dir: data_dir.to_owned(),
            template,
            paths,
            encoder: JsonLines::new(),
            refuser: Refuser {
                destination,
                quarantine,
                status: Arc::clone(&status),
            },
            syncer: Syncer::start(Arc::clone(&status))
                .map_err(SinkError::Unstartable)?
                .at_most(config.max_open_files as usize),
            status,
            open: HashMap::new(),
            groups: PathGroups::default(),
            uses: 0,
            failures: 0,
            rotated: None,
            tidier: None,
            access,
            told_wide: false,
        })
    }

    fn deliver(&mut self, feed: &dyn Feed, delivery: &Delivery) {
        let mut left = delivery.events.clone();
        while !left.is_empty() {
            let taken = self.encode(&delivery.batch, left.clone());
            let events = left.start..left.start + taken;
            left.start = events.end;
            let outcomes = self.write_groups();
            self.settle(feed, delivery, events, &outcomes);
        }
    }

    /// Encodes as many of the events as fit, at least one; says how many.
    fn encode(&mut self, batch: &Batch, events: Range<u32>) -> u32 {
        self.groups.clear();
        let now = Timestamp::now();
        let mut taken = 0;
        for record in records(batch, &events) {
            taken += 1;
            let out = &mut self.groups.path;
            if !self.template.render(PathForm::Own, batch, record, out) {
                self.groups.of_event.push(None);
                continue;
            }
            let known = self.groups.known();
            let place = known.unwrap_or_else(|| self.place(batch, record, now));
            let group = place.group;
            self.groups.list[group].overflow += u64::from(place.overflow);
            let lines = &mut self.groups.list[group].lines;
            let before = lines.len();
            match self.config.format {
                FileFormat::Json => self.encoder.encode(batch, record, lines),
                FileFormat::Raw => {
                    lines.extend_from_slice(batch.get(record.raw));
                    lines.push(b'\n');
                }
            }
            self.groups.bytes += lines.len() - before;
            self.groups.of_event.push(Some(group));
            if self.groups.bytes >= BUFFERED_BYTES {
                break;
            }
        }
        taken
    }

    /// The place of events whose path, in `groups.path`, is new in this batch.
    fn place(&mut self, batch: &Batch, record: &Record, now: Timestamp) -> GroupIndex {
        let Some(paths) = &mut self.paths else {
            return self.groups.add();
        };
        let own = std::mem::take(&mut self.groups.path);
        let out = &mut self.groups.path;
        self.template.render(PathForm::Undated, batch, record, out);
        let exists = || self.open.contains_key(&own) || self.data_dir.join(&own).exists();
        let Err(cause) = paths.admit(out, now, exists) else {
            self.groups.path = own;
            return self.groups.add();
        };
        self.status.overflows(cause, now);
        self.template.render(PathForm::Other, batch, record, out);
        let place = GroupIndex {
            overflow: true,
            ..self.groups.known().unwrap_or_else(|| self.groups.add())
        };
        self.groups.by_path.insert(own, place);
        place
    }

    fn write_groups(&mut self) -> Vec<WriteOutcome> {
        self.uses += 1;
        let now = Timestamp::now();
        let groups = std::mem::take(&mut self.groups.list);
        let outcomes = groups.iter().map(|group| {
            let outcome = self.write_group(&group.path, &group.lines, now);
            if outcome == WriteOutcome::Written {
                self.status.overflowed(group.overflow);
            }
            outcome
        });
        let outcomes = outcomes.collect();
        self.groups.list = groups;
        if let Some(paths) = &mut self.paths {
            paths.made();
        }
        outcomes
    }

    fn write_group(&mut self, path: &str, lines: &[u8], now: Timestamp) -> WriteOutcome {
        self.status.attempted();
        let begun = Instant::now();
        match self.append(path, lines, now) {
            Ok(()) => {
                self.status.timed(begun.elapsed());
                self.status.succeeded(lines.len());
                WriteOutcome::Written
            }
            Err(error) => {
                // Whatever is wrong with it, a fresh look at the path is the better next try;
                // but a file that still ends in half a write must be cut first.
                if let Some(file) = self.open.remove(path) {
                    if file.is_whole() {
                        self.close(file);
                    } else {
                        self.open.insert(path.to_owned(), file);
                    }
                }
                let text = format!("{path}: {error}");
                if error.kind() == io::ErrorKind::InvalidFilename {
                    self.status.noted(ErrorReason::Io, &text);
                    return WriteOutcome::Refused;
                }
                self.status.failed(ErrorReason::of_file(&error), &text);
                WriteOutcome::Held
            }
        }
    }

    fn append(&mut self, path: &str, lines: &[u8], now: Timestamp) -> io::Result<()> {
        let every = self.config.rotate.every.map(|every| every.0);
        let max_bytes = self.config.rotate.max_bytes.map(|max| max.0);
        if self
            .opened(path, now)?
            .is_due(lines.len(), max_bytes, every, now)?
        {
            self.rotate(path, now)?;
        }
        let sync = self.config.fsync == FsyncPolicy::Batch;
        self.opened(path, now)?.append(lines, sync)
    }

    fn opened(&mut self, path: &str, now: Timestamp) -> io::Result<&mut OpenFile> {
        if !self.open.contains_key(path) {
            self.close_oldest();
            let every = self.config.rotate.every.map(|every| every.0);
            let mut wide = TightenReport::default();
            let whole = self.data_dir.join(path);
            let file = OpenFile::open(
                &whole,
                self.config.format,
                (every, now),
                &self.access,
                &mut wide,
            )?;
            self.tell_wide(&whole, &wide);
            self.open.insert(path.to_owned(), file);
        }
        let file = self.open.get_mut(path).ok_or(io::ErrorKind::NotFound)?;
        file.last_used = self.uses;
        Ok(file)
    }

    /// Says once that files were there which others could read.
    fn tell_wide(&mut self, path: &Path, wide: &TightenReport) {
        if wide.changed + wide.left == 0 || std::mem::replace(&mut self.told_wide, true) {
            return;
        }
        let (path, destination) = (path.display(), &self.refuser.destination);
        match wide.left {
            0 => tracing::warn!(
                %path, destination,
                "a file was readable for other users; now it has `file_mode`, as all of this \
                 destination will; set `file_mode` and `group` where others are to read them"
            ),
            _ => tracing::warn!(
                %path, destination,
                "a file is readable for other users and belongs to another: chmod it yourself"
            ),
        }
    }

    /// Makes room for one more open file.
    fn close_oldest(&mut self) {
        while self.open.len() >= self.config.max_open_files as usize {
            let oldest = self.open.iter().min_by_key(|(_, file)| file.last_used);
            let Some(path) = oldest.map(|(path, _)| path.clone()) else {
                return;
            };
            if let Some(file) = self.open.remove(&path) {
                self.close(file);
            }
        }
    }

    /// Closes a file. Its events may have been settled long before, so whatever the reason, what
    /// was written to it is still forced to the disk.
    fn close(&self, file: OpenFile) {
        if self.config.fsync != FsyncPolicy::Never
            && let Some(unsynced) = file.into_unsynced()
        {
            self.syncer.sync_closed(unsynced);
        }
    }

    fn rotate(&mut self, path: &str, now: Timestamp) -> io::Result<()> {
        if let Some(file) = self.open.remove(path) {
            let renamed = file.rotate(now);
            self.close(file);
            renamed?;
        }
        // Where no thread could be had before, there may be one now.
        if self.rotated.is_none() {
            self.start_tidier();
        }
        if let Some(rotated) = &self.rotated {
            // The thread is gone only while the process stops; the next run tidies up then.
            let _ = rotated.send(self.data_dir.join(path));
        }
        Ok(())
    }

    /// Settles events in runs of the same outcome; one run, but for trouble.
    fn settle(
        &mut self,
        feed: &dyn Feed,
        delivery: &Delivery,
        events: Range<u32>,
        outcomes: &[WriteOutcome],
    ) {
        let all_held = outcomes.iter().all(|o| *o == WriteOutcome::Held) && !outcomes.is_empty();
        let any_held = outcomes.contains(&WriteOutcome::Held);
        self.failures = if any_held { self.failures + 1 } else { 0 };
        let pause = backoff::pause(self.failures, PAUSES.0, PAUSES.1);
        let outcome_of =
            |group: &Option<usize>| group.map_or(WriteOutcome::Refused, |g| outcomes[g]);
        let mut start = events.start;
        for run in self
            .groups
            .of_event
            .chunk_by(|a, b| outcome_of(a) == outcome_of(b))
        {
            let range = start..start + run.len() as u32;
            start = range.end;
            match outcome_of(&run[0]) {
                WriteOutcome::Written => feed.settle(delivery.position, range, Fate::Delivered),
                WriteOutcome::Held => {
                    feed.settle(delivery.position, range, Fate::RetryAfter(pause))
                }
                WriteOutcome::Refused => self.refuse(feed, delivery, range),
            }
        }
        if all_held {
            backoff::wait(feed, pause);
        }
    }

    fn refuse(&self, feed: &dyn Feed, delivery: &Delivery, events: Range<u32>) {
        let refusal = EventRefusal {
            reason: RefuseReason::UnsafePath,
            code: 0,
            text: "the path made from this event is longer than a file system takes".into(),
        };
        let refused = RefusedRecords {
            position: delivery.position,
            batch: Arc::clone(&delivery.batch),
            events,
            refusal,
            attempts: 1,
        };
        self.refuser.refuse(feed, vec![refused]);
    }

    /// Has what is due synced, and closes files that another program moved or deleted.
    fn tick(&mut self) {
        if self.config.fsync == FsyncPolicy::Interval && !self.syncer.busy() {
            let taken: Vec<_> = self
                .open
                .values_mut()
                .filter_map(|file| file.take_unsynced().transpose())
                .collect();
            let (files, errors): (Vec<_>, Vec<_>) = taken.into_iter().partition(Result::is_ok);
            self.syncer.sync_open(files.into_iter().flatten().collect());
            errors
                .iter()
                .filter_map(|one| one.as_ref().err())
                .for_each(|e| self.note_fsync(e));
        }
        let moved = self.open.extract_if(|_, file| !file.is_in_place());
        let moved: Vec<OpenFile> = moved.map(|(_, file)| file).collect();
        moved.into_iter().for_each(|file| self.close(file));
        self.rotate_late();
    }

    /// The last sync, waited for.
    fn sync_all(&mut self) {
        let failed: Vec<io::Error> = self
            .open
            .values_mut()
            .filter_map(|file| file.sync().err())
            .collect();
        failed.iter().for_each(|error| self.note_fsync(error));
    }

    fn note_fsync(&self, error: &io::Error) {
        self.status
            .noted(ErrorReason::of_file(error), &format!("fsync: {error}"));
    }

    /// Rotates files whose time is over though nothing is written to them.
    fn rotate_late(&mut self) {
        let now = Timestamp::now();
        let Some(every) = self.config.rotate.every else {
            return;
        };
        let late = |file: &OpenFile| file.is_due(0, None, Some(every.0), now).unwrap_or(false);
        let due: Vec<String> = self
            .open
            .iter()
            .filter(|(_, f)| late(f))
            .map(|(path, _)| path.clone())
            .collect();
        for path in due {
            if let Err(error) = self.rotate(&path, now) {
                self.status
                    .noted(ErrorReason::of_file(&error), &format!("{path}: {error}"));
            }
        }
    }

    fn take_batches(&mut self, feed: &dyn Feed) {
        let tick = match self.config.fsync {
            FsyncPolicy::Interval => self.config.fsync_interval.0,
            FsyncPolicy::Never | FsyncPolicy::Batch => TICK,
        };
        let mut next_tick = Instant::now() + tick;
        loop {
            match feed.next(IDLE_WAIT.min(tick)) {
                FeedNext::Batch(delivery) => self.deliver(feed, &delivery),
                FeedNext::Idle if feed.stopping() => return,
                FeedNext::Idle => {}
                FeedNext::Closed => return,
            }
            if Instant::now() >= next_tick {
                self.tick();
                next_tick = Instant::now() + tick;
            }
        }
    }

    fn start_tidier(&mut self) {
        let (sender, receiver) = channel();
        let abort = Arc::new(AtomicBool::new(false));
        let tidier = RotationWorker {
            compression: self.config.compression,
            keep_files: self.config.keep_files,
            access: self.access,
            abort: Arc::clone(&abort),
            status: Arc::clone(&self.status),
        };
        let named = std::thread::Builder::new().name("file-tidy".into());
        match named.spawn(move || tidier.run(&receiver)) {
            Ok(thread) => {
                self.rotated = Some(sender);
                self.tidier = Some((thread, abort));
            }
            Err(error) => {
                let text = format!("rotated files wait: no thread to tidy them: {error}");
                self.status.noted(ErrorReason::Io, &text);
            }
        }
    }
}

impl Sink for FileSink {
    fn run(mut self: Box<Self>, feed: Arc<dyn Feed>) {
        self.start_tidier();
        self.take_batches(&*feed);
        self.rotated = None;
        if self.config.fsync != FsyncPolicy::Never {
            self.sync_all();
        }
        let Some((tidier, abort)) = self.tidier.take() else {
            return;
        };
        while !tidier.is_finished() {
            abort.store(feed.stopping(), Relaxed);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
