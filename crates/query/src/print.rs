//! Prints a query as it could have been typed: what was implied is written out, and parsing it
//! again gives the same query.

use std::fmt::{self, Display, Formatter, Write};

use jiff::Timestamp;

use super::ast::{
    Aggregate, AggregateFunction, Comparison, FilterExpr, FilterValue, GroupKey, PatternPiece,
    Query, QueryStage, SortColumn, SortKey, TimeBucket, WildcardPattern,
};
use super::cursor::is_plain_name;
use super::field::{EventColumn, QueryField};
use super::filter::{KEYWORDS, ends_word};

impl Display for Query {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.filter)?;
        for stage in &self.stages {
            write!(f, " | {stage}")?;
        }
        Ok(())
    }
}

impl Display for FilterExpr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            FilterExpr::All => f.write_char('*'),
            FilterExpr::And(parts) => joined(f, parts, " ", within),
            FilterExpr::Or(parts) => joined(f, parts, " OR ", within),
            FilterExpr::Not(inner) => {
                f.write_str("NOT ")?;
                within(f, inner)
            }
            FilterExpr::Text(pattern) => text(f, pattern),
            FilterExpr::Present(field) => write!(f, "{field}=*"),
            FilterExpr::Compare(comparison) => write!(f, "{comparison}"),
        }
    }
}

/// A condition inside of another.
fn within(f: &mut Formatter<'_>, expr: &FilterExpr) -> fmt::Result {
    if expr.is_list() {
        write!(f, "({expr})")
    } else {
        write!(f, "{expr}")
    }
}

fn joined<T>(
    f: &mut Formatter<'_>,
    parts: &[T],
    between: &str,
    print: impl Fn(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            f.write_str(between)?;
        }
        print(f, part)?;
    }
    Ok(())
}

/// A word or phrase. What has a wildcard was a bare word and can be one again.
fn text(f: &mut Formatter<'_>, pattern: &WildcardPattern) -> fmt::Result {
    if let Some(literal) = pattern.as_literal()
        && !is_bare_text(literal)
    {
        return quoted(f, literal);
    }
    // A dash at the start would negate; a wildcard before it changes nothing.
    let dash = |text: &str| text.starts_with('-');
    if pattern.literals().next().is_some_and(dash) {
        f.write_char('*')?;
    }
    bare(f, pattern)
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.field, self.relation.sign())?;
        let print = |f: &mut Formatter<'_>, value: &FilterValue| self.value(f, value);
        if let [only] = self.values.as_slice() {
            return print(f, only);
        }
        f.write_char('(')?;
        joined(f, &self.values, " OR ", print)?;
        f.write_char(')')
    }
}

impl Comparison {
    fn value(&self, f: &mut Formatter<'_>, value: &FilterValue) -> fmt::Result {
        match value {
            FilterValue::Text(pattern) => match pattern.as_literal() {
                Some(literal) if !is_bare_value(literal) => quoted(f, literal),
                _ => bare(f, pattern),
            },
            // The shortest digits that are read as the same number.
            FilterValue::Number(number) => write!(f, "{number:?}"),
            FilterValue::Code(code) => match self.field {
                QueryField::Column(column) => f.write_str(column.code_name(*code)),
                QueryField::Key(_) => write!(f, "{code}"),
            },
            FilterValue::Time(ns) => write!(
                f,
                "{}",
                Timestamp::from_nanosecond(i128::from(*ns)).unwrap_or_default()
            ),
        }
    }
}

impl Display for QueryField {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = self.label();
        // What begins with a digit could be a stretch of time.
        let digit = name.starts_with(|c: char| c.is_ascii_digit());
        let plain = is_plain_name(&name) && !name.starts_with('-') && !digit;
        if plain {
            f.write_str(&name)
        } else {
            quoted(f, &name)
        }
    }
}

impl Display for QueryStage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            QueryStage::Aggregate(table) => write!(f, "{table}"),
            QueryStage::Top { rows, field } => write!(f, "top {rows} {field}"),
            QueryStage::Sort(keys) => {
                f.write_str("sort ")?;
                joined(f, keys, ", ", |f, key| write!(f, "{key}"))
            }
            QueryStage::Head(rows) => write!(f, "head {rows}"),
        }
    }
}

impl Display for Aggregate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        joined(f, &self.functions, ", ", |f, function| {
            write!(f, "{function}")
        })?;
        if self.by.is_empty() {
            return Ok(());
        }
        f.write_str(" by ")?;
        joined(f, &self.by, ", ", |f, by| write!(f, "{by}"))
    }
}

impl Display for AggregateFunction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            AggregateFunction::Count => f.write_str("count"),
            AggregateFunction::Of(statistic, field) => write!(f, "{}({field})", statistic.name()),
        }
    }
}

impl Display for GroupKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            GroupKey::Field(field) => write!(f, "{field}"),
            GroupKey::Width(width) => write!(f, "{width}"),
        }
    }
}

impl Display for TimeBucket {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.count, self.unit.letter())
    }
}

impl Display for SortKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.descending {
            f.write_char('-')?;
        }
        match &self.column {
            SortColumn::Function(function) => write!(f, "{function}"),
            SortColumn::Field(field) => write!(f, "{field}"),
            SortColumn::Bucket => f.write_str(EventColumn::Time.name()),
        }
    }
}

fn bare(f: &mut Formatter<'_>, pattern: &WildcardPattern) -> fmt::Result {
    joined(f, pattern.pieces(), "", |f, piece| match piece {
        PatternPiece::Literal(text) => f.write_str(text),
        PatternPiece::Any => f.write_char('*'),
        PatternPiece::One => f.write_char('?'),
    })
}

/// In quotes, as [`super::cursor::TextCursor::quoted`] reads it.
fn quoted(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            f.write_char('\\')?;
        }
        f.write_char(c)?;
    }
    f.write_char('"')
}

/// True if a text to look for means the same without quotes.
fn is_bare_text(text: &str) -> bool {
    let special = |c: char| ends_word(c) || matches!(c, '*' | '=' | '<' | '>');
    !text.is_empty()
        && !text.contains(special)
        && !text.starts_with('-')
        && !KEYWORDS.contains(&text)
}

/// True if a value means the same without quotes, also in a list.
fn is_bare_value(text: &str) -> bool {
    let special = |c: char| ends_word(c) || matches!(c, '*' | '?' | ',');
    !text.is_empty()
        && !text.contains(special)
        && !text.starts_with(['=', '<', '>'])
        && !text.starts_with("!=")
        && !KEYWORDS.contains(&text)
}
