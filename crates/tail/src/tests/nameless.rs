//! Files that came and were renamed while no process read, of logs whose name is absent at the
//! start, as logrotate's `nocreate` leaves them.

use super::*;

fn sorted(texts: &[String]) -> Vec<String> {
    let mut texts = texts.to_vec();
    texts.sort();
    texts
}

/// Renames `a.log` to `a.log.1`, and the older ones on, as logrotate does.
fn rotate(source: &TestSource, kept: u32) {
    source.tick();
    for number in (1..kept).rev() {
        let [from, to] = [number, number + 1].map(|number| format!("a.log.{number}"));
        if source.path(&from).exists() {
            source.rename(&from, &to);
        }
    }
    source.rename("a.log", "a.log.1");
}

#[test]
fn files_that_came_and_were_renamed_between_two_runs_are_read() {
    let mut source = TestSource::start(LINES);
    source.append("a.log", "1\n");
    source.texts(1);
    source.stop();
    for text in ["2\n", "3\n"] {
        rotate(&source, 3);
        source.append("a.log", text);
    }
    rotate(&source, 3);
    source.run();
    assert_eq!(sorted(source.texts(3)), ["1", "2", "3"]);
    source.append("a.log.1", "4\n");
    source.append("a.log", "5\n");
    assert_eq!(sorted(source.texts(5)), ["1", "2", "3", "4", "5"]);
    // Each has its position.
    source.stop();
    source.append("a.log.2", "6\n");
    source.append("a.log", "7\n");
    source.run();
    let read = ["1", "2", "3", "4", "5", "6", "7"];
    assert_eq!(sorted(source.texts(7)), read);
}

/// The file of the position goes, as the oldest one of a rotation does.
#[test]
fn files_behind_one_that_was_deleted_between_two_runs_are_read() {
    for is_there in [false, true] {
        let mut source = TestSource::start(LINES);
        source.append("a.log", "1\n");
        source.texts(1);
        source.stop();
        for text in ["2\n", "3\n"] {
            rotate(&source, 3);
            source.append("a.log", text);
        }
        rotate(&source, 3);
        fs::remove_file(source.path("a.log.3")).unwrap();
        if is_there {
            source.append("a.log", "4\n");
        }
        source.run();
        let wanted = &["1", "2", "3", "4"][..3 + usize::from(is_there)];
        assert_eq!(sorted(source.texts(wanted.len())), wanted);
        source.stop();
        assert_eq!(source.harness.log.positions("files").len(), wanted.len());
    }
}

/// The same of a container: its files are read in their order.
#[test]
fn files_of_a_container_behind_one_that_was_deleted_are_read_in_their_order() {
    let mut source = TestSource::start(PODS);
    let log = "pods/shop_web_1b/nginx/0.log";
    source.append(log, &cri("stdout", "F", "1"));
    source.texts(1);
    source.stop();
    for number in 1..4 {
        source.tick();
        source.rename(log, &format!("{log}.20261128-{number}"));
        source.append(log, &cri("stdout", "P", &format!("{number};")));
    }
    fs::remove_file(source.path(&format!("{log}.20261128-1"))).unwrap();
    let last = format!("{log}.20261128-4");
    source.rename(log, &last);
    source.run();
    source.append(&last, &cri("stdout", "F", "end"));
    assert_eq!(source.texts(2), ["1", "1;2;3;end"]);
}

/// A log that is copied and cut has no other generations than copies.
#[test]
fn older_copies_of_a_log_that_was_cut_between_two_runs_are_not_read() {
    let mut source = TestSource::start(LINES);
    let head = "h".repeat(2000);
    source.append("a.log", &format!("{head}\n1\n"));
    source.texts(2);
    source.tick();
    copy_and_cut(&source, "a.log.1", "");
    source.append("a.log", "2\n");
    source.texts(3);
    source.stop();
    source.rename("a.log.1", "a.log.2");
    source.tick();
    copy_and_cut(&source, "a.log.1", "");
    source.append("a.log", "3\n");
    source.run();
    source.append("a.log", "4\n");
    source.texts(5);
    source.stop();
    assert_eq!(sorted(&source.texts[1..]), ["1", "2", "3", "4"]);
}

#[test]
fn a_piece_in_a_file_that_came_and_was_renamed_between_two_runs_is_joined() {
    let mut source = TestSource::start(PODS);
    let log = "pods/shop_web_1b/nginx/0.log";
    source.append(log, &cri("stderr", "F", "begin"));
    source.texts(1);
    source.stop();
    source.append(log, &cri("stdout", "P", "1;"));
    for number in 2..4 {
        source.tick();
        source.rename(log, &format!("{log}.20261128-{number}"));
        source.append(log, &cri("stdout", "P", &format!("{number};")));
    }
    let last = format!("{log}.20261128-4");
    source.rename(log, &last);
    source.run();
    source.append(&last, &cri("stdout", "F", "end"));
    assert_eq!(source.texts(2), ["begin", "1;2;3;end"]);
}
