//! Filter parser: the part of a query before the first `|`, read into an [`FilterExpr`].
//!
//! # What it guarantees
//! * Any text gives an [`FilterExpr`], or a fault with its place and, if known, a hint.
//! * `OR` binds tighter than terms side by side.
//! * A written `AND` beside `OR` needs parentheses, because other tools differ in its meaning.
//!
//! # Limits
//! Nesting ends at [`QUERY_NESTING_MAX`], with the parentheses of the printed form counted.
//! Conditions end at [`QUERY_TERMS_MAX`], values in lists at [`QUERY_VALUES_MAX`].
//! A list's value with a wildcard counts as a condition too.

use std::ops::Range;

use inrush_event::limits::{QUERY_NESTING_MAX, QUERY_TERMS_MAX, QUERY_VALUES_MAX};
use jiff::Timestamp;

use super::ast::{
    Comparison, ComparisonOperator, FilterExpr, FilterValue, PatternPiece, WildcardPattern,
};
use super::cursor::{TextCursor, is_plain_name};
use super::error::{SyntaxError, nearest, shown};
use super::field::{ColumnType, EventColumn, QueryField};
use super::{habit, when};

/// The words that join terms.
pub(super) const KEYWORDS: [&str; 3] = ["AND", "OR", "NOT"];

/// Hint for input that is not understood, but can be looked for as text.
const QUOTE_IT: &str = "to look for it as text, put it in quotes";

/// Reads up to the first `|` or the end.
pub(super) fn read(cursor: &mut TextCursor<'_>) -> Result<FilterExpr, SyntaxError> {
    let mut reader = FilterParser {
        cursor,
        terms: 0,
        values: 0,
    };
    let expr = reader.all_of(0)?;
    if reader.ahead() == TokenKind::Close {
        let fault = SyntaxError::new(reader.cursor.here(), "this `)` closes nothing");
        return Err(fault.hint(QUOTE_IT));
    }
    // Where `OR` binds tighter the printed form has parentheses that were not typed. They count,
    // so that what was read can be printed and read again.
    if expr.nesting() > QUERY_NESTING_MAX {
        return Err(too_deep(0..reader.cursor.at()));
    }
    Ok(expr)
}

fn too_deep(span: Range<usize>) -> SyntaxError {
    let message = format!("more than {QUERY_NESTING_MAX} conditions inside one another");
    SyntaxError::new(span, message)
}

/// Kind of the token that comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenKind {
    /// The end, or a `|`.
    End,
    Open,
    Close,
    And,
    Or,
    Not,
    Minus,
    Term,
}

struct FilterParser<'c, 'a> {
    cursor: &'c mut TextCursor<'a>,
    /// Conditions read so far.
    terms: usize,
    /// Values in lists read so far.
    values: usize,
}

impl FilterParser<'_, '_> {
    /// Passes over white space and looks at what comes.
    fn ahead(&mut self) -> TokenKind {
        self.cursor.skip_space();
        match self.cursor.peek() {
            None | Some('|') => return TokenKind::End,
            Some('(') => return TokenKind::Open,
            Some(')') => return TokenKind::Close,
            Some('-') => return TokenKind::Minus,
            Some(_) => {}
        }
        match keyword(self.cursor.rest()) {
            Some("AND") => TokenKind::And,
            Some("OR") => TokenKind::Or,
            Some(_) => TokenKind::Not,
            None => TokenKind::Term,
        }
    }

    /// Conditions beside each other.
    fn all_of(&mut self, depth: usize) -> Result<FilterExpr, SyntaxError> {
        let mut parts = Vec::new();
        let (mut and, mut or) = (None, false);
        loop {
            match self.ahead() {
                TokenKind::End | TokenKind::Close => break,
                TokenKind::And if parts.is_empty() => return Err(self.nothing_before("AND")),
                TokenKind::Or => return Err(self.nothing_before("OR")),
                TokenKind::And => {
                    and = self.joined_by("AND")?;
                }
                _ => {
                    let (part, alternatives) = self.one_of(depth)?;
                    parts.push(part);
                    or |= alternatives;
                }
            }
        }
        match and {
            Some(and) if or => Err(SyntaxError::new(and, "`AND` and `OR` without parentheses")
                .hint("put parentheses around what belongs together, as in `a AND (b OR c)`")),
            _ => Ok(FilterExpr::and(parts)),
        }
    }

    /// Alternatives, and whether there are several.
    fn one_of(&mut self, depth: usize) -> Result<(FilterExpr, bool), SyntaxError> {
        let mut parts = vec![self.unary(depth)?];
        while self.ahead() == TokenKind::Or {
            self.joined_by("OR")?;
            parts.push(self.unary(depth)?);
        }
        let several = parts.len() > 1;
        Ok((FilterExpr::or(parts), several))
    }

    fn unary(&mut self, depth: usize) -> Result<FilterExpr, SyntaxError> {
        let ahead = self.ahead();
        let here = self.cursor.here();
        if depth > QUERY_NESTING_MAX {
            return Err(too_deep(here));
        }
        match ahead {
            TokenKind::Not => {
                self.joined_by("NOT")?;
                Ok(FilterExpr::negated(self.unary(depth + 1)?))
            }
            TokenKind::Minus => {
                self.cursor.take("-");
                if !self.cursor.peek().is_some_and(may_follow_minus) {
                    let fault =
                        SyntaxError::new(here, "`-` has to stand right before what it excludes");
                    return Err(fault.hint(QUOTE_IT));
                }
                Ok(FilterExpr::negated(self.unary(depth + 1)?))
            }
            TokenKind::Open => self.group(depth + 1),
            _ => self.term(),
        }
    }

    fn group(&mut self, depth: usize) -> Result<FilterExpr, SyntaxError> {
        let open = self.cursor.here();
        self.cursor.take("(");
        if self.ahead() == TokenKind::Close {
            let span = open.start..self.cursor.here().end;
            return Err(
                SyntaxError::new(span, "nothing stands in these parentheses").hint(QUOTE_IT),
            );
        }
        let expr = self.all_of(depth)?;
        match self.cursor.take(")") {
            Some(_) => Ok(expr),
            None => Err(SyntaxError::new(open, "this `(` is not closed").hint(QUOTE_IT)),
        }
    }

    /// Passes over a keyword that something has to follow.
    fn joined_by(&mut self, word: &str) -> Result<Option<Range<usize>>, SyntaxError> {
        let span = self.cursor.take(word);
        match self.ahead() {
            TokenKind::End | TokenKind::Close | TokenKind::And | TokenKind::Or => {
                let at = self.cursor.at();
                let span = span.unwrap_or(at..at);
                let message = format!("nothing to search for after `{word}`");
                Err(SyntaxError::new(span, message).hint(quote_word(word)))
            }
            _ => Ok(span),
        }
    }

    fn nothing_before(&self, word: &str) -> SyntaxError {
        let start = self.cursor.at();
        let message = format!("nothing to search for before `{word}`");
        SyntaxError::new(start..start + word.len(), message).hint(quote_word(word))
    }

    /// A word, a phrase, or a comparison.
    fn term(&mut self) -> Result<FilterExpr, SyntaxError> {
        let start = self.cursor.at();
        self.terms += 1;
        if self.terms > QUERY_TERMS_MAX {
            let message = format!("more than {QUERY_TERMS_MAX} conditions");
            return Err(SyntaxError::new(self.cursor.here(), message)
                .hint("many values of one field are one condition: `host=(a OR b OR c)`"));
        }
        if self.cursor.peek() == Some('"') {
            let text = self.cursor.quoted()?;
            let span = self.cursor.since(start);
            if let Some((relation, _)) = self.relation() {
                return self.comparison(&text, span, relation);
            }
            self.ends_here(start)?;
            return Ok(FilterExpr::text(WildcardPattern::literal(&text)));
        }
        let end = name_end(self.cursor.rest());
        let word = self.cursor.take_bytes(end);
        let span = self.cursor.since(start);
        let behind = self.cursor.clone();
        self.cursor.skip_space();
        match self.relation() {
            Some((_, sign)) if word.is_empty() => {
                Err(SyntaxError::new(sign, "a field's name is missing here").hint(QUOTE_IT))
            }
            Some((relation, _)) if is_plain_name(word) => self.comparison(word, span, relation),
            Some(_) => {
                let message = format!("{} is not a field's name", shown(word));
                Err(SyntaxError::new(span, message).hint(QUOTE_IT))
            }
            None => {
                *self.cursor = behind;
                self.ends_here(start)?;
                Ok(FilterExpr::text(WildcardPattern::of(pieces(
                    word,
                    Wildcards::Star,
                ))))
            }
        }
    }

    /// An operator, if one comes next, and where it stands.
    fn relation(&mut self) -> Option<(ComparisonOperator, Range<usize>)> {
        // The longer ones first.
        const ALL: [ComparisonOperator; 6] = [
            ComparisonOperator::NotEqual,
            ComparisonOperator::AtMost,
            ComparisonOperator::AtLeast,
            ComparisonOperator::Less,
            ComparisonOperator::Greater,
            ComparisonOperator::Equal,
        ];
        ALL.into_iter()
            .find_map(|relation| Some((relation, self.cursor.take(relation.sign())?)))
    }

    /// Reads the value, or the list of values, that follows an operator.
    fn comparison(
        &mut self,
        name: &str,
        span: Range<usize>,
        relation: ComparisonOperator,
    ) -> Result<FilterExpr, SyntaxError> {
        let field = named(name, span.clone())?;
        let spaced = self.cursor.skip_space();
        if self.cursor.peek() == Some('(') {
            return self.list(field, relation);
        }
        if spaced && keyword(self.cursor.rest()).is_some() {
            return Err(self.no_value(name, relation));
        }
        let written = self.written(name, relation)?;
        if !relation.is_order() && written.pattern.is_any() {
            return present(field, relation, span.start..self.cursor.at());
        }
        let value = written.value(&field, relation)?;
        Ok(FilterExpr::Compare(Comparison {
            field,
            relation,
            values: vec![value],
        }))
    }

    /// `(a OR b)`: values in parentheses.
    fn list(
        &mut self,
        field: QueryField,
        relation: ComparisonOperator,
    ) -> Result<FilterExpr, SyntaxError> {
        let open = self.cursor.here();
        self.cursor.take("(");
        if relation.is_order() {
            let message = format!("`{}` takes one value", relation.sign());
            return Err(SyntaxError::new(open, message));
        }
        let mut values = Vec::new();
        let mut any = false;
        loop {
            self.cursor.skip_space();
            let written = self.list_item(&field, relation)?;
            any |= written.pattern.is_any();
            if !any {
                values.push(written.value(&field, relation)?);
            }
            self.count_value(&written)?;
            self.cursor.skip_space();
            if self.cursor.take(")").is_some() {
                break;
            }
            self.list_or(&open)?;
        }
        if any {
            return present(field, relation, open.start..self.cursor.at());
        }
        Ok(FilterExpr::Compare(Comparison {
            field,
            relation,
            values,
        }))
    }

    fn list_item(
        &mut self,
        field: &QueryField,
        relation: ComparisonOperator,
    ) -> Result<ValueToken, SyntaxError> {
        let ahead = keyword(self.cursor.rest());
        if ahead.is_some() || matches!(self.cursor.peek(), Some('(')) {
            let fault = SyntaxError::new(self.cursor.here(), "a value is expected here");
            return Err(fault.hint("in the parentheses of a field stand values and `OR` alone"));
        }
        let written = self.written(&field.label(), relation)?;
        if !written.quoted && written.text.contains(',') {
            let fault = SyntaxError::new(written.span, "a comma between values");
            return Err(fault.hint("values are joined by `OR`; one with a comma is put in quotes"));
        }
        Ok(written)
    }

    /// Many values are one condition; those with wildcards cost as much as one each.
    fn count_value(&mut self, written: &ValueToken) -> Result<(), SyntaxError> {
        self.values += 1;
        self.terms += usize::from(written.pattern.as_literal().is_none());
        let limit = if self.values > QUERY_VALUES_MAX {
            format!("more than {QUERY_VALUES_MAX} values")
        } else if self.terms > QUERY_TERMS_MAX {
            format!("more than {QUERY_TERMS_MAX} conditions, a value with a wildcard being one")
        } else {
            return Ok(());
        };
        Err(SyntaxError::new(written.span.clone(), limit))
    }

    fn list_or(&mut self, open: &Range<usize>) -> Result<(), SyntaxError> {
        if keyword(self.cursor.rest()) == Some("OR") {
            self.cursor.take("OR");
            return Ok(());
        }
        if matches!(self.cursor.peek(), None | Some('|')) {
            return Err(SyntaxError::new(open.clone(), "this `(` is not closed"));
        }
        let fault = SyntaxError::new(self.cursor.here(), "`OR` or `)` is expected here");
        Err(fault.hint("values are joined by `OR`: `host=(a OR b)`"))
    }

    /// One value as it was written.
    fn written(
        &mut self,
        name: &str,
        relation: ComparisonOperator,
    ) -> Result<ValueToken, SyntaxError> {
        let start = self.cursor.at();
        if self.cursor.peek() == Some('"') {
            let text = self.cursor.quoted()?;
            self.ends_here(start)?;
            return Ok(ValueToken {
                pattern: WildcardPattern::literal(&text),
                span: self.cursor.since(start),
                quoted: true,
                text,
            });
        }
        if let Some((second, sign)) = self.relation() {
            return Err(two_operators(relation, second, sign));
        }
        let text = self.cursor.take_while(|c| !ends_word(c));
        if text.is_empty() {
            return Err(self.no_value(name, relation));
        }
        self.ends_here(start)?;
        Ok(ValueToken {
            pattern: WildcardPattern::of(pieces(text, Wildcards::StarAndOne)),
            span: self.cursor.since(start),
            quoted: false,
            text: text.to_owned(),
        })
    }

    fn no_value(&self, name: &str, relation: ComparisonOperator) -> SyntaxError {
        let sign = relation.sign();
        let message = format!("a value is missing after `{sign}`");
        let fault = SyntaxError::new(self.cursor.here(), message);
        if relation.is_order() {
            return fault;
        }
        let name = shown(&format!("{name}{sign}\"\""));
        fault.hint(format!("{name} looks for an empty value"))
    }

    /// Terms stand apart: what is stuck to one without a space is hardly meant as the next.
    fn ends_here(&self, start: usize) -> Result<(), SyntaxError> {
        match self.cursor.peek() {
            Some('(' | '"') => {
                let span = start..self.cursor.here().end;
                let fault =
                    SyntaxError::new(span, "a space is missing, or quotes around all of it");
                if let Some(hint) = habit::of_stuck(self.cursor.behind(start)) {
                    return Err(fault.hint(hint));
                }
                Err(fault.hint("text with quotes or parentheses is written \"f(\\\"x\\\")\""))
            }
            Some(c) if !ends_word(c) => {
                let span = start..self.cursor.here().end;
                Err(SyntaxError::new(span, "a space is missing after this"))
            }
            _ => Ok(()),
        }
    }
}

/// A value as it was written, before it is known what the field is.
struct ValueToken {
    text: String,
    quoted: bool,
    pattern: WildcardPattern,
    span: Range<usize>,
}

impl ValueToken {
    fn value(
        &self,
        field: &QueryField,
        relation: ComparisonOperator,
    ) -> Result<FilterValue, SyntaxError> {
        match field {
            QueryField::Column(column) if column.kind() == ColumnType::Number => self.code(*column),
            QueryField::Column(column) if column.kind() == ColumnType::Time => self.time(*column),
            _ if relation.is_order() => self.number(relation),
            _ => Ok(FilterValue::Text(self.pattern.clone())),
        }
    }

    fn fault(&self, message: String) -> SyntaxError {
        SyntaxError::new(self.span.clone(), message)
    }

    fn code(&self, column: EventColumn) -> Result<FilterValue, SyntaxError> {
        if let Some(code) = column.code(&self.text) {
            return Ok(FilterValue::Code(code));
        }
        let message = format!("{} is no {}", shown(&self.text), column.name());
        let hint = match nearest(&self.text, column.code_names()) {
            Some(name) => format!("did you mean `{name}`?"),
            None if column == EventColumn::Severity => {
                "0 (emerg), alert, crit, err, warning, notice, info or debug (7)".to_owned()
            }
            None => "0 to 23, or a name such as `auth` or `local4`".to_owned(),
        };
        Err(self.fault(message).hint(hint))
    }

    fn time(&self, column: EventColumn) -> Result<FilterValue, SyntaxError> {
        let ns = match self.text.parse::<i64>() {
            Ok(since) => since.checked_mul(when::unit_ns(since)),
            Err(_) => self
                .text
                .parse::<Timestamp>()
                .ok()
                .and_then(|time| i64::try_from(time.as_nanosecond()).ok()),
        };
        ns.map(FilterValue::Time).ok_or_else(|| {
            let message = format!("{} is no {}", shown(&self.text), column.name());
            self.fault(message)
                .hint("write `2026-11-22T10:00:00Z`, or seconds or milliseconds since 1970")
        })
    }

    fn number(&self, relation: ComparisonOperator) -> Result<FilterValue, SyntaxError> {
        let begins = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.');
        let number = self.text.parse::<f64>().ok();
        match number.filter(|number| number.is_finite() && self.text.starts_with(begins)) {
            Some(number) => Ok(FilterValue::Number(number)),
            None => {
                let (sign, text) = (relation.sign(), shown(&self.text));
                let message = format!("`{sign}` compares numbers, and {text} is none");
                Err(self.fault(message).hint(QUOTE_IT))
            }
        }
    }
}

/// The field of a name.
pub(super) fn named(name: &str, span: Range<usize>) -> Result<QueryField, SyntaxError> {
    QueryField::named(name).map_err(|wrong| {
        let fault = SyntaxError::new(span, wrong.message);
        match wrong.hint {
            Some(hint) => fault.hint(hint),
            None => fault,
        }
    })
}

/// `field=*`.
fn present(
    field: QueryField,
    relation: ComparisonOperator,
    span: Range<usize>,
) -> Result<FilterExpr, SyntaxError> {
    if relation == ComparisonOperator::Equal {
        return Ok(FilterExpr::Present(field));
    }
    let hint = format!(
        "events without the field: {}",
        shown(&format!("-{}=*", field.label()))
    );
    Err(SyntaxError::new(span, "no event has a field and differs from everything").hint(hint))
}

fn two_operators(
    first: ComparisonOperator,
    second: ComparisonOperator,
    span: Range<usize>,
) -> SyntaxError {
    let fault = SyntaxError::new(span, "a second operator");
    match (first, second) {
        (ComparisonOperator::Equal, ComparisonOperator::Equal) => {
            fault.hint("equality is written `=`")
        }
        (ComparisonOperator::Equal, ComparisonOperator::Less) => fault.hint("write `<=`"),
        (ComparisonOperator::Equal, ComparisonOperator::Greater) => fault.hint("write `>=`"),
        (ComparisonOperator::Less, ComparisonOperator::Greater) => fault.hint("write `!=`"),
        _ => fault.hint("a value that begins so is put in quotes"),
    }
}

/// Characters that are wildcards in a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wildcards {
    /// `*`: in text to look for a `?` is more often meant as one, as in an address with a query.
    Star,
    /// `*` and `?`.
    StarAndOne,
}

/// A word cut at its wildcards.
fn pieces(word: &str, wildcards: Wildcards) -> impl Iterator<Item = PatternPiece> {
    let wild = move |c: char| c == '*' || (c == '?' && wildcards == Wildcards::StarAndOne);
    word.split_inclusive(wild).flat_map(move |part| {
        let (literal, last) = match part.chars().next_back() {
            Some(last) if wild(last) => (&part[..part.len() - last.len_utf8()], Some(last)),
            _ => (part, None),
        };
        let wildcard = last.map(|c| {
            if c == '*' {
                PatternPiece::Any
            } else {
                PatternPiece::One
            }
        });
        [Some(PatternPiece::Literal(literal.to_owned())), wildcard]
            .into_iter()
            .flatten()
    })
}

/// The keyword that comes next. It stands alone: `ORDER` and `OR=1` are none.
fn keyword(rest: &str) -> Option<&'static str> {
    KEYWORDS.into_iter().find(|word| {
        rest.strip_prefix(word)
            .is_some_and(|rest| rest.chars().next().is_none_or(ends_word))
    })
}

/// True if the character ends a word without operators in it.
pub(super) const fn ends_word(c: char) -> bool {
    c.is_whitespace() || matches!(c, '(' | ')' | '|' | '"')
}

/// Byte offset of the end of a word that could be a field's name. An operator ends it too.
fn name_end(rest: &str) -> usize {
    let ends = |(at, c): &(usize, char)| {
        ends_word(*c) || matches!(c, '=' | '<' | '>') || rest[*at..].starts_with("!=")
    };
    rest.char_indices()
        .find(ends)
        .map_or(rest.len(), |(at, _)| at)
}

fn may_follow_minus(c: char) -> bool {
    (!ends_word(c) || matches!(c, '(' | '"')) && c != '-'
}

fn quote_word(word: &str) -> String {
    format!("to look for the word itself, write \"{word}\"")
}
