//! `inrush top`: what flows, waits and is lost, on a terminal, for people on ssh.
//!
//! # What it guarantees
//! * It asks a running process for `GET /api/v1/flow` once a second and knows nothing else of it:
//!   whatever is newer or older than this is read as far as it is understood.
//! * What the other side sends never reaches the terminal as anything but text.
//! * The terminal is left as it was found, also after a panic and a signal.
//! * A process that does not answer is waited for, and said so; its last numbers stay.
//!
//! # Limits
//! An answer is read up to 4 MiB and waited for 5 seconds. Any size of terminal is drawn on; below
//! 60 by 10 not everything fits.
//!
//! # In reading order
//! 1. `client`: the thread that asks.
//! 2. `snapshot`: what an answer holds. `text`: numbers as people read them.
//! 3. `panes`: tables from two snapshots. `table`: how one is fitted into its room.
//! 4. `app`: what keys do, and what is remembered. `draw`: a frame. `screen`: the loop.
//!
//! # After a crash
//! Nothing is kept.
#![forbid(unsafe_code)]

mod app;
mod client;
mod draw;
mod panes;
mod screen;
mod snapshot;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub use client::TopError;
pub use screen::{json, once, run};
