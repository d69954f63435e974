//! Deliberate bugs, for the simulation to find. They are in the code only with the feature
//! `mutants`, and none is on until it is switched on.
// Public with the feature alone.
#![cfg_attr(not(feature = "mutants"), allow(unreachable_pub))]

macro_rules! mutants {
    ($($variant:ident $name:literal $doc:literal,)*) => {
        /// A deliberate bug.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mutant { $(#[doc = $doc] $variant,)* }

        #[cfg(feature = "mutants")]
        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

mutants! {
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

#[cfg(feature = "mutants")]
static ON: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(usize::MAX);

/// Switches one on for the whole process, or all off.
#[cfg(feature = "mutants")]
pub fn switch_mutant(mutant: Option<Mutant>) {
    let number = mutant.map_or(usize::MAX, |mutant| mutant as usize);
    ON.store(number, std::sync::atomic::Ordering::Relaxed);
}

/// Whether it is on.
#[cfg(feature = "mutants")]
pub(crate) fn is_on(mutant: Mutant) -> bool {
    ON.load(std::sync::atomic::Ordering::Relaxed) == mutant as usize
}

/// Whether it is on: never in this build.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn is_on(_: Mutant) -> bool {
    false
}
