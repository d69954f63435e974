//! Counts of a file source: what rotation, truncation and damage have cost, and the files now.

use std::sync::Arc;

use inrush_codec::container::JoinEnd;
use inrush_event::{Counter, Metric, MetricsPage, SourceCounters, UpstreamLoss};
use inrush_transport::files::packed_file::PackedEnd;

use super::board::LogBoard;
use super::file_places::{FilePlaces, TakenPlaces};
use super::turn::LineCosts;

/// Reasons that an event is ended before its last piece.
const FLUSHED: [JoinEnd; 4] = [JoinEnd::Size, JoinEnd::Age, JoinEnd::Ended, JoinEnd::Memory];

/// Ways in which a compressed file ends that are faults.
const PACKED_FAULTS: [PackedEnd; 3] = [PackedEnd::Cut, PackedEnd::Garbage, PackedEnd::Damaged];

/// Counts of a source.
#[derive(Default, Debug)]
pub(super) struct FileCounts {
    /// Bytes read.
    pub(super) read_bytes: Counter,
    /// Files that are open.
    pub(super) open_files: Counter,
    /// Files that are polled, since the kernel does not report their changes.
    pub(super) polled_files: Counter,
    /// Files that the kernel reports changes of, since nothing was added for a while.
    pub(super) watched_files: Counter,
    /// Generations that were opened behind another one of their log.
    pub(super) rotations: Counter,
    /// Bytes that were deleted before they could be read.
    pub(super) rotated_away_unread_bytes: Counter,
    /// Files that were deleted before they could be opened.
    pub(super) missed_generations: Counter,
    /// Files that became shorter than what was read of them.
    pub(super) truncated: Counter,
    /// Files whose place was taken by another one.
    pub(super) inode_reused: Counter,
    /// Runs of zero bytes that were skipped.
    pub(super) holes_skipped: Counter,
    /// Lines that were cut.
    pub(super) lines_cut: Counter,
    /// Lines that are not in the form of their file.
    pub(super) malformed_lines: Counter,
    /// Files that could not be opened or read.
    pub(super) failed_files: Counter,
    /// Names that wait until fewer files are open.
    pub(super) waiting_files: Counter,
    /// Events that went without the metadata of their container.
    pub(super) metadata_missing: Counter,
    /// Bytes that were passed over, of containers that nothing is wanted of.
    pub(super) excluded_bytes: Counter,
    /// Events that were joined from several pieces or lines.
    pub(super) joined_events: Counter,
    flushed: [Counter; 4],
    packed_faults: [Counter; 3],
    places: TakenPlaces,
    /// The source's side of the ledger.
    ledger: Option<Arc<SourceCounters>>,
    /// Each log by itself.
    pub(super) board: LogBoard,
}

impl FileCounts {
    /// Counts of a source whose files take these places, with its side of the ledger.
    pub(super) fn new(places: Arc<FilePlaces>, ledger: Arc<SourceCounters>) -> Self {
        Self {
            places: TakenPlaces::of(places),
            ledger: Some(ledger),
            ..Self::default()
        }
    }

    /// Counts files that were deleted before they could be opened: each had one event at least, as
    /// far as anybody knows.
    pub(super) fn missed(&self, files: u64) {
        self.missed_generations.add(files);
        self.lost_upstream(files);
    }

    /// Counts bytes of a file that were deleted before they could be read: one event at least.
    pub(super) fn rotated_away(&self, bytes: u64) {
        self.rotated_away_unread_bytes.add(bytes);
        self.lost_upstream(u64::from(bytes > 0));
    }

    fn lost_upstream(&self, events: u64) {
        if let Some(ledger) = &self.ledger {
            ledger.lost_upstream(UpstreamLoss::Deleted).add(events);
        }
    }

    /// True if another file may be opened.
    pub(super) fn has_place(&self) -> bool {
        self.places.has_room()
    }

    /// Counts a file that was opened.
    pub(super) fn opened(&self) {
        self.open_files.add(1);
        self.places.take();
    }

    /// Counts files that were closed.
    pub(super) fn closed(&self, files: usize) {
        self.open_files.sub(files as u64);
        self.places.give_back(files as u64);
    }

    /// Counts an event that was ended before its last piece came.
    pub(super) fn flushed(&self, end: JoinEnd) {
        if let Some(at) = FLUSHED.iter().position(|one| *one == end) {
            self.flushed[at].add(1);
        }
    }

    /// Counts that only the reader raises.
    pub(super) fn line_costs(&self) -> LineCosts {
        LineCosts {
            joined: self.joined_events.get(),
            cut: self.lines_cut.get(),
            flushed: self.flushed.iter().map(Counter::get).sum(),
            malformed: self.malformed_lines.get(),
            holes: self.holes_skipped.get(),
            truncated: self.truncated.get(),
        }
    }

    /// Counts a compressed file that ended. Returns true if that was a fault.
    pub(super) fn packed(&self, end: PackedEnd) -> bool {
        let at = PACKED_FAULTS.iter().position(|one| *one == end);
        if let Some(at) = at {
            self.packed_faults[at].add(1);
        }
        at.is_some()
    }

    /// Adds them to the page.
    pub(super) fn metrics(&self, source: &str, page: &mut MetricsPage) {
        let rows = [
            (Metric::FileReadBytes, &self.read_bytes),
            (Metric::FilesOpen, &self.open_files),
            (Metric::FilesPolled, &self.polled_files),
            (Metric::FilesWaiting, &self.waiting_files),
            (Metric::FileRotations, &self.rotations),
            (Metric::FileRotatedAway, &self.rotated_away_unread_bytes),
            (Metric::FileMissedGenerations, &self.missed_generations),
            (Metric::FileTruncated, &self.truncated),
            (Metric::FileInodeReused, &self.inode_reused),
            (Metric::FileHolesSkipped, &self.holes_skipped),
            (Metric::FileLinesCut, &self.lines_cut),
            (Metric::FileMalformedLines, &self.malformed_lines),
            (Metric::FileFailures, &self.failed_files),
            (Metric::FileMetadataMissing, &self.metadata_missing),
            (Metric::FileExcludedBytes, &self.excluded_bytes),
            (Metric::FileJoinedEvents, &self.joined_events),
        ];
        for (metric, counter) in rows {
            page.add(metric, vec![("source", source)], counter.get() as f64);
        }
        for (reason, counter) in FLUSHED.iter().zip(&self.flushed) {
            let labels = vec![("source", source), ("reason", reason.name())];
            page.add(Metric::FilePartialFlushed, labels, counter.get() as f64);
        }
        for (end, counter) in PACKED_FAULTS.iter().zip(&self.packed_faults) {
            let labels = vec![("source", source), ("reason", end.name())];
            page.add(Metric::FileCompressedFaults, labels, counter.get() as f64);
        }
    }
}

/// Counts as threads share them.
pub(super) type SharedCounts = Arc<FileCounts>;
