//! Bare tail: reads files, finds lines, escapes them, and posts them as events of HEC.
//!
//! The least that a collector of files can do: no checkpoint, no field, one connection, bodies of a
//! megabyte.
//!
//! # What it guarantees
//! * Pieces of a long line are joined for each stream, across files of one name.
//! * A file that was renamed is read to its end, which is believed once the name leads to another
//!   file that has data. Files of one name are read one after the other.
//!
//! # Limits
//! Lines are believed to be of the form that was said, and `*` stands once in a step of a name. An
//! empty new file is not opened: one that is renamed before it has data is never seen.
//!
//! # After a crash
//! Everything is read again.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use memchr::{memchr, memchr_iter};

use super::{LoopCounters, answer, say};
use crate::child::wait;

/// Bytes that are read in one call.
const READ_BYTES: usize = 1 << 20;

/// Size from which on a body is sent.
const BODY_BYTES: usize = 1 << 20;

/// Interval between two looks for new files.
const SCAN_EVERY: Duration = Duration::from_millis(100);

/// Pause while no file has anything new.
const IDLE: Duration = Duration::from_millis(5);

/// Bytes before the text of a CRI line: tag and the spaces around it.
const TAG_BYTES: usize = 3;

/// Form of the files' lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TailFormat {
    Lines,
    Docker,
    Cri,
}

/// Options of the bare tail.
#[derive(Args, Debug)]
pub struct BareTail {
    /// Names of the files; `*` stands for a part of a name
    include: PathBuf,
    /// The collector that events are posted to
    #[arg(long, value_name = "ADDRESS")]
    to: SocketAddr,
    /// Form of the lines
    #[arg(long, default_value = "cri")]
    format: TailFormat,
}

/// Runs until stdin ends.
pub fn run(args: &BareTail) -> Result<()> {
    let tally = Arc::new(LoopCounters::default());
    say("ready 0")?;
    let mut tail = TailLoop::new(args)?;
    answer(&tally, move |tally| tail.run(tally))
}

/// A file that is read.
struct TailedFile {
    path: PathBuf,
    file: File,
    inode: u64,
    at: u64,
    /// The begin of a line whose end has not yet come.
    rest: Vec<u8>,
}

/// Pieces of the open line of each stream of a name: they outlive the file.
type OpenLines = [Vec<u8>; 2];

struct TailLoop {
    include: PathBuf,
    format: TailFormat,
    stream: TcpStream,
    files: Vec<TailedFile>,
    open: HashMap<PathBuf, OpenLines>,
    body: Vec<u8>,
    events: u64,
    scanned: Option<Instant>,
}

impl TailLoop {
    fn new(args: &BareTail) -> Result<Self> {
        let stream = TcpStream::connect(args.to).with_context(|| args.to.to_string())?;
        stream.set_nodelay(true)?;
        Ok(Self {
            include: args.include.clone(),
            format: args.format,
            stream,
            files: Vec::new(),
            open: HashMap::new(),
            body: Vec::new(),
            events: 0,
            scanned: None,
        })
    }

    fn run(&mut self, tally: &LoopCounters) -> Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            if self.scanned.is_none_or(|at| at.elapsed() > SCAN_EVERY) {
                self.scan()?;
            }
            let mut read = 0;
            for index in 0..self.files.len() {
                read += self.read(index, &mut buffer)?;
                if self.body.len() >= BODY_BYTES {
                    self.post(tally)?;
                }
            }
            if read == 0 {
                self.post(tally)?;
                wait(IDLE);
            }
        }
    }

    /// Opens what is new, and lets go of what was renamed and is read to its end.
    fn scan(&mut self) -> Result<()> {
        let mut found = Vec::new();
        matching(Path::new("/"), &segments(&self.include), &mut found);
        for path in found {
            // A name may have gone since it was listed.
            let Ok(file) = File::open(&path) else {
                continue;
            };
            let meta = file.metadata()?;
            let newest = self.files.iter().rposition(|one| one.path == path);
            match newest.map(|at| &mut self.files[at]) {
                Some(known) if known.inode == meta.ino() => {
                    if meta.len() < known.at {
                        known.at = 0;
                        known.rest.clear();
                    }
                }
                _ if newest.is_some() && meta.len() == 0 => {}
                _ => self.files.push(TailedFile {
                    path,
                    file,
                    inode: meta.ino(),
                    at: 0,
                    rest: Vec::new(),
                }),
            }
        }
        self.drop_ended()?;
        self.scanned = Some(Instant::now());
        Ok(())
    }

    /// A file ends where a newer one of its name is known and nothing is left to read.
    fn drop_ended(&mut self) -> Result<()> {
        let mut index = 0;
        while index < self.files.len() {
            let one = &self.files[index];
            let newer = self.files[index + 1..]
                .iter()
                .any(|other| other.path == one.path);
            match newer && one.file.metadata()?.len() <= one.at {
                true => drop(self.files.remove(index)),
                false => index += 1,
            }
        }
        Ok(())
    }

    /// Reads a part of a file; the bytes of it. Files of one name are read one after the other.
    fn read(&mut self, index: usize, buffer: &mut [u8]) -> Result<usize> {
        let path = &self.files[index].path;
        if self.files[..index].iter().any(|one| one.path == *path) {
            return Ok(0);
        }
        let one = &mut self.files[index];
        let read = one.file.read_at(buffer, one.at)?;
        one.at += read as u64;
        let bytes = &buffer[..read];
        let open = self.open.entry(one.path.clone()).or_default();
        let mut from = 0;
        for end in memchr_iter(b'\n', bytes) {
            let line = match one.rest.is_empty() {
                true => &bytes[from..end],
                false => {
                    one.rest.extend_from_slice(&bytes[from..end]);
                    &one.rest
                }
            };
            self.events += u64::from(push(self.format, line, open, &mut self.body));
            one.rest.clear();
            from = end + 1;
        }
        one.rest.extend_from_slice(&bytes[from..]);
        Ok(read)
    }

    fn post(&mut self, tally: &LoopCounters) -> Result<()> {
        if self.body.is_empty() {
            return Ok(());
        }
        let length = self.body.len();
        let head = format!(
            "POST /services/collector/event HTTP/1.1\r\nHost: sink\r\n\
             Authorization: Splunk t\r\nContent-Length: {length}\r\n\r\n"
        );
        self.stream.write_all(head.as_bytes())?;
        self.stream.write_all(&self.body)?;
        let mut reply = [0; 1024];
        let read = self.stream.read(&mut reply)?;
        ensure!(reply[..read].starts_with(b"HTTP/1.1 200"), "refused");
        tally.add(self.events, length as u64);
        self.events = 0;
        self.body.clear();
        Ok(())
    }
}

/// Appends the event that a line completes; false if more pieces are to come, or it is no line.
fn push(format: TailFormat, line: &[u8], open: &mut OpenLines, body: &mut Vec<u8>) -> bool {
    let (lane, last, text, escaped) = match format {
        TailFormat::Lines => (0, true, Some(line), false),
        TailFormat::Cri => {
            // The time has as many digits as it needs; the stream's names are equally long.
            let stream = memchr(b' ', line).unwrap_or(line.len());
            let tag = stream + " stdout ".len();
            let lane = usize::from(line.get(stream + 4) == Some(&b'e'));
            let last = line.get(tag) == Some(&b'F');
            (lane, last, line.get(tag + TAG_BYTES - 1..), false)
        }
        TailFormat::Docker => {
            let text = line.strip_prefix(b"{\"log\":\"").unwrap_or_default();
            let end = memchr::memmem::rfind(text, b"\",\"stream\":\"").unwrap_or(text.len());
            let lane = usize::from(text[end..].starts_with(b"\",\"stream\":\"stderr"));
            let text = &text[..end];
            let ended = text.strip_suffix(b"\\n");
            (lane, ended.is_some(), Some(ended.unwrap_or(text)), true)
        }
    };
    let Some(text) = text else { return false };
    let open = &mut open[lane];
    if !last {
        write_text(text, escaped, open);
        return false;
    }
    body.extend_from_slice(b"{\"event\":\"");
    body.append(open);
    write_text(text, escaped, body);
    body.extend_from_slice(b"\"}");
    true
}

/// Appends text as JSON has it; docker's is already escaped.
fn write_text(text: &[u8], escaped: bool, out: &mut Vec<u8>) {
    if escaped {
        out.extend_from_slice(text);
        return;
    }
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    let mut rest = text;
    while let Some(at) = rest.iter().position(special) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            byte => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Names of the steps of a path below the root.
fn segments(path: &Path) -> Vec<String> {
    let text = path.to_string_lossy();
    text.split('/')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Files below `folder` whose steps match.
fn matching(folder: &Path, steps: &[String], found: &mut Vec<PathBuf>) {
    let Some((step, rest)) = steps.split_first() else {
        return;
    };
    let mut go = |path: PathBuf| match rest.is_empty() {
        true => found.push(path),
        false => matching(&path, rest, found),
    };
    let Some((before, after)) = step.split_once('*') else {
        go(folder.join(step));
        return;
    };
    // A folder may have gone, or may be a file.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let long = name.len() >= before.len() + after.len();
        if long && name.starts_with(before) && name.ends_with(after) {
            go(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn pushed(format: TailFormat, lines: &[&str]) -> String {
        let (mut open, mut body) = (OpenLines::default(), Vec::new());
        for line in lines {
            push(format, line.as_bytes(), &mut open, &mut body);
        }
        String::from_utf8(body).unwrap()
    }

    #[test]
    fn pieces_are_joined_for_each_stream() {
        let found = pushed(
            TailFormat::Cri,
            &[
                "2026-01-02T03:04:05.1Z stdout P a",
                "2026-01-02T03:04:05.12Z stderr F x\"y",
                "2026-01-02T03:04:05.123Z stdout F b",
                "2026-01-02T03:04:05.1Z stderr F ",
            ],
        );
        let expected = "{\"event\":\"x\\\"y\"}{\"event\":\"ab\"}{\"event\":\"\"}";
        assert_eq!(found, expected);
        let found = pushed(
            TailFormat::Docker,
            &[
                r#"{"log":"a\"","stream":"stdout","time":"t"}"#,
                r#"{"log":"x\n","stream":"stderr","time":"t"}"#,
                r#"{"log":"b\n","stream":"stdout","time":"t"}"#,
            ],
        );
        assert_eq!(found, "{\"event\":\"x\"}{\"event\":\"a\\\"b\"}");
        assert_eq!(
            pushed(TailFormat::Lines, &["a\tb"]),
            "{\"event\":\"a\\u0009b\"}"
        );
    }

    #[test]
    fn names_are_matched_step_by_step() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a/x.log", "a/x.log.1", "b/y.log", "c/y.txt"] {
            let file = dir.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let mut found = Vec::new();
        matching(
            Path::new("/"),
            &segments(&dir.path().join("*/*.log")),
            &mut found,
        );
        found.sort();
        assert_eq!(
            found,
            ["a/x.log", "b/y.log"].map(|name| dir.path().join(name))
        );
    }
}
