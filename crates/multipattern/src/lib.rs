//! Multi-pattern matching: thousands of literals, beginnings and regular expressions over one text.
//!
//! A user gives each pattern a value, such as the number of a rule, and gets back the values of
//! those that may match. Packs find their candidate rules so; detection rules of packets will.
//!
//! # What it guarantees
//! * No pattern that matches is missed. One that does not match may come back as a candidate where
//!   the doc comment says so.
//! * The cost of a search is linear in the text, whatever the patterns are.
#![forbid(unsafe_code)]

mod anchor;
mod bucket_order;
mod expression;
mod grams;
mod same;
mod trie;

pub use anchor::Anchor;
pub use bucket_order::arrange;
pub use expression::{CaptureSlots, CompiledRegex, RegexError};
pub use grams::{GramSearcher, LEAST};
pub use same::same;
pub use trie::{Trie, TrieBuilder};
