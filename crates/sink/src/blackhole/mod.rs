//! Takes every event and forgets it: for measuring everything before it.

mod config;
mod deliver;

pub use config::BlackholeConfig;
pub use deliver::BlackholeSink;
