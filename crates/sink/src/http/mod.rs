//! Delivery over HTTP that all destinations share: endpoints, connections, compression, proxy, TLS
//! and adaptive concurrency. No destination's format is known here.
//!
//! # What it guarantees
//! * A request is driven by the thread that encoded its body; the body is lent, not copied.
//! * The next try after a failure goes over a fresh connection, and connections are renewed from
//!   time to time, between two requests.
//! * Healthy endpoints are used in turn, those that failed only after their back-off.
//!
//! # In reading order
//! 1. [`options`]: TLS and compression.
//! 2. `client`: a request; `connection`: what it goes over; `cookie`: what that remembers.
//! 3. `endpoint`: which one is next; `proxy`, `tls`, `scheme`: the way there.
//! 4. `compression`: bodies and their buffers; `auto_compression`: whether it pays.
//! 5. `semaphore`: how many may send at once, by `pace`, what is worth it, and `limit`, what a busy
//!    collector allows.

pub(crate) mod auto_compression;
pub(crate) mod client;
pub(crate) mod compression;
pub(crate) mod connection;
pub(crate) mod cookie;
pub(crate) mod endpoint;
pub(crate) mod limit;
pub(crate) mod options;
pub(crate) mod pace;
pub(crate) mod proxy;
pub(crate) mod scheme;
pub(crate) mod semaphore;
pub(crate) mod tls;

pub use options::{GzipLevel, HttpCompression, HttpTlsOptions};
