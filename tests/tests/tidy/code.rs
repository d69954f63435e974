//! Rust source as the rules see it: without comments, texts and tests.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{code_of, root};

/// Code of one file of a crate.
pub(crate) struct Code {
    pub(crate) path: PathBuf,
    /// The modules that lead to it from the crate's root, itself the last; empty for `lib.rs`.
    pub(crate) modules: Vec<String>,
    /// Lines of the whole file.
    pub(crate) all: usize,
    /// Its lines without the tests at the end.
    pub(crate) raw: Vec<String>,
    /// The same without comments and texts.
    pub(crate) lines: Vec<String>,
}

impl Code {
    fn new(modules: Vec<String>, text: &str, path: PathBuf) -> Self {
        let raw: Vec<String> = without_tests(text).map(str::to_owned).collect();
        Self {
            path,
            modules,
            all: text.lines().count(),
            lines: raw.iter().map(|line| code_of(line)).collect(),
            raw,
        }
    }

    /// A file that is nowhere.
    pub(crate) fn of_text(text: &str) -> Self {
        Self::new(Vec::new(), text, PathBuf::new())
    }

    /// Lines that are not blank.
    pub(crate) fn count(&self) -> usize {
        let lines = self.lines.iter();
        lines.filter(|line| !line.trim().is_empty()).count()
    }
}

/// Every file of a crate but its tests, in order.
pub(crate) fn of_crate(name: &str) -> Vec<Code> {
    of_folder(&root().join("crates").join(name).join("src"))
}

/// The same of a folder with a crate's source.
pub(crate) fn of_folder(source: &Path) -> Vec<Code> {
    let mut found = Vec::new();
    let mut folders = vec![source.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() && stem != "tests" {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") && !stem.ends_with("tests") {
                found.push(code(source, path));
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn code(source: &Path, path: PathBuf) -> Code {
    let inside = path.strip_prefix(source).unwrap().with_extension("");
    let parts = inside.iter().map(|part| part.to_str().unwrap().to_owned());
    let modules = parts.filter(|part| !["mod", "lib", "main"].contains(&part.as_str()));
    let text = fs::read_to_string(&path).unwrap();
    Code::new(modules.collect(), &text, path)
}

/// The lines up to the module of tests that is written out at the end.
fn without_tests(text: &str) -> impl Iterator<Item = &str> {
    let lines: Vec<&str> = text.lines().collect();
    let mut marked = false;
    let end = lines.iter().position(|line| {
        let found = marked && line.starts_with("mod ") && line.ends_with('{');
        marked = *line == "#[cfg(test)]" || marked && line.starts_with("#[");
        found
    });
    lines.into_iter().take(end.unwrap_or(usize::MAX))
}

/// The modules of its own crate that a file names, by `crate::` or `super::`, and the lines.
pub(crate) fn named_modules(code: &Code) -> Vec<(String, usize)> {
    let text = code.lines.join("\n");
    let mut found = Vec::new();
    let mut at = 0;
    while let Some((begin, prefix)) = next_path(&text, at) {
        let mut rest = begin + prefix.len();
        let mut up = code.modules.len();
        if prefix == "super::" {
            up = 1;
            while text[rest..].starts_with(prefix) {
                rest += prefix.len();
                up += 1;
            }
        }
        at = rest;
        if up != code.modules.len() {
            continue;
        }
        let line = text[..begin].matches('\n').count();
        let names = first_names(&text[rest..]);
        found.extend(names.into_iter().map(|name| (name, line)));
    }
    found
}

/// The next `crate::` or `super::` that is a word of its own.
fn next_path(text: &str, from: usize) -> Option<(usize, &'static str)> {
    let found = ["crate::", "super::"].into_iter().filter_map(|prefix| {
        let mut places = text[from..].match_indices(prefix).map(|(at, _)| from + at);
        let alone = |at: &usize| {
            let before = text[..*at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '$'))
        };
        places.find(alone).map(|at| (at, prefix))
    });
    found.min()
}

/// The name that a path goes on with, or those in its braces.
fn first_names(text: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        let word = text.trim_start().chars();
        word.take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    let Some(inner) = text.strip_prefix('{') else {
        return vec![word(text)];
    };
    let (mut depth, mut names, mut begin) = (0, Vec::new(), 0);
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.push(word(&inner[begin..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(word(&inner[begin..at]));
                begin = at + 1;
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[test]
fn modules_are_found_however_they_are_named() {
    let file = |modules: &[&str], text: &str| {
        let modules = modules.iter().map(|&name| name.to_owned());
        Code::new(modules.collect(), text, PathBuf::new())
    };
    let names = |code: &Code| named_modules(code);
    let one = file(&["a"], "use crate::b::C;\nuse super::d;\n// crate::e\n");
    assert_eq!(names(&one), [("b".to_owned(), 0), ("d".to_owned(), 1)]);
    let deep = file(
        &["a", "b"],
        "use super::c;\nuse super::super::{\n    d, e::{F, g},\n    h,\n};\n$crate::i!();\n",
    );
    let named: Vec<String> = names(&deep).into_iter().map(|(name, _)| name).collect();
    assert_eq!(named, ["d", "e", "h"]);
    let tests = "fn f() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n    use crate::b;\n}\n";
    assert_eq!(names(&file(&["a"], tests)), []);
    assert_eq!(file(&["a"], tests).count(), 3);
}
