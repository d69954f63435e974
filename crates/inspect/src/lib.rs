//! Inspection: how one record is read, and what today's packs make of what was kept.
//!
//! # What it guarantees
//! * Nothing is sent: an explanation is a dry run, and a replay is sent only where it is asked for.
//!
//! # In reading order
//! 1. [`explain`]: one record, for `inrush explain` and the admin API; kinds that no rule knew.
//! 2. [`samples`]: the samples of packs, run.
//! 3. [`replay`]: what was kept, read again by today's packs, and sent again.
#![forbid(unsafe_code)]

pub mod explain;
pub mod replay;
pub mod samples;
