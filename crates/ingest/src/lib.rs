//! Ingest: from the bytes or records of a source to batches in the queue. It reads no socket.
//!
//! # What it guarantees
//! * Run to completion: the worker that reads a batch frames, parses and counts it while it is
//!   warm, then appends it to the queue. No event is handed from thread to thread by itself.
//! * One hot sender has all cores: a worker without rest lends its batches to others, and gets them
//!   back in their order.
//! * An event counts as received together with its fate: accepted, rejected or held.
//! * An acknowledgement is due once its batch is as durable as the queue promises.
//!
//! # Limits
//! Batches, frames and parts of events are bounded by [`inrush_event::limits`] and by the budgets
//! of the process; what is learnt of senders by tables of fixed size.
//!
//! # After a crash
//! Open batches and parts that wait are lost; a peer that waits for an answer sends again.
//!
//! # In reading order
//! 1. [`options`]: packs, transforms and routes; [`hostname`] has its own.
//! 2. [`batch_writer`]: from bytes to batches, and its state between them.
//! 3. [`classification`]: packs, and who asks them; [`unclassified`]: events that no rule knew.
//! 4. [`hostname`], [`timezone`], [`transform`]: names, times, changes and routes of events;
//!    [`enrichment`]: one set of all of these a configuration.
//! 5. [`sender_table`]: the senders of a source.
//! 6. [`pool`], [`saturation`], [`busy_time`]: work shared between cores; [`numa`]: their CPUs.
//! 7. [`coalescing`]: reads of a trickle that gather; [`buffer_quota`]: memory of open frames.
#![forbid(unsafe_code)]

pub mod batch_writer;
pub mod buffer_quota;
pub mod busy_time;
pub mod classification;
pub mod coalescing;
pub mod enrichment;
pub mod hostname;
mod mutant;
pub mod now;
pub mod numa;
pub mod options;
pub mod pool;
pub mod saturation;
pub mod sender_table;
mod state_file;
pub mod timezone;
pub mod transform;
pub mod unclassified;

#[cfg(feature = "mutants")]
pub use mutant::{Mutant, switch_mutant};
