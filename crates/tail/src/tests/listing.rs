//! The listing of a source's files.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use inrush_event::Timestamp;
use inrush_transport::files::tail_file::{AllowedRoots, TailFile};
use inrush_transport::files::watch::WatchRefusal;

use super::*;
use crate::board::LogBoard;
use crate::listing::{FileListing, ListedFile, ListedState, PollReason};

impl TestSource {
    fn listing(&self, most: usize) -> FileListing {
        self.running.as_ref().unwrap().files(most)
    }

    /// The listing, once its only file is as it should be.
    fn file(&self, holds: impl Fn(&ListedFile) -> bool) -> ListedFile {
        let end = Instant::now() + PATIENCE;
        loop {
            let listing = self.listing(10);
            if let [file] = &listing.files[..]
                && holds(file)
            {
                return file.clone();
            }
            assert!(Instant::now() < end, "{listing:#?}");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_listing_has_the_place_the_joins_and_the_losses_of_a_log() {
    let options = PODS.replace(r#""host""#, r#""max_line_bytes": 1024, "host""#);
    let mut source = TestSource::start(&options);
    let log = "pods/shop_web_1b/nginx/0.log";
    let text = cri("stdout", "P", "ab") + &cri("stdout", "F", "c") + "no form\n";
    let text = text + &cri("stdout", "F", &"x".repeat(1100));
    source.append(log, &text);
    source.texts(3);
    let size = text.len() as u64;
    let file = source.file(|file| file.position == size);
    assert_eq!((file.size, file.lag_bytes, file.lag_s), (size, 0, 0.0));
    assert_eq!(
        (file.read_bytes, file.joined, file.generation),
        (size, 1, 0)
    );
    assert_eq!(file.losses.malformed_lines, 1);
    assert_eq!(file.losses.lines_cut, 1);
    assert!(file.path.ends_with(log), "{file:?}");
    // Silent for two seconds: the kernel watches it.
    source.file(|file| file.state == ListedState::Watched && file.size == size);
    fs::rename(source.path(log), source.path(&format!("{log}.20261128-0"))).unwrap();
    source.append(log, &cri("stdout", "F", "next"));
    source.texts(4);
    let file = source.file(|file| file.generation == 1 && file.lag_bytes == 0);
    assert_eq!(file.position, cri("stdout", "F", "next").len() as u64);
    assert_eq!((file.state, file.waiting), (ListedState::Live, 0));
    let listing = source.listing(0);
    assert_eq!((listing.logs, listing.files.len()), (1, 0));
}

#[test]
fn a_listing_tells_the_lag_while_the_reader_waits_for_the_queue() {
    let mut source = TestSource::prepared(LINES, Some(4 << 20));
    source.run();
    let line = "y".repeat(1023) + "\n";
    let text = line.repeat(16 << 10);
    source.append("a.log", &text);
    let end = Instant::now() + PATIENCE;
    let mut before = source.file(|file| file.read_bytes > 0).position;
    // Nobody takes anything: the reader stands.
    let waits = loop {
        let mut now = before;
        for _ in 0..1000 {
            now = source.listing(1).files[0].position;
            std::thread::yield_now();
        }
        if now == before && source.harness.log.blocked_since().is_some() {
            break source.listing(1).files[0].clone();
        }
        before = now;
        assert!(Instant::now() < end, "{before} of {}", text.len());
    };
    assert_eq!(waits.size, text.len() as u64);
    assert_eq!(waits.lag_bytes, waits.size - waits.position);
    assert!(waits.lag_bytes > 8 << 20 && waits.lag_s > 0.0, "{waits:?}");
    source.texts(16 << 10);
    source.file(|file| file.lag_bytes == 0);
}

#[test]
fn a_file_that_cannot_be_opened_says_why_and_since_when() {
    // The first page of a process is not there to be read: EIO.
    let memory = format!("/proc/{}/mem", std::process::id());
    let options = format!(r#"{{"include": ["{memory}"], "format": "lines"}}"#);
    let source = TestSource::start(&options);
    let file = source.file(|file| file.state == ListedState::Unopened);
    assert_eq!(file.path, memory);
    assert!(file.reason.unwrap().starts_with("the system says"));
    let now = Timestamp::now().0 / 1_000_000;
    assert!(
        file.since_ms
            .is_some_and(|since| since <= now && since > now - 60_000)
    );
    assert_eq!((source.listing(1).refused, source.listing(1).logs), (1, 0));
}

#[test]
fn names_that_are_passed_over_are_listed_until_they_are_gone() {
    let source = TestSource::start(LINES);
    let socket = UnixListener::bind(source.path("pipe.log")).unwrap();
    let file = source.file(|file| file.state == ListedState::Skipped);
    assert_eq!(file.reason.as_deref(), Some("it is a socket"));
    drop(socket);
    fs::remove_file(source.path("pipe.log")).unwrap();
    symlink("/nowhere/at/all", source.path("link.log")).unwrap();
    let file = source.file(|file| file.path.ends_with("link.log"));
    assert_eq!(file.state, ListedState::Skipped);
    fs::remove_file(source.path("link.log")).unwrap();
    source.append("link.log", "1\n");
    let file = source.file(|file| file.path.ends_with("link.log") && file.position == 2);
    assert_eq!(
        (file.state, source.listing(9).refused),
        (ListedState::Live, 0)
    );
}

#[test]
fn those_with_the_most_lag_come_first_and_the_rest_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let roots = AllowedRoots::new(vec![folder.path().to_owned()], false);
    let board = LogBoard::default();
    for number in 0..50_u64 {
        let path = folder.path().join(format!("{number:02}.log"));
        fs::write(&path, vec![b'x'; (number * 10) as usize]).unwrap();
        let file = Arc::new(TailFile::open(&path, &roots).unwrap());
        let name = path.as_path().into();
        let row = board.open(number, &name, &file, 0);
        match number {
            7 => row.failed(&"broken", Timestamp(5_000_000)),
            49 => board.silent(number, None),
            _ => {}
        }
    }
    let listing = board.list(3, 11);
    assert_eq!(
        (
            listing.logs,
            listing.failed,
            listing.rotated_away_unread_bytes
        ),
        (50, 1, 11)
    );
    let sum: u64 = (0..49).map(|number| number * 10).sum();
    assert_eq!(listing.lag_bytes, sum, "a silent log is asked nothing");
    let names: Vec<(u64, Option<&str>)> = listing
        .files
        .iter()
        .map(|file| (file.lag_bytes, file.reason.as_deref()))
        .collect();
    assert_eq!(names, [(70, Some("broken")), (480, None), (470, None)]);
    board.silent(48, Some(WatchRefusal::Full));
    board.silent(47, Some(WatchRefusal::Unnoticed));
    board.noticed(49);
    let listing = board.list(1, 0);
    let polling: Vec<_> = listing
        .polling
        .iter()
        .map(|one| (one.reason, one.files))
        .collect();
    assert_eq!(
        polling,
        [(PollReason::NoWatch, 1), (PollReason::FileSystem, 1)]
    );
    assert_eq!(
        (listing.polled, listing.lag_bytes),
        (2, sum + 490 - 480 - 470)
    );
    board.noticed(48);
    assert_eq!(board.list(1, 0).polling.len(), 1);
    board.close(48);
    assert_eq!(board.list(1, 0).logs, 49);
}
