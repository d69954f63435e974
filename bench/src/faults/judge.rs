//! Acknowledged events against those that are there.

use std::collections::BTreeMap;

use memchr::memmem::Finder;
use serde_json::Value;

use super::outcome::FaultsRun;
use super::series::KEPT;
use crate::crash::{Account, MARK, mark};

/// Events of a lane that are there, by number, with how often.
pub(super) struct LaneArrivals {
    pub(super) stored: BTreeMap<u32, u32>,
    pub(super) taped: BTreeMap<u32, u32>,
}

impl LaneArrivals {
    /// Events in the store, repeats with them.
    pub(super) fn copies(&self) -> u64 {
        self.stored.values().map(|times| u64::from(*times)).sum()
    }
}

/// Lane and number of the event of every line; a line has its text twice.
pub(super) fn marks(bytes: &[u8]) -> impl Iterator<Item = (u8, u32)> {
    let finder = Finder::new(MARK).into_owned();
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter_map(move |line| mark(&line[finder.find(line)? + MARK.len()..]))
}

/// Judges the events of a lane that went to this index.
pub(super) fn lane(index: &str, account: &Account, found: &LaneArrivals, run: &mut FaultsRun) {
    let times = |of: &BTreeMap<u32, u32>, number: u32| of.get(&number).copied().unwrap_or(0);
    for (number, (acked, sends)) in (0..).zip(account.acked.iter().zip(&account.sends)) {
        let stored = times(&found.stored, number);
        if *acked && stored == 0 && index == KEPT {
            run.lost_store += 1;
            run.tell(format!(
                "event {number} of {index}: acknowledged, not stored"
            ));
        }
        if *acked && times(&found.taped, number) == 0 {
            run.lost_file += 1;
            run.tell(format!(
                "event {number} of {index}: acknowledged, not in the file"
            ));
        }
        if stored > u32::from(*sends) {
            run.doubled += 1;
            run.tell(format!(
                "event {number} of {index}: sent {sends} times, stored {stored}"
            ));
        }
        run.resent += u64::from(stored.saturating_sub(1));
        run.repeated += u64::from(times(&found.taped, number).saturating_sub(stored.max(1)));
    }
    let sent = account.sends.len();
    let unsent = |number: &&u32| **number as usize >= sent;
    let odd = found.stored.keys().filter(unsent).count();
    if odd > 0 {
        run.doubled += odd as u64;
        run.tell(format!("{odd} events of {index} that nobody sent"));
    }
}

/// Faults of a ledger, where `all` events are found.
pub(super) fn ledger(ledger: &Value, all: u64) -> Vec<String> {
    let mut wrong = Vec::new();
    let stored = &ledger["destinations"]["local"]["stored"];
    let number = |key: &str| stored[key].as_u64().unwrap_or(u64::MAX);
    let sum = |of: &Value, but: &[&str]| -> u64 {
        let all = of.as_object().into_iter().flatten();
        let counted = all.filter(|(reason, _)| !but.contains(&reason.as_str()));
        counted.filter_map(|(_, events)| events.as_u64()).sum()
    };
    let had = number("at_start").saturating_add(number("written"));
    let holds = ledger["balanced"] == Value::Bool(true)
        && number("unreadable") == 0
        && number("searchable").saturating_add(number("in_memory")) == all
        && had == all + sum(&stored["expired"], &[]);
    if !holds {
        wrong.push(format!("{all} events are found; the ledger: {ledger}"));
    }
    for (name, account) in ledger["destinations"].as_object().into_iter().flatten() {
        // What a kill took was never acknowledged. Where no file tells that, it is `corrupt`.
        let gone = sum(&account["dropped"], &["not_durable", "corrupt"])
            + sum(&account["quarantined"], &[]);
        if gone > 0 {
            wrong.push(format!(
                "{name}: {gone} dropped or in quarantine: {account}"
            ));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::crash::{EventLane, LaneProtocol};
    use crate::faults::series::BRIEF;

    fn judged(index: &str, stored: &[(u32, u32)], taped: &[u32]) -> FaultsRun {
        let account = Account {
            sends: vec![1, 1, 2],
            acked: vec![true, false, true],
            ..Account::default()
        };
        let found = LaneArrivals {
            stored: stored.iter().copied().collect(),
            taped: taped.iter().map(|number| (*number, 1)).collect(),
        };
        let mut run = FaultsRun::default();
        lane(index, &account, &found, &mut run);
        run
    }

    #[test]
    fn what_was_acknowledged_is_there_and_nothing_more_often_than_it_was_sent() {
        let lost = |run: &FaultsRun| (run.lost_store, run.lost_file, run.doubled);
        assert_eq!(lost(&judged(KEPT, &[(0, 1), (2, 2)], &[0, 2])), (0, 0, 0));
        assert_eq!(lost(&judged(KEPT, &[(2, 1)], &[0, 2])), (1, 0, 0));
        assert_eq!(lost(&judged(BRIEF, &[(2, 1)], &[0, 2])), (0, 0, 0));
        assert_eq!(lost(&judged(KEPT, &[(0, 1), (2, 1)], &[2])), (0, 1, 0));
        assert_eq!(lost(&judged(KEPT, &[(0, 2), (2, 3)], &[0, 2])), (0, 0, 2));
        assert_eq!(
            lost(&judged(KEPT, &[(0, 1), (2, 1), (3, 1)], &[0, 2])),
            (0, 0, 1)
        );
    }

    #[test]
    fn a_ledger_that_does_not_fit_what_is_found_is_told() {
        let of = |unreadable: u64, dropped: &str| {
            let ledger = json!({
                "balanced": true,
                "destinations": { "local": {
                    "dropped": { dropped: 1 },
                    "stored": {
                        "at_start": 4, "written": 3, "expired": { "bytes": 2 },
                        "unreadable": unreadable, "searchable": 5, "in_memory": 0,
                    },
                }},
            });
            move |all| super::ledger(&ledger, all).len()
        };
        assert_eq!((of(0, "corrupt")(5), of(0, "corrupt")(4)), (0, 1));
        assert_eq!(of(0, "not_durable")(5), 0);
        assert_eq!((of(1, "corrupt")(5), of(0, "expired")(5)), (1, 1));
    }

    #[test]
    fn a_line_has_its_text_twice_and_is_one_event() {
        let lane = EventLane::new(3, LaneProtocol::Relp, 0);
        let line = |n| format!("{{\"raw\":\"{0}\",\"message\":\"{0}\"}}\n", lane.message(n));
        let text = [7, 8].map(line).concat();
        assert_eq!(marks(text.as_bytes()).collect::<Vec<_>>(), [(3, 7), (3, 8)]);
    }
}
