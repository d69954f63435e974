//! Conditions as SQL. What an expression gives is true where the event meets the condition; where
//! it does not, it may be `NULL` instead of false, so a negation asks for `IS NOT TRUE`.

use super::super::ast::{Comparison, ComparisonOperator, FilterExpr, FilterValue, WildcardPattern};
use super::super::field::{EventColumn, QueryField};
use super::{QueryRange, dialect};

/// Conditions that are written beside each other. More are put into groups of so many: a parser
/// makes a chain into a tree as deep as it is long.
const CHAIN_MAX: usize = 32;

/// SQL, and how tightly it holds together.
#[derive(Debug, Clone)]
pub(super) struct SqlCondition {
    sql: String,
    form: SqlPrecedence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SqlPrecedence {
    /// A call: needs no parentheses anywhere.
    Call,
    /// A comparison, or a negation.
    Single,
    And,
    Or,
}

impl SqlCondition {
    fn new(sql: impl Into<String>, form: SqlPrecedence) -> Self {
        Self {
            sql: sql.into(),
            form,
        }
    }

    /// The SQL as part of an expression of `form`.
    fn within(&self, form: SqlPrecedence) -> String {
        let tight = match self.form {
            SqlPrecedence::Call => true,
            SqlPrecedence::Single => matches!(form, SqlPrecedence::And | SqlPrecedence::Or),
            SqlPrecedence::And | SqlPrecedence::Or => self.form == form,
        };
        if tight {
            self.sql.clone()
        } else {
            format!("({})", self.sql)
        }
    }
}

/// The bounds of time that a range sets.
pub(super) fn time_range(range: &QueryRange) -> Vec<SqlCondition> {
    let time = dialect::name(EventColumn::Time.name());
    let bound = |sign: &str, ns: i64| {
        SqlCondition::new(
            format!("{time} {sign} {}", dialect::time(ns)),
            SqlPrecedence::Single,
        )
    };
    let from = (range.from_ns != i64::MIN).then(|| bound(">=", range.from_ns));
    let to = (range.to_ns != i64::MAX).then(|| bound("<", range.to_ns));
    from.into_iter().chain(to).collect()
}

/// The conditions that all have to be met.
pub(super) fn conjuncts(expr: &FilterExpr) -> Vec<SqlCondition> {
    match expr {
        FilterExpr::All => Vec::new(),
        FilterExpr::And(parts) => parts.iter().map(condition).collect(),
        other => vec![condition(other)],
    }
}

/// All of them, as what stands behind `WHERE`.
pub(super) fn all_of(conditions: &[SqlCondition]) -> String {
    if conditions.is_empty() {
        return "TRUE".to_owned();
    }
    chain(conditions, SqlPrecedence::And).sql
}

fn condition(expr: &FilterExpr) -> SqlCondition {
    match expr {
        FilterExpr::All => SqlCondition::new("TRUE", SqlPrecedence::Call),
        FilterExpr::And(parts) => chain(
            &parts.iter().map(condition).collect::<Vec<_>>(),
            SqlPrecedence::And,
        ),
        FilterExpr::Or(parts) => chain(
            &parts.iter().map(condition).collect::<Vec<_>>(),
            SqlPrecedence::Or,
        ),
        FilterExpr::Not(inner) => not(inner),
        FilterExpr::Text(pattern) => contains(pattern),
        FilterExpr::Present(field) => SqlCondition::new(
            format!("{} IS NOT NULL", dialect::value(field)),
            SqlPrecedence::Single,
        ),
        FilterExpr::Compare(comparison) => compare(comparison),
    }
}

/// Joins by `AND` or `OR`, as a tree that is no deeper than it has to be.
fn chain(conditions: &[SqlCondition], form: SqlPrecedence) -> SqlCondition {
    if let [only] = conditions {
        return only.clone();
    }
    if conditions.len() > CHAIN_MAX {
        let groups: Vec<SqlCondition> = conditions
            .chunks(CHAIN_MAX)
            // As if it were a call: the parentheses are what this is for.
            .map(|group| chain(group, form))
            .map(|group| SqlCondition::new(format!("({})", group.sql), SqlPrecedence::Call))
            .collect();
        return chain(&groups, form);
    }
    let word = if form == SqlPrecedence::And {
        " AND "
    } else {
        " OR "
    };
    let parts: Vec<String> = conditions.iter().map(|c| c.within(form)).collect();
    SqlCondition::new(parts.join(word), form)
}

fn not(inner: &FilterExpr) -> SqlCondition {
    if let FilterExpr::Present(field) = inner {
        return SqlCondition::new(
            format!("{} IS NULL", dialect::value(field)),
            SqlPrecedence::Single,
        );
    }
    let inside = condition(inner);
    let sql = if may_be_null(inner) {
        format!("{} IS NOT TRUE", inside.within(SqlPrecedence::Single))
    } else {
        format!("NOT {}", inside.within(SqlPrecedence::Single))
    };
    SqlCondition::new(sql, SqlPrecedence::Single)
}

/// True if the SQL of a condition can be `NULL`: where a field that is compared is not there.
fn may_be_null(expr: &FilterExpr) -> bool {
    match expr {
        FilterExpr::All | FilterExpr::Text(_) | FilterExpr::Present(_) | FilterExpr::Not(_) => {
            false
        }
        FilterExpr::And(parts) | FilterExpr::Or(parts) => parts.iter().any(may_be_null),
        FilterExpr::Compare(_) => true,
    }
}

/// A word or phrase. One with wildcards asks for its longest part first, which is quick and rules
/// most events out.
fn contains(pattern: &WildcardPattern) -> SqlCondition {
    let has = SqlCondition::new(dialect::has(longest(pattern)), SqlPrecedence::Call);
    if pattern.as_literal().is_some() {
        return has;
    }
    let like = SqlCondition::new(dialect::raw_like(pattern), SqlPrecedence::Single);
    chain(&[has, like], SqlPrecedence::And)
}

/// The part of a pattern to look for before anything else: the longest without wildcards.
pub(super) fn longest(pattern: &WildcardPattern) -> &str {
    pattern
        .literals()
        .max_by_key(|literal| literal.len())
        .unwrap_or_default()
}

fn compare(comparison: &Comparison) -> SqlCondition {
    let Comparison {
        field,
        relation,
        values,
    } = comparison;
    if let Some(FilterValue::Text(_)) = values.first() {
        return texts(field, *relation, values);
    }
    let column = match values.first() {
        Some(FilterValue::Number(_)) => dialect::number(&dialect::value(field)),
        _ => dialect::value(field),
    };
    let values: Vec<String> = values.iter().filter_map(literal).collect();
    one_of(&column, *relation, &values)
}

/// A value that is no text.
fn literal(value: &FilterValue) -> Option<String> {
    match value {
        FilterValue::Number(number) => Some(dialect::double(*number)),
        FilterValue::Code(code) => Some(code.to_string()),
        FilterValue::Time(ns) => Some(dialect::time(*ns)),
        FilterValue::Text(_) => None,
    }
}

/// A comparison with values, of which there are several for `=` and `!=` only.
fn one_of(column: &str, relation: ComparisonOperator, values: &[String]) -> SqlCondition {
    let sign = match relation {
        ComparisonOperator::NotEqual => "<>",
        other => other.sign(),
    };
    let sql = match (relation, values) {
        (_, [only]) => format!("{column} {sign} {only}"),
        (ComparisonOperator::NotEqual, _) => format!("{column} NOT IN ({})", values.join(", ")),
        _ => format!("{column} IN ({})", values.join(", ")),
    };
    SqlCondition::new(sql, SqlPrecedence::Single)
}

/// `=` or `!=` with texts: those without wildcards together, each of the others by itself. Of a key
/// each of its values counts, in one call.
fn texts(field: &QueryField, relation: ComparisonOperator, values: &[FilterValue]) -> SqlCondition {
    let negated = relation == ComparisonOperator::NotEqual;
    if let QueryField::Key(key) = field {
        let patterns = values.iter().filter_map(|value| match value {
            FilterValue::Text(pattern) => Some(pattern),
            _ => None,
        });
        let call = dialect::field_is(key, patterns);
        return match negated {
            true => SqlCondition::new(format!("NOT {call}"), SqlPrecedence::Single),
            false => SqlCondition::new(call, SqlPrecedence::Call),
        };
    }
    let column = dialect::value(field);
    let (mut whole, mut parts) = (Vec::new(), Vec::new());
    for value in values {
        let FilterValue::Text(pattern) = value else {
            continue;
        };
        match pattern.as_literal() {
            Some(text) => whole.push(text),
            None => {
                let like = dialect::like(&column, pattern, field.as_typed(), negated);
                parts.push(SqlCondition::new(like, SqlPrecedence::Single));
            }
        }
    }
    if !whole.is_empty() {
        let as_is = field.as_typed() || whole.iter().all(|text| is_caseless(text));
        let (column, values): (String, Vec<String>) = if as_is {
            (
                column,
                whole.iter().map(|text| dialect::text(text)).collect(),
            )
        } else {
            let lower = |text: &&str| dialect::text(&text.to_lowercase());
            (dialect::lower(&column), whole.iter().map(lower).collect())
        };
        parts.insert(0, one_of(&column, relation, &values));
    }
    let form = match negated {
        true => SqlPrecedence::And,
        false => SqlPrecedence::Or,
    };
    chain(&parts, form)
}

/// True if a text looks the same in any case.
fn is_caseless(text: &str) -> bool {
    let same = |c: char| c.to_lowercase().eq([c]) && c.to_uppercase().eq([c]);
    text.chars().all(same)
}
