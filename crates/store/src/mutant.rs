//! Deliberate bugs, for the simulation to find. They are in the code only with the feature
//! `mutants`, and none is on until it is switched on.
// Public with the feature alone.
// Not all of their places are in the code yet.
#![allow(dead_code)]
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
    ForgetAfterLink "forget-after-link" "A commit that is not durable counts as not made.",
    SkipReadBack "skip-read-back" "A commit whose name is taken counts as ours unread.",
    DeleteEarly "delete-early" "Files are deleted before the commit that removes them.",
    CoveredOffByOne "covered-off-by-one" "A commit says that it holds one event more than it does.",
    NoSettle "no-settle" "A start does not make the last commit durable.",
    NoFence "no-fence" "A start does not take the number that a late commit wants.",
    PassDoubt "pass-doubt" "Another commit is made before the one that is in doubt.",
    NameEarly "name-early" "Files have their final names before the commit.",
    ReusePart "reuse-part" "What is left of a write is written over, though it may be a commit.",
    TrustFolder "trust-folder" "A folder that is found counts as durable after a sync.",
    BuryOneName "bury-one-name" "Of a removed file with two names one is deleted.",
    CountTries "count-tries" "A commit that was made at last is not counted.",
    TrustNumber "trust-number" "A number that is free is taken for one that nobody had.",
    FoundUnsynced "found-unsynced" "A file that a repair finds counts as durable.",
    TrustOldName "trust-old-name" "A file with two names is read by the one that is deleted.",
    DeleteLog "delete-log" "Commits are deleted before the list that tells them is durable.",
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
