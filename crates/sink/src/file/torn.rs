//! Last line of a file, which a crash has torn.
//!
//! A write that was torn was never settled, so its event is written again: the piece is cut off. It
//! is ours for certain only where it begins as our lines of JSON do; nothing else is cut.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::de::IgnoredAny;

/// Beginning of a line of JSON; `0` stands for any digit.
const BEGINNING: &[u8] = b"{\"time\":\"0000-00-00T00:00:00.000Z\",\"received\":\"";

/// Bytes of a last line that is looked at, at most; the longest event takes some 100 MB.
const LINE_BYTES_MAX: u64 = 128 << 20;

/// Bytes that are read at once.
const PIECE_BYTES: u64 = 64 << 10;

/// State of the end of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FileEnd {
    /// It ends with a whole line.
    Whole,
    /// A line of ours was torn: the file is to be cut to this length.
    TornAt(u64),
    /// The last line has no end, and may be another's, or whole.
    Unended,
}

impl FileEnd {
    /// The end of a file of so many bytes. `is_json`: our lines are JSON.
    pub(super) fn of(file: &File, len: u64, is_json: bool) -> io::Result<Self> {
        if len == 0 || byte_at(file, len - 1)? == b'\n' {
            return Ok(Self::Whole);
        }
        let start = line_start(file, len)?.filter(|_| is_json);
        let Some(start) = start else {
            return Ok(Self::Unended);
        };
        let is_ours = match len - start < BEGINNING.len() as u64 {
            false => begins_as_ours(file, start, len)?,
            // So few bytes say little: the line before must be ours too.
            true => begins_as_ours(file, start, len)? && follows_ours(file, start)?,
        };
        Ok(match is_ours && !is_object(file, start..len)? {
            true => Self::TornAt(start),
            false => Self::Unended,
        })
    }
}

fn byte_at(file: &File, at: u64) -> io::Result<u8> {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    Ok(byte[0])
}

/// Offset at which the line begins that ends before `end`; `None`: it is too long.
fn line_start(file: &File, end: u64) -> io::Result<Option<u64>> {
    let mut to = end;
    while to > 0 {
        let from = to.saturating_sub(PIECE_BYTES);
        let piece = bytes(file, from..to)?;
        if let Some(at) = piece.iter().rposition(|byte| *byte == b'\n') {
            return Ok(Some(from + at as u64 + 1));
        }
        to = from;
        if end - to > LINE_BYTES_MAX {
            return Ok(None);
        }
    }
    Ok(Some(0))
}

fn bytes(file: &File, range: std::ops::Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

/// True if the line between these offsets begins as ours do, as far as it goes.
fn begins_as_ours(file: &File, start: u64, end: u64) -> io::Result<bool> {
    let end = end.min(start + BEGINNING.len() as u64);
    let found = bytes(file, start..end)?;
    Ok(found.iter().zip(BEGINNING).all(|(byte, ours)| match ours {
        b'0' => byte.is_ascii_digit(),
        ours => byte == ours,
    }))
}

/// True if the line before this offset is ours.
fn follows_ours(file: &File, start: u64) -> io::Result<bool> {
    let Some(end) = start.checked_sub(1) else {
        return Ok(false);
    };
    let Some(before) = line_start(file, end)? else {
        return Ok(false);
    };
    Ok(end - before >= BEGINNING.len() as u64 && begins_as_ours(file, before, end)?)
}

/// True if the line is a whole object that lacks its line feed alone.
fn is_object(file: &File, line: std::ops::Range<u64>) -> io::Result<bool> {
    if byte_at(file, line.end - 1)? != b'}' {
        return Ok(false);
    }
    let text = bytes(file, line)?;
    Ok(serde_json::from_slice::<IgnoredAny>(&text).is_ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use super::*;

    const LINE: &str =
        "{\"time\":\"2026-11-28T09:00:00.123Z\",\"received\":\"2026\",\"raw\":\"a\"}";

    fn end_of(text: &str) -> FileEnd {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        FileEnd::of(&file, text.len() as u64, true).unwrap()
    }

    #[test]
    fn a_line_of_ours_is_cut_wherever_it_is_torn() {
        let before = format!("{LINE}\n{LINE}\n");
        for torn in 1..LINE.len() {
            let end = end_of(&format!("{before}{}", &LINE[..torn]));
            assert_eq!(end, FileEnd::TornAt(before.len() as u64), "{torn}");
        }
        let long = format!("{}{}", &LINE[..60], "x".repeat(3 * PIECE_BYTES as usize));
        assert_eq!(end_of(&long), FileEnd::TornAt(0));
        let behind = format!("a line of others\n{long}");
        assert_eq!(end_of(&behind), FileEnd::TornAt(17));
    }

    #[test]
    fn what_may_be_of_others_or_is_whole_is_not_cut() {
        assert_eq!(end_of(""), FileEnd::Whole);
        assert_eq!(end_of(&format!("{LINE}\n")), FileEnd::Whole);
        for text in [
            LINE.to_owned(),
            format!("{LINE}\n{LINE}"),
            format!("{LINE}\nnotes of an operator"),
            format!("{LINE}\n{{\"tim3\":\""),
            "{\"time\":\"20".to_owned(),
            "a line of others\n{\"time\":\"20".to_owned(),
            "{\"time\":\"2026-11-28 09:00:00.123Z\",\"received\":\"2026\",\"raw\":\"".to_owned(),
        ] {
            assert_eq!(end_of(&text), FileEnd::Unended, "{text}");
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&LINE.as_bytes()[..60]).unwrap();
        assert_eq!(FileEnd::of(&file, 60, false).unwrap(), FileEnd::Unended);
    }
}
