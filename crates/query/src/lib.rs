//! The query language: what people who read logs type, and the SQL that it becomes.
//!
//! ```text
//! query    = [ filter ] { "|" stage }
//! filter   = either { [ "AND" ] either }              terms beside each other: all of them
//! either   = unary { "OR" unary }                     binds tighter, as in Splunk's search
//! unary    = { "NOT" | "-" } ( "(" filter ")" | term )
//! term     = word | phrase | name operator value
//! operator = "=" | "!=" | "<" | "<=" | ">" | ">="
//! value    = word | phrase | "(" value { "OR" value } ")"      the last after = and != only
//! stage    = functions [ "by" by { "," by } ] | "top" [ n ] name
//!          | "sort" [ "-" ] column { "," [ "-" ] column } | "head" n
//! functions = function { "," function }
//! function = "count" | ( "sum" | "min" | "max" | "avg" | "dc" | "p50" | … ) "(" name ")"
//! by       = name | width                             one width at most: 30s 5m 1h 1d
//! ```
//!
//! # What it guarantees
//! * Any text gives a [`Query`] or a [`QueryError`] that points at the place; never a panic.
//!   Length, nesting, terms and values are bounded (`QUERY_*` in `inrush_event::limits`), time and
//!   memory grow in step with the text.
//! * A [`Query`] printed and parsed again is the same query; the printed form has the parentheses
//!   that were implied.
//! * `AND` written out beside an `OR` without parentheses is refused: tools differ in what that
//!   means, and a wrong answer in the middle of an incident costs more than a pair of parentheses.
//! * Whatever stands in a query, the SQL is one `SELECT` of one table. All that came from the
//!   query is in quotes there ([`sql`]).
//! * A term is true or false for an event, never unknown: `user!=root` is false where there is no
//!   `user`, and `NOT user=root` is then true.
//!
//! # In reading order
//! 1. [`ast`]: what a query is made of; [`field`]: the names it may use.
//! 2. `cursor`, `filter`, `stages`: the parser; `print`: the way back.
//! 3. [`text`]: when a text contains a word.
//! 4. [`sql`]: the translation, and what a scanner may know beforehand.
//! 5. [`when`]: the times beside a query; [`habit`]: hints where a query finds nothing.
#![forbid(unsafe_code)]

pub mod ast;
mod cursor;
mod error;
pub mod field;
mod filter;
pub mod habit;
mod print;
pub mod sql;
mod stages;
pub mod text;
pub mod when;

use inrush_event::limits::QUERY_BYTES_MAX;

pub use ast::Query;
use cursor::TextCursor;
pub use error::QueryError;
use error::SyntaxError;
pub use field::{ColumnType, EventColumn, QueryField};

/// Reads a query. Nothing but white space asks for every event.
pub fn parse(text: &str) -> Result<Query, QueryError> {
    // Before anything looks at it: what follows may cost time in step with the length.
    if text.len() > QUERY_BYTES_MAX {
        let message = format!("a query has at most {QUERY_BYTES_MAX} bytes");
        return Err(QueryError::at_the_start(message));
    }
    let mut cursor = TextCursor::new(text);
    read(&mut cursor).map_err(|fault| fault.of(text))
}

fn read(cursor: &mut TextCursor<'_>) -> Result<Query, SyntaxError> {
    let filter = filter::read(cursor)?;
    let stages = stages::read(cursor)?;
    Ok(Query { filter, stages })
}
