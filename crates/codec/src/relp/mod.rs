//! RELP, the reliable event logging protocol: a stream whose every message is answered.
//!
//! ```text
//! frame    = TXNR SP COMMAND SP DATALEN [SP DATA] LF
//! TXNR     = 1*9DIGIT     counted by the sender from 1 to 999999999 and over again; 0 for hints
//! COMMAND  = 1*32ALPHA    of the sender: open, syslog, close; of the receiver: rsp, serverclose
//! DATALEN  = 1*9DIGIT     bytes of DATA; 0 where there is none, and then no SP either
//! ```
//! A sender opens with its offers, sends messages without waiting, up to a window of its own
//! choice, and may forget a message once `TXNR rsp 6 200 OK` has come. What is not answered when
//! the connection ends it sends again, so a message arrives at least once.
//!
//! # What it guarantees
//! * The [`RelpDecoder`] gives spans into the caller's arena, whatever the cuts between reads, and
//!   keeps at most the longest message and [`FRAME_SLACK`] bytes between two of them.
//! * A frame that is none ends the stream, because nothing says where the next one would begin;
//!   the [`RelpSession`] names why. What came before it counts and is answered.
//! * A message that is too long keeps its first `max_message_bytes` and is answered like others,
//!   when all of it has come: its sender would send it again for ever.
//! * The session answers nothing by itself but the opening; it tells in which order its caller has
//!   to. How many answers a peer can provoke with what is no message is bounded
//!   ([`REFUSALS_MAX`]).

mod frame;
mod session;
#[cfg(test)]
mod tests;

pub use frame::{FRAME_SLACK, FrameError, RelpCommand, RelpDecoder, RelpItem, TXNR_MAX};
pub use session::{
    AnswerStatus, REFUSALS_MAX, RelpSession, SERVER_CLOSE, SessionEnd, SessionTask, write_answer,
    write_open_answer,
};
