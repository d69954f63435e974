//! Conditions and values over one event, in the Common Expression Language
//! (<https://cel.dev>, language definition 0.24): `sourcetype == "cisco:asa" && severity > 6`.
//!
//! # What it guarantees
//! * An expression that compiles names only what an event has ([`VARIABLES`]), calls only what
//!   exists, and, tried on a plain event, gave the type that was asked for.
//! * It ends: the language has no loops but those over the event's own lists. A pattern is compiled
//!   once and runs in time linear in the text.
//! * What goes wrong with an event is an [`EvaluationError`]; the event is as it was.
//!
//! It does no I/O and changes nothing: what follows from a value is up to who asks.
#![forbid(unsafe_code)]

mod pattern;
mod program;
mod replacement;
mod view;

pub use program::{CelValue, CompileError, EvaluationError, Program, ResultKind};
pub use view::{EventView, VARIABLES};
