//! Syntax tree of a query: the filter's conditions and the stages behind it.
//!
//! # What it guarantees
//! * The parser makes only the shapes that the comments here allow.
//! * A parsed query, printed with `to_string`, parses to the same query again.
//! * An event without the field fails every [`Comparison`], `!=` included.
//!
//! # Limits
//! The types bound nothing. The parser bounds nesting, terms, values and columns by the `QUERY_*`
//! constants of `inrush_event::limits`.

use super::field::{COUNT, EventColumn, QueryField};

/// A query: which events, and what becomes of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Condition that the events meet.
    pub filter: FilterExpr,
    /// Stages behind the filter: at most one [`QueryStage::Aggregate`], then one
    /// [`QueryStage::Sort`], then one [`QueryStage::Head`]; or a [`QueryStage::Top`] alone.
    pub stages: Vec<QueryStage>,
}

/// A condition that every event meets or does not.
#[derive(Debug, Clone, PartialEq)]
pub enum FilterExpr {
    /// `*`: every event.
    All,
    /// All of these; two at least, no `And` and no `All` among them.
    And(Vec<FilterExpr>),
    /// One of these; two at least, and no `Or` among them.
    Or(Vec<FilterExpr>),
    /// Not this.
    Not(Box<FilterExpr>),
    /// The raw text contains this, whatever its case. Neither empty nor with a wildcard at an end,
    /// and [`PatternPiece::One`] does not occur.
    Text(WildcardPattern),
    /// `field=*`: the event has the field.
    Present(QueryField),
    /// The event has the field, and its value compares so.
    Compare(Comparison),
}

impl FilterExpr {
    /// All of `parts`, in the shape that the parser gives it.
    pub fn and(parts: Vec<FilterExpr>) -> FilterExpr {
        let mut flat = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                FilterExpr::All => {}
                FilterExpr::And(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        only(&mut flat).unwrap_or(match flat.len() {
            0 => FilterExpr::All,
            _ => FilterExpr::And(flat),
        })
    }

    /// One of `parts`, of which there is at least one, in the shape that the parser gives it.
    pub fn or(parts: Vec<FilterExpr>) -> FilterExpr {
        let mut flat = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                FilterExpr::Or(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        only(&mut flat).unwrap_or(FilterExpr::Or(flat))
    }

    /// Not `inner`.
    pub fn negated(inner: FilterExpr) -> FilterExpr {
        FilterExpr::Not(Box::new(inner))
    }

    /// The raw text contains `pattern`, in the shape that the parser gives it.
    pub fn text(pattern: WildcardPattern) -> FilterExpr {
        let pattern = pattern.without_ends();
        if pattern.pieces.is_empty() {
            return FilterExpr::All;
        }
        FilterExpr::Text(pattern)
    }

    /// Depth of the parentheses and negations that lie inside one another where it is printed.
    pub(super) fn nesting(&self) -> usize {
        match self {
            FilterExpr::And(parts) | FilterExpr::Or(parts) => {
                let deep = |part: &FilterExpr| usize::from(part.is_list()) + part.nesting();
                parts.iter().map(deep).max().unwrap_or(0)
            }
            FilterExpr::Not(inner) => 1 + usize::from(inner.is_list()) + inner.nesting(),
            _ => 0,
        }
    }

    /// True if it needs parentheses inside of something else.
    pub(super) const fn is_list(&self) -> bool {
        matches!(self, FilterExpr::And(_) | FilterExpr::Or(_))
    }
}

/// Takes the only element out.
fn only(list: &mut Vec<FilterExpr>) -> Option<FilterExpr> {
    if list.len() == 1 { list.pop() } else { None }
}

/// `field=value` and its like. An event without the field does not meet it, whatever the relation.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The field.
    pub field: QueryField,
    /// Operator of the comparison.
    pub relation: ComparisonOperator,
    /// With what: one value, or several where the relation is [`ComparisonOperator::Equal`] (any of
    /// them) or [`ComparisonOperator::NotEqual`] (none of them), all of one variant.
    pub values: Vec<FilterValue>,
}

/// Operator that compares a field with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonOperator {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

impl ComparisonOperator {
    /// As a query writes it.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
        }
    }

    /// True if it asks for order, and so for numbers or times.
    pub const fn is_order(self) -> bool {
        !matches!(self, Self::Equal | Self::NotEqual)
    }
}

/// Value that a field is compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum FilterValue {
    /// The whole text of a field: only with [`ComparisonOperator::Equal`] and
    /// [`ComparisonOperator::NotEqual`], and never a single [`PatternPiece::Any`].
    Text(WildcardPattern),
    /// The text of a field read as a number, where it is one: only with the relations of order.
    Number(f64),
    /// A severity or facility.
    Code(u8),
    /// A time in nanoseconds since 1970.
    Time(i64),
}

/// A text with wildcards. No two `Literal`s and no two `Any`s are beside each other, and no
/// `Literal` is empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WildcardPattern {
    pieces: Vec<PatternPiece>,
}

/// A part of a [`WildcardPattern`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PatternPiece {
    /// This text.
    Literal(String),
    /// `*`: any text, also none.
    Any,
    /// `?`: any one character.
    One,
}

impl WildcardPattern {
    /// Exactly this text.
    pub fn literal(text: &str) -> Self {
        Self::of([PatternPiece::Literal(text.to_owned())])
    }

    /// The text that the pieces make, one after the other.
    pub fn of(pieces: impl IntoIterator<Item = PatternPiece>) -> Self {
        let mut kept: Vec<PatternPiece> = Vec::new();
        for piece in pieces {
            match (kept.last_mut(), piece) {
                (Some(PatternPiece::Literal(before)), PatternPiece::Literal(more)) => {
                    before.push_str(&more)
                }
                (Some(PatternPiece::Any), PatternPiece::Any) => {}
                (_, PatternPiece::Literal(text)) if text.is_empty() => {}
                (_, piece) => kept.push(piece),
            }
        }
        Self { pieces: kept }
    }

    /// Its parts; none for the empty text.
    pub fn pieces(&self) -> &[PatternPiece] {
        &self.pieces
    }

    /// The text, where there are no wildcards in it.
    pub fn as_literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [PatternPiece::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// True if it is a `*` and nothing else.
    pub fn is_any(&self) -> bool {
        self.pieces == [PatternPiece::Any]
    }

    /// The texts between the wildcards.
    pub fn literals(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            PatternPiece::Literal(text) => Some(text.as_str()),
            PatternPiece::Any | PatternPiece::One => None,
        })
    }

    /// The same without `*` at its ends, which say nothing where a part of a text is looked for.
    fn without_ends(mut self) -> Self {
        if self.pieces.last() == Some(&PatternPiece::Any) {
            self.pieces.pop();
        }
        if self.pieces.first() == Some(&PatternPiece::Any) {
            self.pieces.remove(0);
        }
        self
    }
}

/// Stage behind the filter: a table, an order or a bound for the events that were found.
#[derive(Debug, Clone, PartialEq)]
pub enum QueryStage {
    /// `count by host, 5m`: a table of them.
    Aggregate(Aggregate),
    /// `top 10 host`: the values that most events have, with their counts.
    Top {
        /// Number of values, at least 1.
        rows: u32,
        /// Of which field; not a time.
        field: QueryField,
    },
    /// `sort -count`: another order than newest first, or in a table most first.
    Sort(Vec<SortKey>),
    /// `head 20`: no more than so many, at least 1.
    Head(u32),
}

/// A table: a row for each group of events, a column for each function.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    /// At least one, none twice.
    pub functions: Vec<AggregateFunction>,
    /// Group keys that the events of a row have in common; none for one row of all events. None
    /// twice, one [`GroupKey::Width`] at most.
    pub by: Vec<GroupKey>,
}

impl Aggregate {
    /// The names of its columns, in their order: what it is grouped by, then the functions.
    pub fn labels(&self) -> Vec<String> {
        let by = self.by.iter().map(GroupKey::label);
        by.chain(self.functions.iter().map(AggregateFunction::label))
            .collect()
    }

    /// Place of a column in the order of [`Aggregate::labels`].
    pub fn position(&self, column: &SortColumn) -> Option<usize> {
        let function = |function: &AggregateFunction| {
            let at = self.functions.iter().position(|f| f == function)?;
            Some(self.by.len() + at)
        };
        let field = |field: &QueryField| {
            let by = |by: &GroupKey| matches!(by, GroupKey::Field(f) if f == field);
            self.by.iter().position(by)
        };
        match column {
            SortColumn::Function(wanted) => function(wanted),
            SortColumn::Field(wanted) => field(wanted),
            SortColumn::Bucket => self
                .by
                .iter()
                .position(|by| matches!(by, GroupKey::Width(_))),
        }
    }
}

/// A number (or time, or text) made of many events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AggregateFunction {
    /// `count`: how many events.
    Count,
    /// `sum(bytes)`: something about a field, in those events that have it.
    Of(Statistic, QueryField),
}

impl AggregateFunction {
    /// The name of its column: `sum(bytes)`.
    pub fn label(&self) -> String {
        match self {
            Self::Count => COUNT.to_owned(),
            Self::Of(statistic, field) => format!("{}({})", statistic.name(), field.label()),
        }
    }
}

/// Statistic that a function computes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    /// The sum of what is a number.
    Sum,
    /// The least number; of a text column the first in order, of a time the earliest.
    Min,
    /// The greatest number, the last text, the latest time.
    Max,
    /// The mean of what is a number.
    Avg,
    /// About the number that half of the numbers do not exceed.
    P50,
    /// About the number that 90 % do not exceed.
    P90,
    /// About the number that 95 % do not exceed.
    P95,
    /// About the number that 99 % do not exceed.
    P99,
    /// Number of different values.
    Dc,
}

impl Statistic {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Sum,
        Self::Min,
        Self::Max,
        Self::Avg,
        Self::P50,
        Self::P90,
        Self::P95,
        Self::P99,
        Self::Dc,
    ];

    /// As a query writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::Dc => "dc",
        }
    }
}

/// Group key, which the events of a row have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupKey {
    /// The value of a field, or that they have none; not a time.
    Field(QueryField),
    /// `5m`: the stretch of time in which they happened.
    Width(TimeBucket),
}

impl GroupKey {
    /// The name of its column; `time` for stretches of time.
    pub fn label(&self) -> String {
        match self {
            Self::Field(field) => field.label(),
            Self::Width(_) => EventColumn::Time.name().to_owned(),
        }
    }
}

/// The width of a stretch of time, of which one begins at 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBucket {
    /// Number of units, at least 1.
    pub count: u32,
    /// Of what.
    pub unit: Unit,
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// `s`
    Second,
    /// `m`
    Minute,
    /// `h`
    Hour,
    /// `d`: 24 hours.
    Day,
}

impl Unit {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Second, Self::Minute, Self::Hour, Self::Day];

    /// As a query writes it.
    pub const fn letter(self) -> char {
        match self {
            Self::Second => 's',
            Self::Minute => 'm',
            Self::Hour => 'h',
            Self::Day => 'd',
        }
    }

    const fn seconds(self) -> u64 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 60 * 60,
            Self::Day => 24 * 60 * 60,
        }
    }
}

impl TimeBucket {
    /// In seconds.
    pub fn seconds(self) -> u64 {
        u64::from(self.count) * self.unit.seconds()
    }
}

/// One of the columns by which rows or events are put in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey {
    /// The column.
    pub column: SortColumn,
    /// True if the greatest comes first.
    pub descending: bool,
}

/// Column that rows or events are put in order by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SortColumn {
    /// One of the table's functions.
    Function(AggregateFunction),
    /// One of the table's fields; without a table, any.
    Field(QueryField),
    /// The table's stretch of time.
    Bucket,
}

impl SortColumn {
    /// The name of the column.
    pub fn label(&self) -> String {
        match self {
            Self::Function(function) => function.label(),
            Self::Field(field) => field.label(),
            Self::Bucket => EventColumn::Time.name().to_owned(),
        }
    }
}
