//! Syslog source: datagrams, streams and RELP sessions.
//!
//! # In reading order
//! 1. [`options`]: its options.
//! 2. `running`: its listeners, over reloads; `live`: what its threads share.
//! 3. `decoder`: what comes over connections (`stream`); `relp`: their answers.
//! 4. `udp`: datagrams; `receive_buffer`: size of the kernel's buffers under overload.

mod decoder;
mod live;
pub mod options;
mod receive_buffer;
mod relp;
mod running;
mod udp;
