//! Sans-IO decoding and encoding: bytes in; ranges, times and anomalies out.
//!
//! # What it guarantees
//! * Nothing here touches a socket, a file or a clock, and nothing is copied: a [`FrameDecoder`]
//!   and a [`SyslogParser`] give spans into the caller's arena.
//! * Any byte sequence is accepted. What is odd is named in the record's anomalies; what is not
//!   understood stays in the record, whole.
//! * Nothing is allocated per event, and what a decoder needs to keep of a connection's stream is
//!   bounded by `max_message_bytes` plus 32 bytes, on every framing path; in RELP plus
//!   [`relp::FRAME_SLACK`].
//!
//! # In reading order
//! 1. [`config`]: the options of a syslog source.
//! 2. [`frame`]: where one record ends and the next begins (RFC 6587, RFC 5425, RFC 5426).
//! 3. [`syslog`]: what stands in a record's header (RFC 5424, and RFC 3164 as it is really sent).
//! 4. [`relp`]: streams whose messages are answered.
//! 5. [`hec`]: bodies of requests to an HTTP Event Collector.
//! 6. [`lines`]: lines of files.
//! 7. [`container`]: lines of container logs (CRI, Docker's json-file).
//! 8. [`multiline`]: events of several lines.
//! 9. [`journal`]: entries of a journal, in the export format.
//! 10. [`encode`]: records as destinations want them.
#![forbid(unsafe_code)]

pub mod charset;
pub mod config;
pub mod container;
pub mod encode;
pub mod frame;
pub mod hec;
pub mod journal;
mod json;
pub mod lines;
pub mod multiline;
pub mod relp;
mod rfc3339;
pub mod syslog;

pub use charset::Charset;
pub use config::{OptionsError, StreamFraming, SyslogOptions};
pub use frame::{Frame, FrameDecoder, datagram};
pub use syslog::{GuessChange, KeptGuess, SyslogParser, Zone, ZoneError, ZoneGuesses};
