//! Reader of rotated logs: it finds files, follows them over renames, copies and compression, and
//! decodes their lines to events. Each line comes once.
//!
//! # What it guarantees
//! * A line that was written before its file was deleted is read, as long as the file can be held.
//! * A process goes on where the last durable event of each log ended, though files have other
//!   names by then. What was deleted meanwhile is counted.
//! * No file is read while the queue has no room: the files keep what they have.
//!
//! # States of a tailer
//! Running; prepared, between [`LogTailer::prepare`] and [`LogTailer::commit`]; stopping, after
//! [`LogTailer::stop`], until [`LogTailer::ended`].
//!
//! # Limits
//! [`FilePlaces`](file_places::FilePlaces) open files in the process, and
//! [`TailServices::carry_bytes`] of unfinished lines and events in a source.
//!
//! # After a crash
//! What was read and is in no durable batch is read again. The queue keeps the positions.
//!
//! # In reading order
//! 1. [`options`]: its options; `form`: what all events of a log have in common.
//! 2. `running`: its two threads; `finder`: which files there are; `known`: which log each belongs
//!    to, and from where it is read. Below `known`: `resume`: logs of an earlier process; `names`,
//!    `renames` and `copies`: what rotation does to names; `missed`: files that nobody opened;
//!    `packed`: compressed files; `again`: files that wait; `owners`: what pods change.
//!    `position`: all that as the queue keeps it.
//! 3. `tail`: the reader of all logs; `log`: the generations of one; `turn`: a turn of it; `place`:
//!    where it has come to; `decoder`: lines, pieces and events, with `joiners`: what several of
//!    them make, and `taker`: into the batch.
//! 4. [`workload`]: containers, their metadata and the policies of their owners; `budget`: bytes
//!    that a log may read.
//! 5. `counts`: what rotation and damage have cost; `board`: that of each log, and its place;
//!    [`listing`]: the same for the page; [`file_places`]: files that may be open.
//! 6. [`preview`]: what would become of a log, for `inrush explain`.
#![forbid(unsafe_code)]

mod board;
mod budget;
mod counts;
mod decoder;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod decoder_tests;
pub mod file_places;
mod finder;
mod form;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod harness_tests;
mod known;
pub mod listing;
mod log;
pub mod options;
mod place;
mod position;
pub mod preview;
mod running;
mod tail;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod turn;
pub mod workload;

pub use running::{LogTailer, TailServices};
