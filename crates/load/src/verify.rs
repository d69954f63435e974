//! Verification: waiting until what was sent has arrived, and comparing.
//!
//! Sources of truth are files (followed while they grow and rotate, known by device and inode),
//! an HTTP address that answers with lines (read whole each time), or a ledger.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::LoadError;
use crate::http::HttpClient;
use crate::ledger::{LedgerCheck, LedgerWatch};
use crate::run::SenderTally;
use crate::tally::{MarkerCheck, MarkerTally};

/// Interval at which files are polled while something is missing.
const FILE_STEP: Duration = Duration::from_millis(200);

/// Interval at which an address is read while something is missing: each time it is read whole.
const URL_STEP: Duration = Duration::from_secs(1);

/// Bytes read at once.
const READ_BYTES: usize = 256 * 1024;

/// Bytes of the longest line that is kept until its end arrives; what is longer is dropped.
const LINE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Findings about what arrived.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VerifyReport {
    /// By the markers in what arrived.
    pub markers: Option<MarkerCheck>,
    /// By the receiver's ledger.
    pub ledger: Option<LedgerCheck>,
}

impl VerifyReport {
    /// True if nothing was lost or duplicated, and all accounts agree.
    pub fn ok(&self) -> bool {
        self.markers.as_ref().is_none_or(MarkerCheck::ok)
            && self.ledger.as_ref().is_none_or(LedgerCheck::ok)
    }
}

/// Sources of the verification after the run, settled before it.
pub(crate) struct Verifier {
    lines: Option<LineSource>,
    ledger: Option<LedgerWatch>,
}

enum LineSource {
    Files(String),
    Url(HttpClient),
}

impl Verifier {
    /// Prepares to read `verify` and `ledger`; snapshots of ledgers are taken now.
    ///
    /// # Errors
    /// [`LoadError::Usage`] and [`LoadError::Verify`].
    pub(crate) fn start(verify: Option<&str>, ledger: Option<&str>) -> Result<Self, LoadError> {
        let mut ledger = ledger.map(LedgerWatch::start).transpose()?;
        let lines = match verify {
            Some(url) if url.contains("://") => {
                let client = HttpClient::new(url)?;
                match LedgerWatch::try_start(&client)? {
                    Some(before) => {
                        ledger = Some(LedgerWatch::new(client, before));
                        None
                    }
                    None => Some(LineSource::Url(client)),
                }
            }
            Some(pattern) => {
                glob::Pattern::new(pattern)
                    .map_err(|error| LoadError::Usage(format!("--verify {pattern}: {error}")))?;
                Some(LineSource::Files(pattern.to_owned()))
            }
            None => None,
        };
        Ok(Self { lines, ledger })
    }

    /// Waits until the ledger has settled, if there is one; its account.
    pub(crate) fn settle(
        &self,
        sent: u64,
        deadline: Instant,
    ) -> Result<Option<LedgerCheck>, LoadError> {
        self.ledger
            .as_ref()
            .map(|ledger| ledger.settle(sent, deadline))
            .transpose()
    }

    /// Waits until all markers have arrived, if there is a place to look; the comparison.
    pub(crate) fn markers(
        &self,
        run: &str,
        senders: &[SenderTally],
        deadline: Instant,
    ) -> Result<Option<MarkerCheck>, LoadError> {
        match &self.lines {
            None => Ok(None),
            Some(LineSource::Files(pattern)) => {
                follow_files(pattern, MarkerTally::new(run, senders), senders, deadline).map(Some)
            }
            Some(LineSource::Url(client)) => follow_url(client, run, senders, deadline).map(Some),
        }
    }
}

fn follow_url(
    client: &HttpClient,
    run: &str,
    senders: &[SenderTally],
    deadline: Instant,
) -> Result<MarkerCheck, LoadError> {
    let sent: u64 = senders.iter().map(|sender| sender.sent).sum();
    loop {
        let mut tally = MarkerTally::new(run, senders);
        let mut lines = LineReader::default();
        let body = client.get()?;
        lines
            .read(body, &mut tally)
            .map_err(|error| client.failed(&error))?;
        lines.finish(&mut tally);
        if tally.distinct() >= sent || Instant::now() >= deadline {
            return Ok(tally.check(client.url()));
        }
        std::thread::sleep(URL_STEP);
    }
}

fn follow_files(
    pattern: &str,
    mut tally: MarkerTally,
    senders: &[SenderTally],
    deadline: Instant,
) -> Result<MarkerCheck, LoadError> {
    let sent: u64 = senders.iter().map(|sender| sender.sent).sum();
    let mut follower = Follower {
        pattern,
        files: HashMap::new(),
    };
    loop {
        let complete_before = tally.distinct() >= sent;
        follower.poll(&mut tally)?;
        // Once complete, one more look: a duplicate comes after what it repeats.
        if complete_before || Instant::now() >= deadline {
            break;
        }
        std::thread::sleep(FILE_STEP);
    }
    follower.finish(&mut tally);
    if follower.files.is_empty() {
        return Err(LoadError::Verify {
            from: pattern.to_owned(),
            what: "no such file; check the path that the receiver writes".to_owned(),
        });
    }
    Ok(tally.check(pattern))
}

/// Files that match a pattern, each read as far as it has grown.
struct Follower<'a> {
    pattern: &'a str,
    /// By device and inode, so that a rotated file is not read twice.
    files: HashMap<(u64, u64), FollowedFile>,
}

#[derive(Default)]
struct FollowedFile {
    offset: u64,
    lines: LineReader,
}

impl Follower<'_> {
    fn poll(&mut self, tally: &mut MarkerTally) -> Result<(), LoadError> {
        let paths = glob::glob(self.pattern)
            .map_err(|error| LoadError::Usage(format!("--verify {}: {error}", self.pattern)))?;
        for path in paths.flatten().filter(|path| path.is_file()) {
            self.read(&path, tally).map_err(|error| LoadError::Verify {
                from: path.display().to_string(),
                what: error.to_string(),
            })?;
        }
        Ok(())
    }

    fn read(&mut self, path: &Path, tally: &mut MarkerTally) -> std::io::Result<()> {
        let mut file = match inrush_files::open_regular(path) {
            // Rotated away since it was listed: it comes again under its new name.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let meta = file.metadata()?;
        let followed = self.files.entry((meta.dev(), meta.ino())).or_default();
        if meta.len() < followed.offset {
            *followed = FollowedFile::default();
        }
        file.seek(SeekFrom::Start(followed.offset))?;
        followed.offset += followed.lines.read(file, tally)?;
        Ok(())
    }

    fn finish(&mut self, tally: &mut MarkerTally) {
        self.files
            .values_mut()
            .for_each(|followed| followed.lines.finish(tally));
    }
}

/// Cuts a stream into lines; the last one may be continued by the next read.
#[derive(Default)]
struct LineReader {
    carry: Vec<u8>,
    /// The present line is too long, and dropped up to its end.
    skipping: bool,
}

impl LineReader {
    /// Reads to the end; the bytes read.
    fn read(&mut self, mut from: impl Read, tally: &mut MarkerTally) -> std::io::Result<u64> {
        let mut buffer = vec![0; READ_BYTES];
        let mut total = 0;
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return Ok(total),
                Ok(n) => {
                    total += n as u64;
                    self.feed(&buffer[..n], tally);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn feed(&mut self, mut bytes: &[u8], tally: &mut MarkerTally) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            if self.carry.is_empty() && !self.skipping {
                tally.line(&bytes[..end]);
            } else {
                self.keep(&bytes[..end]);
                self.finish(tally);
            }
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.skipping |= self.carry.len() + bytes.len() > LINE_BYTES_MAX;
        if self.skipping {
            self.carry.clear();
        } else {
            self.carry.extend_from_slice(bytes);
        }
    }

    /// Takes what is left as a line.
    fn finish(&mut self, tally: &mut MarkerTally) {
        if !self.skipping {
            tally.line(&self.carry);
        }
        self.carry.clear();
        self.skipping = false;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::Write;

    fn senders(sent: u64) -> Vec<SenderTally> {
        vec![SenderTally {
            id: 0,
            sent,
            attempted: sent,
            ..SenderTally::default()
        }]
    }

    fn line(seq: u64) -> String {
        format!("{{\"m\":\"seq={seq:010} conn=0 run=0000beef sent=1700000000000000000 P\"}}\n")
    }

    #[test]
    fn lines_cut_by_reads_and_rotation_are_counted_once() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("a.log"), dir.path().join("a.log.1"));
        let pattern = dir.path().join("a.log*").display().to_string();
        let mut tally = MarkerTally::new("0000beef", &senders(3));
        let mut follower = Follower {
            pattern: &pattern,
            files: HashMap::new(),
        };
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&line(0).as_bytes()[..20]).unwrap();
        follower.poll(&mut tally).unwrap();
        assert_eq!(tally.distinct(), 0);
        file.write_all(&line(0).as_bytes()[20..]).unwrap();
        file.write_all(line(1).as_bytes()).unwrap();
        std::fs::rename(&path, &old).unwrap();
        std::fs::write(&path, line(2).trim_end()).unwrap();
        follower.poll(&mut tally).unwrap();
        assert_eq!(tally.distinct(), 2);
        follower.finish(&mut tally);
        let check = tally.check("x");
        assert!(check.ok() && check.received == 3, "{check:?}");
    }

    #[test]
    fn a_pattern_without_a_file_is_an_error_and_not_a_loss() {
        let verifier = Verifier::start(Some("/nonexistent/*.log"), None).unwrap();
        let error = verifier
            .markers("0000beef", &senders(1), Instant::now())
            .unwrap_err();
        assert!(error.to_string().contains("no such file"), "{error}");
        assert!(Verifier::start(Some("a[.log"), None).is_err());
        assert!(Verifier::start(Some("https://x/"), None).is_err());
    }

    #[test]
    fn a_line_without_end_does_not_grow_for_ever() {
        let mut lines = LineReader::default();
        let mut tally = MarkerTally::new("0000beef", &senders(1));
        let endless = std::io::repeat(b'x').take(LINE_BYTES_MAX as u64 + 10);
        lines.read(endless, &mut tally).unwrap();
        assert!(lines.carry.is_empty() && lines.skipping);
        let then = format!("\n{}", line(0));
        lines.read(then.as_bytes(), &mut tally).unwrap();
        assert_eq!(tally.distinct(), 1);
    }
}
