//! The receiver's side of a session: what each frame means and in which order it is answered.

use std::io::Write;
use std::ops::ControlFlow;

use inrush_event::Span;

use super::frame::{FrameError, RelpCommand, RelpDecoder, RelpItem};

/// Frames of a session that may be refused; one more ends it. Each costs its sender six bytes and
/// us an answer of fifty.
pub const REFUSALS_MAX: u32 = 64;

/// The hint that we are about to close: the sender connects elsewhere, or again.
pub const SERVER_CLOSE: &[u8] = b"0 serverclose 0\n";

/// Status of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerStatus {
    /// Taken: the sender may forget it.
    Ok,
    /// Not taken, because there is no room.
    Full,
    /// A command that we do not know, or at the wrong time.
    Unknown,
    /// The session is not open.
    NotOpen,
    /// Offers that we cannot meet.
    BadOffers,
    /// The end of the session is granted; this answer has no data.
    Closed,
}

impl AnswerStatus {
    fn data(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::Full => "500 the queue is full",
            Self::Unknown => "500 unknown command",
            Self::NotOpen => "500 open first",
            Self::BadOffers => "500 offer relp_version=0 and commands=syslog",
            Self::Closed => "",
        }
    }
}

/// Tasks for the caller, to be done in the order in which they come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionTask {
    /// Keep this message, and answer when it is safe.
    Message {
        /// Its transaction.
        txnr: u32,
        /// Span of its bytes; without terminators at its end, never empty.
        data: Span,
    },
    /// Keep the start of a message that is too long; it is answered after [`SessionTask::CutEnd`].
    Cut {
        /// Span of the bytes that are kept.
        data: Span,
    },
    /// All of that message has come: answer when its start is safe.
    CutEnd {
        /// Its transaction.
        txnr: u32,
    },
    /// A message without a byte: answer after what came before.
    Empty {
        /// Its transaction.
        txnr: u32,
    },
    /// Nothing to keep: answer this after what came before.
    Answer {
        /// The transaction.
        txnr: u32,
        /// The answer to give.
        answer: AnswerStatus,
    },
}

/// Reason why no more is read of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionEnd {
    /// The sender asked for it.
    Closed,
    /// The stream is broken.
    Frame(FrameError),
    /// A frame that has no place in a session: a message before it was opened, a second opening,
    /// transaction 0, offers that cannot be met, too many unknown commands.
    Protocol,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SessionState {
    New,
    Open,
    Ended(SessionEnd),
}

/// One connection's session.
#[derive(Debug)]
pub struct RelpSession {
    decoder: RelpDecoder,
    rules: SessionRules,
}

/// All but the decoder, so that it can be had while that is borrowed.
#[derive(Debug)]
struct SessionRules {
    state: SessionState,
    refusals: u32,
    /// Bytes that came after the end of the session, or in messages that were refused.
    unframed_bytes: u64,
}

impl RelpSession {
    /// A session that is not open yet. Messages are cut at `max_message_bytes`.
    pub fn new(max_message_bytes: usize) -> Self {
        Self {
            decoder: RelpDecoder::new(max_message_bytes),
            rules: SessionRules {
                state: SessionState::New,
                refusals: 0,
                unframed_bytes: 0,
            },
        }
    }

    /// Takes what is complete out of `arena[start..]` and returns the offset from which bytes
    /// must be kept, as [`RelpDecoder::decode`] does; all of them are dropped once the session has
    /// ended. The answer to an opening is written to `replies`.
    pub fn decode(
        &mut self,
        arena: &[u8],
        start: usize,
        replies: &mut Vec<u8>,
        mut emit: impl FnMut(SessionTask),
    ) -> usize {
        let Self { decoder, rules } = self;
        if rules.end().is_some() {
            rules.unframed_bytes += (arena.len() - start) as u64;
            return arena.len();
        }
        let outcome = decoder.decode(arena, start, |item| {
            rules.take(arena, item, replies, &mut emit)
        });
        match outcome {
            Ok(keep) if rules.end().is_none() => keep,
            Ok(keep) => {
                rules.unframed_bytes += (arena.len() - keep) as u64;
                arena.len()
            }
            Err(error) => {
                rules.state = SessionState::Ended(SessionEnd::Frame(error));
                rules.unframed_bytes += (arena.len() - decoder.broken_at()) as u64;
                arena.len()
            }
        }
    }

    /// Bytes cut off messages that are too long, so far.
    pub fn cut_bytes(&self) -> u64 {
        self.decoder.cut_bytes()
    }

    /// Bytes that are in no message so far because they followed a broken frame or the end of the
    /// session, or because the message was refused.
    pub fn unframed_bytes(&self) -> u64 {
        self.rules.unframed_bytes
    }

    /// True if the sender has opened it.
    pub fn is_open(&self) -> bool {
        self.rules.state == SessionState::Open
    }

    /// Reason why no more is read; `None` while it goes on.
    pub fn end(&self) -> Option<SessionEnd> {
        self.rules.end()
    }

    /// True if the stream may end here, given how many bytes were kept.
    pub fn is_between_frames(&self, kept_bytes: usize) -> bool {
        self.end().is_some() || self.decoder.is_between_frames(kept_bytes)
    }
}

impl SessionRules {
    fn end(&self) -> Option<SessionEnd> {
        match self.state {
            SessionState::Ended(end) => Some(end),
            SessionState::New | SessionState::Open => None,
        }
    }

    fn take(
        &mut self,
        arena: &[u8],
        item: RelpItem,
        replies: &mut Vec<u8>,
        emit: &mut impl FnMut(SessionTask),
    ) -> ControlFlow<()> {
        let open = self.state == SessionState::Open;
        match item {
            RelpItem::Frame {
                txnr: 0,
                command,
                data,
            } => {
                self.waste(command, data);
                self.state = SessionState::Ended(SessionEnd::Protocol);
            }
            RelpItem::Cut { txnr: 0, data } => {
                self.waste(RelpCommand::Syslog, data);
                self.state = SessionState::Ended(SessionEnd::Protocol);
            }
            RelpItem::Frame {
                txnr,
                command: RelpCommand::Syslog,
                data,
            } if open => emit(message(arena, txnr, data)),
            RelpItem::Cut { data, .. } if open => emit(SessionTask::Cut { data }),
            RelpItem::CutEnd { txnr } => emit(SessionTask::CutEnd { txnr }),
            RelpItem::Cut { txnr, data } => {
                self.waste(RelpCommand::Syslog, data);
                self.refuse(txnr, AnswerStatus::NotOpen, true, emit);
            }
            RelpItem::Frame {
                txnr,
                command,
                data,
            } => {
                self.waste(command, data);
                self.control(txnr, command, data.of(arena), replies, emit);
            }
        }
        match self.state {
            SessionState::Ended(_) => ControlFlow::Break(()),
            SessionState::New | SessionState::Open => ControlFlow::Continue(()),
        }
    }

    /// Counts the data of a message that is not taken; that of other commands is no message.
    fn waste(&mut self, command: RelpCommand, data: Span) {
        if command == RelpCommand::Syslog {
            self.unframed_bytes += u64::from(data.len);
        }
    }

    fn control(
        &mut self,
        txnr: u32,
        command: RelpCommand,
        data: &[u8],
        replies: &mut Vec<u8>,
        emit: &mut impl FnMut(SessionTask),
    ) {
        match (command, self.state) {
            (RelpCommand::Open, SessionState::New) if offers_fit(data) => {
                self.state = SessionState::Open;
                write_open_answer(replies, txnr);
            }
            (RelpCommand::Open, SessionState::New) => {
                self.refuse(txnr, AnswerStatus::BadOffers, true, emit)
            }
            (RelpCommand::Close, _) => {
                let answer = AnswerStatus::Closed;
                emit(SessionTask::Answer { txnr, answer });
                self.state = SessionState::Ended(SessionEnd::Closed);
            }
            (RelpCommand::Syslog, _) => self.refuse(txnr, AnswerStatus::NotOpen, true, emit),
            (RelpCommand::Open, _) => self.refuse(txnr, AnswerStatus::Unknown, true, emit),
            _ => self.refuse(txnr, AnswerStatus::Unknown, false, emit),
        }
    }

    fn refuse(
        &mut self,
        txnr: u32,
        answer: AnswerStatus,
        last: bool,
        emit: &mut impl FnMut(SessionTask),
    ) {
        self.refusals += 1;
        emit(SessionTask::Answer { txnr, answer });
        if last || self.refusals > REFUSALS_MAX {
            self.state = SessionState::Ended(SessionEnd::Protocol);
        }
    }
}

fn message(arena: &[u8], txnr: u32, data: Span) -> SessionTask {
    match crate::datagram(arena, data) {
        Some(data) => SessionTask::Message { txnr, data },
        None => SessionTask::Empty { txnr },
    }
}

/// True if we can meet the offers of an opening, one `name=value` a line: there is one version, and
/// `syslog` must be among the commands if any are named. Other offers are not ours to judge.
fn offers_fit(data: &[u8]) -> bool {
    let mut version = None;
    let mut commands = None;
    for line in data.split(|&byte| byte == b'\n') {
        let mut parts = line.trim_ascii().splitn(2, |&byte| byte == b'=');
        match (parts.next(), parts.next()) {
            (Some(b"relp_version"), value) => version = value,
            (Some(b"commands"), value) => commands = value,
            _ => {}
        }
    }
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let has_syslog = |text: &[u8]| {
        text.split(|&byte| byte == b',')
            .any(|word| word.trim_ascii() == b"syslog")
    };
    version.is_some_and(is_number) && commands.is_none_or(has_syslog)
}

/// Writes the answer to an opening: what we offer.
pub fn write_open_answer(out: &mut Vec<u8>, txnr: u32) {
    let version = env!("CARGO_PKG_VERSION");
    write_rsp(
        out,
        txnr,
        &format!("200 OK\nrelp_version=0\nrelp_software=inrush,{version}\ncommands=syslog"),
    );
}

/// Writes any other answer.
pub fn write_answer(out: &mut Vec<u8>, txnr: u32, answer: AnswerStatus) {
    write_rsp(out, txnr, answer.data());
}

fn write_rsp(out: &mut Vec<u8>, txnr: u32, data: &str) {
    let len = data.len();
    // Writing to a vector does not fail.
    let _ = match len {
        0 => writeln!(out, "{txnr} rsp 0"),
        _ => writeln!(out, "{txnr} rsp {len} {data}"),
    };
}
