//! RELP connection: its session, and the answers that follow the durability of its messages.
//!
//! # What it guarantees
//! * A message is answered once its batch is as durable as the queue promises, in the order of
//!   arrival ([`PendingAcks`]). A batch that was refused for want of room gets its refusal in its
//!   turn; one that the closing queue did not take gets no answer, so that its sender sends again.
//!
//! # Limits
//! A connection is read only while fewer than [`limits::RELP_UNANSWERED_MAX`] of its messages have
//! no answer written, so a peer that does not read its answers is not read from any more.

use std::collections::VecDeque;

use inrush_codec::Frame;
use inrush_codec::relp::{
    AnswerStatus, RelpSession, SERVER_CLOSE, SessionEnd, SessionTask, write_answer,
};
use inrush_event::{Anomalies, Span, limits};
use inrush_ingest::batch_writer::FrameIntake;
use inrush_ingest::batch_writer::acks::{AckRange, AckTarget, PendingAcks};
use inrush_ingest::batch_writer::stream::StreamDecoder;
use inrush_stream::AnsweringConnection;
use inrush_transport::stream::{Connection, EndReason};

/// Answer buffers larger than this are given back once they are empty.
const IDLE_BYTES: usize = 4096;

/// Kind of a transaction that is to be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TransactionKind {
    /// Messages of the batch.
    Messages,
    /// The start of a message that is too long is in the batch; it is answered at its end.
    CutStart,
    /// The end of it.
    CutEnd,
    /// This, whatever becomes of the batch.
    Answer(AnswerStatus),
}

impl TransactionKind {
    /// Answers that a transaction may get whatever becomes of the batch.
    const ANSWERS: [AnswerStatus; 6] = [
        AnswerStatus::Ok,
        AnswerStatus::Full,
        AnswerStatus::Unknown,
        AnswerStatus::NotOpen,
        AnswerStatus::BadOffers,
        AnswerStatus::Closed,
    ];

    /// The number by which an [`AckRange`] carries it.
    fn tag(self) -> u32 {
        match self {
            Self::Messages => 0,
            Self::CutStart => 1,
            Self::CutEnd => 2,
            Self::Answer(status) => {
                let at = Self::ANSWERS.iter().position(|one| *one == status);
                3 + at.unwrap_or_default() as u32
            }
        }
    }

    fn of_tag(tag: u32) -> Self {
        match tag {
            0 => Self::Messages,
            1 => Self::CutStart,
            2 => Self::CutEnd,
            other => Self::Answer(Self::ANSWERS[other as usize - 3]),
        }
    }
}

/// Part of a message that a frame puts into the batch.
pub(super) enum MessagePart {
    /// A message.
    Whole(Span),
    /// The start of one that is too long.
    Cut(Span),
    /// A message without a byte: nothing.
    Nothing,
}

/// Answers that may be written.
struct ReadyAnswers {
    first: u64,
    count: u32,
    answer: AnswerStatus,
}

/// One connection's session, and the answers that it has coming.
pub(super) struct RelpConnection {
    session: RelpSession,
    id: AckTarget,
    /// Transactions whose answer is not in `out` yet.
    unanswered: usize,
    due: VecDeque<ReadyAnswers>,
    /// Answer to the message whose start was kept.
    cut: AnswerStatus,
    out: Vec<u8>,
    /// Bytes of `out` that the connection has taken.
    written: usize,
    /// The stream ended inside a frame.
    cut_short: bool,
    /// Bytes of the frame in which it ended.
    unfinished_bytes: u64,
}

impl RelpConnection {
    pub(super) fn new(id: AckTarget, max_message_bytes: usize) -> Self {
        Self {
            session: RelpSession::new(max_message_bytes),
            id,
            unanswered: 0,
            due: VecDeque::new(),
            cut: AnswerStatus::Ok,
            out: Vec::new(),
            written: 0,
            cut_short: false,
            unfinished_bytes: 0,
        }
    }

    /// Decodes as [`RelpSession::decode`] does and notes in `owed` what is to be answered; `keep`
    /// gets what becomes part of the batch.
    fn take_frames(
        &mut self,
        arena: &[u8],
        start: usize,
        owed: &mut PendingAcks,
        mut keep: impl FnMut(MessagePart),
    ) -> usize {
        let (id, unanswered) = (self.id, &mut self.unanswered);
        let mut owe = |txnr: u32, what: TransactionKind| {
            *unanswered += 1;
            owed.push(id, txnr.into(), what.tag());
        };
        self.session
            .decode(arena, start, &mut self.out, |taken| match taken {
                SessionTask::Message { txnr, data } => {
                    keep(MessagePart::Whole(data));
                    owe(txnr, TransactionKind::Messages);
                }
                SessionTask::Cut { data } => {
                    keep(MessagePart::Cut(data));
                    // Numbered 0, for it is no transaction by itself: the end of the message is.
                    owe(0, TransactionKind::CutStart);
                }
                SessionTask::CutEnd { txnr } => owe(txnr, TransactionKind::CutEnd),
                SessionTask::Empty { txnr } => {
                    keep(MessagePart::Nothing);
                    owe(txnr, TransactionKind::Answer(AnswerStatus::Ok));
                }
                SessionTask::Answer { txnr, answer } => owe(txnr, TransactionKind::Answer(answer)),
            })
    }

    fn fill(&mut self) {
        while self.out.len() < limits::RELP_ANSWER_BYTES
            && let Some(due) = self.due.front_mut()
        {
            write_answer(&mut self.out, due.first as u32, due.answer);
            self.unanswered -= 1;
            due.first += 1;
            due.count -= 1;
            if due.count == 0 {
                self.due.pop_front();
            }
        }
    }
}

impl AnsweringConnection for RelpConnection {
    fn id(&self) -> AckTarget {
        self.id
    }

    /// True if the sender has opened its session, or the session has ended.
    fn is_open(&self) -> bool {
        self.session.is_open() || self.session.end().is_some()
    }

    /// End of the session, with the fault of the peer if there was one; `None` while it goes on.
    fn end(&self) -> Option<Option<EndReason>> {
        Some(match self.session.end()? {
            SessionEnd::Closed => None,
            SessionEnd::Frame(_) => Some(EndReason::RelpFrame),
            SessionEnd::Protocol => Some(EndReason::RelpProtocol),
        })
    }

    /// Fault of a stream that the peer has finished: it ended inside a frame.
    fn fault_at_end(&self) -> Option<EndReason> {
        self.cut_short.then_some(EndReason::RelpCutShort)
    }

    /// True if [`limits::RELP_UNANSWERED_MAX`] messages are unanswered: no more is to be read until
    /// answers have gone out.
    fn is_full(&self) -> bool {
        self.unanswered >= limits::RELP_UNANSWERED_MAX
    }

    /// True if nothing is unanswered.
    fn is_clear(&self) -> bool {
        self.unanswered == 0
    }

    /// The batch of an ack has met its fate.
    fn settle(&mut self, ack: &AckRange, refused: bool) {
        let fate = if refused {
            AnswerStatus::Full
        } else {
            AnswerStatus::Ok
        };
        let answer = match TransactionKind::of_tag(ack.tag) {
            TransactionKind::Messages => fate,
            TransactionKind::CutStart => {
                self.cut = fate;
                self.unanswered -= ack.count as usize;
                return;
            }
            TransactionKind::CutEnd => self.cut,
            TransactionKind::Answer(answer) => answer,
        };
        self.due.push_back(ReadyAnswers {
            first: ack.first,
            count: ack.count,
            answer,
        });
    }

    /// Writes answers until there are no more or the connection has no room.
    ///
    /// # Errors
    /// The connection is of no more use.
    fn pump(&mut self, connection: &mut Connection) -> Result<(), EndReason> {
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

    /// True if everything that may be written is with the kernel.
    fn is_drained(&self, connection: &Connection) -> bool {
        self.due.is_empty() && self.out.is_empty() && connection.is_flushed()
    }

    /// Hints that we are about to close.
    fn hint(&mut self) {
        self.out.extend_from_slice(SERVER_CLOSE);
    }
}

impl StreamDecoder for RelpConnection {
    #[inline]
    fn decode(
        &mut self,
        arena: &[u8],
        start: usize,
        frames: &mut FrameIntake<'_>,
        acks: &mut PendingAcks,
    ) -> usize {
        self.take_frames(arena, start, acks, |part| {
            let (span, anomalies) = match part {
                MessagePart::Whole(span) => (span, Anomalies::NONE),
                MessagePart::Cut(span) => (span, Anomalies::OVERSIZE),
                MessagePart::Nothing => return frames.note_empty(),
            };
            frames.take(Frame { span, anomalies });
        })
    }

    /// The unfinished frame is dropped: it was not answered, so its sender has it and sends it
    /// again.
    fn finish(&mut self, arena: &[u8], start: usize, _: &mut FrameIntake<'_>) {
        let kept_bytes = arena.len() - start;
        self.cut_short = !self.session.is_between_frames(kept_bytes);
        if self.session.end().is_none() {
            self.unfinished_bytes += kept_bytes as u64;
        }
    }

    /// Nothing: a connection that waits for answers is closed instead, and sends again.
    fn give_up(&mut self, _: &[u8], _: usize, _: &mut FrameIntake<'_>) {}

    fn cut_bytes(&self) -> [u64; 3] {
        [
            self.session.cut_bytes(),
            self.session.unframed_bytes(),
            self.unfinished_bytes,
        ]
    }

    /// No more messages than may be unanswered, but never less than TLS decrypts at once.
    fn window_bytes(&self) -> usize {
        let messages = limits::RELP_UNANSWERED_MAX.saturating_sub(self.unanswered);
        (messages * limits::RELP_MESSAGE_BYTES_MIN)
            .clamp(limits::READ_BYTES_MIN, limits::READ_BYTES)
    }

    fn answers(&self) -> bool {
        true
    }

    fn buffered_bytes(&self) -> usize {
        self.out.capacity() + self.due.capacity() * size_of::<ReadyAnswers>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inrush_ingest::batch_writer::acks::AppendOutcome;

    const ID: AckTarget = AckTarget { key: 3, serial: 9 };

    const OPEN: &str = "1 open 14 relp_version=0\n";

    fn debt() -> RelpConnection {
        RelpConnection::new(ID, 480)
    }

    /// Takes `frames` into the open batch; how many events that made.
    fn take(debt: &mut RelpConnection, owed: &mut PendingAcks, frames: &str) -> usize {
        let mut events = 0;
        debt.take_frames(frames.as_bytes(), 0, owed, |kept| {
            events += usize::from(!matches!(kept, MessagePart::Nothing));
        });
        events
    }

    /// What is written once everything below `durable_end` is durable.
    fn written(debt: &mut RelpConnection, owed: &mut PendingAcks, durable_end: u64) -> String {
        while let Some(handed) = owed.next_due(durable_end) {
            for ack in &handed.acks {
                assert_eq!(ack.target, ID);
                debt.settle(ack, handed.outcome == AppendOutcome::Refused);
            }
        }
        debt.fill();
        String::from_utf8(std::mem::take(&mut debt.out)).unwrap_or_default()
    }

    #[test]
    fn no_answer_precedes_durability_and_all_come_in_order() {
        let (mut debt, mut owed) = (debt(), PendingAcks::default());
        take(&mut debt, &mut owed, OPEN);
        debt.out.clear();
        assert_eq!(
            take(&mut debt, &mut owed, "2 syslog 1 a\n3 syslog 1 b\n"),
            2
        );
        owed.hand(AppendOutcome::At(7));
        take(&mut debt, &mut owed, "4 syslog 1 c\n5 dance 0\n");
        owed.hand(AppendOutcome::Refused);
        take(&mut debt, &mut owed, "6 syslog 0\n");
        owed.hand(AppendOutcome::Nothing);
        take(&mut debt, &mut owed, "7 syslog 1 d\n8 close 0\n");
        owed.hand(AppendOutcome::At(8));
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
            (AppendOutcome::At(0), "2 rsp 6 200 OK\n"),
            (AppendOutcome::Refused, "2 rsp 21 500 the queue is full\n"),
        ] {
            let (mut debt, mut owed) = (debt(), PendingAcks::default());
            take(&mut debt, &mut owed, OPEN);
            debt.out.clear();
            let start = format!("2 syslog 600 {}", "x".repeat(480));
            assert_eq!(take(&mut debt, &mut owed, &start), 1);
            owed.hand(outcome);
            assert_eq!(written(&mut debt, &mut owed, 1), "");
            assert!(debt.is_clear(), "nothing can be answered before the end");
            take(&mut debt, &mut owed, &format!("{}\n", "x".repeat(120)));
            owed.hand(AppendOutcome::Nothing);
            assert_eq!(written(&mut debt, &mut owed, 1), answer);
        }
    }

    #[test]
    fn a_lost_batch_is_not_answered() {
        let (mut debt, mut owed) = (debt(), PendingAcks::default());
        let frames: String = (2..1002).map(|n| format!("{n} syslog 1 x\n")).collect();
        take(&mut debt, &mut owed, &(OPEN.to_owned() + &frames));
        owed.forget();
        owed.hand(AppendOutcome::At(0));
        assert!(!owed.is_waiting() && !debt.is_clear());
    }

    #[test]
    fn too_much_unanswered_stops_the_reading() {
        let (mut debt, mut owed) = (debt(), PendingAcks::default());
        take(&mut debt, &mut owed, OPEN);
        assert_eq!(debt.window_bytes(), 32 * 1024 * 11);
        let frames = "2 syslog 1 x\n".repeat(limits::RELP_UNANSWERED_MAX - 1);
        take(&mut debt, &mut owed, &frames);
        assert!(!debt.is_full());
        take(&mut debt, &mut owed, "2 syslog 1 x\n");
        assert!(debt.is_full());
        assert_eq!(debt.window_bytes(), limits::READ_BYTES_MIN);
        owed.hand(AppendOutcome::At(0));
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
