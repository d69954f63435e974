//! File source: log files of a host and of its containers, each line once.
//!
//! # In reading order
//! 1. [`options`]: its options; `form`: what all events of a log have in common.
//! 2. `running`: its two threads; `finder`: which files there are; `known`: which log each belongs
//!    to, and from where it is read; `resume`: logs of an earlier process; `names`, `renames` and
//!    `copies`: what rotation does to names; `packed`: compressed files; `again`: files that wait;
//!    `owners`: what pods change; `position`: all that as the queue keeps it.
//! 3. `tail`: the reader of all logs; `log`: the generations of one; `place`: where it has come to;
//!    `decoder`: lines, pieces and events; `joiners`: what several of them make; `taker`: into the
//!    batch.
//! 4. `workload`: containers, their metadata and the policies of their owners; `budget`: bytes that
//!    a log may read.
//! 5. `counts`: what rotation and damage have cost; `board`: that of each log, and its place.
//! 6. [`preview`]: what would become of a log, for `inrush explain`.

mod again;
mod board;
mod budget;
mod copies;
mod counts;
mod decoder;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod decoder_tests;
mod finder;
mod form;
mod joiners;
mod known;
mod log;
mod names;
pub mod options;
mod owners;
mod packed;
mod place;
mod position;
pub mod preview;
mod renames;
mod resume;
mod running;
mod tail;
mod taker;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod workload;
