//! Counts of what would change: alike changes together, a few samples of each.

use std::collections::BTreeMap;

use inrush_inspect::replay::{EventMetadata, ReplayPage};
use serde::Serialize;

/// Different changes that are told apart at most; further ones are counted together.
const CHANGES_MAX: usize = 1000;

/// Rules that are counted by name at most.
const RULES_MAX: usize = 1000;

/// Samples of a change.
const SAMPLES_MAX: usize = 3;

/// Characters of a record that a sample shows.
const SAMPLE_CHARS: usize = 400;

/// Counts of what was read, and of what would come of it.
#[derive(Debug, Default)]
pub(super) struct ReplayTally {
    /// Records that were read again.
    pub(super) read: u64,
    /// Events that come out as they were.
    pub(super) same: u64,
    /// Events that do not.
    pub(super) changed: u64,
    /// Events that rules take out, by rule.
    pub(super) filtered: BTreeMap<String, u64>,
    /// By what rules events are recognised now.
    pub(super) rules: BTreeMap<String, u64>,
    changes: BTreeMap<ChangeKey, Changed>,
    /// Changed events that no longer fit into the above.
    pub(super) others: u64,
}

/// A value then and now; `None` where it was not kept.
type Pair = (Option<String>, String);

/// Properties that events of one change have in common.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ChangeKey {
    pub(super) index: Pair,
    pub(super) sourcetype: Pair,
    pub(super) source: Pair,
    /// Vendor, product and class.
    pub(super) class: Pair,
    /// True if the host is another; the hosts may be many, and are in the samples.
    pub(super) host: bool,
    /// True if the time is another.
    pub(super) time: bool,
    /// The rules that decide now.
    pub(super) rules: String,
}

/// Events of one change.
#[derive(Debug, Default)]
pub(super) struct Changed {
    pub(super) events: u64,
    pub(super) samples: Vec<ChangeSample>,
}

/// One event.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ChangeSample {
    pub(super) raw: String,
    pub(super) host_was: String,
    pub(super) host: String,
    pub(super) time_was: Option<String>,
    pub(super) time: Option<String>,
}

impl ReplayTally {
    /// Counts a page.
    pub(super) fn count(&mut self, page: &ReplayPage) {
        self.read += (page.was.len() + page.filtered.len()) as u64;
        for (_, _, rule) in &page.filtered {
            add(&mut self.filtered, rule);
        }
        for (record, (was, _)) in page.batch.records().iter().zip(&page.was) {
            let rules = page.batch.class(record);
            let rules = rules.map_or("", |class| class.rules.as_str());
            if !rules.is_empty() {
                add(&mut self.rules, rules);
            }
            let now = EventMetadata::of(&page.batch, record);
            if is_same(&now, was) {
                self.same += 1;
                continue;
            }
            self.changed += 1;
            let raw = || String::from_utf8_lossy(page.batch.get(record.raw));
            self.note(&now, was, rules, || {
                raw().chars().take(SAMPLE_CHARS).collect()
            });
        }
    }

    fn note(
        &mut self,
        now: &EventMetadata,
        was: &EventMetadata,
        rules: &str,
        raw: impl Fn() -> String,
    ) {
        let change = ChangeKey {
            index: (Some(was.index.clone()), now.index.clone()),
            sourcetype: (Some(was.sourcetype.clone()), now.sourcetype.clone()),
            source: (was.source.clone(), now.source.clone().unwrap_or_default()),
            class: (Some(class(was)), class(now)),
            host: now.host != was.host,
            time: milliseconds(now) != milliseconds(was),
            rules: rules.to_owned(),
        };
        if self.changes.len() >= CHANGES_MAX && !self.changes.contains_key(&change) {
            self.others += 1;
            return;
        }
        let changed = self.changes.entry(change).or_default();
        changed.events += 1;
        if changed.samples.len() < SAMPLES_MAX {
            let time = |names: &EventMetadata| inrush_inspect::explain::rfc3339(names.time);
            changed.samples.push(ChangeSample {
                raw: raw(),
                host_was: was.host.clone(),
                host: now.host.clone(),
                time_was: time(was),
                time: time(now),
            });
        }
    }

    /// The changes, those of most events first.
    pub(super) fn changes(&self) -> Vec<(&ChangeKey, &Changed)> {
        let mut changes: Vec<_> = self.changes.iter().collect();
        changes.sort_by_key(|(_, changed)| std::cmp::Reverse(changed.events));
        changes
    }

    /// Events that rules take out, together.
    pub(super) fn filtered_sum(&self) -> u64 {
        self.filtered.values().sum()
    }
}

fn add(counts: &mut BTreeMap<String, u64>, name: &str) {
    let known = counts.len() < RULES_MAX || counts.contains_key(name);
    let name = if known { name } else { "others" };
    *counts.entry(name.to_owned()).or_default() += 1;
}

/// Vendor, product and class as far as they are known, joined by `/`.
fn class(names: &EventMetadata) -> String {
    let class = names.class.as_deref().unwrap_or_default();
    let parts = [&names.vendor[..], &names.product, class];
    let known: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    known.join("/")
}

/// The least that every place of records keeps of a time.
fn milliseconds(names: &EventMetadata) -> i64 {
    names.time.0.div_euclid(1_000_000)
}

/// True if an event comes out as it was, as far as that is known.
pub(super) fn is_same(now: &EventMetadata, was: &EventMetadata) -> bool {
    let kept = |was: &Option<String>, now: &Option<String>| was.is_none() || was == now;
    now.index == was.index
        && now.sourcetype == was.sourcetype
        && now.host == was.host
        && now.vendor == was.vendor
        && now.product == was.product
        && kept(&was.source, &now.source)
        && kept(&was.class, &now.class)
        && milliseconds(now) == milliseconds(was)
}

#[cfg(test)]
mod tests {
    use super::*;
    use inrush_event::Timestamp;

    fn names(index: &str) -> EventMetadata {
        EventMetadata {
            time: Timestamp(1_000_000_000),
            host: "h".into(),
            index: index.into(),
            source: Some("s".into()),
            class: Some("c".into()),
            ..EventMetadata::default()
        }
    }

    #[test]
    fn what_was_not_kept_is_not_compared_and_times_are_to_the_millisecond() {
        let now = names("main");
        assert!(is_same(&now, &names("main")));
        assert!(!is_same(&now, &names("other")));
        let unknown = EventMetadata {
            source: None,
            class: None,
            ..names("main")
        };
        assert!(is_same(&now, &unknown));
        let set = EventMetadata {
            source: Some(String::new()),
            ..names("main")
        };
        assert!(!is_same(&now, &set));
        let later = |ns: i64| EventMetadata {
            time: Timestamp(1_000_000_000 + ns),
            ..names("main")
        };
        assert!(is_same(&now, &later(999_999)));
        assert!(!is_same(&now, &later(1_000_000)));
    }

    #[test]
    fn changes_have_bounds_and_none_is_lost() {
        let mut tally = ReplayTally::default();
        for number in 0..CHANGES_MAX + 5 {
            for _ in 0..5 {
                let now = names(&format!("i{number}"));
                tally.note(&now, &names("main"), "r", || "raw".into());
            }
        }
        let changes = tally.changes();
        assert_eq!(changes.len(), CHANGES_MAX);
        assert!(changes.iter().all(|(_, c)| c.samples.len() == SAMPLES_MAX));
        let counted: u64 = changes.iter().map(|(_, changed)| changed.events).sum();
        assert_eq!(counted + tally.others, 5 * (CHANGES_MAX as u64 + 5));
    }
}
