//! The embedded store: events in Parquet files, searchable at once, each of them once.
//!
//! # What it guarantees
//! * An event is searchable as soon as it was taken from the queue ([`writer`]), from memory; in a
//!   file it is [`WriteOptions::flush_after`] later at most, and only then does it count as
//!   delivered.
//! * A file becomes part of the store together with the note which events of the queue it holds, by
//!   one commit: a crash at any moment neither loses an event nor repeats one.
//! * A file that ends in `.parquet` is committed, so any engine may read `**/*.parquet`.
//! * Small files are merged and old ones deleted by commits too; a reader keeps what it began with.
//! * What retention takes is counted by reason, and nothing younger than [`WriteOptions::min_age`]
//!   is deleted for room. One wrong time of the system clock deletes nothing.
//!
//! # Layout
//! `INDEX/YYYY-MM-DD/HH/NAME.parquet` by the hour of the events' times, `HH-odd` for those whose
//! clocks are wrong, and `_log/` with the commits.
//!
//! # Limits
//! Four times [`WriteOptions::flush_bytes`] of text and their rows are in memory at most: twice as
//! much being written, where the disk is slow, and twice as much growing.
//!
//! # After a crash
//! [`Store::open`] finishes what was committed and deletes what was not. What the queue delivers
//! again is skipped if a file holds it.
//!
//! # In reading order
//! 1. [`schema`]: the columns of an event; [`snapshot`]: what a reader sees.
//! 2. `rows`: from a batch to rows; `encode`: from rows to files; [`grams`]: the filter in them.
//! 3. `home`: where files lie; `commits`: the log; [`covered`]: which events files hold.
//! 4. [`Store`]: what writers and readers share; [`writer`] fills it, `upkeep` tidies it, `care` is
//!    what both know of time and room, and [`EventAccount`] what became of all events.
//! 5. [`read`]: from a snapshot to record batches; [`reply`]: what a search answers.
#![forbid(unsafe_code)]

mod account;
mod care;
mod chance;
mod commits;
pub mod covered;
mod decode;
mod dictionary;
mod encode;
mod follow;
pub mod grams;
mod home;
mod mutant;
mod options;
mod place;
#[cfg(feature = "simulation")]
pub mod plain;
pub mod read;
pub mod rebuild;
pub mod reply;
mod rows;
pub mod salvage;
pub mod schema;
mod sdata;
pub mod snapshot;
#[cfg(feature = "simulation")]
pub mod steps;
mod store;
pub mod sums;
#[cfg(test)]
mod tests;
mod upkeep;
pub mod writer;

pub use account::EventAccount;
pub use care::{DiskHeadroom, ReservedBytes, free_least};
pub use follow::Follower;
pub use home::{
    BucketIo, BucketOptions, CreateError, CreateOutcome, DiskFile, DurableStorage, FileSystemSpace,
    FolderIo, ListedObject, ReadOnlyStorage, StorageLocation, check_url,
};
#[cfg(feature = "simulation")]
pub use home::{FaultRates, SimulatedProcess, VirtualBucket, VirtualFolder};
#[cfg(feature = "mutants")]
pub use mutant::{Mutant, switch_mutant};
pub use options::{REASONS, Retention, WriteOptions};
pub use store::{Levels, Store, StoreCounters};
