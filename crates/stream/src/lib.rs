//! Stream connections of all sources: one acceptor and the stream workers, whatever they carry.
//!
//! A source that listens has a [`StreamSource`], and makes a decoder for each of its connections
//! ([`ConnectionDecoders`]). Reading, answering and closing are the same for all sources.
//!
//! # What it guarantees
//! * A connection is accepted only if it gets a place ([`connection_limit`]); a refused one is
//!   counted by address and reason ([`refusals`]).
//! * A busy connection, or a busy source, does not starve the others of its worker.
//! * While the queue has no room, connections are not read, and the kernel slows the peers down.
//!
//! # After a crash
//! Bytes that were read and not handed on are lost, unless their peer waits for an answer.
//!
//! # In reading order
//! 1. `connection`: decoder of a connection, and its answers.
//! 2. `source`: settings and counts that a source shares with its connections.
//! 3. `acceptor`, `worker`: threads; `runtime`: these, as all sources share them.
//! 4. `listeners`: open addresses of a source.
//! 5. [`connection_limit`], [`refusals`]: places for connections, and peers that were refused.
#![forbid(unsafe_code)]

mod acceptor;
mod connection;
pub mod connection_limit;
mod listeners;
pub mod refusals;
mod runtime;
mod source;
mod worker;

pub use connection::{AnsweringConnection, ConnectionDecoder, ConnectionDecoders};
pub use listeners::OpenListeners;
pub use runtime::{StreamRuntime, WorkerSizes};
pub use source::{ConnectionState, StreamSettings, StreamSource};
#[cfg(feature = "simulation")]
pub use worker::simulation::SimulatedWorker;
