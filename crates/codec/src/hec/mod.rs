//! Bodies of Splunk's HTTP Event Collector (HEC): objects one after the other, or in an array.
//!
//! ```text
//! body     = *(SP object) SP / SP "[" [SP object *(SP "," SP object)] SP "]" SP
//! object   = JSON (RFC 8259) with the keys event, time, host, source, sourcetype, index, fields
//! time     = [-] 1*DIGIT [. *DIGIT]      seconds since 1970, a number or a string
//! ```
//!
//! # What it guarantees
//! * A [`BodySplitter`] gives spans into the caller's arena, whatever the cuts between reads, and
//!   allocates nothing for an object.
//! * Objects before the first bad one are given, it and those behind it are not, as Splunk does.
//! * The value of `event` and of `fields` is as it was written: numbers, order of keys, escapes.
//! * An object is looked through at most three times, however many reads it takes.
//!
//! # Limits
//! 127 levels of arrays and objects. Length and number of objects are the caller's to limit.

mod answer;
mod body;
mod envelope;
#[cfg(test)]
mod tests;

pub use answer::HecAnswer;
pub use body::{BodySplitter, BodyStep};
pub use envelope::{Envelope, EnvelopeFault, EnvelopeText, EnvelopeTime, EventValue, epoch};
