//! The leaf of the house: what flows between the rooms and the words they share.
//!
//! # What it guarantees
//! * A [`Batch`] owns the bytes exactly as they came off the wire (one contiguous arena) and one
//!   fixed-size [`Record`] a event that points into it. Nothing is allocated per event.
//! * A batch is filled by one worker through a [`BatchBuilder`], frozen once, then shared by
//!   `Arc` and never changed. Its buffers go back to the [`BatchPool`] with the last reference.
//! * Every event that was received ends in exactly one [`Fate`]; the [`Ledger`] counts them, and
//!   a [`LedgerSnapshot`] taken at any moment is consistent: no worker is half-way through a
//!   posting while it is read.
//!
//! # Limits
//! All limits of the product are constants in [`limits`], each with its unit and its reason.
//!
//! # After a crash
//! Nothing here outlives the process.
#![forbid(unsafe_code)]

mod anomaly;
mod arena;
mod backlog;
mod batch;
mod batch_events;
mod batch_positions;
mod batch_times;
mod block;
mod class;
mod clock;
mod copy;
mod fate;
mod feed;
mod header;
mod histogram;
mod ledger;
pub mod limits;
mod metric;
mod metrics_page;
mod mutant;
mod network;
mod now;
mod origin;
mod position;
mod record;
mod sdata;
mod sum;
mod text;
mod time_tally;
mod units;
mod zone;

pub use anomaly::Anomalies;
pub use arena::Arena;
pub use backlog::{DestinationQueue, WhenFull};
pub use batch::{Batch, BatchBuilder, BatchParts, BatchPool, ClassList, FilledParts, PooledMemory};
pub use batch_times::BatchTimes;
pub use block::SimdBlock;
pub use class::{ClassInfo, EventNames, EventText, Extra, ExtraKey, OwnerNames};
pub use clock::{
    CLOCK_CONFIRM, CLOCK_CONFIRM_START, CLOCK_TOLERANCE, ClockJudgement, ClockLag, WallClock,
    steady,
};
pub use fate::{CutReason, DropReason, Fate, RefuseReason, RejectReason, UpstreamLoss};
pub use feed::{BatchOrigin, Delivery, Feed, FeedNext};
pub use header::header_span;
pub use histogram::{Histogram, HistogramSnapshot};
pub use ledger::{
    Counter, DestinationCounters, DestinationSnapshot, Ledger, LedgerSnapshot, SourceCounters,
    SourceSnapshot, StoredAccount, StoredSnapshot,
};
pub use metric::{Metric, MetricKind};
pub use metrics_page::{MetricPart, MetricSample, MetricsPage};
pub use network::{Network, NetworkError};
#[cfg(feature = "simulation")]
pub use now::{VirtualClocks, set_virtual_clocks};
pub use now::{first_instant, instant_now};
pub use origin::{Origin, Peer, Protocol, SourceInfo};
pub use position::{PositionList, StreamPosition};
pub use record::{ClassId, Format, Record, Span, Timestamp, facility_name, severity_name};
pub use sdata::SdataCursor;
pub use sum::{crc32c, crc32c_append};
pub use text::{is_unprintable, json_printable};
pub use time_tally::{HISTOGRAM_BOUNDS_S, TimeTally};
pub use units::{AutoCount, ByteSize, Period, Secret, UnitError};
pub use zone::{abbreviation_minutes, closest_instant, instants_of_twice, named_zone};
