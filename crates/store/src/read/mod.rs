//! Reading the store: from a [`Snapshot`] to record batches, without a query engine.
//!
//! # What it guarantees
//! * **No event is lost by leaving out.** What is left out unread (files, row groups, blocks of
//!   rows) cannot contain what is wanted: least and greatest values and filters only ever err on
//!   the side of reading. A whole read and a pruned one find the same.
//! * **A file on a hostile disk costs itself.** Whatever is in it (a footer that is none, a page
//!   that does not decompress, lengths that point outside, a panic inside of a decoder) is a
//!   [`ReadError::Damaged`]: the file is set aside by
//!   [`DataFile::set_bad`](crate::snapshot::DataFile) for as long as the process lives, and the
//!   rest is read. A store that does not answer is [`ReadError::Unreachable`], and nobody's file is
//!   blamed for it.
//! * **Bounded memory.** Footers are kept in [`FooterCache`], which has a size; no range is read
//!   that is longer than its file.
//! * Files on a local disk are read by the thread that asks, so its priority is the one that
//!   counts.
//!
//! # What a piece is
//! A [`SearchPiece`] is a row group of a file, or a chunk of the tail, which may lie in another
//! process ([`FarChunk`](crate::snapshot::FarChunk)). Within it rows are named by their number,
//! from 0.
//!
//! # In reading order
//! `wanted` (what is asked for) · `prune` (which pieces can have it) · `rows` (reading a piece) ·
//! `message` (the column that is not stored) · `footers` · `handle` (bytes of files) · `fault`.

mod fault;
mod footers;
mod handle;
mod message;
mod prune;
mod rows;
mod selection;
mod wanted;

use std::sync::{Arc, OnceLock};

pub use fault::ReadError;
pub use footers::FooterCache;
pub use handle::ReadMeter;
use object_store::ObjectStore;
pub use prune::{SearchPiece, candidates};
pub use rows::{BATCH_ROWS, Batches, ColumnProjection, TextEncoding, part_of, table};
pub use selection::Selection;
pub use wanted::PruningFilter;

use crate::snapshot::Snapshot;

/// Opens and reads the files of a snapshot.
#[derive(Debug, Clone)]
pub struct DataFileReader {
    objects: Arc<dyn ObjectStore>,
    /// Folder of the files on a local disk, once the first of them has told it.
    folder: Arc<OnceLock<Option<std::path::PathBuf>>>,
    footers: Arc<FooterCache>,
    meter: Arc<ReadMeter>,
}

impl DataFileReader {
    /// The files of `snapshot`. What was read is added to `meter`.
    pub fn of(snapshot: &Snapshot, footers: Arc<FooterCache>, meter: Arc<ReadMeter>) -> Self {
        Self {
            objects: Arc::clone(&snapshot.storage),
            folder: Arc::default(),
            footers,
            meter,
        }
    }
}
