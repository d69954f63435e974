//! SQL dialect of DataFusion. Nothing else in the translation writes a quote, a function's name or
//! a literal. So this is the place to change for another version. Everything that comes from a
//! query goes into SQL through [`name`], [`text`] or a number's own `Display`.

use inrush_event::limits::QUERY_BUCKET_MS_MAX;
use jiff::Timestamp;

use super::super::ast::{PatternPiece, Statistic, TimeBucket, Unit, WildcardPattern};
use super::super::field::{ColumnType, EventColumn, QueryField};

/// The table of all events, in quotes.
pub(super) const TABLE: &str = "\"events\"";

/// The column of what has no column of its own.
pub(super) const FIELDS: &str = "fields";

/// A name in quotes.
pub(super) fn name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in quotes. Backslashes stand for themselves.
pub(super) fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// SQL for the value of a field, `NULL` if the event has none.
pub(super) fn value(field: &QueryField) -> String {
    match field {
        QueryField::Column(column) => name(column.name()),
        QueryField::Key(key) => format!("{}[{}]", name(FIELDS), text(key)),
    }
}

/// SQL condition that the raw text contains this, whatever its case.
pub(super) fn has(needle: &str) -> String {
    format!("has({}, {})", name(EventColumn::Raw.name()), text(needle))
}

/// SQL condition that the raw text contains the pattern, whatever its case.
pub(super) fn raw_like(pattern: &WildcardPattern) -> String {
    let pattern = text(&format!("%{}%", like_pattern(pattern)));
    format!("{} ILIKE {pattern}", name(EventColumn::Raw.name()))
}

/// SQL condition that all of a value is as the pattern says; with `negated`, that it is not.
pub(super) fn like(
    value: &str,
    pattern: &WildcardPattern,
    as_typed: bool,
    negated: bool,
) -> String {
    let like = if as_typed { "LIKE" } else { "ILIKE" };
    let not = if negated { "NOT " } else { "" };
    format!("{value} {not}{like} {}", text(&like_pattern(pattern)))
}

/// SQL condition that one of the values of a key is as one of the patterns says, whatever its case;
/// `NULL` if there is none. A sender may give a parameter several times (RFC 5424 section 6.3.3).
pub(super) fn field_is<'p>(
    key: &str,
    patterns: impl Iterator<Item = &'p WildcardPattern>,
) -> String {
    let patterns: Vec<String> = patterns.map(|one| text(&like_pattern(one))).collect();
    format!(
        "field_is({}, {}, {})",
        name(FIELDS),
        text(key),
        patterns.join(", ")
    )
}

/// A pattern of `LIKE`, whose escape is the backslash.
fn like_pattern(pattern: &WildcardPattern) -> String {
    let mut like = String::new();
    for piece in pattern.pieces() {
        match piece {
            PatternPiece::Any => like.push('%'),
            PatternPiece::One => like.push('_'),
            PatternPiece::Literal(literal) => {
                for c in literal.chars() {
                    if matches!(c, '%' | '_' | '\\') {
                        like.push('\\');
                    }
                    like.push(c);
                }
            }
        }
    }
    like
}

/// A value with its case taken away as [`str::to_lowercase`] does, which is what `lower` is.
pub(super) fn lower(value: &str) -> String {
    format!("lower({value})")
}

/// A point in time, in nanoseconds since 1970.
pub(super) fn time(ns: i64) -> String {
    // Every i64 of nanoseconds is a year between 1677 and 2262, all of which jiff has.
    let time = Timestamp::from_nanosecond(i128::from(ns)).unwrap_or_default();
    format!("TIMESTAMP {}", text(&time.to_string()))
}

/// The stretch of time in which an event lies, by its beginning.
pub(super) fn bucket(width: TimeBucket) -> String {
    let unit = match width.unit {
        Unit::Second => "seconds",
        Unit::Minute => "minutes",
        Unit::Hour => "hours",
        Unit::Day => "days",
    };
    bin(&format!("{} {unit}", width.count))
}

/// The same for a width in milliseconds.
pub(super) fn bucket_ms(width_ms: u64) -> String {
    let width_ms = width_ms.clamp(1, QUERY_BUCKET_MS_MAX);
    bin(&format!("{width_ms} milliseconds"))
}

fn bin(width: &str) -> String {
    let time = name(EventColumn::Time.name());
    format!("date_bin(INTERVAL {}, {time})", text(width))
}

/// A text as a number, `NULL` if it is none.
pub(super) fn number(value: &str) -> String {
    format!("TRY_CAST({value} AS DOUBLE)")
}

/// A finite number as SQL.
pub(super) fn double(number: f64) -> String {
    format!("{number:?}")
}

/// SQL for a function of a field, and the type of its result.
pub(super) fn statistic(statistic: Statistic, field: &QueryField) -> (String, ColumnType) {
    let value = value(field);
    let numbers = match field.kind() {
        ColumnType::Number => format!("CAST({value} AS DOUBLE)"),
        _ => finite(&number(&value)),
    };
    let sql = match statistic {
        Statistic::Sum => format!("sum({numbers})"),
        Statistic::Avg => format!("avg({numbers})"),
        Statistic::P50 => percentile(&numbers, "0.5"),
        Statistic::P90 => percentile(&numbers, "0.9"),
        Statistic::P95 => percentile(&numbers, "0.95"),
        Statistic::P99 => percentile(&numbers, "0.99"),
        Statistic::Dc => format!("count(DISTINCT {value})"),
        Statistic::Min | Statistic::Max => {
            // A column has values of one kind; a key of `fields` is text that may be a number.
            return match field {
                QueryField::Column(column) => {
                    (format!("{}({value})", statistic.name()), column.kind())
                }
                QueryField::Key(_) => (
                    format!("{}({numbers})", statistic.name()),
                    ColumnType::Number,
                ),
            };
        }
    };
    (sql, ColumnType::Number)
}

fn percentile(numbers: &str, part: &str) -> String {
    format!("approx_percentile_cont({part}) WITHIN GROUP (ORDER BY {numbers})")
}

/// `NULL` for NaN and the infinities: any sender can write those, and one of them would make a sum
/// of a million numbers nothing. NaN is greater than every number here.
fn finite(number: &str) -> String {
    format!(
        "CASE WHEN abs({number}) <= {:?} THEN {number} END",
        f64::MAX
    )
}

/// SQL that comes before a field itself in `ORDER BY`. A key of `fields` is text, and numbers among
/// texts come in the order of numbers, before all others.
///
/// DataFusion 55 sets the form. Where events are grouped by the field it has to be an aggregate (of
/// values that are all the same): an expression over the column would make it drop the keys
/// behind, as if that told all groups apart. Where they are not it has to be simple: with a `CASE`
/// over several partitions the plan fails its own check. So NaN comes first or last there.
pub(super) fn order_number(field: &QueryField, grouped: bool) -> Option<String> {
    let QueryField::Key(_) = field else {
        return None;
    };
    let number = number(&value(field));
    Some(if grouped {
        format!("max({})", finite(&number))
    } else {
        number
    })
}

/// A key of `ORDER BY`; what is not there comes last either way.
pub(super) fn by(column: &str, descending: bool) -> String {
    let direction = if descending { "DESC" } else { "ASC" };
    format!("{column} {direction} NULLS LAST")
}
