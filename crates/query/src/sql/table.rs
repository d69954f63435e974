//! Tables of counts and the like as SQL. Columns are grouped and put in order by their position, so
//! that a name in the result (`time`, say) is never taken for the table's column.

use super::super::ast::{
    Aggregate, AggregateFunction, GroupKey, Query, QueryStage, SortColumn, SortKey,
};
use super::super::field::{COUNT, ColumnType, QueryField};
use super::{ResultColumn, SqlStatement, dialect};

/// True if the result of a query is a table.
pub(super) fn is_table(query: &Query) -> bool {
    let table =
        |stage: &QueryStage| matches!(stage, QueryStage::Aggregate(_) | QueryStage::Top { .. });
    query.stages.iter().any(table)
}

/// The values that most events have in a field.
pub(super) fn top(field: &QueryField, predicate: &str) -> SqlStatement {
    let value = dialect::value(field);
    let (label, count) = (dialect::name(&field.label()), dialect::name(COUNT));
    let events = dialect::TABLE;
    let predicate = match predicate {
        "TRUE" => format!("{value} IS NOT NULL"),
        other => format!("({other}) AND {value} IS NOT NULL"),
    };
    SqlStatement {
        sql: format!(
            "SELECT {value} AS {label}, count(*) AS {count} FROM {events} WHERE {predicate} \
             GROUP BY 1 ORDER BY 2 DESC NULLS LAST, 1 ASC NULLS LAST"
        ),
        columns: vec![
            column(field.label(), field.kind()),
            column(COUNT.to_owned(), ColumnType::Number),
        ],
    }
}

/// A row for each group. What it is grouped by comes first.
pub(super) fn aggregate(table: &Aggregate, keys: &[SortKey], predicate: &str) -> SqlStatement {
    let mut shown = Vec::new();
    let mut columns = Vec::new();
    for by in &table.by {
        let (sql, kind) = match by {
            GroupKey::Field(field) => (dialect::value(field), field.kind()),
            GroupKey::Width(width) => (dialect::bucket(*width), ColumnType::Time),
        };
        shown.push(format!("{sql} AS {}", dialect::name(&by.label())));
        columns.push(column(by.label(), kind));
    }
    for function in &table.functions {
        let (sql, kind) = match function {
            AggregateFunction::Count => ("count(*)".to_owned(), ColumnType::Number),
            AggregateFunction::Of(statistic, field) => dialect::statistic(*statistic, field),
        };
        shown.push(format!("{sql} AS {}", dialect::name(&function.label())));
        columns.push(column(function.label(), kind));
    }
    let (shown, events) = (shown.join(", "), dialect::TABLE);
    let mut sql = format!("SELECT {shown} FROM {events} WHERE {predicate}");
    if !table.by.is_empty() {
        let groups: Vec<String> = (1..=table.by.len()).map(|at| at.to_string()).collect();
        let order = order(table, keys).join(", ");
        sql = format!("{sql} GROUP BY {} ORDER BY {order}", groups.join(", "));
    }
    SqlStatement { sql, columns }
}

fn column(name: String, kind: ColumnType) -> ResultColumn {
    ResultColumn { name, kind }
}

/// As asked for; else the course of time, then most first. What the table is grouped by decides
/// between equals, so that the same question gets the same answer.
fn order(table: &Aggregate, keys: &[SortKey]) -> Vec<String> {
    let usual = usual_order(table);
    let keys = if keys.is_empty() { &usual } else { keys };
    let mut order = Vec::new();
    let mut used = Vec::new();
    for key in keys {
        let Some(at) = table.position(&key.column) else {
            continue;
        };
        used.push(at);
        let number = match &key.column {
            SortColumn::Field(field) => dialect::order_number(field, true),
            SortColumn::Function(_) | SortColumn::Bucket => None,
        };
        let columns = number.into_iter().chain([(at + 1).to_string()]);
        order.extend(columns.map(|column| dialect::by(&column, key.descending)));
    }
    let rest = (0..table.by.len()).filter(|at| !used.contains(at));
    order.extend(rest.map(|at| dialect::by(&(at + 1).to_string(), false)));
    order
}

fn usual_order(table: &Aggregate) -> Vec<SortKey> {
    let time = table.by.iter().any(|by| matches!(by, GroupKey::Width(_)));
    let time = time.then_some(SortKey {
        column: SortColumn::Bucket,
        descending: false,
    });
    let most = table.functions.first().map(|function| SortKey {
        column: SortColumn::Function(function.clone()),
        descending: true,
    });
    time.into_iter().chain(most).collect()
}
