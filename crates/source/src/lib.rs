//! Sources: a folder each, with the same files, behind one trait; and the table of their types.
//!
//! A new source is a folder and a line in the [`table`]: all other rooms learn of it
//! through [`SourceOptions`] and [`Source`].
//!
//! # What it guarantees
//! * A listener that its source keeps stays open over a reload.
//! * A reload that cannot be prepared leaves the source as it is ([`Source::prepare`]).
//!
//! # States of a source
//! Running; prepared, between [`Source::prepare`] and [`Source::commit`]; stopping, after
//! [`Source::stop`], until [`Source::ended`].
//!
//! # After a crash
//! Bytes that a source has read and not handed on are lost, unless its peer waits for an answer.
//!
//! # In reading order
//! 1. [`table`]: the types of sources; [`options`]: what every room asks of theirs.
//! 2. [`SourceServices`]: parts of the process that sources share.
//! 3. [`syslog`]: UDP, TCP, TLS and RELP; [`splunk_hec`]: an HTTP Event Collector; [`mod@file`]:
//!    files of logs; [`journald`]: the journal of systemd; [`kubernetes_events`]: events of a
//!    cluster. Connections of the first two: [`inrush_stream`]. Reader of logs: [`inrush_tail`].
//! 4. `account`: counts of a token; [`survey`]: files before any is read.
//! 5. [`polled`]: sources that one thread polls; `made_up`: the least of them, for tests.
#![forbid(unsafe_code)]

mod account;
pub mod file;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod harness_tests;
pub mod journald;
pub mod kubernetes_events;
#[cfg(feature = "made_up")]
pub mod made_up;
mod mutant;
pub mod options;
pub mod polled;
mod services;
pub mod splunk_hec;
pub mod survey;
pub mod syslog;
pub mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use inrush_event::{HistogramSnapshot, MetricsPage, Timestamp};
use inrush_ingest::batch_writer::source::IngestSource;
use inrush_ingest::enrichment::Enrichment;
use inrush_stream::ConnectionState;
use inrush_stream::refusals::{PersistentRefusal, RefusedPeer};
use inrush_tail::listing::FileListing;
use inrush_tail::workload::WorkloadState;
use inrush_transport::config::ListenAddr;

pub use account::{SenderShare, TokenAccount};
use options::SourceOptions;

#[cfg(feature = "mutants")]
pub use mutant::{Mutant, switch_mutant};
pub use services::{SharedThreads, SourceServices, WorkerSizes};

/// A source that runs.
pub trait Source: Send + Sync {
    /// The source as its batch writers share it: its name, counts and senders.
    fn ingest(&self) -> &Arc<IngestSource>;

    /// Resolves other options of the same type, without any effect.
    ///
    /// # Errors
    /// In words; the source stays as it is.
    fn prepare(&self, options: &dyn SourceOptions, known: &Enrichment) -> Result<(), String>;

    /// Closes what the prepared options do not have, so that another source can open it.
    fn release(&self) {}

    /// Takes the prepared options on. Returns in words what could not be opened.
    fn commit(&self) -> Vec<String>;

    /// Addresses that are bound.
    fn listeners(&self) -> Vec<ListenAddr> {
        Vec::new()
    }

    /// Configured addresses that are not open, though they should be.
    fn is_incomplete(&self) -> bool {
        false
    }

    /// State at this moment.
    fn state(&self) -> SourceState {
        SourceState::default()
    }

    /// Times of its requests, from the first byte of each until its answer was written; `None` if
    /// it has no requests.
    fn request_times(&self) -> Option<HistogramSnapshot> {
        None
    }

    /// Accounts of its tokens, by name.
    fn tokens(&self) -> Vec<TokenAccount> {
        Vec::new()
    }

    /// Containers whose logs it reads, and what their owners' annotations decide.
    fn workloads(&self) -> Vec<WorkloadState> {
        Vec::new()
    }

    /// Files that it reads, at most `most` of them listed; `None` of a source without files. Asks
    /// the kernel for the length of each file that is not silent.
    fn files(&self, _most: usize) -> Option<FileListing> {
        None
    }

    /// Adds metrics of its own; those of [`IngestSource`] are there already.
    fn metrics(&self, _page: &mut MetricsPage) {}

    /// Adds losses that the kernel counts to the ledger.
    fn count_kernel_drops(&self) {}

    /// Keeps house, once a second: certificates, refusals in the log, threads that have ended.
    fn tick(&self) {}

    /// Refusals that last at this moment, for alarms.
    fn lasting_refusals(&self, _now: Timestamp) -> Vec<PersistentRefusal> {
        Vec::new()
    }

    /// True if a thread that reads has ended by a fault.
    fn is_dead(&self) -> bool {
        false
    }

    /// Closes the source, which has left the configuration: what the kernel holds is taken in
    /// first. A thread that waits for room in the queue is left to end by itself.
    fn close(&self);

    /// Asks the source to take in what the kernel holds, and to end: the process stops.
    fn stop(&self);

    /// True if nothing of it reads any more.
    fn ended(&self) -> bool;

    /// Waits a moment for what was closed before, and frees what it has.
    fn join(&self) {}
}

/// A source that was started, and what of it could not be opened, in words.
pub struct StartedSource {
    /// The source.
    pub source: Arc<dyn Source>,
    /// Problems, one line each.
    pub problems: Vec<String>,
}

/// State of a source at one moment, beside its row in the ledger.
#[derive(Clone, Debug, Default)]
pub struct SourceState {
    /// Open stream connections.
    pub connections: u64,
    /// UDP sockets.
    pub sockets: u64,
    /// Receive buffer that the kernel granted, summed over the UDP sockets, in bytes.
    pub receive_buffer_bytes: u64,
    /// Expiry of the served certificate, in seconds since 1970.
    pub certificate_not_after: Option<i64>,
    /// Connections refused or ended early, by reason.
    pub connection_errors: BTreeMap<String, u64>,
    /// Peers that were turned away, the last one first.
    pub refused: Vec<RefusedPeer>,
    /// Connections turned away of addresses that made room in that list.
    pub refused_others: u64,
}

impl From<ConnectionState> for SourceState {
    fn from(state: ConnectionState) -> Self {
        Self {
            connections: state.connections,
            certificate_not_after: state.certificate_not_after,
            connection_errors: state.connection_errors,
            refused: state.refused,
            refused_others: state.refused_others,
            ..Self::default()
        }
    }
}
