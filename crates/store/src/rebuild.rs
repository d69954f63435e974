//! The list of files, made from the files: what a damaged or lost list is mended with.
//!
//! # What it goes by
//! Each event names itself by log, epoch and number, so files tell which events they hold. A file
//! belongs to the store if no other holds its events; of a merged file and those that it was made
//! of, one side does. Larger files go first, so it is the merged one. A file of which only some
//! events are elsewhere is written anew without them. What is left out keeps its bytes, under a
//! name that no engine reads ([`ASIDE`]).
//!
//! Parts of the list that can be read still count: what they removed stays removed, the checksums
//! that they have are checked, and events that were deleted by retention are not taken again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt32Type, UInt64Type};
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;

use crate::care::RetentionInputs;
use crate::chance;
use crate::commits::ManifestLog;
use crate::covered::{DedupSet, EventRange};
use crate::decode;
use crate::encode;
use crate::home::{DurableStorage, ListedObject};
use crate::mutant::{Mutant, is_on};
use crate::read::ReadError;
use crate::schema::{EPOCH, LOG, SEQ};
use crate::snapshot::{DataFile, FileEntry};
use crate::store::{PARQUET, Store, StoreChange, UNCOMMITTED};
use crate::sums::FileChecksums;

/// Ends the names of files that are left out: their events are elsewhere, or were deleted.
pub const ASIDE: &str = ".unlisted";

/// A file, as it tells of itself.
struct Examined {
    entry: FileEntry,
    rows: Vec<RecordBatch>,
    stretches: Vec<EventRange>,
}

/// Verdict on a file, by the events that other files hold.
enum FileVerdict {
    /// No other file holds its events.
    Whole,
    /// Others hold some: these are the rows that they do not.
    Part(Vec<RecordBatch>),
    /// Others hold all, or held them before retention.
    Nothing,
}

/// Takes files into the store that its log does not speak of, as far as no file holds their events;
/// puts the others aside. `missing` are files that the log speaks of and that are not there: where
/// what is found makes up for them, as it does after the commit of a merge was lost, they go out of
/// the list.
///
/// # Errors
/// The store cannot be read or written just now.
pub(crate) fn adopt(
    store: &Store,
    unlisted: &[String],
    missing: &[Arc<DataFile>],
) -> io::Result<()> {
    let home = store.home();
    let mut found = Vec::new();
    for path in unlisted {
        match examine(home, path, None) {
            Ok(mut file) => {
                file.entry.received_ns = store.care.mended(file.entry.received_ns);
                found.push(file);
            }
            Err(ReadError::Damaged(why)) => {
                tracing::error!(
                    path,
                    why,
                    "store: a file is not in the list, and unreadable"
                );
            }
            Err(fault) => return Err(fault.into()),
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    found.sort_by_key(|file| (std::cmp::Reverse(file.entry.rows), file.entry.path.clone()));
    // What the log covers may have been in a file that is missing.
    let mut seen = match missing {
        [] => store.covered(),
        _ => held(store)?,
    };
    let left: u64 = found.iter().map(|file| news(file, &seen)).sum();
    let lost: u64 = missing.iter().map(|file| file.entry.rows).sum();
    let mut replaced = if left >= lost { missing } else { &[] };
    for file in found {
        let (path, news) = (file.entry.path.clone(), news(&file, &seen));
        let rows = match verdict(&file, &seen)? {
            FileVerdict::Whole => {
                tracing::warn!(path, news, "store: a file was not in the list; taken in");
                file.stretches.iter().for_each(|stretch| seen.add(stretch));
                home.sync(std::iter::once(path.as_str()))?;
                store.commit_found(file.entry, replaced, file.stretches)?;
                replaced = &[];
                continue;
            }
            FileVerdict::Part(rows) => rows,
            FileVerdict::Nothing => Vec::new(),
        };
        tracing::warn!(
            path,
            news,
            "store: a file was not in the list; repeats are put aside"
        );
        if news > 0 {
            let covered = stretches(&rows)?;
            covered.iter().for_each(|stretch| seen.add(stretch));
            store.commit(StoreChange {
                why: "found",
                files: encode::files(&rows)?,
                removed: std::mem::take(&mut replaced),
                covered,
                tail: &[],
            })?;
        }
        home.rename(&path, &format!("{path}{ASIDE}"))?;
    }
    Ok(())
}

/// The events that the files hold which are there.
fn held(store: &Store) -> io::Result<DedupSet> {
    let mut seen = DedupSet::default();
    for file in store.files().iter().filter(|file| !file.is_bad()) {
        match examine(store.home(), file.location.as_ref(), Some(&file.entry)) {
            Ok(found) => found.stretches.iter().for_each(|stretch| seen.add(stretch)),
            Err(ReadError::Damaged(reason)) => {
                if file.set_bad() {
                    tracing::error!(
                        reason,
                        path = file.entry.path,
                        "store: a file is unreadable"
                    );
                }
            }
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok(seen)
}

/// Events of a file that are not in `seen`.
fn news(file: &Examined, seen: &DedupSet) -> u64 {
    let missing = |stretch: &EventRange| {
        let events = stretch.first..stretch.first + stretch.count;
        seen.missing(stretch.log, stretch.epoch, events)
    };
    let missing = file.stretches.iter().flat_map(missing);
    missing.map(|range| range.end - range.start).sum()
}

/// Reads a file that may be ours. With the entry of a commit, its checksums count.
fn examine(
    home: &DurableStorage,
    path: &str,
    known: Option<&FileEntry>,
) -> Result<Examined, ReadError> {
    let bytes = match known {
        Some(entry) => decode::bytes(home, path, entry)?,
        None => decode::insist(|| home.get(path, decode::FILE_BYTES_MAX))
            .map_err(|error| ReadError::local(&error))?,
    };
    let rows = decode::rows(bytes.clone())?;
    let stretches = stretches(&rows).map_err(ReadError::damaged)?;
    let path = path.strip_suffix(UNCOMMITTED).unwrap_or(path);
    let entry = match known {
        Some(entry) => entry.clone(),
        None => entry_of(path, &bytes, &rows)?,
    };
    Ok(Examined {
        entry,
        rows,
        stretches,
    })
}

/// Entry that a commit would have of a file.
fn entry_of(path: &str, bytes: &[u8], rows: &[RecordBatch]) -> Result<FileEntry, ReadError> {
    let not_ours = || ReadError::Damaged("it has not the columns of a store".to_owned());
    let mut entry = FileEntry {
        path: path.to_owned(),
        index: String::new(),
        rows: 0,
        bytes: bytes.len() as u64,
        text_bytes: 0,
        from_ns: i64::MAX,
        to_ns: i64::MIN,
        received_ns: i64::MIN,
        sums: FileChecksums::of(bytes),
    };
    for batch in rows {
        let times = |name: &str| -> Option<Vec<i64>> {
            let column = batch.column_by_name(name)?;
            let times = column.as_primitive_opt::<TimestampNanosecondType>()?;
            Some(times.values().to_vec())
        };
        let time = times("time").ok_or_else(not_ours)?;
        let received = times("received").ok_or_else(not_ours)?;
        entry.rows += batch.num_rows() as u64;
        entry.from_ns = time.iter().copied().fold(entry.from_ns, i64::min);
        entry.to_ns = time.iter().copied().fold(entry.to_ns, i64::max);
        entry.received_ns = received.iter().copied().fold(entry.received_ns, i64::max);
        let raw = batch.column_by_name("raw").ok_or_else(not_ours)?;
        entry.text_bytes += match raw.as_string_view_opt() {
            Some(raw) => raw.lengths().map(u64::from).sum::<u64>(),
            None => raw.get_array_memory_size() as u64,
        };
        let index = batch.column_by_name("index").ok_or_else(not_ours)?;
        let index = arrow_index(index.as_ref()).ok_or_else(not_ours)?;
        if entry.rows == batch.num_rows() as u64 {
            entry.index = index;
        } else if entry.index != index && batch.num_rows() > 0 {
            return Err(not_ours());
        }
    }
    match entry.rows {
        0 => Err(not_ours()),
        _ => Ok(entry),
    }
}

/// The one index of a batch's rows.
fn arrow_index(column: &dyn Array) -> Option<String> {
    let text = |row: usize| -> Option<&str> {
        if let Some(views) = column.as_string_view_opt() {
            return Some(views.value(row));
        }
        Some(column.as_string_opt::<i32>()?.value(row))
    };
    let first = match column.len() {
        0 => return Some(String::new()),
        _ => text(0)?,
    };
    let same = (1..column.len()).all(|row| text(row) == Some(first));
    same.then(|| first.to_owned())
}

/// Log, epoch and number of each row.
fn names(batch: &RecordBatch) -> io::Result<Vec<(u64, u32, u64)>> {
    let column = |name: &str| {
        batch.column_by_name(name).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("it has no column {name}"),
            )
        })
    };
    let odd = || io::Error::new(io::ErrorKind::InvalidData, "its columns have other types");
    let log = column(LOG)?
        .as_primitive_opt::<UInt64Type>()
        .ok_or_else(odd)?;
    let epoch = column(EPOCH)?
        .as_primitive_opt::<UInt32Type>()
        .ok_or_else(odd)?;
    let seq = column(SEQ)?
        .as_primitive_opt::<UInt64Type>()
        .ok_or_else(odd)?;
    let all = log.values().iter().zip(epoch.values()).zip(seq.values());
    Ok(all
        .map(|((log, epoch), seq)| (*log, *epoch, *seq))
        .collect())
}

/// The events of these rows.
fn stretches(rows: &[RecordBatch]) -> io::Result<Vec<EventRange>> {
    let mut all = Vec::new();
    for batch in rows {
        all.extend(names(batch)?);
    }
    all.sort_unstable();
    let mut found: Vec<EventRange> = Vec::new();
    for (log, epoch, seq) in all {
        match found.last_mut() {
            Some(last)
                if (last.log, last.epoch) == (log, epoch) && seq < last.first + last.count => {}
            Some(last)
                if (last.log, last.epoch) == (log, epoch) && seq == last.first + last.count =>
            {
                last.count += 1;
            }
            _ => found.push(EventRange {
                log,
                epoch,
                first: seq,
                count: 1,
            }),
        }
    }
    Ok(found)
}

fn verdict(file: &Examined, covered: &DedupSet) -> io::Result<FileVerdict> {
    let all: u64 = file.stretches.iter().map(|stretch| stretch.count).sum();
    let left = news(file, covered);
    if left == 0 {
        return Ok(FileVerdict::Nothing);
    }
    if left == all && all == file.entry.rows {
        return Ok(FileVerdict::Whole);
    }
    let mut seen = covered.clone();
    Ok(FileVerdict::Part(not_in(&mut seen, &file.rows)?))
}

/// The rows whose events are not in `seen` yet, each event once; they are in it then.
pub(crate) fn not_in(seen: &mut DedupSet, rows: &[RecordBatch]) -> io::Result<Vec<RecordBatch>> {
    let mut left = Vec::with_capacity(rows.len());
    for batch in rows {
        let mut keep = Vec::with_capacity(batch.num_rows());
        for (log, epoch, first) in names(batch)? {
            let is_new = !seen.missing(log, epoch, first..first + 1).is_empty();
            keep.push(is_new);
            if is_new {
                seen.add(&EventRange {
                    log,
                    epoch,
                    first,
                    count: 1,
                });
            }
        }
        let kept = filter_record_batch(batch, &BooleanArray::from(keep));
        left.push(kept.map_err(io::Error::other)?);
    }
    Ok(left)
}

/// Result of [`verify`]: files and events of a store, and its findings.
#[derive(Debug, Default, serde::Serialize)]
pub struct StoreVerifyReport {
    /// True if the list of files can be read whole.
    pub list_is_sound: bool,
    /// Files in the list, or found where there is none.
    pub files: u64,
    /// Events in files that can be read.
    pub events: u64,
    /// Events that cannot be found, because their file is damaged or missing, as far as known.
    pub hidden_events: u64,
    /// Findings in words, each with its object.
    pub findings: Vec<(String, String)>,
}

/// Result of [`repair`]: files and events of the new list, and the actions that made it.
#[derive(Debug, Default, serde::Serialize)]
pub struct StoreRepairReport {
    /// Files that the new list has.
    pub files: u64,
    /// Events in them.
    pub events: u64,
    /// Events of files that cannot be read; the list keeps them.
    pub hidden_events: u64,
    /// Actions in words, each with its object.
    pub actions: Vec<(String, String)>,
}

/// Told after each file: how many are done, of how many.
pub type ProgressCallback<'a> = &'a mut dyn FnMut(u64, u64);

/// Looks at every byte of a store, and changes nothing. Beside a writer, files that are merged or
/// deleted meanwhile may be named.
///
/// # Errors
/// It cannot be read just now.
pub fn verify(
    home: &DurableStorage,
    progress: ProgressCallback<'_>,
) -> io::Result<StoreVerifyReport> {
    let commits = ManifestLog::load(home)?;
    let mut report = StoreVerifyReport {
        list_is_sound: commits.bad.is_empty(),
        ..StoreVerifyReport::default()
    };
    report.findings.extend(commits.bad.iter().cloned());
    let spare = |(path, why): &(String, String)| (path.clone(), format!("{why} (not needed)"));
    report.findings.extend(commits.spare.iter().map(spare));
    let there = parquet(home)?;
    let mut paths: BTreeSet<&String> = commits.files.keys().collect();
    paths.extend(there.keys().filter(|path| !commits.doomed.contains(path)));
    let mut seen = DedupSet::default();
    let total = paths.len() as u64;
    for (done, path) in (1..).zip(paths) {
        let known = commits.files.get(path);
        let place = there.get(path).map_or(path, |found| &found.path);
        report.files += 1;
        match examine(home, place, known) {
            Ok(file) => {
                report.events += file.entry.rows;
                if known.is_none() {
                    report.say(path, "it is not in the list".to_owned());
                } else if !matches!(verdict(&file, &seen)?, FileVerdict::Whole) {
                    report.say(path, "it repeats events of other files".to_owned());
                }
                file.stretches.iter().for_each(|stretch| seen.add(stretch));
            }
            Err(ReadError::Damaged(why)) => {
                report.hidden_events += known.map_or(0, |entry| entry.rows);
                report.say(path, why);
            }
            Err(fault) => return Err(fault.into()),
        }
        progress(done, total);
    }
    Ok(report)
}

impl StoreVerifyReport {
    fn say(&mut self, path: &str, why: String) {
        self.findings.push((path.to_owned(), why));
    }
}

/// Makes the list of files anew where it is damaged, and takes in files that it does not speak of.
/// Nothing is deleted. No other process may write to the store.
///
/// # Errors
/// Another process writes to it, or it cannot be read or written; then it is as it was, or whole.
pub fn repair(
    home: DurableStorage,
    progress: ProgressCallback<'_>,
) -> io::Result<StoreRepairReport> {
    let lock = home.lock()?;
    let (mut commits, parts) = ManifestLog::salvage(&home)?;
    let mut done = StoreRepairReport::default();
    if parts.is_sound {
        done.say("_log", "the list of files is sound");
    } else {
        let known = &parts.entries;
        rebuild(&home, &mut commits, known, &mut done, progress)?;
        // A file that no commit spoke of may not be durable yet.
        if !is_on(Mutant::FoundUnsynced) {
            home.sync(commits.files.keys().map(String::as_str))?;
        }
        commits.replace_list(&home)?;
        done.say("_log", "the list of files was made anew");
        for path in parts.damaged {
            home.rename(&path, &format!("{path}.damaged"))?;
            done.say(&path, "damaged; put aside");
        }
    }
    drop(lock);
    // This takes in what the list does not speak of, and names what is missing.
    let store = Store::open(home)?;
    for file in store.files() {
        let entry = &file.entry;
        done.files += 1;
        done.events += entry.rows;
        if file.is_bad() {
            done.hidden_events += entry.rows;
        }
    }
    Ok(done)
}

/// Fills the list from the files that are there.
fn rebuild(
    home: &DurableStorage,
    commits: &mut ManifestLog,
    known: &BTreeMap<String, FileEntry>,
    done: &mut StoreRepairReport,
    progress: ProgressCallback<'_>,
) -> io::Result<()> {
    let mut seen = DedupSet::default();
    // A wrong clock may have stamped what no commit speaks of.
    let care = RetentionInputs::open(home, None)?;
    let mut there: Vec<(String, ListedObject)> = parquet(home)?.into_iter().collect();
    there.retain(|(path, _)| !commits.doomed.contains(path));
    there.sort_by_key(|(path, found)| (std::cmp::Reverse(found.bytes), path.clone()));
    commits.files.clear();
    let total = there.len() as u64;
    for (at, (path, found)) in (1..).zip(there) {
        let place = found.path;
        let aside = format!("{path}{ASIDE}");
        match examine(home, &place, known.get(&path)) {
            Ok(mut file) => match verdict(&file, &seen)? {
                FileVerdict::Whole => {
                    if !known.contains_key(&path) {
                        file.entry.received_ns = care.mended(file.entry.received_ns);
                    }
                    for stretch in &file.stretches {
                        seen.add(stretch);
                        commits.covered.add(stretch);
                    }
                    name_anew(home, &place, &path, known.contains_key(&path))?;
                    commits.files.insert(path, file.entry);
                }
                FileVerdict::Part(rows) => {
                    done.say(&path, "some of its events are in other files; split");
                    // First what only this file has: a crash behind the renaming must not cost it.
                    put_rest(home, commits, &rows, &mut seen, &care)?;
                    home.rename(&place, &aside)?;
                }
                FileVerdict::Nothing => {
                    done.say(&path, "its events are in other files; put aside");
                    home.rename(&place, &aside)?;
                }
            },
            // An earlier try has put it aside, and its request came late: its events are elsewhere.
            Err(ReadError::Damaged(_)) if is_gone(home, &place) => {
                done.say(&path, "it is gone meanwhile");
            }
            Err(ReadError::Damaged(why)) => {
                done.say(&path, &format!("{why}; left as it is"));
                if let Some(entry) = known.get(&path) {
                    commits.files.insert(path, entry.clone());
                }
            }
            Err(fault) => return Err(fault.into()),
        }
        progress(at, total);
    }
    Ok(())
}

/// True if there is surely no such object.
fn is_gone(home: &DurableStorage, path: &str) -> bool {
    let got = home.get(path, decode::FILE_BYTES_MAX);
    got.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Gives a file its name, by a renaming that the next sync makes durable. A file that no commit
/// speaks of may have the name already by an earlier try, whose sync failed and forgot it.
fn name_anew(home: &DurableStorage, place: &str, path: &str, is_known: bool) -> io::Result<()> {
    if place != path {
        return home.rename(place, path);
    }
    if is_known || home.as_folder().is_none() {
        return Ok(());
    }
    let uncommitted = format!("{path}{UNCOMMITTED}");
    home.rename(path, &uncommitted)?;
    home.rename(&uncommitted, path)
}

/// Writes the rows of a file that no other has, and lists what they are in.
fn put_rest(
    home: &DurableStorage,
    commits: &mut ManifestLog,
    rows: &[RecordBatch],
    seen: &mut DedupSet,
    care: &RetentionInputs,
) -> io::Result<()> {
    for stretch in stretches(rows)? {
        seen.add(&stretch);
        commits.covered.add(&stretch);
    }
    for (number, file) in (0..).zip(encode::files(rows)?) {
        let mut entry = file.entry;
        entry.received_ns = care.mended(entry.received_ns);
        let name = chance::file_name(chance::number(), number);
        entry.path = format!("{}{name}{PARQUET}", entry.path);
        home.put(&format!("{}{UNCOMMITTED}", entry.path), file.bytes)?;
        commits.files.insert(entry.path.clone(), entry);
    }
    Ok(())
}

impl StoreRepairReport {
    fn say(&mut self, path: &str, what: &str) {
        self.actions.push((path.to_owned(), what.to_owned()));
    }
}

/// All files of events by the names that they have or get, with where they lie. Of one that has
/// both names in a bucket, since the first one could not be deleted or will be, it is the final.
pub(crate) fn parquet(home: &DurableStorage) -> io::Result<BTreeMap<String, ListedObject>> {
    let mut found = BTreeMap::new();
    for one in home.list("")? {
        let path = one.path.strip_suffix(UNCOMMITTED).unwrap_or(&one.path);
        if path == one.path && path.ends_with(PARQUET) {
            found.insert(path.to_owned(), one);
        } else if path.ends_with(PARQUET) {
            found.entry(path.to_owned()).or_insert(one);
        }
    }
    Ok(found)
}
