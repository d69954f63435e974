//! Workloads whose logs are read: their metadata, and the policies of those who own them.
//!
//! # In reading order
//! 1. [`options`]: `kubernetes` and `docker` of a source.
//! 2. `clusters`: watches of clusters, which all sources share, and the desk that is asked about
//!    containers.
//! 3. `view`: what is known of a container, as its events need it.
//! 4. `board`: the same for the page.

mod board;
mod clusters;
pub(super) mod options;
mod view;

pub(super) use board::WorkloadBoard;
pub(super) use clusters::{SourceDesk, WakeCallback};
pub(super) use view::{STREAMS, class};
