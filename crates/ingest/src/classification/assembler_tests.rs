//! Tests of the table of groups.
#![allow(clippy::unwrap_used)]
use std::net::IpAddr;
use std::time::Duration;

use inrush_classify::TextTemplate;
use inrush_classify::group::GroupOutput;
use inrush_event::{Batch, Timestamp};
use inrush_event::{
    BatchPool, ClassInfo, EventText, ExtraKey, Origin, Peer, Protocol, SourceInfo, Span,
};
use proptest::prelude::*;

use super::*;

/// What a part says.
#[derive(Clone, Debug)]
struct Say {
    key: u8,
    order: Option<u64>,
    parts: Option<u64>,
    text: String,
}

fn say(key: u8, order: u64, parts: u64, text: &str) -> Say {
    Say {
        key,
        order: Some(order),
        parts: Some(parts),
        text: text.to_owned(),
    }
}

/// A table, and what comes out of it.
struct Bench {
    groups: MultilineAssembler,
    room: Arc<MemoryBudget>,
    rule: Arc<Rule>,
    class: Arc<ClassInfo>,
    source: Arc<SourceInfo>,
    pool: Arc<BatchPool>,
    start: Instant,
}

const ROOM: usize = 1 << 20;

impl Bench {
    fn new(last: bool, counted: bool) -> Self {
        let fixed = |text: &str| TextTemplate::Fixed(text.to_owned());
        let event = match last {
            true => GroupOutput::Last(None),
            false => GroupOutput::Joined {
                part: fixed("as each says"),
                before: fixed(""),
                after: fixed(""),
            },
        };
        let room = MemoryBudget::of(ROOM);
        Self {
            groups: MultilineAssembler::new(Arc::clone(&room)),
            room,
            rule: Arc::new(Rule {
                rule: "mine".into(),
                by: Vec::new(),
                wait: Duration::from_secs(10),
                parts: counted.then(|| fixed("as each says")),
                order: None,
                join: "|".into(),
                event,
            }),
            class: Arc::new(ClassInfo {
                text: EventText::Own,
                ..ClassInfo::default()
            }),
            source: Arc::new(SourceInfo {
                name: "s".into(),
                index: "main".into(),
                sourcetype: "syslog".into(),
            }),
            pool: BatchPool::new(),
            start: Instant::now(),
        }
    }

    fn at(&self, seconds: u64) -> Instant {
        self.start + Duration::from_secs(seconds)
    }

    /// Takes in `<13>h1 app: TEXT`.
    fn add(&mut self, say: &Say, seconds: u64) -> PartOutcome {
        let raw = format!("<13>h1 app: {}", say.text);
        let mut record =
            Record::unparsed(Span::new(0, raw.len()), Timestamp(1), 0, Anomalies::NONE);
        record.event_time = Timestamp(100 + say.order.unwrap_or(0) as i64);
        record.host = Span::new(4, 6);
        record.app = Span::new(7, 10);
        record.message = Span::new(12, raw.len());
        let from = BatchEvent {
            arena: raw.as_bytes(),
            tail: b"",
            record: &record,
            class: &self.class,
            origin: Origin::Peer(Peer {
                ip: IpAddr::from([192, 0, 2, 1]),
                local_port: 514,
                protocol: Protocol::Tcp,
                client: None,
            }),
        };
        let part = GroupPart {
            by: &[say.key],
            text: say.text.as_bytes(),
            before: b"",
            after: b"",
            parts: say.parts,
            order: say.order,
        };
        let now = self.at(seconds);
        let rule = Arc::clone(&self.rule);
        self.groups.add(&rule, &part, &from, now)
    }

    /// What has come out, and how many parts that was.
    fn out(&mut self) -> (Batch, u64) {
        let mut builder = self.pool.lend(&self.source, 65_536);
        let mut parts = 0;
        while let Some(ready) = self.groups.pop() {
            assert_eq!(ready.rule(), "mine");
            parts += ready.parts();
            ready.put(&mut builder);
        }
        (builder.freeze(0), parts)
    }

    fn texts(&mut self) -> Vec<(String, bool)> {
        let (batch, _) = self.out();
        let text = |record: &Record| {
            let text = batch.extra(record).get(ExtraKey::Event);
            let text = text.unwrap_or_else(|| batch.get(record.message));
            let incomplete = record.anomalies.contains(Anomalies::GROUP_INCOMPLETE);
            (String::from_utf8(text.to_vec()).unwrap(), !incomplete)
        };
        batch.records().iter().map(text).collect()
    }
}

fn whole(text: &str) -> Vec<(String, bool)> {
    vec![(text.to_owned(), true)]
}

fn broken(text: &str) -> Vec<(String, bool)> {
    vec![(text.to_owned(), false)]
}

#[test]
fn the_raw_record_is_the_first_parts_header_with_the_text() {
    let mut bench = Bench::new(false, true);
    assert_eq!(bench.add(&say(1, 2, 2, "world"), 0), PartOutcome::Waits);
    assert_eq!(bench.add(&say(1, 1, 2, "hello"), 1), PartOutcome::Done);
    let (batch, parts) = bench.out();
    let record = batch.records()[0];
    let text = |span: Span| std::str::from_utf8(batch.get(span)).unwrap();
    assert_eq!(text(record.raw), "<13>h1 app: hello|world");
    assert_eq!(text(record.message), "hello|world");
    assert_eq!((text(record.host), text(record.app)), ("h1", "app"));
    assert_eq!(record.event_time, Timestamp(101));
    assert_eq!((parts, batch.len()), (2, 1));
    assert_eq!(
        batch.peer(&record).unwrap().ip,
        IpAddr::from([192, 0, 2, 1])
    );
}

#[test]
fn a_text_that_names_the_program_again_stands_in_its_place() {
    let mut bench = Bench::new(false, false);
    bench.add(&say(1, 1, 2, "app: hello"), 0);
    bench.groups.end_all();
    let (batch, _) = bench.out();
    let record = batch.records()[0];
    assert_eq!(batch.get(record.raw), b"<13>h1 app: hello");
    assert_eq!(batch.get(record.message), b"hello");
    assert_eq!(batch.get(record.app), b"app");
}

#[test]
fn parts_that_do_not_come_are_named_when_time_is_up() {
    let mut bench = Bench::new(false, true);
    bench.add(&say(1, 1, 3, "a"), 0);
    bench.add(&say(1, 3, 3, "c"), 9);
    bench.groups.expire(bench.at(9));
    assert!(bench.texts().is_empty());
    assert_eq!(
        bench.groups.due(),
        Some(bench.at(10)),
        "from the first part on"
    );
    bench.groups.expire(bench.at(10));
    assert_eq!(bench.texts(), broken("a|c"));
    assert_eq!(bench.groups.due(), None);
}

#[test]
fn lines_without_a_count_are_complete_when_time_is_up() {
    let mut bench = Bench::new(false, false);
    for text in ["a", "b", "c"] {
        let say = Say {
            key: 1,
            order: None,
            parts: None,
            text: text.into(),
        };
        bench.add(&say, 0);
    }
    bench.groups.expire(bench.at(10));
    assert_eq!(bench.texts(), whole("a|b|c"));
}

#[test]
fn what_is_sent_twice_is_there_once() {
    let mut bench = Bench::new(false, true);
    bench.add(&say(1, 1, 2, "a"), 0);
    assert_eq!(bench.add(&say(1, 1, 2, "a"), 0), PartOutcome::Waits);
    bench.add(&say(1, 2, 2, "b"), 0);
    let (batch, parts) = bench.out();
    let text = batch.extra(&batch.records()[0]).get(ExtraKey::Event);
    assert_eq!((text, parts), (Some(&b"a|b"[..]), 3));
}

#[test]
fn a_number_that_is_taken_begins_the_next_event() {
    let mut bench = Bench::new(false, true);
    bench.add(&say(1, 1, 2, "a"), 0);
    bench.add(&say(1, 1, 2, "A"), 0);
    assert_eq!(bench.texts(), broken("a"));
    bench.add(&say(1, 2, 2, "B"), 0);
    assert_eq!(bench.texts(), whole("A|B"));
}

#[test]
fn counts_that_contradict_each_other_lose_nothing() {
    let mut bench = Bench::new(false, true);
    bench.add(&say(1, 1, u64::MAX, "a"), 0);
    bench.add(&say(1, 2, 2, "b"), 0);
    assert!(bench.texts().is_empty(), "the larger one counts");
    bench.groups.expire(bench.at(10));
    assert_eq!(bench.texts(), broken("a|b"));
    bench.add(&say(1, 1, 0, "c"), 20);
    assert_eq!(bench.texts(), whole("c"));
}

#[test]
fn the_last_of_several_stands_for_all_and_grows_nothing() {
    let mut bench = Bench::new(true, false);
    let say = |text: String| Say {
        key: 1,
        order: None,
        parts: None,
        text,
    };
    bench.add(&say("first".into()), 0);
    let bytes = bench.groups.bytes;
    for number in 10..99 {
        bench.add(&say(format!("no {number}")), 0);
    }
    assert_eq!(bench.groups.bytes, bytes);
    bench.groups.end_all();
    let (batch, parts) = bench.out();
    assert_eq!(batch.get(batch.records()[0].raw), b"<13>h1 app: no 98");
    assert_eq!((batch.len(), parts), (1, 90));
}

#[test]
fn endless_keys_have_the_oldest_come_out() {
    let mut bench = Bench::new(false, true);
    bench.groups.limits.groups = 3;
    for key in 0..5 {
        bench.add(&say(key, 1, 2, &key.to_string()), u64::from(key));
    }
    let texts: Vec<_> = bench.texts().into_iter().map(|(text, _)| text).collect();
    assert_eq!(
        (texts, bench.groups.waiting.len()),
        (vec!["0".into(), "1".into()], 3)
    );
}

#[test]
fn endless_parts_come_out_in_pieces() {
    let mut bench = Bench::new(false, false);
    let text = "x".repeat(1000);
    for order in 0..2000 {
        let say = Say {
            parts: None,
            ..say(1, order, 0, &text)
        };
        bench.add(&say, 0);
        assert!(bench.groups.bytes <= GROUP_BYTES_MAX);
    }
    let (batch, parts) = bench.out();
    let longest = batch.records().iter().map(|record| record.raw.len()).max();
    assert!(
        batch.len() > 4 && longest.unwrap() <= GROUP_BYTES_MAX,
        "{longest:?}"
    );
    assert_eq!(
        parts + bench.groups.waiting.values().map(|g| g.parts).sum::<u64>(),
        2000
    );
}

#[test]
fn what_is_larger_than_all_room_comes_out_at_once() {
    let mut bench = Bench::new(false, true);
    bench.add(&say(1, 1, 2, "small"), 0);
    let huge = "x".repeat(2 * ROOM);
    assert_eq!(bench.add(&say(2, 1, 2, &huge), 0), PartOutcome::Done);
    assert_eq!(bench.texts().len(), 2);
    assert_eq!(bench.room.free.load(Relaxed), ROOM);
}

#[test]
fn one_worker_gives_back_what_another_may_take() {
    let mut one = Bench::new(false, true);
    let mut other = Bench::new(false, true);
    other.groups = MultilineAssembler::new(Arc::clone(&one.room));
    let text = "x".repeat(ROOM / 2);
    one.add(&say(1, 1, 2, &text), 0);
    assert_eq!(
        other.add(&say(1, 1, 2, &text), 0),
        PartOutcome::Done,
        "no room is left"
    );
    drop(std::mem::replace(
        &mut one.groups,
        MultilineAssembler::new(MemoryBudget::of(0)),
    ));
    assert_eq!(other.add(&say(1, 1, 2, &text), 0), PartOutcome::Waits);
}

proptest! {
    #[test]
    fn parts_in_any_order_make_one_event(
        order in Just((0..12_u64).collect::<Vec<_>>()).prop_shuffle(),
        between in proptest::collection::vec(0..12_usize, 0..6),
    ) {
        let mut bench = Bench::new(false, true);
        for (at, number) in order.iter().enumerate() {
            if between.contains(&at) {
                bench.add(&say(2, at as u64, 99, "other"), 0);
            }
            bench.add(&say(1, *number, 12, &format!("t{number}")), 0);
        }
        let all: Vec<_> = (0..12).map(|number| format!("t{number}")).collect();
        prop_assert_eq!(bench.texts(), whole(&all.join("|")));
    }

    #[test]
    fn nothing_is_lost_and_nothing_comes_twice(
        last in any::<bool>(),
        counted in any::<bool>(),
        groups in 1..5_usize,
        bytes in 2_000..20_000_usize,
        group_bytes in 500..5_000_usize,
        says in proptest::collection::vec(
            (0..6_u8, proptest::option::of(0..5_u64), proptest::option::of(0..6_u64),
             0..900_usize, 0..4_u64),
            1..120,
        ),
    ) {
        let mut bench = Bench::new(last, counted);
        bench.groups.limits = AssemblerLimits { groups, bytes, group_bytes };
        let (mut seconds, mut parts, mut seen) = (0, 0, Vec::new());
        let mut take = |bench: &mut Bench| {
            let (batch, more) = bench.out();
            for record in batch.records() {
                let text = String::from_utf8(batch.get(record.message).to_vec()).unwrap();
                seen.extend(text.split('|').map(|one| one.trim_end_matches('x').to_owned()));
            }
            parts += more;
        };
        for (number, (key, order, count, length, pass)) in says.iter().enumerate() {
            seconds += pass;
            bench.groups.expire(bench.at(seconds));
            let text = format!("n{number}{}", "x".repeat(*length));
            bench.add(&Say { key: *key, order: *order, parts: *count, text }, seconds);
            prop_assert!(bench.groups.bytes <= bytes);
            prop_assert!(bench.groups.waiting.len() <= groups);
            prop_assert_eq!(bench.groups.waiting.len(), bench.groups.by_due.len());
            let due = bench.groups.due();
            prop_assert!(due.is_none_or(|due| due > bench.at(seconds)));
            take(&mut bench);
        }
        bench.groups.end_all();
        take(&mut bench);
        prop_assert_eq!(parts, says.len() as u64);
        prop_assert_eq!(bench.groups.bytes, 0);
        prop_assert_eq!(bench.room.free.load(Relaxed), ROOM);
        if !last {
            seen.sort();
            let mut all: Vec<_> = (0..says.len()).map(|number| format!("n{number}")).collect();
            all.sort();
            prop_assert_eq!(seen, all);
        }
    }
}
