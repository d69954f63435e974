//! Opening of a request: from its head to what is done with its body.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use inrush_codec::hec::HecAnswer;
use inrush_event::instant_now;
use inrush_transport::http::head::{BodyLength, RequestHead};
use inrush_transport::http::reader::BodyReader;

use super::acks::{AckPlace, AckTableFull};
use super::connection::{HecConnection, OpenPoll, OpenRequest, RequestStage, too_large};
use super::events::EventReader;
use super::gather::GatheredBytes;
use super::replies::PendingReply;
use super::reply::{HecReply, ReplyContent};
use super::request::{self, EventUpload, HeadRequest};
use super::settings::{HecSettings, PeerFault};

/// Way in which a request is taken.
#[derive(Default)]
struct RequestOpening {
    upload: Option<Box<EventUpload>>,
    poll: Option<OpenPoll>,
    /// True if gzip has compressed its body.
    gzip: bool,
    ack: Option<AckPlace>,
    fault: Option<ReplyContent>,
}

impl RequestOpening {
    fn refused(fault: ReplyContent) -> Self {
        Self {
            fault: Some(fault),
            ..Self::default()
        }
    }
}

/// Fields for the browser whose page sends, if it may.
fn cors_fields(head: &RequestHead<'_>, settings: &HecSettings) -> String {
    let preflight = head.method == "OPTIONS";
    let fields = |origin| settings.cors.fields(origin, preflight, "POST, OPTIONS");
    head.field("origin").and_then(fields).unwrap_or_default()
}

/// Field with the cookie of the request's channel, as Splunk's `channel_cookie` has it.
fn cookie_field(head: &RequestHead<'_>, settings: &HecSettings) -> String {
    let name = settings.channel_cookie.as_ref();
    let field = |name| {
        Some(format!(
            "Set-Cookie: {name}={}\r\n",
            request::channel_of(head)?
        ))
    };
    name.and_then(field).unwrap_or_default()
}

impl HecConnection {
    /// Begins the request of a head.
    pub(super) fn begin(&mut self, head: &RequestHead<'_>, peer: IpAddr) {
        let settings = self.shared.settings();
        self.requests += 1;
        let stopping = self.shared.stopping.load(Ordering::Acquire);
        let mut reply = HecReply {
            content: ReplyContent::Hec(HecAnswer::Success, None),
            ack_id: None,
            begun: self.begun.take().unwrap_or_else(instant_now),
            close: !head.keep_alive || stopping,
            head_only: head.method == "HEAD",
            fields: cors_fields(head, &settings) + &cookie_field(head, &settings),
            old: head.is_old,
        };
        let RequestOpening {
            upload,
            poll,
            gzip,
            ack,
            fault,
        } = self.opening(head, &settings, peer);
        let token = upload.as_ref().map(|upload| &upload.token);
        let token = token.or(poll.as_ref().map(|(token, ..)| token));
        let counts = match token {
            Some(token) => Some(Arc::clone(&token.counts)),
            None => request::counts_of(head, &settings),
        };
        counts.iter().for_each(|counts| counts.seen());
        if let Some(content) = &fault {
            // Who waits with the body sends none once it is answered, or sends it all the same.
            reply.close |= head.expects_continue || *content == too_large(&settings);
            let streamed = matches!(head.body, BodyLength::Streamed(_));
            if reply.close || streamed || head.body == BodyLength::Bytes(0) {
                reply.content = content.clone();
                return self.answer(PendingReply {
                    number: self.requests,
                    reply,
                    ack: None,
                    counts,
                    waits: false,
                });
            }
        }
        self.owes_continue = head.expects_continue;
        let reader = |upload: Box<EventUpload>| {
            let reader = EventReader::new(upload.format, settings.event_bytes_max);
            (upload, reader)
        };
        let (bytes_max, ratio_max) = (settings.content_bytes_max, settings.ratio_max);
        self.stage = RequestStage::Body(Box::new(OpenRequest {
            number: self.requests,
            body: BodyReader::new(head.body, gzip, bytes_max, ratio_max),
            upload: upload.map(reader),
            poll,
            counts,
            peer,
            ack,
            settings,
            reply,
            unseen: 0,
            kept: 0,
            gathered: GatheredBytes::default(),
            events: 0,
            fault,
            refused: false,
            waits_since: None,
            admitted: false,
        }));
    }

    /// Reads from a head of a peer what is to be done.
    fn opening(
        &self,
        head: &RequestHead<'_>,
        settings: &HecSettings,
        peer: IpAddr,
    ) -> RequestOpening {
        let hec = |answer| RequestOpening::refused(ReplyContent::Hec(answer, None));
        let request = request::asked(head, settings, peer);
        let stopping = self.shared.stopping.load(Ordering::Acquire);
        let too_long = match head.body {
            BodyLength::Bytes(bytes) | BodyLength::Streamed(Some(bytes)) => {
                bytes > settings.content_bytes_max
            }
            BodyLength::Chunked | BodyLength::Streamed(None) => false,
        };
        match request {
            HeadRequest::Events(_) | HeadRequest::Health if stopping => {
                hec(HecAnswer::ShuttingDown)
            }
            HeadRequest::Health => hec(self.shared.health(settings)),
            HeadRequest::Events(_) | HeadRequest::Poll(..) if too_long => {
                RequestOpening::refused(too_large(settings))
            }
            HeadRequest::Events(upload) => self.upload(upload, settings),
            HeadRequest::Poll(token, channel, gzip) => RequestOpening {
                poll: Some((token, channel, Vec::new())),
                gzip,
                ..RequestOpening::default()
            },
            HeadRequest::S2s => {
                self.shared.note_fault(peer, PeerFault::S2s);
                RequestOpening::refused(ReplyContent::NotFound)
            }
            HeadRequest::Answer(content) => {
                if content == ReplyContent::Hec(HecAnswer::InvalidToken, None) {
                    self.shared.note_fault(peer, PeerFault::UnknownToken);
                }
                RequestOpening::refused(content)
            }
        }
    }

    /// Opens a request with events, and gives it the number of its acknowledgement.
    fn upload(&self, upload: Box<EventUpload>, settings: &HecSettings) -> RequestOpening {
        let token = &upload.token;
        if !token.rate.admits(instant_now()) {
            return RequestOpening {
                fault: Some(ReplyContent::Hec(settings.busy, None)),
                upload: Some(upload),
                ..RequestOpening::default()
            };
        }
        let acks = &self.shared.acks;
        let ack = upload
            .channel
            .map(|channel| acks.give(&token.name, channel, settings.ack_limits));
        let full = matches!(ack, Some(Err(AckTableFull)));
        RequestOpening {
            ack: ack.and_then(Result::ok),
            fault: full.then_some(ReplyContent::Hec(settings.busy_acks, None)),
            gzip: upload.gzip,
            upload: Some(upload),
            poll: None,
        }
    }

    /// Answers an open request of which nothing was taken that we are about to close. By HTTP/1,
    /// `Connection: close` says it.
    pub(super) fn refuse_untaken(&mut self) {
        if !matches!(&self.stage, RequestStage::Body(request) if request.is_untaken()) {
            return;
        }
        let stage = std::mem::replace(&mut self.stage, RequestStage::Closed(None));
        if let RequestStage::Body(mut request) = stage {
            request.reply.close = true;
            request.reply.content = ReplyContent::Hec(HecAnswer::ShuttingDown, None);
            if let Some(place) = request.ack.take() {
                self.shared.acks.forget(&place);
            }
            self.answer(PendingReply {
                number: request.number,
                reply: request.reply,
                ack: None,
                counts: request.counts,
                waits: false,
            });
        }
    }
}
