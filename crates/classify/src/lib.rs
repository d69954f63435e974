//! Classifier of events: compiles vendor packs once into tables and automata, and stamps what they
//! say on every event.
//!
//! # What it guarantees
//! * The cost of an event hardly grows with the rules: candidates come from tries over the program
//!   and the beginning of the message, from hash tables and from multi-pattern automata, and only
//!   they are confirmed (`index.rs`).
//! * Every pattern runs in time linear in the text; what a hostile event can make us keep is
//!   bounded.
//! * Nothing is allocated per event of a class whose texts are fixed. What differs from event to
//!   event is written behind the batch's bytes.
//! * Ties are decided by the rules' order alone, never by how they were found.
//!
//! It does no I/O and knows nothing of YAML: [`Pack`] is what a reader makes of a file.
#![forbid(unsafe_code)]

mod class;
mod compile;
mod engine;
mod error;
mod event;
pub mod group;
mod hints;
mod index;
mod mark;
mod needs;
pub mod pack;
mod pattern;
mod plan;
pub mod read;
mod render;
mod template;
mod trace;

pub use compile::{CompiledPacks, Overrides, PackWarning, ShadowedRule};
pub use engine::{Classifier, ClassifierVerdict};
pub use error::PackError;
pub use event::EventOrigin;
pub use group::{GroupPart, GroupRule};
pub use hints::HostProducts;
pub use mark::NameFingerprint;
pub use pack::Pack;
pub use pattern::TextPattern;
pub use template::TextTemplate;
pub use trace::{RuleOutcome, RuleTrace};
