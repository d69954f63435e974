//! Answers of a connection: each in its turn, once the events of its request are durable.

use std::sync::Arc;

use inrush_codec::hec::HecAnswer;
use inrush_event::{instant_now, limits};
use inrush_ingest::batch_writer::acks::PendingAcks;
use inrush_transport::stream::EndReason;
use serde::Deserialize;

use super::acks::{AckPlace, ChannelId};
use super::connection::{HecConnection, LAST, OpenRequest, RequestStage};
use super::counts::TokenCounts;
use super::options::AckRule;
use super::reply::{HecReply, ReplyContent};
use super::settings::HecShared;
use super::tokens::HecToken;
use crate::mutant::{Mutant, is_on};

/// An answer that waits for its turn.
pub(super) struct PendingReply {
    /// Number of its request.
    pub(super) number: u64,
    pub(super) reply: HecReply,
    /// Its acknowledgement, until its events are durable.
    pub(super) ack: Option<(AckPlace, AckRule)>,
    /// Counts of its token, if it came with a good one.
    pub(super) counts: Option<Arc<TokenCounts>>,
    /// True until its last event is durable.
    pub(super) waits: bool,
}

impl PendingReply {
    /// Answers that not all of its events are durable: it has no acknowledgement any more.
    fn refuse(&mut self, answer: HecAnswer, shared: &HecShared) {
        self.reply.content = ReplyContent::Hec(answer, None);
        self.reply.ack_id = None;
        if let Some((place, _)) = self.ack.take() {
            shared.acks.forget(&place);
        }
    }
}

impl HecConnection {
    /// Gives an answer its turn. After one that ends the connection nothing more is read; a stream
    /// ends without the others.
    pub(super) fn answer(&mut self, pending: PendingReply) {
        self.stage = match pending.reply.close && self.streams.is_none() {
            true => RequestStage::Closed(None),
            false => RequestStage::Head,
        };
        self.owes_continue = false;
        self.replies.push_back(pending);
    }

    /// Answers a fault of HTTP, after which the connection cannot be read on.
    pub(super) fn refuse(&mut self, status: u16) {
        self.owes_continue = false;
        // No event of an earlier request counts for it.
        self.requests += 1;
        let closed = RequestStage::Closed(Some(EndReason::HttpRequest));
        let counts = match std::mem::replace(&mut self.stage, closed) {
            RequestStage::Body(request) => {
                if let Some(place) = &request.ack {
                    self.shared.acks.forget(place);
                }
                request.counts
            }
            RequestStage::Head | RequestStage::Closed(_) => None,
        };
        self.replies.push_back(PendingReply {
            number: self.requests,
            reply: HecReply {
                content: ReplyContent::Http(status),
                ack_id: None,
                begun: self.begun.take().unwrap_or_else(instant_now),
                close: true,
                head_only: false,
                fields: String::new(),
                old: false,
            },
            ack: None,
            counts,
            waits: false,
        });
        self.due = None;
    }

    /// The request is complete: its answer waits for its last event.
    pub(super) fn finish_request(&mut self, acks: &mut PendingAcks) {
        let RequestStage::Body(request) = std::mem::replace(&mut self.stage, RequestStage::Head)
        else {
            return;
        };
        let OpenRequest {
            number,
            settings,
            upload,
            poll,
            counts,
            peer,
            ack,
            mut reply,
            fault,
            refused,
            events,
            ..
        } = *request;
        let mut rule = AckRule::Off;
        if let Some((upload, reader)) = upload {
            self.cut_bytes += reader.cut_bytes();
            rule = upload.token.ack;
            upload.token.counts.senders.note(peer, events);
        }
        let poll = poll.map(|(token, channel, body)| self.poll(&token, channel, &body));
        reply.content = match fault.or(poll) {
            Some(content) => content,
            None if events == 0 => ReplyContent::Hec(HecAnswer::NoData, None),
            None => ReplyContent::Hec(self.shared.success(&settings, ack.is_some()), None),
        };
        let waits = events > 0;
        if refused {
            reply.content = ReplyContent::Hec(self.shared.no_room(&settings), None);
        }
        // A part that the queue refused is not to be acknowledged with the rest.
        let ack = ack.and_then(|place| match waits && !refused {
            true => Some((place, rule)),
            false => {
                self.shared.acks.forget(&place);
                None
            }
        });
        reply.ack_id = ack.as_ref().map(|(place, _)| place.number());
        if waits {
            acks.push(self.id, number, LAST);
        }
        self.answer(PendingReply {
            number,
            reply,
            ack,
            counts,
            waits,
        });
    }

    /// The answer to a poll for acknowledgements.
    fn poll(&self, token: &HecToken, channel: ChannelId, body: &[u8]) -> ReplyContent {
        #[derive(Deserialize)]
        struct AckPoll {
            acks: Vec<u64>,
        }
        let Ok(AckPoll { acks }) = serde_json::from_slice(body) else {
            return ReplyContent::Hec(HecAnswer::InvalidFormat, None);
        };
        let settled = || self.shared.log.settled_end();
        let text = self.shared.acks.poll(&token.name, channel, &acks, settled);
        ReplyContent::Acks(text)
    }

    /// Answers what waits for a disk that fails. It may become durable all the same.
    pub(super) fn give_up_waiting(&mut self) {
        if !self.shared.disk_fails() {
            return;
        }
        for pending in self.replies.iter_mut().filter(|pending| pending.waits) {
            pending.waits = false;
            pending.refuse(HecAnswer::InternalError, &self.shared);
        }
    }

    /// Notes the fate of a request, or of a part of one.
    pub(super) fn settle_request(&mut self, number: u64, tag: u32, refused: bool) {
        let refused = refused && !is_on(Mutant::AckRefused);
        if let RequestStage::Body(request) = &mut self.stage
            && request.number == number
        {
            request.refused |= refused;
            return;
        }
        let mut replies = self.replies.iter_mut();
        let Some(pending) = replies.find(|pending| pending.number == number) else {
            return;
        };
        if refused {
            let answer = self.shared.no_room(&self.shared.settings());
            pending.refuse(answer, &self.shared);
        }
        if tag != LAST && !is_on(Mutant::AnswerPart) {
            return;
        }
        pending.waits = false;
        if let Some((place, rule)) = pending.ack.take() {
            let delivered = rule == AckRule::Delivered && !is_on(Mutant::SettledEarly);
            let settled_at = delivered.then(|| self.shared.log.next_event());
            self.shared.acks.durable(&place, settled_at);
        }
    }

    /// Writes the answers whose turn it is, and behind them that the body of the open request may
    /// come (RFC 9110 section 10.1.1).
    pub(super) fn fill(&mut self) {
        while self.out.len() < limits::HTTP_ANSWER_BYTES
            && let Some(pending) = self.replies.pop_front_if(|pending| !pending.waits)
        {
            pending.reply.write(&mut self.out);
            let (counts, reply) = (pending.counts.as_deref(), &pending.reply);
            self.shared.answered(counts, &reply.content, reply.begun);
        }
        if self.replies.is_empty() && std::mem::take(&mut self.owes_continue) {
            self.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
    }
}
