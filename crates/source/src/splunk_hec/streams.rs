//! Requests of a connection of HTTP/2: streams, of which one has its turn after the other.
//!
//! # What it guarantees
//! * A stream is a request as one of HTTP/1 is: its events are taken while it comes, and it is
//!   answered once they are durable. Answers come in the order in which that is so.
//! * Frames are read while a request waits for room in the queue: the windows bound what comes.
//! * A stream that its client resets is not answered; what was taken of it stays, as that of a
//!   connection that is cut. The others go on.
//! * A token in a frame is overwritten before a batch is filled where it stood.
//!
//! # Limits
//! A stream of which nothing comes for [`BODY_MAX`] is answered with 408. A head that does not come
//! to its end ends the connection as one of HTTP/1 does: it holds up all that is behind it. No
//! stream has its turn while [`REPLIES_MAX`] answers, or [`UNSENT_BYTES_MAX`] of them, wait.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use inrush_codec::hec::HecAnswer;
use inrush_event::instant_now;
use inrush_transport::http2::{STREAMS_MAX, StreamEnd, StreamRequest};
use inrush_transport::stream::{Connection, EndReason, StreamRead};

use super::connection::{BODY_MAX, HecConnection, IDLE_BYTES, RETRY, RequestStage};
use super::replies::PendingReply;
use super::reply::{HecReply, ReplyContent};
use super::request::{HeadRequest, asked};

/// Bytes that are read at once, half of it as ciphertext: with a record that was not complete
/// before it becomes more. Of many more, even honest frames could be so tiny that `h2` sees an
/// attack.
const PLAIN_BYTES: usize = 64 * 1024;

/// Answers that wait, at most, before one more: also those to streams that were reset meanwhile.
const REPLIES_MAX: usize = 2 * STREAMS_MAX as usize;

/// Bytes of answers that wait for the windows of the client, at most, before one more.
const UNSENT_BYTES_MAX: usize = 64 * 1024;

/// A stream that comes to nothing within its time.
const TIMED_OUT: ReplyContent = ReplyContent::Http(408);

impl HecConnection {
    /// True from the moment on at which the handshake of TLS has chosen HTTP/2.
    pub(super) fn has_streams(&mut self, connection: &Connection) -> bool {
        if self.streams.is_none() && connection.is_http2() {
            self.streams = Some(Box::default());
        }
        self.streams.is_some()
    }

    /// Reads once, and goes on with the streams.
    pub(super) fn receive_frames(
        &mut self,
        connection: &mut Connection,
        room: &mut [u8],
        cipher: &mut [u8],
    ) -> StreamRead {
        if matches!(self.stage, RequestStage::Closed(_)) {
            return StreamRead::Blocked;
        }
        let wants = self.streams.as_ref().is_some_and(|one| one.wants_input());
        let outcome = match self.has_more() {
            true => StreamRead::Data(0),
            false if wants => {
                let plain = room.len().min(PLAIN_BYTES);
                connection.read(&mut room[..plain], &mut cipher[..plain / 2])
            }
            false => {
                // What is to be sent goes first.
                self.retry_at = Some(instant_now() + RETRY);
                StreamRead::Blocked
            }
        };
        self.take_frames(outcome, connection, room)
    }

    /// Goes on with what was read into the room; what it has of a body stands there then.
    pub(super) fn take_frames(
        &mut self,
        outcome: StreamRead,
        connection: &Connection,
        room: &mut [u8],
    ) -> StreamRead {
        let stopping = self.shared.stopping.load(Ordering::Acquire);
        let Some(streams) = &mut self.streams else {
            return outcome;
        };
        match outcome {
            StreamRead::Data(count) | StreamRead::Drained(count) => {
                streams.feed(&room[..count]);
                room[..count].fill(0);
            }
            StreamRead::Blocked => {}
            StreamRead::Closed | StreamRead::Failed(_) => {
                streams.close_input();
                streams.drive();
                self.forget_replies();
                return outcome;
            }
        }
        if stopping {
            streams.leave();
        }
        streams.drive();
        if self.end_streams() {
            return StreamRead::Drained(0);
        }
        self.begin_ready(connection.peer());
        let filled = self.take_pieces(room);
        let idle = filled == 0 && !self.is_settled();
        match outcome {
            _ if self.has_more() => StreamRead::Data(filled),
            StreamRead::Drained(_) => StreamRead::Drained(filled),
            StreamRead::Blocked if idle => StreamRead::Blocked,
            StreamRead::Blocked => StreamRead::Drained(filled),
            _ => StreamRead::Data(filled),
        }
    }

    /// True if the open request is complete.
    fn is_settled(&self) -> bool {
        matches!(&self.stage, RequestStage::Body(request) if request.is_complete())
    }

    /// True if there is something to go on with though nothing is read.
    fn has_more(&self) -> bool {
        let Some(streams) = &self.streams else {
            return false;
        };
        match &self.stage {
            RequestStage::Body(request) if request.is_complete() => streams.is_ready(),
            RequestStage::Body(request) if request.waits_since.is_some() => false,
            RequestStage::Body(request) => request.body.is_waiting() || streams.has_some(),
            RequestStage::Head => streams.is_ready() && !self.owes_much(),
            RequestStage::Closed(_) => false,
        }
    }

    /// True if so much waits to be answered that no more requests are begun.
    fn owes_much(&self) -> bool {
        let unsent = self.streams.as_ref().map_or(0, |one| one.unsent_bytes());
        self.replies.len() >= REPLIES_MAX || unsent >= UNSENT_BYTES_MAX
    }

    /// Gives the streams their turn whose bodies have come, up to one that is read on.
    fn begin_ready(&mut self, peer: IpAddr) {
        let settings = self.shared.settings();
        if let Some(streams) = &mut self.streams {
            streams.note_brief(|head| {
                let request = asked(head, &settings, peer);
                !matches!(request, HeadRequest::Events(_) | HeadRequest::Poll(..))
            });
        }
        while matches!(self.stage, RequestStage::Head) {
            if self.owes_much() {
                self.retry_at = Some(instant_now() + RETRY);
                return;
            }
            let next = self.streams.as_mut().and_then(|one| one.next_ready());
            let Some(request) = next else {
                return;
            };
            self.begin_stream(request, peer);
        }
    }

    fn begin_stream(&mut self, request: StreamRequest, peer: IpAddr) {
        match request.head() {
            Ok(head) => {
                self.begun = Some(request.begun);
                self.begin(&head, peer);
            }
            Err(fault) => return self.refuse_stream(request, ReplyContent::Http(fault.status())),
        }
        if let Some(streams) = &mut self.streams {
            streams.begin(request, self.requests);
        }
        if matches!(self.stage, RequestStage::Body(_)) {
            self.due = Some(instant_now() + BODY_MAX);
        }
    }

    /// Answers a stream whose turn has not come.
    fn refuse_stream(&mut self, request: StreamRequest, content: ReplyContent) {
        self.requests += 1;
        let reply = HecReply {
            content,
            ack_id: None,
            begun: request.begun,
            close: false,
            head_only: false,
            fields: String::new(),
            old: false,
        };
        self.replies.push_back(PendingReply {
            number: self.requests,
            reply,
            ack: None,
            counts: None,
            waits: false,
        });
        if let Some(streams) = &mut self.streams {
            streams.owe(request, self.requests);
        }
    }

    /// Reads of the current stream into the room; how many bytes of its body stand there.
    fn take_pieces(&mut self, room: &mut [u8]) -> usize {
        let waits = self.waits();
        let (RequestStage::Body(request), Some(streams)) = (&mut self.stage, &mut self.streams)
        else {
            return 0;
        };
        if waits || request.is_complete() {
            return 0;
        }
        if request.body.is_waiting() {
            return self.take_body(room, 0);
        }
        let window = request.read_bytes(room.len());
        match streams.read(&mut room[..window]) {
            (0, None) => 0,
            (count, None) => self.take_body(room, count),
            (count, Some(StreamEnd::Complete)) => {
                request.body.end_behind(count as u64);
                self.take_body(room, count)
            }
            (_, Some(StreamEnd::Reset)) => {
                self.abandon(ReplyContent::Http(400));
                0
            }
        }
    }

    /// Ends the open request, of which no more comes. Its client hears of it if its stream is
    /// still there.
    fn abandon(&mut self, content: ReplyContent) {
        self.due = None;
        let RequestStage::Body(request) = &mut self.stage else {
            return;
        };
        request.fail(content);
        request.body.end_behind(0);
        // Nothing is left to be broken.
        let _ = request.body.take(&mut [], 0);
        if let Some(place) = request.ack.take() {
            self.shared.acks.forget(&place);
        }
    }

    /// Ends streams of which nothing comes.
    fn drop_slow(&mut self) {
        let now = instant_now();
        if self.due.is_some_and(|due| now >= due) {
            self.abandon(TIMED_OUT);
        }
        let next = |one: &mut Self| one.streams.as_mut()?.next_slow(now, BODY_MAX);
        while let Some(request) = next(self) {
            self.refuse_stream(request, TIMED_OUT);
        }
    }

    /// True if the connection is over: what waits for an answer gets none.
    fn end_streams(&mut self) -> bool {
        let Some(fault) = self.streams.as_ref().and_then(|one| one.end()) else {
            return false;
        };
        self.forget_replies();
        if !matches!(self.stage, RequestStage::Closed(_)) {
            self.abandon(ReplyContent::Http(400));
            self.stage = RequestStage::Closed(fault.then_some(EndReason::HttpRequest));
        }
        true
    }

    /// Nobody is there any more who could be answered.
    fn forget_replies(&mut self) {
        for pending in self.replies.drain(..) {
            if let Some((place, _)) = &pending.ack {
                self.shared.acks.forget(place);
            }
        }
    }

    /// Writes frames until there are no more or the connection has no room.
    pub(super) fn pump_frames(&mut self, connection: &mut Connection) -> Result<(), EndReason> {
        self.drop_slow();
        loop {
            self.written += connection.write(&self.out[self.written..])?;
            if self.written < self.out.len() {
                return Ok(());
            }
            self.out.clear();
            self.written = 0;
            self.answer_streams();
            let Some(streams) = &mut self.streams else {
                return Ok(());
            };
            streams.drive();
            streams.take_output(&mut self.out);
            self.end_streams();
            if self.out.is_empty() {
                if self.out.capacity() > IDLE_BYTES {
                    self.out = Vec::new();
                }
                return Ok(());
            }
        }
    }

    /// Hands on the answers that wait for nothing any more.
    fn answer_streams(&mut self) {
        let Some(streams) = &mut self.streams else {
            return;
        };
        while let Some(at) = self.replies.iter().position(|one| !one.waits)
            && let Some(pending) = self.replies.remove(at)
        {
            let reply = &pending.reply;
            let (fields, body) = reply.parts();
            if streams.answer(pending.number, reply.content.status(), &fields, body) {
                let counts = pending.counts.as_deref();
                self.shared.answered(counts, &reply.content, reply.begun);
            }
        }
    }

    /// Says that we are about to close: streams of which nothing was taken are answered so.
    pub(super) fn hint_streams(&mut self) {
        if self.streams.is_none() {
            return;
        }
        let next = |one: &mut Self| one.streams.as_mut()?.next_waiting();
        while let Some(request) = next(self) {
            let content = ReplyContent::Hec(HecAnswer::ShuttingDown, None);
            self.refuse_stream(request, content);
        }
        self.answer_streams();
        if let Some(streams) = &mut self.streams {
            streams.leave_now();
        }
    }
}
