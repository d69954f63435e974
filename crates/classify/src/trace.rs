//! Trace of what was considered for one event, for those who ask why.

use crate::pack::{HeaderFormat, RuleCondition};

/// A rule that was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleTrace {
    /// Its name.
    pub rule: String,
    /// Its stage.
    pub stage: &'static str,
    /// Outcome of the rule.
    pub outcome: RuleOutcome,
}

/// Outcome of asking a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleOutcome {
    /// It was taken.
    Taken,
    /// This part of its condition does not hold.
    Condition(String),
    /// This step could not read the event.
    Step(usize),
}

/// A condition in words.
pub(crate) fn describe(when: &RuleCondition) -> String {
    let list = |all: &[RuleCondition], joint: &str| {
        all.iter().map(describe).collect::<Vec<_>>().join(joint)
    };
    match when {
        RuleCondition::Always => "always".to_owned(),
        RuleCondition::Never => "never, by an option".to_owned(),
        RuleCondition::All(all) => list(all, " and "),
        RuleCondition::Any(any) => list(any, " or "),
        RuleCondition::Not(other) => format!("not ({})", describe(other)),
        RuleCondition::Part(test) => format!("{} is `{}`", test.part.name(), test.written),
        RuleCondition::Format(header) => match header {
            HeaderFormat::Rfc3164 => "the header is RFC 3164".to_owned(),
            HeaderFormat::Rfc5424 => "the header is RFC 5424".to_owned(),
            HeaderFormat::Unparsed => "there is no header".to_owned(),
        },
        RuleCondition::Hint(vendor, product) => format!("hint is `{vendor}/{product}`"),
        RuleCondition::Sender(_) => "sender lies in the network".to_owned(),
    }
}
