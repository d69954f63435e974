//! Queries and events at random: such that the parser could have made them, and alike enough that
//! some events meet some conditions.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;

use super::naive::{Cell, Event};
use crate::query::ast::{
    Aggregate, AggregateFunction, Comparison, ComparisonOperator, FilterExpr, FilterValue,
    GroupKey, PatternPiece, Query, QueryStage, SortColumn, SortKey, Statistic, TimeBucket, Unit,
    WildcardPattern,
};
use crate::query::{ColumnType, EventColumn, QueryField};

/// Parts of texts that need quotes somewhere.
const ODD: &[&str] = &[
    "\"", "\\", "'", " ", "(", ")", "|", "=", "<", ">", "!=", "*", "?", "-", ",", "\\\"", "''",
    "--", "/*", ";", "\n", "\u{0}", "%", "_", "AND", "OR", "NOT", "%'", "\\%",
];

/// Parts of texts that need none.
const PLAIN: &[&str] = &[
    "a", "B", "ab", "Ä", "ä", "1", ".", "-", "!", "x", "%", "_", "'", "\\", "5", "é",
];

/// Keys of `fields`, some of which can be mistaken for something else.
const KEYS: &[&str] = &[
    "user", "bytes", "src ip", "fields.x", "procid", "5m", "AND", "-x", "count", "host", "time",
    "a\"b", "a'b", "by", "Ä", "a]b", "sum(x)",
];

/// Where events lie; few, or no event would lie where a query looks.
const PLACES: &[&str] = &["a", "B", "ab"];

/// The wildcards of text to look for, and of values.
const IN_TEXT: &[PatternPiece] = &[PatternPiece::Any];
const IN_VALUES: &[PatternPiece] = &[PatternPiece::Any, PatternPiece::One];

fn plain_text() -> impl Strategy<Value = String> {
    vec(select(PLAIN), 1..3).prop_map(|parts| parts.concat())
}

fn any_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![4 => select(PLAIN), 1 => select(ODD)];
    vec(part, 0..4).prop_map(|parts| parts.concat())
}

fn literal() -> impl Strategy<Value = WildcardPattern> {
    any_text().prop_map(|text| WildcardPattern::literal(&text))
}

fn pattern(wildcards: &'static [PatternPiece]) -> impl Strategy<Value = WildcardPattern> {
    let piece = prop_oneof![
        plain_text().prop_map(PatternPiece::Literal),
        select(wildcards),
    ];
    vec(piece, 1..5).prop_map(WildcardPattern::of)
}

fn text() -> impl Strategy<Value = FilterExpr> {
    prop_oneof![literal(), pattern(IN_TEXT)].prop_map(FilterExpr::text)
}

pub(crate) fn field() -> impl Strategy<Value = QueryField> {
    prop_oneof![
        select(&EventColumn::ALL[..]).prop_map(QueryField::Column),
        select(KEYS).prop_map(|key| QueryField::Key(key.to_owned())),
    ]
}

fn text_value() -> impl Strategy<Value = FilterValue> {
    let whole = |pattern: &WildcardPattern| !pattern.is_any();
    prop_oneof![literal(), pattern(IN_VALUES)]
        .prop_filter("a lone * is another condition", whole)
        .prop_map(FilterValue::Text)
}

fn number() -> impl Strategy<Value = FilterValue> {
    let small = select(&[0.0, 1.0, 5.0, -5.0, 1.5, 55.0][..]);
    let any = any::<f64>().prop_filter("finite", |number| number.is_finite());
    prop_oneof![3 => small, 1 => any].prop_map(FilterValue::Number)
}

fn equality() -> impl Strategy<Value = ComparisonOperator> {
    select(&[ComparisonOperator::Equal, ComparisonOperator::NotEqual][..])
}

fn order() -> impl Strategy<Value = ComparisonOperator> {
    use ComparisonOperator::{AtLeast, AtMost, Greater, Less};
    select(&[Less, AtMost, Greater, AtLeast][..])
}

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![3 => 0..5_i64, 1 => any::<i64>()]
}

fn comparison(field: QueryField) -> BoxedStrategy<FilterExpr> {
    let values = match &field {
        QueryField::Column(EventColumn::Severity) => (0..8_u8).prop_map(FilterValue::Code).boxed(),
        QueryField::Column(EventColumn::Facility) => (0..24_u8).prop_map(FilterValue::Code).boxed(),
        field if field.kind() == ColumnType::Time => time().prop_map(FilterValue::Time).boxed(),
        _ => text_value().boxed(),
    };
    let one = match field.kind() {
        ColumnType::Text => number().boxed(),
        _ => values.clone(),
    };
    let several = (equality(), vec(values, 1..4));
    let ordered = (order(), one.prop_map(|value| vec![value]));
    prop_oneof![3 => several.boxed(), 1 => ordered.boxed()]
        .prop_map(move |(relation, values)| {
            let field = field.clone();
            FilterExpr::Compare(Comparison {
                field,
                relation,
                values,
            })
        })
        .boxed()
}

/// An equality with what is compared as typed.
fn placed() -> impl Strategy<Value = FilterExpr> {
    let columns: Vec<EventColumn> = EventColumn::ALL
        .into_iter()
        .filter(|c| c.as_typed())
        .collect();
    (select(columns), vec(select(PLACES), 1..3)).prop_map(|(column, values)| {
        let value = |text: &str| FilterValue::Text(WildcardPattern::literal(text));
        FilterExpr::Compare(Comparison {
            field: QueryField::Column(column),
            relation: ComparisonOperator::Equal,
            values: values.into_iter().map(value).collect(),
        })
    })
}

/// A condition.
pub(crate) fn expr() -> impl Strategy<Value = FilterExpr> {
    let leaf = prop_oneof![
        4 => text(),
        3 => placed(),
        6 => field().prop_flat_map(comparison),
        1 => field().prop_map(FilterExpr::Present),
        1 => Just(FilterExpr::All),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 1..4).prop_map(FilterExpr::and),
            vec(inner.clone(), 1..4).prop_map(FilterExpr::or),
            inner.prop_map(FilterExpr::negated),
        ]
    })
}

fn untimed() -> impl Strategy<Value = QueryField> {
    field().prop_filter("a group of one time", |field| {
        field.kind() != ColumnType::Time
    })
}

fn function() -> impl Strategy<Value = AggregateFunction> {
    let of = (select(&Statistic::ALL[..]), untimed());
    prop_oneof![
        Just(AggregateFunction::Count),
        of.prop_map(|(statistic, field)| AggregateFunction::Of(statistic, field)),
        Just(AggregateFunction::Of(
            Statistic::Max,
            QueryField::Column(EventColumn::Time)
        )),
    ]
}

fn width() -> impl Strategy<Value = TimeBucket> {
    (1..1000_u32, select(&Unit::ALL[..])).prop_map(|(count, unit)| TimeBucket { count, unit })
}

fn table() -> impl Strategy<Value = Aggregate> {
    let by = prop_oneof![
        3 => untimed().prop_map(GroupKey::Field),
        1 => width().prop_map(GroupKey::Width),
    ];
    (vec(function(), 1..4), vec(by, 0..3)).prop_map(|(functions, by)| {
        let mut labels = Vec::new();
        let mut new = |label: String| {
            let new = !labels.contains(&label);
            labels.push(label);
            new
        };
        let functions = functions.into_iter().filter(|f| new(f.label())).collect();
        let by = by.into_iter().filter(|by| new(by.label())).collect();
        Aggregate { functions, by }
    })
}

/// What a table may be put in order by.
fn sort_columns(table: &Aggregate) -> Vec<SortColumn> {
    let by = table.by.iter().map(|by| match by {
        GroupKey::Field(field) => SortColumn::Field(field.clone()),
        GroupKey::Width(_) => SortColumn::Bucket,
    });
    let functions = table.functions.iter().cloned().map(SortColumn::Function);
    by.chain(functions).collect()
}

fn keys(columns: Vec<SortColumn>) -> impl Strategy<Value = Option<QueryStage>> {
    let key = (select(columns), any::<bool>());
    vec(key, 0..3).prop_map(|keys| {
        let mut sorted: Vec<SortKey> = Vec::new();
        for (column, descending) in keys {
            if sorted.iter().all(|key| key.column != column) {
                sorted.push(SortKey { column, descending });
            }
        }
        (!sorted.is_empty()).then_some(QueryStage::Sort(sorted))
    })
}

fn stages() -> impl Strategy<Value = Vec<QueryStage>> {
    let head = || {
        prop_oneof![
            Just(None),
            (1..1000_u32).prop_map(|rows| Some(QueryStage::Head(rows)))
        ]
    };
    let rest = |stage: Option<QueryStage>,
                sort: Option<QueryStage>,
                head: Option<QueryStage>|
     -> Vec<QueryStage> { [stage, sort, head].into_iter().flatten().collect() };
    let events = vec(field(), 1..3)
        .prop_flat_map(|fields| keys(fields.into_iter().map(SortColumn::Field).collect()));
    let tables = table().prop_flat_map(|table| {
        let keys = keys(sort_columns(&table));
        (Just(table), keys)
    });
    prop_oneof![
        (events, head()).prop_map(move |(sort, head)| rest(None, sort, head)),
        (tables, head()).prop_map(move |((table, sort), head)| {
            rest(Some(QueryStage::Aggregate(table)), sort, head)
        }),
        (1..1000_u32, untimed()).prop_map(|(rows, field)| vec![QueryStage::Top { rows, field }]),
    ]
}

/// A query as the parser could have made it.
pub(crate) fn query() -> impl Strategy<Value = Query> {
    (expr(), stages()).prop_map(|(filter, stages)| Query { filter, stages })
}

fn cell(column: EventColumn) -> BoxedStrategy<Cell> {
    match column {
        EventColumn::Severity => (0..8_u8).prop_map(Cell::Code).boxed(),
        EventColumn::Facility => (0..24_u8).prop_map(Cell::Code).boxed(),
        column if column.kind() == ColumnType::Time => time().prop_map(Cell::Time).boxed(),
        column => {
            let placed = if column.as_typed() { 4 } else { 1 };
            let place = select(PLACES).prop_map(str::to_owned);
            prop_oneof![placed => place, 1 => any_text()]
                .prop_map(Cell::Text)
                .boxed()
        }
    }
}

/// An event. Time, receive time and raw text are always there, the rest in half of the cases.
pub(crate) fn event() -> impl Strategy<Value = Event> {
    let columns: Vec<_> = EventColumn::ALL
        .into_iter()
        .map(|column| {
            let always = matches!(
                column,
                EventColumn::Time | EventColumn::Received | EventColumn::Raw
            );
            let there = prop_oneof![Just(always), Just(true)];
            (Just(column), cell(column), there)
        })
        .collect();
    let raw = vec(prop_oneof![2 => select(PLAIN), 1 => select(ODD)], 0..24)
        .prop_map(|parts| parts.concat());
    let fields = btree_map(select(KEYS).prop_map(str::to_owned), any_text(), 0..8);
    (columns, raw, fields).prop_map(|(columns, raw, fields)| {
        let there = columns.into_iter().filter(|(_, _, there)| *there);
        let mut event = Event {
            columns: there.map(|(column, cell, _)| (column, cell)).collect(),
            fields,
        };
        event.columns.insert(EventColumn::Raw, Cell::Text(raw));
        event
    })
}

/// What queries are made of, right and wrong.
const PIECES: &[&str] = &[
    " ",
    " ",
    " ",
    "  ",
    "\t",
    "AND",
    "OR",
    "NOT",
    "-",
    "--",
    "(",
    ")",
    "\"",
    "\"a b\"",
    "\\",
    "*",
    "?",
    "=",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "==",
    "=>",
    "|",
    "||",
    ",",
    "host",
    "host=fw1",
    "severity",
    "severity<=err",
    "severity=errr",
    "time>2026-11-22T10:00:00Z",
    "time>5",
    "sorcetype=x",
    "fields.",
    "fields",
    "user",
    "user=root",
    "bytes>100",
    "bytes>1e999",
    "(a OR b)",
    "=(a OR b)",
    "=(a, b)",
    "a",
    "ä",
    "\u{0}",
    "\u{1f600}",
    "\n",
    "| count",
    "| count by host, 5m",
    "count",
    "by",
    "5m",
    "5x",
    "0m",
    "99999999999d",
    "sum(bytes)",
    "sum(",
    "p99(time)",
    "dc(user)",
    "| top 5 host",
    "| sort -count",
    "sort",
    "| head 20",
    "head 0",
    "top",
    "stats",
    "cuont",
    "1",
    "-1",
    "NaN",
    "inf",
];

/// Pieces of queries, put together at random: close enough to reach every branch of the parser.
pub(crate) fn typed() -> impl Strategy<Value = String> {
    vec(select(PIECES), 0..14).prop_map(|parts| parts.concat())
}
