//! Events appended to files whose path may come from the events themselves.
//!
//! # What it guarantees
//! * A batch is one write a file. If a write fails half-way, the half is cut off again: no event
//!   is in a file twice because of an error, none is half there.
//! * A full disk or an I/O error holds the events concerned, and those alone.
//! * No value of an event leads out of the folder: what is put into a path is made harmless
//!   (`template`), and a path that is still too long is refused to quarantine.
//! * A compressed file has its name only when it is whole and synced; the original goes after it.
//!
//! # Layout
//! `x.log` is written to. When it is rotated it becomes `x.log.20240506T070809Z` (with `.1` and so
//! on behind it where several are made in one second), then `x.log.20240506T070809Z.gz` or `.zst`.
//!
//! # Limits
//! At most `max_open_files` files are open; the least recently used one is closed for the next.
//! Beside them at most 256 wait for their last sync, then writing waits for the disk too.
//! At most `max_paths` paths are made by what senders say, and a reserve of inodes is left; further
//! events go to one path more (`paths`), and are counted.
//! The encoded events in memory are bounded to 4 MiB and one event.
//!
//! # After a crash
//! Files are appended to. A last line of JSON that was torn is cut off first, for its event is
//! written again; another one without its line feed gets one. A rotated file that
//! was not compressed yet, or half, is compressed at the next rotation of its path. With
//! `fsync: batch` everything settled is on disk; with `interval` the last interval may not be.

mod config;
mod deliver;
mod open;
mod paths;
mod sync;
mod template;
mod tidy;
mod torn;

pub use config::{Compression, FileConfig, FileFormat, FsyncPolicy, Rotation};
pub use deliver::FileSink;
pub(crate) use deliver::records;
