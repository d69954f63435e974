//! Problems of a configuration, each with its place and its remedy.

use std::fmt;

/// A place in the file; both numbers start at 1, columns count characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Location {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Location {
    /// The first character of the file.
    pub const START: Self = Self { line: 1, column: 1 };

    /// The place of the byte at `offset`, which must be a character's first.
    pub fn of_byte(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// One thing that is wrong: where, what, and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileProblem {
    /// The file, as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The error; then what to do.
    pub message: String,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            column,
            message,
        } = self;
        write!(f, "{file}:{line}:{column}: {message}")
    }
}

/// All that is wrong with a configuration, in the order of the file; never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileProblems(Vec<FileProblem>);

impl FileProblems {
    /// Problems of several files together.
    pub fn join(self, other: Self) -> Self {
        Self(self.0.into_iter().chain(other.0).collect())
    }

    /// The problems in the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, FileProblem> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a FileProblems {
    type Item = &'a FileProblem;
    type IntoIter = std::slice::Iter<'a, FileProblem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for FileProblems {
    /// One problem a line, without a line end after the last.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for FileProblems {}

/// Problems listed at most: enough to mend a file in one go, and a bound for a hostile one.
const PROBLEMS_MAX: usize = 200;

/// Collects what is found while a file is read and checked.
#[derive(Default)]
pub struct Findings {
    list: Vec<(Location, String)>,
}

impl Findings {
    /// Adds a problem; what is beyond the most that are listed is not.
    pub fn add(&mut self, at: Location, message: impl Into<String>) {
        if self.list.len() < PROBLEMS_MAX {
            self.list.push((at, one_line(&message.into())));
        }
    }

    /// True if nothing was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// `Ok` if nothing was found.
    pub fn into_result(self, file: &str) -> Result<(), FileProblems> {
        if self.list.is_empty() {
            Ok(())
        } else {
            Err(self.into_problems(file))
        }
    }

    /// Problems found, in the order of the file.
    pub fn into_problems(mut self, file: &str) -> FileProblems {
        self.list.sort_by_key(|(at, _)| *at);
        self.list.dedup();
        let problem = |(at, message): (Location, String)| FileProblem {
            file: one_line(file),
            line: at.line,
            column: at.column,
            message,
        };
        FileProblems(self.list.into_iter().map(problem).collect())
    }
}

/// A problem is one line whatever it quotes, and a terminal sees no control characters of it.
fn one_line(message: &str) -> String {
    let plain = |c: char| {
        if inrush_event::is_unprintable(c) {
            '\u{fffd}'
        } else {
            c
        }
    };
    message.chars().map(plain).collect()
}

/// Quotes what someone wrote, cut where it would fill the screen.
pub fn quoted(text: &str) -> String {
    const SHOWN_CHARS: usize = 80;
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// The candidate that `written` was probably meant to be.
pub fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let written = written.to_ascii_lowercase().replace('-', "_");
    // Comparing costs length × length: nothing as long as this is a misspelt option.
    if written.len() > 64 {
        return None;
    }
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&written, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `a`, `b` or `c`.
pub fn listed<'a>(words: impl IntoIterator<Item = &'a str>, last_joint: &str) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, others)) => format!("{} {last_joint} {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_from_one() {
        assert_eq!(Location::of_byte("", 0), Location::START);
        assert_eq!(
            Location::of_byte("é: b\nüx", 8),
            Location { line: 2, column: 2 }
        );
    }

    #[test]
    fn the_nearest_word_is_a_near_one() {
        let keys = ["listen", "tls", "max_message_bytes"];
        assert_eq!(nearest("lsiten", keys), Some("listen"));
        assert_eq!(nearest("Listen", keys), Some("listen"));
        assert_eq!(nearest("max-message-size", keys), Some("max_message_bytes"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest(&"l".repeat(1_000_000), keys), None);
    }

    #[test]
    fn problems_come_in_the_order_of_the_file_and_on_one_line_each() {
        let mut findings = Findings::default();
        findings.add(Location { line: 2, column: 1 }, "second\nline \u{1b}[31m");
        findings.add(Location { line: 1, column: 9 }, "first");
        findings.add(Location { line: 1, column: 9 }, "first");
        let text = findings.into_problems("a.yaml").to_string();
        assert_eq!(
            text,
            "a.yaml:1:9: first\na.yaml:2:1: second\u{fffd}line \u{fffd}[31m"
        );
    }
}
