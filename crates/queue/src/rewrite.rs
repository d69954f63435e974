//! Writes a segment anew without what is not wanted any more. The new file takes the old one's name
//! once it is durable, so that a crash leaves one or the other; who has the old one open reads on.

use std::io;
use std::sync::Arc;

use crate::format::{FrameHeader, LogId, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::scan::{ScanItem, SegmentScan};
use crate::segments::Segment;
use crate::storage::{Storage, StorageFile};

/// Bytes that are gathered before they are written.
const WRITE_BYTES: usize = 1024 * 1024;

/// Suffix of a file's name until the file is whole.
pub(crate) const SUFFIX: &str = ".new";

/// Writes `segment` anew under `header`, with those of its sound frames that `keep` wants. Returns
/// the new length.
///
/// # Errors
/// The disk fails; the segment is as it was.
pub(crate) fn rewrite(
    storage: &dyn Storage,
    log: &LogId,
    segment: &Segment,
    header: &SegmentHeader,
    mut keep: impl FnMut(&FrameHeader, &[u8]) -> bool,
) -> io::Result<u64> {
    let name = format!("{}{SUFFIX}", segment.name);
    match storage.remove(&name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let front = SEGMENT_HEADER_BYTES as u64;
    let mut scan = SegmentScan::new(storage.open(&segment.name)?, *log, front, u64::MAX);
    let mut out = RewriteOutput {
        file: storage.create(&name)?,
        buffer: header.encode().to_vec(),
        written: 0,
    };
    loop {
        match scan.next()? {
            ScanItem::End => break,
            ScanItem::Bad(_) => {}
            ScanItem::Frame(frame) if keep(&frame, scan.payload()) => {
                out.buffer.extend_from_slice(&frame.encode(log));
                out.buffer.extend_from_slice(scan.payload());
                out.buffer.extend_from_slice(&frame.trailer(log));
                if out.buffer.len() >= WRITE_BYTES {
                    out.write()?;
                }
            }
            ScanItem::Frame(_) => {}
        }
    }
    out.write()?;
    out.file.sync()?;
    storage.rename(&name, &segment.name)?;
    storage.sync_names()?;
    Ok(out.written)
}

struct RewriteOutput {
    file: Arc<dyn StorageFile>,
    buffer: Vec<u8>,
    written: u64,
}

impl RewriteOutput {
    fn write(&mut self) -> io::Result<()> {
        self.file.write_at(&[&self.buffer], self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
