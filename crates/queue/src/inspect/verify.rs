//! Reads everything and says exactly what is sound and what is lost.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;

use super::{Inspector, LOOK_EVERY, LOOKS};
use crate::cursor_file::CursorPosition;
use crate::format::{FrameHeader, LogId, SEGMENT_HEADER_BYTES, SourceCache, decode_payload};
use crate::ranges::overlap;
use crate::scan::{ScanItem, SegmentScan};
use crate::segments::{NO_END, Segment};
use crate::storage::StorageFile;

/// A segment that was read from front to back.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SegmentReport {
    /// Its file.
    pub file: String,
    /// Its length, without zeros that fill up the last block.
    pub bytes: u64,
    /// Bytes that belong to its head and to sound frames.
    pub sound_bytes: u64,
    /// Bytes that belong to neither.
    pub bad: Vec<Range<u64>>,
    /// Batches that count.
    pub batches: u64,
    /// Events in them.
    pub events: u64,
    /// Sound batches that do not count: the next segment has them again, or others in their place.
    pub copies: u64,
    /// Position and event behind the last that any of its frames speaks of.
    #[serde(skip)]
    pub(crate) seen_end: Option<(u64, u64)>,
    /// The same of its sound frames.
    #[serde(skip)]
    pub(crate) sound_end: Option<(u64, u64)>,
}

/// Events that should be there and are not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct EventGap {
    /// Their numbers.
    pub events: Range<u64>,
    /// Destinations that had not taken them, each with the number of events; none if it is no harm.
    pub wanted_by: Vec<(String, u64)>,
}

/// A log that was read from front to back.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct VerifiedLog {
    /// Each segment.
    pub segments: Vec<SegmentReport>,
    /// Numbers that no sound frame has.
    pub lost: Vec<EventGap>,
    /// Destinations whose cursor cannot be read.
    pub lost_cursors: Vec<String>,
    /// Segments that are none of this log's.
    pub strange: Vec<String>,
}

impl VerifiedLog {
    /// Bytes that no sound frame has.
    pub fn bad_bytes(&self) -> u64 {
        let bad = self.segments.iter().flat_map(|segment| &segment.bad);
        bad.map(|range| range.end - range.start).sum()
    }

    /// True if anything is not as it should be.
    pub fn is_damaged(&self) -> bool {
        self.bad_bytes() > 0
            || self.lost.iter().any(|lost| !lost.wanted_by.is_empty())
            || !self.lost_cursors.is_empty()
            || !self.strange.is_empty()
    }
}

impl Inspector {
    /// Reads everything. `progress` is told the bytes that were read, now and then.
    ///
    /// # Errors
    /// The disk does not answer.
    pub fn verify(&self, mut progress: impl FnMut(u64)) -> io::Result<VerifiedLog> {
        let mut verified = VerifiedLog {
            strange: self.strange.clone(),
            ..VerifiedLog::default()
        };
        let mut gaps: Vec<Range<u64>> = Vec::new();
        let (mut expected, mut seen) = (None, 0);
        let mut done = 0;
        for (index, segment) in self.segments.0.iter().enumerate() {
            let next = self.segments.0.get(index + 1).map(|next| next.header);
            let Some(file) = self.open_segment(segment)? else {
                expected = None;
                continue;
            };
            let mut at = *expected.get_or_insert(segment.header.base_event);
            let end = next.map_or(NO_END, |next| next.base());
            let report = read(
                &file,
                self.id,
                segment,
                end,
                next.is_none() && self.live,
                |counts, frame, bytes| {
                    progress(done + bytes);
                    if counts {
                        gaps.extend(Some(at..frame.first_event).filter(|gap| gap.start < gap.end));
                        at = at.max(frame.end_event());
                    }
                },
            )?;
            expected = Some(at);
            done += report.bytes;
            progress(done);
            // Behind the next one's base only frames that were given up can speak of events.
            let told = report.seen_end.filter(|_| next.is_none());
            let told = told.map_or(0, |(_, event)| event);
            seen = seen.max(told).max(segment.header.base_event);
            verified.segments.push(report);
        }
        // The places are read last: what a destination took meanwhile is not missed.
        let mut places = Vec::new();
        for known in &self.known {
            match self.place(&known.name)? {
                Some(place) => places.push((known.name.clone(), place)),
                None => verified.lost_cursors.push(known.name.clone()),
            }
        }
        if !self.live {
            // What one destination was given was there, though it may not be there any more.
            let given = places.iter().map(|(_, place)| place.next_event).max();
            seen = seen.max(given.unwrap_or_default());
        }
        let floor = places.iter().map(|(_, place)| place.floor()).min();
        let end = expected.or(floor).unwrap_or(seen);
        gaps.extend(Some(end..seen).filter(|gap| gap.start < gap.end));
        // Without any segment, all that was given out is behind the last.
        let first = self.segments.first_event().or(floor);
        let before = floor.zip(first).filter(|(floor, first)| floor < first);
        gaps.extend(before.map(|(floor, first)| floor..first));
        gaps.sort_by_key(|gap| gap.start);
        verified.lost = gaps.into_iter().map(|gap| lost(gap, &places)).collect();
        Ok(verified)
    }
}

fn lost(events: Range<u64>, places: &[(String, CursorPosition)]) -> EventGap {
    let wanted_by = places.iter().filter_map(|(name, place)| {
        let never = events
            .end
            .saturating_sub(events.start.max(place.next_event));
        let wanted = never + overlap(&place.unsettled, &events);
        (wanted > 0).then(|| (name.clone(), wanted))
    });
    EventGap {
        wanted_by: wanted_by.collect(),
        events,
    }
}

/// Reads a segment from front to back. `look` is told of each sound frame whether it counts, and
/// how many bytes of the segment were read.
pub(crate) fn read(
    file: &Arc<dyn StorageFile>,
    log: LogId,
    segment: &Segment,
    end: (u64, u64),
    grows: bool,
    mut look: impl FnMut(bool, &FrameHeader, u64),
) -> io::Result<SegmentReport> {
    let front = SEGMENT_HEADER_BYTES as u64;
    let mut report = SegmentReport {
        file: segment.name.clone(),
        ..SegmentReport::default()
    };
    let mut at = front;
    if crate::segments::is_sound(&**file) {
        report.sound_bytes = front;
    } else {
        report.bad.push(0..front.min(file.len()?));
    }
    let mut names = SourceCache::default();
    let mut scan = SegmentScan::new(Arc::clone(file), log, at, u64::MAX);
    let mut looks = if grows { LOOKS } else { 0 };
    loop {
        match scan.next()? {
            ScanItem::End => break,
            // What the running process is writing is whole in a moment.
            ScanItem::Bad(bytes) if looks > 0 && bytes.end >= file.len()? => {
                looks -= 1;
                std::thread::sleep(LOOK_EVERY);
                scan = SegmentScan::new(Arc::clone(file), log, bytes.start, u64::MAX);
            }
            ScanItem::Bad(bytes) => {
                at = bytes.end;
                report.bad.push(bytes);
            }
            ScanItem::Frame(frame) => {
                let bytes = at..at + frame.frame_bytes();
                at = bytes.end;
                if decode_payload(&frame, scan.payload(), &mut names).is_none() {
                    report.bad.push(bytes);
                    continue;
                }
                report.sound_bytes += frame.frame_bytes();
                let (position, event) = report.sound_end.unwrap_or_default();
                report.sound_end = Some((
                    position.max(frame.position + 1),
                    event.max(frame.end_event()),
                ));
                let counts = frame.is_before(end);
                report.copies += u64::from(!counts);
                report.batches += u64::from(counts);
                report.events += u64::from(counts) * u64::from(frame.events);
                look(counts, &frame, at);
            }
        }
    }
    // The rest of a block that was filled up with zeros is neither sound nor bad.
    report.bytes = at.min(file.len()?);
    report.seen_end = scan.seen_end.max(report.sound_end);
    Ok(report)
}
