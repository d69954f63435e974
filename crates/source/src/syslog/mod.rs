//! Syslog source: datagrams, streams and RELP sessions.
//!
//! # In reading order
//! 1. [`options`]: its options.
//! 2. `running`: its listeners, over reloads; `live`: settings and counts that its threads share.
//! 3. `runtime`: threads that all syslog sources share; `acceptor`, `stream`: connections; `relp`:
//!    their answers.
//! 4. `udp`: datagrams; `receive_buffer`: size of the kernel's buffers under overload.

mod acceptor;
mod live;
pub mod options;
mod receive_buffer;
mod relp;
mod running;
mod runtime;
mod stream;
mod udp;
