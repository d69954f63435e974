//! The macro by which rooms declare deliberate bugs, for the simulation to find.

/// Declares the deliberate bugs of a crate that has a feature `mutants`: `Mutant`, `is_on`, and
/// with the feature `switch_mutant`. They are in the code only with the feature, and none is on
/// until it is switched on. Each is a variant, its name on the command line, and what it does.
#[macro_export]
macro_rules! mutants {
    ($($variant:ident $name:literal $doc:literal,)*) => {
        /// A deliberate bug.
        #[cfg(feature = "mutants")]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mutant { $(#[doc = $doc] $variant,)* }

        /// A deliberate bug, which is not in this build.
        #[cfg(not(feature = "mutants"))]
        #[derive(Clone, Copy)]
        pub(crate) enum Mutant { $(#[doc = $doc] $variant,)* }

        #[cfg(feature = "mutants")]
        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        #[cfg(feature = "mutants")]
        static ON: std::sync::atomic::AtomicUsize =
            std::sync::atomic::AtomicUsize::new(usize::MAX);

        /// Switches one on for the whole process, or all off.
        #[cfg(feature = "mutants")]
        pub fn switch_mutant(mutant: Option<Mutant>) {
            let number = mutant.map_or(usize::MAX, |mutant| mutant as usize);
            ON.store(number, std::sync::atomic::Ordering::Relaxed);
        }

        /// True if it is on.
        #[cfg(feature = "mutants")]
        pub(crate) fn is_on(mutant: Mutant) -> bool {
            ON.load(std::sync::atomic::Ordering::Relaxed) == mutant as usize
        }

        /// False: it is never on in this build.
        #[cfg(not(feature = "mutants"))]
        pub(crate) const fn is_on(_: Mutant) -> bool {
            false
        }
    };
}
