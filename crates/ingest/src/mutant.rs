//! Deliberate bugs, for the simulation to find.

inrush_event::mutants! {
    AnswerAppended "answer-appended" "What was appended is acknowledged before it is durable.",
}
