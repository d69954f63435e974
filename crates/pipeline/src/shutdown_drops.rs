//! Events that a stop gave up, told to the next process: they were accepted, and neither delivered
//! nor on disk when the process ended. The next ledger begins with them, as accepted and as
//! `dropped{shutdown}`.
//!
//! The disk is often full when there is something to tell. So the file is made at the start, with
//! all its blocks, and written over in place.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Mutex;

use inrush_event::{DropReason, Ledger, LedgerSnapshot};

/// Its name in `data_dir`.
const NAME: &str = "given-up";
/// Its length: 600 destinations with the longest names fit.
const BYTES: usize = 64 * 1024;

/// Events by destination.
type DropCounts = BTreeMap<String, u64>;

/// The file of what is given up.
pub struct ShutdownDrops {
    /// `None` if it could not be made.
    file: Option<Mutex<File>>,
    /// Events that an earlier process gave up.
    before: DropCounts,
}

impl ShutdownDrops {
    /// Posts what the process before gave up, and makes room for what this one may have to tell.
    pub fn open(data_dir: &Path, ledger: &Ledger) -> Self {
        let path = data_dir.join(NAME);
        let opened = open(&path);
        let before = opened.as_ref().map(|(_, counts)| counts.clone());
        let before = before.unwrap_or_default();
        for (name, events) in &before {
            let counters = ledger.destination(name);
            ledger.post(|| {
                counters.accepted.add(*events);
                counters.dropped(DropReason::Shutdown).add(*events);
            });
            tracing::warn!(
                destination = name,
                events,
                "the last stop gave up events: they were accepted, and the queue could not keep them"
            );
        }
        let file = opened.and_then(|(mut file, counts)| {
            if counts.is_empty() {
                write(&mut file, &counts)?;
            }
            Ok(file)
        });
        if let Err(error) = &file {
            let file = path.display();
            tracing::warn!(%file, %error, "a stop on a full disk cannot tell what it gives up");
        }
        Self {
            file: file.ok().map(Mutex::new),
            before,
        }
    }

    /// The next process need not tell it again: this one has told it, and runs.
    pub fn told(&self) {
        if !self.before.is_empty() {
            self.keep(&DropCounts::new());
        }
    }

    /// Writes down what this process gave up, by its ledger at the end.
    pub fn tell(&self, ledger: &LedgerSnapshot) {
        let reason = DropReason::Shutdown.name();
        let given_up = ledger.destinations.iter().filter_map(|(name, row)| {
            let all = row.dropped.get(reason).copied().unwrap_or(0);
            let events = all.saturating_sub(self.before.get(name).copied().unwrap_or(0));
            (events > 0).then(|| (name.clone(), events))
        });
        let given_up: DropCounts = given_up.collect();
        if !given_up.is_empty() {
            tracing::error!(
                events = given_up.values().sum::<u64>(),
                "stopped with accepted events that the queue could not keep; the next start counts \
                 them as dropped (shutdown)"
            );
            self.keep(&given_up);
        }
    }

    fn keep(&self, counts: &DropCounts) {
        let Some(file) = &self.file else { return };
        let mut file = file
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Err(error) = write(&mut file, counts) {
            tracing::error!(%error, "what was given up cannot be written down");
        }
    }
}

fn open(path: &Path) -> io::Result<(File, DropCounts)> {
    let options = OpenOptions::new().read(true).write(true).to_owned();
    let mut file = inrush_files::open_own(path, &options, &inrush_files::own())?;
    let mut text = Vec::new();
    (&mut file).take(BYTES as u64).read_to_end(&mut text)?;
    // What nobody wrote like this tells nothing.
    let counts = serde_json::from_slice(&text).unwrap_or_default();
    Ok((file, counts))
}

/// Writes the file anew, in its place and as long as always.
fn write(file: &mut File, counts: &DropCounts) -> io::Result<()> {
    let mut text = serde_json::to_vec(counts)?;
    if text.len() >= BYTES {
        return Err(io::Error::other("too many destinations"));
    }
    text.resize(BYTES - 1, b' ');
    text.push(b'\n');
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&text)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_next_ledger_tells_what_a_stop_gave_up_once() {
        let dir = tempfile::tempdir().unwrap();
        let stop = |events: u64| {
            let ledger = Ledger::new();
            let given_up = ShutdownDrops::open(dir.path(), &ledger);
            let before = ledger.snapshot();
            assert!(before.balanced);
            given_up.told();
            let counters = ledger.destination("splunk");
            counters.accepted.add(events);
            counters.dropped(DropReason::Shutdown).add(events);
            given_up.tell(&ledger.snapshot());
            let row = before.destinations.get("splunk").cloned();
            row.map_or(0, |row| row.dropped["shutdown"])
        };
        assert_eq!(stop(7), 0);
        let bytes = std::fs::metadata(dir.path().join(NAME)).unwrap().len();
        assert_eq!(bytes, BYTES as u64, "written over in place");
        assert_eq!(stop(2), 7);
        assert_eq!(stop(0), 2);
        assert_eq!(stop(0), 0);
        std::fs::write(dir.path().join(NAME), "not ours").unwrap();
        assert_eq!(stop(0), 0);
    }
}
