//! Characters that do not show what they are.

use std::borrow::Cow;

/// True if a terminal would obey it, or it is not seen, or it makes a line read as something that
/// it is not: control characters (C0, DEL, C1), bidirectional overrides and marks, zero-width and
/// invisible characters, line and paragraph separators.
pub fn is_unprintable(c: char) -> bool {
    match c {
        ' '..='~' => false,
        c if c.is_control() => true,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}

/// A JSON document with such characters escaped as `\u202e`: a reader of JSON gets the same.
/// Outside of texts JSON has only ASCII, so every one of them stands in a text.
pub fn json_printable(json: &str) -> Cow<'_, str> {
    let odd = |c: char| is_unprintable(c) && !matches!(c, '\n' | '\r' | '\t');
    if !json.contains(odd) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if !odd(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_show_what_it_is_is_escaped() {
        let text = "a\u{9b}\u{202e}\u{200b}\u{e0041}é";
        assert_eq!(
            json_printable(text),
            "a\\u009b\\u202e\\u200b\\udb40\\udc41é"
        );
        assert!(matches!(
            json_printable("{\"a\": \"ü\"}\n"),
            Cow::Borrowed(_)
        ));
        for c in ['a', 'é', '登', '🙂', ' ', '\u{a0}'] {
            assert!(!is_unprintable(c), "{c}");
        }
    }
}
