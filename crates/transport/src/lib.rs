//! All that touches the network or the kernel, and the only room where `unsafe` may appear.
//!
//! # What it guarantees
//! * Nothing here waits: sockets are non-blocking, and their readiness is the caller's business.
//!   Only [`files::tree::TreeWatcher::poll`] waits, for as long as it is told.
//! * A peer can cost a bounded amount of memory and of time before it has said who it is.
//! * What the kernel dropped of a UDP socket can be read to the packet at any moment.
//!
//! # In reading order
//! 1. [`config`]: the options of listeners.
//! 2. [`listen`] and [`activation`]: sockets, our own or systemd's.
//! 3. [`udp`]: datagrams in bulk (RFC 5426).
//! 4. [`stream`], [`proxy`], [`tls`] and [`peers`]: connections (RFC 6587, RFC 5425);
//!    [`any_server`] and [`trusted_server`] for those that we open; [`http`] and [`http2`]:
//!    requests.
//! 5. [`files`]: files that others write; [`child`]: processes that we start and read from.
//!
//! # After a crash
//! Sockets close with the process; sockets that systemd passed stay open and keep what they hold.

pub mod activation;
pub mod any_server;
pub mod child;
pub mod config;
pub mod files;
pub mod heap;
pub mod http;
pub mod http2;
pub mod listen;
pub mod nodes;
pub mod peers;
pub mod process;
pub mod proxy;
pub mod refusal;
mod socket;
pub mod stream;
pub mod tls;
pub mod trusted_server;
pub mod udp;
#[cfg(feature = "simulation")]
pub mod virtual_socket;
