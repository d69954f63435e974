//! YAML of which every key and value knows its place, and problems that say it: what
//! configurations and packs are read with.
//!
//! # What it guarantees
//! * A file is bounded in bytes, depth, nodes and text after aliases and variables were filled in
//!   (`CONFIG_*` in [`inrush_event::limits`]).
//! * `${VAR}` is filled in after YAML was parsed ([`read`]), so that no value of the environment
//!   can change the structure of a file; or left as it stands ([`read_plain`]).
//! * A key that is given twice is a problem, and so are tags and further documents.
#![forbid(unsafe_code)]

mod problem;
mod tree;
mod variables;

pub use problem::{FileProblem, FileProblems, Findings, Location, listed, nearest, quoted};
pub use tree::{MapEntry, NodeKind, Scalar, YamlNode, kind_name, read, read_plain, redacted};
pub use variables::VariableLookup;
