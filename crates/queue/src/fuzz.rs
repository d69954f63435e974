//! The reader of segments before bytes from anywhere, for the fuzzer.

use std::io;
use std::sync::Arc;

use memchr::memmem;

use crate::format::{
    FRAME_HEADER_BYTES, FRAME_MAGIC, LogId, SEGMENT_HEADER_BYTES, SEGMENT_VERSION, SegmentHeader,
    SourceCache, TRAILER_BYTES, TRAILER_MAGIC, decode_payload, decode_positions,
};
use crate::inspect::read;
use crate::scan::{ScanItem, SegmentScan};
use crate::segments::{NO_END, Segment};
use crate::storage::{BLOCK_BYTES, StorageFile};

const LOG: LogId = LogId([7; 16]);

struct MemoryFile(Vec<u8>);

impl StorageFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = self.0.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, _: &[&[u8]], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

/// Reads `bytes` as a segment. The first byte says whether checksums are put right first, so that
/// what lies behind them is met too.
///
/// # Panics
/// The reader did something that it must not.
pub fn segment(input: &[u8]) {
    let Some((how, bytes)) = input.split_first() else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if how & 1 == 1 {
        seal(&mut bytes);
    }
    let length = bytes.len() as u64;
    let file: Arc<dyn StorageFile> = Arc::new(MemoryFile(bytes));
    let segment = Segment {
        name: "fuzz".to_owned(),
        header: SegmentHeader {
            version: SEGMENT_VERSION,
            log: LOG,
            serial: 0,
            base_position: 0,
            base_event: 0,
            epoch: 0,
            created: inrush_event::Timestamp(0),
        },
        bytes: length,
    };
    let (mut told, mut frames) = (0, 0);
    let look = |_: bool, frame: &crate::format::FrameHeader, at: u64| {
        assert!(
            at > told && at <= length,
            "frames follow each other in the file"
        );
        assert!(frame.events > 0);
        told = at;
        frames += 1;
    };
    let Ok(report) = read(&file, LOG, &segment, NO_END, false, look) else {
        return;
    };
    let bad: u64 = report.bad.iter().map(|bad| bad.end - bad.start).sum();
    assert_eq!(
        report.sound_bytes + bad,
        report.bytes,
        "each byte is sound or bad"
    );
    assert!(
        length - report.bytes < BLOCK_BYTES as u64,
        "but for what fills up a block"
    );
    assert_eq!(report.batches, frames);
    assert_eq!(batches(&file), report.events, "both ways of reading agree");
}

/// Reads all events as a destination gets them, and touches all their fields; says how many.
fn batches(file: &Arc<dyn StorageFile>) -> u64 {
    let front = SEGMENT_HEADER_BYTES as u64;
    let mut scan = SegmentScan::new(Arc::clone(file), LOG, front, u64::MAX);
    let (mut names, mut events) = (SourceCache::default(), 0);
    while let Ok(item) = scan.next() {
        let frame = match item {
            ScanItem::End => break,
            ScanItem::Bad(_) => continue,
            ScanItem::Frame(frame) => frame,
        };
        let positions = decode_positions(&frame, scan.payload());
        let Some(batch) = decode_payload(&frame, scan.payload(), &mut names) else {
            continue;
        };
        assert_eq!(positions.is_some(), frame.has_positions());
        assert_eq!(batch.len() as u64, u64::from(frame.events));
        events += batch.len() as u64;
        for record in batch.records() {
            for span in [record.raw, record.host, record.sdata, record.message] {
                assert_eq!(
                    batch.get(span).len(),
                    span.len(),
                    "a span lies in the arena"
                );
            }
        }
    }
    events
}

/// Puts right the checksums of everything that looks like a head, a frame or a trailer.
fn seal(bytes: &mut [u8]) {
    let put = |bytes: &mut [u8], at: usize, sum: u32| {
        bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
    };
    if let Some(head) = bytes.get_mut(..SEGMENT_HEADER_BYTES) {
        head[16..32].copy_from_slice(&LOG.0);
        let sum = LOG.checksum(&head[12..]);
        put(head, 8, sum);
    }
    let found = |magic: &[u8], bytes: &[u8]| memmem::find_iter(bytes, magic).collect::<Vec<_>>();
    for at in found(&TRAILER_MAGIC, bytes) {
        if let Some(trailer) = bytes.get_mut(at..at + TRAILER_BYTES) {
            let sum = LOG.checksum(&trailer[8..]);
            put(trailer, 4, sum);
        }
    }
    for at in found(&FRAME_MAGIC, bytes) {
        let Some(head) = bytes.get(at..at + FRAME_HEADER_BYTES) else {
            continue;
        };
        let mut stored = [0; 4];
        stored.copy_from_slice(&head[40..44]);
        let from = at + FRAME_HEADER_BYTES;
        let payload = bytes.get(from..from + u32::from_le_bytes(stored) as usize);
        if let Some(sum) = payload.map(|payload| LOG.checksum(payload)) {
            put(bytes, at + 48, sum);
        }
        let sum = LOG.checksum(&bytes[at + 8..at + FRAME_HEADER_BYTES]);
        put(bytes, at + 4, sum);
    }
}
