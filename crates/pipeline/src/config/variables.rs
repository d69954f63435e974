//! `${VAR}` and `${VAR:-default}` in the text of one scalar.
//!
//! Substitution happens after YAML was parsed, so that no value of the environment can add a key
//! or a list item. `$$` is a dollar sign; a `$` before anything else stands for itself.

/// Looks a variable of the environment up; `None` if it is not set.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What is wrong with the `number`th (from 0) `${` of a text.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Fault {
    pub(super) number: usize,
    pub(super) message: String,
}

/// Whether there is anything to substitute.
pub(super) fn has_any(text: &str) -> bool {
    text.contains("${") || text.contains("$$")
}

/// Where the `number`th (from 0) `${` begins, in bytes, counting as [`substitute`] counts.
pub(super) fn position(text: &str, number: usize) -> Option<usize> {
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
pub(super) fn substitute(text: &str, env: Environment<'_>) -> Result<String, Vec<Fault>> {
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
                Err(message) => faults.push(Fault { number, message }),
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
fn variable<'t>(inside: &'t str, env: Environment<'_>) -> (Result<String, String>, &'t str) {
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

fn lookup(name: &str, default: Option<&str>, env: Environment<'_>) -> Result<String, String> {
    if !is_name(name) {
        return Err(format!(
            "{} is no variable; write ${{NAME}} or ${{NAME:-default}}, or `$$` for a dollar sign",
            super::problem::quoted(&format!("${{{name}}}"))
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
