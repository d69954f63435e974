//! Stage parser: everything behind the first `|` of a query, read into a list of [`QueryStage`].
//!
//! # What it guarantees
//! * The order is one table, one `sort`, one `head`, each optional. `top` stands alone.
//! * A `sort` behind a table names columns of that table. No two columns of a table share a name.
//! * A known command of another query language gets a hint in this language (`ELSEWHERE`).
//!
//! # Limits
//! A table or a `sort` has at most [`QUERY_COLUMNS_MAX`] columns.
//! A table has one stretch of time at most, of up to `WIDTH_SECONDS_MAX` seconds.
//! `top` without a number gives `TOP_ROWS` rows.

use std::ops::Range;

use inrush_event::limits::{QUERY_BUCKET_MS_MAX, QUERY_COLUMNS_MAX};

use super::ast::{
    Aggregate, AggregateFunction, GroupKey, QueryStage, SortColumn, SortKey, Statistic, TimeBucket,
    Unit,
};
use super::cursor::{TextCursor, is_plain_name};
use super::error::{SyntaxError, nearest, shown};
use super::field::{COUNT, ColumnType, EventColumn, QueryField};
use super::filter::{ends_word, named};

/// Rows of `top` without a number.
const TOP_ROWS: u32 = 10;
/// The widest stretch of time, in seconds.
const WIDTH_SECONDS_MAX: u64 = QUERY_BUCKET_MS_MAX / 1000;

/// The words that begin a stage and are not functions.
const WORDS: [&str; 3] = ["top", "sort", "head"];

/// Words of other query languages, each with a hint for this one.
const ELSEWHERE: &[(&str, &str)] = &[
    ("stats", "leave `stats` out: `| count by host`"),
    ("timechart", "write `| count by host, 5m`"),
    ("where", "put conditions before the first `|`"),
    ("search", "put conditions before the first `|`"),
    ("limit", "write `| head 20`"),
    ("tail", "write `| sort time | head 20`"),
    ("table", "use SQL: `inrush sql`"),
    ("fields", "use SQL: `inrush sql`"),
    ("eval", "use SQL: `inrush sql`"),
    ("rex", "use SQL: `inrush sql`"),
    ("dedup", "write `| count by host`, or use SQL"),
    ("rare", "write `| count by host | sort count`"),
    ("median", "write `p50`"),
    ("mean", "write `avg`"),
    ("distinct", "write `dc`"),
];

/// Reads everything up to the end, where the cursor stands at a `|` or there already.
pub(super) fn read(cursor: &mut TextCursor<'_>) -> Result<Vec<QueryStage>, SyntaxError> {
    let mut reader = StageParser {
        cursor,
        stages: Vec::new(),
    };
    while reader.cursor.take("|").is_some() {
        reader.stage()?;
        reader.cursor.skip_space();
    }
    match reader.cursor.peek() {
        None => Ok(reader.stages),
        Some(_) => Err(reader.unexpected()),
    }
}

struct StageParser<'c, 'a> {
    cursor: &'c mut TextCursor<'a>,
    stages: Vec<QueryStage>,
}

impl<'a> StageParser<'_, 'a> {
    fn stage(&mut self) -> Result<(), SyntaxError> {
        let (word, span) = self.word();
        let stage = match word.to_ascii_lowercase().as_str() {
            "top" => {
                self.comes_first(&span, "top")?;
                self.top()?
            }
            "sort" => {
                self.comes_after(&span, "sort")?;
                QueryStage::Sort(self.sort_keys()?)
            }
            "head" => {
                self.comes_after(&span, "head")?;
                QueryStage::Head(self.rows()?)
            }
            _ => {
                let first = self.function(word, span.clone())?;
                self.comes_first(&span, word)?;
                QueryStage::Aggregate(self.aggregate(first)?)
            }
        };
        self.stages.push(stage);
        Ok(())
    }

    /// Checks that the stage that makes a table stands first, and once.
    fn comes_first(&self, span: &Range<usize>, word: &str) -> Result<(), SyntaxError> {
        match self.stages.first() {
            None => Ok(()),
            Some(QueryStage::Aggregate(_) | QueryStage::Top { .. }) => {
                let fault = SyntaxError::new(span.clone(), "there is one table already");
                Err(fault.hint("several functions are separated by commas: `count, avg(bytes)`"))
            }
            Some(QueryStage::Sort(_) | QueryStage::Head(_)) => {
                let message = format!("{} has to come first", shown(word));
                Err(SyntaxError::new(span.clone(), message)
                    .hint("write it right after the conditions"))
            }
        }
    }

    /// Checks that a stage that works on a table stands after it: `sort` before `head`, and nothing
    /// after `top`.
    fn comes_after(&self, span: &Range<usize>, word: &str) -> Result<(), SyntaxError> {
        let refused = |message: &str, hint: &str| {
            let message = message.to_owned();
            Err(SyntaxError::new(span.clone(), message).hint(hint))
        };
        match self.stages.last() {
            Some(QueryStage::Top { .. }) => refused(
                "nothing can follow `top`",
                "write `| count by host | sort host | head 10`",
            ),
            Some(QueryStage::Sort(_)) if word == "sort" => refused(
                "`sort` stands there already",
                "several columns are separated by commas: `sort host, -count`",
            ),
            Some(QueryStage::Head(_)) if word == "head" => {
                refused("`head` stands there already", "leave one of them out")
            }
            Some(QueryStage::Head(_)) => refused(
                "`sort` has to come before `head`",
                "write `| sort … | head …`",
            ),
            _ => Ok(()),
        }
    }

    fn top(&mut self) -> Result<QueryStage, SyntaxError> {
        self.cursor.skip_space();
        let counted = self.cursor.peek().is_some_and(|c| c.is_ascii_digit());
        let rows = if counted { self.rows()? } else { TOP_ROWS };
        let start = self.item_start();
        let field = self.field()?;
        self.no_time(&field, start)?;
        self.ends("`top` shows one field; for several write `| count by host, user`")?;
        Ok(QueryStage::Top { rows, field })
    }

    /// A number of rows.
    fn rows(&mut self) -> Result<u32, SyntaxError> {
        self.cursor.skip_space();
        let start = self.cursor.at();
        let word = self.cursor.take_while(|c| !ends_item(c));
        match word.parse::<u32>() {
            Ok(rows) if rows > 0 => Ok(rows),
            _ => {
                let message = "a number of rows, 1 or more, is expected here";
                Err(SyntaxError::new(self.cursor.since(start), message).hint("as in `head 20`"))
            }
        }
    }

    /// The functions after the first, and what they are grouped by.
    fn aggregate(&mut self, first: AggregateFunction) -> Result<Aggregate, SyntaxError> {
        let mut labels = vec![first.label()];
        let mut functions = vec![first];
        while self.comma() {
            let (word, at) = self.word();
            let function = self.function(word, at.clone())?;
            self.distinct(&mut labels, function.label(), at.start)?;
            functions.push(function);
        }
        let mut by = Vec::new();
        let (word, at) = self.word();
        match word {
            "" => {}
            "by" | "BY" => {
                by.push(self.by(&mut labels)?);
                while self.comma() {
                    by.push(self.by(&mut labels)?);
                }
            }
            _ => {
                let message = format!("`by` or a comma is expected before {}", shown(word));
                return Err(
                    SyntaxError::new(at, message).hint("as in `count, avg(bytes) by host, 5m`")
                );
            }
        }
        self.ends("several of them are separated by commas: `count by host, user, 5m`")?;
        Ok(Aggregate { functions, by })
    }

    /// The function that begins with `word`.
    fn function(
        &mut self,
        word: &str,
        span: Range<usize>,
    ) -> Result<AggregateFunction, SyntaxError> {
        let lower = word.to_ascii_lowercase();
        if lower == COUNT {
            return match self.cursor.peek() {
                Some('(') => Err(SyntaxError::new(span, "`count` counts events")
                    .hint("those that have a field: `user=* | count`")),
                _ => Ok(AggregateFunction::Count),
            };
        }
        let known = Statistic::ALL.into_iter().find(|s| s.name() == lower);
        let Some(statistic) = known else {
            return Err(self.unknown(word, span));
        };
        self.cursor.skip_space();
        let example = format!("as in `{lower}(bytes)`");
        if self.cursor.take("(").is_none() {
            let message = format!("`{lower}` takes a field in parentheses");
            return Err(SyntaxError::new(span, message).hint(example));
        }
        let start = self.item_start();
        let field = self.field()?;
        let of_times = matches!(statistic, Statistic::Min | Statistic::Max | Statistic::Dc);
        if field.kind() == ColumnType::Time && !of_times {
            let message = format!("`{lower}` of a time means nothing");
            return Err(SyntaxError::new(self.cursor.since(start), message)
                .hint("`min(time)` and `max(time)` are the first and the last"));
        }
        self.cursor.skip_space();
        match self.cursor.take(")") {
            Some(_) => Ok(AggregateFunction::Of(statistic, field)),
            None => Err(SyntaxError::new(self.cursor.here(), "`)` is expected here").hint(example)),
        }
    }

    fn unknown(&self, word: &str, span: Range<usize>) -> SyntaxError {
        const AS_TEXT: &str = "to look for a `|` as text, put it in quotes";
        if word.is_empty() {
            return SyntaxError::new(
                self.cursor.here(),
                "`count` or another function is missing here",
            )
            .hint(AS_TEXT);
        }
        let fault = SyntaxError::new(span, format!("there is no {}", shown(word)));
        let lower = word.to_ascii_lowercase();
        if let Some((_, hint)) = ELSEWHERE.iter().find(|(name, _)| *name == lower) {
            return fault.hint(*hint);
        }
        let functions = Statistic::ALL.into_iter().map(Statistic::name);
        let all: Vec<&str> = [COUNT].into_iter().chain(functions).chain(WORDS).collect();
        match nearest(word, all.iter().copied()) {
            Some(name) => fault.hint(format!("did you mean `{name}`?")),
            None => fault.hint(format!("there are {}; {AS_TEXT}", all.join(", "))),
        }
    }

    /// Reads a group key of a table.
    fn by(&mut self, labels: &mut Vec<String>) -> Result<GroupKey, SyntaxError> {
        let start = self.item_start();
        if let Some(width) = self.width()? {
            let by = GroupKey::Width(width);
            if labels.contains(&by.label()) {
                let span = self.cursor.since(start);
                return Err(SyntaxError::new(span, "a table has one stretch of time"));
            }
            self.distinct(labels, by.label(), start)?;
            return Ok(by);
        }
        let field = self.field()?;
        self.no_time(&field, start)?;
        self.distinct(labels, field.label(), start)?;
        Ok(GroupKey::Field(field))
    }

    /// `5m`, if that is what comes next.
    fn width(&mut self) -> Result<Option<TimeBucket>, SyntaxError> {
        let start = self.cursor.at();
        let mut ahead = self.cursor.clone();
        let word = ahead.take_while(|c| !ends_item(c));
        let digits = word.bytes().take_while(u8::is_ascii_digit).count();
        let (count, letters) = word.split_at(digits);
        if count.is_empty() || letters.is_empty() || !letters.chars().all(char::is_alphabetic) {
            return Ok(None);
        }
        *self.cursor = ahead;
        let unit = Unit::ALL
            .into_iter()
            .find(|unit| letters.chars().eq([unit.letter()]));
        let width = count.parse().ok().zip(unit);
        let width = width.map(|(count, unit)| TimeBucket { count, unit });
        match width.filter(|width| (1..=WIDTH_SECONDS_MAX).contains(&width.seconds())) {
            Some(width) => Ok(Some(width)),
            None => {
                let message = format!("{} is no stretch of time", shown(word));
                let hint = format!("as in `30s`, `5m`, `1h` or `1d`; a field: \"{word}\"");
                Err(SyntaxError::new(self.cursor.since(start), message).hint(hint))
            }
        }
    }

    /// Two columns of one name cannot be told apart.
    fn distinct(
        &self,
        labels: &mut Vec<String>,
        label: String,
        start: usize,
    ) -> Result<(), SyntaxError> {
        let span = self.cursor.since(start);
        if labels.len() >= QUERY_COLUMNS_MAX {
            let message = format!("a table has at most {QUERY_COLUMNS_MAX} columns");
            return Err(SyntaxError::new(span, message));
        }
        if labels.contains(&label) {
            let message = format!("{} stands there already", shown(&label));
            return Err(SyntaxError::new(span, message));
        }
        labels.push(label);
        Ok(())
    }

    fn no_time(&self, field: &QueryField, start: usize) -> Result<(), SyntaxError> {
        if field.kind() != ColumnType::Time {
            return Ok(());
        }
        let fault = SyntaxError::new(
            self.cursor.since(start),
            "hardly two events have the same time",
        );
        Err(fault.hint("group by a stretch of time: `count by 5m`"))
    }

    fn sort_keys(&mut self) -> Result<Vec<SortKey>, SyntaxError> {
        let mut keys: Vec<SortKey> = Vec::new();
        loop {
            let start = self.item_start();
            let descending = self.cursor.take("-").is_some();
            self.cursor.skip_space();
            let column = self.sort_column()?;
            let span = self.cursor.since(start);
            self.is_there(&column, &span)?;
            if keys.iter().any(|key| key.column == column) {
                let message = format!("{} stands there already", shown(&column.label()));
                return Err(SyntaxError::new(span, message));
            }
            if keys.len() >= QUERY_COLUMNS_MAX {
                return Err(SyntaxError::new(
                    span,
                    format!("at most {QUERY_COLUMNS_MAX} columns"),
                ));
            }
            keys.push(SortKey { column, descending });
            if !self.comma() {
                break;
            }
        }
        self.ends("several columns are separated by commas: `sort host, -count`")?;
        Ok(keys)
    }

    fn sort_column(&mut self) -> Result<SortColumn, SyntaxError> {
        let mut ahead = self.cursor.clone();
        let start = ahead.at();
        let word = ahead.take_while(|c| !ends_item(c));
        let called = ahead.peek() == Some('(') && !word.is_empty();
        let table = matches!(self.stages.first(), Some(QueryStage::Aggregate(_)));
        if called || word == COUNT {
            *self.cursor = ahead;
            let span = self.cursor.since(start);
            return Ok(SortColumn::Function(self.function(word, span)?));
        }
        let field = self.field()?;
        Ok(if table && field == QueryField::Column(EventColumn::Time) {
            SortColumn::Bucket
        } else {
            SortColumn::Field(field)
        })
    }

    /// A table can be put in order by its own columns alone.
    fn is_there(&self, column: &SortColumn, span: &Range<usize>) -> Result<(), SyntaxError> {
        let Some(QueryStage::Aggregate(table)) = self.stages.first() else {
            let SortColumn::Function(_) = column else {
                return Ok(());
            };
            let fault = SyntaxError::new(span.clone(), "there is no table to sort by this");
            return Err(fault.hint("make one first: `| count by host | sort -count`"));
        };
        if table.position(column).is_some() {
            return Ok(());
        }
        let label = column.label();
        let fault = SyntaxError::new(span.clone(), format!("the table has no {}", shown(&label)));
        let labels = table.labels();
        match nearest(&label, labels.iter().map(String::as_str)) {
            Some(name) => Err(fault.hint(format!("did you mean {}?", shown(name)))),
            None => Err(fault.hint(format!("it has {}", shown(&labels.join(", "))))),
        }
    }

    /// A field's name.
    fn field(&mut self) -> Result<QueryField, SyntaxError> {
        let start = self.item_start();
        if self.cursor.peek() == Some('"') {
            let name = self.cursor.quoted()?;
            return named(&name, self.cursor.since(start));
        }
        let word = self.cursor.take_while(|c| !ends_item(c));
        if word.is_empty() {
            return Err(SyntaxError::new(
                self.cursor.here(),
                "a field's name is missing here",
            ));
        }
        let span = self.cursor.since(start);
        if !is_plain_name(word) {
            let message = format!("{} is not a field's name", shown(word));
            return Err(SyntaxError::new(span, message).hint("an unusual name is put in quotes"));
        }
        named(word, span)
    }

    /// A word of letters and digits, and where it stands.
    fn word(&mut self) -> (&'a str, Range<usize>) {
        let start = self.item_start();
        let word = self.cursor.take_while(|c| !ends_item(c));
        (word, self.cursor.since(start))
    }

    fn item_start(&mut self) -> usize {
        self.cursor.skip_space();
        self.cursor.at()
    }

    fn comma(&mut self) -> bool {
        self.cursor.skip_space();
        self.cursor.take(",").is_some()
    }

    /// The stage is over, or `hint` says how it goes on.
    fn ends(&mut self, hint: &str) -> Result<(), SyntaxError> {
        self.cursor.skip_space();
        match self.cursor.peek() {
            None | Some('|') => Ok(()),
            Some(_) => Err(self.unexpected().hint(hint)),
        }
    }

    fn unexpected(&self) -> SyntaxError {
        let mut ahead = self.cursor.clone();
        let word = ahead.take_while(|c| !ends_item(c));
        if word.is_empty() {
            SyntaxError::new(self.cursor.here(), "this is not expected here")
        } else {
            let message = format!("{} is not expected here", shown(word));
            SyntaxError::new(self.cursor.at()..ahead.at(), message)
        }
    }
}

/// True if the character ends a name or a word of a stage.
fn ends_item(c: char) -> bool {
    ends_word(c) || c == ','
}
