//! Deliberate bugs, for the simulation to find.

inrush_event::mutants! {
    SkipSync "skip-sync" "What is written counts as durable without a sync.",
    AckEarly "ack-early" "A round counts as durable once it is written, before it is synced.",
    CursorOffByOne "cursor-off-by-one" "A cursor is written down one event too far.",
    DeleteEarly "delete-early" "A segment is deleted before the cursors are synced.",
    SyncAgain "sync-again" "A sync that failed is tried again, and trusted.",
    TwoSlots "two-slots" "A cursor has two slots: its durable place may be written over.",
    TrustFound "trust-found" "The place that a restart found counts as durable.",
    NewestSynced "newest-synced" "A cursor's sync counts for what was written while it was under way.",
    AheadDurable "ahead-durable" "What was written ahead counts as durable with the sync before it.",
    KeepAhead "keep-ahead" "After a failed sync, what was written ahead of it is not written again.",
    DropInFlight "drop-in-flight" "What is in flight when its segment makes room counts as dropped at once.",
    DropForOthers "drop-for-others" "What one destination gives up to make room is dropped for all.",
    BudgetIgnored "budget-ignored" "The limit of a destination's backlog does not count.",
    DeleteKept "delete-kept" "A segment is deleted once its last event is settled.",
    ReuseNumbers "reuse-numbers" "Numbers of events that were lost after delivery are given out again.",
}
