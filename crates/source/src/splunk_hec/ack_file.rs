//! Acknowledgements over a restart: those of the last minutes in two files, the older one whole.
//!
//! # Layout
//! Records of 44 bytes, little-endian: CRC-32C of the token's name (4), the channel (16), the
//! number (8), the number of the event below which all must be settled (8, 0: the events are
//! safe), the time in seconds since 1970 (8).
//!
//! # What it guarantees
//! * A number is written before its answer goes out, so that a killed process forgets none.
//! * A file that cannot be written costs this memory, and nothing else.
//!
//! # After a crash
//! A record that is cut short at the end is left out. A power cut may take the last records: their
//! numbers are answered false, and their clients send again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use inrush_event::crc32c;
use inrush_files::Access;

/// Seconds for which numbers are remembered; two files have half of it each, at least.
const KEPT_SECONDS: u64 = 10 * 60;

/// Bytes of a record.
const RECORD_BYTES: usize = 44;

/// Bytes of a file that are read at the start, at most: a million numbers.
const READ_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A number whose events are durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AckRecord {
    /// Checksum of the token's name.
    pub(super) token: u32,
    /// The channel.
    pub(super) channel: [u8; 16],
    /// The number.
    pub(super) number: u64,
    /// Number of the event below which all must be settled; 0: the events are safe.
    pub(super) settled_at: u64,
    /// Seconds since 1970.
    pub(super) seconds: u64,
}

impl AckRecord {
    /// The checksum by which a token is known.
    pub(super) fn token_sum(name: &str) -> u32 {
        crc32c(name.as_bytes())
    }

    fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..4].copy_from_slice(&self.token.to_le_bytes());
        bytes[4..20].copy_from_slice(&self.channel);
        bytes[20..28].copy_from_slice(&self.number.to_le_bytes());
        bytes[28..36].copy_from_slice(&self.settled_at.to_le_bytes());
        bytes[36..].copy_from_slice(&self.seconds.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let word = |at: usize| {
            bytes
                .get(at..at + 8)?
                .try_into()
                .ok()
                .map(u64::from_le_bytes)
        };
        Some(Self {
            token: u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?),
            channel: bytes.get(4..20)?.try_into().ok()?,
            number: word(20)?,
            settled_at: word(28)?,
            seconds: word(36)?,
        })
    }
}

/// The files of one collector.
#[derive(Debug)]
pub(super) struct AckFile {
    path: PathBuf,
    file: File,
    /// Time of the first record of the present file, in seconds since 1970; 0 without one.
    begun: u64,
}

impl AckFile {
    /// Opens the files of the collector `name`, and reads what is remembered at `now`, in seconds
    /// since 1970.
    ///
    /// # Errors
    /// The error of the system.
    pub(super) fn open(
        data_dir: &Path,
        name: &str,
        now: u64,
    ) -> io::Result<(Self, Vec<AckRecord>)> {
        let folder = data_dir.join("hec");
        inrush_files::create_dir_all(&folder, &Access::PRIVATE)?;
        let path = folder.join(format!("{name}.acks"));
        let mut records = Vec::new();
        for path in [older(&path), path.clone()] {
            match inrush_files::read(&path, READ_BYTES_MAX) {
                Ok(bytes) => records.extend(decode(&bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        records.retain(|record| record.seconds + KEPT_SECONDS > now && record.seconds <= now);
        let mut opened = Self {
            file: append_to(&path)?,
            path,
            begun: now,
        };
        // What was remembered is the older file from now on, without a record that was cut short.
        opened.turn(&records)?;
        Ok((opened, records))
    }

    /// A file that is no place on a disk.
    #[cfg(test)]
    pub(super) fn over(file: File) -> Self {
        Self {
            path: PathBuf::new(),
            file,
            begun: u64::MAX / 2,
        }
    }

    /// Writes a number.
    ///
    /// # Errors
    /// The error of the system.
    pub(super) fn push(&mut self, record: &AckRecord) -> io::Result<()> {
        if record.seconds >= self.begun + KEPT_SECONDS / 2 {
            fs::rename(&self.path, older(&self.path))?;
            self.file = append_to(&self.path)?;
            self.begun = record.seconds;
        }
        self.file.write_all(&record.encode())
    }

    /// Makes these records the older file, and begins a new one.
    fn turn(&mut self, records: &[AckRecord]) -> io::Result<()> {
        let bytes: Vec<u8> = records.iter().flat_map(AckRecord::encode).collect();
        let fresh = self.path.with_extension("acks.new");
        inrush_files::create(&fresh, &Access::PRIVATE)?.write_all(&bytes)?;
        fs::rename(&fresh, older(&self.path))?;
        self.file.set_len(0)
    }
}

fn older(path: &Path) -> PathBuf {
    path.with_extension("acks.old")
}

fn append_to(path: &Path) -> io::Result<File> {
    inrush_files::open(path, OpenOptions::new().append(true), &Access::PRIVATE)
}

fn decode(bytes: &[u8]) -> impl Iterator<Item = AckRecord> {
    let (records, _) = bytes.as_chunks::<RECORD_BYTES>();
    records.iter().filter_map(AckRecord::decode)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, seconds: u64) -> AckRecord {
        AckRecord {
            token: AckRecord::token_sum("t"),
            channel: [7; 16],
            number,
            settled_at: number / 2,
            seconds,
        }
    }

    #[test]
    fn numbers_of_the_last_minutes_are_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let open = |now| AckFile::open(dir.path(), "hec", now).unwrap();
        let (mut file, found) = open(1000);
        assert_eq!(found, []);
        file.push(&record(1, 1000)).unwrap();
        // Half of the time later a new file begins.
        file.push(&record(2, 1400)).unwrap();
        file.file.write_all(b"cut short").unwrap();
        let (mut file, found) = open(1500);
        assert_eq!(found, [record(1, 1000), record(2, 1400)]);
        file.push(&record(3, 1500)).unwrap();
        let (_, found) = open(1700);
        assert_eq!(found, [record(2, 1400), record(3, 1500)]);
        let (_, found) = open(3000);
        assert_eq!(found, []);
    }
}
