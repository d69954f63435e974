//! stub

pub mod admin;

pub use admin::{
    Admin, DestinationStatus, Edge, EdgeKind, Health, ReloadReport, Sample, SenderStatus,
    SourceStatus,
};
