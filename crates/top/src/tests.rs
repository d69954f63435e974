//! Frames on a terminal of memory, and what keys and answers do to them.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};
use serde_json::{Value, json};

use crate::app::{App, KeyAction};
use inrush_client::AdminTarget;

use crate::client::{SnapshotClient, TopError};
use crate::draw;
use crate::panes::Pane;
use crate::screen::paper;
use crate::snapshot::Snapshot;

fn snapshot(value: &Value) -> Snapshot {
    serde_json::from_value(value.clone()).unwrap()
}

/// A quiet process, `seconds` after its start, with 1,000 events/s.
fn quiet(seconds: u64) -> Value {
    let events = seconds * 1000;
    json!({
        "at_ms": seconds * 1000, "version": "9.8.7", "started_ms": 0, "balanced": true,
        "sources": [{"name": "syslog", "type": "syslog", "received": events, "accepted": events,
            "rejected": {}, "kernel_dropped": 0, "bytes": events * 800, "connections": 12}],
        "destinations": [{"name": "local", "type": "store", "accepted": events, "delivered": events,
            "pending": 0, "quarantined": {}, "dropped": {}, "oldest_pending_ms": 0.0,
            "request_ms": 1.5, "state": "ok", "error": null}],
        "edges": [{"from": "syslog", "to": "local", "events": events}],
        "queue": {"bytes": 12_000_000, "bytes_max": 134_217_728, "disk_bytes": 1_200_000_000_u64,
            "disk_bytes_max": 10_737_418_240_u64, "segments": 19, "stall": null, "full_in_s": null},
        "threads": [{"name": "watch", "cpu_percent": 0.1}, {"name": "stream-0", "cpu_percent": 12.5}],
        "resident_bytes": 29_000_000,
        "loss": [{"place": "socket", "label": "syslog kernel_dropped", "count": 0, "ours": true,
            "hint": "h"}],
        "alarms": []
    })
}

/// The same in trouble.
fn troubled(seconds: u64) -> Value {
    let mut value = quiet(seconds);
    value["balanced"] = false.into();
    value["destinations"][0]["state"] = "failing".into();
    value["destinations"][0]["error"] = "idx1:8088: connection \u{1b}[31mrefused".into();
    value["destinations"][0]["pending"] = 4711.into();
    value["destinations"][0]["oldest_pending_ms"] = 125_000.0.into();
    value["queue"]["full_in_s"] = 5400.into();
    value["loss"] = json!([
        {"place": "nic", "label": "eth0 rx_dropped", "count": 3, "ours": false, "hint": "look at it"},
        {"place": "socket", "label": "syslog kernel_dropped", "count": seconds * 7, "ours": true,
            "hint": "the buffer was full"},
    ]);
    value["alarms"] = json!([{"id": "kernel-drops:syslog", "severity": "critical",
        "what": "Source syslog has lost 7 UDP datagrams.", "since_ms": seconds * 1000 - 180_000,
        "cause": "The receive buffer of a socket was full.", "remedy": "Give it the buffer.",
        "link": "docs/guides/udp-loss.md"}]);
    value
}

fn app(answers: &[Value]) -> App {
    let mut app = App::new("http://127.0.0.1:8686", true);
    for answer in answers {
        app.take(Ok(snapshot(answer)), Instant::now());
    }
    app
}

fn terminal(app: &App, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let at = Instant::now();
    terminal
        .draw(|frame| draw::frame(app, at, frame.buffer_mut()))
        .unwrap();
    terminal
}

fn lines(app: &App, width: u16, height: u16) -> Vec<String> {
    let terminal = terminal(app, width, height);
    let cells = terminal.backend().buffer().content();
    let line = |cells: &[ratatui::buffer::Cell]| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned()
    };
    cells.chunks(width.into()).map(line).collect()
}

fn press(app: &mut App, codes: &[KeyCode]) -> Option<KeyAction> {
    let mut last = None;
    for code in codes {
        last = app.key(KeyEvent::new(*code, KeyModifiers::NONE));
    }
    last
}

#[test]
fn eighty_by_twenty_four_shows_all_panes() {
    let lines = lines(&app(&[quiet(60), quiet(61)]), 80, 24);
    let expected = [
        "inrush 9.8.7   up 61 s   29.0 MB   ledger balanced   http://127.0.0.1:8686",
        "IN     1,000 events/s · 800 kB/s",
        "QUEUE  memory 12.0 MB of 134 MB (9 %) · disk 1.2 GB of 10.7 GB (11 %)",
        "ALARMS  none",
        "  nothing is wrong",
    ];
    assert_eq!(lines[..5], expected, "{lines:#?}");
    let text = lines.join("\n");
    for part in [
        "syslog → local",
        "1,000",
        "800 kB/s",
        "stream-0",
        "12.5 %",
        "1.5 ms",
        "? help",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    assert!(text.contains("LOSS  nic 0  softnet 0  socket 0"), "{text}");
    assert!(text.contains("nothing was lost since the start"), "{text}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80));
}

#[test]
fn trouble_is_seen_without_colours_too() {
    let text = lines(&app(&[troubled(200), troubled(202)]), 100, 40).join("\n");
    for part in [
        "LEDGER NOT BALANCED",
        "full in 1 h 30 min",
        "ALARMS  1",
        "!!  3 min  Source syslog has lost 7 UDP datagrams.",
        "failing",
        "4,711",
        "2 min",
        "eth0 rx_dropped",
        "whole host",
        "LOSS  nic 3  softnet 0  socket 1,414",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    let kernel = text.lines().find(|line| line.contains("kernel_dropped"));
    assert!(
        kernel.is_some_and(|line| line.contains("7.0")),
        "14 in two seconds\n{text}"
    );
}

#[test]
fn parts_that_wait_have_a_column_while_there_are_any_of_late() {
    let mut holding = quiet(61);
    holding["sources"][0]["held"] = 4321.into();
    let shown = |answers: &[Value]| {
        let lines = lines(&app(answers), 80, 24);
        let head = lines.iter().position(|line| line.starts_with("SOURCE"));
        lines[head.unwrap()..][..2].join("\n")
    };
    let none = shown(&[quiet(60), quiet(61)]);
    assert!(!none.contains("HELD"), "{none}");
    let some = shown(&[quiet(60), holding.clone()]);
    assert!(some.contains("HELD") && some.contains(" 4,321 "), "{some}");
    let after = shown(&[holding, quiet(62)]);
    assert!(after.contains("HELD"), "{after}");
}

#[test]
fn a_store_says_what_it_has_and_what_was_taken_from_it() {
    let mut keeping = quiet(61);
    keeping["destinations"][0]["stored"] = json!({"searchable": 4_200, "in_memory": 7,
        "unreadable": 100, "expired": {"age": 30, "room": 2_000}});
    let pair = [snapshot(&quiet(60)), snapshot(&keeping)];
    let text = paper("http://127.0.0.1:8686", pair, 100);
    let said = "stored: 4,200 searchable, 7 in memory, 30 deleted by age, 2,000 deleted to make \
                room on the disk, 100 in damaged files";
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&text).contains(said), "{text}");
}

#[test]
fn colours_are_used_only_where_they_are_wanted() {
    let mut app = app(&[troubled(200), troubled(202)]);
    let coloured = |app: &App| {
        let terminal = terminal(app, 80, 24);
        let cells = terminal.backend().buffer().content().to_vec();
        let colour = cells
            .iter()
            .any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        let marked = cells
            .iter()
            .any(|cell| cell.modifier.contains(Modifier::REVERSED));
        (colour, marked)
    };
    assert!(coloured(&app).0);
    app.colour = false;
    assert_eq!(coloured(&app), (false, true));
}

#[test]
fn the_queue_is_said_in_as_many_words_as_fit() {
    let app = app(&[troubled(200), troubled(202)]);
    let line = |width| lines(&app, width, 24)[2].clone();
    let whole = "QUEUE  full in 1 h 30 min · memory 12.0 MB of 134 MB (9 %) \
                 · disk 1.2 GB of 10.7 GB (11 %) · 19 segments";
    assert_eq!(line(120), whole);
    assert_eq!(line(103), whole.replace(" · 19 segments", ""));
    let short = "QUEUE  full in 1 h 30 min · memory 12.0 MB of 134 MB · disk 1.2 GB of 10.7 GB";
    assert_eq!(line(80), short);
    assert_eq!(line(20), short[..20].trim_end(), "cut where nothing helps");
}

#[test]
fn lines_stand_between_blocks_where_there_is_room() {
    let app = app(&[quiet(60), quiet(61)]);
    let empty = |height| {
        let shown = lines(&app, 80, height);
        shown.iter().position(|line| line.is_empty())
    };
    assert_eq!(empty(40), Some(3));
    assert_ne!(empty(24), Some(3));
}

#[test]
fn what_came_in_is_drawn_over_the_last_seconds() {
    let answers: Vec<_> = [0, 1, 2, 4, 6].map(quiet).into();
    let mut app = app(&answers);
    assert_eq!(
        lines(&app, 80, 24)[1],
        "IN     1,000 events/s · 800 kB/s · at most 1,000   ████"
    );
    // The same snapshot again is no second more; half as much is half as high.
    app.take(Ok(snapshot(&quiet(6))), Instant::now());
    let mut half = quiet(7);
    half["sources"][0]["received"] = 6500.into();
    app.take(Ok(snapshot(&half)), Instant::now());
    let line = &lines(&app, 80, 24)[1];
    assert!(line.starts_with("IN     500 events/s"), "{line}");
    assert!(line.ends_with("at most 1,000   ████▅"), "{line}");
    for n in 0..1000 {
        app.take(Ok(snapshot(&quiet(8 + n))), Instant::now());
    }
    assert_eq!(app.history.len(), 120);
    assert_eq!(lines(&app, 80, 24)[1].chars().count(), 80);
    let mut other = quiet(2000);
    other["started_ms"] = 1_999_000.into();
    app.take(Ok(snapshot(&other)), Instant::now());
    assert_eq!(lines(&app, 80, 24)[1], "IN     –", "it began anew");
}

#[test]
fn a_destination_that_takes_events_in_steps_has_a_steady_rate() {
    // It takes 5,000 events every fifth second.
    let answers: Vec<_> = (50..=72)
        .map(|second| {
            let mut value = quiet(second);
            value["destinations"][0]["delivered"] = (second / 5 * 5000).into();
            value
        })
        .collect();
    for until in [21, 22, 23] {
        let shown = lines(&app(&answers[..until]), 100, 24);
        let row = shown.iter().find(|line| line.starts_with("local"));
        assert!(row.is_some_and(|row| row.contains(" 1,000 ")), "{shown:#?}");
    }
}

#[test]
fn places_and_alarms_have_the_colour_of_the_worst() {
    let colour_of = |answers: &[Value], text: &str| {
        let app = app(answers);
        let line = lines(&app, 100, 40).into_iter().enumerate();
        let found = line
            .filter_map(|(y, line)| Some((line.find(text)?, y)))
            .next();
        let (x, y) = found.unwrap_or_else(|| panic!("no {text}"));
        let terminal = terminal(&app, 100, 40);
        terminal.backend().buffer()[(x as u16, y as u16)].fg
    };
    let calm = [quiet(60), quiet(61)];
    let trouble = [troubled(200), troubled(202)];
    for (answers, text, colour) in [
        (&calm, "none", Color::Green),
        (&calm, "ledger balanced", Color::Green),
        (&calm, "socket 0", Color::Green),
        (&trouble, "LEDGER NOT", Color::Red),
        (&trouble, "socket 1,414", Color::Red),
        (&trouble, "nic 3", Color::Yellow),
        (&trouble, "queue 0", Color::Green),
        (&trouble, "!!  3 min", Color::Red),
    ] {
        assert_eq!(colour_of(answers, text), colour, "{text}");
    }
}

#[test]
fn threads_that_do_nothing_are_only_counted() {
    let mut value = quiet(60);
    let idle = (0..20).map(|n| json!({"name": format!("idle-{n}"), "cpu_percent": 0.04}));
    let busy = json!({"name": "busy", "cpu_percent": 0.1});
    value["threads"] = idle.chain([busy]).collect();
    let text = lines(&app(&[value]), 80, 24).join("\n");
    assert!(text.contains("busy") && text.contains("20 idle"), "{text}");
    assert!(!text.contains("idle-"), "{text}");
}

#[test]
fn every_size_is_drawn_without_a_panic() {
    let mut app = app(&[troubled(200), troubled(202)]);
    for width in [1, 2, 5, 20, 59, 69, 70, 71, 80, 132, 300] {
        for height in [1, 2, 3, 4, 5, 8, 10, 13, 24, 100] {
            for pane in Pane::ALL {
                app.focus = pane;
                app.help = pane == Pane::Loss;
                lines(&app, width, height);
            }
        }
    }
    app.offsets = [usize::MAX; 6];
    app.help = false;
    lines(&app, 80, 24);
}

#[test]
fn a_small_terminal_shows_the_pane_in_focus() {
    let mut app = app(&[troubled(200), troubled(202)]);
    app.focus = Pane::Threads;
    let text = lines(&app, 60, 10).join("\n");
    assert!(text.contains("stream-0"), "{text}");
    app.focus = Pane::Loss;
    let text = lines(&app, 60, 8).join("\n");
    assert!(text.contains("kernel_dropped"), "{text}");
}

#[test]
fn keys_go_through_the_panes_and_scroll() {
    let mut value = quiet(60);
    let threads = (0..50).map(|n| json!({"name": format!("t{n:02}"), "cpu_percent": 50 - n}));
    value["threads"] = threads.collect();
    let mut app = app(&[value]);
    assert_eq!(press(&mut app, &[KeyCode::Tab; 3]), Some(KeyAction::Draw));
    assert_eq!(app.focus, Pane::Threads);
    let text = lines(&app, 80, 24).join("\n");
    assert!(text.contains("t00") && text.contains("of 50]"), "{text}");
    press(
        &mut app,
        &[KeyCode::PageDown, KeyCode::Down, KeyCode::Up, KeyCode::Down],
    );
    let text = lines(&app, 80, 24).join("\n");
    assert!(text.contains("t11") && !text.contains("t10"), "{text}");
    press(&mut app, &[KeyCode::End]);
    assert!(lines(&app, 80, 24).join("\n").contains("t49"));
    press(&mut app, &[KeyCode::Home, KeyCode::BackTab]);
    assert_eq!(app.focus, Pane::Edges);
    assert!(lines(&app, 80, 24).join("\n").contains("t00"));
    press(&mut app, &[KeyCode::Left; 4]);
    assert_eq!(app.focus, Pane::Loss, "round and round");
}

#[test]
fn the_pane_in_focus_says_what_its_rows_mean() {
    let mut app = app(&[troubled(200), troubled(202)]);
    app.focus = Pane::Sources;
    assert!(
        !lines(&app, 100, 40)
            .join("\n")
            .contains("the buffer was full")
    );
    app.focus = Pane::Loss;
    assert!(
        lines(&app, 100, 40)
            .join("\n")
            .contains("the buffer was full")
    );
    app.focus = Pane::Alarms;
    assert!(
        lines(&app, 100, 40)
            .join("\n")
            .contains("Give it the buffer.")
    );
    app.focus = Pane::Destinations;
    let text = lines(&app, 100, 40).join("\n");
    assert!(text.contains("connection \u{fffd}[31mrefused"), "{text}");
}

#[test]
fn q_escape_and_control_c_quit_and_help_covers_and_goes() {
    let mut app = app(&[quiet(60)]);
    assert_eq!(
        press(&mut app, &[KeyCode::Char('q')]),
        Some(KeyAction::Quit)
    );
    assert_eq!(press(&mut app, &[KeyCode::Esc]), Some(KeyAction::Quit));
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.key(control_c), Some(KeyAction::Quit));
    assert_eq!(
        press(&mut app, &[KeyCode::Char('c')]),
        None,
        "no key of ours"
    );
    press(&mut app, &[KeyCode::Char('?')]);
    let text = lines(&app, 80, 24).join("\n");
    assert!(text.contains("PgUp PgDn"), "{text}");
    assert_eq!(
        press(&mut app, &[KeyCode::Char('q')]),
        Some(KeyAction::Draw),
        "only closes the help"
    );
    assert!(!lines(&app, 80, 24).join("\n").contains("PgUp PgDn"));
    press(&mut app, &[KeyCode::Char('?')]);
    assert_eq!(app.key(control_c), Some(KeyAction::Quit));
}

#[test]
fn a_pause_is_said() {
    let mut app = app(&[quiet(60)]);
    assert_eq!(
        press(&mut app, &[KeyCode::Char('p')]),
        Some(KeyAction::Pause)
    );
    assert!(app.paused && lines(&app, 80, 24)[0].starts_with("PAUSED"));
    press(&mut app, &[KeyCode::Char(' ')]);
    assert!(!app.paused && lines(&app, 80, 24)[0].starts_with("inrush"));
}

#[test]
fn a_process_that_does_not_answer_is_said_and_its_numbers_stay() {
    let mut app = app(&[]);
    assert!(lines(&app, 80, 24)[1].starts_with("waiting for the first answer"));
    let silent = Instant::now().checked_sub(Duration::from_secs(12)).unwrap();
    app.take(
        Err("connection refused; is inrush running there?".into()),
        silent,
    );
    assert!(lines(&app, 80, 24)[1].starts_with("connection refused"));
    app.take(Ok(snapshot(&quiet(60))), Instant::now());
    app.take(Ok(snapshot(&quiet(61))), Instant::now());
    app.take(Err("connection refused".into()), silent);
    app.take(Err("connection refused".into()), Instant::now());
    let shown = lines(&app, 80, 24);
    assert!(shown[0].starts_with("NO ANSWER for 1"), "{}", shown[0]);
    let text = shown.join("\n");
    assert!(
        text.contains("61,000") && !text.contains("800 kB/s"),
        "no rates\n{text}"
    );
    app.take(Ok(snapshot(&quiet(63))), Instant::now());
    let text = lines(&app, 80, 24).join("\n");
    assert!(
        !text.contains("NO ANSWER") && text.contains("800 kB/s"),
        "{text}"
    );
}

#[test]
fn another_process_at_the_address_begins_anew() {
    let mut restarted = quiet(3);
    restarted["at_ms"] = 70_000.into();
    restarted["started_ms"] = 67_000.into();
    let mut app = app(&[quiet(60), quiet(61), restarted.clone()]);
    assert!(
        !lines(&app, 80, 24).join("\n").contains("kB/s"),
        "no rate from the one before"
    );
    assert!(app.pair().is_some_and(|pair| pair.before.is_none()));
    restarted["at_ms"] = 71_000.into();
    app.take(Ok(snapshot(&restarted)), Instant::now());
    assert!(app.pair().is_some_and(|pair| pair.before.is_some()));
    // The same snapshot again keeps the rates.
    app.take(Ok(snapshot(&restarted)), Instant::now());
    assert!(
        app.pair()
            .is_some_and(|pair| pair.before.is_some_and(|b| b.at_ms == 70_000.0))
    );
}

#[test]
fn other_versions_are_read_as_far_as_they_are_understood() {
    let strange = json!({"at_ms": 5.25, "new": [1, {"deep": null}], "sources": [{"name": "x"}]});
    let text = lines(&app(&[strange, json!({})]), 80, 24).join("\n");
    assert!(
        text.contains("LEDGER NOT BALANCED"),
        "what is not said is not claimed\n{text}"
    );
}

#[test]
fn paper_shows_everything_in_plain_text() {
    let many = |seconds: u64| {
        let mut value = troubled(seconds);
        let names = (0..40).map(|n| {
            let mut source = value["sources"][0].clone();
            source["name"] = format!("source-{n}").into();
            source
        });
        value["sources"] = names.collect();
        value
    };
    for width in [60, 100] {
        let pair = [snapshot(&many(200)), snapshot(&many(202))];
        let text = paper("http://127.0.0.1:8686", pair, width);
        for part in [
            "source-0",
            "source-39",
            "the buffer was full",
            "Give it the buffer.",
            "CPU",
        ] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
        assert!(
            !text.contains(|c: char| c.is_control() && c != '\n'),
            "{text}"
        );
        assert!(
            text.lines()
                .all(|line| line.chars().count() <= width.into())
        );
    }
}

fn client(url: &str, token: Option<&str>) -> Result<SnapshotClient, TopError> {
    SnapshotClient::new(&AdminTarget {
        url: url.to_owned(),
        token: token.map(str::to_owned),
        verifier: None,
    })
}

#[test]
fn addresses_are_taken_as_people_write_them() {
    for (address, base) in [
        ("http://127.0.0.1:8686", "http://127.0.0.1:8686"),
        ("127.0.0.1:8686/", "http://127.0.0.1:8686"),
        ("http://[::1]:8686/", "http://[::1]:8686"),
        ("collector", "http://collector"),
        ("http://proxy/inrush/", "http://proxy/inrush"),
        ("https://collector:8686", "https://collector:8686"),
    ] {
        assert_eq!(client(address, None).unwrap().base(), base);
    }
    for address in [
        "",
        "http://",
        "https://",
        "ftp://h",
        "a b",
        "h?x",
        "http://u:p@h",
        "http://h:x",
    ] {
        assert!(client(address, None).is_err(), "{address}");
    }
    for (token, fits) in [
        ("", true),
        ("0123-abc", true),
        ("a b", false),
        ("abc\n", true),
        ("a\tb", false),
    ] {
        assert_eq!(client("h", Some(token)).is_ok(), fits, "{token:?}");
    }
}
