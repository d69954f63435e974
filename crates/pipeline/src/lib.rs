//! Pipeline: opens and closes the doors of all rooms, in order, and keeps house.
//!
//! # What it guarantees
//! * A reload swaps what changed and closes no socket that stays in the configuration. A
//!   configuration that cannot be used changes nothing.
//! * An orderly stop takes in what the kernel holds, delivers what it can within a bound, and
//!   counts the rest as dropped.
//!
//! # In reading order
//! 1. [`checked`]: the configuration with the checks of all rooms.
//! 2. `pipeline`: starts, reloads and stops everything; [`topology`]: what runs.
//! 3. [`destination`]: the threads that deliver; [`quarantine`]: where refused events go, and the
//!    way back.
//! 4. `housekeeping`: once a second, progress, the loss line, and whoever observes.
#![forbid(unsafe_code)]

pub mod checked;
mod data_dir;
mod data_dir_lock;
mod descriptors;
pub mod destination;
mod disk_bounds;
mod housekeeping;
mod pipeline;
pub mod progress;
pub mod quarantine;
mod queue;
mod shutdown_drops;
mod store_account;
pub mod topology;
mod upgrade;

pub use data_dir_lock::DataDirLock;
pub use descriptors::{admin_connections, health_connections, shortage};
pub use disk_bounds::disk_asks;
pub use inrush_packs::schema as pack_schema;
pub use pipeline::{Pipeline, ReloadReport, StartError};
pub use topology::ConfigLoader;
