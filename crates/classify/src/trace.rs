//! What was considered for one event, for those who ask why.

/// A rule that was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Considered {
    /// Its name.
    pub rule: String,
    /// Its stage.
    pub stage: &'static str,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of asking a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was taken.
    Taken,
    /// This part of its condition does not hold.
    Condition(String),
    /// This step could not read the event.
    Step(usize),
}
