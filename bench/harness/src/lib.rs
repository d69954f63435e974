//! Harness of the experiments: the processes that it starts, the loads, the meter, the sinks; and
//! the tables of `inrush bench`, which a user repeats.
//!
//! It believes what it measures only for what the kernel or their own accounts say.
#![forbid(unsafe_code)]
#![allow(
    missing_docs,
    reason = "it is for the experiments and the tables alone"
)]

pub mod bare;
pub mod child;
pub mod files;
pub mod forwarder;
pub mod group;
pub mod http;
pub mod lab;
pub mod measure;
pub mod messages;
pub mod meter;
pub mod probe;
pub mod sender;
pub mod sink;
pub mod stats;
pub mod subject;
pub mod tables;
pub mod threads;

pub use sink::{HecSink, run as serve_sink};
pub use tables::{TableArgs, run as run_tables};
