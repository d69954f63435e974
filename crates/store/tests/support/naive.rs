//! What a query means, told once more and as simply as can be: one event, one condition, no SQL.

use std::collections::BTreeMap;

use crate::query::ast::{Comparison, Expr, Pattern, Piece, Relation, Value};
use crate::query::{Column, Field};

/// An event as the table has it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Event {
    /// What it has in its columns; what is not there is absent.
    pub(crate) columns: BTreeMap<Column, Cell>,
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
    fn get(&self, field: &Field) -> Option<Cell> {
        match field {
            Field::Column(column) => self.columns.get(column).cloned(),
            Field::Key(key) => self.fields.get(key).cloned().map(Cell::Text),
        }
    }

    /// The raw text, which every event has.
    pub(crate) fn raw(&self) -> &str {
        match self.columns.get(&Column::Raw) {
            Some(Cell::Text(raw)) => raw,
            other => panic!("{other:?}"),
        }
    }
}

/// Whether the event meets the condition.
pub(crate) fn meets(expr: &Expr, event: &Event) -> bool {
    match expr {
        Expr::All => true,
        Expr::And(parts) => parts.iter().all(|part| meets(part, event)),
        Expr::Or(parts) => parts.iter().any(|part| meets(part, event)),
        Expr::Not(inner) => !meets(inner, event),
        Expr::Text(pattern) => {
            let anywhere = [Piece::Any]
                .into_iter()
                .chain(pattern.pieces().iter().cloned())
                .chain([Piece::Any]);
            matches(&Pattern::of(anywhere), event.raw(), false)
        }
        Expr::Present(field) => event.get(field).is_some(),
        Expr::Compare(comparison) => event
            .get(&comparison.field)
            .is_some_and(|cell| compares(comparison, &cell)),
    }
}

fn compares(comparison: &Comparison, cell: &Cell) -> bool {
    let exact = comparison.field.as_typed();
    let mut values = comparison.values.iter();
    match comparison.relation {
        Relation::Equal => values.any(|value| equals(value, cell, exact)),
        Relation::NotEqual => !values.any(|value| equals(value, cell, exact)),
        relation => values.all(|value| ordered(relation, value, cell)),
    }
}

fn equals(value: &Value, cell: &Cell, exact: bool) -> bool {
    match (value, cell) {
        (Value::Text(pattern), Cell::Text(text)) => matches(pattern, text, exact),
        (Value::Code(one), Cell::Code(other)) => one == other,
        (Value::Time(one), Cell::Time(other)) => one == other,
        other => panic!("{other:?}"),
    }
}

fn ordered(relation: Relation, value: &Value, cell: &Cell) -> bool {
    let order = match (value, cell) {
        (Value::Number(number), Cell::Text(text)) => {
            let text: Option<f64> = text.trim().parse().ok();
            text.and_then(|text| text.partial_cmp(number))
        }
        (Value::Code(code), Cell::Code(cell)) => Some(cell.cmp(code)),
        (Value::Time(ns), Cell::Time(cell)) => Some(cell.cmp(ns)),
        other => panic!("{other:?}"),
    };
    order.is_some_and(|order| match relation {
        Relation::Less => order.is_lt(),
        Relation::AtMost => order.is_le(),
        Relation::Greater => order.is_gt(),
        Relation::AtLeast => order.is_ge(),
        Relation::Equal | Relation::NotEqual => panic!("no order"),
    })
}

/// Whether the whole text is as the pattern says.
fn matches(pattern: &Pattern, text: &str, exact: bool) -> bool {
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
            Piece::Any => vec![Wanted::Any],
            Piece::One => vec![Wanted::One],
            Piece::Literal(literal) => plain(literal).into_iter().map(Wanted::Char).collect(),
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
