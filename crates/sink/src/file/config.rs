//! The options of the `file` destination.

use std::time::Duration;

use inrush_event::{ByteSize, DestinationQueue, Period};
use inrush_files::{AccessOptions, FileMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::template::PathTemplate;
use crate::SinkProblem;

/// Options of the `file` destination.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileConfig {
    /// Where to write, for example `/archive/{index}/{host}/{year}-{month}-{day}.log`. The names in
    /// braces are `index`, `sourcetype`, `source`, `host` (the sender's address where none was
    /// sent), `app`, `sender`, `protocol`, `facility`, `severity`, and `year`, `month`, `day`,
    /// `hour` of the receive time in UTC. A relative path lies under `data_dir`. It must end in
    /// fixed text such as `.log`.
    pub path: String,
    /// How an event is written.
    #[serde(default)]
    pub format: FileFormat,
    /// When to start a new file.
    #[serde(default)]
    pub rotate: Rotation,
    /// How rotated files are compressed.
    #[serde(default)]
    pub compression: Compression,
    /// When written events are forced to the disk.
    #[serde(default)]
    pub fsync: FsyncPolicy,
    /// How far apart the syncs of `fsync: interval` are.
    #[serde(default = "fsync_interval")]
    pub fsync_interval: Period,
    /// Rotated files to keep of each path; the oldest are deleted. Without it all are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_files: Option<u32>,
    /// Files that are open at once; the least recently used one is closed for the next.
    #[serde(default = "max_open_files")]
    pub max_open_files: u32,
    /// Paths that senders can have made, apart from their date: each counts for a day after it was
    /// last written to. Events of further ones go to the path with `other` in place of every name
    /// in braces but `source`, `protocol` and the date. So do they once new files would take the
    /// last twentieth of the file system's inodes, or the last 10,000.
    #[serde(default = "max_paths")]
    pub max_paths: u32,
    /// User that owns new files and folders: a name or a number. Only root may give files away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Group of new files and folders: a name or a number. The process must be in it, or be root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Permissions of files in octal, such as `0640`. Without it `0600`: nobody else reads them.
    /// Files of this destination that are there already lose what is beyond it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_mode: Option<FileMode>,
    /// Permissions of new folders in octal. Without it `0700`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir_mode: Option<FileMode>,
    /// The limits of this destination's backlog in the queue.
    #[serde(default, skip_serializing_if = "DestinationQueue::is_default")]
    pub queue: DestinationQueue,
}

fn fsync_interval() -> Period {
    Period(Duration::from_secs(1))
}

/// Of paths that are remembered at most, 8 bytes each and the table's spare places.
const PATHS_MAX: u32 = 1_000_000;

fn max_paths() -> u32 {
    10_000
}

fn max_open_files() -> u32 {
    256
}

/// How an event is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    /// One JSON object a line, with every field.
    #[default]
    Json,
    /// The record as it was received, and a line feed. Line feeds inside a record (possible with
    /// octet-counted framing) are kept, so such a record is several lines.
    Raw,
}

/// When a new file is started. Both may be given; the first that is due counts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// Before a file grows beyond this size; a single write that is larger has a file of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<ByteSize>,
    /// At every multiple of this time since 1970 in UTC: `1h` rotates on the hour, `1d` at
    /// midnight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Period>,
}

/// How rotated files are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// gzip, ending in `.gz`.
    Gzip,
    /// Zstandard, ending in `.zst`: smaller and faster than gzip.
    Zstd,
}

/// When written events are forced to the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FsyncPolicy {
    /// Never by us: the kernel writes within about 30 seconds.
    Never,
    /// Every `fsync_interval`.
    #[default]
    Interval,
    /// After every batch, before its events count as delivered.
    Batch,
}

impl FileConfig {
    /// The options with this path and all defaults.
    pub fn new(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            format: FileFormat::default(),
            rotate: Rotation::default(),
            compression: Compression::default(),
            fsync: FsyncPolicy::default(),
            fsync_interval: fsync_interval(),
            keep_files: None,
            max_open_files: max_open_files(),
            max_paths: max_paths(),
            queue: DestinationQueue::default(),
            owner: None,
            group: None,
            file_mode: None,
            dir_mode: None,
        }
    }

    /// Owner, group and modes of what it creates.
    pub(super) fn access(&self) -> AccessOptions {
        AccessOptions {
            owner: self.owner.clone(),
            group: self.group.clone(),
            file_mode: self.file_mode,
            dir_mode: self.dir_mode,
        }
    }

    pub(crate) fn problems(&self) -> Vec<SinkProblem> {
        let mut problems = Vec::new();
        if let Err(message) = PathTemplate::parse(&self.path) {
            problems.push(SinkProblem::new("path", message));
        }
        let mut at_least = |ok: bool, key: &str, message: &str| {
            if !ok {
                problems.push(SinkProblem::new(key, message));
            }
        };
        at_least(
            self.max_open_files > 0,
            "max_open_files",
            "must be at least 1",
        );
        at_least(
            (1..=PATHS_MAX).contains(&self.max_paths),
            "max_paths",
            "must be 1 to 1,000,000",
        );
        at_least(
            self.rotate.max_bytes.is_none_or(|max| max.0 >= 1024),
            "rotate.max_bytes",
            "must be at least 1KiB",
        );
        at_least(
            self.rotate
                .every
                .is_none_or(|every| every.0 >= Duration::from_secs(1)),
            "rotate.every",
            "must be at least 1s",
        );
        at_least(
            self.fsync_interval.0 >= Duration::from_millis(10),
            "fsync_interval",
            "must be at least 10ms; use `fsync: batch` to sync every batch",
        );
        let access = self.access().problems().into_iter();
        problems.extend(access.map(|(key, message)| SinkProblem::new(key, message)));
        problems
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{SinkConfig, validate};

    fn keys(json: serde_json::Value) -> Vec<String> {
        let config: SinkConfig = serde_json::from_value(json).unwrap();
        validate(&config)
            .into_iter()
            .map(|problem| problem.key)
            .collect()
    }

    #[test]
    fn what_cannot_work_is_named() {
        let good = serde_json::json!({"type": "file", "path": "/a/{index}/{host}.log"});
        assert_eq!(keys(good), Vec::<String>::new());
        let bad = serde_json::json!({
            "type": "file", "path": "/a/{hots}.log", "max_open_files": 0, "fsync_interval": "1ms",
            "max_paths": 0,
            "rotate": {"max_bytes": 1, "every": "10ms"},
        });
        assert_eq!(
            keys(bad),
            [
                "path",
                "max_open_files",
                "max_paths",
                "rotate.max_bytes",
                "rotate.every",
                "fsync_interval"
            ]
        );
    }

    #[test]
    fn unknown_keys_are_refused_at_every_level() {
        for json in [
            serde_json::json!({"type": "file", "path": "a.log", "pth": 1}),
            serde_json::json!({"type": "file", "path": "a.log", "rotate": {"evry": "1h"}}),
            serde_json::json!({"type": "blackhole", "x": 1}),
            serde_json::json!({"type": "stdout", "x": 1}),
        ] {
            assert!(
                serde_json::from_value::<SinkConfig>(json.clone()).is_err(),
                "{json}"
            );
        }
    }
}
