//! What a query means, told once more and as simply as can be: one event, one condition, no SQL.

use std::collections::BTreeMap;

use crate::query::ast::{
    Comparison, ComparisonOperator, FilterExpr, FilterValue, PatternPiece, WildcardPattern,
};
use crate::query::{EventColumn, QueryField};

/// An event as the table has it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Event {
    /// What it has in its columns; what is not there is absent.
    pub(crate) columns: BTreeMap<EventColumn, Cell>,
    /// What it has in `fields`.
    pub(crate) fields: BTreeMap<String, String>,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    Code(u8),
    Time(i64),
}

impl Event {
    fn get(&self, field: &QueryField) -> Option<Cell> {
        match field {
            QueryField::Column(column) => self.columns.get(column).cloned(),
            QueryField::Key(key) => self.fields.get(key).cloned().map(Cell::Text),
        }
    }

    /// The raw text, which every event has.
    pub(crate) fn raw(&self) -> &str {
        match self.columns.get(&EventColumn::Raw) {
            Some(Cell::Text(raw)) => raw,
            other => panic!("{other:?}"),
        }
    }
}

/// Whether the event meets the condition.
pub(crate) fn meets(expr: &FilterExpr, event: &Event) -> bool {
    match expr {
        FilterExpr::All => true,
        FilterExpr::And(parts) => parts.iter().all(|part| meets(part, event)),
        FilterExpr::Or(parts) => parts.iter().any(|part| meets(part, event)),
        FilterExpr::Not(inner) => !meets(inner, event),
        FilterExpr::Text(pattern) => {
            let anywhere = [PatternPiece::Any]
                .into_iter()
                .chain(pattern.pieces().iter().cloned())
                .chain([PatternPiece::Any]);
            matches(&WildcardPattern::of(anywhere), event.raw(), false)
        }
        FilterExpr::Present(field) => event.get(field).is_some(),
        FilterExpr::Compare(comparison) => event
            .get(&comparison.field)
            .is_some_and(|cell| compares(comparison, &cell)),
    }
}

fn compares(comparison: &Comparison, cell: &Cell) -> bool {
    let exact = comparison.field.as_typed();
    let mut values = comparison.values.iter();
    match comparison.relation {
        ComparisonOperator::Equal => values.any(|value| equals(value, cell, exact)),
        ComparisonOperator::NotEqual => !values.any(|value| equals(value, cell, exact)),
        relation => values.all(|value| ordered(relation, value, cell)),
    }
}

fn equals(value: &FilterValue, cell: &Cell, exact: bool) -> bool {
    match (value, cell) {
        (FilterValue::Text(pattern), Cell::Text(text)) => matches(pattern, text, exact),
        (FilterValue::Code(one), Cell::Code(other)) => one == other,
        (FilterValue::Time(one), Cell::Time(other)) => one == other,
        other => panic!("{other:?}"),
    }
}

fn ordered(relation: ComparisonOperator, value: &FilterValue, cell: &Cell) -> bool {
    let order = match (value, cell) {
        (FilterValue::Number(number), Cell::Text(text)) => {
            let text: Option<f64> = text.trim().parse().ok();
            text.and_then(|text| text.partial_cmp(number))
        }
        (FilterValue::Code(code), Cell::Code(cell)) => Some(cell.cmp(code)),
        (FilterValue::Time(ns), Cell::Time(cell)) => Some(cell.cmp(ns)),
        other => panic!("{other:?}"),
    };
    order.is_some_and(|order| match relation {
        ComparisonOperator::Less => order.is_lt(),
        ComparisonOperator::AtMost => order.is_le(),
        ComparisonOperator::Greater => order.is_gt(),
        ComparisonOperator::AtLeast => order.is_ge(),
        ComparisonOperator::Equal | ComparisonOperator::NotEqual => panic!("no order"),
    })
}

/// Whether the whole text is as the pattern says.
fn matches(pattern: &WildcardPattern, text: &str, exact: bool) -> bool {
    let plain = |text: &str| -> Vec<char> {
        if exact {
            text.chars().collect()
        } else {
            text.to_lowercase().chars().collect()
        }
    };
    let pieces: Vec<Wanted> = pattern
        .pieces()
        .iter()
        .flat_map(|piece| match piece {
            PatternPiece::Any => vec![Wanted::Any],
            PatternPiece::One => vec![Wanted::One],
            PatternPiece::Literal(literal) => {
                plain(literal).into_iter().map(Wanted::Char).collect()
            }
        })
        .collect();
    whole(&pieces, &plain(text))
}

/// A character of a pattern.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted {
    Char(char),
    One,
    Any,
}

/// Whether the pattern covers all of the text.
pub(crate) fn whole(pattern: &[Wanted], text: &[char]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([Wanted::Any, rest @ ..], _) => {
            (0..=text.len()).any(|skipped| whole(rest, &text[skipped..]))
        }
        ([Wanted::One, pattern @ ..], [_, text @ ..]) => whole(pattern, text),
        ([Wanted::Char(wanted), pattern @ ..], [c, text @ ..]) => {
            wanted == c && whole(pattern, text)
        }
        _ => false,
    }
}
