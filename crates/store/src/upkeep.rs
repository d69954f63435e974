//! Compaction and retention: a thread that merges small files and deletes old ones.
//!
//! # What it guarantees
//! * Each merge and each deletion is a commit. Files go after their last reader in this process.
//! * Ages count from receipt. For room, no file within [`WriteOptions::min_age`] is deleted.
//! * A damaged file is set aside and left out of merges.
//!
//! # Limits
//! A merge takes `MERGE_FILES_MAX` files and `MERGE_TEXT_BYTES` of text at most, less for a small
//! [`WriteOptions::flush_bytes`]. After a failure, merging pauses for up to `MERGE_PAUSE_MAX`.
//!
//! # After a crash
//! [`Store::open`] deletes files of merges without a commit, and the rest of the removed files.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use inrush_event::{ClockJudgement, Period};

use crate::account::COMPACT;
use crate::care::DiskHeadroom;
use crate::chance;
use crate::decode;
use crate::encode::{self, Encoded};
use crate::mutant::{Mutant, is_on};
use crate::options::{REASONS, ROOM, WriteOptions};
use crate::read::ReadError;
use crate::snapshot::DataFile;
use crate::store::{Store, StoreChange, is_short};

/// Between two rounds.
const ROUND: Duration = Duration::from_secs(2);
/// Nice value by which the thread yields to others: see setpriority(2).
const NICE: i32 = 10;
/// Files of one folder and about one size that are merged.
const MERGE_FILES: usize = 8;
/// Files that are merged at once at most: a process that is killed early gets some done too.
const MERGE_FILES_MAX: usize = 32;
/// A file of so many bytes of text, or rows, is large enough.
const LARGE_TEXT_BYTES: u64 = 16 * 1024 * 1024;
const LARGE_ROWS: u64 = encode::GROUP_ROWS as u64 / 2;
/// Text that is merged at once: bounds the memory that it takes.
const MERGE_TEXT_BYTES: u64 = 64 * 1024 * 1024;
/// The same where memory is short.
const MERGE_TEXT_BYTES_MIN: u64 = 2 * 1024 * 1024;
/// A folder into which nothing came for so long has all its small files merged.
const QUIET: Duration = Duration::from_secs(15 * 60);
/// After a failure, merging pauses for this long at most.
const MERGE_PAUSE_MAX: Duration = Duration::from_secs(5 * 60);
/// Interval between log lines about a failure that goes on.
const SAY_EVERY: Duration = Duration::from_secs(10 * 60);
/// Interval between log lines about deletions for room.
const SAY_ROOM_EVERY: Duration = Duration::from_secs(60);

/// The thread.
pub(crate) struct MaintenanceThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MaintenanceThread {
    pub(crate) fn start(store: &Arc<Store>, options: &WriteOptions) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (store, options, stopped) = (Arc::clone(store), options.clone(), Arc::clone(&stop));
        let spawned = thread::Builder::new()
            .name("store-upkeep".into())
            .spawn(move || {
                // Where memory is short, ingestion waits for it. Where it is refused, the thread is
                // as important as the others.
                if !is_short(&options) {
                    let _ = rustix::process::setpriority_process(None, NICE);
                }
                let mut rounds = MaintenanceState::default();
                while !stopped.load(Ordering::Acquire) {
                    rounds.round(&store, &options, &stopped);
                    thread::park_timeout(ROUND);
                }
                store.care.keep_time(store.home(), true);
            });
        let thread = spawned
            .inspect_err(|error| tracing::error!(%error, "store: no compaction, no retention"))
            .ok();
        Self { stop, thread }
    }

    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the store's upkeep ended by a fault");
            }
        }
    }
}

/// State of the thread between two rounds.
#[derive(Default)]
struct MaintenanceState {
    /// Time at which small files may be merged again after a failure, and the length of the last
    /// pause.
    merge_at: Option<Instant>,
    pause: Duration,
    merging: ErrorThrottle,
    deleting: ErrorThrottle,
    room: UnloggedDeletions,
}

impl MaintenanceState {
    fn round(&mut self, store: &Store, options: &WriteOptions, stop: &AtomicBool) {
        self.delete_and_merge(store, options, stop);
        store.merges_rest();
    }

    fn delete_and_merge(&mut self, store: &Store, options: &WriteOptions, stop: &AtomicBool) {
        store.bury();
        match tidy(store, options) {
            Ok(deleted) => {
                self.deleting.works();
                self.room.add(deleted);
            }
            Err(error) => self
                .deleting
                .say(&error, "store: old files could not be deleted"),
        }
        self.room.tell(options);
        if self.merge_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        while !stop.load(Ordering::Acquire) {
            let planned = merge_if_room(store, options, chance::now().0);
            match planned.and_then(|merge| carry_out(store, merge)) {
                Ok(true) => store.bury(),
                Ok(false) => break,
                Err(error) => {
                    self.pause = (self.pause * 2).clamp(ROUND, MERGE_PAUSE_MAX);
                    self.merge_at = Some(Instant::now() + self.pause);
                    self.merging
                        .say(&error, "store: small files could not be merged");
                    return;
                }
            }
        }
        (self.merge_at, self.pause) = (None, Duration::ZERO);
        self.merging.works();
    }
}

/// Merging needs room for the new files before the old ones go.
pub(crate) fn merge_if_room(
    store: &Store,
    options: &WriteOptions,
    now_ns: i64,
) -> io::Result<CompactionMerge> {
    store.care.may_write(store.home(), options)?;
    let _turn = store.encoder(options);
    merge(store, now_ns, merge_bytes(options))
}

/// Something that fails again and again and is said once, then now and then.
#[derive(Default)]
struct ErrorThrottle {
    said: Option<Instant>,
    since: u64,
}

impl ErrorThrottle {
    fn say(&mut self, error: &io::Error, what: &str) {
        self.since += 1;
        if self.said.is_some_and(|at| at.elapsed() < SAY_EVERY) {
            return;
        }
        self.said = Some(Instant::now());
        let failures = std::mem::take(&mut self.since);
        tracing::warn!(%error, failures, "{what}; tried again");
    }

    fn works(&mut self) {
        *self = Self::default();
    }
}

/// Deletions for room that are not logged yet, and the time of the last log line.
#[derive(Default)]
struct UnloggedDeletions {
    files: usize,
    events: u64,
    at: Option<Instant>,
}

impl UnloggedDeletions {
    fn add(&mut self, deleted: DeletedCounts) {
        self.files += deleted.files;
        self.events += deleted.events;
    }

    fn tell(&mut self, options: &WriteOptions) {
        if self.files == 0 || self.at.is_some_and(|at| at.elapsed() < SAY_ROOM_EVERY) {
            return;
        }
        let (files, events) = (self.files, self.events);
        let min_age = Period(options.min_age);
        tracing::warn!(
            files,
            events,
            %min_age,
            "store: retention deletes the oldest events for room on the disk; set `keep.age` or \
             `keep.bytes`, or make room"
        );
        *self = Self {
            at: Some(Instant::now()),
            ..Self::default()
        };
    }
}

/// Text that is merged at once: twice what is written at once, for both take memory of one budget.
fn merge_bytes(options: &WriteOptions) -> u64 {
    (2 * options.flush_bytes).clamp(MERGE_TEXT_BYTES_MIN, MERGE_TEXT_BYTES)
}

/// Merges the small files of one folder, if there are enough; says whether it did.
///
/// # Errors
/// Nothing has changed, or it is not known whether the merge was committed: it is made before the
/// next commit then.
#[cfg(test)]
pub(crate) fn compact(store: &Store, now_ns: i64) -> io::Result<bool> {
    carry_out(store, merge(store, now_ns, MERGE_TEXT_BYTES)?)
}

fn carry_out(store: &Store, merge: CompactionMerge) -> io::Result<bool> {
    match merge {
        CompactionMerge::Nothing => Ok(false),
        CompactionMerge::Again => Ok(true),
        CompactionMerge::Of(files, encoded) => {
            store.commit(merge_change(&files, encoded))?;
            Ok(true)
        }
    }
}

/// Files that are to be merged.
pub(crate) enum CompactionMerge {
    /// There are not enough small files.
    Nothing,
    /// One of them cannot be read: perhaps others are enough.
    Again,
    /// These files, into those.
    Of(Vec<Arc<DataFile>>, Vec<Encoded>),
}

/// The change that a merge is.
pub(crate) fn merge_change(files: &[Arc<DataFile>], encoded: Vec<Encoded>) -> StoreChange<'_> {
    StoreChange {
        why: COMPACT,
        files: encoded,
        removed: files,
        covered: Vec::new(),
        tail: &[],
    }
}

/// Reads what is worth a merge, of at most so many bytes of text.
fn merge(store: &Store, now_ns: i64, merge_bytes: u64) -> io::Result<CompactionMerge> {
    store.resolve()?;
    let Some(files) = candidates(&store.files(), now_ns, merge_bytes) else {
        return Ok(CompactionMerge::Nothing);
    };
    let mut rows = Vec::new();
    for file in &files {
        match read(store, file) {
            Ok(batches) => rows.extend(batches),
            Err(ReadError::Damaged(reason)) => {
                if file.set_bad() {
                    tracing::error!(
                        reason,
                        path = file.entry.path,
                        "store: a file is unreadable"
                    );
                }
                // Without it, in the next round.
                return Ok(CompactionMerge::Again);
            }
            // Nobody's file is blamed for a process without descriptors or memory.
            Err(fault) => return Err(fault.into()),
        }
    }
    let mut merged = encode::files(&rows)?;
    // A time that was mended is not in the rows.
    let received = files.iter().map(|file| file.entry.received_ns).max();
    for file in &mut merged {
        file.entry.received_ns = file.entry.received_ns.max(received.unwrap_or(i64::MIN));
    }
    Ok(CompactionMerge::Of(files, merged))
}

/// All rows of a file.
fn read(store: &Store, file: &DataFile) -> Result<Vec<RecordBatch>, ReadError> {
    let bytes = decode::bytes(store.home(), file.location.as_ref(), &file.entry)?;
    let batches = decode::rows(bytes)?;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if rows as u64 != file.entry.rows {
        let committed = file.entry.rows;
        return Err(ReadError::Damaged(format!(
            "it has {rows} rows and was committed with {committed}"
        )));
    }
    Ok(batches)
}

/// Small files of one folder that are worth one merge.
fn candidates(
    files: &[Arc<DataFile>],
    now_ns: i64,
    merge_bytes: u64,
) -> Option<Vec<Arc<DataFile>>> {
    let mut folders: BTreeMap<&str, Vec<&Arc<DataFile>>> = BTreeMap::new();
    for file in files {
        let entry = &file.entry;
        let small = entry.text_bytes < small_bytes(merge_bytes) && entry.rows < LARGE_ROWS;
        if small && !file.is_bad() {
            let folder = entry.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            folders.entry(folder).or_default().push(file);
        }
    }
    folders.into_values().find_map(|small| {
        let newest = small.iter().map(|file| file.entry.received_ns).max()?;
        let quiet = now_ns.saturating_sub(newest) > QUIET.as_nanos() as i64;
        if quiet {
            return enough(&small, 2, merge_bytes);
        }
        let mut tiers: BTreeMap<u32, Vec<&Arc<DataFile>>> = BTreeMap::new();
        for file in small {
            let tier = file.entry.rows.max(1).ilog2() / 3;
            tiers.entry(tier).or_default().push(file);
        }
        tiers
            .values()
            .find_map(|tier| enough(tier, MERGE_FILES, merge_bytes))
    })
}

/// The first of the files that are merged at once, if they are as many as that, or make one that is
/// no small one any more: where little is merged at once, so many do not fit.
fn enough(files: &[&Arc<DataFile>], least: usize, merge_bytes: u64) -> Option<Vec<Arc<DataFile>>> {
    let mut text_bytes = 0;
    let fits = |file: &&&Arc<DataFile>| {
        text_bytes += file.entry.text_bytes;
        text_bytes <= merge_bytes
    };
    let chosen: Vec<_> = files
        .iter()
        .take(MERGE_FILES_MAX)
        .take_while(fits)
        .map(|file| Arc::clone(file))
        .collect();
    let text_bytes: u64 = chosen.iter().map(|file| file.entry.text_bytes).sum();
    let is_large = chosen.len() > 1 && text_bytes >= small_bytes(merge_bytes);
    let is_little = merge_bytes < MERGE_TEXT_BYTES;
    (chosen.len() >= least || is_little && is_large).then_some(chosen)
}

/// Bytes of text below which a file is small.
fn small_bytes(merge_bytes: u64) -> u64 {
    LARGE_TEXT_BYTES.min(merge_bytes / 2)
}

/// Numbers of files and events that retention has deleted for room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct DeletedCounts {
    pub(crate) files: usize,
    pub(crate) events: u64,
}

/// Deletes what is too old or too much by the clock and the disk of now.
///
/// # Errors
/// As for [`retain`].
pub(crate) fn tidy(store: &Store, options: &WriteOptions) -> io::Result<DeletedCounts> {
    let time = store.care.time();
    store.care.keep_time(store.home(), false);
    let room = || store.care.look_for_room(store.home(), options);
    retain(store, options, &time, room)
}

/// Deletes what is too old or too much.
///
/// # Errors
/// Nothing has changed, or less than was wanted.
pub(crate) fn retain(
    store: &Store,
    options: &WriteOptions,
    time: &ClockJudgement,
    room: impl Fn() -> Option<DiskHeadroom>,
) -> io::Result<DeletedCounts> {
    // Perhaps it removes some of them.
    store.resolve()?;
    let mut files = store.files();
    files.sort_by_key(|file| file.entry.received_ns);
    let now_ns = time.oldest.0;
    let old_events = |now_ns| events_in(&too_old(&files, options, now_ns));
    let held_back = old_events(time.newest.0).saturating_sub(old_events(now_ns));
    store.care.note_held_back(held_back);
    let mut deleted = DeletedCounts::default();
    for (at, why) in REASONS.into_iter().enumerate() {
        let doomed = match at {
            0 => too_old(&files, options, now_ns),
            1 => too_much(&files, options),
            _ => too_tight(
                store,
                &files,
                now_ns - options.min_age.as_nanos() as i64,
                room(),
            ),
        };
        if doomed.is_empty() {
            continue;
        }
        let events = events_in(&doomed);
        store.commit(StoreChange {
            why,
            files: Vec::new(),
            removed: &doomed,
            covered: Vec::new(),
            tail: &[],
        })?;
        let count = doomed.len();
        if at == ROOM {
            (deleted.files, deleted.events) = (count, events);
        } else {
            tracing::info!(files = count, events, why, "store: retention deletes");
        }
        files.retain(|file| !doomed.iter().any(|gone| Arc::ptr_eq(gone, file)));
    }
    store.bury();
    Ok(deleted)
}

fn events_in(files: &[Arc<DataFile>]) -> u64 {
    files.iter().map(|file| file.entry.rows).sum()
}

fn too_old(files: &[Arc<DataFile>], options: &WriteOptions, now_ns: i64) -> Vec<Arc<DataFile>> {
    let old = |file: &&Arc<DataFile>| {
        let own = options
            .indexes
            .get(&file.entry.index)
            .and_then(|own| own.age);
        let age = own.or(options.retention.age);
        let received = i128::from(file.entry.received_ns);
        age.is_some_and(|age| i128::from(now_ns) - received > age.as_nanos() as i128)
    };
    files.iter().filter(old).cloned().collect()
}

fn too_much(files: &[Arc<DataFile>], options: &WriteOptions) -> Vec<Arc<DataFile>> {
    let mut doomed = Vec::new();
    let bytes = |files: &[Arc<DataFile>]| files.iter().map(|f| f.entry.bytes).sum::<u64>();
    let mut left = files.to_vec();
    for (index, own) in &options.indexes {
        let of: Vec<_> = files
            .iter()
            .filter(|f| f.entry.index == *index)
            .cloned()
            .collect();
        if let Some(most) = own.bytes {
            doomed.extend(oldest(&of, bytes(&of).saturating_sub(most)));
        }
    }
    left.retain(|file| !doomed.iter().any(|gone| Arc::ptr_eq(gone, file)));
    if let Some(most) = options.retention.bytes {
        doomed.extend(oldest(&left, bytes(&left).saturating_sub(most)));
    }
    doomed
}

/// The oldest of the files that were received before `old_ns`, so that there is room.
fn too_tight(
    store: &Store,
    files: &[Arc<DataFile>],
    old_ns: i64,
    room: Option<DiskHeadroom>,
) -> Vec<Arc<DataFile>> {
    let Some(mut room) = room else {
        store.care.note_room(None);
        return Vec::new();
    };
    let is_old = |file: &Arc<DataFile>| file.entry.received_ns <= old_ns;
    let old = files.partition_point(|file| is_old(file) || is_on(Mutant::YoungForRoom));
    let wanted = room.wanted();
    // A little more than is missing: a file at a time would be a commit every few seconds.
    let more = if wanted > 0 { room.least / 16 } else { 0 };
    let doomed = oldest(&files[..old], wanted.saturating_add(more));
    let freed = doomed.iter().map(|file| file.entry.bytes).sum();
    room.short = wanted.saturating_sub(freed);
    store.care.note_room(Some(room));
    doomed
}

/// The oldest of the files, so that `bytes` become free.
fn oldest(files: &[Arc<DataFile>], bytes: u64) -> Vec<Arc<DataFile>> {
    let mut freed = 0;
    let wanted = |file: &&Arc<DataFile>| {
        let more = freed < bytes;
        freed += file.entry.bytes;
        more
    };
    files.iter().take_while(wanted).cloned().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use object_store::path::Path;

    use super::*;
    use crate::home::DurableStorage;
    use crate::snapshot::FileEntry;

    /// Files of one folder with so much text each.
    fn files(number: usize, text_bytes: u64) -> Vec<Arc<DataFile>> {
        let file = |n| {
            let path = format!("main/2026-01-01/00/{n}.parquet");
            let entry = FileEntry {
                path: path.clone(),
                index: "main".to_owned(),
                rows: 1000,
                bytes: 1,
                text_bytes,
                from_ns: 0,
                to_ns: 0,
                received_ns: 0,
                sums: Default::default(),
            };
            Arc::new(DataFile::new(entry, Path::from(path)))
        };
        (0..number).map(file).collect()
    }

    #[test]
    fn ingestion_waits_for_upkeep_only_while_that_may_merge_something() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(DurableStorage::folder(folder.path()).unwrap()).unwrap();
        let short = WriteOptions {
            flush_bytes: 1 << 20,
            ..WriteOptions::default()
        };
        store.unmerged.store(1001, Ordering::Relaxed);
        assert!(store.is_behind(&short) && !store.is_behind(&WriteOptions::default()));
        // Each alone in its folder, as an hour leaves them: there is nothing to wait for.
        MaintenanceState::default().round(&store, &short, &AtomicBool::new(false));
        assert!(!store.is_behind(&short));
    }

    #[test]
    fn as_many_are_merged_as_fit_and_fewer_if_they_make_a_large_one() {
        const KIB: u64 = 1024;
        let merged = |number, text_bytes, merge_bytes| {
            let chosen = candidates(&files(number, text_bytes), 0, merge_bytes);
            chosen.map(|files| files.len())
        };
        let short = MERGE_TEXT_BYTES_MIN;
        // Eight of these do not fit.
        assert_eq!(merged(100, 500 * KIB, short), Some(4));
        assert_eq!(
            merged(2, 500 * KIB, short),
            None,
            "they would make a small one"
        );
        assert_eq!(merged(3, 500 * KIB, short), Some(3));
        assert_eq!(merged(7, KIB, short), None, "more may come");
        assert_eq!(merged(100, KIB, short), Some(MERGE_FILES_MAX));
        assert_eq!(merged(100, 1200 * KIB, short), None, "they are large");
        let usual = MERGE_TEXT_BYTES;
        assert_eq!(merged(7, 2048 * KIB, usual), None);
        assert_eq!(merged(8, 2048 * KIB, usual), Some(8));
        assert_eq!(
            merged(100, 15 * 1024 * KIB, usual),
            None,
            "until it is quiet"
        );
    }
}
