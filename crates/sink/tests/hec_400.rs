//! What the `splunk_hec` sink does about a 400, row by row of the table in `answer.rs`, against a
//! collector that indexes what the row says: nothing that was indexed is sent twice, and nothing
//! that was not is lost.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{MemoryFeed, MemoryQuarantine, batch};
use inrush_event::{AutoCount, Period, Secret};
use inrush_sink::splunk_hec::SplunkHecConfig;
use inrush_sink::{SinkConfig, SinkStatus, build};
use inrush_testkit::{Hec, Reply};
use serde_json::Value;

struct Run {
    server: Hec,
    feed: Arc<MemoryFeed>,
    quarantine: Arc<MemoryQuarantine>,
    status: Arc<SinkStatus>,
}

impl Run {
    /// How often each of these is indexed.
    fn times(&self, text: &str) -> usize {
        self.server.texts().iter().filter(|t| *t == text).count()
    }

    /// The collector's code and words about each refused event.
    fn refused(&self) -> Vec<(String, u32, String)> {
        let kept = self.quarantine.kept.lock().unwrap();
        let said = |(_, text, refusal): &(String, String, inrush_sink::EventRefusal)| {
            (text.clone(), refusal.code, refusal.text.clone())
        };
        kept.iter().map(said).collect()
    }
}

/// Batches of one index each, `INDEX: TEXT TEXT…`, sent as one body by one worker.
fn run(
    batches: &[&str],
    reroute: Option<&str>,
    rule: impl Fn(usize, &[Value]) -> Reply + Send + Sync + 'static,
) -> Run {
    let server = Hec::answering(rule);
    let mut config = SplunkHecConfig::new(vec![server.url()], Secret::new("the-token"));
    config.workers = AutoCount::of(1);
    config.batch.timeout = Period(Duration::from_millis(20));
    config.proxy = Some(Secret::new(""));
    config.reroute_index = reroute.map(str::to_owned);
    config.event_id = true;
    let quarantine = Arc::new(MemoryQuarantine::default());
    let keep = Arc::<MemoryQuarantine>::clone(&quarantine);
    let config = SinkConfig::SplunkHec(config.into());
    let (sink, status) = build("splunk", &config, Path::new("."), keep).unwrap();
    let batches: Vec<_> = batches
        .iter()
        .enumerate()
        .map(|(number, text)| {
            let (index, texts) = text.split_once(": ").unwrap();
            let texts: Vec<&[u8]> = texts.split(' ').map(str::as_bytes).collect();
            batch(index, number as u64, &texts)
        })
        .collect();
    let feed = MemoryFeed::of(&batches);
    sink.run(Arc::<MemoryFeed>::clone(&feed));
    Run {
        server,
        feed,
        quarantine,
        status,
    }
}

fn first(events: &[Value], bad: impl FnMut(&Value) -> bool) -> Option<usize> {
    events.iter().position(bad)
}

fn is_bad(event: &Value) -> bool {
    event["event"].as_str().unwrap().starts_with("bad")
}

#[test]
fn a_bad_event_is_named_and_what_stands_before_it_is_indexed() {
    for code in [6, 12, 13, 15] {
        for texts in ["bad b c d", "a b bad d", "a b c bad", "bad1 bad2 c bad3"] {
            let run = run(&[&format!("main: {texts}")], None, move |_, events| {
                first(events, is_bad).map_or(Reply::Success, |n| Reply::named(code, n as u64))
            });
            for text in texts.split(' ') {
                let times = usize::from(!text.starts_with("bad"));
                assert_eq!(run.times(text), times, "{code} {texts}: {text}");
            }
            let bad = texts.split(' ').filter(|text| text.starts_with("bad"));
            let bad: Vec<_> = bad
                .map(|text| (text.to_owned(), code, "no".to_owned()))
                .collect();
            assert_eq!(run.refused(), bad);
        }
    }
}

/// Bodies with the index `typo` at the front, in the middle, at the end, more than once, and only.
const WITH_TYPO: &[&[&str]] = &[
    &["typo: x", "main: a b"],
    &["main: a", "typo: x", "main: b"],
    &["main: a b", "typo: x y z", "main: c", "typo: v w"],
    &["main: a b", "other: c", "typo: x"],
    &["typo: x y z"],
];

fn texts_of<'a>(batches: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    let pairs = batches.iter().flat_map(|batch| {
        let (index, texts) = batch.split_once(": ").unwrap();
        texts.split(' ').map(move |text| (index, text))
    });
    pairs.collect()
}

fn in_typo(event: &Value) -> bool {
    event["index"] == "typo"
}

#[test]
fn for_a_wrong_index_the_object_behind_it_is_named_and_what_stands_before_is_indexed() {
    for batches in WITH_TYPO {
        let run = run(batches, None, |_, events| {
            first(events, in_typo).map_or(Reply::Success, |n| Reply::named(7, n as u64 + 1))
        });
        for (index, text) in texts_of(batches) {
            assert_eq!(run.times(text), usize::from(index != "typo"), "{batches:?}");
        }
        for (_, code, text) in run.refused() {
            assert_eq!((code, text.as_str()), (7, "no (index `typo`)"));
        }
        assert!(
            run.server.requests().len() <= 3 + batches.len(),
            "{batches:?}"
        );
    }
}

#[test]
fn rerouted_events_are_indexed_once_and_keep_the_name_of_their_index() {
    for batches in WITH_TYPO {
        let run = run(batches, Some("lost"), |_, events| {
            first(events, in_typo).map_or(Reply::Success, |n| Reply::named(7, n as u64 + 1))
        });
        let texts = texts_of(batches);
        assert_eq!(run.feed.delivered().len(), texts.len());
        let mut moved = 0;
        for (index, text) in texts {
            assert_eq!(run.times(text), 1, "{batches:?}: {text}");
            let indexed = run.server.taken();
            let event = indexed.iter().find(|e| e["event"] == text).unwrap();
            let (to, original) = match index {
                "typo" => ("lost", Some("typo".into())),
                own => (own, None),
            };
            assert_eq!(event["index"], to);
            assert_eq!(event["fields"].get("inrush_index"), original.as_ref());
            moved += u64::from(index == "typo");
        }
        assert_eq!(run.status.rerouted().get("typo"), Some(&moved));
        let ids = run.server.taken().into_iter();
        let ids = ids.map(|event| event["fields"]["inrush_id"].to_string());
        let ids: std::collections::HashSet<String> = ids.collect();
        assert_eq!(ids.len(), run.feed.delivered().len(), "a name each");
    }
}

#[test]
fn a_collector_that_names_the_wrong_index_itself_costs_no_event() {
    for batches in WITH_TYPO {
        let run = run(batches, None, |_, events| match first(events, in_typo) {
            Some(n) => Reply::partly(7, Some(n as u64), n),
            None => Reply::Success,
        });
        for (index, text) in texts_of(batches) {
            let times = run.times(text);
            match index {
                "typo" => assert_eq!(times, 0, "{batches:?}: {text}"),
                // The event before the bad one is suspected, and sent alone.
                _ => assert!(
                    times == 1 || times == 2,
                    "{batches:?}: {text} {times} times"
                ),
            }
        }
        let refused = run.refused();
        assert!(
            refused
                .iter()
                .all(|(text, ..)| "vwxyz".contains(text.as_str()))
        );
    }
}

#[test]
fn where_nothing_is_named_the_bad_one_is_found_and_the_others_are_not_lost() {
    for (code, number) in [
        (6, None),
        (12, Some(99)),
        (7, None),
        (7, Some(99)),
        (99, None),
    ] {
        let run = run(
            &["main: a b c bad d e"],
            None,
            move |_, events| match first(events, is_bad) {
                Some(_) => Reply::partly(code, number, 0),
                None => Reply::Success,
            },
        );
        let lost = ["a", "b", "c", "d", "e"].map(|text| run.times(text));
        if code == 7 {
            // All of them go to the index that is not taken.
            assert_eq!(run.refused().len(), 6);
            continue;
        }
        assert_eq!(lost, [1; 5], "{code} {number:?}");
        assert_eq!(run.refused(), [("bad".into(), code, "no".into())]);
    }
}

#[test]
fn another_code_with_a_number_has_that_event_sent_alone() {
    let run = run(&["main: a b bad d"], None, |_, events| {
        let bad = first(events, is_bad).map(|n| n as u64);
        bad.map_or(Reply::Success, |n| Reply::partly(99, Some(n), 0))
    });
    assert_eq!(["a", "b", "d"].map(|text| run.times(text)), [1; 3]);
    assert_eq!(run.refused(), [("bad".into(), 99, "no".into())]);
    assert_eq!(
        run.server.requests().len(),
        4,
        "all, before it, itself, behind it"
    );
}

#[test]
fn a_wrong_setting_holds_whatever_it_names() {
    std::thread::scope(|scope| {
        for code in [10, 11, 14, 16, 21, 22, 28] {
            scope.spawn(move || {
                let run = run(&["main: a b"], None, move |number, _| match number {
                    0 => Reply::partly(code, Some(0), 0),
                    _ => Reply::Success,
                });
                assert_eq!(["a", "b"].map(|text| run.times(text)), [1; 2], "{code}");
                assert_eq!(run.refused(), []);
                assert_eq!(run.server.requests().len(), 2, "{code}");
            });
        }
    });
}
