//! Texts of other collectors as YAML, as expressions and as comments.

/// A text in double quotes, whatever is in it. A dollar is doubled: the configuration would take
/// it for a variable.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        push_escaped(c, &mut out);
    }
    out.push('"');
    out
}

/// The same, but `${NAME}` stays a variable of the environment.
pub(crate) fn referring(text: &str) -> String {
    let mut out = String::from("\"");
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(name) = leading_variable(rest) {
            out.push_str(name);
            rest = &rest[name.len()..];
        } else {
            push_escaped(c, &mut out);
            rest = &rest[c.len_utf8()..];
        }
    }
    out.push('"');
    out
}

fn push_escaped(c: char, out: &mut String) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '$' => out.push_str("$$"),
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        c if is_unsafe(c) => out.push(' '),
        c => out.push(c),
    }
}

/// True for what no text of a configuration may hold: what a terminal obeys, and noncharacters.
fn is_unsafe(c: char) -> bool {
    let noncharacter = matches!(c as u32, 0xfdd0..=0xfdef) || c as u32 & 0xfffe == 0xfffe;
    c.is_control() || noncharacter || inrush_event::is_unprintable(c)
}

/// `${NAME}` at the beginning of a text.
fn leading_variable(text: &str) -> Option<&str> {
    let end = text.starts_with("${").then(|| text.find('}')).flatten()?;
    let whole = &text[..=end];
    is_variable(whole).then_some(whole)
}

/// True if a text is one variable and nothing else: a secret behind one must not be written down.
pub(crate) fn is_variable(text: &str) -> bool {
    let name = text
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'));
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.is_some_and(|name| !name.is_empty() && name.chars().all(part))
}

/// An expression as a value: in single quotes, in which a backslash stands for itself.
pub(crate) fn expression(text: &str) -> String {
    if text.chars().any(is_unsafe) {
        return quoted(text);
    }
    format!("'{}'", text.replace('\'', "''").replace('$', "$$"))
}

/// A text as a literal of an expression.
pub(crate) fn literal(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if is_unsafe(c) => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A list of texts on one line.
pub(crate) fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}

/// The same, in which `${NAME}` stays a variable.
pub(crate) fn referring_list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| referring(text)).collect();
    format!("[{}]", texts.join(", "))
}

/// Characters of somebody else's text that a comment or a note shows at most.
const SHOWN_CHARS_MAX: usize = 200;

/// A text that stands on one line of a comment: without what a terminal obeys, and cut.
pub(crate) fn one_line(text: &str) -> String {
    let plain = |c: char| if is_unsafe(c) { ' ' } else { c };
    let mut out: String = text.chars().take(SHOWN_CHARS_MAX).map(plain).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        out.push('…');
    }
    out
}

/// A key of somebody else's file, as notes name it: what a key is made of, and cut, so that a line
/// with a secret in it does not show it as a key.
pub(crate) fn shown_key(key: &str) -> String {
    const KEY_CHARS_MAX: usize = 64;
    let part = |c: &char| c.is_alphanumeric() || "_-.:/".contains(*c);
    let shown: String = key.chars().take_while(part).take(KEY_CHARS_MAX).collect();
    match shown.len() == key.len() {
        true => shown,
        false => format!("{shown}…"),
    }
}

/// A name of a source or a destination.
pub(crate) fn name(text: &str) -> String {
    const NAME_CHARS_MAX: usize = 48;
    let letter = |c: char| match c {
        c if c.is_ascii_alphanumeric() || "_-".contains(c) => c.to_ascii_lowercase(),
        _ => '_',
    };
    let name: String = text.chars().take(NAME_CHARS_MAX).map(letter).collect();
    match name.trim_matches('_') {
        "" => "unnamed".to_owned(),
        trimmed => trimmed.to_owned(),
    }
}
