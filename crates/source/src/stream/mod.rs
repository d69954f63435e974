//! Stream connections of all sources: one acceptor and the stream workers, whatever they carry.
//!
//! A source that listens has a [`StreamSource`], and makes a decoder for each of its connections
//! ([`ConnectionDecoders`]). What is read, when it is answered and how it ends is the same for all.
//!
//! # In reading order
//! 1. `connection`: what a source decodes, and answers, of a connection.
//! 2. `source`: settings and counts that a source shares with its connections.
//! 3. `acceptor`, `worker`: threads; `runtime`: these, as all sources share them.
//! 4. `listeners`: open addresses of a source.

mod acceptor;
mod connection;
mod listeners;
mod runtime;
mod source;
mod worker;

pub(crate) use connection::{AnsweringConnection, ConnectionDecoder, ConnectionDecoders};
pub(crate) use listeners::OpenListeners;
pub(crate) use runtime::StreamRuntime;
pub(crate) use source::{StreamSettings, StreamSource};
#[cfg(feature = "simulation")]
pub(crate) use worker::StreamLoop;
