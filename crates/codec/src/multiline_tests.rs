//! Events by example, and against a model that keeps all lines.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Text, origin, number of lines and end of an event.
type EventSaid = (String, u64, u32, JoinEnd);

fn said(event: MultilineEvent<'_>) -> EventSaid {
    let LineFacts { time, origin, .. } = event.facts;
    assert_eq!(time.0, origin as i64 * 10);
    assert_eq!(event.facts.zone_minutes, origin as i16);
    let text = String::from_utf8(event.text.to_vec()).unwrap();
    (text, origin, event.lines, event.end)
}

/// Facts about the line of that number.
fn facts(number: u64) -> LineFacts {
    LineFacts {
        time: Timestamp(number as i64 * 10),
        zone_minutes: number as i16,
        origin: number,
        anomalies: Anomalies::NONE,
    }
}

fn options(key: &str, expression: &str, max: u64) -> MultilineOptions {
    let given = |wanted| (key == wanted).then(|| expression.to_owned());
    MultilineOptions {
        start: given("start"),
        continuation: given("continue"),
        end: given("end"),
        timeout: Period(Duration::from_secs(2)),
        max: ByteSize(max),
    }
}

fn joiner(key: &str, expression: &str, max: u64) -> MultilineJoiner {
    let rule = options(key, expression, max).rule().unwrap();
    MultilineJoiner::new(Arc::new(rule), usize::MAX)
}

/// Events of these lines, whose origins are their numbers, and of the end of the file.
fn events(mut joiner: MultilineJoiner, lines: &[&str]) -> Vec<EventSaid> {
    let mut found = Vec::new();
    let now = Instant::now();
    for (number, line) in lines.iter().enumerate() {
        joiner.push(line.as_bytes(), facts(number as u64), now, |event| {
            found.push(said(event))
        });
    }
    joiner.finish(|event| found.push(said(event)));
    assert_eq!((joiner.open(), joiner.memory_bytes()), (None, 0));
    found
}

fn event(text: &str, origin: u64, lines: u32, end: JoinEnd) -> EventSaid {
    (text.to_owned(), origin, lines, end)
}

#[test]
fn each_of_the_three_rules_puts_a_stack_trace_together() {
    use JoinEnd::{Complete, Ended};
    let lines = [
        "  early", "ERROR a", " at b", "", " at c", "", "ERROR d", "",
    ];
    let start = events(joiner("start", "^ERROR", 1000), &lines);
    let wanted = [
        event("  early", 0, 1, Complete),
        event("ERROR a\n at b\n\n at c", 1, 4, Complete),
        event("ERROR d", 6, 1, Ended),
    ];
    assert_eq!(start, wanted);
    assert_eq!(events(joiner("continue", r"^\s", 1000), &lines), wanted);
    let lines = ["", "a", "b;", "c;", "", "d", ""];
    let end = events(joiner("end", ";$", 1000), &lines);
    let wanted = [
        event("a\nb;", 1, 2, Complete),
        event("c;", 3, 1, Complete),
        event("d", 5, 1, Ended),
    ];
    assert_eq!(end, wanted);
    let blank = events(joiner("end", "^$", 1000), &["a", "b", "", "", "c"]);
    let wanted = [event("a\nb", 0, 2, Complete), event("c", 4, 1, Ended)];
    assert_eq!(blank, wanted);
}

#[test]
fn an_event_that_would_be_too_long_ends_before_the_line_that_does_not_fit() {
    use JoinEnd::{Complete, Ended, Size};
    let lines = ["E 1", " 12", " 3", " 1234567890", " 4", "E 2"];
    let found = events(joiner("start", "^E", 7), &lines);
    let wanted = [
        event("E 1\n 12", 0, 2, Size),
        event(" 3", 2, 1, Size),
        event(" 1234567890", 3, 1, Size),
        event(" 4", 4, 1, Complete),
        event("E 2", 5, 1, Ended),
    ];
    assert_eq!(found, wanted);
}

#[test]
fn an_event_waits_for_its_next_line_and_not_for_ever() {
    let mut joiner = joiner("start", "^E", 1000);
    let begin = Instant::now();
    let second = Duration::from_secs(1);
    let mut found = Vec::new();
    let first = facts(0);
    joiner.push(b"E", first, begin, |_| panic!("not yet"));
    joiner.push(b"a", facts(1), begin + second, |_| panic!("not yet"));
    joiner.expire(begin + 2 * second, |_| panic!("not yet"));
    assert_eq!(joiner.due(), Some(begin + 3 * second));
    assert_eq!(
        joiner.open().map(|open| (open.origin, open.pieces)),
        Some((0, 2))
    );
    joiner.expire(begin + 3 * second, |event| found.push(said(event)));
    assert_eq!(found, [event("E\na", 0, 2, JoinEnd::Age)]);
    assert_eq!((joiner.due(), joiner.memory_bytes()), (None, 0));
    // A line each second, and none that begins an event.
    for seconds in 0..40 {
        let now = begin + seconds * second;
        joiner.push(b"x", first, now, |_| panic!("not yet"));
        joiner.expire(now, |event| found.push(said(event)));
    }
    let lines: Vec<_> = found[1..].iter().map(|event| (event.2, event.3)).collect();
    assert_eq!(lines, [(21, JoinEnd::Age)]);
    joiner.give_up(|event| found.push(said(event)));
    assert_eq!(
        found.last().map(|event| (event.2, event.3)),
        Some((19, JoinEnd::Memory))
    );
}

#[test]
fn a_line_alone_is_not_copied_and_a_large_buffer_is_not_kept() {
    let mut joiner = joiner("end", ";$", 100_000);
    let (first, now) = (facts(0), Instant::now());
    let line = b"alone;";
    joiner.push(line, first, now, |event| {
        assert!(std::ptr::eq(event.text, line));
    });
    assert_eq!(joiner.memory_bytes(), 0);
    joiner.push(&[b'x'; 10_000], first, now, |_| panic!("not yet"));
    joiner.push(line, first, now, |event| assert_eq!(event.lines, 2));
    assert_eq!((joiner.open(), joiner.memory_bytes()), (None, 0));
}

#[test]
fn options_name_one_rule() {
    let two = MultilineOptions {
        end: Some("x".into()),
        ..options("start", "a", 10)
    };
    assert!(two.rule().unwrap_err().contains("exactly one"));
    assert!(MultilineOptions::default().rule().is_err());
    assert!(
        options("end", "(", 10)
            .rule()
            .unwrap_err()
            .starts_with("`end`: ")
    );
    let text = r#"{"continue": "^ ", "timeout": "3s", "max": "2KiB"}"#;
    let read: MultilineOptions = serde_json::from_str(text).unwrap();
    assert_eq!(read.continuation.as_deref(), Some("^ "));
    assert_eq!((read.timeout.0.as_secs(), read.max.0), (3, 2048));
    assert!(serde_json::from_str::<MultilineOptions>(r#"{"begin": "x"}"#).is_err());
}

proptest! {
    /// Every line is in one event, in order, and a border stands where the rule wants one.
    #[test]
    fn lines_are_all_there_and_borders_where_they_belong(
        lines in vec("[E ]?[a-z;]{0,6};?", 0..40),
        key in prop::sample::select(&["start", "continue", "end"][..]),
        max in prop_oneof![Just(1000_u64), 0..20_u64],
        restart in any::<prop::sample::Index>(),
    ) {
        let expression = match key {
            "start" => "^E",
            "continue" => "^ ",
            _ => ";$",
        };
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let found = events(joiner(key, expression, max), &lines);
        let mut all = Vec::new();
        for (at, event) in found.iter().enumerate() {
            let texts: Vec<_> = event.0.split('\n').collect();
            prop_assert_eq!(texts.len(), event.2 as usize);
            prop_assert_eq!(Some(&texts[0]), lines.get(event.1 as usize));
            prop_assert!(event.0.len() as u64 <= max || texts.len() == 1);
            prop_assert!(!event.0.ends_with('\n') && !event.0.is_empty());
            let inner = &texts[1..];
            let begins = |text: &&str| match key {
                "start" => text.starts_with('E'),
                "continue" => !text.is_empty() && !text.starts_with(' '),
                _ => false,
            };
            prop_assert!(!inner.iter().any(begins));
            let (last, before) = texts.split_last().unwrap();
            prop_assert!(key != "end" || !before.iter().any(|text| text.ends_with(';')));
            // Ends for want of room alone, where the rule wants no border.
            let is_border = match (key, found.get(at + 1).map(|next| &next.0)) {
                (_, None) => true,
                ("start", Some(next)) => next.starts_with('E'),
                ("continue", Some(next)) => !next.starts_with(' '),
                (_, Some(_)) => last.ends_with(';'),
            };
            prop_assert!(is_border || event.3 == JoinEnd::Size);
            all.extend(texts.into_iter().filter(|text| !text.is_empty()));
        }
        let wanted: Vec<_> = lines.iter().copied().filter(|line| !line.is_empty()).collect();
        prop_assert_eq!(all, wanted);

        // A restart from the origin of the open event on changes nothing.
        let mut before = joiner(key, expression, max);
        let (mut again, mut from) = (Vec::new(), restart.index(lines.len() + 1));
        let now = Instant::now();
        for (number, line) in lines[..from].iter().enumerate() {
            before.push(line.as_bytes(), facts(number as u64), now, |event| {
                again.push(said(event));
            });
        }
        if let Some(open) = before.open() {
            from = open.origin as usize;
        }
        let rest = events(joiner(key, expression, max), &lines[from..]);
        let from = from as u64;
        again.extend(rest.into_iter().map(|event| (event.0, event.1 + from, event.2, event.3)));
        prop_assert_eq!(again, found);
    }
}

#[test]
fn an_event_has_what_is_odd_about_each_of_its_lines() {
    let mut joiner = joiner("start", "^E", 1000);
    let (now, mut found) = (Instant::now(), Vec::new());
    for (number, line) in ["E a", " b", "E c", " d"].iter().enumerate() {
        let mut facts = facts(number as u64);
        if number == 1 {
            facts.anomalies = Anomalies::OVERSIZE;
        }
        joiner.push(line.as_bytes(), facts, now, |event| {
            found.push((event.facts.anomalies, event.facts.origin));
        });
    }
    joiner.close(|event| {
        assert_eq!(event.end, JoinEnd::Complete);
        found.push((event.facts.anomalies, event.facts.origin));
    });
    assert_eq!(found, [(Anomalies::OVERSIZE, 0), (Anomalies::NONE, 2)]);
    assert_eq!((joiner.open(), joiner.memory_bytes()), (None, 0));
}

#[test]
fn the_reader_bounds_an_event_beside_its_rule() {
    let rule = Arc::new(options("start", "^E", 1000).rule().unwrap());
    let mut joiner = MultilineJoiner::new(rule, 7);
    let mut found = Vec::new();
    for (number, line) in ["E 1", " 12", " 3"].iter().enumerate() {
        let facts = facts(number as u64);
        joiner.push(line.as_bytes(), facts, Instant::now(), |event| {
            found.push(said(event))
        });
    }
    assert_eq!(found, [event("E 1\n 12", 0, 2, JoinEnd::Size)]);
}

#[test]
fn a_pause_ends_an_event_whole_unless_its_rule_names_the_last_line() {
    let ends = [JoinEnd::Age, JoinEnd::Ended, JoinEnd::Size, JoinEnd::Memory];
    let whole = |key| ends.map(|end| options(key, "x", 9).rule().unwrap().is_whole(end));
    assert_eq!(whole("start"), [true, true, false, false]);
    assert_eq!(whole("continue"), [true, true, false, false]);
    assert_eq!(whole("end"), [false; 4]);
    let large = options("start", "(a{500}){500}", 9).rule().unwrap_err();
    assert!(large.contains("size limit"), "{large}");
}
