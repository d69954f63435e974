//! Error of a pack.

use std::fmt;

/// A mistake in a pack, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackError(String);

impl PackError {
    /// A mistake.
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

impl From<inrush_multipattern::RegexError> for PackError {
    fn from(error: inrush_multipattern::RegexError) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PackError {}
