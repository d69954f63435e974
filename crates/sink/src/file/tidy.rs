//! Care of rotated files, on a thread of its own: compression, and deletion of the oldest.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Receiver;

use inrush_event::Timestamp;
use inrush_files::Access;

use super::Compression;
use crate::{ErrorReason, SinkStatus};

/// Bytes compressed between two looks at whether the process is stopping.
const COPY_BYTES: usize = 1024 * 1024;

/// gzip's own default, and zstd's.
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;

/// Looks after the rotated files of the paths that come in.
pub(super) struct RotationWorker {
    pub(super) compression: Compression,
    pub(super) keep_files: Option<u32>,
    pub(super) access: Access,
    /// Set to end in the middle of a file, which is then left as it was.
    pub(super) abort: Arc<AtomicBool>,
    pub(super) status: Arc<SinkStatus>,
}

impl RotationWorker {
    /// Works until the sender is gone. An error leaves a file for the next rotation of its path.
    pub(super) fn run(self, paths: &Receiver<PathBuf>) {
        for path in paths {
            if self.abort.load(Relaxed) {
                return;
            }
            if let Err(error) = self.tidy(&path) {
                let text = format!("rotated files of {}: {error}", path.display());
                self.status.noted(ErrorReason::of_file(&error), &text);
            }
        }
    }

    /// Deletes the oldest rotated files of `path`, then compresses the others, those of an earlier
    /// run too. In this order, because compressing needs room and deleting makes it; and a file
    /// that cannot be tidied does not keep the next one from it.
    pub(super) fn tidy(&self, path: &Path) -> io::Result<()> {
        let mut tidied = Ok(());
        let mut files = rotated_files(path)?;
        files.retain(|file| {
            let torn = file.state == RotatedState::Torn;
            if torn {
                tidied = std::mem::replace(&mut tidied, Ok(())).and(fs::remove_file(&file.path));
            }
            !torn
        });
        let keep = self.keep_files.map_or(files.len(), |keep| keep as usize);
        let surplus = files.len().saturating_sub(keep);
        for (index, file) in files.iter().enumerate() {
            let done = match file.state {
                _ if index < surplus => fs::remove_file(&file.path),
                RotatedState::Plain if self.compression != Compression::None => {
                    self.compress(&file.path)
                }
                RotatedState::Torn | RotatedState::Plain | RotatedState::Compressed => Ok(()),
            };
            tidied = tidied.and(done);
        }
        tidied
    }

    fn compress(&self, path: &Path) -> io::Result<()> {
        let end = if self.compression == Compression::Gzip {
            ".gz"
        } else {
            ".zst"
        };
        let (whole, torn) = (with_end(path, end), with_end(path, &format!("{end}.tmp")));
        let compressed = self.compress_into(path, inrush_files::create(&torn, &self.access)?);
        if !matches!(compressed, Ok(true)) {
            fs::remove_file(&torn)?;
            return compressed.map(|_| ());
        }
        fs::rename(&torn, &whole)?;
        if let Some(folder) = path.parent() {
            File::open(folder)?.sync_all()?;
        }
        fs::remove_file(path)
    }

    /// False if the process is stopping.
    fn compress_into(&self, path: &Path, to: File) -> io::Result<bool> {
        let from = inrush_files::open_regular(path)?;
        let (to, done) = match self.compression {
            Compression::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                let mut encoder = flate2::write::GzEncoder::new(to, level);
                let done = self.copy(from, &mut encoder)?;
                (encoder.finish()?, done)
            }
            Compression::Zstd | Compression::None => {
                let mut encoder = zstd::stream::write::Encoder::new(to, ZSTD_LEVEL)?;
                let done = self.copy(from, &mut encoder)?;
                (encoder.finish()?, done)
            }
        };
        to.sync_all()?;
        Ok(done)
    }

    fn copy(&self, mut from: File, to: &mut impl Write) -> io::Result<bool> {
        let mut buffer = vec![0; COPY_BYTES];
        loop {
            if self.abort.load(Relaxed) {
                return Ok(false);
            }
            match from.read(&mut buffer)? {
                0 => return Ok(true),
                n => to.write_all(&buffer[..n])?,
            }
        }
    }
}

/// A name for the file that is rotated now, which no other file has.
pub(super) fn rotated_name(path: &Path, now: Timestamp) -> PathBuf {
    let at = jiff::Timestamp::from_nanosecond(i128::from(now.0)).unwrap_or_default();
    let stem = with_end(path, &at.strftime(".%Y%m%dT%H%M%SZ").to_string());
    let taken = |name: &Path| {
        ["", ".gz", ".zst"]
            .iter()
            .any(|end| with_end(name, end).symlink_metadata().is_ok())
    };
    let numbered = (1u32..).map(|n| with_end(&stem, &format!(".{n}")));
    std::iter::once(stem.clone())
        .chain(numbered)
        .find(|name| !taken(name))
        .unwrap_or(stem)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RotatedState {
    Plain,
    Compressed,
    Torn,
}

struct Rotated {
    path: PathBuf,
    state: RotatedState,
    /// Stamp and number, for sorting.
    age: (String, u32),
}

/// The rotated files of a path, oldest first.
fn rotated_files(path: &Path) -> io::Result<Vec<Rotated>> {
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let prefix = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
        + ".";
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        if let Some((age, state)) = rest.and_then(rotation) {
            files.push(Rotated {
                path: entry.path(),
                state,
                age,
            });
        }
    }
    files.sort_by(|a, b| a.age.cmp(&b.age));
    Ok(files)
}

/// Reads `20240506T070809Z[.1][.gz|.zst][.tmp]`.
fn rotation(rest: &str) -> Option<((String, u32), RotatedState)> {
    let (rest, torn) = strip(rest, &[".tmp"]);
    let (rest, compressed) = strip(rest, &[".gz", ".zst"]);
    let (stamp, number) = rest.split_once('.').unwrap_or((rest, "0"));
    let shape: String = stamp
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    if shape != "00000000T000000Z" || (torn && !compressed) {
        return None;
    }
    let state = match (torn, compressed) {
        (true, _) => RotatedState::Torn,
        (false, true) => RotatedState::Compressed,
        (false, false) => RotatedState::Plain,
    };
    Some(((stamp.to_owned(), number.parse().ok()?), state))
}

fn strip<'a>(text: &'a str, ends: &[&str]) -> (&'a str, bool) {
    ends.iter()
        .find_map(|end| text.strip_suffix(end))
        .map_or((text, false), |rest| (rest, true))
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_own_making_are_taken_for_rotated_files() {
        for (name, want) in [
            ("20240506T070809Z", Some((0, RotatedState::Plain))),
            ("20240506T070809Z.3", Some((3, RotatedState::Plain))),
            ("20240506T070809Z.gz", Some((0, RotatedState::Compressed))),
            (
                "20240506T070809Z.12.zst",
                Some((12, RotatedState::Compressed)),
            ),
            ("20240506T070809Z.gz.tmp", Some((0, RotatedState::Torn))),
            ("20240506T070809Z.tmp", None),
            ("bak", None),
            ("20240506", None),
            ("20240506T070809Z.log", None),
            ("20240506T070809Z.99999999999", None),
        ] {
            let got = rotation(name).map(|((_, number), state)| (number, state));
            assert_eq!(got, want, "{name}");
        }
    }
}
