//! Messages of which several make one event.

use std::time::Duration;

use inrush_event::Span;

use crate::event::Event;
use crate::pack::EventPart;
use crate::template::{TemplatePiece, TextTemplate};

/// Name of the placeholder for the texts of the parts in a group's event.
pub const JOINED: &str = "joined";

/// Rule by which parts of events are put together.
#[derive(Clone, Debug)]
pub struct GroupRule {
    /// The name of the rule.
    pub rule: String,
    /// Key texts that parts of one event have in common.
    pub by: Vec<TextTemplate>,
    /// Time for which the first part waits for the others.
    pub wait: Duration,
    /// Number of parts; `None`: as many as come in time.
    pub parts: Option<TextTemplate>,
    /// The number of a part; `None`: they stand in the order in which they come.
    pub order: Option<TextTemplate>,
    /// Text between two parts.
    pub join: String,
    /// Event that comes out.
    pub event: GroupOutput,
}

/// Event that comes out of a group.
#[derive(Clone, Debug)]
pub enum GroupOutput {
    /// The texts of all parts, with a text before and behind them that the last one to come says.
    Joined {
        /// Text of each part.
        part: TextTemplate,
        /// Text before them.
        before: TextTemplate,
        /// Text behind them.
        after: TextTemplate,
    },
    /// The last one to come stands for all; its event's text, if that differs.
    Last(Option<TextTemplate>),
}

impl GroupRule {
    /// True if the last part to come stands for all.
    pub fn is_last(&self) -> bool {
        matches!(self.event, GroupOutput::Last(_))
    }

    /// All texts, for who wants to know what they ask for.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &TextTemplate> {
        let [a, b, c] = match &self.event {
            GroupOutput::Joined {
                part,
                before,
                after,
            } => [Some(part), Some(before), Some(after)],
            GroupOutput::Last(text) => [text.as_ref(), None, None],
        };
        let others = [self.parts.as_ref(), self.order.as_ref(), a, b, c];
        self.by.iter().chain(others.into_iter().flatten())
    }
}

impl TextTemplate {
    /// Texts before and behind `${name}`; `None` unless it stands there once and bare.
    pub fn around(&self, name: &str) -> Option<(Self, Self)> {
        let Self::Pieces(pieces) = self else {
            return None;
        };
        let is_it = |piece: &TemplatePiece| {
            let TemplatePiece::Part {
                part: EventPart::Value(_, value),
                filters,
                default,
            } = piece
            else {
                return false;
            };
            &**value == name && filters.is_empty() && default.is_empty()
        };
        let at = pieces.iter().position(is_it)?;
        let (before, after) = (&pieces[..at], &pieces[at + 1..]);
        (!after.iter().any(is_it)).then(|| (Self::of(before), Self::of(after)))
    }

    fn of(pieces: &[TemplatePiece]) -> Self {
        match pieces {
            [] => Self::Fixed(String::new()),
            [TemplatePiece::Literal(text)] => Self::Fixed(text.clone()),
            _ => Self::Pieces(pieces.to_vec()),
        }
    }
}

/// Spans that one event gives for the group that it is a part of. They point into the arena or,
/// from its end on, into the event's scratch bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartSpans {
    /// The rule's place in the last stage.
    pub(crate) rule: u32,
    by: Span,
    text: Span,
    before: Span,
    after: Span,
    parts: Option<u64>,
    order: Option<u64>,
}

impl PartSpans {
    /// Reads what `event` says of its group.
    pub(crate) fn read(rule: u32, group: &GroupRule, event: &mut Event<'_>) -> Self {
        let keys: Vec<Span> = group.by.iter().map(|text| event.eval(text)).collect();
        let start = event.here();
        for span in keys {
            event
                .scratch
                .bytes
                .extend_from_slice(&span.len.to_le_bytes());
            event.copy(span);
        }
        let by = Span::new(start, event.here());
        let mut number = |text: &Option<TextTemplate>| {
            let span = event.eval(text.as_ref()?);
            std::str::from_utf8(event.bytes(span))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        let (parts, order) = (number(&group.parts), number(&group.order));
        let mut eval =
            |text: Option<&TextTemplate>| text.map_or(Span::EMPTY, |text| event.eval(text));
        let [text, before, after] = match &group.event {
            GroupOutput::Joined {
                part,
                before,
                after,
            } => [eval(Some(part)), eval(Some(before)), eval(Some(after))],
            GroupOutput::Last(text) => [Span::EMPTY, eval(text.as_ref()), Span::EMPTY],
        };
        Self {
            rule,
            by,
            text,
            before,
            after,
            parts,
            order,
        }
    }

    /// The same with the bytes that the spans point to.
    pub(crate) fn resolve<'c>(&self, arena: &'c [u8], tail: &'c [u8]) -> GroupPart<'c> {
        let bytes = |span: Span| resolve(span, arena, tail);
        GroupPart {
            by: bytes(self.by),
            text: bytes(self.text),
            before: bytes(self.before),
            after: bytes(self.after),
            parts: self.parts,
            order: self.order,
        }
    }
}

/// The bytes of a span into an arena, or from its end on into `tail`.
pub fn resolve<'c>(span: Span, arena: &'c [u8], tail: &'c [u8]) -> &'c [u8] {
    match span.start().checked_sub(arena.len()) {
        None => span.of(arena),
        Some(at) => tail.get(at..at + span.len()).unwrap_or_default(),
    }
}

/// A part of a group's event.
#[derive(Clone, Copy, Debug)]
pub struct GroupPart<'c> {
    /// Key that it has in common with the others: the texts of [`GroupRule::by`], each behind its
    /// length.
    pub by: &'c [u8],
    /// Text of the part.
    pub text: &'c [u8],
    /// Text before the joined texts, or the event's text where the last part stands for all.
    pub before: &'c [u8],
    /// Text behind the joined texts.
    pub after: &'c [u8],
    /// Number of parts, if it says so.
    pub parts: Option<u64>,
    /// Its number, if it says so.
    pub order: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_where_the_parts_stand() {
        let parse = |text| TextTemplate::parse(text, &|_| String::new()).expect("a text");
        let (before, after) = parse("${program} 1 ${joined}.")
            .around(JOINED)
            .expect("cut");
        assert_eq!(before, parse("${program} 1 "));
        assert_eq!(after, parse("."));
        assert_eq!(
            parse("${joined}").around(JOINED),
            Some((parse(""), parse("")))
        );
        for text in [
            "none",
            "${joined|lower}",
            "${joined} ${joined}",
            "${a:-${joined}}",
        ] {
            assert_eq!(parse(text).around(JOINED), None, "{text}");
        }
    }
}
