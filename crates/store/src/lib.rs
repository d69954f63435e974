//! The embedded store.
//!
//! # In reading order
//! 1. [`schema`]: the columns of an event.
//! 2. [`snapshot`]: what a reader sees.
//! 3. [`query`]: what is typed into the search bar, and the SQL that it becomes.
#![forbid(unsafe_code)]

pub mod grams;
pub mod query;
pub mod schema;
pub mod snapshot;
