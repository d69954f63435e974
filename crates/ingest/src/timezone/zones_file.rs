//! `zones.json` in `data_dir`: guesses of the zones of senders, over a restart.
//!
//! A JSON object: `version`, and `guesses`, a list of `source`, `ip`, `host` (empty if there is
//! none) and `minutes` (east of UTC); of each source who was not heard of for longest first, about.
//! A file that cannot be read costs the guesses, which are made again.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use inrush_codec::KeptGuess;
use serde::{Deserialize, Serialize};

use super::SenderZones;
use crate::state_file;

/// The name of the file.
const FILE: &str = "zones.json";

/// Guesses that are kept, of all sources together.
const GUESSES_MAX: usize = 65_536;

/// Bytes of the file, at most: so many rows of the longest hosts and addresses.
const BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Version of the file's format; another one is not read.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct ZonesDocument<'d> {
    version: u32,
    #[serde(borrow)]
    guesses: Vec<ZoneEntry<'d>>,
}

#[derive(Serialize, Deserialize)]
struct ZoneEntry<'d> {
    #[serde(borrow)]
    source: Cow<'d, str>,
    ip: IpAddr,
    #[serde(borrow)]
    host: Cow<'d, str>,
    minutes: i16,
}

type GuessesBySource = HashMap<String, Vec<KeptGuess>>;

/// The guesses of all sources, as they are kept.
pub struct ZonesFile {
    file: PathBuf,
    /// Guesses that were read at the start, by source, until that takes them.
    read: Mutex<GuessesBySource>,
}

impl ZonesFile {
    /// Reads what an earlier process has kept.
    pub fn open(data_dir: &Path) -> Self {
        let file = data_dir.join(FILE);
        let read = read(&file).unwrap_or_else(|error| {
            let file = file.display();
            tracing::warn!(%file, %error, "guesses of zones cannot be read; they are made anew");
            GuessesBySource::new()
        });
        Self {
            file,
            read: Mutex::new(read),
        }
    }

    /// Gives a source the guesses that were read for it.
    pub fn give(&self, source: &str, zones: &SenderZones) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = read.remove(source) {
            zones.guesses.fill(known);
        }
    }

    /// Writes the guesses of the sources down if there is news of any. With `sync` they are on the
    /// disk by the end.
    pub fn keep(&self, sources: &[(&str, &SenderZones)], sync: bool) {
        let told = |source: &&(&str, &SenderZones)| source.1.guesses.take_news();
        let told: Vec<_> = sources.iter().filter(told).collect();
        if told.is_empty() {
            return;
        }
        let lists = sources
            .iter()
            .map(|(name, zones)| (*name, zones.guesses.list()));
        let lists: Vec<_> = lists.collect();
        if let Err(error) = write(&self.file, &lists, sync) {
            told.iter().for_each(|(_, zones)| zones.guesses.note_news());
            let file = self.file.display();
            tracing::warn!(%file, %error, "guesses of zones cannot be written down");
        }
    }
}

/// Reads the guesses that were kept, by source; none if there is no file.
fn read(path: &Path) -> io::Result<GuessesBySource> {
    let Some(bytes) = state_file::read(path, BYTES_MAX)? else {
        return Ok(GuessesBySource::new());
    };
    let document: ZonesDocument<'_> = serde_json::from_slice(&bytes)?;
    if document.version != VERSION || document.guesses.len() > GUESSES_MAX {
        return Err(state_file::not_ours());
    }
    let mut by_source = GuessesBySource::new();
    for row in document.guesses {
        let guess = KeptGuess {
            sender: row.ip,
            host: row.host.into(),
            minutes: row.minutes,
        };
        by_source
            .entry(row.source.into_owned())
            .or_default()
            .push(guess);
    }
    Ok(by_source)
}

fn write(path: &Path, lists: &[(&str, Vec<KeptGuess>)], sync: bool) -> io::Result<()> {
    let most = GUESSES_MAX / lists.len().max(1);
    let guesses = lists.iter().flat_map(|(source, list)| {
        let last = &list[list.len().saturating_sub(most)..];
        last.iter().map(|guess| ZoneEntry {
            source: (*source).into(),
            ip: guess.sender,
            host: (&*guess.host).into(),
            minutes: guess.minutes,
        })
    });
    let document = ZonesDocument {
        version: VERSION,
        guesses: guesses.collect(),
    };
    state_file::write(path, &document, sync)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn guess(number: u32, minutes: i16) -> KeptGuess {
        KeptGuess {
            sender: IpAddr::from(number.to_be_bytes()),
            host: format!("h{number}").into(),
            minutes,
        }
    }

    #[test]
    fn what_is_kept_is_read_again_by_source() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        assert!(read(&path).unwrap().is_empty());
        let lists = [
            ("a", vec![guess(1, -300), guess(2, 330)]),
            ("b \"c\"", vec![guess(1, 60)]),
        ];
        write(&path, &lists, true).unwrap();
        let known = read(&path).unwrap();
        assert_eq!(known["a"], lists[0].1);
        assert_eq!((&known["b \"c\""], known.len()), (&lists[1].1, 2));
    }

    #[test]
    fn the_last_ones_heard_of_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let many = (0..GUESSES_MAX as u32).map(|number| guess(number, 60));
        let lists = [("a", many.collect()), ("b", vec![guess(1, 60)])];
        write(&path, &lists, false).unwrap();
        let known = read(&path).unwrap();
        assert_eq!(known["a"], lists[0].1[GUESSES_MAX / 2..]);
        assert_eq!(known["b"], lists[1].1);
    }

    #[test]
    fn a_file_that_is_none_of_ours_is_refused_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        write(&path, &[("a", vec![guess(1, -300)])], false).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let row = r#"{"source":"a","ip":"192.0.2.7","host":"","minutes":0}"#;
        let many = vec![row; GUESSES_MAX + 1].join(",");
        for broken in [
            text[..text.len() / 2].to_owned(),
            text.replace("-300", "70000"),
            text.replace("\"version\":1", "\"version\":2"),
            format!(r#"{{"version":1,"guesses":[{many}]}}"#),
            String::new(),
        ] {
            std::fs::write(&path, &broken).unwrap();
            assert!(read(&path).is_err(), "{broken:.80}");
        }
        assert!(ZonesFile::open(dir.path()).read.lock().unwrap().is_empty());
    }
}
