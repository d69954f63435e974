//! Lines of containers: numbered, of 1 byte to 200 kB, on both streams, and what has arrived.
//!
//! Line `number` of container `writer` goes to standard error if the number is odd. Its length
//! follows from its number, so that a line that was cut, joined with another one or changed is
//! recognised. Lines of one byte have no number: they are counted.

use std::collections::HashMap;

use inrush_tests::Inrush;
use jiff::Timestamp;
use serde_json::Value;

use crate::arrivals::{EventFile, is_once, received};

/// Bytes of a line. The same as in [`SCRIPT`].
fn length(number: usize) -> usize {
    match number % 101 {
        7 => 200_000,
        33 => 40_000,
        50 => 16_383,
        51 => 16_384,
        52 => 16_385,
        _ if number % 10 == 9 || number % 10 == 2 => 1,
        _ => 30 + number * 37 % 600,
    }
}

/// Names of the streams, by the parity of a line's number.
const STREAMS: [&str; 2] = ["stdout", "stderr"];

/// Program of awk that writes the lines, with `w` (writer), `n` (lines) and `rest` (microseconds
/// after each 20 lines; it needs a shell).
pub(crate) const SCRIPT: &str = r#"BEGIN {
  x = "x"; while (length(x) < 200000) x = x x
  for (i = 0; i < n; i++) {
    m = i % 101
    l = 30 + i * 37 % 600
    if (i % 10 == 9 || i % 10 == 2) l = 1
    if (m == 7) l = 200000
    if (m == 33) l = 40000
    if (m == 50) l = 16383
    if (m == 51) l = 16384
    if (m == 52) l = 16385
    s = i % 2 ? "stderr" : "stdout"
    h = sprintf("w%02d %s %07d ", w, s, i)
    t = l == 1 ? (i % 2 ? "!" : ".") : h substr(x, 1, l - length(h))
    if (i % 2) print t > "/dev/stderr"; else print t
    if (rest && i % 20 == 0) system("/busybox usleep " rest)
  }
}"#;

/// Text of a line.
fn text(writer: usize, number: usize) -> String {
    let stream = STREAMS[number % 2];
    let length = length(number);
    if length == 1 {
        return ["", ".", "!"][1 + number % 2].to_owned();
    }
    let head = format!("w{writer:02} {stream} {number:07} ");
    let rest = "x".repeat(length - head.len());
    head + &rest
}

/// Account of the lines of some containers, of which each has written `lines`.
pub(crate) struct StreamAccount {
    file: EventFile,
    writers: usize,
    lines: usize,
    /// Number of times that each numbered line came, and when it was accepted.
    seen: HashMap<(usize, usize), Vec<Timestamp>>,
    /// Times at which the process was killed.
    kills: Vec<Timestamp>,
    /// Lines of one byte, by stream.
    short: [usize; 2],
    /// Texts that are no line, or came from the other stream.
    wrong: Vec<String>,
}

/// Writer and number of a line.
fn parse(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split(' ');
    let writer = words.next()?.strip_prefix('w')?.parse().ok()?;
    let number = words.nth(1)?.parse().ok()?;
    Some((writer, number))
}

impl StreamAccount {
    /// Nothing was read yet.
    pub(crate) fn of(inrush: &Inrush, writers: usize, lines: usize) -> Self {
        Self {
            file: EventFile::of(inrush),
            writers,
            lines,
            seen: HashMap::new(),
            kills: Vec::new(),
            short: [0; 2],
            wrong: Vec::new(),
        }
    }

    /// Reads what was added; `look` sees each event too. Returns the number of events.
    pub(crate) fn read_on(&mut self, mut look: impl FnMut(&Value)) -> usize {
        let (seen, short, wrong) = (&mut self.seen, &mut self.short, &mut self.wrong);
        self.file.read_on(|event| {
            look(event);
            if event["fields"]["k8s.container.name"] == "short" {
                return;
            }
            let line = event["message"].as_str().unwrap();
            let stream = event["fields"]["log.iostream"].as_str().unwrap_or("none");
            let parity = STREAMS.iter().position(|name| *name == stream);
            match (line, parity) {
                (".", Some(0)) | ("!", Some(1)) => short[parity.unwrap()] += 1,
                _ => match parse(line) {
                    Some((writer, number))
                        if line == text(writer, number) && stream == STREAMS[number % 2] =>
                    {
                        let received = received(event);
                        let times = seen.entry((writer, number)).or_default();
                        if !times.contains(&received) {
                            times.push(received);
                        }
                    }
                    _ => {
                        let few: String = line.chars().take(60).collect();
                        wrong.push(format!("{stream}, {} bytes: {few}", line.len()));
                    }
                },
            }
        })
    }

    fn numbered(&self) -> impl Iterator<Item = (usize, usize)> {
        let lines = self.lines;
        (0..self.writers)
            .flat_map(move |writer| (0..lines).map(move |number| (writer, number)))
            .filter(|(_, number)| length(*number) > 1)
    }

    /// Lines of one byte that were written, by stream.
    fn short_written(&self) -> [usize; 2] {
        let of = |parity: usize| {
            let own = (0..self.lines).filter(|number| number % 2 == parity);
            self.writers * own.filter(|number| length(*number) == 1).count()
        };
        [of(0), of(1)]
    }

    /// Numbered lines that have come.
    pub(crate) fn numbered_seen(&self) -> usize {
        self.seen.len()
    }

    /// True once as many lines have come as were written.
    pub(crate) fn is_complete(&self) -> bool {
        self.seen.len() >= self.numbered().count()
            && self
                .short
                .iter()
                .zip(self.short_written())
                .all(|(a, b)| *a >= b)
    }

    /// The process was killed then.
    pub(crate) fn note_kill(&mut self, at: Timestamp) {
        self.kills.push(at);
    }

    /// Faults in words; empty if every line came once, whole and from its stream.
    pub(crate) fn faults(&self) -> String {
        let mut faults = Vec::new();
        let lost: Vec<_> = self
            .numbered()
            .filter(|line| !self.seen.contains_key(line))
            .collect();
        if !lost.is_empty() {
            faults.push(format!(
                "lost {}: {:?}",
                lost.len(),
                &lost[..lost.len().min(8)]
            ));
        }
        let doubled: Vec<_> = (self.seen.iter())
            .filter(|(_, times)| !is_once(times, &self.kills))
            .map(|(line, _)| line)
            .collect();
        if !doubled.is_empty() {
            let few = &doubled[..doubled.len().min(8)];
            faults.push(format!("doubled {}: {few:?}", doubled.len()));
        }
        if !self.wrong.is_empty() {
            let few = &self.wrong[..self.wrong.len().min(8)];
            faults.push(format!("wrong {}: {few:?}", self.wrong.len()));
        }
        let short = self.short_written();
        if self.short.iter().zip(short).any(|(a, b)| *a < b)
            || (self.kills.is_empty() && self.short != short)
        {
            faults.push(format!("of one byte {:?} of {short:?}", self.short));
        }
        faults.join("; ")
    }
}
