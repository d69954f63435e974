//! HTTP/2 (RFC 9113) of one connection, between its bytes and its requests.
//!
//! `h2` has the grammar and the states of streams. Here it reads and writes memory: the caller
//! feeds what came, and takes what is to be sent.
//!
//! # What it guarantees
//! * A stream's window opens only as the caller reads its body: what a client can make us keep is
//!   bounded by the windows.
//! * The window of the connection has room for those of all streams, so that one which waits for
//!   its turn never keeps another from going on.
//! * A stream has its turn once its body is here, or half its window: a slow client of a proxy
//!   holds back the others of the connection only with a request of that size.
//!
//! # States
//! A stream waits for its turn, then is the current one, whose body is read, then waits for its
//! answer. After a fault of the peer, or the end of the connection, nothing more is done; what is
//! to be sent can still be taken.
//!
//! # Limits
//! [`STREAMS_MAX`] streams at once with a window of [`STREAM_WINDOW_BYTES`] each,
//! [`HEADS_BYTES_MAX`] of heads, [`OUTPUT_BYTES_MAX`] to be sent. `h2` ends connections that reset
//! streams, or send tiny frames, in bulk.

mod frame_place;
mod pipe;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::server::{self, Builder, Handshake, SendResponse};
use h2::{Reason, SendStream};
use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use inrush_event::instant_now;

use self::frame_place::FramePlace;
use self::pipe::PipeEnd;
use self::stream::StreamBody;
pub use self::stream::{StreamEnd, StreamRequest};
use crate::http::head::{HEAD_BYTES_MAX, RequestHead};

/// Streams of a connection at once: as many as clients open that do not know yet how many they may
/// (RFC 9113 section 6.5.2). Those beyond are refused.
pub const STREAMS_MAX: u32 = 100;

/// Bytes of a body that may come before any is read.
pub const STREAM_WINDOW_BYTES: u32 = 64 * 1024;

/// Bytes of the heads that wait for their turn; a stream beyond is refused, and may come again.
pub const HEADS_BYTES_MAX: usize = 4 * HEAD_BYTES_MAX;

/// Bytes to be sent beyond which nothing is read: a peer that reads nothing is owed no more.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// Streams that their client may reset before they were seen. They come in one read.
const UNSEEN_RESETS_MAX: usize = 20;

/// Streams that may end by a fault of the client's.
const FAULTY_STREAMS_MAX: usize = 100;

/// State of the session.
enum Session {
    /// The client's preface has not come.
    Opening(Box<Handshake<PipeEnd>>),
    Open(Box<server::Connection<PipeEnd, Bytes>>),
    /// True if a fault of the peer has ended it.
    Over(bool),
}

/// A connection of HTTP/2.
pub struct Http2 {
    pipe: PipeEnd,
    session: Session,
    /// Streams that wait for their turn.
    waiting: VecDeque<StreamRequest>,
    /// The stream whose body is read, with the number of its request.
    current: Option<(u64, StreamBody)>,
    /// Streams that wait for their answer, with the numbers of their requests.
    owed: Vec<(u64, SendResponse<Bytes>)>,
    /// Bodies of answers that wait for the window of the client.
    unsent: Vec<(SendStream<Bytes>, Bytes)>,
    place: FramePlace,
    /// Time at which the head began that has come in part.
    head_since: Option<Instant>,
    /// True once the client was told that we are about to close.
    leaving: bool,
}

impl Default for Http2 {
    fn default() -> Self {
        let pipe = PipeEnd::default();
        let opening = Builder::new()
            .max_concurrent_streams(STREAMS_MAX)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(STREAMS_MAX * STREAM_WINDOW_BYTES)
            .max_header_list_size(HEAD_BYTES_MAX as u32)
            .max_pending_accept_reset_streams(UNSEEN_RESETS_MAX)
            .max_local_error_reset_streams(Some(FAULTY_STREAMS_MAX))
            .max_send_buffer_size(OUTPUT_BYTES_MAX)
            .handshake(pipe.clone());
        Self {
            pipe,
            session: Session::Opening(Box::new(opening)),
            waiting: VecDeque::new(),
            current: None,
            owed: Vec::new(),
            unsent: Vec::new(),
            place: FramePlace::START,
            head_since: None,
            leaving: false,
        }
    }
}

impl Drop for Http2 {
    /// After a fault of `h2` within its lock, what is left of it can only be dropped while a thread
    /// unwinds. The worker of the connection has others.
    fn drop(&mut self) {
        let _ = catch_unwind(AssertUnwindSafe(|| self.over(false)));
    }
}

impl Http2 {
    /// Takes bytes of the peer.
    pub fn feed(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.place.pass(bytes);
        let since = self.head_since.take();
        let in_fields = self.place.in_fields;
        self.head_since = in_fields.then(|| since.unwrap_or_else(instant_now));
        self.pipe.lock().input.extend_from_slice(bytes);
    }

    /// The peer sends no more.
    pub fn close_input(&mut self) {
        self.pipe.lock().closed = true;
    }

    /// True if all that came is used: more may be read of the peer.
    pub fn wants_input(&self) -> bool {
        self.pipe.lock().input.is_empty()
    }

    /// Goes on with what came, and with what is to be sent.
    pub fn drive(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        if let Session::Opening(opening) = &mut self.session {
            self.session = match Pin::new(&mut **opening).poll(&mut context) {
                Poll::Ready(Ok(connection)) => Session::Open(Box::new(connection)),
                Poll::Ready(Err(error)) => Session::Over(!error.is_io()),
                Poll::Pending => return,
            };
        }
        loop {
            self.accept(&mut context);
            if !self.send_bodies() {
                break;
            }
        }
        self.gather(&mut context);
    }

    /// Reads and writes frames, and takes new streams.
    fn accept(&mut self, context: &mut Context<'_>) {
        while let Session::Open(connection) = &mut self.session {
            match connection.poll_accept(context) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    let mut request = StreamRequest::new(request, respond, context);
                    let heads = self.waiting.iter().map(|one| one.head_bytes);
                    if heads.sum::<usize>() + request.head_bytes > HEADS_BYTES_MAX {
                        request.respond.send_reset(Reason::REFUSED_STREAM);
                        continue;
                    }
                    self.waiting.push_back(request);
                }
                Poll::Ready(Some(Err(error))) => self.over(!error.is_io() && !error.is_remote()),
                Poll::Ready(None) => self.over(false),
                Poll::Pending => return,
            }
        }
    }

    fn over(&mut self, fault: bool) {
        self.session = Session::Over(fault);
        self.waiting.clear();
        self.current = None;
        self.owed.clear();
        self.unsent.clear();
    }

    /// Takes in what has come of bodies, and forgets streams that were reset before their turn.
    fn gather(&mut self, context: &mut Context<'_>) {
        if let Some((_, body)) = &mut self.current {
            body.gather(context);
        }
        for request in &mut self.waiting {
            if request.body.gather(context) {
                request.heard = instant_now();
            }
        }
        let is_reset = |one: &StreamRequest| one.body.end == Some(StreamEnd::Reset);
        self.waiting.retain(|one| !is_reset(one));
    }

    /// Hands on what the windows of the client have room for; true if that was anything.
    fn send_bodies(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let mut any = false;
        self.unsent.retain_mut(|(stream, left)| {
            let count = stream.capacity().min(left.len());
            if count == 0 {
                return stream.poll_reset(&mut context).is_pending();
            }
            any = true;
            let piece = left.split_to(count);
            stream.send_data(piece, left.is_empty()).is_ok() && !left.is_empty()
        });
        any
    }

    /// The end of the connection, true if by a fault of the peer; `None` while it goes on.
    pub fn end(&self) -> Option<bool> {
        match self.session {
            Session::Opening(_) | Session::Open(_) => None,
            Session::Over(fault) => Some(fault),
        }
    }

    /// Finds out which of the waiting streams can be answered without their body.
    pub fn note_brief(&mut self, is_brief: impl Fn(&RequestHead<'_>) -> bool) {
        let unknown = |one: &&mut StreamRequest| one.is_brief.is_none() && !one.is_ready();
        for request in self.waiting.iter_mut().filter(unknown) {
            let brief = request.head().map_or(true, |head| is_brief(&head));
            request.is_brief = Some(brief);
        }
    }

    /// True if the turn of a stream may come.
    pub fn is_ready(&self) -> bool {
        self.waiting.iter().any(StreamRequest::is_ready)
    }

    /// True if no stream waits for its turn.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The stream whose turn it is.
    pub fn next_ready(&mut self) -> Option<StreamRequest> {
        let at = self.waiting.iter().position(StreamRequest::is_ready)?;
        self.waiting.remove(at)
    }

    /// A stream that waits for its turn, ready or not.
    pub fn next_waiting(&mut self) -> Option<StreamRequest> {
        self.waiting.pop_front()
    }

    /// True if a head has been coming for longer than it may, or nothing has come of the body of a
    /// stream that waits.
    pub fn is_slow(&self, now: Instant, head_max: Duration, body_max: Duration) -> bool {
        let head = self.head_since.is_some_and(|since| now >= since + head_max);
        let since = now.checked_sub(body_max);
        head || since.is_some_and(|since| self.waiting.iter().any(|one| one.is_slow(since)))
    }

    /// A stream that waits and has had no byte for so long.
    pub fn next_slow(&mut self, now: Instant, most: Duration) -> Option<StreamRequest> {
        let since = now.checked_sub(most)?;
        let at = self.waiting.iter().position(|one| one.is_slow(since))?;
        self.waiting.remove(at)
    }

    /// The body of the stream is read from now on; its request has the number.
    pub fn begin(&mut self, request: StreamRequest, number: u64) {
        self.current = Some((number, request.body));
        self.owed.push((number, request.respond));
    }

    /// The stream is answered without its body; its request has the number.
    pub fn owe(&mut self, request: StreamRequest, number: u64) {
        self.owed.push((number, request.respond));
    }

    /// True if [`Self::read`] gives bytes or the end of the current stream.
    pub fn has_some(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|(_, body)| body.has_some())
    }

    /// Reads the body of the current stream: how many bytes stand in the room, and its end if that
    /// is behind them.
    pub fn read(&mut self, room: &mut [u8]) -> (usize, Option<StreamEnd>) {
        let Some((_, body)) = &mut self.current else {
            return (0, Some(StreamEnd::Reset));
        };
        let count = body.take(room);
        let end = body.end.filter(|_| body.bytes.is_empty());
        (count, end)
    }

    /// Answers a request. `fields` are lines of a head. False if its client waits for it no more.
    pub fn answer(&mut self, number: u64, status: u16, fields: &str, body: Vec<u8>) -> bool {
        self.current.take_if(|(current, _)| *current == number);
        let Some(at) = self.owed.iter().position(|(owed, _)| *owed == number) else {
            return false;
        };
        let (_, mut respond) = self.owed.swap_remove(at);
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
        for (name, value) in fields.lines().filter_map(|line| line.split_once(": ")) {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
                response.headers_mut().append(name, value);
            }
        }
        let Ok(mut stream) = respond.send_response(response, body.is_empty()) else {
            return false;
        };
        if !body.is_empty() {
            stream.reserve_capacity(body.len());
            self.unsent.push((stream, body.into()));
        }
        true
    }

    /// Bytes of answers that wait for the client's window.
    pub fn unsent_bytes(&self) -> usize {
        self.unsent.iter().map(|(_, left)| left.len()).sum()
    }

    /// Tells the client to open no more streams; those that are open go on.
    pub fn leave(&mut self) {
        if let Session::Open(connection) = &mut self.session
            && !std::mem::replace(&mut self.leaving, true)
        {
            connection.graceful_shutdown();
        }
    }

    /// Tells the client that the connection ends, with all of its streams.
    pub fn leave_now(&mut self) {
        self.drive();
        if let Session::Open(connection) = &mut self.session {
            connection.abrupt_shutdown(Reason::NO_ERROR);
        }
        self.drive();
    }

    /// Moves what is to be sent into `out`, which is empty.
    pub fn take_output(&mut self, out: &mut Vec<u8>) {
        std::mem::swap(&mut self.pipe.lock().output, out);
    }

    /// True if all that is to be sent was taken.
    pub fn is_flushed(&self) -> bool {
        self.unsent.is_empty() && self.pipe.lock().output.is_empty()
    }

    /// Bytes of memory that it keeps for its peer.
    pub fn memory_bytes(&self) -> usize {
        let of_waiting = |one: &StreamRequest| one.head_bytes + one.body.bytes.capacity();
        let waiting: usize = self.waiting.iter().map(of_waiting).sum();
        let current = self.current.as_ref();
        let current = current.map_or(0, |(_, body)| body.bytes.capacity());
        let pipe = self.pipe.lock();
        let pipes = pipe.input.capacity() + pipe.output.capacity();
        waiting + current + self.unsent_bytes() + pipes + self.place.bytes
    }
}
