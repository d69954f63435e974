//! Events as text for a destination: a batch and a record in, bytes out.
//!
//! # What it guarantees
//! * Output is appended to the caller's buffer; nothing else is allocated per event. What events
//!   have in common (the source's names, a sender's fields, the second of a time) is rendered once
//!   and copied.
//! * Whatever the bytes of an event are, the output is valid JSON in valid UTF-8: what is not
//!   UTF-8 becomes U+FFFD, one for each maximal broken part, as `String::from_utf8_lossy` does.
//! * An encoder cannot fail.
//!
//! # Limits
//! Escaping makes a byte six at most (`\u0000`); the caller bounds the size of its buffer.

mod epoch;
mod escape;
mod hec;
mod json_lines;
#[cfg(test)]
mod tests;
mod text;

pub use epoch::{push_epoch_ms, push_rfc3339_ms, push_rfc3339_ns};
pub use escape::json_escape;
pub use hec::{HecEncoder, HecOptions, IndexedField, NO_INDEX};
pub use json_lines::JsonLines;
