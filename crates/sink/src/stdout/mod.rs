//! JSON lines on standard output, written once a batch.
//!
//! A reader that goes away (`EPIPE`) does not end anything: the events are held and the status
//! says so. What was written of a batch before an error is not written again.

mod config;
mod deliver;

pub use config::StdoutConfig;
pub use deliver::StdoutSink;
