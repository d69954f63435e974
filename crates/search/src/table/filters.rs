//! Facts of a condition about every event that meets it, as far as they help to leave things out.
//!
//! DataFusion hands each of the conditions that are joined by `AND` over by itself, simplified: the
//! column on either side, a short list of values as a chain of `OR`.

use std::collections::BTreeSet;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use inrush_query::EventColumn;
use inrush_query::sql::{EqualityFacts, both, either};
use inrush_query::text::fold;
use inrush_store::read::PruningFilter;

use crate::has::HAS;

/// Use of a condition for leaving things out.
#[derive(Debug, PartialEq)]
pub(super) enum FilterUse {
    /// It says just this.
    Exact(PruningFilter),
    /// It says this and more.
    Some(PruningFilter),
    /// Nothing.
    None,
}

/// Use of a condition for leaving things out.
pub(super) fn facts(filter: &Expr) -> FilterUse {
    if let Some(wanted) = time(filter) {
        return FilterUse::Exact(wanted);
    }
    let wanted = PruningFilter {
        equals: equals(filter),
        needles: needle(filter).into_iter().collect(),
        ..PruningFilter::default()
    };
    if wanted.is_time_only() {
        FilterUse::None
    } else {
        FilterUse::Some(wanted)
    }
}

/// Conjunction of all conditions, as far as they can be used.
pub(super) fn all_of(filters: &[Expr]) -> PruningFilter {
    let mut all = PruningFilter::default();
    for filter in filters {
        let (FilterUse::Exact(one) | FilterUse::Some(one)) = facts(filter) else {
            continue;
        };
        all.from_ns = all.from_ns.max(one.from_ns);
        all.to_ns = all.to_ns.min(one.to_ns);
        all.equals = both(all.equals, one.equals);
        all.needles.extend(one.needles);
    }
    all
}

fn column(expr: &Expr) -> Option<EventColumn> {
    let Expr::Column(column) = expr else {
        return None;
    };
    let mut all = EventColumn::ALL.into_iter();
    all.find(|known| known.name() == column.name)
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// A bound of `time`.
fn time(filter: &Expr) -> Option<PruningFilter> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else {
        return None;
    };
    let (op, literal) = match (column(left), column(right)) {
        (Some(EventColumn::Time), None) => (*op, right.as_ref()),
        (None, Some(EventColumn::Time)) => (op.swap()?, left.as_ref()),
        _ => return None,
    };
    let Expr::Literal(ScalarValue::TimestampNanosecond(Some(ns), _), _) = literal else {
        return None;
    };
    // The last of all times stands for no bound, so no bound can be set there.
    let next = ns.checked_add(1).filter(|next| *next < i64::MAX)?;
    let (from_ns, to_ns) = match op {
        Operator::Eq => (*ns, next),
        Operator::GtEq => (*ns, i64::MAX),
        Operator::Gt => (next, i64::MAX),
        Operator::Lt => (i64::MIN, *ns),
        Operator::LtEq => (i64::MIN, next),
        _ => return None,
    };
    Some(PruningFilter {
        from_ns,
        to_ns,
        ..PruningFilter::default()
    })
}

/// A text that the raw text contains.
fn needle(filter: &Expr) -> Option<String> {
    let Expr::ScalarFunction(call) = filter else {
        return None;
    };
    match call.args.as_slice() {
        [value, needle] if call.func.name() == HAS && column(value) == Some(EventColumn::Raw) => {
            text(needle).map(fold)
        }
        _ => None,
    }
}

/// The values of which a column must have one.
fn equals(filter: &Expr) -> EqualityFacts {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Eq => one_of(left, [right.as_ref()])
                .or_else(|| one_of(right, [left.as_ref()]))
                .unwrap_or_default(),
            Operator::And => both(equals(left), equals(right)),
            Operator::Or => either(equals(left), equals(right)),
            _ => EqualityFacts::new(),
        },
        Expr::InList(InList {
            expr,
            list,
            negated: false,
        }) => one_of(expr, list).unwrap_or_default(),
        _ => EqualityFacts::new(),
    }
}

fn one_of<'a>(expr: &Expr, values: impl IntoIterator<Item = &'a Expr>) -> Option<EqualityFacts> {
    let column = column(expr).filter(|column| column.as_typed())?;
    let values: Option<BTreeSet<String>> = values
        .into_iter()
        .map(|value| text(value).map(str::to_owned))
        .collect();
    Some([(column, values?)].into())
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;
    use crate::has::has;

    fn at(ns: i64) -> Expr {
        let zone = Some("UTC".into());
        Expr::Literal(ScalarValue::TimestampNanosecond(Some(ns), zone), None)
    }

    fn within(from_ns: i64, to_ns: i64) -> FilterUse {
        FilterUse::Exact(PruningFilter {
            from_ns,
            to_ns,
            ..PruningFilter::default()
        })
    }

    fn some(equals: &[(EventColumn, &[&str])], needles: &[&str]) -> FilterUse {
        let values = |values: &[&str]| values.iter().map(|v| (*v).to_owned()).collect();
        FilterUse::Some(PruningFilter {
            equals: equals.iter().map(|(c, v)| (*c, values(v))).collect(),
            needles: needles.iter().map(|n| (*n).to_owned()).collect(),
            ..PruningFilter::default()
        })
    }

    #[test]
    fn conditions_say_what_they_can() {
        let has = |needle: Expr| has().call(vec![col("raw"), needle]);
        let cases = [
            (col("time").gt_eq(at(5)), within(5, i64::MAX)),
            (col("time").gt(at(5)), within(6, i64::MAX)),
            (at(5).gt(col("time")), within(i64::MIN, 5)),
            (col("time").lt_eq(at(5)), within(i64::MIN, 6)),
            (col("time").eq(at(5)), within(5, 6)),
            (col("time").lt(at(i64::MAX)), FilterUse::None),
            (col("received").gt(at(5)), FilterUse::None),
            (
                col("host").eq(lit("a")),
                some(&[(EventColumn::Host, &["a"])], &[]),
            ),
            (
                lit("a").eq(col("host")),
                some(&[(EventColumn::Host, &["a"])], &[]),
            ),
            (
                col("index").eq(lit("a")).or(col("index").eq(lit("b"))),
                some(&[(EventColumn::Index, &["a", "b"])], &[]),
            ),
            (
                col("index").eq(lit("a")).or(col("host").eq(lit("b"))),
                FilterUse::None,
            ),
            (
                col("host").in_list(vec![lit("a"), lit("b")], false),
                some(&[(EventColumn::Host, &["a", "b"])], &[]),
            ),
            (col("host").in_list(vec![lit("a")], true), FilterUse::None),
            (
                col("host").in_list(vec![col("app")], false),
                FilterUse::None,
            ),
            (col("app").eq(lit("a")), FilterUse::None),
            (has(lit("DENIED")), some(&[], &["denied"])),
            (has(col("host")), FilterUse::None),
        ];
        for (filter, expected) in cases {
            assert_eq!(facts(&filter), expected, "{filter}");
        }
    }

    #[test]
    fn conditions_beside_each_other_narrow_down() {
        let filters = [
            col("time").gt_eq(at(5)),
            col("time").lt(at(9)),
            col("host").in_list(vec![lit("a"), lit("b")], false),
            col("host").in_list(vec![lit("c"), lit("b")], false),
        ];
        let wanted = all_of(&filters);
        assert_eq!((wanted.from_ns, wanted.to_ns), (5, 9));
        assert_eq!(wanted.equals[&EventColumn::Host], ["b".to_owned()].into());
    }
}
