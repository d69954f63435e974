//! The queue: every accepted batch once, in one log, and one cursor a destination.
//!
//! # What it guarantees
//! * A batch is appended once; each destination reads it by its own cursor and settles every
//!   event of it exactly once. A batch is let go as soon as every cursor has settled it.
//! * The ledger's destination side is posted here, under the same gate as the source's side, so
//!   that no snapshot sees an event on one side only. `pending` is counted, not derived.
//! * One byte budget for all. At the limit the policy applies: `block` makes the worker wait,
//!   which slows TCP down and leaves UDP to the kernel, whose drops are counted; `drop_oldest`
//!   and `drop_newest` are counted by reason.
//!
//! # Limits
//! The budget counts what batches pin ([`Batch::memory_bytes`](inrush_event::Batch)), not what
//! they hold. One batch is always taken, however large.
//!
//! # After a crash
//! This log lives in memory: what was pending is gone, and a restart starts empty. On an orderly
//! stop what could not be delivered is counted as `dropped{shutdown}`.
#![forbid(unsafe_code)]

mod config;
mod cursor;
mod log;

pub use config::{QueueOptions, WhenFull};
pub use cursor::DestinationFeed;
pub use log::{AppendError, DurableHook, Log, QueueLevels, Wake};
