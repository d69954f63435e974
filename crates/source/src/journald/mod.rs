//! Journal source: entries of the system's journal, read by a child process `journalctl`.
//!
//! A child reads the files, since a damaged one has crashed readers of every kind: what dies then
//! is the child. It is started again behind the last entry, and beyond a damage that it cannot
//! pass.
//!
//! # In reading order
//! 1. [`options`]: its options; `running`: the source over reloads; `counts`: what it counts.
//! 2. `reader`: the thread that reads: child, bytes, entries, batches.
//! 3. `place`: where in the journal it is, as it is kept with the events; `follow`: where the next
//!    child begins, which of its entries are new, and where some are missing; `arguments`: how
//!    `journalctl` is told.
//! 4. `entry`: fields of an entry, and the event that they make.

mod arguments;
mod child;
mod counts;
mod entry;
mod follow;
pub mod options;
mod place;
mod reader;
mod running;
#[cfg(test)]
mod tests;
