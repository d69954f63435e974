//! The embedded store.
//!
//! # In reading order
//! 1. [`query`]: what is typed into the search bar, and the SQL that it becomes.
#![forbid(unsafe_code)]

pub mod query;
