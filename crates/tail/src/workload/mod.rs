//! Workloads whose logs are read: their metadata, and the policies of those who own them.
//!
//! # In reading order
//! 1. `clusters`: watches of clusters, which all sources share, and the desk that is asked about
//!    containers.
//! 2. `view`: what is known of a container, as its events need it.
//! 3. `board`: the same for the page; `state`: a row of it.

mod board;
mod clusters;
mod state;
mod view;

pub(super) use board::WorkloadBoard;
pub use clusters::ClusterWatches;
pub(super) use clusters::{SourceDesk, WakeCallback};
pub use state::{PolicyDecision, StreamPolicyState, WorkloadState};
pub(super) use view::{STREAMS, class};
