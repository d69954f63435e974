//! The place in the text that the parser has come to, and the small things that it reads there.

use std::ops::Range;

use super::error::SyntaxError;

/// A place in a text. It only moves forward, so that reading costs time in step with the text.
#[derive(Debug, Clone)]
pub(super) struct TextCursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> TextCursor<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Offset of the cursor in the text, in bytes.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// Rest of the text, from the cursor on.
    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next character.
    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Passes over white space; says whether there was any.
    pub(super) fn skip_space(&mut self) -> bool {
        !self.take_while(char::is_whitespace).is_empty()
    }

    /// Passes over `text` if it comes next.
    pub(super) fn take(&mut self, text: &str) -> Option<Range<usize>> {
        self.rest().starts_with(text).then(|| {
            let start = self.at;
            self.at += text.len();
            start..self.at
        })
    }

    /// Passes over the characters that are `wanted`.
    pub(super) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Passes over `bytes` of what is left, which must be a boundary of characters.
    pub(super) fn take_bytes(&mut self, bytes: usize) -> &'a str {
        let taken = self.rest().get(..bytes).unwrap_or_default();
        self.at += taken.len();
        taken
    }

    /// From `start` to here.
    pub(super) const fn since(&self, start: usize) -> Range<usize> {
        start..self.at
    }

    /// The text from `start` up to the cursor.
    pub(super) fn behind(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// The next character, or the place behind the last.
    pub(super) fn here(&self) -> Range<usize> {
        self.at..self.at + self.peek().map_or(0, char::len_utf8)
    }

    /// A text in quotes, of which the first is the next character. `\"` is a quote and `\\` a
    /// backslash; any other backslash is one, so that most paths can be pasted as they are.
    pub(super) fn quoted(&mut self) -> Result<String, SyntaxError> {
        let start = self.at;
        self.take("\"");
        let mut text = String::new();
        loop {
            text.push_str(self.take_while(|c| !matches!(c, '"' | '\\')));
            if self.take("\"").is_some() {
                return Ok(text);
            }
            if self.take("\\\"").is_some() {
                text.push('"');
            } else if self.take("\\\\").is_some() || self.take("\\").is_some() {
                text.push('\\');
            } else {
                return Err(unclosed(start..start + 1, &text));
            }
        }
    }
}

fn unclosed(span: Range<usize>, text: &str) -> SyntaxError {
    let fault = SyntaxError::new(span, "this quote is not closed");
    if text.ends_with('"') {
        fault.hint("a backslash before the closing quote is written twice: `\\\\`")
    } else {
        fault.hint("a quote that is meant as text is written `\\\"`, inside of quotes")
    }
}

/// The characters of names that need no quotes.
pub(super) fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '@' | '$' | '#' | '[' | ']' | '{' | '}')
}

/// True if a word can stand for a field without quotes.
pub(super) fn is_plain_name(word: &str) -> bool {
    word.chars().all(is_name_char) && word.chars().any(char::is_alphanumeric)
}
