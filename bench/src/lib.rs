//! The performance of Inrush, measured: the bare loops it is compared with, the peers, the meter,
//! the experiments that the project is measured by (`bench/README.md` says what each shows), and
//! the tables that a user repeats with `inrush bench`.
//!
//! It starts what it measures as processes and believes them only for what the kernel or their own
//! accounts say.

#![forbid(unsafe_code)]

mod bare;
mod child;
mod classify;
mod crash;
mod disk;
mod experiments;
mod faults;
mod group;
mod http;
mod lab;
mod messages;
mod meter;
mod probe;
mod report;
mod results;
mod scenario;
mod sender;
mod sink;
mod stats;
mod subject;
mod tables;
mod versus;

pub use experiments::experiments;
pub use sink::{HecSink, run as serve_sink};
pub use tables::{TableArgs, run as run_tables};
