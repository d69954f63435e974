//! Writes damaged segments anew without what is bad in them. Only for a log that no process uses.
//!
//! Nothing sound is lost: frames are carried over byte for byte, bad bytes are kept in `bad`, and
//! the numbers of lost events stay lost, so that every destination counts them when it comes there.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use inrush_event::Timestamp;
use serde::Serialize;

use crate::format::{FrameHeader, LogId, SourceCache, decode_payload};
use crate::inspect::{SegmentReport, read};
use crate::meta::Meta;
use crate::recover::{heads, log_id, segments};
use crate::rewrite::{SUFFIX, rewrite};
use crate::segments::{NO_END, Segment, Segments, serial_in};
use crate::storage::{DiskStorage, Storage};
use crate::writer::SegmentWriter;

/// Bytes that are copied at once.
const COPY_BYTES: u64 = 1024 * 1024;

/// One thing that was done, or would be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Repair {
    /// The action.
    #[serde(flatten)]
    pub kind: RepairKind,
    /// To which file.
    pub file: String,
}

/// Action on a file, done or planned.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum RepairKind {
    /// A leftover of something that was not finished was deleted.
    Removed,
    /// A segment that cannot be read at all, or a bad part kept earlier, went to `bad`.
    PutAside {
        /// Its new name.
        to: String,
    },
    /// A segment was written anew.
    Rewritten {
        /// Bad bytes left out; they are kept in `bad`, unless they are all zero.
        left_out: u64,
        /// Offsets of the bad bytes in the old file.
        bad: Vec<Range<u64>>,
        /// Batches that it still has.
        batches: u64,
    },
    /// An empty segment was begun, so that the numbers of lost events are not given out again.
    Begun {
        /// Number of the next event.
        next_event: u64,
    },
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = &self.file;
        match &self.kind {
            RepairKind::Removed => write!(f, "{file}: leftover, deleted"),
            RepairKind::PutAside { to } => write!(f, "{file}: put aside as {to}"),
            RepairKind::Rewritten {
                left_out,
                bad,
                batches,
            } => write!(
                f,
                "{file}: written anew with {batches} batches, without {left_out} bad bytes in {} \
                 places",
                bad.len()
            ),
            RepairKind::Begun { next_event } => {
                write!(
                    f,
                    "{file}: begun, so that numbers go on from event {next_event}"
                )
            }
        }
    }
}

/// Mends the log in `folder`; with `dry_run` only says what would be done.
///
/// # Errors
/// The disk fails, or a newer version wrote the log. What was done until then stays done, and it
/// can be tried again.
pub fn repair(folder: &Path, dry_run: bool, told: &mut dyn FnMut(Repair)) -> io::Result<()> {
    let disk = if dry_run {
        DiskStorage::look_at(folder)?
    } else {
        DiskStorage::open(folder)?
    };
    let storage: Arc<dyn Storage> = Arc::new(disk);
    let names = storage.list()?;
    let meta = Meta::read(&*storage);
    let heads = heads(&*storage, &names)?;
    let mut work = RepairPass {
        storage: &storage,
        dry_run,
        told,
    };
    work.leftovers(&names)?;
    let Some(id) = log_id(meta.as_ref(), &heads) else {
        return Ok(());
    };
    let epochs = heads.iter().filter_map(|(_, head)| head.map(|h| h.epoch));
    let epoch = epochs.max().max(meta.map(|meta| meta.epoch)).unwrap_or(0);
    let mut strange = Vec::new();
    let segments = segments(&*storage, id, heads, &mut strange);
    for name in strange {
        let to = format!("bad/{name}.{}", Timestamp::now().0 / 1_000_000_000);
        work.put_aside(&name, to)?;
    }
    let serials = names.iter().filter_map(|name| serial_in(name));
    let serials = serials.chain(segments.0.iter().map(|segment| segment.header.serial));
    let serial = serials.max().map_or(0, |serial| serial + 1);
    let writer = SegmentWriter::new(Arc::clone(&storage), id, epoch, serial);
    work.segments(id, &segments, writer)
}

struct RepairPass<'a> {
    storage: &'a Arc<dyn Storage>,
    dry_run: bool,
    told: &'a mut dyn FnMut(Repair),
}

impl RepairPass<'_> {
    fn tell(&mut self, file: &str, kind: RepairKind) {
        let file = file.to_owned();
        (self.told)(Repair { kind, file });
    }

    fn leftovers(&mut self, names: &[String]) -> io::Result<()> {
        for name in names {
            if name.ends_with(SUFFIX) {
                if !self.dry_run {
                    self.storage.remove(name)?;
                }
                self.tell(name, RepairKind::Removed);
            } else if name.ends_with(".bad") {
                self.put_aside(name, format!("bad/{name}"))?;
            }
        }
        Ok(())
    }

    fn put_aside(&mut self, name: &str, to: String) -> io::Result<()> {
        if !self.dry_run {
            self.storage.rename(name, &to)?;
        }
        self.tell(name, RepairKind::PutAside { to });
        Ok(())
    }

    fn segments(
        &mut self,
        id: LogId,
        segments: &Segments,
        mut writer: SegmentWriter,
    ) -> io::Result<()> {
        for (index, segment) in segments.0.iter().enumerate() {
            let next = segments.0.get(index + 1).map(|next| next.header);
            let end = next.map_or(NO_END, |next| next.base());
            let file = self.storage.open(&segment.name)?;
            let report = read(&file, id, segment, end, false, |_, _, _| ())?;
            if report.bad.is_empty() {
                continue;
            }
            if next.is_none() {
                self.keep_numbers(segment, &report, &mut writer)?;
            }
            self.mend(id, segment, report)?;
        }
        Ok(())
    }

    /// Keeps the numbers that the bad end of the log speaks of: they were given out, and stay so.
    fn keep_numbers(
        &mut self,
        segment: &Segment,
        report: &SegmentReport,
        writer: &mut SegmentWriter,
    ) -> io::Result<()> {
        let base = segment.header.base();
        let sound = report.sound_end.unwrap_or(base);
        let (position, next_event) = report.seen_end.unwrap_or(base);
        if next_event <= sound.1 {
            return Ok(());
        }
        let file = crate::segments::segment_name(writer.serial);
        if !self.dry_run
            && let Some(error) = writer.begin_empty(position, next_event).error
        {
            return Err(error);
        }
        self.tell(&file, RepairKind::Begun { next_event });
        Ok(())
    }

    fn mend(&mut self, id: LogId, segment: &Segment, report: SegmentReport) -> io::Result<()> {
        if !self.dry_run {
            for bad in &report.bad {
                self.keep_bad(segment, bad)?;
            }
            let mut names = SourceCache::default();
            let keep = |frame: &FrameHeader, payload: &[u8]| {
                decode_payload(frame, payload, &mut names).is_some()
            };
            rewrite(&**self.storage, &id, segment, &segment.header, keep)?;
        }
        let left_out = report.bad.iter().map(|bad| bad.end - bad.start).sum();
        let kind = RepairKind::Rewritten {
            left_out,
            bad: report.bad,
            batches: report.batches + report.copies,
        };
        self.tell(&segment.name, kind);
        Ok(())
    }

    /// Copies bad bytes to `bad`, unless they are a hole that a power cut left.
    fn keep_bad(&self, segment: &Segment, bad: &Range<u64>) -> io::Result<()> {
        let name = format!("{}.{}.bad", segment.name, bad.start);
        let from = self.storage.open(&segment.name)?;
        match self.storage.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let to = self.storage.create(&name)?;
        let (mut at, mut empty) = (bad.start, true);
        while at < bad.end {
            let mut bytes = vec![0; (bad.end - at).min(COPY_BYTES) as usize];
            // What the disk cannot read stays zero.
            let _ = from.read_at(&mut bytes, at);
            empty &= bytes.iter().all(|byte| *byte == 0);
            to.write_at(&[&bytes], at - bad.start)?;
            at += bytes.len() as u64;
        }
        if empty {
            return self.storage.remove(&name);
        }
        to.sync()?;
        self.storage.rename(&name, &format!("bad/{name}"))
    }
}
