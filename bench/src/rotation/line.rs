//! Lines that can be told from all others, and of which a missing, doubled or moved part is seen.
//!
//! `rot=WRITER-NUMBER-LENGTH sent=NANOSECONDS FILLER$`: LENGTH counts the whole line. The filler is
//! a part of one text whose every block of eight bytes is different, so that two pieces of a long
//! line that changed places differ from what was written. It holds quotes, backslashes, tabs and
//! what JSON encoders escape.

use std::sync::LazyLock;

/// Begin of every line.
const MARK: &[u8] = b"rot=";

/// Bytes before the filler.
pub(crate) const HEAD_BYTES: usize = 4 + 5 + 1 + 10 + 1 + 7 + 6 + 19 + 1;

/// Length of a line at most, in bytes.
pub(crate) const LINE_BYTES_MAX: usize = 256 << 10;

/// Places at which the filler of a line may begin.
const SHIFTS: usize = 4096;

/// Shortest long line, in bytes: two pieces.
const LONG_BYTES_MIN: usize = 20_000;

/// End of every line, so that no collector that trims white space cuts it.
const END: u8 = b'$';

/// Text that all fillers are parts of.
static FILLER: LazyLock<Vec<u8>> = LazyLock::new(filler);

fn filler() -> Vec<u8> {
    const MARKS: [&str; 6] = ["\".", "\\.", "\t.", "<.", "&.", "'."];
    let block = |index: usize| {
        let mark = match index % 16 {
            0 => MARKS[(index / 16) % MARKS.len()],
            _ => "..",
        };
        format!("{index:06x}{mark}")
    };
    let blocks = (SHIFTS + LINE_BYTES_MAX) / 8 + 1;
    (0..blocks).map(block).collect::<String>().into_bytes()
}

/// Identity of a line: its writer, and its place among that writer's lines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LineNumber {
    pub(crate) writer: u32,
    pub(crate) number: u32,
}

/// Lengths of the lines of all writers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineShape {
    /// Length of an ordinary line, in bytes.
    pub(crate) bytes: usize,
    /// One line of so many is long; 0 is none.
    pub(crate) long_every: u32,
    /// Length of a long line at most, in bytes.
    pub(crate) long_bytes_max: usize,
}

/// A line as it arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ArrivedLine {
    pub(crate) line: LineNumber,
    /// Time of its writing, nanoseconds since 1970.
    pub(crate) sent_ns: u64,
    /// False if a part of it is missing, doubled or moved.
    pub(crate) whole: bool,
    /// True if bytes of 0 stood before it, as a hole of a file reads.
    pub(crate) after_hole: bool,
}

impl LineShape {
    /// Length of a line, which its identity decides.
    pub(crate) fn length(&self, line: LineNumber) -> usize {
        let long = self.long_every > 0 && line.number % self.long_every == self.long_every - 1;
        let bytes = match long {
            true => {
                let span = self.long_bytes_max.saturating_sub(LONG_BYTES_MIN).max(1);
                LONG_BYTES_MIN + (mixed(line) as usize) % span
            }
            false => self.bytes,
        };
        bytes.clamp(HEAD_BYTES + 1, LINE_BYTES_MAX)
    }
}

/// Appends a line of `length` bytes, without its end of line.
pub(crate) fn push_line(line: LineNumber, length: usize, sent_ns: u64, out: &mut Vec<u8>) {
    use std::io::Write;
    let LineNumber { writer, number } = line;
    // Writing to a vector cannot fail.
    let _ = write!(
        out,
        "rot={writer:05}-{number:010}-{length:07} sent={sent_ns:019} "
    );
    out.extend_from_slice(filling(line, length));
    out.push(END);
}

/// Reads an event; `None`: it is none of ours.
pub(crate) fn read_line(event: &[u8]) -> Option<ArrivedLine> {
    let hole = event.iter().take_while(|byte| **byte == 0).count();
    let event = &event[hole..];
    let head = event.get(..HEAD_BYTES)?.strip_prefix(MARK)?;
    let head = std::str::from_utf8(head).ok()?;
    let (numbers, sent) = head.trim_end().split_once(" sent=")?;
    let mut numbers = numbers.split('-');
    let mut next = || numbers.next()?.parse::<u32>().ok();
    let line = LineNumber {
        writer: next()?,
        number: next()?,
    };
    let length = next()? as usize;
    let (end, filler) = event[HEAD_BYTES..].split_last()?;
    let whole = event.len() == length
        && length <= LINE_BYTES_MAX
        && *end == END
        && filler == filling(line, length);
    Some(ArrivedLine {
        line,
        sent_ns: sent.parse().ok()?,
        whole,
        after_hole: hole > 0,
    })
}

/// The filler of a line.
fn filling(line: LineNumber, length: usize) -> &'static [u8] {
    let from = mixed(line) as usize % SHIFTS;
    &FILLER[from..from + length - HEAD_BYTES - 1]
}

/// A number that looks like chance and is not.
fn mixed(line: LineNumber) -> u32 {
    let both = line.number ^ line.writer.rotate_left(20);
    both.wrapping_mul(0x9e37_79b1) >> 8
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const LINE: LineNumber = LineNumber {
        writer: 12,
        number: 345,
    };

    fn written(length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_line(LINE, length, 77, &mut bytes);
        bytes
    }

    #[test]
    fn a_line_comes_back_as_it_was_written() {
        for length in [HEAD_BYTES + 1, 1024, 60_000, LINE_BYTES_MAX] {
            let bytes = written(length);
            assert_eq!(bytes.len(), length);
            let read = read_line(&bytes).unwrap();
            assert_eq!((read.line, read.sent_ns, read.whole), (LINE, 77, true));
        }
    }

    #[test]
    fn a_part_that_is_missing_doubled_or_moved_is_seen() {
        let bytes = written(40_000);
        let (a, b, c) = (&bytes[..16_384], &bytes[16_384..32_768], &bytes[32_768..]);
        let whole = |parts: &[&[u8]]| read_line(&parts.concat()).unwrap().whole;
        assert!(whole(&[a, b, c]));
        assert!(!whole(&[a, c]) && !whole(&[a, b]) && !whole(&[a]));
        assert!(!whole(&[a, b, b, c]) && !whole(&[a, c, b]));
        let (b1, b2) = b.split_at(8_000);
        assert!(whole(&[a, b1, b2, c]) && !whole(&[a, b2, b1, c]));
        assert_eq!(read_line(&[b, c].concat()), None);
    }

    #[test]
    fn what_is_no_line_is_none_and_a_hole_before_one_is_seen() {
        assert_eq!(read_line(b"hello"), None);
        assert_eq!(read_line(b"rot=x"), None);
        let holed = [&[0; 9][..], &written(100)].concat();
        let read = read_line(&holed).unwrap();
        assert!(read.whole && read.after_hole);
    }

    #[test]
    fn one_line_of_so_many_is_long() {
        let shape = LineShape {
            bytes: 1024,
            long_every: 10,
            long_bytes_max: 60_000,
        };
        let lengths = (0..100).map(|number| shape.length(LineNumber { number, ..LINE }));
        let (long, short): (Vec<_>, Vec<_>) = lengths.partition(|length| *length > 1024);
        assert_eq!((long.len(), short.len()), (10, 90));
        let range = LONG_BYTES_MIN..60_000;
        assert!(long.iter().all(|length| range.contains(length)), "{long:?}");
    }
}
