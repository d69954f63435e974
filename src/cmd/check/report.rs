//! Findings of `inrush check`, as lines on stderr or as one JSON document.

use std::fmt;
use std::io::{self, Write};

use inrush_config::FileProblem;
use serde::Serialize;

use super::super::configuration::ConfigOrigin;

/// Findings about one configuration.
#[derive(Serialize)]
pub(super) struct CheckReport {
    /// The configuration, as it was named.
    file: String,
    /// Reasons that it cannot be used.
    pub(super) problems: Vec<CheckNote>,
    /// Oddities that do not prevent a start.
    pub(super) warnings: Vec<CheckNote>,
}

/// One finding.
#[derive(Serialize)]
pub(super) struct CheckNote {
    file: String,
    /// Line and column from 1; absent where it is about the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    message: String,
}

/// The document that `--json` prints.
#[derive(Serialize)]
struct CheckDocument<'a> {
    ok: bool,
    #[serde(flatten)]
    report: &'a CheckReport,
}

impl CheckReport {
    /// Nothing found yet.
    pub(super) fn new(origin: &ConfigOrigin) -> Self {
        Self {
            file: origin.to_string(),
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// A finding about the configuration as a whole.
    pub(super) fn note(&self, message: String) -> CheckNote {
        CheckNote {
            file: self.file.clone(),
            line: None,
            column: None,
            message,
        }
    }

    /// True if there is no problem.
    pub(super) fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }

    /// Prints what was found: `--json` all of it to `out`, else findings to stderr.
    pub(super) fn write(&self, json: bool, out: &mut impl Write) -> io::Result<()> {
        let ok = self.is_ok();
        if json {
            let document = CheckDocument { ok, report: self };
            return writeln!(out, "{}", serde_json::to_string(&document)?);
        }
        for warning in &self.warnings {
            let (place, message) = (warning.place(), &warning.message);
            eprintln!("{place}: warning: {message}");
        }
        self.problems
            .iter()
            .for_each(|problem| eprintln!("{problem}"));
        match ok {
            true => writeln!(out, "{}: ok", self.file),
            false => Ok(()),
        }
    }
}

impl CheckNote {
    /// A finding at a line and a column of a file.
    pub(super) fn at(file: String, (line, column): (usize, usize), message: String) -> Self {
        Self {
            file,
            line: Some(line),
            column: Some(column),
            message,
        }
    }

    fn place(&self) -> String {
        match (self.line, self.column) {
            (Some(line), Some(column)) => format!("{}:{line}:{column}", self.file),
            _ => self.file.clone(),
        }
    }
}

impl From<&FileProblem> for CheckNote {
    fn from(problem: &FileProblem) -> Self {
        let at = (problem.line, problem.column);
        Self::at(problem.file.clone(), at, problem.message.clone())
    }
}

impl fmt::Display for CheckNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.message)
    }
}
