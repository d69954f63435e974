//! Preview of a log: the events that a source would take of its lines.
//!
//! # What it guarantees
//! * Lines go through the decoder of the source: form, joins, bounds and names are its own.
//! * Nothing is counted or kept, and no file but the input is read.
//!
//! # Limits
//! Memory is bounded by the longest line, and by an open event of each stream. Time plays no part:
//! a piece waits for the next one until the input ends.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use inrush_codec::container::{
    ContainerFormat, CriFault, DockerFault, LogStream, detect, parse_cri, parse_docker,
};
use inrush_event::{Batch, Origin, Record, SourceInfo, Timestamp};
use inrush_ingest::batch_writer::FrameIntake;
use inrush_ingest::batch_writer::acks::PendingAcks;
use inrush_ingest::batch_writer::preview::EventPreview;
use inrush_ingest::batch_writer::source::IngestSettings;
use inrush_ingest::batch_writer::stream::StreamDecoder;
use inrush_kubernetes::{FieldNaming, PodMetadata};
use inrush_transport::files::identity::{FileHead, FileIdentity, InodeKey};

use super::counts::{FileCounts, SharedCounts};
use super::decoder::{LineForm, LogDecoder};
use super::form::FormMaker;
use super::options::{FileFormat, FileSource};
use super::place::LogPlace;
use super::workload::{STREAMS, SourceDesk};

/// Bytes that are shown to the decoder at once, if no line ends before.
const CHUNK_BYTES: u64 = 64 * 1024;

/// Log whose lines are looked at.
#[derive(Clone, Debug)]
pub struct PreviewedLog {
    /// Path that it is said to have: it tells the pod, the container and the source.
    pub path: String,
    /// Form of its lines.
    pub format: FileFormat,
    /// Pod and container that it is of, if the pod is known: its annotations decide.
    pub pod: Option<(PodMetadata, String)>,
}

/// Lines that an event came of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventLines {
    /// Number of the first line, from 1.
    pub first: u64,
    /// Number of the last one.
    pub last: u64,
    /// Pieces; 1 for an event that is a line.
    pub pieces: u64,
    /// Stream of the container; empty for a line that has none.
    pub stream: String,
    /// Reason that a line is not in the form of its log, in words.
    pub fault: Option<&'static str>,
}

/// Counts of a preview.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogTotals {
    /// Lines of the input.
    pub lines: u64,
    /// Events that came of them.
    pub events: u64,
    /// Events of several pieces.
    pub joined: u64,
    /// Events that were cut.
    pub cut: u64,
    /// Lines in another form than the log's.
    pub malformed: u64,
    /// Events whose last piece did not come.
    pub unfinished: u64,
}

/// An event of a log, and the lines that it came of.
pub type LogEventVisitor<'v> = dyn FnMut(&Batch, &Record, EventLines) -> io::Result<()> + 'v;

/// A log whose first line is not read yet.
pub struct LogPreview {
    decoder: LogDecoder,
    counts: SharedCounts,
    events: EventPreview,
    origin: Origin,
    lines: LineTrail,
    totals: LogTotals,
}

impl LogPreview {
    /// As the source that `info` names would read the log.
    ///
    /// # Errors
    /// In words: a time zone cannot be used.
    pub fn begin(
        info: SourceInfo,
        options: &FileSource,
        log: &PreviewedLog,
    ) -> Result<Self, String> {
        let format = match log.format {
            FileFormat::Auto => options.format,
            format => format,
        };
        let options = FileSource {
            format,
            ..options.clone()
        };
        let desk = Arc::new(SourceDesk::alone(&options));
        let view = match &log.pod {
            Some((pod, container)) => Some(Arc::new(desk.pod_view(pod, "", container))),
            None => desk.ask(&log.path, None, false).map(|answer| answer.view),
        };
        let maker = Arc::new(FormMaker::new(&options, desk).keeping());
        let form = maker.form(format.fixed(), view.as_ref(), None);
        let counts: SharedCounts = Arc::new(FileCounts::default());
        let place = LogPlace::new(1, Path::new(&log.path), nobody());
        let name = Arc::clone(place.path());
        Ok(Self {
            decoder: LogDecoder::new((form, name), Arc::clone(&counts), place, b""),
            events: EventPreview::new(ingest_settings(info, &options)?),
            origin: Origin::File(log.path.as_str().into()),
            lines: LineTrail {
                form: format.fixed(),
                joins_lines: options.multiline.is_some(),
                ..LineTrail::default()
            },
            counts,
            totals: LogTotals::default(),
        })
    }

    /// Reads a log to its end, and shows its events.
    ///
    /// # Errors
    /// The input cannot be read, or an event not shown.
    pub fn read(
        mut self,
        mut input: impl BufRead,
        show: &mut LogEventVisitor<'_>,
    ) -> io::Result<LogTotals> {
        let mut bytes = Vec::new();
        loop {
            let read = input
                .by_ref()
                .take(CHUNK_BYTES)
                .read_until(b'\n', &mut bytes)?;
            if read == 0 {
                break;
            }
            let ends = bytes.last() == Some(&b'\n');
            if ends {
                self.lines.line(bytes.get(..bytes.len() - 1).unwrap_or(&[]));
            }
            let keep = self.step(&bytes, show, |decoder, arena, frames| {
                decoder.decode(arena, 0, frames, &mut PendingAcks::default())
            })?;
            bytes.drain(..keep);
        }
        if !bytes.is_empty() {
            self.lines.line(&bytes);
        }
        self.decoder.is_last = true;
        self.step(&bytes, show, |decoder, arena, frames| {
            decoder.finish(arena, 0, frames);
            0
        })?;
        let costs = self.counts.line_costs();
        Ok(LogTotals {
            lines: self.lines.number,
            joined: costs.joined,
            cut: costs.cut,
            malformed: costs.malformed,
            unfinished: costs.flushed,
            ..self.totals
        })
    }

    /// Shows the events that `decode` takes of `bytes`. Returns its result.
    fn step(
        &mut self,
        bytes: &[u8],
        show: &mut LogEventVisitor<'_>,
        decode: impl FnOnce(&mut LogDecoder, &[u8], &mut FrameIntake<'_>) -> usize,
    ) -> io::Result<usize> {
        self.decoder.now = Instant::now();
        let decoder = &mut self.decoder;
        let take = |arena: &[u8], frames: &mut FrameIntake<'_>| decode(decoder, arena, frames);
        let (batch, keep) = self
            .events
            .show(bytes, &self.origin, Timestamp::now(), take);
        for record in batch.records() {
            self.totals.events += 1;
            let text = batch.get(record.message);
            let lines = 1 + memchr::memchr_iter(b'\n', text).count();
            let lines = self.lines.take(&stream_of(&batch, record), lines);
            show(&batch, record, lines)?;
        }
        Ok(keep)
    }
}

/// Names of the indexed field with the stream of a container.
const STREAM_FIELDS: [&str; 2] = [FieldNaming::Otel.stream(), FieldNaming::Collectord.stream()];

/// Name of the stream that an event came from; empty without one.
fn stream_of(batch: &Batch, record: &Record) -> String {
    let class = batch.class(record);
    let fields = class.map_or(&[][..], |class| &class.fields);
    // It is the last field of those that have one.
    let last = fields.last().map_or("", |(_, value)| value.as_str());
    let is_stream = fields
        .last()
        .is_some_and(|(name, _)| STREAM_FIELDS.contains(&name.as_str()));
    let stream = STREAMS.iter().find(|one| is_stream && **one == last);
    stream.map_or_else(String::new, ToString::to_string)
}

/// Lines that no event came of yet, by stream.
#[derive(Default)]
struct LineTrail {
    form: Option<LineForm>,
    /// Number of the last line.
    number: u64,
    /// Of the last line, if it is in another form.
    fault: Option<&'static str>,
    /// True if several lines may be an event.
    joins_lines: bool,
    /// Numbers, and true for a piece that is followed by others of its line.
    open: [VecDeque<(u64, bool)>; 2],
}

impl LineTrail {
    /// Notes a line.
    fn line(&mut self, line: &[u8]) {
        self.number += 1;
        let form = *self.form.get_or_insert_with(|| match detect(line) {
            Some(format) => LineForm::Container(format),
            None => LineForm::Plain,
        });
        let stream = match form {
            LineForm::Plain if !self.joins_lines => return,
            LineForm::Plain => Ok((LogStream::Stdout, false)),
            LineForm::Container(ContainerFormat::Cri) => parse_cri(line)
                .map(|one| (one.stream, one.partial))
                .map_err(cri_words),
            LineForm::Container(ContainerFormat::Docker) => parse_docker(line)
                .map(|one| (one.stream, !one.complete))
                .map_err(docker_words),
        };
        self.fault = stream.err();
        if let Ok((stream, partial)) = stream {
            self.open[stream as usize].push_back((self.number, partial));
        }
    }

    /// The lines of an event with so many lines of text.
    fn take(&mut self, stream: &str, lines: usize) -> EventLines {
        let at = [LogStream::Stdout, LogStream::Stderr]
            .iter()
            .position(|one| one.name() == stream);
        let plain = (self.form == Some(LineForm::Plain)).then_some(LogStream::Stdout as usize);
        let mut taken = Vec::new();
        if let Some(open) = at.or(plain).and_then(|at| self.open.get_mut(at)) {
            let mut ends = 0;
            while (!self.joins_lines || ends < lines)
                && let Some((number, partial)) = open.pop_front()
            {
                taken.push(number);
                ends += usize::from(!partial);
            }
        }
        EventLines {
            first: taken.first().copied().unwrap_or(self.number),
            last: taken.last().copied().unwrap_or(self.number),
            pieces: taken.len().max(1) as u64,
            stream: stream.to_owned(),
            fault: self.fault.take().filter(|_| at.is_none()),
        }
    }
}

fn cri_words(fault: CriFault) -> &'static str {
    match fault {
        CriFault::Time => "no line of CRI: it does not begin with a time of RFC 3339 and a space",
        CriFault::Stream => "no line of CRI: its second word is neither stdout nor stderr",
        CriFault::Tag => "no line of CRI: its third word does not begin with P or F",
    }
}

fn docker_words(fault: DockerFault) -> &'static str {
    match fault {
        DockerFault::Cut => "no line of Docker: it ends before its object does",
        DockerFault::Format => "no line of Docker: it is no JSON object",
        DockerFault::Log => "no line of Docker: it has no text `log`",
        DockerFault::Stream => "no line of Docker: `stream` is neither stdout nor stderr",
        DockerFault::Time => "no line of Docker: `time` is no time of RFC 3339",
        DockerFault::Attrs => "no line of Docker: `attrs` is no object",
    }
}

/// Identity of a file that there is not.
fn nobody() -> FileIdentity {
    FileIdentity {
        key: InodeKey {
            device: (0, 0),
            inode: 0,
        },
        birth_ns: None,
        generation: None,
        head: FileHead::default(),
    }
}

/// Settings by which headers are read; all that comes behind is the caller's.
fn ingest_settings(info: SourceInfo, options: &FileSource) -> Result<IngestSettings, String> {
    let syslog = options.header_options();
    let zone = syslog.zone().map_err(|error| error.to_string())?;
    Ok(IngestSettings {
        info: Arc::new(info),
        message_bytes_max: usize::try_from(options.max_line_bytes.0).unwrap_or(usize::MAX),
        zone,
        guess_timezone: syslog.guess_timezone,
        skew_ns_max: syslog.time_skew_ns_max(),
        encoding: syslog.encoding,
        recognition: None,
        names: None,
        transforms: None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn info() -> SourceInfo {
        SourceInfo {
            name: "pods".to_owned(),
            index: "main".to_owned(),
            sourcetype: "file".to_owned(),
        }
    }

    /// Text, lines and index of each event, and the totals.
    fn preview(log: &PreviewedLog, text: &str) -> (Vec<(String, EventLines, String)>, LogTotals) {
        let options = r#"{"include": ["/x"], "host": "h", "max_line_bytes": 1024}"#;
        let options: FileSource = serde_json::from_str(options).unwrap();
        let mut events = Vec::new();
        let totals = LogPreview::begin(info(), &options, log)
            .unwrap()
            .read(text.as_bytes(), &mut |batch, record, lines| {
                let text = String::from_utf8_lossy(batch.get(record.message)).into_owned();
                let index = String::from_utf8_lossy(batch.names(record).index).into_owned();
                events.push((text, lines, index));
                Ok(())
            })
            .unwrap();
        (events, totals)
    }

    fn log(format: FileFormat) -> PreviewedLog {
        PreviewedLog {
            path: "/var/log/pods/shop_web-1_uid/nginx/0.log".to_owned(),
            format,
            pod: None,
        }
    }

    /// A pod whose events of standard error have an index of their own.
    fn pod() -> PodMetadata {
        let pod = r#"{"metadata": {"namespace": "shop", "name": "web-1", "uid": "uid",
            "annotations": {"inrush.io/stderr.index": "errors"}},
            "spec": {"containers": [{"name": "nginx"}]}}"#;
        PodMetadata {
            pod: Arc::new(serde_json::from_str(pod).unwrap()),
            namespace: None,
            workloads: Vec::new(),
            removed: false,
        }
    }

    fn lines(first: u64, last: u64, pieces: u64, stream: &str) -> EventLines {
        EventLines {
            first,
            last,
            pieces,
            stream: stream.to_owned(),
            fault: None,
        }
    }

    const TIME: &str = "2026-11-28T09:00:00Z";

    #[test]
    fn pieces_say_which_lines_they_came_of() {
        let text = format!(
            "{TIME} stdout P ab\n{TIME} stderr F x\n{TIME} stdout F cd\nno form\n\
             {TIME} stdout P open"
        );
        let mut log = log(FileFormat::Cri);
        log.pod = Some((pod(), "nginx".to_owned()));
        let (events, totals) = preview(&log, &text);
        let found: Vec<_> = events
            .iter()
            .map(|(text, lines, _)| (text.as_str(), lines))
            .collect();
        let malformed = EventLines {
            fault: events[2].1.fault,
            ..lines(4, 4, 1, "")
        };
        assert_eq!(
            found,
            [
                ("x", &lines(2, 2, 1, "stderr")),
                ("abcd", &lines(1, 3, 2, "stdout")),
                ("no form", &malformed),
                ("open", &lines(5, 5, 1, "stdout")),
            ]
        );
        assert!(malformed.fault.is_some());
        let indexes: Vec<_> = events.iter().map(|(.., index)| index.as_str()).collect();
        assert_eq!(indexes, ["errors", "main", "main", "main"]);
        let wanted = LogTotals {
            lines: 5,
            events: 4,
            joined: 1,
            cut: 0,
            malformed: 1,
            unfinished: 1,
        };
        assert_eq!(totals, wanted);
    }

    #[test]
    fn events_of_several_lines_say_which() {
        let options = r#"{"include": ["/x"], "host": "h", "multiline": {"start": "^E"}}"#;
        let options: FileSource = serde_json::from_str(options).unwrap();
        let mut found = Vec::new();
        let text = format!(
            "{TIME} stdout F E 1\n{TIME} stdout P  a\n{TIME} stderr F E x\n\
             {TIME} stdout F b\n{TIME} stdout F E 2\n"
        );
        let totals = LogPreview::begin(info(), &options, &log(FileFormat::Cri))
            .unwrap()
            .read(text.as_bytes(), &mut |_, _, lines| {
                found.push((lines.stream, lines.first, lines.last, lines.pieces));
                Ok(())
            })
            .unwrap();
        let wanted = [
            ("stdout", 1, 4, 3),
            ("stdout", 5, 5, 1),
            ("stderr", 3, 3, 1),
        ];
        let wanted =
            wanted.map(|(stream, first, last, pieces)| (stream.to_owned(), first, last, pieces));
        assert_eq!(found, wanted);
        assert_eq!(totals.events, 3);
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_and_the_next_one_is_whole() {
        let long = "y".repeat(300_000);
        let (events, totals) = preview(&log(FileFormat::Lines), &format!("{long}\nnext\n"));
        let texts: Vec<_> = events.iter().map(|(text, ..)| text.len()).collect();
        assert_eq!(texts, [1024, 4]);
        assert_eq!((events[1].1.first, totals.lines, totals.cut), (2, 2, 1));
    }

    #[test]
    fn the_first_line_says_the_form_where_nobody_else_does() {
        let docker = r#"{"log":"a","stream":"stdout","time":"2026-11-28T09:00:00Z"}"#;
        let text = format!("{docker}\n{}\n", docker.replace("\"a\"", "\"b\\n\""));
        let (events, totals) = preview(&log(FileFormat::Auto), &text);
        assert_eq!(events[0].0, "ab");
        assert_eq!(
            (events[0].1.clone(), totals.joined),
            (lines(1, 2, 2, "stdout"), 1)
        );
    }
}
