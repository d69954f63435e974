//! Anchor of a pattern: a text that every match has.

/// A text that every match has, and its position: what candidates are found by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor<'a> {
    /// The whole text.
    Exact(&'a [u8]),
    /// The beginning of the text.
    Prefix(&'a [u8]),
    /// The end of the text.
    Suffix(&'a [u8]),
    /// Anywhere in the text.
    Contains(&'a [u8]),
    /// One of these bytes comes first.
    First(&'a [bool; 256]),
}
