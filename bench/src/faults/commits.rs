//! The store's own list of commits, read from outside: what retention took, over kills.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::bucket::Bucket;
use super::series::BRIEF;

/// Sums of the commits so far.
#[derive(Default)]
pub(super) struct Commits {
    /// Number of the last that was read.
    last: u64,
    /// Events of each file that was ever added.
    rows: BTreeMap<String, u64>,
    /// Events that retention deleted from the index that it is for, and from others.
    brief: u64,
    kept: u64,
}

/// The commits since the last look.
#[derive(Default)]
pub(super) struct CommitDelta {
    /// Events that retention deleted.
    pub(super) expired: u64,
    /// Files that were merged.
    pub(super) merged: u64,
    pub(super) commits: u64,
}

impl Commits {
    /// Events that retention deleted from its index, and from others.
    pub(super) fn taken(&self) -> (u64, u64) {
        (self.brief, self.kept)
    }

    /// Reads those that are new in a folder.
    pub(super) fn read_folder(&mut self, log: &Path) -> Result<CommitDelta> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(log).with_context(|| log.display().to_string())? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        self.read(names, |name| Ok(std::fs::read(log.join(name))?))
    }

    /// Reads those that are new in a bucket.
    pub(super) fn read_bucket(&mut self, bucket: &Bucket, store: &str) -> Result<CommitDelta> {
        let names = bucket.list(&format!("{store}/_log/"))?;
        self.read(names, |name| bucket.get(&format!("{store}/_log/{name}")))
    }

    fn read(
        &mut self,
        names: Vec<String>,
        get: impl Fn(&str) -> Result<Vec<u8>>,
    ) -> Result<CommitDelta> {
        let number = |name: &str| name.strip_suffix(".commit")?.parse::<u64>().ok();
        let mut numbered: Vec<(u64, String)> = names
            .into_iter()
            .filter_map(|name| Some((number(&name)?, name)))
            .filter(|(number, _)| *number > self.last)
            .collect();
        numbered.sort();
        let mut taken = CommitDelta::default();
        for (number, name) in numbered {
            anyhow::ensure!(
                number == self.last + 1,
                "commit {} was not read",
                self.last + 1
            );
            self.last = number;
            let bytes = get(&name)?;
            let line = bytes
                .split(|byte| *byte == b'\n')
                .next()
                .unwrap_or_default();
            let commit: Value = serde_json::from_slice(line).with_context(|| name.clone())?;
            self.apply(&commit, &mut taken);
        }
        Ok(taken)
    }

    fn apply(&mut self, commit: &Value, taken: &mut CommitDelta) {
        taken.commits += 1;
        for file in commit["added"].as_array().into_iter().flatten() {
            let path = file["path"].as_str().unwrap_or_default().to_owned();
            self.rows.insert(path, file["rows"].as_u64().unwrap_or(0));
        }
        let removed = commit["removed"].as_array().into_iter().flatten();
        let removed = removed.filter_map(Value::as_str);
        match commit["why"].as_str() {
            Some("compact") => taken.merged += removed.count() as u64,
            Some("age" | "bytes" | "room") => {
                for path in removed {
                    let rows = self.rows.get(path).copied().unwrap_or(0);
                    match path.split('/').next() {
                        Some(BRIEF) => self.brief += rows,
                        _ => self.kept += rows,
                    }
                    taken.expired += rows;
                }
            }
            _ => {}
        }
    }
}
