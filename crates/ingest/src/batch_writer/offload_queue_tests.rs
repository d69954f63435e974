//! What other cores have studied is what one core would have made of it, and in its order.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::net::IpAddr;

use inrush_event::SourceSnapshot;
use proptest::prelude::*;

use super::tests::{Bench, DROP_NOISE, ISE};
use super::*;

/// One thing that happens to a worker.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// So many events of a sender: plain ones, some that a rule takes out, parts of events.
    Read { sender: u8, kind: u8, times: usize },
    /// Time passes, and what is due is handed on.
    Rest(u64),
    /// The worker has rest, or not any more.
    Share(bool),
    /// It goes on with what it lent, for a moment.
    Help,
    /// The same settings again.
    Reload,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let read = (1u8..4, 0u8..12, 1usize..200);
    let read = read.prop_map(|(sender, kind, times)| Step::Read {
        sender,
        kind,
        times,
    });
    let step = prop_oneof![
        12 => read,
        2 => (0u64..20).prop_map(Step::Rest),
        4 => any::<bool>().prop_map(Step::Share),
        4 => Just(Step::Help),
        1 => Just(Step::Reload),
    ];
    prop::collection::vec(step, 1..60)
}

/// What came out.
#[derive(PartialEq, Debug)]
struct Outcome {
    /// The events of each sender in their order, and what was put together from parts.
    events: BTreeMap<IpAddr, Vec<String>>,
    joined: Vec<String>,
    account: String,
    filtered: [u64; 2],
    anomalies: BTreeMap<String, u64>,
    senders: Vec<(IpAddr, u64)>,
}

/// A message of the kind: 0 and 1 are parts of events, 2 is taken out by a rule, 3 is not syslog.
pub(super) fn text(kind: u8, number: u64) -> String {
    match kind {
        0 | 1 => format!(
            "<181>May  6 07:08:09 psn1 CISE_RADIUS_Accounting {:010} 3 {} Step={number},",
            number / 3,
            number % 3
        ),
        2 => format!("<13>May  6 07:08:09 h1 noise: {number}"),
        3 => format!("no header {number}"),
        _ => format!("<13>May  6 07:08:09 h1 other[{number}]: x"),
    }
}

fn run(steps: &[Step], shares: bool) -> Outcome {
    let rest = format!("{DROP_NOISE}{ISE}");
    let mut bench = Bench::of(&rest, 3);
    let (mut ms, mut number) = (0, 0u64);
    // A reload ends the groups that wait, and which those are is a matter of time.
    let reloads = steps.iter().any(|step| matches!(step, Step::Reload));
    let least = if reloads { 2 } else { 0 };
    for step in steps {
        match step {
            Step::Read {
                sender,
                kind,
                times,
            } => {
                for _ in 0..*times {
                    number += 1;
                    bench.read(*sender, &text((*kind).max(least), number), 1, ms);
                }
            }
            Step::Rest(time) => {
                ms += time;
                bench.rest(ms);
            }
            Step::Share(wanted) => bench.filler.share(shares && *wanted),
            Step::Help => drop(bench.filler.help(bench.at(ms))),
            Step::Reload => bench.reload(&rest),
        }
    }
    bench.filler.close(bench.at(ms));
    let SourceSnapshot {
        received,
        received_bytes,
        accepted,
        held,
        ..
    } = bench.row();
    let mut events: BTreeMap<IpAddr, Vec<String>> = BTreeMap::new();
    let mut joined = Vec::new();
    for (ip, text) in bench.events() {
        match text.contains("CISE") {
            true => joined.push(text),
            false => events.entry(ip).or_default().push(text),
        }
    }
    joined.sort();
    Outcome {
        events,
        joined,
        account: format!("{received} {received_bytes} {accepted} {held}"),
        filtered: ["noise", "grouped:cisco_ise_parts"].map(|rule| bench.filtered(rule)),
        anomalies: bench.source.anomaly_counts(),
        senders: bench.senders(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn what_others_studied_is_the_same_and_in_order(steps in steps()) {
        prop_assert_eq!(run(&steps, true), run(&steps, false));
    }
}

#[test]
fn batches_of_a_busy_worker_are_lent_and_come_back_in_order() {
    let mut bench = Bench::of(ISE, 3);
    bench.filler.share(true);
    let count = 4 * limits::BATCH_FLUSH_RECORDS as u64;
    for number in 0..count {
        bench.read(1, &text(9, number), 1, 0);
    }
    bench.filler.close(bench.at(0));
    assert!(
        bench.source.shared_batches.get() >= 3,
        "lent from the second batch on"
    );
    let numbers = bench.events().into_iter().map(|(_, text)| text);
    assert!(numbers.eq((0..count).map(|number| text(9, number))));
}

#[test]
fn one_worker_lends_nothing() {
    let mut bench = Bench::new(ISE);
    bench.filler.share(true);
    for number in 0..2 * limits::BATCH_FLUSH_RECORDS as u64 {
        bench.read(1, &text(9, number), 1, 0);
    }
    bench.filler.close(bench.at(0));
    assert_eq!(bench.source.shared_batches.get(), 0);
}
