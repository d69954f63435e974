//! A file of numbered lines and its writer.
//!
//! # What it guarantees
//! * A line gets its number when its first record is made. Records of one lane stay in order.
//! * Between the pieces of a long line stand records of the other lane, and now and then a change
//!   of the file: [`NumberedLog::cut`] leaves a line open before one.
//! * Writes end anywhere in a record, as a reader must bear; a change of the file comes between two
//!   records, as those of all runtimes do.
//! * Each generation knows its lines, to the piece.
//!
//! # States
//! The writer has a file open from [`NumberedLog::create`] on. A rotator changes it by `reopen`
//! (by name), by `truncate` (in place) or by neither, and then the writer goes on where it was.
//!
//! # Limits
//! Records that wait are the pieces of one long line a lane.
//!
//! # After a crash
//! It is the writer of a test: an error of the file system ends the test.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};

use super::format::{LogFormat, time_text};
use super::generation::{FRESH, GoneWay, LaneRanges, LogGeneration};
use super::line::{LineNumber, LineShape, push_line};

/// Writers of a file: one a lane.
pub(crate) const LANES: u32 = 2;

/// Properties of all files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogSettings {
    pub(crate) format: LogFormat,
    pub(crate) shape: LineShape,
    /// True if the writer opens its file for appending.
    pub(crate) append: bool,
}

/// One of the streams of a file.
#[derive(Default)]
struct NumberedLane {
    /// Number of the next line.
    next: u32,
    /// Records of the open line that are still to be written.
    pending: VecDeque<Vec<u8>>,
}

/// The file and its writer.
pub(crate) struct NumberedLog {
    index: u32,
    path: PathBuf,
    settings: LogSettings,
    file: File,
    lanes: [NumberedLane; LANES as usize],
    out: Vec<u8>,
    chance: fastrand::Rng,
    /// The last one is that of the open file.
    generations: Vec<LogGeneration>,
    /// Lines that were open or next at some moments of the last [`FRESH`].
    moments: VecDeque<(Instant, [u32; 2])>,
    /// Time of the records that are made, and as text.
    time: (u64, String),
    text: Vec<u8>,
}

impl NumberedLog {
    /// Creates file `index` at `path`, where there must be none.
    pub(crate) fn create(index: u32, path: PathBuf, settings: LogSettings) -> Result<Self> {
        let file = open(&path, settings.append)?;
        Ok(Self {
            index,
            path,
            settings,
            file,
            lanes: Default::default(),
            out: Vec::new(),
            chance: fastrand::Rng::with_seed(u64::from(index) + 1),
            generations: vec![LogGeneration::default()],
            moments: VecDeque::new(),
            time: (0, String::new()),
            text: Vec::new(),
        })
    }

    /// Name that collectors look for.
    pub(crate) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// The generations so far.
    pub(crate) fn generations(&self) -> &[LogGeneration] {
        &self.generations
    }

    /// Place of the generation that is being written.
    pub(crate) fn generation(&self) -> usize {
        self.generations.len() - 1
    }

    /// Lines of each lane so far.
    pub(crate) fn written(&self) -> [u32; 2] {
        self.lanes.each_ref().map(|lane| lane.next)
    }

    /// Bytes of the generation that is being written.
    pub(crate) fn bytes(&self) -> u64 {
        self.generations.last().map_or(0, |last| last.bytes)
    }

    /// Writes so many lines, and leaves at most one line of each lane open.
    pub(crate) fn write(&mut self, lines: u64) -> Result<()> {
        self.look_at_clock();
        let mut left = lines;
        while left > 0 {
            let lane = self.chance.usize(..self.settings.format.lanes().len());
            match self.lanes[lane].pending.pop_front() {
                Some(piece) => self.out.extend_from_slice(&piece),
                None => {
                    self.begin(lane);
                    left -= 1;
                }
            }
        }
        self.flush()
    }

    /// Writes what is open to its end.
    pub(crate) fn finish(&mut self) -> Result<()> {
        for lane in &mut self.lanes {
            let pieces = lane.pending.drain(..);
            pieces.for_each(|piece| self.out.extend_from_slice(&piece));
        }
        self.flush()
    }

    /// Begins a long line in a lane that has none open: what follows its first piece comes after
    /// the change of the file. Lines that are never cut have none.
    pub(crate) fn cut(&mut self) -> Result<()> {
        self.look_at_clock();
        let lane = self.chance.usize(..LANES as usize);
        let is_cut = self.settings.format != LogFormat::Lines && self.settings.shape.long_every > 0;
        if is_cut && self.lanes[lane].pending.is_empty() {
            let numbers = self.lanes[lane].next..;
            let shape = self.settings.shape;
            let length = |number| shape.length(self.number(lane, number));
            // Lengths are a matter of numbers: those until the next long one are written first.
            let long = numbers
                .take(shape.long_every as usize)
                .find(|number| length(*number) > shape.bytes.max(super::format::PIECE_BYTES));
            while long.is_some_and(|long| self.lanes[lane].next <= long) {
                self.begin(lane);
            }
        }
        self.flush()
    }

    /// Opens the file by its name, and goes on there.
    pub(crate) fn reopen(&mut self) -> Result<()> {
        self.file = open(&self.path, self.settings.append)?;
        self.next_generation();
        Ok(())
    }

    /// Cuts off what was written. A writer that does not append leaves a hole then.
    pub(crate) fn truncate(&mut self, now: Instant, rewind: bool) -> Result<()> {
        self.file.set_len(0).context("truncate")?;
        if rewind {
            self.file.seek(SeekFrom::Start(0)).context("seek")?;
        }
        let fresh = self.fresh(now);
        if let Some(last) = self.generations.last_mut() {
            last.fresh = fresh;
        }
        self.gone(self.generation(), now, GoneWay::Truncated);
        self.next_generation();
        let is_cut = self.settings.format != LogFormat::Lines;
        let next = self.written();
        if let Some(last) = self.generations.last_mut().filter(|_| is_cut) {
            last.behind_cut = next.map(|next| next..next + 1);
        }
        Ok(())
    }

    /// Notes that a generation became unreadable.
    pub(crate) fn gone(&mut self, generation: usize, at: Instant, how: GoneWay) {
        if let Some(one) = self.generations.get_mut(generation) {
            one.gone.get_or_insert((at, how));
        }
    }

    /// Notes the lines from these on as lost by a rotation that now truncates.
    pub(crate) fn lose_from(&mut self, from: [u32; 2]) {
        let written = self.written();
        if let Some(last) = self.generations.last_mut() {
            last.window = [from[0]..written[0], from[1]..written[1]];
        }
    }

    /// First line of each lane of which a part is still to be written.
    pub(crate) fn open_lines(&self) -> [u32; 2] {
        self.lanes
            .each_ref()
            .map(|lane| lane.next - u32::from(!lane.pending.is_empty()))
    }

    /// Bytes that a line has in a file.
    pub(crate) fn bytes_of(&self, lane: usize, number: u32) -> u64 {
        let line = self.number(lane, number);
        let mut text = Vec::new();
        push_line(line, self.settings.shape.length(line), 1, &mut text);
        let records = records(self.settings.format, lane, &time_text(1), &text);
        records.iter().map(|record| record.len() as u64).sum()
    }

    fn number(&self, lane: usize, number: u32) -> LineNumber {
        LineNumber {
            writer: self.index * LANES + lane as u32,
            number,
        }
    }

    /// Makes the records of a new line: the first is written, the others wait.
    fn begin(&mut self, lane: usize) {
        let line = self.number(lane, self.lanes[lane].next);
        let length = self.settings.shape.length(line);
        self.text.clear();
        push_line(line, length, self.time.0, &mut self.text);
        let format = self.settings.format;
        let time = &self.time.1;
        self.lanes[lane].next += 1;
        // One that waits is of a line before: it ends first.
        let before = self.lanes[lane].pending.drain(..);
        before.for_each(|piece| self.out.extend_from_slice(&piece));
        match format.pieces(&self.text).nth(1) {
            None => format.push(format.lanes()[lane], time, &self.text, true, &mut self.out),
            Some(_) => {
                let mut all = records(format, lane, time, &self.text).into_iter();
                all.next()
                    .into_iter()
                    .for_each(|first| self.out.extend_from_slice(&first));
                self.lanes[lane].pending.extend(all);
            }
        }
        if let Some(last) = self.generations.last_mut() {
            last.lines[lane].end = self.lanes[lane].next;
        }
    }

    /// Writes what was made, in parts that end anywhere.
    fn flush(&mut self) -> Result<()> {
        let (first, second) = self.out.split_at(self.chance.usize(..=self.out.len()));
        let path = &self.path;
        for part in [first, second] {
            let written = self.file.write_all(part);
            written.with_context(|| path.display().to_string())?;
        }
        if let Some(last) = self.generations.last_mut() {
            last.bytes += self.out.len() as u64;
        }
        self.out.clear();
        Ok(())
    }

    fn look_at_clock(&mut self) {
        let now = Instant::now();
        let ns = std::time::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_nanos());
        self.time = (ns as u64, time_text(ns as u64));
        self.moments.push_back((now, self.open_lines()));
        while self.moments.len() > 1 && now.duration_since(self.moments[1].0) > FRESH {
            self.moments.pop_front();
        }
    }

    /// Lines of the last [`FRESH`].
    fn fresh(&self, now: Instant) -> LaneRanges {
        let young = |(at, _): &&(Instant, [u32; 2])| now.duration_since(*at) <= FRESH;
        let written = self.written();
        let from = self.moments.iter().find(young);
        let from = from.map_or_else(|| self.open_lines(), |(_, from)| *from);
        [from[0]..written[0], from[1]..written[1]]
    }

    fn next_generation(&mut self) {
        let from = self.open_lines();
        let written = self.written();
        self.generations.push(LogGeneration {
            lines: [from[0]..written[0], from[1]..written[1]],
            ..LogGeneration::default()
        });
    }
}

/// Records of a line.
fn records(format: LogFormat, lane: usize, time: &str, text: &[u8]) -> Vec<Vec<u8>> {
    let mut pieces = format.pieces(text).peekable();
    let mut all = Vec::new();
    while let Some(piece) = pieces.next() {
        let mut record = Vec::with_capacity(piece.len() + 100);
        let last = pieces.peek().is_none();
        format.push(format.lanes()[lane], time, piece, last, &mut record);
        all.push(record);
    }
    all
}

fn open(path: &PathBuf, append: bool) -> Result<File> {
    let mut options = OpenOptions::new();
    match append {
        true => options.append(true),
        false => options.write(true),
    };
    let opened = options.create(true).open(path);
    opened.with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SHAPE: LineShape = LineShape {
        bytes: 200,
        long_every: 5,
        long_bytes_max: 50_000,
    };

    fn log(dir: &tempfile::TempDir, format: LogFormat, append: bool) -> NumberedLog {
        let settings = LogSettings {
            format,
            shape: SHAPE,
            append,
        };
        NumberedLog::create(3, dir.path().join("0.log"), settings).unwrap()
    }

    fn read(log: &NumberedLog) -> String {
        String::from_utf8(std::fs::read(log.path()).unwrap()).unwrap()
    }

    #[test]
    fn pieces_of_the_lanes_interleave_and_each_lane_is_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(&dir, LogFormat::Cri, true);
        log.write(200).unwrap();
        log.finish().unwrap();
        let text = read(&log);
        let tags: Vec<(&str, &str)> = text
            .lines()
            .map(|line| (&line[31..37], &line[38..39]))
            .collect();
        let mixed = |pair: &[(&str, &str)]| pair[0].1 == "P" && pair[1].0 != pair[0].0;
        assert!(tags.windows(2).any(mixed));
        assert_eq!(log.written().iter().sum::<u32>(), 200);
        assert_eq!(log.bytes(), text.len() as u64);
        for (lane, name) in ["stdout", "stderr"].into_iter().enumerate() {
            let of_lane = text.lines().filter(|line| &line[31..37] == name);
            let joined: String = of_lane.map(|line| &line[40..]).collect();
            let found: Vec<u32> = joined
                .split("rot=")
                .skip(1)
                .map(|line| line[6..16].parse().unwrap())
                .collect();
            let all: Vec<u32> = (0..log.written()[lane]).collect();
            assert_eq!(found, all);
        }
    }

    #[test]
    fn bytes_of_lines_are_those_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        for format in [LogFormat::Cri, LogFormat::Docker, LogFormat::Lines] {
            let mut log = log(&dir, format, true);
            std::fs::write(log.path(), "").unwrap();
            log.write(50).unwrap();
            log.finish().unwrap();
            let written = log.written();
            let of = |lane: usize| {
                (0..written[lane])
                    .map(|n| log.bytes_of(lane, n))
                    .sum::<u64>()
            };
            let sum = of(0) + if written[1] > 0 { of(1) } else { 0 };
            assert_eq!(sum, log.bytes(), "{format:?}");
        }
    }

    #[test]
    fn a_cut_line_ends_in_the_next_generation_and_counts_in_both() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(&dir, LogFormat::Cri, true);
        log.write(20).unwrap();
        log.cut().unwrap();
        let first = read(&log);
        assert_eq!(&first.lines().next_back().unwrap()[38..39], "P");
        std::fs::rename(log.path(), dir.path().join("0.log.1")).unwrap();
        log.reopen().unwrap();
        log.write(10).unwrap();
        log.finish().unwrap();
        let [old, new] = log.generations() else {
            panic!("two generations")
        };
        let both = (0..2).filter(|lane| old.lines[*lane].end == new.lines[*lane].start + 1);
        assert!(both.count() >= 1, "{old:?} {new:?}");
        assert_eq!(
            (first.len() as u64, read(&log).len() as u64),
            (old.bytes, new.bytes)
        );
    }

    #[test]
    fn a_writer_that_does_not_append_leaves_a_hole_after_a_truncation() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(&dir, LogFormat::Cri, false);
        log.write(10).unwrap();
        let at = log.bytes() as usize;
        log.truncate(Instant::now(), false).unwrap();
        log.write(1).unwrap();
        let bytes = std::fs::read(log.path()).unwrap();
        assert!(bytes.len() > at && bytes[..at].iter().all(|byte| *byte == 0));
        assert!(log.generations()[0].gone.is_some());
        assert_eq!(
            log.generations()[0].fresh[0],
            0..log.generations()[0].lines[0].end
        );
        log.truncate(Instant::now(), true).unwrap();
        log.write(1).unwrap();
        assert_ne!(std::fs::read(log.path()).unwrap()[0], 0);
    }

    #[test]
    fn lines_behind_the_copy_are_those_of_the_window() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(&dir, LogFormat::Cri, true);
        log.write(10).unwrap();
        let from = log.open_lines();
        log.write(10).unwrap();
        log.lose_from(from);
        let window = &log.generations()[0].window;
        let lost: usize = window.iter().map(std::ops::Range::len).sum();
        assert!((10..=12).contains(&lost), "{window:?}");
    }
}
