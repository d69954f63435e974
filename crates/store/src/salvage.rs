//! Looking into a store from outside: what is in it by index, and every event that can be read.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use arrow_array::RecordBatch;
use serde::Serialize;

use crate::commits::ManifestLog;
use crate::covered::DedupSet;
use crate::decode;
use crate::home::DurableStorage;
use crate::read::ReadError;
use crate::rebuild::{self, ProgressCallback};
use crate::reply::{SearchHit, events};
use crate::snapshot::FileEntry;

/// Files, events, bytes and times of one index in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IndexInfo {
    /// The index.
    pub index: String,
    /// Files.
    pub files: u64,
    /// Events in them.
    pub events: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// The earliest time of an event, in nanoseconds since 1970.
    pub from_ns: i64,
    /// The latest time of an event, in nanoseconds since 1970.
    pub to_ns: i64,
}

/// Contents of a store, by its list of files.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StoreOverview {
    /// By index.
    pub indexes: Vec<IndexInfo>,
    /// Faults of the list in words, each with its object; none if it is sound.
    pub problems: Vec<(String, String)>,
    /// Files that the list names and that are not there.
    pub missing: Vec<String>,
    /// Files that are there and that the list does not name.
    pub unlisted: Vec<String>,
}

/// Reads the list of files and compares it with the names that are there; opens none of them.
///
/// # Errors
/// It cannot be read just now.
pub fn overview(home: &DurableStorage) -> io::Result<StoreOverview> {
    let commits = ManifestLog::load(home)?;
    let there = rebuild::parquet(home)?;
    let mut by_index: BTreeMap<&str, IndexInfo> = BTreeMap::new();
    for entry in commits.files.values() {
        let info = by_index.entry(&entry.index).or_insert_with(|| IndexInfo {
            index: entry.index.clone(),
            from_ns: i64::MAX,
            to_ns: i64::MIN,
            ..IndexInfo::default()
        });
        info.files += 1;
        info.events += entry.rows;
        info.bytes += entry.bytes;
        info.from_ns = info.from_ns.min(entry.from_ns);
        info.to_ns = info.to_ns.max(entry.to_ns);
    }
    let missing = commits
        .files
        .keys()
        .filter(|path| !there.contains_key(*path));
    let is_known =
        |path: &&String| commits.files.contains_key(*path) || commits.doomed.contains(path);
    let unlisted = there.keys().filter(|path| !is_known(path));
    Ok(StoreOverview {
        missing: missing.cloned().collect(),
        unlisted: unlisted.cloned().collect(),
        indexes: by_index.into_values().collect(),
        problems: commits.bad,
    })
}

/// Result of [`export`]: events given out and lost, and the damaged files.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExportReport {
    /// Events that were given out.
    pub events: u64,
    /// Events that could not be read, as far as known.
    pub lost: u64,
    /// Reasons of the loss, each with its file.
    pub damaged: Vec<(String, String)>,
}

/// Gives out every event that can be read, once, file by file. Of a damaged file it gives the row
/// groups whose bytes are as they were written. The list may be damaged too.
///
/// # Errors
/// The store cannot be read just now, or what `each` says.
pub fn export(
    home: &DurableStorage,
    each: &mut dyn FnMut(SearchHit) -> io::Result<()>,
    progress: ProgressCallback<'_>,
) -> io::Result<ExportReport> {
    let (commits, parts) = ManifestLog::salvage(home)?;
    let known = match parts.is_sound {
        true => &commits.files,
        false => &parts.entries,
    };
    let mut there: Vec<_> = rebuild::parquet(home)?.into_iter().collect();
    there.retain(|(path, _)| !commits.doomed.contains(path));
    there.sort_by_key(|(path, found)| (std::cmp::Reverse(found.bytes), path.clone()));
    let mut exported = ExportReport::default();
    let mut seen = DedupSet::default();
    let total = there.len() as u64;
    for (done, (path, found)) in (1..).zip(there) {
        let bytes = match home.get(&found.path, decode::FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) => {
                exported.damaged.push((path, error.to_string()));
                continue;
            }
        };
        match sound_rows(&bytes, known.get(&path)) {
            Ok((rows, lost)) => {
                for batch in rebuild::not_in(&mut seen, &rows)? {
                    exported.events += batch.num_rows() as u64;
                    events(&batch).try_for_each(&mut *each)?;
                }
                if let Some((lost, why)) = lost {
                    exported.lost += lost;
                    exported.damaged.push((path, why));
                }
            }
            Err(fault) => {
                exported.lost += known.get(&path).map_or(0, |entry| entry.rows);
                exported.damaged.push((path, fault.to_string()));
            }
        }
        progress(done, total);
    }
    Ok(exported)
}

/// Rows, and how many others could not be read and why.
type SalvagedRows = (Vec<RecordBatch>, Option<(u64, String)>);

fn sound_rows(bytes: &bytes::Bytes, entry: Option<&FileEntry>) -> Result<SalvagedRows, ReadError> {
    let (mut rows, mut lost) = (Vec::new(), None::<(u64, String)>);
    let mut lose = |count: u64, why: String| {
        let before = lost.take().map_or(0, |(count, _)| count);
        lost = Some((before + count, why));
    };
    for group in decode::groups(bytes)? {
        match group.rows {
            Ok(_) if !is_sound(bytes, entry, &group.bytes) => {
                lose(group.count, "its checksum is not right".to_owned());
            }
            Ok(batches) => rows.extend(batches),
            Err(fault) => lose(group.count, fault.to_string()),
        }
    }
    Ok((rows, lost))
}

/// True if the blocks around these bytes are as they were written, as far as that is known.
fn is_sound(bytes: &[u8], entry: Option<&FileEntry>, range: &Range<u64>) -> bool {
    let Some(entry) = entry else { return true };
    let around = entry.sums.around(range, entry.bytes);
    let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let part = bytes.get(at(around.start)..at(around.end));
    part.is_some_and(|part| entry.sums.broken(around.start, part).is_none())
}
