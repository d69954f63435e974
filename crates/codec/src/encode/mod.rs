//! Events as text for a destination: a batch and a record in, bytes out.
//!
//! # What it guarantees
//! * Output is appended to the caller's buffer; nothing else is allocated per event. What events
//!   have in common (the source's names, a sender's fields, the second of a time) is rendered once
//!   and copied.
//! * Whatever the bytes of an event are, the output is valid JSON in valid UTF-8: what is not
//!   UTF-8 becomes U+FFFD, one for each maximal broken part, as `String::from_utf8_lossy` does.
//!   Such an event is flagged `not_utf8`, and `raw_base64` has the record as it was received.
//! * Characters that a terminal obeys or does not show are written as `\u009b`.
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

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

pub use epoch::{push_epoch_ms, push_rfc3339_ms, push_rfc3339_ns};
pub use escape::json_escape;
pub use hec::{HecEncoder, HecOptions, IndexedField, NO_INDEX};
pub use json_lines::JsonLines;

/// Appends `,"raw_base64":"…"`.
fn push_base64(raw: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"raw_base64\":\"");
    out.extend_from_slice(STANDARD.encode(raw).as_bytes());
    out.push(b'"');
}
