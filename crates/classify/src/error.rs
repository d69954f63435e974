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

    /// An expression that does not compile; the last line of the parser's message says why.
    pub(crate) fn regex(expression: &str, error: &regex::Error) -> Self {
        let text = error.to_string();
        let why = match error {
            regex::Error::CompiledTooBig(bytes) => {
                return Self(format!(
                    "the regular expression `{expression}` is too large: it takes more than \
                     {bytes} bytes of memory; bound its repetitions more closely"
                ));
            }
            _ => text.lines().last().unwrap_or_default(),
        };
        let why = why.strip_prefix("error: ").unwrap_or(why);
        Self(format!(
            "`{expression}` is no regular expression: {why} (look-around and back-references are \
             not supported: they have no bound on time)"
        ))
    }
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PackError {}
