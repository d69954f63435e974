//! Search over the embedded store: SQL and the query language, bounded in memory and time.
//!
//! # What it guarantees
//! * **It starves nobody.** Searches run on [`SearchOptions::threads`] threads of their own, at a
//!   lower priority than ingestion, [`SearchOptions::searches_max`] at a time, within
//!   [`SearchOptions::memory_bytes`] together and [`SearchOptions::time_max`] each. One that
//!   reaches a bound ends with what it has found and says so, with its cost.
//! * **It only reads.** No statement changes the store, or touches a file or a host: SQL is parsed
//!   into a plan, and the plan is looked through before it runs ([`inrush_planner`]).
//! * **Whoever goes away is not searched for**: a [`SearchAnswer`] that is dropped ends its
//!   search.
//! * **What does not yield ends too**: [`worker::WorkerPool`] runs each search in a process of its
//!   own, which is killed at its bounds, whatever it does. An [`Engine`] alone bounds what yields.
//! * A damaged file is set aside and named in
//!   [`SearchSummary`](inrush_store::reply::SearchSummary); the rest is searched.
//!
//! # How a search runs
//! What has `|` functions, or is sorted in an order of its own, goes through DataFusion, as SQL
//! does (`table`). Everything else is found in one pass from the newest piece to the oldest
//! (`event_search`), which decodes of a piece no more than the condition needs, and the rest for
//! the rows that are shown.
//!
//! # In reading order
//! `engine` (threads and bounds) · `request` · `answer` · `run` · `event_search/` · `statement`
//! (SQL) · `table_form` (names of codes, rows of 0) · `table/` · `scan` (all of it, unsorted) ·
//! `work` (pieces, newest first, shared by threads) · `turn` · `has` · `cells` · `memory` ·
//! [`worker`] (a process for each search).
#![forbid(unsafe_code)]

mod answer;
mod cells;
mod engine;
mod event_search;
mod field_is;
mod has;
mod memory;
mod request;
mod run;
mod scan;
mod statement;
mod stop;
mod table;
mod table_form;
mod tail;
mod turn;
mod work;
pub mod worker;

pub use answer::SearchAnswer;
pub use engine::{Engine, SearchOptions};
pub use request::{BUCKETS_MAX, EVENTS_DEFAULT, ROWS_DEFAULT, ROWS_MAX, SearchRequest};
pub use scan::{EventScan, ScanOutput, StoredEvent};
pub use tail::tail;
pub use worker::WorkerPool;
