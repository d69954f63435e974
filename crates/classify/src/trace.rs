//! Trace of what was considered for one event, for those who ask why.

use crate::pack::{Header, When};

/// A rule that was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Considered {
    /// Its name.
    pub rule: String,
    /// Its stage.
    pub stage: &'static str,
    /// Outcome of the rule.
    pub outcome: Outcome,
}

/// Outcome of asking a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was taken.
    Taken,
    /// This part of its condition does not hold.
    Condition(String),
    /// This step could not read the event.
    Step(usize),
}

/// A condition in words.
pub(crate) fn describe(when: &When) -> String {
    let list = |all: &[When], joint: &str| all.iter().map(describe).collect::<Vec<_>>().join(joint);
    match when {
        When::Always => "always".to_owned(),
        When::Never => "never, by an option".to_owned(),
        When::All(all) => list(all, " and "),
        When::Any(any) => list(any, " or "),
        When::Not(other) => format!("not ({})", describe(other)),
        When::Part(test) => format!("{} is `{}`", test.part.name(), test.written),
        When::Format(header) => match header {
            Header::Rfc3164 => "the header is RFC 3164".to_owned(),
            Header::Rfc5424 => "the header is RFC 5424".to_owned(),
            Header::Unparsed => "there is no header".to_owned(),
        },
        When::Hint(vendor, product) => format!("hint is `{vendor}/{product}`"),
        When::Sender(_) => "sender lies in the network".to_owned(),
    }
}
