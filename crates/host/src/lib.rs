//! Counters of the kernel and the hardware: where the host loses packets before they reach us, and
//! what our own process takes.
//!
//! # What it guarantees
//! * It reads files under `/proc` and `/sys` and nothing else; it changes nothing. The doctor
//!   alone does more, when it is asked to: see [`doctor`].
//! * What cannot be read, or is not there on this kernel, is left out. It is never shown as 0, so
//!   that a zero can be believed.
//! * Counters are of the whole host and are given as their growth since [`Host::open`]. A counter
//!   that starts again (a driver was loaded anew) goes on from where it was.
//! * Whatever a file holds, nothing panics.
//!
//! # Limits
//! A file is read up to [`FILE_BYTES_MAX`], at most [`INTERFACES_MAX`] interfaces and
//! [`THREADS_MAX`] threads are looked at. A reading takes some 50 small files, about half a
//! millisecond; it is made when somebody looks, not all the time.
//!
//! # In reading order
//! 1. [`Cause`]: the places where a host loses packets, and what each counter means.
//! 2. `text`: the files' formats, as functions of text.
//! 3. [`Host`]: reads them, and remembers what they said before.
//! 4. [`doctor`]: what of it is not as it should be, and the command that mends it.
//! 5. [`threads`], [`rate`]: what our threads use, and the rate that follows from it.
//! 6. [`sizing`]: the hosts, memory and disk for a load.
//! 7. [`CpuThrottling`]: CPU time that control groups withhold.
//! 8. [`memory`]: the memory that the process may use, and the part that each room gets.
//!
//! # After a crash
//! Nothing is kept.
#![forbid(unsafe_code)]

mod cause;
pub mod doctor;
mod files;
mod growth;
mod host;
mod idle;
pub mod memory;
mod own_process;
pub mod rate;
pub mod sizing;
#[cfg(test)]
mod tests;
mod text;
mod threads;
mod throttling;

pub use cause::{Cause, HostLossPlace};
pub use files::{FILE_BYTES_MAX, INTERFACES_MAX};
pub use host::{Host, HostLoss, HostReading, THREADS_MAX, ThreadCpu};
pub use idle::IdleMeter;
pub use own_process::OwnProcess;

pub use threads::{ThreadTime, threads, usable_cpus};
pub use throttling::CpuThrottling;
