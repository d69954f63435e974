//! Events of a log that comes in any pieces to processes that end at any place, beside those of one
//! process that reads each file at once; and lines that are none.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use inrush_event::{ClassInfo, EventText, Origin, Timestamp};
use inrush_ingest::batch_writer::FrameIntake;
use inrush_ingest::batch_writer::acks::PendingAcks;
use inrush_ingest::batch_writer::preview::EventPreview;
use inrush_ingest::batch_writer::stream::StreamDecoder;
use inrush_transport::files::identity::{FileHead, FileIdentity, InodeKey};
use proptest::prelude::*;
use proptest::sample::select;

use super::counts::FileCounts;
use super::decoder::{LogDecoder, LogForm, NamedForm, StreamForm};
use super::options::FileSource;
use super::place::LogPlace;
use super::position::LogPosition;
use super::running::settings;
use super::tests::info;
use super::workload::STREAMS;
use crate::harness_tests::knowledge;

/// An event, as far as a test compares it.
#[derive(Clone, PartialEq, Debug)]
struct SeenEvent {
    text: String,
    time: Timestamp,
    stream: Option<String>,
    anomalies: Vec<&'static str>,
}

/// Options of a source of these, but where it reads.
fn options(more: &str) -> FileSource {
    serde_json::from_str(&format!(r#"{{"include": ["/x"], "host": "h"{more}}}"#)).unwrap()
}

fn form(options: &FileSource) -> Arc<LogForm> {
    let stream = |_: &str, stream: Option<usize>| StreamForm {
        class: Arc::new(ClassInfo {
            fields: (stream.iter())
                .map(|stream| ("stream".to_owned(), STREAMS[*stream].to_owned()))
                .collect(),
            text: EventText::Message,
            ..ClassInfo::default()
        }),
        host: (*b"h").into(),
        edits: None,
    };
    let rule = options.multiline_rule().unwrap();
    Arc::new(LogForm {
        format: options.format.fixed(),
        encoding: options.encoding,
        event_bytes_max: options.max_line_bytes.0 as usize,
        multiline: [rule.clone(), rule],
        stream: Box::new(stream),
        held_until: None,
        lacks_metadata: false,
        is_excluded: false,
        rate_bytes: None,
    })
}

fn named(form: &Arc<LogForm>) -> NamedForm {
    (Arc::clone(form), Path::new("/x").into())
}

/// Identity of the generation of that number.
fn identity(number: usize) -> FileIdentity {
    FileIdentity {
        key: InodeKey {
            device: (1, 1),
            inode: number as u64,
        },
        birth_ns: Some(number as i64),
        generation: None,
        head: FileHead::default(),
    }
}

/// A process that reads a log.
struct LogRun {
    form: Arc<LogForm>,
    preview: EventPreview,
    counts: Arc<FileCounts>,
    decoder: LogDecoder,
    carry: Vec<u8>,
    events: Vec<SeenEvent>,
    /// The last position, and the events before it.
    durable: Option<(Vec<u8>, usize)>,
    /// Generations that the process began with: the number of the first one, and the bytes that
    /// each had taken.
    resumed: (usize, Vec<u64>),
}

impl LogRun {
    fn new(options: &FileSource) -> Self {
        let form = form(options);
        let counts = Arc::new(FileCounts::default());
        let settings = settings(info(), options, &knowledge()).unwrap();
        let place = LogPlace::new(1, Path::new("/x"), identity(0));
        Self {
            decoder: LogDecoder::new(named(&form), Arc::clone(&counts), place, b""),
            form,
            preview: EventPreview::new(settings),
            counts,
            carry: Vec::new(),
            events: Vec::new(),
            durable: None,
            resumed: (0, Vec::new()),
        }
    }

    /// Shows bytes to the decoder; `step` returns from where they are kept.
    fn step(
        &mut self,
        bytes: &[u8],
        step: impl FnOnce(&mut LogDecoder, &[u8], &mut FrameIntake<'_>) -> usize,
    ) {
        self.carry.extend_from_slice(bytes);
        let decoder = &mut self.decoder;
        let origin = Origin::File("/x".into());
        let (batch, keep) =
            self.preview
                .show(&self.carry, &origin, Timestamp(1), |arena, frames| {
                    step(decoder, arena, frames)
                });
        self.carry.drain(..keep);
        for record in batch.records() {
            let text = record.message.of(batch.bytes());
            let class = batch.class(record).unwrap();
            self.events.push(SeenEvent {
                text: String::from_utf8_lossy(text).into_owned(),
                time: record.event_time,
                stream: class.fields.first().map(|(_, stream)| stream.clone()),
                anomalies: record.anomalies.names().collect(),
            });
        }
        if let Some((_, position)) = self.decoder.position() {
            self.durable = Some((position, self.events.len()));
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        self.step(bytes, |decoder, arena, frames| {
            decoder.decode(arena, 0, frames, &mut PendingAcks::default())
        });
    }

    /// There is nothing more to read, for a long time.
    fn wait(&mut self) {
        self.decoder.now += Duration::from_secs(3600);
        self.decoder.at_end = true;
        self.read(b"");
    }

    fn finish(&mut self, is_last: bool) {
        self.decoder.is_last = is_last;
        self.step(b"", |decoder, arena, frames| {
            decoder.finish(arena, 0, frames);
            arena.len()
        });
    }

    fn give_up(&mut self) {
        self.step(b"", |decoder, arena, frames| {
            decoder.give_up(arena, 0, frames);
            arena.len()
        });
    }

    /// The process ends at once, and another one goes on, as `known` has it. Returns the number of
    /// the generation that it begins with, and the offset in it.
    fn restart(&mut self, files: &[Vec<u8>]) -> (usize, usize) {
        let (position, events) = self.durable.clone().unwrap_or_default();
        self.events.truncate(events);
        self.carry.clear();
        let counts = Arc::clone(&self.counts);
        let Some(position) = LogPosition::decode(&position) else {
            let place = LogPlace::new(1, Path::new("/x"), identity(0));
            self.decoder = LogDecoder::new(named(&self.form), counts, place, b"");
            self.resumed = (0, Vec::new());
            return (0, 0);
        };
        let first = position.generations[0].identity.key.inode as usize;
        let last = position.generations.len() - 1;
        let opens = position.open.iter().flatten();
        let opens = opens.filter(|open| open.generation == 0);
        let taken = position.generations[0].taken;
        let from = opens.map(|open| open.offset).chain([taken]).min().unwrap();
        let open = position.open.map(|open| {
            let open = open?;
            Some(LogPlace::origin_of(u16::from(open.generation), open.offset))
        });
        let known = (0..=last).map(|number| match number == last {
            true => position.generations[number].taken,
            false => u64::MAX,
        });
        self.resumed = (first, known.collect());
        let mut place = LogPlace::new(1, Path::new("/x"), identity(first));
        place.resume(from, self.resumed.1[0], open);
        place.skips = position.skips && last == 0 && from == taken;
        let head = &files[first][..files[first].len().min(3)];
        self.decoder = LogDecoder::new(named(&self.form), counts, place, head);
        (first, from as usize)
    }

    /// The generation of that number begins.
    fn next(&mut self, number: usize) {
        let at = number - self.resumed.0;
        let known = self.resumed.1.get(at).copied().unwrap_or(0);
        self.decoder.begin_next(identity(number), known);
    }
}

/// Events of a log that one process reads, a file at a time.
fn at_once(options: &FileSource, files: &[Vec<u8>]) -> (Vec<SeenEvent>, Arc<FileCounts>) {
    let mut run = LogRun::new(options);
    for (number, file) in files.iter().enumerate() {
        if number > 0 {
            run.next(number);
        }
        run.read(file);
        run.finish(number + 1 == files.len());
    }
    (run.events, run.counts)
}

/// One thing that befalls a reader.
#[derive(Clone, Copy, Debug)]
enum ReadStep {
    /// It reads so many bytes.
    Read(usize),
    /// The process is killed.
    Kill,
    /// Nothing comes for a long time.
    Wait,
}

/// Events of a log that is read in steps.
fn in_steps(options: &FileSource, files: &[Vec<u8>], steps: &[ReadStep]) -> Vec<SeenEvent> {
    let mut run = LogRun::new(options);
    let (mut number, mut at) = (0, 0);
    let mut kills = 0;
    let mut steps = steps.iter().copied().cycle();
    while number < files.len() {
        let file = &files[number];
        match steps.next().unwrap_or(ReadStep::Read(100)) {
            // Not for ever from the same place.
            ReadStep::Kill if kills < 20 => {
                kills += 1;
                (number, at) = run.restart(files);
            }
            ReadStep::Wait if at == file.len() => run.wait(),
            ReadStep::Read(bytes) => {
                let end = file.len().min(at + bytes.max(1));
                run.read(&file[at..end]);
                if end > at {
                    at = end;
                    continue;
                }
                run.finish(number + 1 == files.len());
                number += 1;
                at = 0;
                if number < files.len() {
                    run.next(number);
                }
            }
            _ => {}
        }
    }
    run.events
}

fn cri(stream: &str, tag: &str, text: &str) -> Vec<u8> {
    format!("2026-11-28T09:00:00.123456789Z {stream} {tag} {text}\n").into_bytes()
}

fn docker(stream: &str, text: &str) -> Vec<u8> {
    let text = serde_json::to_string(text).unwrap();
    let time = "2026-11-28T09:00:00.5Z";
    format!("{{\"log\":{text},\"stream\":\"{stream}\",\"time\":\"{time}\"}}\n").into_bytes()
}

/// A line of plain text, of a length that is cut now and then.
fn text() -> impl Strategy<Value = String> {
    let start = select(&["E", "E", " ", "\t", ";", "", "é€🙂"][..]);
    let rest = prop_oneof![
        10 => "[a-z ;]{0,12}",
        2 => "[a-z;]{0,3}\r",
        1 => Just("x".repeat(1500)),
    ];
    (start, rest).prop_map(|(start, rest)| format!("{start}{rest}"))
}

/// A file of a form.
fn file(format: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let stream = select(&["stdout", "stderr"][..]);
    let line =
        (text(), stream, any::<bool>()).prop_map(move |(text, stream, whole)| match format {
            "cri" => cri(stream, if whole { "F" } else { "P" }, &text),
            "docker" => docker(stream, &format!("{text}{}", if whole { "\n" } else { "" })),
            _ => format!("{text}\n").into_bytes(),
        });
    const ODD: &[&[u8]] = &[
        b"no line\n",
        b"\n",
        b"\0\0\0\n",
        b"\0\0\0\0\0",
        b"\xff\xfe\n",
        b"half",
    ];
    let line = prop_oneof![12 => line, 1 => select(ODD).prop_map(<[u8]>::to_vec)];
    prop::collection::vec(line, 0..24).prop_map(|lines| lines.concat())
}

fn steps(waits: bool) -> impl Strategy<Value = Vec<ReadStep>> {
    let read = prop_oneof![1..8_usize, 20..200_usize, 500..3000_usize].prop_map(ReadStep::Read);
    let step = prop_oneof![
        8 => read,
        3 => Just(ReadStep::Kill),
        u32::from(waits) => Just(ReadStep::Wait),
    ];
    let steps = prop::collection::vec(step, 1..30);
    // Something is read in each round.
    steps.prop_map(|mut steps| {
        steps.push(ReadStep::Read(50));
        steps
    })
}

/// Options of a source that puts lines together, or does not.
fn rules() -> impl Strategy<Value = &'static str> {
    select(
        &[
            r#", "max_line_bytes": "1KiB""#,
            r#", "max_line_bytes": "1KiB", "multiline": {"start": "^E"}"#,
            r#", "max_line_bytes": "1KiB", "multiline": {"continue": "^[ \\t]", "max": "40B"}"#,
            r#", "max_line_bytes": "1KiB", "multiline": {"end": ";$"}"#,
        ][..],
    )
}

/// Files of one form, and its name.
fn log() -> impl Strategy<Value = (&'static str, Vec<Vec<u8>>)> {
    let of = |format| {
        let files = prop::collection::vec(file(format), 1..4);
        files.prop_map(move |files| (format, files))
    };
    prop_oneof![of("lines"), of("cri"), of("docker")]
}

/// All lines of these events, by stream, in their order.
fn lines(events: &[SeenEvent]) -> BTreeMap<Option<String>, String> {
    let mut all = BTreeMap::<_, String>::new();
    for event in events {
        let lines = all.entry(event.stream.clone()).or_default();
        lines.extend(event.text.chars().filter(|one| *one != '\n'));
    }
    all
}

proptest! {
    /// Neither the pieces that a log is read in nor the places at which processes are killed are
    /// seen in its events: none is lost, none comes twice, none is another one.
    #[test]
    fn events_do_not_depend_on_reads_and_kills(
        (format, files) in log(),
        more in rules(),
        steps in steps(false),
    ) {
        let options = options(&format!(r#", "format": "{format}"{more}"#));
        let (wanted, _) = at_once(&options, &files);
        prop_assert_eq!(in_steps(&options, &files, &steps), wanted);
    }

    /// Nor does a character come twice or not at all where events end early, for want of time.
    #[test]
    fn no_text_is_lost_where_events_end_early(
        files in prop::collection::vec(file("lines"), 1..4),
        more in rules(),
        steps in steps(true),
    ) {
        let options = options(&format!(r#", "format": "lines"{more}"#));
        let (wanted, _) = at_once(&options, &files);
        let found = in_steps(&options, &files, &steps);
        prop_assert_eq!(lines(&found), lines(&wanted));
    }

    /// The same of lines that are too long: their rest is skipped, by the next process too.
    #[test]
    fn long_lines_do_not_depend_on_reads_and_kills(
        lines in prop::collection::vec((0..3_usize, 0..200_000_usize), 1..6),
        reads in prop::collection::vec((1..150_000_usize, any::<bool>()), 1..8),
        format in select(&["lines", "cri"][..]),
        more in rules(),
    ) {
        let line = |(kind, bytes): &(usize, usize)| match (format, *kind) {
            ("lines", _) => format!("E{}\n", "x".repeat(*bytes)).into_bytes(),
            (_, 0) => cri("stdout", "P", "E piece"),
            (_, 1) => cri("stderr", "F", &"x".repeat(*bytes)),
            _ => format!("{}\n", "y".repeat(*bytes)).into_bytes(),
        };
        let files = [lines.iter().flat_map(line).collect::<Vec<u8>>()];
        let steps: Vec<_> = reads.iter().flat_map(|(bytes, kill)| match kill {
            true => vec![ReadStep::Read(*bytes), ReadStep::Kill],
            false => vec![ReadStep::Read(*bytes)],
        }).collect();
        let options = options(&format!(r#", "format": "{format}"{more}"#));
        let (wanted, _) = at_once(&options, &files);
        prop_assert_eq!(in_steps(&options, &files, &steps), wanted);
    }

    /// The same of UTF-16, whose offsets are bytes of the file.
    #[test]
    fn utf_16_does_not_depend_on_reads_and_kills(
        texts in prop::collection::vec(text(), 0..20),
        broken in prop::collection::vec(any::<u16>(), 0..6),
        little in any::<bool>(),
        half in any::<bool>(),
        more in rules(),
        steps in steps(false),
    ) {
        let bytes = |unit: u16| if little { unit.to_le_bytes() } else { unit.to_be_bytes() };
        let text = format!("\u{feff}{}\n", texts.join("\r\n"));
        let units = text.encode_utf16().chain(broken);
        let mut file: Vec<u8> = units.flat_map(bytes).collect();
        if half {
            file.push(b'x');
        }
        let options = options(&format!(r#", "encoding": "utf-16"{more}"#));
        let files = [file];
        let (wanted, _) = at_once(&options, &files);
        prop_assert_eq!(in_steps(&options, &files, &steps), wanted);
    }
}

/// Texts of the events so far.
fn said(run: &LogRun) -> Vec<&str> {
    run.events.iter().map(|event| event.text.as_str()).collect()
}

#[test]
fn a_mark_and_zeros_before_a_line_are_no_part_of_it() {
    let mut run = LogRun::new(&options(r#", "max_line_bytes": "1KiB""#));
    run.read(b"\xef\xbb");
    run.read(b"\xbfone\n");
    // More zeros than a line may have, and a CRI line is told by its text alone.
    for _ in 0..20 {
        run.read(&[0; 20_000]);
    }
    assert!(run.carry.is_empty());
    run.read(b"\0two\n\0three\n\0");
    run.read(b"\0\nfour\n");
    assert_eq!(said(&run), ["one", "two", "three", "four"]);
    assert_eq!(run.counts.holes_skipped.get(), 3);
    assert_eq!(run.counts.lines_cut.get(), 0);
    let mut run = LogRun::new(&options(""));
    run.read(&[&b"\0\0"[..], &cri("stdout", "F", "text")].concat());
    assert_eq!(said(&run), ["text"]);
    // A mark of UTF-16 is none where UTF-8 is expected, and half a mark is text.
    run.decoder.restart();
    run.read(b"\xff\xfe\n");
    run.decoder.restart();
    run.read(b"\xef");
    run.finish(true);
    assert_eq!(said(&run)[1..], ["\u{fffd}\u{fffd}", "\u{fffd}"]);
}

#[test]
fn a_rest_keeps_what_is_open() {
    let mut run = LogRun::new(&options(""));
    for (stream, tag, text) in [
        ("stdout", "P", "one "),
        ("stderr", "F", "other"),
        ("stdout", "F", "two"),
        ("stdout", "F", "three"),
    ] {
        run.read(&cri(stream, tag, text));
        run.decoder.rest();
    }
    assert_eq!(said(&run), ["other", "one two", "three"]);
}

#[test]
fn another_rule_holds_from_the_next_line_on() {
    let mut run = LogRun::new(&options(r#", "multiline": {"start": "^E"}"#));
    run.read(b"E 1\n a\n");
    let replace = |run: &mut LogRun, more: &str| {
        run.decoder.replace_form(named(&form(&options(more))));
    };
    replace(&mut run, r#", "multiline": {"end": ";$"}"#);
    assert!(run.events.is_empty());
    run.read(b" b\nE 2;\n c\n");
    assert_eq!(said(&run), ["E 1\n a", " b\nE 2;"]);
    replace(&mut run, "");
    run.read(b" d\n");
    assert_eq!(said(&run)[2..], [" c", " d"]);
    // The same rule again is no change: the event goes on.
    let rule = options(r#", "multiline": {"start": "^E"}"#);
    let same = form(&rule);
    run.decoder.replace_form(named(&same));
    run.read(b"E 3\n");
    run.decoder.replace_form(named(&same));
    run.read(b" e\nE 4\n");
    assert_eq!(said(&run)[4..], ["E 3\n e"]);
}

#[test]
fn what_is_given_up_is_sent_and_not_read_again() {
    let options = options(r#", "encoding": "utf-16", "multiline": {"start": "^E"}"#);
    let file: Vec<u8> = "\u{feff}E 1\n abc\nE 2\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let mut run = LogRun::new(&options);
    run.read(&file[..15]);
    run.give_up();
    assert_eq!(said(&run), ["E 1\n a"]);
    // Half of a unit was there.
    let at = run.decoder.place.taken() as usize;
    assert_eq!(at, 14);
    let (number, at) = run.restart(std::slice::from_ref(&file));
    assert_eq!((number, at), (0, 14));
    run.read(&file[at..]);
    run.finish(true);
    assert_eq!(said(&run), ["E 1\n a", "E 2"]);
    assert_eq!(run.decoder.cut_bytes()[0], 4);
}

#[test]
fn a_process_may_end_within_the_zeros_before_a_line() {
    let first = cri("stderr", "P", "open");
    let file = [&first[..], &[0; 5], &cri("stdout", "F", "text")].concat();
    let mut run = LogRun::new(&options(""));
    run.read(&first);
    run.read(&[0]);
    let (_, at) = run.restart(std::slice::from_ref(&file));
    assert_eq!(at, 0, "the open piece is read again");
    run.read(&file);
    assert_eq!(said(&run), ["text"]);
}
