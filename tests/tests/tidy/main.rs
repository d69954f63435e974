//! The rules of the house that clippy cannot see. Each finding names its file and line.
#![allow(clippy::unwrap_used)]

mod architecture;
mod code;
mod rooms;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a source file.
const FILE_LINES_MAX: usize = 800;
/// Lines of a function, its signature and closing brace included.
const FUNCTION_LINES_MAX: usize = 70;
/// Characters of a line of Rust, without what stands in quotes.
const LINE_CHARS_MAX: usize = 100;
/// Stands in the line above a function that has to be longer, before the reason.
const LONG_BECAUSE: &str = "// tidy: long because ";

/// The repository; `.ci/planted` names a copy of it in which it breaks the rules.
fn root() -> PathBuf {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = std::env::var_os("TIDY_ROOT").map_or_else(own, PathBuf::from);
    root.canonicalize().unwrap()
}

/// The names of our crates.
fn crates() -> impl Iterator<Item = String> {
    let entries = fs::read_dir(root().join("crates")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap())
}

/// Every file of the repository with one of these extensions, without what is built.
fn files(extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = entry.file_name().into_string().unwrap_or_default();
            let kind = entry.file_type().unwrap();
            let skipped = [
                "target",
                "node_modules",
                "corpus",
                "artifacts",
                "inrush-data",
            ];
            if kind.is_dir() && !name.starts_with('.') && !skipped.contains(&name.as_str()) {
                folders.push(path);
            } else if kind.is_file() && extensions.iter().any(|e| name.ends_with(&format!(".{e}")))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(!found.is_empty());
    found
}

/// Runs `check` over every line of every Rust file; it says what is wrong.
fn each_rust_line(check: impl Fn(&Path, &str) -> Option<String>) -> Vec<String> {
    let mut findings = Vec::new();
    for path in files(&["rs"]) {
        let text = fs::read_to_string(&path).unwrap();
        for (i, line) in text.lines().enumerate() {
            if let Some(wrong) = check(&path, line) {
                findings.push(finding(&path, i, &wrong));
            }
        }
    }
    findings
}

fn finding(path: &Path, line: usize, wrong: &str) -> String {
    let path = path.strip_prefix(root()).unwrap_or(path).display();
    format!("{path}:{}: {wrong}", line + 1)
}

fn none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// The line without its comment and without what stands in quotes.
fn code_of(line: &str) -> String {
    let plain = unquoted(line);
    plain.split("//").next().unwrap_or_default().to_owned()
}

/// The line without what stands in quotes.
fn unquoted(line: &str) -> String {
    let mut plain = String::new();
    let (mut quoted, mut escaped, mut before) = (false, false, ' ');
    for c in line.chars() {
        if c == '"' && !escaped && before != '\'' {
            quoted = !quoted;
        } else if !quoted {
            plain.push(c);
        }
        escaped = quoted && c == '\\' && !escaped;
        before = c;
    }
    plain
}

fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .any(|part| part == word)
}

#[test]
fn no_file_is_too_long() {
    let long = |path: &PathBuf| {
        let lines = fs::read_to_string(path).unwrap().lines().count();
        (lines > FILE_LINES_MAX).then(|| finding(path, lines, "split this file"))
    };
    none(
        &files(&["rs", "html", "sh"])
            .iter()
            .filter_map(long)
            .collect::<Vec<_>>(),
    );
}

#[test]
fn no_line_is_too_wide() {
    none(&each_rust_line(|_, line| {
        // rustfmt cannot break a string, and a table reads better with one row a line.
        let chars = unquoted(line).chars().count();
        (chars > LINE_CHARS_MAX).then(|| format!("{chars} characters, at most {LINE_CHARS_MAX}"))
    }));
}

#[test]
fn no_function_is_too_long() {
    let mut findings = Vec::new();
    for path in files(&["rs"]) {
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (start, length) in functions(&lines) {
            let excused = start > 0 && lines[start - 1].trim_start().starts_with(LONG_BECAUSE);
            if length > FUNCTION_LINES_MAX && !excused {
                findings.push(finding(
                    &path,
                    start,
                    &format!("a function of {length} lines"),
                ));
            }
        }
    }
    none(&findings);
}

/// Start and length in lines of every function. rustfmt puts the closing brace of a function at
/// the column of its first line.
fn functions(lines: &[&str]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = code_of(line);
        let indent = code.len() - code.trim_start().len();
        // What a function is visible to stands in parentheses of its own.
        let plain = code
            .replace("pub(crate)", "pub")
            .replace("pub(super)", "pub");
        let head = plain.split('(').next().unwrap_or_default();
        if !has_word(head, "fn") || code.trim_end().ends_with([';', '}']) {
            continue;
        }
        let closes = |line: &&str| {
            line.len() == indent + 1 && line.ends_with('}') && line.trim_start().len() == 1
        };
        if let Some(length) = lines[start..].iter().position(closes) {
            found.push((start, length + 1));
        }
    }
    found
}

#[test]
fn unsafe_stays_in_transport() {
    let transport = root().join("crates/transport");
    none(&each_rust_line(|path, line| {
        let outside = !path.starts_with(&transport);
        (outside && has_word(&code_of(line), "unsafe"))
            .then(|| "`unsafe` belongs into crates/transport".to_owned())
    }));
    for name in crates().filter(|name| name != "transport") {
        let lib = root().join(format!("crates/{name}/src/lib.rs"));
        let text = fs::read_to_string(&lib).unwrap();
        assert!(
            text.contains("#![forbid(unsafe_code)]"),
            "{} does not forbid it",
            lib.display()
        );
    }
}

#[test]
fn what_is_left_to_do_has_an_issue() {
    // Put together here, or this file would find itself.
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
    ];
    none(&each_rust_line(|_, line| {
        let mark = marks.iter().find(|mark| has_word(line, mark))?;
        let numbered = line.contains(&format!("{mark}(#"));
        (!numbered).then(|| format!("{mark} without an issue: write {mark}(#12)"))
    }));
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let first = text.lines().find(|line| !line.starts_with("#!["))?;
        (!first.starts_with("//!")).then(|| finding(path, 0, "begin with `//!` and its contract"))
    };
    none(&files(&["rs"]).iter().filter_map(silent).collect::<Vec<_>>());
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut findings = Vec::new();
    for path in files(&["md"]) {
        let text = fs::read_to_string(&path).unwrap();
        for (i, line) in text.lines().enumerate() {
            for target in line
                .split("](")
                .skip(1)
                .filter_map(|rest| rest.split(')').next())
            {
                let file = target.split('#').next().unwrap_or_default();
                let elsewhere = file.is_empty() || file.contains("://");
                if !elsewhere && !path.parent().unwrap().join(file).exists() {
                    findings.push(finding(&path, i, &format!("{file} is not there")));
                }
            }
        }
    }
    none(&findings);
}

#[test]
fn the_rules_find_what_they_are_for() {
    let word = concat!("un", "safe");
    assert!(has_word(
        &code_of(&format!("    {word} {{ read() }}")),
        word
    ));
    assert!(!has_word(
        &code_of(&format!("#![forbid({word}_code)] // {word}")),
        word
    ));
    assert!(!has_word(
        &code_of(&format!("    let s = \"{word}\";")),
        word
    ));
    assert_eq!(unquoted(r#"f("a\"b", "de") // g"#), "f(, ) // g");
    let text = [
        "impl X {",
        "    fn f(",
        "        a: u8,",
        "    ) {",
        "        a;",
        "    }",
        "}",
    ];
    assert_eq!(functions(&text), [(1, 5)]);
    assert_eq!(functions(&["pub(super) fn f() {", "    a;", "}"]), [(0, 3)]);
    assert_eq!(functions(&["fn declared();", "fn short() {}"]), []);
}
