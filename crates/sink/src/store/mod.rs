//! The embedded store: events in Parquet files under the data folder, to be searched.
//!
//! # What it guarantees
//! * An event is searchable as soon as it comes here, and counts as delivered once it is in a file
//!   that is on the disk and committed.
//! * Each event is in the store once, whatever is delivered again after a crash.
//! * A disk that is full or fails holds the events in the queue; searches go on.
//! * A store that cannot be opened (a damaged list of files, another writer, a service that does
//!   not answer) holds its events and is tried again; sources and other destinations never wait for
//!   it.
//!
//! # After a crash
//! See [`inrush_store`].

mod config;
mod deliver;
mod slot;

pub use config::{RetentionLimits, S3Config, StoreConfig};
pub use deliver::StoreSink;
pub use slot::StoreSlot;
