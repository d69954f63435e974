//! The options of the `store` destination.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use inrush_event::{ByteSize, DestinationQueue, Period, Secret};
use inrush_store::{BucketOptions, DurableStorage, Retention, WriteOptions, check_url, free_least};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SinkProblem;

/// Options of the `store` destination.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// The folder of the files, or `s3://BUCKET/FOLDER`. A relative path lies under `data_dir`. One
    /// store has one writer.
    #[serde(default = "path")]
    pub path: String,
    /// How the bucket is reached, where `path` is in one.
    #[serde(default, skip_serializing_if = "S3Config::is_default")]
    pub s3: S3Config,
    /// How long events are kept, in all indexes that have nothing of their own.
    #[serde(default)]
    pub keep: RetentionLimits,
    /// How long the events of an index are kept instead.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub indexes: BTreeMap<String, RetentionLimits>,
    /// Space of the file system that is left to others: the oldest events go before it is used. By
    /// default a twentieth of it, 4GiB at most. What `queue` may still take is left free beside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<ByteSize>,
    /// Time since they were received for which events are not deleted to make room. Where nothing
    /// older is left to delete and half of `free` is used, events stay in the queue.
    #[serde(default = "min_age")]
    pub min_age: Period,
    /// Raw text after which events are written to files. Up to four times as much is in memory
    /// while the disk is slow, with as much again for its columns. If not given, a part of the
    /// memory that the process may use, `32MiB` at most: see the guide to sizing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_bytes: Option<ByteSize>,
    /// Time after which events are written to files at the latest. They are searchable at once, and
    /// safe in the queue, but count as pending until then.
    #[serde(default = "flush_after")]
    pub flush_after: Period,
    /// The limits of this destination's backlog in the queue.
    #[serde(default, skip_serializing_if = "DestinationQueue::is_default")]
    pub queue: DestinationQueue,
}

/// How a bucket is reached. What is not given comes from the environment, by the names of the AWS
/// tools (`AWS_ACCESS_KEY_ID`, `AWS_REGION` …), or from the role of the machine.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct S3Config {
    /// Address of a service other than Amazon's, such as `http://127.0.0.1:8333`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Region of the bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The id of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_key_id: Option<String>,
    /// The key: better `${NAME}`, an environment variable, than the key itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_access_key: Option<Secret>,
}

/// How long events are kept. What is reached first counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetentionLimits {
    /// Time since they were received. Without it, for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<Period>,
    /// Disk that their files may take; the oldest go first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ByteSize>,
}

fn path() -> String {
    "store".to_owned()
}

fn min_age() -> Period {
    Period(WriteOptions::default().min_age)
}

fn flush_after() -> Period {
    Period(WriteOptions::default().flush_after)
}

impl RetentionLimits {
    fn retention(&self) -> Retention {
        Retention {
            age: self.age.map(|age| age.0),
            bytes: self.bytes.map(|bytes| bytes.0),
        }
    }

    fn problems(&self, key: &str, problems: &mut Vec<SinkProblem>) {
        if self.age.is_some_and(|age| age.0 < Duration::from_secs(1)) {
            problems.push(SinkProblem::new(
                format!("{key}.age"),
                "must be at least 1s",
            ));
        }
    }
}

impl S3Config {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    fn problems(&self, problems: &mut Vec<SinkProblem>) {
        let is_http = |url: &String| url.starts_with("http://") || url.starts_with("https://");
        if !self.endpoint.as_ref().is_none_or(is_http) {
            let message = "must begin with http:// or https://";
            problems.push(SinkProblem::new("s3.endpoint", message));
        }
        if self.access_key_id.is_some() != self.secret_access_key.is_some() {
            let message = "give access_key_id and secret_access_key, or neither";
            problems.push(SinkProblem::new("s3", message));
        }
    }
}

impl StoreConfig {
    /// True if its files lie in a bucket.
    pub fn is_remote(&self) -> bool {
        self.path.contains("://")
    }

    /// Location of its files, for a data folder of `data_dir`; for messages too.
    pub fn shown(&self, data_dir: &Path) -> String {
        if self.is_remote() {
            self.path.clone()
        } else {
            data_dir.join(&self.path).display().to_string()
        }
    }

    /// The folder of its files, for a data folder of `data_dir`; `None` if they lie in a bucket.
    pub fn folder(&self, data_dir: &Path) -> Option<PathBuf> {
        (!self.is_remote()).then(|| data_dir.join(&self.path))
    }

    /// Bytes that it leaves free of a file system of `total` bytes.
    pub fn free_least(&self, total: u64) -> u64 {
        free_least(self.free.map(|free| free.0), total)
    }

    /// Opens the place of its files.
    ///
    /// # Errors
    /// See [`DurableStorage::folder`] and [`DurableStorage::bucket`].
    pub fn home(&self, data_dir: &Path) -> io::Result<DurableStorage> {
        if !self.is_remote() {
            return DurableStorage::folder(&data_dir.join(&self.path));
        }
        let options = BucketOptions {
            endpoint: self.s3.endpoint.clone(),
            region: self.s3.region.clone(),
            access_key_id: self.s3.access_key_id.clone(),
            secret_access_key: self.s3.secret_access_key.clone(),
        };
        DurableStorage::bucket(&self.path, &options)
    }

    pub(crate) fn write_options(&self) -> WriteOptions {
        let indexes = self.indexes.iter();
        let flush_bytes = self.flush_bytes.map(|bytes| bytes.0);
        WriteOptions {
            flush_bytes: flush_bytes.unwrap_or(WriteOptions::default().flush_bytes),
            flush_after: self.flush_after.0,
            retention: self.keep.retention(),
            indexes: indexes
                .map(|(name, keep)| (name.clone(), keep.retention()))
                .collect(),
            free_bytes: self.free.map(|free| free.0),
            min_age: self.min_age.0,
        }
    }

    pub(crate) fn problems(&self) -> Vec<SinkProblem> {
        let mut problems = Vec::new();
        if self.path.is_empty() {
            problems.push(SinkProblem::new(
                "path",
                "must name a folder, such as `store`",
            ));
        }
        if self.is_remote()
            && let Err(message) = check_url(&self.path)
        {
            problems.push(SinkProblem::new("path", message));
        }
        if !self.is_remote() && !self.s3.is_default() {
            let message = "is for a `path` that begins with s3://";
            problems.push(SinkProblem::new("s3", message));
        }
        self.s3.problems(&mut problems);
        let range = 1 << 20..=1 << 30;
        if self
            .flush_bytes
            .is_some_and(|bytes| !range.contains(&bytes.0))
        {
            problems.push(SinkProblem::new("flush_bytes", "must be 1MiB to 1GiB"));
        }
        // Longer, and what only waits to be written would look as if it could not be.
        let after = Duration::from_millis(100)..=Duration::from_secs(10);
        if !after.contains(&self.flush_after.0) {
            problems.push(SinkProblem::new("flush_after", "must be 100ms to 10s"));
        }
        self.keep.problems("keep", &mut problems);
        for (index, keep) in &self.indexes {
            keep.problems(&format!("indexes.{index}"), &mut problems);
        }
        problems
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            path: path(),
            s3: S3Config::default(),
            keep: RetentionLimits::default(),
            indexes: BTreeMap::new(),
            free: None,
            min_age: min_age(),
            flush_bytes: None,
            flush_after: flush_after(),
            queue: DestinationQueue::default(),
        }
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
        let none: [String; 0] = [];
        assert_eq!(keys(serde_json::json!({"type": "store"})), none);
        let bad = serde_json::json!({
            "type": "store", "path": "", "keep": {"age": "10ms"}, "flush_bytes": 1,
            "flush_after": "1ms", "indexes": {"netfw": {"age": "0s"}},
        });
        let expected = [
            "path",
            "flush_bytes",
            "flush_after",
            "keep.age",
            "indexes.netfw.age",
        ];
        assert_eq!(keys(bad), expected);
        let s3 = serde_json::json!({"endpoint": "127.0.0.1:8333", "access_key_id": "me"});
        let reached = serde_json::json!({"type": "store", "path": "s3://logs", "s3": s3});
        assert_eq!(keys(reached), ["s3.endpoint", "s3"]);
        let elsewhere = serde_json::json!({"type": "store", "path": "gs://logs"});
        assert_eq!(keys(elsewhere), ["path"]);
        let folder = serde_json::json!({"type": "store", "s3": {"region": "eu"}});
        assert_eq!(keys(folder), ["s3"]);
        for json in [
            serde_json::json!({"type": "store", "pth": 1}),
            serde_json::json!({"type": "store", "keep": {"days": 1}}),
        ] {
            assert!(
                serde_json::from_value::<SinkConfig>(json.clone()).is_err(),
                "{json}"
            );
        }
    }
}
