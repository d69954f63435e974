//! Servers that tests of several crates share: a HEC collector with scripted answers, and raw
//! sockets for broken ones.
//!
//! # What it guarantees
//! * The collector indexes as Splunk does: a named bad event costs itself, those before it are in.
//! * It remembers every request, in the order of their answers.
//! * Nothing is bound but loopback, on ports that the kernel chooses or the test names.
//!
//! # Limits
//! No crate of the product is named here, so any of them may use this one in its tests.
//!
//! # In reading order
//! 1. `reply`: an answer, and the events that it says are indexed.
//! 2. `hec`: the collector; `acks`: its acknowledgement; `balancer`: two of it behind one address.
//! 3. `tcp_balancer`: a balancer below HTTP, before servers that come and go.
//! 4. `api_server`: an API server of Kubernetes, as far as lists and watches go.
//! 5. `raw`: servers that write bytes; `wait`: waiting with a deadline.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod acks;
mod api_server;
mod balancer;
mod hec;
mod raw;
mod reply;
mod tcp_balancer;
mod wait;

pub use api_server::ApiServer;
pub use balancer::Sticky;
pub use hec::{Hec, HecRequest};
pub use raw::{SUCCESS, closing_server, connect_proxy, raw_server, read_request};
pub use reply::Reply;
pub use tcp_balancer::TcpBalancer;
pub use wait::{DEADLINE, eventually};
