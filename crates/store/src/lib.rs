//! The embedded store.
//!
//! # In reading order
//! 1. [`schema`]: the columns of an event.
//! 2. [`snapshot`]: what a reader sees.
//! 3. [`query`]: what is typed into the search bar, and the SQL that it becomes.
//! 4. [`read`]: from a snapshot to record batches.
//! 5. [`reply`]: what a search answers.
#![forbid(unsafe_code)]

pub mod grams;
pub mod query;
pub mod read;
pub mod reply;
pub mod schema;
pub mod snapshot;
