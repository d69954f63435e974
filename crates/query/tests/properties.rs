//! The query language against a second telling of what it means, and against the SQL parser that
//! its translation is for.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/engine.rs"]
mod engine;
#[path = "support/naive.rs"]
mod naive;
#[path = "support/query.rs"]
mod sound;
#[path = "support/strategies.rs"]
mod strategies;

use std::cell::Cell as Counter;

use inrush_query::{self as query, EventColumn, sql, text};
use naive::{Cell, meets};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sqlparser::ast::Expr as Sql;

/// No bound of time, so that the condition is the query's alone.
const ALWAYS: sql::QueryRange = sql::QueryRange {
    from_ns: i64::MIN,
    to_ns: i64::MAX,
    limit: 10,
};

proptest! {
    #![proptest_config(Config::with_cases(1000))]

    #[test]
    fn any_text_is_a_query_or_an_error_that_points_into_it(text in any::<String>()) {
        sound::check(&text);
    }

    #[test]
    fn what_looks_like_a_query_is_one_or_an_error_that_points_into_it(
        text in strategies::typed()
    ) {
        sound::check(&text);
    }

    #[test]
    fn a_query_prints_as_itself_and_becomes_harmless_sql(query in strategies::query()) {
        sound::sound(&query);
    }

    #[test]
    fn sql_is_one_select_of_one_table_to_the_parser_of_datafusion(
        query in strategies::query()
    ) {
        let translation = sql::translate(&query, &sound::RANGE);
        let select = engine::select(&translation.sql);
        prop_assert_eq!(select.projection.len(), translation.columns.len());
        engine::select(&translation.histogram(15_000));
    }

    #[test]
    fn texts_come_out_of_the_sql_as_they_went_in(value in any::<String>(), key in any::<String>()) {
        prop_assume!(!key.is_empty());
        let field = query::QueryField::Key(key.clone());
        let literal = query::ast::WildcardPattern::literal(&format!("x{value}"));
        let filter = query::ast::FilterExpr::and(vec![
            query::ast::FilterExpr::text(literal),
            query::ast::FilterExpr::Present(field),
        ]);
        let query = query::Query { filter, stages: Vec::new() };
        let select = engine::select(&sql::translate(&query, &ALWAYS).sql);
        let Some(Sql::BinaryOp { left, right, .. }) = select.selection else {
            return Err(TestCaseError::fail("no condition"));
        };
        let raw = format!("before x{value} after");
        let mut event = naive::Event::default();
        event.columns.insert(EventColumn::Raw, Cell::Text(raw));
        event.fields.insert(key, String::new());
        let mut part = engine::select("SELECT 1 FROM \"events\"");
        for condition in [left, right] {
            part.selection = Some(*condition);
            prop_assert!(engine::finds(&part, &event));
        }
    }

}

proptest! {
    // Each reads SQL with a parser that is slow without optimisation.
    #![proptest_config(Config::with_cases(200))]

    #[test]
    fn a_range_of_time_is_part_of_the_condition(
        query in strategies::query(),
        event in strategies::event(),
        from_ns in 0..5_i64,
        to_ns in 0..5_i64,
    ) {
        let range = sql::QueryRange { from_ns, to_ns, limit: 10 };
        let select = engine::select(&sql::translate(&query, &range).histogram(1000));
        let Some(Cell::Time(time)) = event.columns.get(&EventColumn::Time) else {
            return Err(TestCaseError::fail("no time"));
        };
        let expected = (from_ns..to_ns).contains(time) && meets(&query.filter, &event);
        prop_assert_eq!(engine::finds(&select, &event), expected);
    }
}

/// SQL, needles and required values against the naive telling. How many events meet their query is
/// counted, or a mistake in the strategies could make this prove nothing.
#[test]
fn the_sql_finds_what_the_query_means_and_the_needles_are_in_it() {
    const QUERIES: u32 = 600;
    let (met, unmet, needles, equals) = Default::default();
    let count = |counter: &Counter<u32>| counter.set(counter.get() + 1);
    let strategy = (strategies::query(), vec(strategies::event(), 8));
    TestRunner::new(Config::with_cases(QUERIES))
        .run(&strategy, |(query, events)| {
            let translation = sql::translate(&query, &ALWAYS);
            let select = engine::select(&translation.histogram(1000));
            for event in &events {
                let found = engine::finds(&select, event);
                prop_assert_eq!(
                    found,
                    meets(&query.filter, event),
                    "{}",
                    translation.predicate
                );
                count(if found { &met } else { &unmet });
                if !found {
                    continue;
                }
                for needle in &translation.needles {
                    count(&needles);
                    prop_assert!(text::fold(event.raw()).contains(needle), "{needle:?}");
                }
                for (column, values) in &translation.equals {
                    count(&equals);
                    let Some(Cell::Text(value)) = event.columns.get(column) else {
                        return Err(TestCaseError::fail("required, and not there"));
                    };
                    prop_assert!(values.contains(value), "{column:?} {value:?}");
                }
            }
            Ok(())
        })
        .unwrap();
    for counter in [&met, &unmet] {
        assert!(counter.get() > QUERIES, "{met:?} {unmet:?}");
    }
    for counter in [&needles, &equals] {
        assert!(counter.get() > QUERIES / 50, "{needles:?} {equals:?}");
    }
}
