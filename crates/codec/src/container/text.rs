//! Texts of lines as they were written, and the streams that they came from.

use crate::json;

/// Stream that a container wrote to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl LogStream {
    /// `stdout` or `stderr`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }

    /// The stream of that name, in lower case.
    pub fn of_name(name: &[u8]) -> Option<Self> {
        match name {
            b"stdout" => Some(Self::Stdout),
            b"stderr" => Some(Self::Stderr),
            _ => None,
        }
    }
}

/// Text of a line or of a piece of one, as its file has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PieceText<'a> {
    /// The text itself: any bytes.
    Raw(&'a [u8]),
    /// The inside of a JSON string that has escapes.
    Escaped(&'a [u8]),
}

impl<'a> PieceText<'a> {
    /// The bytes as they were written. They are at least as many as the text has.
    pub const fn written(self) -> &'a [u8] {
        match self {
            Self::Raw(bytes) | Self::Escaped(bytes) => bytes,
        }
    }

    /// Appends the text, its escapes resolved ([`push_unescaped`]).
    pub fn push(self, out: &mut Vec<u8>) {
        match self {
            Self::Raw(bytes) => out.extend_from_slice(bytes),
            Self::Escaped(bytes) => push_unescaped(bytes, out),
        }
    }

    /// Hands the same text to `part`, part by part.
    pub(super) fn each(self, mut part: impl FnMut(&[u8])) {
        match self {
            Self::Raw(bytes) => part(bytes),
            Self::Escaped(bytes) => json::unescape_each(bytes, part),
        }
    }
}

/// Appends the text of the inside of a JSON string (RFC 8259 section 7), its escapes resolved.
/// Half of a surrogate pair has no text, and stays as it was written. The text is never longer.
pub fn push_unescaped(raw: &[u8], out: &mut Vec<u8>) {
    json::unescape(raw, out);
}
