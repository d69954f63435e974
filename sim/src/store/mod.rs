//! The simulation of the store: its own code on a virtual folder or bucket, fed by a model of the
//! queue, with an oracle beside it.

mod oracle;
mod queue;
mod scenario;
mod world;

pub(crate) use world::run;
