//! The names that senders gave themselves.
//!
//! A sender that gives two names, or two addresses that are not its own, passes on what others
//! sent: for a day after the last change its events are nobody's, and none gets a name. One that
//! was renamed is known by its new name a day later.

use std::collections::hash_map::RandomState;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inrush_event::Timestamp;
use lru::LruCache;

use super::{ClaimedName, SENDERS_MAX, is_same_host, names_file};

/// Nanoseconds for which a sender that gave another name is taken to pass on what others sent.
/// A day: the hosts behind a relay that are silent for longer are few.
const SEVERAL_FOR_NS: i64 = 24 * 60 * 60 * 1_000_000_000;

/// Name and address that a sender gave itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct SenderIdentity {
    /// The last name that it gave; of two for one host, the longer. Empty if it gave none.
    pub(super) name: Arc<str>,
    /// The last address that it gave that is not its own; empty if it gave none.
    pub(super) address: Arc<str>,
    /// Time at which it last gave another name or address than before, if it ever did.
    pub(super) changed: Option<Timestamp>,
}

/// Result of a lookup of a sender's name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NameLookup {
    /// It is called so.
    Name(Arc<str>),
    /// It passes on what others sent.
    Several,
    /// It gave none.
    Nothing,
}

struct IdentityCache {
    by_sender: LruCache<IpAddr, SenderIdentity, RandomState>,
    /// True if there are changes to write down.
    dirty: bool,
}

/// The names that senders gave themselves, for all workers. The lock is taken once a batch by who
/// learnt something, and once a batch and sender by who asks.
pub(super) struct LearnedNames {
    state: Mutex<IdentityCache>,
    /// Path of the file that the names are kept in, if they are.
    file: Option<PathBuf>,
}

impl LearnedNames {
    pub(super) fn new(file: Option<PathBuf>) -> Self {
        let by_sender = LruCache::unbounded_with_hasher(RandomState::new());
        let state = IdentityCache {
            by_sender,
            dirty: false,
        };
        Self {
            state: Mutex::new(state),
            file,
        }
    }

    fn state(&self) -> MutexGuard<'_, IdentityCache> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what was kept, the oldest first.
    pub(super) fn fill(&self, known: Vec<(IpAddr, SenderIdentity)>) {
        let mut state = self.state();
        for (sender, own) in known {
            state.put(sender, own);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.state().by_sender.len()
    }

    /// Takes note of what senders called themselves.
    pub(super) fn learn<'n>(&self, said: impl Iterator<Item = ClaimedName<'n>>, now: Timestamp) {
        let mut said = said.peekable();
        if said.peek().is_none() {
            return;
        }
        let mut state = self.state();
        for one in said {
            state.learn(&one, now);
        }
    }

    /// Returns the name of a sender, or that it gave several or none.
    pub(super) fn get(&self, sender: IpAddr, now: Timestamp) -> NameLookup {
        let mut state = self.state();
        let Some(own) = state.by_sender.get(&sender) else {
            return NameLookup::Nothing;
        };
        // What lies far ahead of us was noted by a clock that has been set back since.
        let recent = |at: Timestamp| now.0.abs_diff(at.0) < SEVERAL_FOR_NS.unsigned_abs();
        match own.changed.is_some_and(recent) {
            true => NameLookup::Several,
            false if own.name.is_empty() => NameLookup::Nothing,
            false => NameLookup::Name(Arc::clone(&own.name)),
        }
    }

    /// Writes down what changed since the last time.
    pub(super) fn keep(&self, sync: bool) {
        let Some(path) = &self.file else {
            return;
        };
        // Copied under the lock, written without it.
        let known: Vec<(IpAddr, SenderIdentity)> = {
            let mut state = self.state();
            if !std::mem::take(&mut state.dirty) {
                return;
            }
            let newest_first = state.by_sender.iter();
            newest_first.map(|(ip, own)| (*ip, own.clone())).collect()
        };
        if let Err(error) = names_file::write(path, known.iter().rev(), sync) {
            self.state().dirty = true;
            let file = path.display();
            tracing::warn!(%file, %error, "the names of senders cannot be written down");
        }
    }
}

impl IdentityCache {
    fn put(&mut self, sender: IpAddr, own: SenderIdentity) {
        self.by_sender.put(sender, own);
        if self.by_sender.len() > SENDERS_MAX {
            self.by_sender.pop_lru();
        }
    }

    fn learn(&mut self, said: &ClaimedName<'_>, now: Timestamp) {
        let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
        let (name, address) = (text(said.name), text(said.address));
        if name.is_empty() && address.is_empty() {
            return;
        }
        if !self.by_sender.contains(&said.sender) {
            self.put(said.sender, SenderIdentity::default());
        }
        let Some(own) = self.by_sender.get_mut(&said.sender) else {
            return;
        };
        let other_host = !is_same_host(own.name.as_bytes(), said.name);
        let other_name = other_host && !own.name.is_empty() && !name.is_empty();
        let moved = *own.address != *address && !address.is_empty();
        if said.several || other_name || moved && !own.address.is_empty() {
            own.changed = Some(now);
            self.dirty = true;
        }
        if other_name || name.len() > own.name.len() {
            own.name = name.into();
            self.dirty = true;
        }
        if moved {
            own.address = address.into();
            self.dirty = true;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    const HOUR: i64 = SEVERAL_FOR_NS / 24;

    fn ip(last: u32) -> IpAddr {
        IpAddr::from(last.to_be_bytes())
    }

    fn learn(known: &LearnedNames, sender: u32, name: &str, several: bool, at: i64) {
        let said = ClaimedName {
            sender: ip(sender),
            name: name.as_bytes(),
            address: b"",
            several,
        };
        known.learn(std::iter::once(said), Timestamp(at));
    }

    fn learn_address(known: &LearnedNames, sender: u32, address: &str, at: i64) {
        let said = ClaimedName {
            sender: ip(sender),
            name: b"",
            address: address.as_bytes(),
            several: false,
        };
        known.learn(std::iter::once(said), Timestamp(at));
    }

    fn name(known: &LearnedNames, sender: u32, at: i64) -> Option<String> {
        match known.get(ip(sender), Timestamp(at)) {
            NameLookup::Name(name) => Some(name.to_string()),
            NameLookup::Several | NameLookup::Nothing => None,
        }
    }

    #[test]
    fn the_last_name_counts_and_who_gives_two_has_none_for_a_day() {
        let known = LearnedNames::new(None);
        assert_eq!(name(&known, 1, 0), None);
        learn(&known, 1, "fw1", false, 0);
        assert_eq!(name(&known, 1, HOUR).as_deref(), Some("fw1"));
        learn(&known, 1, "fw2", false, HOUR);
        assert_eq!(name(&known, 1, HOUR), None);
        assert_eq!(name(&known, 1, 24 * HOUR), None);
        learn(&known, 1, "fw2", false, 24 * HOUR);
        assert_eq!(name(&known, 1, 25 * HOUR).as_deref(), Some("fw2"));
        learn(&known, 2, "a", true, 0);
        assert_eq!(name(&known, 2, HOUR), None, "two in one batch");
    }

    #[test]
    fn a_host_is_one_by_its_short_and_its_long_name() {
        let known = LearnedNames::new(None);
        for said in ["fw1", "FW1.example.com", "fw1"] {
            learn(&known, 1, said, false, 0);
        }
        assert_eq!(name(&known, 1, 1).as_deref(), Some("FW1.example.com"));
        learn(&known, 1, "fw1.example.org", false, 1);
        assert_eq!(name(&known, 1, 1), None);
    }

    #[test]
    fn who_gives_two_addresses_that_are_not_its_own_has_no_name() {
        let known = LearnedNames::new(None);
        learn_address(&known, 1, "10.0.0.1", 0);
        learn(&known, 1, "fw1", false, 0);
        learn_address(&known, 1, "10.0.0.1", HOUR);
        assert_eq!(
            name(&known, 1, HOUR).as_deref(),
            Some("fw1"),
            "one is its own too"
        );
        learn_address(&known, 1, "10.0.0.2", HOUR);
        assert_eq!(name(&known, 1, HOUR), None);
        assert_eq!(name(&known, 1, 25 * HOUR).as_deref(), Some("fw1"));
        learn_address(&known, 2, "10.0.0.1", 0);
        assert_eq!(name(&known, 2, 0), None, "an address is no name");
    }

    #[test]
    fn a_clock_that_was_wrong_costs_a_name_for_a_day_and_not_for_years() {
        let known = LearnedNames::new(None);
        learn(&known, 1, "fw1", false, 9000 * HOUR);
        learn(&known, 1, "fw2", false, 9000 * HOUR);
        assert_eq!(name(&known, 1, 8999 * HOUR), None, "set back a little");
        assert_eq!(name(&known, 1, 0).as_deref(), Some("fw2"));
    }

    #[test]
    fn who_was_not_heard_of_for_longest_is_forgotten() {
        let known = LearnedNames::new(None);
        for sender in 0..SENDERS_MAX as u32 {
            learn(&known, sender, "fw1", false, 0);
        }
        learn(&known, 0, "fw1", false, 1);
        learn(&known, u32::MAX, "fw2", false, 1);
        assert_eq!(known.len(), SENDERS_MAX);
        assert_eq!(name(&known, 0, 1).as_deref(), Some("fw1"));
        assert_eq!(name(&known, 1, 1), None, "the oldest");
        assert_eq!(name(&known, u32::MAX, 1).as_deref(), Some("fw2"));
    }

    proptest! {
        /// Whoever is given a name has given that one, and no other for a day.
        #[test]
        fn nobody_is_called_what_another_was(
            said in proptest::collection::vec((0..3_u32, 0..3_usize, 0..30_i64), 1..60)
        ) {
            let names = ["fw1", "fw2", "db1"];
            let known = LearnedNames::new(None);
            let mut now = 0;
            let mut all: Vec<(u32, usize, i64)> = Vec::new();
            for (sender, which, hours) in said {
                now += hours * HOUR;
                learn(&known, sender, names[which], false, now);
                all.push((sender, which, now));
                let own = |(who, ..): &&(u32, usize, i64)| *who == sender;
                let Some(given) = name(&known, sender, now) else { continue };
                let recent = all.iter().filter(own).filter(|(.., at)| now - at < SEVERAL_FOR_NS);
                prop_assert!(recent.clone().all(|(_, which, _)| names[*which] == given));
            }
        }
    }
}
