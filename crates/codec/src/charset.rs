//! Texts that are not UTF-8, converted by the encoding that an operator named for a source.
//!
//! What is UTF-8 already stays as it is: senders of one source differ, and a text of an older
//! encoding is by chance valid UTF-8 only if it is ASCII. What is not valid in the named encoding
//! stays as it is too, and is flagged.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use inrush_event::text_option;

/// An encoding of the WHATWG standard, by one of its names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Charset(&'static Encoding);

impl FromStr for Charset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Encoding::for_label_no_replacement(text.as_bytes())
            .map(Self)
            .ok_or_else(|| {
                format!(
                    "`{text}` is not an encoding; write for example windows-1252, iso-8859-15, \
                     shift_jis, gb18030 or utf-16le"
                )
            })
    }
}

impl fmt::Display for Charset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name().to_ascii_lowercase())
    }
}

text_option!(Charset "encoding" ["windows-1252", "shift_jis"]);

/// Outcome of the conversion of a record to UTF-8.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CharsetConversion {
    /// It is UTF-8.
    Not,
    /// Its text.
    Text(String),
    /// Neither UTF-8 nor valid in the encoding.
    Invalid,
}

impl Charset {
    /// The text of a record.
    pub fn convert(self, bytes: &[u8]) -> CharsetConversion {
        let wide = self.0 == UTF_16LE || self.0 == UTF_16BE;
        let decoded = match wide {
            true if looks_wide(bytes) => self.wide(bytes),
            _ if bytes.is_ascii() || std::str::from_utf8(bytes).is_ok() => {
                return CharsetConversion::Not;
            }
            true => None,
            false => self
                .0
                .decode_without_bom_handling_and_without_replacement(bytes)
                .map(Cow::into_owned),
        };
        decoded.map_or(CharsetConversion::Invalid, CharsetConversion::Text)
    }

    /// UTF-16, by the mark at its start if there is one. A datagram may have lost the zero that its
    /// last character ends with: zeros at the end are taken for padding.
    fn wide(self, bytes: &[u8]) -> Option<String> {
        let (encoding, bytes) = match bytes {
            [0xff, 0xfe, rest @ ..] => (UTF_16LE, rest),
            [0xfe, 0xff, rest @ ..] => (UTF_16BE, rest),
            bytes => (self.0, bytes),
        };
        let mut even = Cow::Borrowed(bytes);
        if bytes.len() % 2 == 1 {
            even.to_mut().push(0);
        }
        encoding
            .decode_without_bom_handling_and_without_replacement(&even)
            .map(Cow::into_owned)
    }
}

/// True if there is a byte order mark or a zero, which no text of one byte a character has.
fn looks_wide(bytes: &[u8]) -> bool {
    matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) || memchr::memchr(0, bytes).is_some()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn convert(charset: &str, bytes: &[u8]) -> CharsetConversion {
        charset.parse::<Charset>().unwrap().convert(bytes)
    }

    #[test]
    fn texts_are_read_in_the_encoding_that_was_named() {
        for (charset, bytes, text) in [
            ("iso-8859-1", &b"M\xfcller"[..], "Müller"),
            ("windows-1252", b"5 \x80", "5 €"),
            ("iso-8859-15", b"5 \xa4", "5 €"),
            ("shift_jis", b"\x83\x8d\x83O\x83C\x83\x93", "ログイン"),
            ("gb18030", b"\xb5\xc7\xc2\xbc", "登录"),
            ("utf-16", b"\xff\xfea\0b\0", "ab"),
            ("utf-16le", b"a\0b", "ab"),
            ("utf-16be", b"\0a\0b", "ab"),
        ] {
            assert_eq!(
                convert(charset, bytes),
                CharsetConversion::Text(text.into()),
                "{charset}"
            );
            assert_eq!(
                convert(charset, "Müller".as_bytes()),
                CharsetConversion::Not,
                "{charset}"
            );
        }
        assert_eq!(convert("shift_jis", b"\x83"), CharsetConversion::Invalid);
        assert!("latin-99".parse::<Charset>().is_err());
        assert!("replacement".parse::<Charset>().is_err());
    }
}
