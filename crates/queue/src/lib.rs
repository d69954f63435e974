//! The queue: every accepted batch once, in one log, and one cursor a destination.
//!
//! # What it guarantees
//! * A batch is appended once; each destination reads it by its own cursor and settles every
//!   event of it exactly once. A batch is let go as soon as every cursor has settled it.
//! * The ledger's destination side is posted here, under the same gate as the source's side, so
//!   that no snapshot sees an event on one side only. `pending` is counted, not derived.
//! * A budget of memory and one of disk for all, and a limit for the backlog of each destination
//!   ([`Log::limit`]). At a limit the policy of that destination applies: `block` makes the worker
//!   wait, which slows TCP down and leaves UDP to the kernel, whose drops are counted;
//!   `drop_oldest` and `drop_newest` drop events for that destination alone, counted by reason.
//! * What is in flight counts as its answer says, also when its segment has made room meanwhile.
//! * A position below [`Log::durable_end`] is as durable as the mode promises; nothing is answered
//!   before.
//! * The positions of a source's streams that a batch carries are durable with it, and what
//!   [`Log::positions`] says after a crash is that of the last batch that is in the log.
//!
//! # Limits
//! The memory budget counts what batches pin ([`QueuedBatch::memory_bytes`](inrush_event::Batch)),
//! not what they hold. One batch is always taken, however large. A source that can wait
//! ([`Log::patient_room`]) fills three eighths of it, unless a destination is slow. Where nothing
//! is begun to be written for 40 ms, because the disk is slower than what comes in or full, nothing
//! more is accepted.
//!
//! # After a crash
//! What was written is there again, and each destination goes on where it was; what was in flight
//! may be repeated. What the disk has lost is counted to the event as `dropped{corrupt}`. A log in
//! memory starts empty; on an orderly stop it counts what is left as `dropped{shutdown}`, and so
//! does a log on disk with what the disk did not take.
#![forbid(unsafe_code)]

mod admit;
mod arrival;
mod aside;
mod backlog;
mod config;
mod cursor;
mod cursor_file;
mod durable;
mod feed;
mod format;
#[cfg(feature = "simulation")]
pub mod fuzz;
mod gathering;
mod given_up;
mod inspect;
mod keeper;
mod log;
mod meta;
mod mutant;
mod on_disk;
mod position_file;
mod position_overlay;
mod position_store;
mod position_table;
mod positions;
mod quarantine;
mod ranges;
mod reader;
mod recover;
mod repair;
mod replay;
mod rewrite;
mod room;
mod rounds;
mod scan;
mod segments;
mod settled;
mod state;
#[cfg(feature = "simulation")]
mod steps;
pub mod storage;
mod unsynced;
mod writer;

pub use backlog::DestinationBacklog;
pub use config::{Durability, QueueOptions};
pub use durable::{DurableCallback, DurableHook};
pub use feed::DestinationFeed;
pub use format::{LogId, RefusalNote};
pub use inrush_event::WhenFull;
pub use inspect::{
    CorruptFile, CursorInfo, EventGap, EventQuery, Inspector, QuerySummary, SegmentInfo,
    SegmentReport, VerifiedLog, aside,
};
pub use log::{AppendError, AppendTerms, Log, QueueLevels, RecoverySummary};
#[cfg(feature = "mutants")]
pub use mutant::{Mutant, switch_mutant};
pub use on_disk::Stall;
pub use quarantine::{
    QuarantineEntry, QuarantineFilter, QuarantineLog, QuarantineReader, RefusedEvents,
};
pub use reader::BadRange;
pub use repair::{Repair, RepairKind, repair};
pub use replay::ReplayError;
pub use room::PatientRoom;
pub use rounds::{CommitRound, FinishedRound, WrittenRound};
#[cfg(feature = "simulation")]
pub use steps::{Reclaiming, SyncingRound, TryAppend};
