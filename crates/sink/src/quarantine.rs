//! Where refused events go: one file of JSON lines a destination, under the data directory.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use inrush_codec::encode::{json_escape, push_rfc3339_ms, push_rfc3339_ns};
use inrush_event::{Batch, Fate, Feed, Record, RefuseReason, Timestamp};

use crate::{ErrorReason, SinkStatus, file};

/// When a refused event that could not be quarantined is tried again, sending included.
const RETRY: Duration = Duration::from_secs(10);

/// Why an event is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The closed reason.
    pub reason: RefuseReason,
    /// The destination's own code, 0 if it gave none.
    pub code: u32,
    /// The destination's own words.
    pub text: String,
}

/// Keeps refused events.
pub trait Quarantine: Send + Sync {
    /// Keeps the events `events` of `batch`, durably, before it returns.
    ///
    /// # Errors
    /// They could not be kept; nothing of them was, and the caller holds them.
    fn put(
        &self,
        destination: &str,
        batch: &Batch,
        events: Range<u32>,
        refusal: &Refusal,
    ) -> io::Result<()>;
}

/// Quarantine as JSON lines in `DATA_DIR/quarantine/DESTINATION.jsonl`, synced to disk for every
/// put. One object an event: `time` (of the refusal), `destination`, `reason`, `code`, `text`,
/// `source`, `received`, `sender`, `raw`, and `raw_base64` where the record is not UTF-8, since
/// `raw` then shows U+FFFD for what is not.
pub struct FileQuarantine {
    folder: PathBuf,
    /// Writers of several sinks take turns: a put is one append and one sync.
    turn: Mutex<()>,
}

impl FileQuarantine {
    /// Quarantine under `data_dir`. Nothing is created before the first refusal.
    pub fn new(data_dir: &Path) -> Self {
        Self {
            folder: data_dir.join("quarantine"),
            turn: Mutex::new(()),
        }
    }

    /// The file of a destination.
    pub fn path(&self, destination: &str) -> PathBuf {
        let mut name = file::file_name(destination.as_bytes());
        name.push_str(".jsonl");
        self.folder.join(name)
    }
}

impl Quarantine for FileQuarantine {
    fn put(
        &self,
        destination: &str,
        batch: &Batch,
        events: Range<u32>,
        refusal: &Refusal,
    ) -> io::Result<()> {
        let mut lines = Vec::new();
        for record in file::records(batch, &events) {
            push_line(destination, batch, record, refusal, &mut lines);
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        std::fs::create_dir_all(&self.folder)?;
        let path = self.path(destination);
        let new = !path.exists();
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .read(true)
            .open(path)?;
        if ends_torn(&file)? {
            // A crash in the middle of a line: it must not take the next event with it.
            lines.insert(0, b'\n');
        }
        append_durably(&file, &lines)?;
        if new {
            File::open(&self.folder)?.sync_all()?;
        }
        Ok(())
    }
}

/// Whether the file ends in the middle of a line.
fn ends_torn(file: &File) -> io::Result<bool> {
    let Some(last_at) = file.metadata()?.len().checked_sub(1) else {
        return Ok(false);
    };
    let mut last = [0];
    file.read_exact_at(&mut last, last_at)?;
    Ok(last != *b"\n")
}

/// All or nothing: what was written of a failed append is cut off again.
fn append_durably(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    let before = file.metadata()?.len();
    let written = file.write_all(bytes).and_then(|()| file.sync_data());
    if written.is_err() {
        file.set_len(before)?;
    }
    written
}

fn push_line(
    destination: &str,
    batch: &Batch,
    record: &Record,
    refusal: &Refusal,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"{\"time\":\"");
    push_rfc3339_ms(Timestamp::now(), out);
    push_text(out, "destination", destination.as_bytes());
    push_text(out, "reason", refusal.reason.name().as_bytes());
    // Writing into a Vec cannot fail.
    let _ = write!(out, "\",\"code\":{},\"text\":\"", refusal.code);
    json_escape(refusal.text.as_bytes(), out);
    push_text(out, "source", batch.source().name.as_bytes());
    out.extend_from_slice(b"\",\"received\":\"");
    push_rfc3339_ns(record.received.or(Timestamp(0)), out);
    if let Some(peer) = batch.peer(record) {
        let _ = write!(out, "\",\"sender\":\"{}", peer.ip);
    }
    let raw = batch.get(record.raw);
    push_text(out, "raw", raw);
    if std::str::from_utf8(raw).is_err() {
        let base64 = base64::engine::general_purpose::STANDARD.encode(raw);
        push_text(out, "raw_base64", base64.as_bytes());
    }
    out.extend_from_slice(b"\"}\n");
}

/// Ends the value before it and begins the next pair, whose value stays open.
fn push_text(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    out.extend_from_slice(b"\",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":\"");
    json_escape(value, out);
}

/// What a sink needs to refuse events.
pub(crate) struct Refuser {
    pub(crate) destination: String,
    pub(crate) quarantine: Arc<dyn Quarantine>,
    pub(crate) status: Arc<SinkStatus>,
}

impl Refuser {
    /// Quarantines the events, then settles them as refused; puts them back if they cannot be
    /// quarantined.
    pub(crate) fn refuse(
        &self,
        feed: &dyn Feed,
        position: u64,
        batch: &Batch,
        events: Range<u32>,
        refusal: &Refusal,
    ) {
        let kept = self
            .quarantine
            .put(&self.destination, batch, events.clone(), refusal);
        let fate = match kept {
            Ok(()) => {
                let Refusal { reason, code, text } = refusal.clone();
                Fate::Refused { reason, code, text }
            }
            Err(error) => {
                let text = format!("quarantine cannot be written: {error}");
                self.status.failed(ErrorReason::QuarantineFailed, &text);
                Fate::RetryAfter(RETRY)
            }
        };
        feed.settle(position, events, fate);
    }
}
