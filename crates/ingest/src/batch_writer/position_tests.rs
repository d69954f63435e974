//! Positions of streams reach the queue with or behind the events that came before them.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use inrush_queue::QueueOptions;
use proptest::prelude::*;

use super::offload_queue_tests::{Step, steps, text};
use super::tests::{Bench, DROP_NOISE, ISE, NOISE, OTHER};
use super::*;

/// Numbers of the events in a text: one, or those of the parts that it was made of.
fn numbers_in(text: &str) -> Vec<u64> {
    let digits = |rest: &str| {
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().unwrap()
    };
    for before in ["Step=", "other[", "no header "] {
        if text.contains(before) {
            return text.split(before).skip(1).map(digits).collect();
        }
    }
    panic!("an event that nobody sent: {text}");
}

/// Positions of each stream that were sent and have not come out yet.
#[derive(Default)]
struct Owed(BTreeMap<u64, BTreeSet<u64>>);

impl Owed {
    fn came(&mut self, number: u64) {
        let found = self.0.values_mut().any(|owed| owed.remove(&number));
        assert!(found, "{number} came twice, or was never sent");
    }

    fn check(&mut self, bench: &Bench) {
        for (texts, positions) in bench.batches() {
            for number in texts.iter().flat_map(|text| numbers_in(text)) {
                self.came(number);
            }
            for (stream, number) in positions {
                let owed = self.0.get(&stream).and_then(|owed| owed.first());
                assert!(
                    owed.is_none_or(|owed| *owed > number),
                    "{stream} is read to {number}, and {owed:?} has not come"
                );
            }
        }
    }
}

/// Reads, rests and lends as the steps say; each read notes how far its sender was read.
fn run(steps: &[Step]) {
    let rules = format!("{DROP_NOISE}{ISE}");
    let mut bench = Bench::of(&rules, 3);
    let (mut ms, mut number, mut owed) = (0, 0, Owed::default());
    let mut noted = BTreeMap::new();
    for step in steps {
        match step {
            Step::Read {
                sender,
                kind,
                times,
            } => {
                let stream = u64::from(*sender);
                for _ in 0..*times {
                    number += 1;
                    if *kind != 2 {
                        owed.0.entry(stream).or_default().insert(number);
                    }
                    bench.read(*sender, &text(*kind, number), 1, ms);
                    bench.note(stream, number);
                }
                noted.insert(stream, number);
            }
            Step::Rest(time) => {
                ms += 40 * time;
                bench.rest(ms);
            }
            Step::Share(wanted) => bench.filler.share(*wanted),
            Step::Help => drop(bench.filler.help(bench.at(ms))),
            Step::Reload => bench.reload(&rules),
        }
        owed.check(&bench);
    }
    bench.filler.close(bench.at(ms));
    owed.check(&bench);
    assert!(owed.0.values().all(BTreeSet::is_empty), "{:?}", owed.0);
    assert_eq!(bench.positions(), noted.into_iter().collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_position_is_before_an_event_that_came_before_it(steps in steps()) {
        run(&steps);
    }
}

#[test]
fn a_position_goes_with_its_batch_and_the_last_of_a_stream_counts() {
    let mut bench = Bench::new("");
    bench.read(1, OTHER, 2, 0);
    bench.note(7, 1);
    bench.note(8, 5);
    bench.note(7, 2);
    bench.rest(50);
    let batches = bench.batches();
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].1, [(7, 2), (8, 5)]);
    bench.read(1, OTHER, 1, 60);
    bench.rest(100);
    assert_eq!(bench.batches()[0].1, [], "nothing new was noted");
}

#[test]
fn positions_without_an_event_wait_a_second_for_one() {
    let mut bench = Bench::new(DROP_NOISE);
    bench.read(1, NOISE, 3, 0);
    bench.note(7, 3);
    bench.rest(50);
    assert_eq!((bench.batches().len(), bench.positions()), (0, vec![]));
    bench.read(1, OTHER, 1, 60);
    bench.rest(100);
    assert_eq!(bench.batches()[0].1, [(7, 3)], "an event came");

    bench.read(1, NOISE, 3, 200);
    bench.note(7, 6);
    bench.note(9, 1);
    bench.rest(900);
    assert_eq!(bench.positions(), [(7, 3)]);
    bench.rest(5_000);
    assert_eq!(bench.positions(), [(7, 6), (9, 1)], "none came");
    assert_eq!(bench.batches().len(), 0);
    assert_eq!(bench.filler.due(), None);
}

#[test]
fn positions_before_an_event_at_a_closed_queue_are_forgotten() {
    let mut bench = Bench::new("");
    bench.read(1, OTHER, 1, 0);
    bench.note(7, 1);
    bench.close_queue();
    bench.filler.close(bench.at(50));
    assert_eq!(bench.row().rejected["shutdown"], 1);
    assert_eq!(bench.positions(), [], "it is read again");
}

#[test]
fn a_reload_keeps_what_was_noted() {
    let mut bench = Bench::new(DROP_NOISE);
    bench.note(7, 1);
    bench.reload(DROP_NOISE);
    bench.read(1, OTHER, 1, 10);
    bench.rest(50);
    assert_eq!(bench.batches()[0].1, [(7, 1)]);
}

#[test]
fn a_state_that_is_too_long_is_not_noted() {
    let mut bench = Bench::with(
        "",
        1,
        QueueOptions {
            durability: inrush_queue::Durability::Memory,
            ..QueueOptions::default()
        },
    );
    bench
        .filler
        .note_position(7, vec![1; limits::POSITION_BYTES_MAX + 1]);
    bench.note(8, 1);
    bench.filler.close(bench.at(50));
    assert_eq!(bench.positions(), [(8, 1)]);
}
