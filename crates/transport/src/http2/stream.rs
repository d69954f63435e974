//! Streams: requests, and their bodies as far as they have come.

use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::{EXPECT, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use inrush_event::instant_now;

use super::STREAM_WINDOW_BYTES;
use crate::http::head::{HEADERS_MAX, HeadFault, RequestHead};

/// Bytes that a body's memory grows by.
pub(super) const GROWTH_BYTES: usize = 4096;

/// Bytes that a field takes beside its name and value (RFC 9113 section 6.5.2).
const FIELD_BYTES: usize = 32;

/// End of a stream's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamEnd {
    /// Its client has sent all of it.
    Complete,
    /// Its client has reset the stream, or sent what may not come.
    Reset,
}

/// Body of a stream: what has come of it.
pub(super) struct StreamBody {
    stream: RecvStream,
    /// Bytes that came.
    pub(super) bytes: Vec<u8>,
    /// Bytes of it that were read.
    read: usize,
    pub(super) end: Option<StreamEnd>,
}

impl StreamBody {
    /// Takes in what has come; true if anything has.
    pub(super) fn gather(&mut self, context: &mut Context<'_>) -> bool {
        let mut any = false;
        while self.end.is_none()
            && let Poll::Ready(piece) = self.stream.poll_data(context)
        {
            any = true;
            match piece {
                // Copied: a tiny piece keeps the whole read alive that it came in.
                Some(Ok(piece)) => self.push(&piece),
                Some(Err(_)) => self.end = Some(StreamEnd::Reset),
                // Fields behind the body are left where they are.
                None => self.end = Some(StreamEnd::Complete),
            }
        }
        any
    }

    fn push(&mut self, piece: &[u8]) {
        let free = self.bytes.capacity() - self.bytes.len();
        if free < piece.len() {
            self.bytes
                .reserve_exact(piece.len().next_multiple_of(GROWTH_BYTES));
        }
        self.bytes.extend_from_slice(piece);
    }

    /// Moves what there is into the room, and lets the client send as much again.
    pub(super) fn take(&mut self, room: &mut [u8]) -> usize {
        let count = (self.bytes.len() - self.read).min(room.len());
        room[..count].copy_from_slice(&self.bytes[self.read..self.read + count]);
        self.read += count;
        if self.read == self.bytes.len() {
            self.bytes.clear();
            self.read = 0;
        }
        // A stream that has ended has no window any more.
        let _ = self.stream.flow_control().release_capacity(count);
        count
    }

    /// True if reading it gives bytes or an end.
    pub(super) fn has_some(&self) -> bool {
        self.read < self.bytes.len() || self.end.is_some()
    }
}

/// A request whose turn has not come, or has just come.
pub struct StreamRequest {
    parts: Result<Parts, HeadFault>,
    pub(super) head_bytes: usize,
    pub(super) body: StreamBody,
    pub(super) respond: SendResponse<Bytes>,
    /// Time at which its head came.
    pub begun: Instant,
    /// Time at which the last bytes of it came.
    pub(super) heard: Instant,
    /// True if it can be answered without its body, once that is known.
    pub(super) is_brief: Option<bool>,
}

impl StreamRequest {
    pub(super) fn new(
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        context: &mut Context<'_>,
    ) -> Self {
        let (parts, stream) = request.into_parts();
        let fields = parts.headers.iter();
        let of_field =
            |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
        let head_bytes = fields.map(|field| FIELD_BYTES + of_field(field)).sum();
        let waits = parts.headers.get(EXPECT);
        if waits.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
            let mut go_on = Response::new(());
            *go_on.status_mut() = StatusCode::CONTINUE;
            // A stream that was reset has no answers; that is seen with its body.
            let _ = respond.send_informational(go_on);
        }
        let parts = match parts.headers.len() > HEADERS_MAX {
            true => Err(HeadFault::TooLong),
            false => Ok(parts),
        };
        let now = instant_now();
        let mut request = Self {
            parts,
            head_bytes,
            body: StreamBody {
                stream,
                bytes: Vec::new(),
                read: 0,
                end: None,
            },
            respond,
            begun: now,
            heard: now,
            is_brief: None,
        };
        request.body.gather(context);
        request
    }

    /// Its head.
    ///
    /// # Errors
    /// The fault that it is answered with.
    pub fn head(&self) -> Result<RequestHead<'_>, HeadFault> {
        let parts = self.parts.as_ref().map_err(|fault| *fault)?;
        let target = parts
            .uri
            .path_and_query()
            .map_or("", |target| target.as_str());
        let fields = parts.headers.iter();
        let fields = fields.map(|(name, value)| (name.as_str(), value.as_bytes()));
        let empty = self.body.bytes.is_empty() && self.body.end == Some(StreamEnd::Complete);
        RequestHead::of_stream(parts.method.as_str(), target, fields, empty)
    }

    /// True if so much of its body is here that its turn may come.
    pub(super) fn is_ready(&self) -> bool {
        let half = STREAM_WINDOW_BYTES as usize / 2;
        self.is_brief == Some(true) || self.body.end.is_some() || self.body.bytes.len() >= half
    }

    /// True if nothing came of it since.
    pub(super) fn is_slow(&self, since: Instant) -> bool {
        !self.is_ready() && self.heard <= since
    }
}
