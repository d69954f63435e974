//! `${VAR}` and `${VAR:-default}` in the text of one scalar.
//!
//! Substitution happens after YAML was parsed, so that no value of the environment can add a key
//! or a list item. `$$` is a dollar sign; a `$` before anything else stands for itself.

use std::borrow::Cow;

/// Looks a variable of the environment up; `None` if it is not set.
pub type VariableLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Characters that would end a plain scalar, and what stands in for them inside `${…}` while YAML
/// is parsed: noncharacters, which no text may contain.
const STAND_INS: [(char, char); 8] = [
    ('{', '\u{fdd0}'),
    ('}', '\u{fdd1}'),
    ('[', '\u{fdd2}'),
    (']', '\u{fdd3}'),
    (',', '\u{fdd4}'),
    (':', '\u{fdd5}'),
    ('#', '\u{fdd6}'),
    (' ', '\u{fdd7}'),
];

/// The stand-ins are reserved: where the text has one, in bytes.
pub(crate) fn reserved(text: &str) -> Option<usize> {
    text.find(|c| STAND_INS.iter().any(|(_, stand_in)| *stand_in == c))
}

/// Makes `${…}` safe for the YAML parser wherever it stands, as in `[${A}, ${B:-x: y}]`. Each
/// character stays one character, so that places in the text are the same.
pub(crate) fn mask(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Where the last search ended, counted from the end of the text: what it passed is not searched
    // again, or a megabyte of `${` would take hours.
    let mut stop = usize::MAX;
    while let Some(dollar) = rest.find('$') {
        let (before, from) = rest.split_at(dollar + 1);
        out.push_str(before);
        rest = from;
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        if !rest.starts_with('{') {
            continue;
        }
        if stop > rest.len() {
            let end = rest.find(['}', '\n', '\r', '"', '\'']);
            stop = end.map_or(0, |end| rest.len() - end);
        }
        let end = rest.len() - stop;
        if rest[end..].starts_with('}') {
            let (body, after) = rest.split_at(end + 1);
            out.extend(
                body.chars()
                    .map(|c| replaced(c, |(plain, stand_in)| (plain, stand_in))),
            );
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// Undoes [`mask`].
pub(crate) fn unmask(text: &str) -> Cow<'_, str> {
    if text.contains('$') {
        let back = |c| replaced(c, |(plain, stand_in)| (stand_in, plain));
        text.chars().map(back).collect::<String>().into()
    } else {
        text.into()
    }
}

fn replaced(c: char, direction: impl Fn((char, char)) -> (char, char)) -> char {
    let pairs = STAND_INS.into_iter().map(direction);
    pairs
        .filter(|(from, _)| *from == c)
        .map(|(_, to)| to)
        .next()
        .unwrap_or(c)
}

/// Problem of the `number`th (from 0) `${` of a text.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct SubstitutionError {
    pub(crate) number: usize,
    pub(crate) message: String,
}

/// True if there is anything to substitute.
pub(crate) fn has_any(text: &str) -> bool {
    text.contains("${") || text.contains("$$")
}

/// Offset of the `number`th (from 0) `${`, in bytes, counting as [`substitute`] counts.
pub(crate) fn position(text: &str, number: usize) -> Option<usize> {
    let mut seen = 0;
    let mut offset = 0;
    while let Some(dollar) = text[offset..].find('$').map(|at| offset + at) {
        let next = text.as_bytes().get(dollar + 1);
        if next == Some(&b'{') {
            if seen == number {
                return Some(dollar);
            }
            seen += 1;
        }
        offset = dollar + if next == Some(&b'$') { 2 } else { 1 };
    }
    None
}

/// The text with every variable replaced, and the faults of those that could not be.
pub(crate) fn substitute(
    text: &str,
    env: VariableLookup<'_>,
) -> Result<String, Vec<SubstitutionError>> {
    let mut out = String::with_capacity(text.len());
    let mut faults = Vec::new();
    let mut number = 0;
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        out.push_str(&rest[..dollar]);
        rest = &rest[dollar + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some(inside) = rest.strip_prefix('{') {
            let (value, after) = variable(inside, env);
            match value {
                Ok(value) => out.push_str(&value),
                Err(message) => faults.push(SubstitutionError { number, message }),
            }
            number += 1;
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    if faults.is_empty() {
        Ok(out)
    } else {
        Err(faults)
    }
}

/// Reads what follows `${`; returns its value and the text after the closing brace.
fn variable<'t>(inside: &'t str, env: VariableLookup<'_>) -> (Result<String, String>, &'t str) {
    let Some((body, after)) = inside.split_once('}') else {
        let message = "`${` without its `}`; close it, or write `$$` for a dollar sign";
        return (Err(message.to_owned()), "");
    };
    let (name, default) = match body.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (body, None),
    };
    (lookup(name, default, env), after)
}

fn lookup(name: &str, default: Option<&str>, env: VariableLookup<'_>) -> Result<String, String> {
    if !is_name(name) {
        return Err(format!(
            "{} is no variable; write ${{NAME}} or ${{NAME:-default}}, or `$$` for a dollar sign",
            crate::problem::quoted(&format!("${{{name}}}"))
        ));
    }
    match (env(name), default) {
        (Some(value), None) => Ok(value),
        // As in a shell, `:-` also stands in for a variable that is set but empty.
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(format!(
            "the environment has no variable `{name}`; set it, or write ${{{name}:-default}}"
        )),
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let first = bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    first && name.len() <= 255 && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("idx1".into()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${HOST}".into()),
            _ => None,
        }
    }

    #[test]
    fn a_megabyte_of_openings_is_masked_at_once() {
        let open = "${".repeat(512 * 1024);
        assert_eq!(mask(&open), open);
        let line = format!("{open}\n${{A}}");
        assert_eq!(unmask(&mask(&line)), line);
        assert_eq!(
            mask("${A: b}\n$${c} ${d"),
            "${A\u{fdd5}\u{fdd7}b}\n$${c} ${d"
                .replacen('{', "\u{fdd0}", 1)
                .replacen('}', "\u{fdd1}", 1)
        );
    }

    #[test]
    fn variables_are_replaced_once() {
        for (text, value) in [
            ("plain $5 $", "plain $5 $"),
            ("https://${HOST}:8088", "https://idx1:8088"),
            ("${HOST}${HOST}", "idx1idx1"),
            ("${NONE:-a b}", "a b"),
            ("${NONE:-}", ""),
            ("${EMPTY:-full}", "full"),
            ("${EMPTY}", ""),
            ("${HOST:-other}", "idx1"),
            ("$${HOST} $$", "${HOST} $"),
            ("$$${HOST}", "$idx1"),
            ("${NESTED}", "${HOST}"),
        ] {
            assert_eq!(substitute(text, &env).unwrap(), value, "{text}");
        }
    }

    #[test]
    fn masking_keeps_places_and_is_undone() {
        for text in [
            "[${A}, ${B:-x: [y]}]",
            "$${a} ${",
            "${a\nb}",
            "\"${A\" # }",
            "é ${É}",
            "",
        ] {
            let masked = mask(text);
            assert_eq!(masked.chars().count(), text.chars().count(), "{text}");
            assert_eq!(unmask(&masked), text);
        }
        assert!(!mask("[${A}]").contains('{') && mask("{$${A}").contains("${A}"));
        assert_eq!(reserved("a\u{fdd7}"), Some(1));
    }

    #[test]
    fn a_fault_names_its_variable_by_number() {
        for (text, number, said) in [
            ("${HOST} ${NONE}", 1, "no variable `NONE`"),
            ("$${a} ${", 0, "without its `}`"),
            ("${}", 0, "is no variable"),
            ("${a b}", 0, "is no variable"),
            ("${1A:-x}", 0, "is no variable"),
            ("${NONE-x}", 0, "is no variable"),
        ] {
            let faults = substitute(text, &env).unwrap_err();
            assert_eq!(faults.len(), 1, "{text}");
            assert_eq!(faults[0].number, number, "{text}");
            assert!(
                faults[0].message.contains(said),
                "{text}: {}",
                faults[0].message
            );
        }
        assert_eq!(position("$${a} ${HOST} ${", 1), Some(14));
        assert_eq!(position("a", 0), None);
    }
}
