//! Quarantine of the process: keeps refused events, lists them, removes them and replays them.
//!
//! # What it guarantees
//! * A refused event is synced to disk before `put` returns. After a failed put its sink keeps it.
//! * One replay or removal runs at a time. A second fails at once: two could send an event twice.
//! * A replay removes an entry only after the queue has made its copy durable.
//!
//! # Limits
//! A list has `LISTED` entries by default, `LISTED_MAX` at most, and ends after `LISTED_BYTES_MAX`.
//! A replay waits for the queue every `BATCHES_PER_WAIT` batches, `DURABLE_BOUND` at most.
//!
//! # After a crash
//! An entry that a replay has appended but not removed is still there, and may be sent twice.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use base64::Engine;
use inrush_codec::encode::{JsonLines, json_escape, push_rfc3339_ms};
use inrush_event::{Batch, BatchParts, ClassId, Period, Record, Span, Timestamp, limits};
use inrush_queue::{
    Log, QuarantineEntry, QuarantineFilter, QuarantineLog, RefusalNote, ReplayError,
};
use inrush_sink::{Quarantine, RefusedRecords};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Entries that one answer lists unless asked otherwise, and at most.
const LISTED: usize = 100;
const LISTED_MAX: usize = 1000;

/// Bytes of JSON after which an answer ends.
const LISTED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Batches that are sent again before it is waited until they are durable.
const BATCHES_PER_WAIT: usize = 16;

/// Timeout of that wait; the queue's disk hangs if it takes longer.
const DURABLE_BOUND: Duration = Duration::from_secs(10);

/// The folder under the data directory.
pub const FOLDER: &str = "quarantine";

/// Filter of the entries that a request means: those that every given condition fits.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuarantineQuery {
    /// Of this destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// Refused for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// With these numbers: `7`, `7,9`, `100-200`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Refused within this time before now: `15m`, `2h`, `7d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// All of them, where there is no condition.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// At most so many entries; where entries are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl QuarantineQuery {
    /// True if it says which entries it means, if only that it means all.
    pub fn is_chosen(&self) -> bool {
        self.all
            || self.destination.is_some()
            || self.reason.is_some()
            || self.id.is_some()
            || self.since.is_some()
    }

    /// The conditions.
    ///
    /// # Errors
    /// In words, which of them cannot be read.
    pub fn filter(&self) -> Result<QuarantineFilter, String> {
        let numbers = self
            .id
            .as_deref()
            .map(QuarantineFilter::parse_numbers)
            .transpose()?;
        let since = self.since.as_deref().map(|text| {
            let ago: Period = text.parse().map_err(|error| format!("since: {error}"))?;
            let ago = i64::try_from(ago.0.as_nanos()).unwrap_or(i64::MAX);
            Ok::<_, String>(Timestamp(Timestamp::now().0.saturating_sub(ago)))
        });
        Ok(QuarantineFilter {
            destination: self.destination.clone(),
            reason: self.reason.clone(),
            numbers: numbers.unwrap_or_default(),
            since: since.transpose()?,
        })
    }
}

/// The answer of `GET /api/v1/quarantine`.
#[derive(Clone, Debug, Serialize)]
pub struct QuarantineList {
    /// Bytes on disk.
    pub bytes: u64,
    /// The budget for them.
    pub bytes_max: u64,
    /// The oldest entries that fit, as [`push_entry`] writes them.
    pub entries: Vec<Value>,
    /// True if more entries fit than are listed.
    pub more: bool,
}

/// Result of a replay.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ReplayReport {
    /// Events that went to the queue and left quarantine.
    pub replayed: u64,
    /// Events that went to the queue but could not be taken out of quarantine: they lie there
    /// still, and may be sent twice.
    pub left_behind: u64,
    /// Events that stay in quarantine, since their destination is not configured.
    pub not_configured: u64,
    /// Reason that it ended early, if it did: what was not reached stays in quarantine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

/// Quarantine of the process, into which sinks put what is refused.
pub struct DiskQuarantine {
    /// Log on disk that has the entries, with a budget in bytes of its own.
    pub log: QuarantineLog,
    /// Held while a replay or a removal is under way: two at once could send events twice.
    turn: Mutex<()>,
}

impl DiskQuarantine {
    /// Quarantine over this log, with no replay or removal under way.
    pub fn new(log: QuarantineLog) -> Arc<Self> {
        Arc::new(Self {
            log,
            turn: Mutex::new(()),
        })
    }

    fn turn<R>(&self, work: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
        match self.turn.try_lock() {
            Ok(_turn) => work(),
            Err(TryLockError::Poisoned(turn)) => {
                let _turn = PoisonError::into_inner(turn);
                work()
            }
            Err(TryLockError::WouldBlock) => {
                Err("another replay or removal is under way".to_owned())
            }
        }
    }

    /// The oldest entries that fit.
    pub fn list(&self, query: &QuarantineQuery) -> Result<QuarantineList, String> {
        let filter = query.filter()?;
        let limit = query.limit.unwrap_or(LISTED).min(LISTED_MAX);
        let (bytes, bytes_max) = self.log.bytes();
        let mut entries = self
            .log
            .entries(&filter)
            .map_err(|error| error.to_string())?;
        let (mut encoder, mut line, mut listed) = (JsonLines::new(), Vec::new(), Vec::new());
        let (mut text_bytes, mut more) = (0, false);
        for entry in &mut entries {
            more = listed.len() >= limit || text_bytes >= LISTED_BYTES_MAX;
            if more {
                break;
            }
            line.clear();
            push_entry(&entry, &mut encoder, &mut line);
            text_bytes += line.len();
            listed.extend(serde_json::from_slice::<Value>(&line));
        }
        Ok(QuarantineList {
            bytes,
            bytes_max,
            entries: listed,
            more,
        })
    }

    /// Takes out what fits; says how many.
    pub fn drop_entries(&self, filter: &QuarantineFilter) -> Result<u64, String> {
        self.turn(|| drop_entries(&self.log, filter).map_err(|error| error.to_string()))
    }

    /// Sends again what fits, as far as `is_configured` says that its destination is there.
    pub fn replay(
        &self,
        log: &Arc<Log>,
        filter: &QuarantineFilter,
        is_configured: impl Fn(&str) -> bool,
    ) -> Result<ReplayReport, String> {
        self.turn(|| {
            let entries = self
                .log
                .entries(filter)
                .map_err(|error| error.to_string())?;
            let mut replay = QuarantineReplay {
                log,
                quarantine: &self.log,
                group: Vec::new(),
                group_bytes: 0,
                appended: Vec::new(),
                batches: 0,
                end: 0,
                report: ReplayReport::default(),
            };
            for entry in entries {
                if !is_configured(&entry.destination) {
                    replay.report.not_configured += 1;
                } else if !replay.take(entry) {
                    break;
                }
            }
            replay.append();
            replay.settle();
            Ok(replay.report)
        })
    }
}

/// Takes out of `log` what fits; says how many.
///
/// # Errors
/// The disk fails; some may have been taken out.
pub fn drop_entries(log: &QuarantineLog, filter: &QuarantineFilter) -> io::Result<u64> {
    let numbers: BTreeSet<u64> = log.entries(filter)?.map(|entry| entry.number).collect();
    log.remove(&numbers)
}

impl Quarantine for DiskQuarantine {
    fn put(&self, destination: &str, refused: &[RefusedRecords]) -> io::Result<()> {
        let at = Timestamp::now();
        let refused: Vec<inrush_queue::RefusedEvents<'_>> = refused
            .iter()
            .map(|refused| inrush_queue::RefusedEvents {
                batch: &refused.batch,
                events: refused.events.clone(),
                note: RefusalNote {
                    at,
                    reason: refused.refusal.reason.name().to_owned(),
                    code: refused.refusal.code,
                    attempts: refused.attempts,
                    text: refused.refusal.text.clone(),
                },
            })
            .collect();
        self.log.put(destination, &refused)
    }
}

/// A replay under way.
struct QuarantineReplay<'a> {
    log: &'a Arc<Log>,
    quarantine: &'a QuarantineLog,
    /// Entries that make the next batch: of one destination and one source.
    group: Vec<QuarantineEntry>,
    group_bytes: usize,
    /// Numbers of entries that went to the queue and lie in quarantine still.
    appended: Vec<u64>,
    batches: usize,
    /// Position of the last batch that went to the queue.
    end: u64,
    report: ReplayReport,
}

impl QuarantineReplay<'_> {
    /// Takes one more entry; says whether there is any use in more.
    fn take(&mut self, entry: QuarantineEntry) -> bool {
        let full = self.group_bytes >= limits::BATCH_FLUSH_BYTES
            || self.group.len() >= limits::BATCH_FLUSH_RECORDS;
        let alike = self.group.first().is_none_or(|first| {
            first.destination == entry.destination && first.batch.source() == entry.batch.source()
        });
        if full || !alike {
            self.append();
        }
        self.group_bytes += entry.batch.bytes().len();
        self.group.push(entry);
        self.report.stopped.is_none()
    }

    fn append(&mut self) {
        let group = std::mem::take(&mut self.group);
        self.group_bytes = 0;
        if group.is_empty() || self.report.stopped.is_some() {
            return;
        }
        match self.log.append_again(joined(&group)) {
            Ok(position) => self.end = position,
            Err(ReplayError::NoDestination) => {
                self.report.not_configured += group.len() as u64;
                return;
            }
            Err(ReplayError::Full) => {
                let text = "the queue has no room; try again when it has";
                self.report.stopped = Some(text.to_owned());
                return;
            }
            Err(ReplayError::Closed) => {
                self.report.stopped = Some("the process is stopping".to_owned());
                return;
            }
        }
        self.appended.extend(group.iter().map(|entry| entry.number));
        self.batches += 1;
        if self.batches.is_multiple_of(BATCHES_PER_WAIT) {
            self.settle();
        }
    }

    /// Takes out of quarantine what went to the queue, once it is durable there.
    fn settle(&mut self) {
        let numbers: BTreeSet<u64> = std::mem::take(&mut self.appended).into_iter().collect();
        if numbers.is_empty() {
            return;
        }
        let deadline = Instant::now() + DURABLE_BOUND;
        let removed = if self.log.wait_durable(self.end, deadline) {
            self.quarantine.remove(&numbers)
        } else {
            Err(io::Error::other("the queue cannot be written"))
        };
        match removed {
            Ok(_) => self.report.replayed += numbers.len() as u64,
            Err(error) => {
                self.report.left_behind += numbers.len() as u64;
                self.report.stopped.get_or_insert(error.to_string());
            }
        }
    }
}

/// One batch of all the entries, which are of one destination and one source.
fn joined(entries: &[QuarantineEntry]) -> Batch {
    let first = &entries[0].batch;
    let (mut arena, mut records, mut origins) = (Vec::new(), Vec::new(), Vec::new());
    let mut classes = Vec::new();
    for entry in entries {
        let batch = &entry.batch;
        let base = arena.len() as u32;
        arena.extend_from_slice(batch.bytes());
        let moved = |span: Span| Span {
            start: if span.is_empty() {
                0
            } else {
                span.start + base
            },
            len: span.len,
        };
        records.extend(batch.records().iter().map(|record| Record {
            raw: moved(record.raw),
            host: moved(record.host),
            app: moved(record.app),
            proc_id: moved(record.proc_id),
            msg_id: moved(record.msg_id),
            sdata: moved(record.sdata),
            message: moved(record.message),
            extra: moved(record.extra),
            class: match record.class.0 {
                0 => ClassId::UNCLASSIFIED,
                own => ClassId(u16::try_from(classes.len() + usize::from(own)).unwrap_or(0)),
            },
            peer: match batch.origins() {
                [] => u32::MAX,
                _ => origins.len() as u32 + record.peer,
            },
            ..*record
        }));
        origins.extend_from_slice(batch.origins());
        classes.extend_from_slice(batch.classes());
    }
    BatchParts {
        arena: 0..arena.len(),
        memory: arena.into(),
        records,
        origins,
        classes,
        source: Arc::clone(first.source()),
        sequence: first.sequence(),
        received: first.received(),
        only: Some(Arc::from(entries[0].destination.as_str())),
        destinations: None,
    }
    .into()
}

/// Appends an entry as one JSON object without a line feed: `id`, `destination`, `reason`, `code`,
/// `text`, `attempts`, `refused` (when), `event` (as a `file` destination writes it), and
/// `raw_base64` where the record is not UTF-8, since `raw` then shows U+FFFD for what is not.
pub fn push_entry(entry: &QuarantineEntry, encoder: &mut JsonLines, out: &mut Vec<u8>) {
    let QuarantineEntry {
        number,
        destination,
        note,
        batch,
    } = entry;
    let text = |key: &str, value: &str, out: &mut Vec<u8>| {
        out.extend_from_slice(key.as_bytes());
        json_escape(value.as_bytes(), out);
    };
    out.extend_from_slice(format!("{{\"id\":{number}").as_bytes());
    text(",\"destination\":\"", destination, out);
    text("\",\"reason\":\"", &note.reason, out);
    out.extend_from_slice(format!("\",\"code\":{}", note.code).as_bytes());
    text(",\"text\":\"", &note.text, out);
    out.extend_from_slice(format!("\",\"attempts\":{}", note.attempts).as_bytes());
    out.extend_from_slice(b",\"refused\":\"");
    push_rfc3339_ms(note.at, out);
    out.push(b'"');
    for record in batch.records() {
        let raw = batch.get(record.raw);
        if std::str::from_utf8(raw).is_err() {
            let base64 = base64::engine::general_purpose::STANDARD.encode(raw);
            text(",\"raw_base64\":\"", &base64, out);
            out.push(b'"');
        }
        out.extend_from_slice(b",\"event\":");
        encoder.encode(batch, record, out);
        out.pop_if(|last| *last == b'\n');
    }
    out.push(b'}');
}
