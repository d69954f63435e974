//! Conditions as SQL. What an expression gives is true where the event meets the condition; where
//! it does not, it may be `NULL` instead of false, so a negation asks for `IS NOT TRUE`.

use super::super::ast::{Comparison, Expr, Pattern, Relation, Value};
use super::super::field::{Column, Field};
use super::{Range, dialect};

/// Conditions that are written beside each other. More are put into groups of so many: a parser
/// makes a chain into a tree as deep as it is long.
const CHAIN_MAX: usize = 32;

/// SQL, and how tightly it holds together.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    sql: String,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A call: needs no parentheses anywhere.
    Call,
    /// A comparison, or a negation.
    Single,
    And,
    Or,
}

impl Condition {
    fn new(sql: impl Into<String>, form: Form) -> Self {
        Self {
            sql: sql.into(),
            form,
        }
    }

    /// The SQL as part of an expression of `form`.
    fn within(&self, form: Form) -> String {
        let tight = match self.form {
            Form::Call => true,
            Form::Single => matches!(form, Form::And | Form::Or),
            Form::And | Form::Or => self.form == form,
        };
        if tight {
            self.sql.clone()
        } else {
            format!("({})", self.sql)
        }
    }
}

/// The bounds of time that a range sets.
pub(super) fn time_range(range: &Range) -> Vec<Condition> {
    let time = dialect::name(Column::Time.name());
    let bound = |sign: &str, ns: i64| {
        Condition::new(format!("{time} {sign} {}", dialect::time(ns)), Form::Single)
    };
    let from = (range.from_ns != i64::MIN).then(|| bound(">=", range.from_ns));
    let to = (range.to_ns != i64::MAX).then(|| bound("<", range.to_ns));
    from.into_iter().chain(to).collect()
}

/// The conditions that all have to be met.
pub(super) fn conjuncts(expr: &Expr) -> Vec<Condition> {
    match expr {
        Expr::All => Vec::new(),
        Expr::And(parts) => parts.iter().map(condition).collect(),
        other => vec![condition(other)],
    }
}

/// All of them, as what stands behind `WHERE`.
pub(super) fn all_of(conditions: &[Condition]) -> String {
    if conditions.is_empty() {
        return "TRUE".to_owned();
    }
    chain(conditions, Form::And).sql
}

fn condition(expr: &Expr) -> Condition {
    match expr {
        Expr::All => Condition::new("TRUE", Form::Call),
        Expr::And(parts) => chain(&parts.iter().map(condition).collect::<Vec<_>>(), Form::And),
        Expr::Or(parts) => chain(&parts.iter().map(condition).collect::<Vec<_>>(), Form::Or),
        Expr::Not(inner) => not(inner),
        Expr::Text(pattern) => contains(pattern),
        Expr::Present(field) => Condition::new(
            format!("{} IS NOT NULL", dialect::value(field)),
            Form::Single,
        ),
        Expr::Compare(comparison) => compare(comparison),
    }
}

/// Joins by `AND` or `OR`, as a tree that is no deeper than it has to be.
fn chain(conditions: &[Condition], form: Form) -> Condition {
    if let [only] = conditions {
        return only.clone();
    }
    if conditions.len() > CHAIN_MAX {
        let groups: Vec<Condition> = conditions
            .chunks(CHAIN_MAX)
            // As if it were a call: the parentheses are what this is for.
            .map(|group| chain(group, form))
            .map(|group| Condition::new(format!("({})", group.sql), Form::Call))
            .collect();
        return chain(&groups, form);
    }
    let word = if form == Form::And { " AND " } else { " OR " };
    let parts: Vec<String> = conditions.iter().map(|c| c.within(form)).collect();
    Condition::new(parts.join(word), form)
}

fn not(inner: &Expr) -> Condition {
    if let Expr::Present(field) = inner {
        return Condition::new(format!("{} IS NULL", dialect::value(field)), Form::Single);
    }
    let inside = condition(inner);
    let sql = if may_be_null(inner) {
        format!("{} IS NOT TRUE", inside.within(Form::Single))
    } else {
        format!("NOT {}", inside.within(Form::Single))
    };
    Condition::new(sql, Form::Single)
}

/// True if the SQL of a condition can be `NULL`: where a field that is compared is not there.
fn may_be_null(expr: &Expr) -> bool {
    match expr {
        Expr::All | Expr::Text(_) | Expr::Present(_) | Expr::Not(_) => false,
        Expr::And(parts) | Expr::Or(parts) => parts.iter().any(may_be_null),
        Expr::Compare(_) => true,
    }
}

/// A word or phrase. One with wildcards asks for its longest part first, which is quick and rules
/// most events out.
fn contains(pattern: &Pattern) -> Condition {
    let has = Condition::new(dialect::has(longest(pattern)), Form::Call);
    if pattern.as_literal().is_some() {
        return has;
    }
    let like = Condition::new(dialect::raw_like(pattern), Form::Single);
    chain(&[has, like], Form::And)
}

/// The part of a pattern to look for before anything else: the longest without wildcards.
pub(super) fn longest(pattern: &Pattern) -> &str {
    pattern
        .literals()
        .max_by_key(|literal| literal.len())
        .unwrap_or_default()
}

fn compare(comparison: &Comparison) -> Condition {
    let Comparison {
        field,
        relation,
        values,
    } = comparison;
    if let Some(Value::Text(_)) = values.first() {
        return texts(field, *relation, values);
    }
    let column = match values.first() {
        Some(Value::Number(_)) => dialect::number(&dialect::value(field)),
        _ => dialect::value(field),
    };
    let values: Vec<String> = values.iter().filter_map(literal).collect();
    one_of(&column, *relation, &values)
}

/// A value that is no text.
fn literal(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(dialect::double(*number)),
        Value::Code(code) => Some(code.to_string()),
        Value::Time(ns) => Some(dialect::time(*ns)),
        Value::Text(_) => None,
    }
}

/// A comparison with values, of which there are several for `=` and `!=` only.
fn one_of(column: &str, relation: Relation, values: &[String]) -> Condition {
    let sign = match relation {
        Relation::NotEqual => "<>",
        other => other.sign(),
    };
    let sql = match (relation, values) {
        (_, [only]) => format!("{column} {sign} {only}"),
        (Relation::NotEqual, _) => format!("{column} NOT IN ({})", values.join(", ")),
        _ => format!("{column} IN ({})", values.join(", ")),
    };
    Condition::new(sql, Form::Single)
}

/// `=` or `!=` with texts: those without wildcards together, each of the others by itself.
fn texts(field: &Field, relation: Relation, values: &[Value]) -> Condition {
    let column = dialect::value(field);
    let negated = relation == Relation::NotEqual;
    let (mut whole, mut parts) = (Vec::new(), Vec::new());
    for value in values {
        let Value::Text(pattern) = value else {
            continue;
        };
        match pattern.as_literal() {
            Some(text) => whole.push(text),
            None => {
                let like = dialect::like(&column, pattern, field.as_typed(), negated);
                parts.push(Condition::new(like, Form::Single));
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
    chain(&parts, if negated { Form::And } else { Form::Or })
}

/// True if a text looks the same in any case.
fn is_caseless(text: &str) -> bool {
    let same = |c: char| c.to_lowercase().eq([c]) && c.to_uppercase().eq([c]);
    text.chars().all(same)
}
