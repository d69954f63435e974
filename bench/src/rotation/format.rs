//! Forms in which runtimes write lines into files.
//!
//! Long lines are cut into pieces of [`PIECE_BYTES`] as containerd and docker do. A piece of CRI
//! has the tag `P`, the last one `F`; a piece of docker has no `\n`, the last one has. All pieces
//! of a line of docker have the same time, those of CRI have it here too.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Bytes of a piece of a long line.
pub(crate) const PIECE_BYTES: usize = 16_384;

/// Form of a file's lines.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// As they are.
    Lines,
    /// docker's json-file.
    Docker,
    /// CRI, as containerd writes it.
    #[default]
    Cri,
}

/// One of the two streams of a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogLane {
    Stdout,
    Stderr,
}

impl LogLane {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// Its name in files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

impl LogFormat {
    /// Value of the option `format` of a file source.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Docker => "docker",
            Self::Cri => "cri",
        }
    }

    /// Streams of a file.
    pub(crate) fn lanes(self) -> &'static [LogLane] {
        match self {
            Self::Lines => &LogLane::ALL[..1],
            Self::Docker | Self::Cri => &LogLane::ALL,
        }
    }

    /// Parts of a line that become records of their own.
    pub(crate) fn pieces(self, text: &[u8]) -> impl Iterator<Item = &[u8]> {
        let bytes = match self {
            Self::Lines => text.len().max(1),
            Self::Docker | Self::Cri => PIECE_BYTES,
        };
        text.chunks(bytes)
    }

    /// Appends a record, its LF included; `last`: no further piece of the line follows.
    pub(crate) fn push(
        self,
        lane: LogLane,
        time: &str,
        piece: &[u8],
        last: bool,
        out: &mut Vec<u8>,
    ) {
        let stream = lane.name();
        match self {
            Self::Lines => out.extend_from_slice(piece),
            Self::Cri => {
                let tag = if last { "F" } else { "P" };
                out.extend_from_slice(format!("{time} {stream} {tag} ").as_bytes());
                out.extend_from_slice(piece);
            }
            Self::Docker => {
                out.extend_from_slice(b"{\"log\":\"");
                push_escaped(piece, out);
                let end = if last { "\\n" } else { "" };
                out.extend_from_slice(
                    format!("{end}\",\"stream\":\"{stream}\",\"time\":\"{time}\"}}").as_bytes(),
                );
            }
        }
        out.push(b'\n');
    }
}

/// A time as both write it, of nine decimals of which the last is never 0: none is cut.
pub(crate) fn time_text(ns: u64) -> String {
    let ns = if ns.is_multiple_of(10) { ns + 1 } else { ns };
    let time = jiff::Timestamp::from_nanosecond(i128::from(ns)).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S.%9fZ").to_string()
}

/// Escapes as docker's daemon does; our lines are ASCII.
fn push_escaped(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'<' | b'>' | b'&' | 0..0x20 => {
                out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
            }
            _ => out.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn records(format: LogFormat, text: &[u8]) -> Vec<String> {
        let pieces: Vec<&[u8]> = format.pieces(text).collect();
        let record = |(at, piece): (usize, &&[u8])| {
            let mut out = Vec::new();
            let last = at + 1 == pieces.len();
            format.push(
                LogLane::Stderr,
                &time_text(1_000_000_000),
                piece,
                last,
                &mut out,
            );
            String::from_utf8(out).unwrap()
        };
        pieces.iter().enumerate().map(record).collect()
    }

    #[test]
    fn pieces_are_cut_and_tagged_as_containerd_does() {
        let text = vec![b'x'; 2 * PIECE_BYTES];
        let found = records(LogFormat::Cri, &text);
        let heads: Vec<&str> = found.iter().map(|record| &record[..39]).collect();
        let head = |tag| format!("1970-01-01T00:00:01.000000001Z stderr {tag}");
        assert_eq!(heads, [head("P"), head("F")]);
        assert!(
            found
                .iter()
                .all(|record| record.len() == 40 + PIECE_BYTES + 1)
        );
        assert!(records(LogFormat::Cri, b"ab")[0].ends_with("stderr F ab\n"));
    }

    #[test]
    fn docker_escapes_and_ends_the_last_piece_alone() {
        let found = records(LogFormat::Docker, b"a\"\\\t<&\x01b");
        let expected = "{\"log\":\"a\\\"\\\\\\t\\u003c\\u0026\\u0001b\\n\",\"stream\":\"stderr\",\
                        \"time\":\"1970-01-01T00:00:01.000000001Z\"}\n";
        assert_eq!(found, [expected]);
        let found = records(LogFormat::Docker, &vec![b'x'; PIECE_BYTES + 1]);
        assert!(found[0].contains("x\",\"stream\"") && found[1].contains("x\\n\",\"stream\""));
    }

    #[test]
    fn plain_lines_are_never_cut() {
        let text = vec![b'x'; 100_000];
        let found = records(LogFormat::Lines, &text);
        assert_eq!((found.len(), found[0].len()), (1, 100_001));
    }
}
