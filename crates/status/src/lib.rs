//! Status: what the admin API may ask of a running pipeline, and the alarms.
//!
//! # What it guarantees
//! * Every answer is owned and small; no call blocks on a socket or a destination.
//!
//! # In reading order
//! 1. [`admin`]: the interface that `control` is written against.
//! 2. `reporter`: its answers; `metrics`: the page that Prometheus reads.
//! 3. [`doors`]: sources and tokens, as those who send meet them.
//! 4. [`files`]: files of the sources, and what is wrong with them.
//! 5. [`overview`]: what flows, waits and is lost, with the alarms; `trend`: what grows;
//!    `latency`: what is slow.
//! 5. `verdict`: yes or no, for load balancers.
#![forbid(unsafe_code)]

pub mod admin;
pub mod doors;
mod file_trend;
pub mod files;
mod latency;
mod metrics;
pub mod overview;
mod reporter;
mod snapshot_state;
mod trend;
mod verdict;

pub use admin::{
    Admin, DestinationStatus, EdgeHealth, EdgeKind, HealthReport, HealthVerdict, OtherSenders,
    SenderList, SenderStatus, SourceStatus,
};
pub use reporter::StatusReporter;
