//! Counts of names, doc comments and heads, with bounds that may only fall.
//! `cargo test -p inrush-tests --test tidy -- words --nocapture` prints them.

use std::collections::BTreeMap;

use crate::code::{Code, of_folder};
use crate::{crates, none, root};

/// Share of type names that are one word, in per cent.
const ONE_WORD: f64 = 11.9;
/// Share of types whose name three or more types have, in per cent.
const SHARED: f64 = 0.1;
/// Share of doc comments that open with a question word, in per cent.
const QUESTIONS: f64 = 1.0;
/// Source files of more lines than [`LONG`] whose head is shorter than [`HEAD`].
const HEADLESS: usize = 0;

/// Lines from which on a file needs a head that is a contract.
const LONG: usize = 350;
/// Lines that such a head has at least.
const HEAD: usize = 5;

/// Words that ask rather than name.
const ASKING: [&str; 9] = [
    "what", "who", "whose", "whether", "how", "where", "when", "which", "why",
];

/// Every source file of the product, of the bench and of the simulation.
fn sources() -> Vec<Code> {
    let folders =
        ["src", "bench/src", "bench/harness/src", "sim/src"].map(|folder| root().join(folder));
    let crates = crates().map(|name| root().join("crates").join(name).join("src"));
    let folders = folders.into_iter().chain(crates);
    folders.flat_map(|folder| of_folder(&folder)).collect()
}

/// The name of the type that a line of code defines.
fn type_name(line: &str) -> Option<&str> {
    let associated = line.starts_with(' ') && line.trim_start().starts_with("type ");
    let rest = line.trim_start();
    let rest = rest.strip_prefix("pub").map_or(rest, |rest| {
        let inner = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        inner.map_or(rest, |(_, rest)| rest).trim_start()
    });
    let kinds = ["struct ", "enum ", "union ", "trait ", "type "];
    let name = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = &name[..end.unwrap_or(name.len())];
    let named = name.starts_with(|c: char| c.is_ascii_uppercase());
    (named && !associated).then_some(name)
}

fn is_one_word(name: &str) -> bool {
    name.chars().filter(char::is_ascii_uppercase).count() == 1
}

/// The first word of each doc comment.
fn first_words(file: &Code) -> impl Iterator<Item = String> {
    let text = |line: &str| {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or(line.strip_prefix("//!"));
        text.map(|text| text.trim_start().to_owned())
    };
    let mut before = false;
    let lines = file.raw.iter().filter_map(move |line| {
        let comment = text(line);
        let first = comment.clone().filter(|_| !before);
        before = comment.is_some();
        first
    });
    let word = |text: String| {
        let word = text.split(|c: char| !c.is_alphabetic()).next();
        word.unwrap_or_default().to_lowercase()
    };
    lines.map(word).collect::<Vec<_>>().into_iter()
}

/// Lines of a file's head.
fn head(file: &Code) -> usize {
    let lines = file.raw.iter().skip_while(|line| line.starts_with("#!["));
    lines.take_while(|line| line.starts_with("//!")).count()
}

/// True if a file needs a longer head.
fn is_headless(file: &Code) -> bool {
    file.all > LONG && head(file) < HEAD
}

fn share(part: usize, all: usize) -> f64 {
    part as f64 * 100.0 / all.max(1) as f64
}

/// Fault of a count whose bound may only fall; `slack` is how far below it may be.
fn against(what: &str, count: f64, bound: f64, slack: f64) -> Option<String> {
    if count > bound {
        return Some(format!("{what}: {count:.1}, at most {bound:.1}"));
    }
    (bound - count > slack).then(|| format!("{what}: {count:.1}: lower the bound of {bound:.1}"))
}

#[test]
fn words_are_those_of_the_field() {
    let sources = sources();
    let lines = sources.iter().flat_map(|file| &file.lines);
    let names: Vec<&str> = lines.filter_map(|line| type_name(line)).collect();
    let one_word = names.iter().filter(|name| is_one_word(name)).count();
    let mut of_name = BTreeMap::<&str, usize>::new();
    names
        .iter()
        .for_each(|name| *of_name.entry(name).or_default() += 1);
    let shared = of_name.values().filter(|count| **count >= 3).sum();
    let words: Vec<String> = sources.iter().flat_map(first_words).collect();
    let asking = words.iter().filter(|word| ASKING.contains(&word.as_str()));
    let headless = sources.iter().filter(|file| is_headless(file));
    let findings = [
        against(
            "type names of one word, %",
            share(one_word, names.len()),
            ONE_WORD,
            0.2,
        ),
        against(
            "types that share a name, %",
            share(shared, names.len()),
            SHARED,
            0.2,
        ),
        against(
            "doc comments that ask, %",
            share(asking.count(), words.len()),
            QUESTIONS,
            0.2,
        ),
        against(
            "long files without a head",
            headless.count() as f64,
            HEADLESS as f64,
            0.0,
        ),
    ];
    none(&findings.into_iter().flatten().collect::<Vec<_>>());
}

#[test]
fn words_are_counted() {
    assert_eq!(type_name("pub(crate) struct One<T> {"), Some("One"));
    assert_eq!(type_name("enum TwoWords {"), Some("TwoWords"));
    assert_eq!(type_name("pub type Three = u8;"), Some("Three"));
    assert_eq!(type_name("    type Output = u8;"), None);
    assert_eq!(type_name("fn structure() {"), None);
    assert!(is_one_word("One") && !is_one_word("TwoWords"));
    let text = "//! Which is it\n\n/// What it is,\n/// where.\nfn f() {}\n    /// `A` thing.\n";
    let file = Code::of_text(text);
    assert_eq!(
        first_words(&file).collect::<Vec<_>>(),
        ["which", "what", ""]
    );
    assert_eq!(head(&file), 1);
    let long = |head: usize| "//! A\n".repeat(head) + &"x\n".repeat(LONG - head + 1);
    assert!(is_headless(&Code::of_text(&long(HEAD - 1))));
    assert!(!is_headless(&Code::of_text(&long(HEAD))));
    assert!(!is_headless(&Code::of_text(&"x\n".repeat(LONG))));
    assert_eq!(against("a", 2.0, 2.1, 0.2), None);
    assert!(against("a", 2.2, 2.1, 0.2).is_some() && against("a", 1.0, 2.1, 0.2).is_some());
}
