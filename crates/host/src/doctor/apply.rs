//! Sets what is safe to set, after writing down how to undo it.
//!
//! # What it guarantees
//! * Only values under `net.core.` and `net.ipv4.ipfrag` are set, and only to more than they were:
//!   they bound memory of the kernel, and a larger bound breaks nothing.
//! * Before anything is changed, a script with the old values is on disk. One that is there from
//!   before keeps its values, for they are the ones from before the first change.
//! * A value counts as changed when it reads back so.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::finding::{Finding, Severity};
use super::scene::sysctl_path;
use crate::files::HostFiles;
use crate::text::number;

/// Beginnings of the names of values that are set.
const SAFE: [&str; 2] = ["net.core.", "net.ipv4.ipfrag"];

/// Result of `--apply`: the values that were changed, and those that were not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ApplyResult {
    /// Values that were set.
    pub changed: Vec<SysctlChange>,
    /// Values that could not be set, each in one line with the reason.
    pub failed: Vec<String>,
}

/// A value of the kernel that was set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SysctlChange {
    /// Its name for sysctl(8).
    pub key: String,
    /// Value before the change.
    pub before: u64,
    /// Value after the change.
    pub after: u64,
}

/// Sets what the findings want set under `root`, with the way back in `undo`.
pub(super) fn apply(root: &Path, findings: &[Finding], undo: &Path) -> ApplyResult {
    let files = HostFiles::at(root);
    let mut applied = ApplyResult::default();
    let mut changes = Vec::new();
    for (key, after) in wanted(findings) {
        match files.text(sysctl_path(key)).and_then(|text| number(&text)) {
            Some(before) if before >= after => {}
            Some(before) => changes.push(SysctlChange {
                key: key.to_owned(),
                before,
                after,
            }),
            None => applied.failed.push(format!("{key}: cannot be read")),
        }
    }
    if changes.is_empty() {
        return applied;
    }
    if let Err(error) = write_undo(undo, &changes) {
        let undo = undo.display();
        let text = format!("nothing was changed: {undo} cannot be written: {error}");
        applied.failed.push(text);
        return applied;
    }
    for change in changes {
        match set(&files, &change) {
            Ok(()) => applied.changed.push(change),
            Err(error) => applied.failed.push(format!("{}: {error}", change.key)),
        }
    }
    applied
}

/// The largest value wanted for each name that is safe.
fn wanted(findings: &[Finding]) -> BTreeMap<&'static str, u64> {
    let mut wanted = BTreeMap::new();
    let bad = findings.iter().filter(|f| f.severity > Severity::Ok);
    for setting in bad.flat_map(|finding| &finding.settings) {
        if SAFE.iter().any(|safe| setting.key.starts_with(safe)) {
            let value = wanted.entry(setting.key).or_insert(0);
            *value = setting.value.max(*value);
        }
    }
    wanted
}

fn set(files: &HostFiles, change: &SysctlChange) -> io::Result<()> {
    let path = sysctl_path(&change.key);
    let mut file = OpenOptions::new().write(true).open(files.path(&path))?;
    // In one write, and with the end of the line: the kernel takes each write for itself.
    file.write_all(format!("{}\n", change.after).as_bytes())?;
    drop(file);
    match number(&files.read(&path)?) {
        Some(now) if now == change.after => Ok(()),
        now => Err(io::Error::other(format!("the kernel kept {now:?}"))),
    }
}

const HEAD: &str = "#!/bin/sh\n\
    # Sets back what `inrush doctor --apply` has set. Written by it; remove it when it is not\n\
    # needed any more, for a later --apply keeps the values that are in it.\n";

/// Writes the script anew: whole or not at all, and without following a link that lies there.
fn write_undo(path: &Path, changes: &[SysctlChange]) -> io::Result<()> {
    let mut values = kept(path)?;
    for change in changes {
        values.entry(change.key.clone()).or_insert(change.before);
    }
    let mut text = HEAD.to_owned();
    for (key, value) in values {
        text += &format!("sysctl -w {key}={value}\n");
    }
    let new = path.with_extension("sh.new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o700)
        .open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}

/// The values of a script from before. Lines that we would not have written are not carried over.
fn kept(path: &Path) -> io::Result<BTreeMap<String, u64>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        text => text?,
    };
    let line = |line: &str| {
        let (key, value) = line.strip_prefix("sysctl -w ")?.split_once('=')?;
        let plain = key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_'));
        let safe = plain && SAFE.iter().any(|safe| key.starts_with(safe));
        safe.then_some((key.to_owned(), number(value)?))
    };
    Ok(text.lines().filter_map(line).collect())
}
