//! Frames: where each begins and ends, in place.

use std::ops::ControlFlow;

use inrush_event::Span;
use inrush_event::limits::OCTET_COUNT_MAX;

/// The largest transaction number; 1 follows it.
pub const TXNR_MAX: u32 = 999_999_999;

/// Digits of a transaction number or a length.
const DIGITS_MAX: usize = 9;

/// Letters of a command.
const COMMAND_BYTES_MAX: usize = 32;

/// Bytes of data that a command other than `syslog` may have: offers take some hundred.
const CONTROL_DATA_BYTES_MAX: usize = 4096;

/// Bytes beyond the longest message that are kept of a frame that is not complete: its header,
/// and the data of a command that is no message.
pub const FRAME_SLACK: usize = HEADER_BYTES_MAX + CONTROL_DATA_BYTES_MAX;

/// `999999999 COMMAND 999999999 `.
const HEADER_BYTES_MAX: usize = 2 * (DIGITS_MAX + 1) + COMMAND_BYTES_MAX + 1;

/// Reason why the bytes are no frame. The peer is at fault; the stream cannot be read on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// No number of 1 to 9 digits where the transaction number should be.
    Txnr,
    /// No command of 1 to 32 letters.
    Command,
    /// No number of 1 to 9 digits where the length should be.
    Length,
    /// A length that is not believed: more than 16 MiB of message, or 4 KiB of anything else.
    TooLong,
    /// No LF after the data.
    NoEnd,
}

/// Command of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelpCommand {
    /// A message.
    Syslog,
    /// The start of a session, with offers.
    Open,
    /// Its end.
    Close,
    /// An answer.
    Rsp,
    /// The receiver hints that it is about to go.
    ServerClose,
    /// Any other word.
    Unknown,
}

impl RelpCommand {
    fn named(word: &[u8]) -> Self {
        match word {
            b"syslog" => Self::Syslog,
            b"rsp" => Self::Rsp,
            b"open" => Self::Open,
            b"close" => Self::Close,
            b"serverclose" => Self::ServerClose,
            _ => Self::Unknown,
        }
    }
}

/// Item found by a [`RelpDecoder`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelpItem {
    /// A whole frame.
    Frame {
        /// 0 to [`TXNR_MAX`].
        txnr: u32,
        /// Its command.
        command: RelpCommand,
        /// Span of its data in the arena that was given.
        data: Span,
    },
    /// The start of a message that is longer than what is kept.
    Cut {
        /// Its transaction.
        txnr: u32,
        /// Span of the bytes that are kept.
        data: Span,
    },
    /// The end of that message.
    CutEnd {
        /// Its transaction.
        txnr: u32,
    },
}

/// The rest of a message that was cut.
#[derive(Clone, Copy, Debug)]
struct Skip {
    txnr: u32,
    /// Bytes of data still to come.
    left: usize,
}

/// Cuts the stream of one connection into frames.
#[derive(Debug)]
pub struct RelpDecoder {
    max_message_bytes: usize,
    skip: Option<Skip>,
    cut_bytes: u64,
    /// Offset in the arena of the last call at which the bytes began that are no frame.
    broken_at: usize,
}

impl RelpDecoder {
    /// A decoder for a new connection. Messages are cut at `max_message_bytes`.
    pub fn new(max_message_bytes: usize) -> Self {
        Self {
            max_message_bytes,
            skip: None,
            cut_bytes: 0,
            broken_at: 0,
        }
    }

    /// Takes frames out of `arena[start..]` until there is none that is complete or `emit` breaks
    /// off, and returns the offset from which bytes must be kept.
    ///
    /// The next call's `start` must point at these same bytes, at whatever offset of whatever
    /// arena, followed by newer ones.
    ///
    /// # Errors
    /// What comes next is no frame. The frames before it were emitted.
    pub fn decode(
        &mut self,
        arena: &[u8],
        start: usize,
        mut emit: impl FnMut(RelpItem) -> ControlFlow<()>,
    ) -> Result<usize, FrameError> {
        let mut at = start;
        loop {
            self.broken_at = at;
            let step = match self.skip {
                Some(skip) => self.skip(arena, at, skip)?,
                None => self.frame(arena, at)?,
            };
            let RelpStep::On(next, item) = step else {
                return Ok(step.keep());
            };
            at = next;
            if emit(item).is_break() {
                return Ok(at);
            }
        }
    }

    /// True if the stream may end here, given how many bytes were kept.
    pub fn is_between_frames(&self, kept_bytes: usize) -> bool {
        kept_bytes == 0 && self.skip.is_none()
    }

    /// After an error: where in `arena` the bytes begin that are no frame.
    pub fn broken_at(&self) -> usize {
        self.broken_at
    }

    /// Bytes cut off messages so far.
    pub fn cut_bytes(&self) -> u64 {
        self.cut_bytes
    }

    /// One frame, or the start of one that is cut.
    fn frame(&mut self, arena: &[u8], at: usize) -> Result<RelpStep, FrameError> {
        let Some(header) = read_header(&arena[at..])? else {
            return Ok(RelpStep::Wait(at));
        };
        let RelpHeader { txnr, command, .. } = header;
        let is_message = command == RelpCommand::Syslog;
        let most = if is_message {
            OCTET_COUNT_MAX
        } else {
            CONTROL_DATA_BYTES_MAX
        };
        if header.data_bytes > most {
            return Err(FrameError::TooLong);
        }
        let begin = at + header.bytes;
        if is_message && header.data_bytes > self.max_message_bytes {
            let end = begin + self.max_message_bytes;
            if arena.len() < end {
                return Ok(RelpStep::Wait(at));
            }
            let left = header.data_bytes - self.max_message_bytes;
            self.skip = Some(Skip { txnr, left });
            let data = Span::new(begin, end);
            return Ok(RelpStep::On(end, RelpItem::Cut { txnr, data }));
        }
        let end = begin + header.data_bytes;
        let data = Span::new(begin, end);
        match arena.get(end) {
            None => Ok(RelpStep::Wait(at)),
            Some(b'\n') => {
                let item = RelpItem::Frame {
                    txnr,
                    command,
                    data,
                };
                Ok(RelpStep::On(end + 1, item))
            }
            Some(_) => Err(FrameError::NoEnd),
        }
    }

    /// The rest of a message that was cut, as far as it is there.
    fn skip(&mut self, arena: &[u8], at: usize, skip: Skip) -> Result<RelpStep, FrameError> {
        let Skip { txnr, left } = skip;
        let skipped = left.min(arena.len() - at);
        self.cut_bytes += skipped as u64;
        let (left, at) = (left - skipped, at + skipped);
        self.broken_at = at;
        self.skip = Some(Skip { txnr, left });
        match arena.get(at) {
            None => Ok(RelpStep::Wait(at)),
            Some(b'\n') => {
                self.skip = None;
                Ok(RelpStep::On(at + 1, RelpItem::CutEnd { txnr }))
            }
            Some(_) => Err(FrameError::NoEnd),
        }
    }
}

/// Offset at which decoding goes on.
enum RelpStep {
    /// At this offset, after this item.
    On(usize, RelpItem),
    /// Offset from which bytes must be kept; decoding goes on when more are there.
    Wait(usize),
}

impl RelpStep {
    fn keep(&self) -> usize {
        match self {
            Self::On(at, _) | Self::Wait(at) => *at,
        }
    }
}

struct RelpHeader {
    txnr: u32,
    command: RelpCommand,
    data_bytes: usize,
    /// Bytes before the data.
    bytes: usize,
}

/// Reads the header at the start of `bytes`; `None` while it may become one.
fn read_header(bytes: &[u8]) -> Result<Option<RelpHeader>, FrameError> {
    let Some((txnr, at)) = number(bytes, 0, FrameError::Txnr)? else {
        return Ok(None);
    };
    if bytes[at] != b' ' {
        return Err(FrameError::Txnr);
    }
    let word = &bytes[at + 1..];
    let letters = word
        .iter()
        .take(COMMAND_BYTES_MAX + 1)
        .take_while(|byte| byte.is_ascii_alphabetic())
        .count();
    match word.get(letters) {
        _ if letters > COMMAND_BYTES_MAX => return Err(FrameError::Command),
        None => return Ok(None),
        Some(b' ') if letters > 0 => {}
        Some(_) => return Err(FrameError::Command),
    }
    let command = RelpCommand::named(&word[..letters]);
    let Some((data_bytes, at)) = number(bytes, at + letters + 2, FrameError::Length)? else {
        return Ok(None);
    };
    // A space before no data is more than the protocol says, and senders exist that write it.
    let bytes = match (bytes[at], data_bytes) {
        (b' ', _) => at + 1,
        (b'\n', 0) => at,
        _ => return Err(FrameError::Length),
    };
    Ok(Some(RelpHeader {
        txnr,
        command,
        data_bytes: data_bytes as usize,
        bytes,
    }))
}

/// The number at `at` and the offset of the byte after it; `None` if that has not come yet.
fn number(bytes: &[u8], at: usize, error: FrameError) -> Result<Option<(u32, usize)>, FrameError> {
    let mut value = 0;
    for (digits, &byte) in bytes[at..].iter().enumerate() {
        match byte {
            b'0'..=b'9' if digits < DIGITS_MAX => value = value * 10 + u32::from(byte - b'0'),
            b'0'..=b'9' => return Err(error),
            _ if digits == 0 => return Err(error),
            _ => return Ok(Some((value, at + digits))),
        }
    }
    Ok(None)
}
