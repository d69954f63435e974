//! One line of a CRI log, as the kubelet's own reader takes it apart.

use inrush_event::{Span, Timestamp};

use super::text::{LogStream, PieceText};
use crate::rfc3339::zoned_time;

/// One line of a CRI log. Spans count in the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CriLine {
    /// Time of the line; [`Timestamp::NONE`] if it is no date or out of range (1677 to 2262).
    pub time: Timestamp,
    /// Minutes east of UTC of the offset that the time was written with.
    pub zone_minutes: i16,
    /// Stream that the container wrote to.
    pub stream: LogStream,
    /// True if the text goes on in the next line of the same stream (tag `P`).
    pub partial: bool,
    /// The text, of any bytes, without the line end; may be empty, may end in CR.
    pub text: Span,
}

impl CriLine {
    /// The text, in the line that was given.
    pub fn text(self, line: &[u8]) -> PieceText<'_> {
        PieceText::Raw(self.text.of(line))
    }
}

/// Reason why a line is none of a CRI log: the first field that is not what it must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum CriFault {
    /// It does not begin with a time of RFC 3339 and a space.
    Time,
    /// The second word is neither `stdout` nor `stderr`.
    Stream,
    /// The third word does not begin with the tag `P` or `F`.
    Tag,
}

impl CriFault {
    /// A word for counters and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Stream => "stream",
            Self::Tag => "tag",
        }
    }
}

/// Takes a line of a CRI log apart, which must have no LF at its end.
///
/// The text is never looked at, so the cost does not grow with it. A line that ends behind its
/// tag, without the space, has an empty text.
///
/// # Errors
/// The first field that is not what it must be.
#[inline]
pub fn parse_cri(line: &[u8]) -> Result<CriLine, CriFault> {
    let time = zoned_time(line).ok_or(CriFault::Time)?;
    let Some([b' ', words @ ..]) = line.get(time.end..) else {
        return Err(CriFault::Time);
    };
    let (stream, words) = match words {
        [b's', b't', b'd', b'o', b'u', b't', b' ', rest @ ..] => (LogStream::Stdout, rest),
        [b's', b't', b'd', b'e', b'r', b'r', b' ', rest @ ..] => (LogStream::Stderr, rest),
        _ => return Err(CriFault::Stream),
    };
    let (tag, rest) = words.split_first().ok_or(CriFault::Tag)?;
    let partial = match tag {
        b'P' => true,
        b'F' => false,
        _ => return Err(CriFault::Tag),
    };
    let text = match rest {
        [b' ', text @ ..] => text,
        [] => rest,
        // Tags of other meanings may follow.
        [b':', tags @ ..] => {
            let space = memchr::memchr(b' ', tags).unwrap_or(tags.len());
            tags.get(space + 1..).unwrap_or_default()
        }
        _ => return Err(CriFault::Tag),
    };
    Ok(CriLine {
        time: time.time,
        zone_minutes: time.zone_minutes,
        stream,
        partial,
        text: Span::new(line.len() - text.len(), line.len()),
    })
}
