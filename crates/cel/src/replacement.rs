//! `regex.replace(text, pattern, replacement)`, named and written as in the extensions of cel-go.
//!
//! All matches are replaced. In the replacement `\0` is the match, `\1` to `\9` are its groups, and
//! `\\` is a backslash. The pattern is a literal, compiled once. It matches in time linear in the
//! text. A result has at most [`RESULT_BYTES_MAX`] bytes; a longer one is an error of the event.

use cel::ExecutionError;
use cel::common::ast::{CallExpr, Expr, LiteralValue};
use cel::parser::Expression;
use regex::{Captures, Regex};

use crate::pattern::RegexPool;

/// Bytes of a result: an event has fewer, and a short pattern may match between all characters.
const RESULT_BYTES_MAX: usize = 1024 * 1024;

/// The function as it is written.
const NAME: &str = "regex.replace";

/// True if a call's target is the library `regex`, not an event's part.
pub(crate) fn is_regex_library(target: &Expression) -> bool {
    matches!(&target.expr, Expr::Ident(name) if name == "regex")
}

/// A compiled pattern whose matches are replaced.
pub(crate) struct RegexReplacement(RegexPool);

impl RegexReplacement {
    /// The replacement that a call asks for.
    ///
    /// # Errors
    /// The reason why it is none.
    pub(crate) fn of(call: &CallExpr) -> Result<Self, String> {
        let [_, pattern, by] = call.args.as_slice() else {
            return Err(format!(
                "`{NAME}` takes three texts: `{NAME}(message, 'a+', 'b')`"
            ));
        };
        let Expr::Literal(LiteralValue::String(pattern)) = &pattern.expr else {
            return Err(format!("the pattern of `{NAME}` is a text in quotes"));
        };
        let regex = Regex::new(pattern.inner())
            .map_err(|bad| format!("the pattern of `{NAME}` cannot be used: {bad}"))?;
        if let Expr::Literal(LiteralValue::String(by)) = &by.expr {
            pieces(by.inner(), &regex)?;
        }
        Ok(Self(RegexPool::new(&regex)))
    }

    /// The text with all matches replaced.
    pub(crate) fn run(&self, text: &str, by: &str) -> Result<String, ExecutionError> {
        let fault = |words: String| ExecutionError::function_error(NAME, words);
        let regex = self.0.here();
        let pieces = pieces(by, regex).map_err(fault)?;
        let (mut result, mut end) = (String::new(), 0);
        for found in regex.captures_iter(text) {
            let Some(whole) = found.get(0) else {
                continue;
            };
            result.push_str(text.get(end..whole.start()).unwrap_or_default());
            for piece in &pieces {
                piece.push(&found, &mut result);
                // After each piece: a replacement of many groups would multiply the text.
                if result.len() > RESULT_BYTES_MAX {
                    return Err(fault(format!("gives more than {RESULT_BYTES_MAX} bytes")));
                }
            }
            end = whole.end();
        }
        result.push_str(text.get(end..).unwrap_or_default());
        Ok(result)
    }
}

/// A part of a replacement.
enum TemplatePiece<'a> {
    Literal(&'a str),
    Group(usize),
}

impl TemplatePiece<'_> {
    fn push(&self, found: &Captures<'_>, result: &mut String) {
        match self {
            Self::Literal(text) => result.push_str(text),
            Self::Group(group) => {
                let text = found.get(*group).map_or("", |group| group.as_str());
                result.push_str(text);
            }
        }
    }
}

/// The parts of a replacement, or the reason why it is none.
fn pieces<'a>(by: &'a str, regex: &Regex) -> Result<Vec<TemplatePiece<'a>>, String> {
    let groups = regex.captures_len() - 1;
    let mut pieces = Vec::new();
    let mut rest = by;
    while let Some((before, behind)) = rest.split_once('\\') {
        pieces.push(TemplatePiece::Literal(before));
        let digit = behind.chars().next().and_then(|c| c.to_digit(10));
        let piece = match digit {
            Some(group) if group as usize <= groups => TemplatePiece::Group(group as usize),
            Some(group) => {
                let plural = if groups == 1 { "" } else { "s" };
                return Err(format!(
                    "`\\{group}` in the replacement of `{NAME}`: the pattern has {groups} \
                     group{plural}"
                ));
            }
            None if behind.starts_with('\\') => TemplatePiece::Literal("\\"),
            None => {
                return Err(format!(
                    "a backslash in the replacement of `{NAME}` stands before a digit, or is \
                     written twice"
                ));
            }
        };
        pieces.push(piece);
        rest = behind.get(1..).unwrap_or_default();
    }
    pieces.push(TemplatePiece::Literal(rest));
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replacement(pattern: &str) -> RegexReplacement {
        RegexReplacement(RegexPool::new(&Regex::new(pattern).expect("a pattern")))
    }

    #[test]
    fn all_matches_are_replaced_and_groups_are_kept() {
        for (pattern, by, text, wanted) in [
            (
                "password=[^ ]+",
                "password=***",
                "a password=x b password=y",
                "a password=*** b password=***",
            ),
            (
                r"(\d{6})\d+(\d{4})",
                r"\1…\2",
                "card 4111111111111111.",
                "card 411111…1111.",
            ),
            ("b*", "-", "abc", "-a-c-"),
            ("(a)|(b)", r"[\2]", "ab", "[][b]"),
            ("x", r"\0\\", "x", r"x\"),
            ("é", "e", "café é", "cafe e"),
        ] {
            let found = replacement(pattern).run(text, by);
            assert_eq!(found.ok().as_deref(), Some(wanted), "{pattern} {by}");
        }
    }

    #[test]
    fn a_result_that_is_too_long_is_an_error_of_the_event() {
        let long = "y".repeat(RESULT_BYTES_MAX / 10);
        let text = "x".repeat(11);
        assert!(replacement("x").run(&text, &long).is_err());
        assert!(replacement("x").run(&text[..9], &long).is_ok());
        assert!(
            replacement("x").run("x", r"\1").is_err(),
            "a group that is not there"
        );
    }
}
