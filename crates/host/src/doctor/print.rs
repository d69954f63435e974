//! The report for the eye: the worst first, each with the command to copy.

use std::io::{self, Write};

use super::finding::{Finding, Severity};
use crate::rate::SafeRate;

/// Columns that text is wrapped at; commands are not, for they are copied.
const COLUMNS: usize = 100;

/// Column at which the text of a finding begins.
const INDENT: usize = 10;

/// Column at which it begins in the list of what is well, behind the ids.
const INDENT_OK: usize = 30;

/// Each severity with its heading, the worst first.
const SECTIONS: [(Severity, &str); 3] = [
    (Severity::Critical, "CRITICAL"),
    (Severity::Warn, "WARNING"),
    (Severity::Info, "NOTE"),
];

/// Writes all findings, which are sorted already, below the rate, where it was measured.
pub(super) fn write(
    findings: &[Finding],
    rate: Option<&SafeRate>,
    out: &mut impl Write,
) -> io::Result<()> {
    let of = |severity| findings.iter().filter(move |f| f.severity == severity);
    let count = |severity| of(severity).count();
    writeln!(
        out,
        "{} critical, {} warnings, {} notes, {} as they should be",
        count(Severity::Critical),
        count(Severity::Warn),
        count(Severity::Info),
        count(Severity::Ok),
    )?;
    if let Some(rate) = rate {
        writeln!(out, "safe rate: {}", rate.line())?;
        writeln!(out, "           {}", rate.costs_line())?;
    }
    for (severity, heading) in SECTIONS {
        for finding in of(severity) {
            writeln!(
                out,
                "\n{heading}  {}  ({})",
                finding.id,
                finding.layer.name()
            )?;
            details(finding, out)?;
        }
    }
    if count(Severity::Ok) > 0 {
        writeln!(out, "\nAS IT SHOULD BE")?;
    }
    for finding in of(Severity::Ok) {
        wrapped(&finding.id, &finding.found, INDENT_OK, out)?;
    }
    Ok(())
}

fn details(finding: &Finding, out: &mut impl Write) -> io::Result<()> {
    wrapped("found", &finding.found, INDENT, out)?;
    wrapped("wanted", &finding.wanted, INDENT, out)?;
    wrapped("why", &finding.why, INDENT, out)?;
    if let Some(lost) = finding.lost_now.filter(|lost| *lost > 0) {
        wrapped(
            "lost",
            &format!("{lost} since the counter began"),
            INDENT,
            out,
        )?;
    }
    match &finding.command {
        Some(command) => writeln!(out, "  {:<8}{command}", "run"),
        None => Ok(()),
    }
}

/// A name and a text beside it, or below it where the name is long.
fn wrapped(name: &str, text: &str, indent: usize, out: &mut impl Write) -> io::Result<()> {
    write!(out, "  {name}")?;
    let mut column = 2 + name.len();
    if column >= indent {
        column = COLUMNS;
    } else {
        write!(out, "{:width$}", "", width = indent - column)?;
        column = indent;
    }
    for word in text.split(' ') {
        let width = word.chars().count();
        if column + width >= COLUMNS {
            write!(out, "\n{:indent$}", "")?;
            column = indent;
        } else if column > indent {
            write!(out, " ")?;
            column += 1;
        }
        write!(out, "{word}")?;
        column += width;
    }
    writeln!(out)
}
