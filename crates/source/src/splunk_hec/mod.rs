//! HTTP Event Collector source: requests of Splunk's clients, answered once their events are
//! durable.
//!
//! # In reading order
//! 1. [`options`]: its options; `tokens`: who may send; `counts`: what is counted
//!    of each; [`cors`]: from which pages.
//! 2. `running`: its listeners, over reloads; `settings`: what its connections share; `room`: what
//!    is answered where the queue has no room.
//! 3. `request`: what a head asks for; `reply`: what is answered; `replies`: in whose turn.
//! 4. `events`: events of a body; `lines`: those of several lines.
//! 5. `connection`: requests of a connection, one after the other, and their answers; `opening`:
//!    from the head of a request to its body; `acks`: acknowledgements that clients poll for.
//! 6. [`preview`]: what would be made of a body, without a connection; `simulation`: a collector
//!    without threads and sockets.

mod ack_file;
mod acks;
mod ahead;
mod connection;
pub mod cors;
mod counts;
mod events;
mod gather;
mod lines;
mod opening;
pub mod options;
pub mod preview;
mod replies;
mod reply;
mod request;
mod room;
mod running;
mod settings;
#[cfg(feature = "simulation")]
pub mod simulation;
mod streams;
mod tokens;
