//! Facts about every event that meets a condition, known before any is read.

use std::collections::{BTreeMap, BTreeSet};

use super::super::ast::{Aggregate, By, Comparison, Expr, Function, Query, Relation, Stage, Value};
use super::super::field::{Column, Field};
use super::super::text::fold;
use super::predicate::longest;

/// Values of which an event has one, by column.
type Equals = BTreeMap<Column, BTreeSet<String>>;

/// Needles that the folded raw text of every event contains.
pub(super) fn needles(expr: &Expr) -> Vec<String> {
    let mut needles = BTreeSet::new();
    collect_needles(expr, &mut needles);
    needles.into_iter().collect()
}

fn collect_needles(expr: &Expr, needles: &mut BTreeSet<String>) {
    match expr {
        Expr::And(parts) => parts.iter().for_each(|part| collect_needles(part, needles)),
        // Of a pattern the part that the SQL looks for with `has`, which folds alike.
        Expr::Text(pattern) => {
            needles.insert(fold(longest(pattern)));
        }
        Expr::All | Expr::Or(_) | Expr::Not(_) | Expr::Present(_) | Expr::Compare(_) => {}
    }
}

/// Values of which an event must have one, in the columns that are compared as typed.
pub(super) fn equals(expr: &Expr) -> Equals {
    match expr {
        Expr::Compare(comparison) => equal_to(comparison).into_iter().collect(),
        Expr::And(parts) => parts.iter().map(equals).fold(Equals::new(), both),
        Expr::Or(parts) => {
            let mut parts = parts.iter().map(equals);
            let first = parts.next().unwrap_or_default();
            parts.fold(first, either)
        }
        Expr::All | Expr::Not(_) | Expr::Text(_) | Expr::Present(_) => Equals::new(),
    }
}

fn equal_to(comparison: &Comparison) -> Option<(Column, BTreeSet<String>)> {
    let Field::Column(column) = comparison.field else {
        return None;
    };
    if !column.as_typed() || comparison.relation != Relation::Equal {
        return None;
    }
    let whole = |value: &Value| match value {
        Value::Text(pattern) => pattern.as_literal().map(str::to_owned),
        _ => None,
    };
    let values: Option<BTreeSet<String>> = comparison.values.iter().map(whole).collect();
    Some((column, values?))
}

/// Values that are left where both conditions hold.
fn both(mut one: Equals, other: Equals) -> Equals {
    for (column, values) in other {
        match one.get_mut(&column) {
            Some(known) => known.retain(|value| values.contains(value)),
            None => {
                one.insert(column, values);
            }
        }
    }
    one
}

/// Values that are left where one of the conditions holds.
fn either(mut one: Equals, mut other: Equals) -> Equals {
    one.retain(|column, values| match other.get_mut(column) {
        Some(more) => {
            values.append(more);
            true
        }
        None => false,
    });
    one
}

/// True if a table needs the raw text of its events.
pub(super) fn reads_raw(query: &Query) -> bool {
    tests_raw(&query.filter) || query.stages.iter().any(shows_raw)
}

fn tests_raw(expr: &Expr) -> bool {
    match expr {
        Expr::All => false,
        Expr::Text(_) => true,
        Expr::And(parts) | Expr::Or(parts) => parts.iter().any(tests_raw),
        Expr::Not(inner) => tests_raw(inner),
        Expr::Present(field) => is_raw(field),
        Expr::Compare(comparison) => is_raw(&comparison.field),
    }
}

fn shows_raw(stage: &Stage) -> bool {
    match stage {
        Stage::Aggregate(Aggregate { functions, by }) => {
            let of_raw = |function: &Function| match function {
                Function::Count => false,
                Function::Of(_, field) => is_raw(field),
            };
            let by_raw = |by: &By| matches!(by, By::Field(field) if is_raw(field));
            functions.iter().any(of_raw) || by.iter().any(by_raw)
        }
        Stage::Top { field, .. } => is_raw(field),
        // What a table is sorted by is one of its columns.
        Stage::Sort(_) | Stage::Head(_) => false,
    }
}

fn is_raw(field: &Field) -> bool {
    *field == Field::Column(Column::Raw)
}
