//! The only room that knows the order of the others: it opens and closes the doors.
//!
//! # What it guarantees
//! * Run to completion: the worker that reads a batch frames, parses and counts it while it is
//!   warm, then appends it to the queue. No event is handed from thread to thread by itself.
//! * One hot sender has all cores: a worker without rest lends its batches to others, and gets them
//!   back in their order.
//! * A reload swaps what changed and closes no socket that stays in the configuration. A
//!   configuration that cannot be used changes nothing.
//! * An orderly stop takes in what the kernel holds, delivers what it can within a bound, and
//!   counts the rest as dropped.
//!
//! # In reading order
//! 1. [`config`]: from a file to checked options.
//! 2. `pipeline`: starts, reloads and stops everything.
//! 3. `acceptor`, `stream`, `udp`: the threads that read.
//! 4. `filler`: from bytes to batches; `pressure`, `pool`: help for a saturated worker; `relp`:
//!    who is answered when; `source`: what the workers of a source share; `senders`: who sends to
//!    it.
//! 5. [`recognise`]: packs, and who asks them; `names`: hosts that events do not name; `unknown`:
//!    what no rule recognised; `destination`: the threads that deliver.
//! 6. [`quarantine`]: where refused events go, and the way back.
//! 7. `watch`: once a second, the kernel's drops, certificates, progress, and the loss line.
//! 8. [`admin`], `status` and [`flow`]: what the admin API may ask.
//! 9. [`explain`]: how one record is read, for `inrush explain` and the admin API.
//! 10. [`replay`]: what was kept, read again by today's packs, and sent again.
#![forbid(unsafe_code)]

pub mod admin;
pub mod checked;
pub mod config;
pub mod explain;
pub mod flow;
mod given_up;
pub mod recognise;
pub mod replay;
pub mod samples;

mod acceptor;
mod backlog;
mod bounds;
mod busy;
mod carry;
mod destination;
mod enrichment;
mod filler;
mod home;
mod keep;
mod meter;
mod metrics_page;
mod names;
mod near;
mod now;
mod owner;
mod pipeline;
mod places;
mod pool;
mod pressure;
mod progress;
pub mod quarantine;
mod queue;
mod refusals;
mod relp;
mod senders;
mod shape;
mod source;
mod status;
mod stored;
mod stream;
mod topology;
mod trend;
mod trickle;
mod udp;
mod unknown;
mod watch;
mod zones;

pub use admin::{
    Admin, DestinationStatus, Edge, EdgeKind, Health, NearestRule, OtherSenders, ReloadReport,
    SenderList, SenderStatus, SourceStatus, UnknownStatus,
};
pub use bounds::disk_asks;
pub use config::{socket_count, worker_count};
pub use inrush_packs::schema as pack_schema;
pub use metrics_page::Sample;
pub use owner::Owner;
pub use pipeline::{Pipeline, StartError};
pub use places::{admin_connections, shortage};
pub use refusals::RefusedPeer;
pub use topology::Loader;
