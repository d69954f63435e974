//! Answers that a RELP connection owes its peer: they follow durability, in the order of arrival.
//!
//! # The way of an answer
//! 1. A message is put into the open batch of its source, and an [`Ack`] beside it.
//! 2. When the batch is handed on, its acks wait for its position ([`Owed`]), one entry a batch.
//! 3. When the log says that the position is durable, they become answers of their connection
//!    ([`Debt`]), which writes them as the peer takes them. A batch that was refused for want of
//!    room gets its refusal in its turn; one that the closing queue did not take gets no answer,
//!    so that its sender sends again.
//!
//! # Limits
//! A connection is read only while fewer than [`limits::RELP_UNANSWERED_MAX`] of its messages have
//! no answer written, so a peer that does not read its answers is not read from any more.

use std::collections::VecDeque;

use inrush_codec::relp::{Answer, End, SERVER_CLOSE, Session, Taken, write_answer};
use inrush_event::{Span, limits};
use inrush_transport::stream::{CIPHER_READ_BYTES, Connection, EndReason};

/// Answer buffers larger than this are given back once they are empty.
const IDLE_BYTES: usize = 4096;

/// A connection of a worker. Keys are used again, serial numbers are not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionId {
    pub(crate) key: usize,
    pub(crate) serial: u64,
}

/// Kind of a transaction that is to be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// Messages of the batch.
    Messages,
    /// The start of a message that is too long is in the batch; it is answered at its end.
    CutStart,
    /// The end of it.
    CutEnd,
    /// This, whatever becomes of the batch.
    Answer(Answer),
}

/// Transactions of one connection that get the same answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    pub(crate) to: ConnectionId,
    first: u32,
    count: u32,
    what: What,
}

/// Fate of a batch at the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Appended at this position.
    At(u64),
    /// Not taken, because the queue is full.
    Refused,
    /// There was no batch.
    Nothing,
}

/// The acks of one batch.
pub(crate) struct Handed {
    pub(crate) outcome: Outcome,
    pub(crate) acks: Vec<Ack>,
}

/// The acks of one source in one worker.
#[derive(Default)]
pub(crate) struct Owed {
    /// Of the open batch.
    open: Vec<Ack>,
    /// Of batches that were handed on, oldest first.
    handed: VecDeque<Handed>,
}

impl Owed {
    fn push(&mut self, to: ConnectionId, txnr: u32, what: What) {
        if let Some(last) = self.open.last_mut()
            && (last.to, last.what) == (to, what)
            && last.first + last.count == txnr
        {
            last.count += 1;
            return;
        }
        self.open.push(Ack {
            to,
            first: txnr,
            count: 1,
            what,
        });
    }

    /// True if a peer waits for an answer to the open batch.
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// True if a peer waits for an answer to a batch that was handed on.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.handed.is_empty()
    }

    /// The open batch has been handed on.
    pub(crate) fn hand(&mut self, outcome: Outcome) {
        if self.is_open() {
            let acks = std::mem::take(&mut self.open);
            self.handed.push_back(Handed { outcome, acks });
        }
    }

    /// The open batch is lost: its senders get no answer.
    pub(crate) fn forget(&mut self) {
        self.open.clear();
    }

    /// The acks of the oldest batch, if all below `durable_end` is durable and it is.
    pub(crate) fn next_due(&mut self, durable_end: u64) -> Option<Handed> {
        self.handed.pop_front_if(|handed| match handed.outcome {
            Outcome::At(position) => position < durable_end,
            Outcome::Refused | Outcome::Nothing => true,
        })
    }

    /// The position that the oldest acks wait for.
    pub(crate) fn waits_for(&self) -> Option<u64> {
        match self.handed.front()?.outcome {
            Outcome::At(position) => Some(position),
            Outcome::Refused | Outcome::Nothing => None,
        }
    }
}

/// Part of a message that a frame puts into the batch.
pub(crate) enum Kept {
    /// A message.
    Whole(Span),
    /// The start of one that is too long.
    Cut(Span),
    /// A message without a byte: nothing.
    Nothing,
}

/// Answers that may be written.
struct Due {
    first: u32,
    count: u32,
    answer: Answer,
}

/// One connection's session, and the answers that it has coming.
pub(crate) struct Debt {
    session: Session,
    id: ConnectionId,
    /// Transactions whose answer is not in `out` yet.
    unanswered: usize,
    due: VecDeque<Due>,
    /// Answer to the message whose start was kept.
    cut: Answer,
    out: Vec<u8>,
    /// Bytes of `out` that the connection has taken.
    written: usize,
    /// The stream ended inside a frame.
    cut_short: bool,
    /// Bytes of the frame in which it ended.
    unfinished_bytes: u64,
    /// Not read because too much is unanswered.
    pub(crate) paused: bool,
    /// Has answers to write that came in this round.
    pub(crate) touched: bool,
}

impl Debt {
    pub(crate) fn new(id: ConnectionId, max_message_bytes: usize) -> Self {
        Self {
            session: Session::new(max_message_bytes),
            id,
            unanswered: 0,
            due: VecDeque::new(),
            cut: Answer::Ok,
            out: Vec::new(),
            written: 0,
            cut_short: false,
            unfinished_bytes: 0,
            paused: false,
            touched: false,
        }
    }

    pub(crate) fn id(&self) -> ConnectionId {
        self.id
    }

    /// Decodes as [`Session::decode`] does and notes in `owed` what is to be answered; `keep` gets
    /// what becomes part of the batch.
    pub(crate) fn decode(
        &mut self,
        arena: &[u8],
        start: usize,
        owed: &mut Owed,
        mut keep: impl FnMut(Kept),
    ) -> usize {
        let (id, unanswered) = (self.id, &mut self.unanswered);
        let mut owe = |txnr, what| {
            *unanswered += 1;
            owed.push(id, txnr, what);
        };
        self.session
            .decode(arena, start, &mut self.out, |taken| match taken {
                Taken::Message { txnr, data } => {
                    keep(Kept::Whole(data));
                    owe(txnr, What::Messages);
                }
                Taken::Cut { data } => {
                    keep(Kept::Cut(data));
                    // Numbered 0, for it is no transaction by itself: the end of the message is.
                    owe(0, What::CutStart);
                }
                Taken::CutEnd { txnr } => owe(txnr, What::CutEnd),
                Taken::Empty { txnr } => {
                    keep(Kept::Nothing);
                    owe(txnr, What::Answer(Answer::Ok));
                }
                Taken::Answer { txnr, answer } => owe(txnr, What::Answer(answer)),
            })
    }

    /// The stream has ended, with so many bytes kept of what was not complete.
    pub(crate) fn end_stream(&mut self, kept_bytes: usize) {
        self.cut_short = !self.session.is_between_frames(kept_bytes);
        if self.session.end().is_none() {
            self.unfinished_bytes += kept_bytes as u64;
        }
    }

    /// Bytes so far that are in no event: cut off, beside the session, unfinished.
    pub(crate) fn cut_bytes(&self) -> [u64; 3] {
        [
            self.session.cut_bytes(),
            self.session.unframed_bytes(),
            self.unfinished_bytes,
        ]
    }

    /// True if the sender has opened its session, or the session has ended.
    pub(crate) fn is_open(&self) -> bool {
        self.session.is_open() || self.session.end().is_some()
    }

    /// End of the session, with the fault of the peer if there was one; `None` while it goes on.
    pub(crate) fn end(&self) -> Option<Option<EndReason>> {
        Some(match self.session.end()? {
            End::Closed => None,
            End::Frame(_) => Some(EndReason::RelpFrame),
            End::Protocol => Some(EndReason::RelpProtocol),
        })
    }

    /// Fault of a stream that the peer has finished: it ended inside a frame.
    pub(crate) fn fault_at_end(&self) -> Option<EndReason> {
        self.cut_short.then_some(EndReason::RelpCutShort)
    }

    /// True if [`limits::RELP_UNANSWERED_MAX`] messages are unanswered: no more is to be read until
    /// answers have gone out.
    pub(crate) fn is_full(&self) -> bool {
        self.unanswered >= limits::RELP_UNANSWERED_MAX
    }

    /// True if nothing is unanswered.
    pub(crate) fn is_clear(&self) -> bool {
        self.unanswered == 0
    }

    /// Bytes to read at once: no more messages than may be unanswered, but never less than TLS
    /// decrypts at once.
    pub(crate) fn window_bytes(&self) -> usize {
        let messages = limits::RELP_UNANSWERED_MAX.saturating_sub(self.unanswered);
        (messages * limits::RELP_MESSAGE_BYTES_MIN).clamp(CIPHER_READ_BYTES, limits::READ_BYTES)
    }

    /// The batch of an ack has met its fate.
    pub(crate) fn settle(&mut self, ack: &Ack, refused: bool) {
        let fate = if refused { Answer::Full } else { Answer::Ok };
        let answer = match ack.what {
            What::Messages => fate,
            What::CutStart => {
                self.cut = fate;
                self.unanswered -= ack.count as usize;
                return;
            }
            What::CutEnd => self.cut,
            What::Answer(answer) => answer,
        };
        self.due.push_back(Due {
            first: ack.first,
            count: ack.count,
            answer,
        });
    }

    /// Writes answers until there are no more or the connection has no room.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub(crate) fn pump(&mut self, connection: &mut Connection) -> Result<(), EndReason> {
        loop {
            self.fill();
            self.written += connection.write(&self.out[self.written..])?;
            if self.written < self.out.len() {
                return Ok(());
            }
            self.out.clear();
            self.written = 0;
            if self.due.is_empty() {
                if self.out.capacity() > IDLE_BYTES {
                    self.out = Vec::new();
                }
                return Ok(());
            }
        }
    }

    /// Bytes of memory that answers take which the peer has not read.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.out.capacity() + self.due.capacity() * size_of::<Due>()
    }

    /// True if everything that may be written is with the kernel.
    pub(crate) fn is_drained(&self, connection: &Connection) -> bool {
        self.due.is_empty() && self.out.is_empty() && connection.is_flushed()
    }

    /// Hints that we are about to close.
    pub(crate) fn hint(&mut self) {
        self.out.extend_from_slice(SERVER_CLOSE);
    }

    fn fill(&mut self) {
        while self.out.len() < limits::RELP_ANSWER_BYTES
            && let Some(due) = self.due.front_mut()
        {
            write_answer(&mut self.out, due.first, due.answer);
            self.unanswered -= 1;
            due.first += 1;
            due.count -= 1;
            if due.count == 0 {
                self.due.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ConnectionId = ConnectionId { key: 3, serial: 9 };

    const OPEN: &str = "1 open 14 relp_version=0\n";

    fn debt() -> Debt {
        Debt::new(ID, 480)
    }

    /// Takes `frames` into the open batch; how many events that made.
    fn take(debt: &mut Debt, owed: &mut Owed, frames: &str) -> usize {
        let mut events = 0;
        debt.decode(frames.as_bytes(), 0, owed, |kept| {
            events += usize::from(!matches!(kept, Kept::Nothing));
        });
        events
    }

    /// What is written once everything below `durable_end` is durable.
    fn written(debt: &mut Debt, owed: &mut Owed, durable_end: u64) -> String {
        while let Some(handed) = owed.next_due(durable_end) {
            for ack in &handed.acks {
                assert_eq!(ack.to, ID);
                debt.settle(ack, handed.outcome == Outcome::Refused);
            }
        }
        debt.fill();
        String::from_utf8(std::mem::take(&mut debt.out)).unwrap_or_default()
    }

    #[test]
    fn no_answer_precedes_durability_and_all_come_in_order() {
        let (mut debt, mut owed) = (debt(), Owed::default());
        take(&mut debt, &mut owed, OPEN);
        debt.out.clear();
        assert_eq!(
            take(&mut debt, &mut owed, "2 syslog 1 a\n3 syslog 1 b\n"),
            2
        );
        owed.hand(Outcome::At(7));
        take(&mut debt, &mut owed, "4 syslog 1 c\n5 dance 0\n");
        owed.hand(Outcome::Refused);
        take(&mut debt, &mut owed, "6 syslog 0\n");
        owed.hand(Outcome::Nothing);
        take(&mut debt, &mut owed, "7 syslog 1 d\n8 close 0\n");
        owed.hand(Outcome::At(8));
        assert_eq!(written(&mut debt, &mut owed, 7), "");
        assert_eq!(owed.waits_for(), Some(7));
        assert_eq!(
            written(&mut debt, &mut owed, 8),
            "2 rsp 6 200 OK\n3 rsp 6 200 OK\n4 rsp 21 500 the queue is full\n\
             5 rsp 19 500 unknown command\n6 rsp 6 200 OK\n"
        );
        assert!(!debt.is_clear() && owed.waits_for() == Some(8));
        assert_eq!(
            written(&mut debt, &mut owed, 9),
            "7 rsp 6 200 OK\n8 rsp 0\n"
        );
        assert!(debt.is_clear() && !owed.is_waiting());
        assert_eq!(debt.end(), Some(None));
    }

    #[test]
    fn a_cut_message_is_answered_at_its_end_with_the_fate_of_its_start() {
        for (outcome, answer) in [
            (Outcome::At(0), "2 rsp 6 200 OK\n"),
            (Outcome::Refused, "2 rsp 21 500 the queue is full\n"),
        ] {
            let (mut debt, mut owed) = (debt(), Owed::default());
            take(&mut debt, &mut owed, OPEN);
            debt.out.clear();
            let start = format!("2 syslog 600 {}", "x".repeat(480));
            assert_eq!(take(&mut debt, &mut owed, &start), 1);
            owed.hand(outcome);
            assert_eq!(written(&mut debt, &mut owed, 1), "");
            assert!(debt.is_clear(), "nothing can be answered before the end");
            take(&mut debt, &mut owed, &format!("{}\n", "x".repeat(120)));
            owed.hand(Outcome::Nothing);
            assert_eq!(written(&mut debt, &mut owed, 1), answer);
        }
    }

    #[test]
    fn acks_of_a_batch_take_little_and_a_lost_batch_is_not_answered() {
        let (mut debt, mut owed) = (debt(), Owed::default());
        let frames: String = (2..1002).map(|n| format!("{n} syslog 1 x\n")).collect();
        take(&mut debt, &mut owed, &(OPEN.to_owned() + &frames));
        assert_eq!(owed.open.len(), 1, "numbers in a row are one entry");
        owed.forget();
        owed.hand(Outcome::At(0));
        assert!(!owed.is_waiting() && !debt.is_clear());
    }

    #[test]
    fn too_much_unanswered_stops_the_reading() {
        let (mut debt, mut owed) = (debt(), Owed::default());
        take(&mut debt, &mut owed, OPEN);
        assert_eq!(debt.window_bytes(), 32 * 1024 * 11);
        let frames = "2 syslog 1 x\n".repeat(limits::RELP_UNANSWERED_MAX - 1);
        take(&mut debt, &mut owed, &frames);
        assert!(!debt.is_full());
        take(&mut debt, &mut owed, "2 syslog 1 x\n");
        assert!(debt.is_full());
        assert_eq!(debt.window_bytes(), CIPHER_READ_BYTES);
        owed.hand(Outcome::At(0));
        let answers = written(&mut debt, &mut owed, 1);
        assert!(answers.len() >= limits::RELP_ANSWER_BYTES);
        let one = "2 rsp 6 200 OK\n";
        assert!(
            answers.ends_with(&one.repeat(3)),
            "the number that was sent"
        );
        assert!(!debt.is_full());
    }
}
