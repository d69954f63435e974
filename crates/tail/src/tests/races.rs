//! Names that come, go and change while the source looks elsewhere, and files that it has closed.

use inrush_event::Ledger;
use inrush_queue::{Durability, Log};

use super::*;

/// Lines whose file is closed as soon as its name is gone.
const CLOSED: &str = r#"{"include": ["{dir}/*.log"], "host": "h", "rotate_hold": "0s",
    "poll_interval": "10ms"}"#;

fn sorted(texts: &[String]) -> Vec<String> {
    let mut texts = texts.to_vec();
    texts.sort();
    texts
}

#[test]
fn a_renamed_file_that_was_closed_is_read_on_when_it_grows() {
    let mut source = TestSource::start(CLOSED);
    source.append("a.log", "1\n");
    source.texts(1);
    source.rename("a.log", "a.log.1");
    source.wait("it is closed", |counts| counts.open_files.get() == 0);
    source.append("a.log.1", "2\n");
    assert_eq!(source.texts(2), ["1", "2"]);
    source.wait("it is closed again", |counts| counts.open_files.get() == 0);
    source.rename("a.log.1", "a.log.2");
    source.append("a.log.2", "3\n");
    assert_eq!(source.texts(3), ["1", "2", "3"]);
    source.stop();
    source.append("a.log.2", "4\n");
    source.run();
    assert_eq!(source.texts(4), ["1", "2", "3", "4"]);
    // One log, and the first start: an old position would have it read twice.
    source.stop();
    assert_eq!(source.harness.log.positions("files").len(), 2);
}

#[test]
fn a_file_that_is_closed_and_deleted_has_no_position() {
    let mut source = TestSource::start(CLOSED);
    source.append("a.log", "1\n");
    source.texts(1);
    source.rename("a.log", "a.log.1");
    source.wait("it is closed", |counts| counts.open_files.get() == 0);
    fs::remove_file(source.path("a.log.1")).unwrap();
    // The order to forget it comes before that to open the next one.
    source.append("b.log", "2\n");
    source.texts(2);
    let end = Instant::now() + PATIENCE;
    while source.harness.log.positions("files").len() > 2 {
        assert!(Instant::now() < end, "the position of a deleted file stays");
        source.take(Duration::from_millis(1));
    }
}

#[test]
fn a_file_that_was_too_old_is_read_once_it_is_written_again() {
    let old = r#"{"include": ["{dir}/*.log"], "host": "h", "older_than": "1h",
        "poll_interval": "10ms"}"#;
    let mut source = TestSource::prepared(old, None);
    let file = source.append("a.log", "1\n");
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(7200);
    file.set_modified(long_ago).unwrap();
    source.append("b.log", "2\n");
    source.run();
    assert_eq!(source.texts(1), ["2"]);
    source.append("a.log", "3\n");
    assert_eq!(source.texts(3), ["2", "1", "3"]);
}

#[test]
fn files_wait_under_their_names_while_too_many_are_open() {
    let mut source = TestSource::prepared(CLOSED, None);
    source.services.places.set_most(2);
    for name in ["a", "b", "c", "d"] {
        source.append(&format!("{name}.log"), &format!("{name}\n"));
    }
    source.run();
    source.texts(2);
    source.wait("two wait", |counts| counts.waiting_files.get() == 2);
    assert_eq!(source.counts().open_files.get(), 2);
    // One that waits is renamed, and waits on.
    let waiting = |source: &TestSource| {
        let read: Vec<String> = source.texts.clone();
        let mut names = ["a", "b", "c", "d"].into_iter();
        names
            .find(|name| !read.contains(&(*name).to_owned()))
            .unwrap()
    };
    let name = waiting(&source);
    source.rename(&format!("{name}.log"), &format!("{name}.log.1"));
    let open: Vec<String> = source.texts.clone();
    for name in open {
        source.rename(&format!("{name}.log"), &format!("{name}.log.1"));
    }
    assert_eq!(sorted(source.texts(4)), ["a", "b", "c", "d"]);
    assert_eq!(source.counts().rotated_away_unread_bytes.get(), 0);
    source.wait("none waits", |counts| counts.waiting_files.get() == 0);
}

/// The log is not taken for the older generation, whose names go and come.
#[test]
fn a_log_is_not_given_up_when_its_older_generations_are_renamed_on() {
    let names = r#"{"include": ["{dir}/*.log*"], "host": "h", "rotate_hold": "0s",
        "poll_interval": "1h"}"#;
    let mut source = TestSource::start(names);
    for number in 0..6 {
        source.append("a.log", &format!("{number}\n"));
        source.texts(2 * number + 1);
        for older in (1..4).rev() {
            let names = [older, older + 1].map(|number| format!("a.log.{number}"));
            if source.path(&names[0]).exists() {
                source.rename(&names[0], &names[1]);
            }
        }
        source.rename("a.log", "a.log.1");
        source.append("a.log", "new\n");
        source.texts(2 * number + 2);
    }
    source.wait("the log is open alone", |counts| {
        counts.open_files.get() == 1
    });
    source.append("a.log", "end\n");
    assert_eq!(source.texts(13)[12], "end");
    assert_eq!(source.counts().rotated_away_unread_bytes.get(), 0);
}

#[test]
fn what_is_deleted_while_the_queue_is_full_is_counted_to_the_byte_and_closed() {
    const QUEUE_BYTES: u64 = inrush_event::limits::QUEUE_BYTES_MIN;
    let mut source = TestSource::prepared(CLOSED, Some(QUEUE_BYTES));
    let line = format!("{}\n", "x".repeat(1023));
    let text = line.repeat((QUEUE_BYTES >> 9) as usize);
    source.append("a.log", &text);
    source.run();
    source.wait("the queue is full", |counts| {
        counts.read_bytes.get() > 0 && !source.harness.log.has_room()
    });
    fs::remove_file(source.path("a.log")).unwrap();
    source.wait("it is closed", |counts| counts.open_files.get() == 0);
    let counts = source.counts();
    let (read, lost) = (
        counts.read_bytes.get(),
        counts.rotated_away_unread_bytes.get(),
    );
    assert_eq!(read + lost, text.len() as u64);
    assert!(lost > 0);
    // What is new is found and opened, and read once there is room.
    source.append("b.log", "end\n");
    source.wait("it is open", |counts| counts.open_files.get() == 1);
    while source.texts.last().is_none_or(|text| text != "end") {
        assert!(source.take(PATIENCE), "the queue goes on");
    }
    assert_eq!(
        source.texts.len() as u64,
        read / 1024 + u64::from(read % 1024 > 0) + 1
    );
}

#[test]
fn a_file_that_was_renamed_before_it_was_seen_is_read() {
    let mut source = TestSource::start(LINES);
    // Once the folder is watched.
    source.append("first.log", "first\n");
    source.texts(1);
    let mut expected = Vec::new();
    for number in 0..100 {
        let text = format!("{number:03}");
        source.append("new", &format!("{text}\n"));
        source.rename("new", "a.log");
        source.rename("a.log", &format!("a.log.{number:03}"));
        expected.push(text);
    }
    expected.push("first".to_owned());
    assert_eq!(sorted(source.texts(101)), expected);
}

#[test]
fn a_piece_in_a_file_that_was_renamed_before_it_was_seen_is_joined() {
    let mut source = TestSource::start(PODS);
    let log = "pods/shop_web_1b/nginx/0.log";
    source.append(log, &cri("stderr", "F", "begin"));
    source.texts(1);
    for number in 0..20 {
        source.tick();
        source.rename(log, &format!("{log}.20261128-{number:03}"));
        source.append(log, &cri("stdout", "P", &format!("{number};")));
    }
    // Only the last file is written again: the others are all that there is of them.
    source.append(log, &cri("stdout", "F", "end"));
    let numbers: String = (0..20).map(|number| format!("{number};")).collect();
    assert_eq!(source.texts(2), ["begin", &format!("{numbers}end")]);
}

#[test]
fn a_file_whose_name_comes_back_stays_open() {
    let held = r#"{"include": ["{dir}/pods/*/*/*.log"], "host": "h", "rotate_hold": "10ms",
        "poll_interval": "1h"}"#;
    let mut source = TestSource::start(held);
    let log = "pods/shop_web_1b/nginx/0.log";
    let older = format!("{log}.20261128-0");
    source.append(log, &cri("stdout", "F", "1"));
    source.texts(1);
    source.rename(log, &older);
    source.rename(&older, log);
    // Twice `ENDING_LOOK`, by a clock that the reader sees too: a line each.
    let end = Instant::now() + Duration::from_millis(1200);
    let mut number = 1;
    while Instant::now() < end {
        number += 1;
        source.append(log, &cri("stdout", "F", &number.to_string()));
        source.texts(number);
    }
    assert_eq!(source.counts().open_files.get(), 1);
}

#[test]
fn a_log_that_has_another_name_goes_on_after_a_restart() {
    let mut source = TestSource::start(LINES);
    source.append("a.log", "1\n");
    source.append("c.log", "2\n");
    source.texts(2);
    // Seen, and unseen.
    source.rename("a.log", "b.log");
    source.append("b.log", "3\n");
    source.texts(3);
    source.stop();
    source.rename("c.log", "d.log");
    source.append("d.log", "4\n");
    source.append("b.log", "5\n");
    source.run();
    assert_eq!(sorted(source.texts(5)), ["1", "2", "3", "4", "5"]);
    assert_eq!(source.counts().rotated_away_unread_bytes.get(), 0);
    source.stop();
    assert_eq!(source.harness.log.positions("files").len(), 3);
}

#[test]
fn a_log_that_is_gone_after_a_restart_has_no_position() {
    let mut source = TestSource::start(LINES);
    source.append("a.log", "1\n");
    source.append("b.log", "2\n");
    source.texts(2);
    source.stop();
    assert_eq!(source.harness.log.positions("files").len(), 3);
    fs::remove_file(source.path("a.log")).unwrap();
    source.append("b.log", "3\n");
    source.run();
    source.texts(3);
    source.stop();
    assert_eq!(source.harness.log.positions("files").len(), 2);
}

#[test]
fn older_files_of_a_container_that_paused_are_not_read_again() {
    let held = r#"{"include": ["{dir}/pods/*/*/*.log"], "host": "h", "rotate_hold": "2s",
        "poll_interval": "10ms"}"#;
    let mut source = TestSource::start(held);
    let log = "pods/shop_web_1b/nginx/0.log";
    for number in 1..4 {
        source.append(log, &cri("stdout", "F", &number.to_string()));
        source.texts(number);
        source.tick();
        source.rename(log, &format!("{log}.20261128-{number}"));
    }
    source.wait("it is closed", |counts| counts.open_files.get() == 0);
    source.append(log, &cri("stdout", "F", "4"));
    assert_eq!(source.texts(4), ["1", "2", "3", "4"]);
    source.append("pods/shop_web_1b/nginx/1.log", &cri("stdout", "F", "5"));
    assert_eq!(source.texts(5), ["1", "2", "3", "4", "5"]);
}

#[test]
fn a_log_that_was_cut_goes_on_after_a_restart() {
    let mut source = TestSource::start(LINES);
    let head = "h".repeat(2000);
    source.append("a.log", &format!("{head}\n1\n"));
    source.texts(2);
    for number in 2..4 {
        let copy = format!("a.log.{number}");
        source.tick();
        fs::copy(source.path("a.log"), source.path(&copy)).unwrap();
        let file = File::options()
            .write(true)
            .open(source.path("a.log"))
            .unwrap();
        file.set_len(0).unwrap();
        source.wait("it is seen", |counts| {
            counts.truncated.get() == number as u64 - 1
        });
        source.append("a.log", &format!("{number}{head}\n"));
        source.texts(number + 1);
    }
    source.stop();
    source.append("a.log", "4\n");
    source.run();
    assert_eq!(source.texts(5)[4], "4");
    // The copies match no pattern, and are no generations that nobody saw.
    source.tick();
    source.append("new", "5\n");
    source.rename("new", "a.log");
    assert_eq!(source.texts(6)[5], "5");
    source.append("b.log", "6\n");
    assert_eq!(source.texts(7)[6], "6");
    source.stop();
    assert_eq!(source.texts.len(), 7);
}

#[test]
fn a_copy_that_is_made_slowly_is_not_read_and_a_short_file_of_such_a_name_is() {
    let mut source = TestSource::start(r#"{"include": ["{dir}/*.log*"], "host": "h"}"#);
    let head = "h".repeat(2000);
    source.append("a.log", &format!("{head}\n1\n"));
    source.texts(2);
    source.tick();
    source.append("a.log.1", &head[..500]);
    source.append("a.log.err", "2\n");
    assert_eq!(source.texts(3)[2], "2");
    source.append("a.log.1", &format!("{}\n", &head[500..]));
    source.append("b.log", "3\n");
    assert_eq!(source.texts(4)[3], "3");
    source.append("a.log.1", "1\n");
    source.rename("a.log.1", "a.log.2");
    source.append("c.log", "4\n");
    assert_eq!(source.texts(5)[4], "4");
}

#[test]
fn the_first_start_is_on_disk_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let log = || {
        let queue = QueueOptions {
            durability: Durability::Memory,
            ..QueueOptions::default()
        };
        Log::in_memory(folder.path(), queue, Ledger::new()).unwrap()
    };
    let at = inrush_event::Timestamp(7);
    let first = log();
    super::super::running::note_first_start(&first, &Arc::new(info()), at);
    // As the next process finds it after `kill -9`.
    let positions = log().positions("files");
    assert_eq!(super::super::finder::first_start(&positions), Some(at));
}
