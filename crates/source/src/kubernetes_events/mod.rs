//! Source of events of a Kubernetes cluster. Of all processes that share a Lease, one reads.
//!
//! The way to the API, the Lease and the order of events are in `inrush_kubernetes`; here are the
//! options, and the events as records with the place behind them.

pub mod options;
mod reader;
