//! The load generator, its verifier and the process meter.
//!
//! # What it guarantees
//! * **Counts are exact.** A message counts as sent only when the kernel has taken every byte of
//!   it; `--number` is met to the message; a stream never ends inside a message unless the peer
//!   stopped reading, which is then reported.
//! * **Every message can be found again.** `seq=<10 digits> conn=<sender> run=<8 hex digits>
//!   sent=<ns since 1970, 19 digits> ` stands at the start of its text; `seq` counts from 0 for
//!   each connection or socket.
//! * **It is not the bottleneck.** Messages are built once and their digits patched; writes are
//!   of 256 KiB, datagrams go 64 to a system call; no allocation and no formatting per message.
//! * **A rate is kept smoothly**, in steps of at most 1 ms, and not made up in bursts.
//! * **Its cost does not grow with connections**: a thread serves all its connections from one
//!   buffer, and a peer that does not read delays no other.
//!
//! # Limits
//! 10¹⁰ messages a connection (the digits of `seq`), 16 MiB a message (65,507 bytes over UDP),
//! 256 MiB of `--read-file`, 10⁶ connections.
//!
//! # After a crash
//! Nothing is kept. What the peer received before is marked with the run's number.
//!
//! # Reading order
//! `args` (options) → `plan` (what they mean together) → `run` (the whole course) → `drive` (the
//! loop of a thread) with `pace`, `message`, `clock` → `stream` over `dial`, `tcp` and `tls`,
//! `relp` and `hec` in `answered` over the same with `acked`, or `udp` →
//! `fault`, `report` → `verify` with `tally` and `ledger` → [`meter`].
//! `demo` stands beside all that: a load for looking at, of which nothing above but the exact count
//! is promised.
#![forbid(unsafe_code)]

mod acked;
mod answered;
mod args;
mod clock;
mod demo;
mod dial;
mod drive;
mod error;
mod fault;
mod hec;
mod http;
mod latency;
mod ledger;
mod message;
pub mod meter;
mod pace;
mod plan;
mod relp;
mod report;
mod run;
mod stream;
mod tally;
mod tcp;
mod tls;
mod udp;
mod verify;

pub use args::{Args, LoadTarget, SyslogFraming, SyslogProto, Transport};
pub use error::LoadError;
pub use latency::Latency;
pub use ledger::{DestinationCheck, LedgerCheck};
pub use meter::{ProcessMeter, ProcessReading, ProcessReport, ProcessSample};
pub use report::{AnswerTotals, Connections, LoadReport};
pub use run::{run, run_until};
pub use tally::{MarkerCheck, SenderLoss};
pub use verify::VerifyReport;
