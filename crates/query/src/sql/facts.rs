//! Facts about every event that meets a condition, known before any is read.

use std::collections::{BTreeMap, BTreeSet};

use super::super::ast::{
    Aggregate, AggregateFunction, Comparison, ComparisonOperator, FilterExpr, FilterValue,
    GroupKey, Query, QueryStage,
};
use super::super::field::{EventColumn, QueryField};
use super::super::text::fold;
use super::predicate::longest;

/// Values of which an event has one, by column.
pub type EqualityFacts = BTreeMap<EventColumn, BTreeSet<String>>;

/// Needles that the folded raw text of every event contains.
pub(super) fn needles(expr: &FilterExpr) -> Vec<String> {
    let mut needles = BTreeSet::new();
    collect_needles(expr, &mut needles);
    needles.into_iter().collect()
}

fn collect_needles(expr: &FilterExpr, needles: &mut BTreeSet<String>) {
    match expr {
        FilterExpr::And(parts) => parts.iter().for_each(|part| collect_needles(part, needles)),
        // Of a pattern the part that the SQL looks for with `has`, which folds alike.
        FilterExpr::Text(pattern) => {
            needles.insert(fold(longest(pattern)));
        }
        FilterExpr::All
        | FilterExpr::Or(_)
        | FilterExpr::Not(_)
        | FilterExpr::Present(_)
        | FilterExpr::Compare(_) => {}
    }
}

/// Values of which an event must have one, in the columns that are compared as typed.
pub(super) fn equals(expr: &FilterExpr) -> EqualityFacts {
    match expr {
        FilterExpr::Compare(comparison) => equal_to(comparison).into_iter().collect(),
        FilterExpr::And(parts) => parts.iter().map(equals).fold(EqualityFacts::new(), both),
        FilterExpr::Or(parts) => {
            let mut parts = parts.iter().map(equals);
            let first = parts.next().unwrap_or_default();
            parts.fold(first, either)
        }
        FilterExpr::All | FilterExpr::Not(_) | FilterExpr::Text(_) | FilterExpr::Present(_) => {
            EqualityFacts::new()
        }
    }
}

fn equal_to(comparison: &Comparison) -> Option<(EventColumn, BTreeSet<String>)> {
    let QueryField::Column(column) = comparison.field else {
        return None;
    };
    if !column.as_typed() || comparison.relation != ComparisonOperator::Equal {
        return None;
    }
    let whole = |value: &FilterValue| match value {
        FilterValue::Text(pattern) => pattern.as_literal().map(str::to_owned),
        _ => None,
    };
    let values: Option<BTreeSet<String>> = comparison.values.iter().map(whole).collect();
    Some((column, values?))
}

/// Values that are left where both conditions hold.
pub fn both(mut one: EqualityFacts, other: EqualityFacts) -> EqualityFacts {
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
pub fn either(mut one: EqualityFacts, mut other: EqualityFacts) -> EqualityFacts {
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

fn tests_raw(expr: &FilterExpr) -> bool {
    match expr {
        FilterExpr::All => false,
        FilterExpr::Text(_) => true,
        FilterExpr::And(parts) | FilterExpr::Or(parts) => parts.iter().any(tests_raw),
        FilterExpr::Not(inner) => tests_raw(inner),
        FilterExpr::Present(field) => is_raw(field),
        FilterExpr::Compare(comparison) => is_raw(&comparison.field),
    }
}

fn shows_raw(stage: &QueryStage) -> bool {
    match stage {
        QueryStage::Aggregate(Aggregate { functions, by }) => {
            let of_raw = |function: &AggregateFunction| match function {
                AggregateFunction::Count => false,
                AggregateFunction::Of(_, field) => is_raw(field),
            };
            let by_raw = |by: &GroupKey| matches!(by, GroupKey::Field(field) if is_raw(field));
            functions.iter().any(of_raw) || by.iter().any(by_raw)
        }
        QueryStage::Top { field, .. } => is_raw(field),
        // What a table is sorted by is one of its columns.
        QueryStage::Sort(_) | QueryStage::Head(_) => false,
    }
}

fn is_raw(field: &QueryField) -> bool {
    *field == QueryField::Column(EventColumn::Raw)
}
