//! Connection of a collector's client: its requests, one after the other, and their answers.
//!
//! # What it guarantees
//! * A request is answered with 200 once all its events are as durable as the queue promises, and
//!   in the order of its connection. One of which the queue refused a part is answered as busy,
//!   and as an internal error while the queue's disk fails: a part may be taken.
//! * Heads are read beside the batch: no token is ever in what is written to disk.
//! * Bytes behind a request are kept for the next one.
//!
//! # States
//! Between requests, in a body, or closed: nothing more is read then, and it ends with its answers.
//!
//! # Limits
//! [`UNANSWERED_MAX`] requests wait for their answer. A head has [`HEAD_MAX`] to come, a body
//! [`BODY_MAX`] between two of its bytes.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_codec::hec::HecAnswer;
use inrush_event::{instant_now, limits};
use inrush_ingest::batch_writer::FrameIntake;
use inrush_ingest::batch_writer::acks::{AckRange, AckTarget, PendingAcks};
use inrush_ingest::batch_writer::stream::StreamDecoder;
use inrush_stream::AnsweringConnection;
use inrush_transport::http::head::{HeadParse, parse_head};
use inrush_transport::http::reader::{BodyFault, BodyReader};
use inrush_transport::http::unfinished::UnfinishedHead;
use inrush_transport::http2::Http2;
use inrush_transport::stream::{Connection, EndReason, StreamRead};

use super::acks::{AckPlace, ChannelId};
use super::ahead::AheadBytes;
use super::counts::TokenCounts;
use super::events::EventReader;
use super::gather::GatheredBytes;
use super::replies::PendingReply;
use super::reply::{HecReply, ReplyContent};
use super::request::EventUpload;
use super::settings::{HecSettings, HecShared};
use super::tokens::HecToken;
use crate::mutant::{Mutant, is_on};

/// Requests of a connection that may wait for their answer; no known client sends a second one
/// before it has the first one's.
const UNANSWERED_MAX: usize = 64;

/// Time that a head may take from its first byte on.
const HEAD_MAX: Duration = Duration::from_secs(30);

/// Bytes of a poll for acknowledgements, at most: 100,000 numbers.
const POLL_BYTES_MAX: usize = 1024 * 1024;

/// Time between two bytes of a body.
pub(super) const BODY_MAX: Duration = Duration::from_secs(60);

/// A connection of HTTP/2 that cannot go on before something is written tries again this often.
pub(super) const RETRY: Duration = Duration::from_millis(5);

/// A request that waits in the middle of its body looks this often whether the disk fails.
const DISK_LOOK: Duration = Duration::from_secs(1);

/// Buffers larger than this are given back once they are empty.
pub(super) const IDLE_BYTES: usize = 4096;

/// Part of a request that an acknowledgement is for.
const PART: u32 = 0;
/// The last part: the request is answered with it.
pub(super) const LAST: u32 = 1;

/// A request whose events are being taken.
pub(super) struct OpenRequest {
    pub(super) number: u64,
    pub(super) settings: Arc<HecSettings>,
    pub(super) body: BodyReader,
    /// Reader of its events; `None`: it is refused, and its body skipped.
    pub(super) upload: Option<(Box<EventUpload>, EventReader)>,
    /// A poll for acknowledgements.
    pub(super) poll: Option<OpenPoll>,
    /// Counts of its token, if it is known.
    pub(super) counts: Option<Arc<TokenCounts>>,
    /// Address of its sender.
    pub(super) peer: IpAddr,
    /// Its acknowledgement.
    pub(super) ack: Option<AckPlace>,
    /// Its answer if all is well.
    pub(super) reply: HecReply,
    /// Bytes that were given and are to be shown to the reader.
    pub(super) unseen: usize,
    /// Bytes that were shown and are to be shown again.
    pub(super) kept: usize,
    /// Bytes of a long event that wait for more.
    pub(super) gathered: GatheredBytes,
    pub(super) events: u64,
    /// Fault that it is answered with.
    pub(super) fault: Option<ReplyContent>,
    /// True if the queue refused a part.
    pub(super) refused: bool,
    /// Time since which it waits for room before its first event is taken.
    pub(super) waits_since: Option<Instant>,
    /// True once its events are taken.
    pub(super) admitted: bool,
}

impl OpenRequest {
    /// Nothing more of it is taken; its answer comes at its end.
    pub(super) fn fail(&mut self, content: ReplyContent) {
        self.fault.get_or_insert(content);
        self.body.give_up();
        (self.unseen, self.kept) = (0, 0);
        self.gathered = GatheredBytes::default();
        // What is left of it is read at once.
        self.waits_since = None;
    }

    /// True if it comes with events, and none was taken.
    pub(super) fn is_untaken(&self) -> bool {
        self.upload.is_some() && self.fault.is_none() && self.events == 0
    }

    /// Bytes of its body to read at once into a room of so many.
    pub(super) fn read_bytes(&self, room: usize) -> usize {
        self.body.read_bytes(self.window(room))
    }

    /// True if its body has ended and all of it was shown.
    pub(super) fn is_complete(&self) -> bool {
        self.body.is_ended() && self.unseen == 0
    }

    /// Bytes of a room that may be filled at once: the other half is for what was gathered before.
    fn window(&self, room: usize) -> usize {
        match GatheredBytes::is_for(self.kept) {
            true => room / 2,
            false => room,
        }
    }

    /// Wait for room in the queue. A body under way waits as long as it takes, unless the disk
    /// fails.
    fn wait(&mut self, has_room: bool, disk_fails: bool, now: Instant) -> RoomWait {
        if has_room || self.fault.is_some() || self.upload.is_none() {
            (self.admitted, self.waits_since) = (true, None);
            return RoomWait::Over;
        }
        let since = *self.waits_since.get_or_insert(now);
        let is_long = match self.admitted {
            true => disk_fails,
            false => now.saturating_duration_since(since) >= self.settings.busy_after,
        };
        match is_long {
            true => RoomWait::TooLong,
            false => RoomWait::GoesOn,
        }
    }
}

/// Wait of a request for room in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RoomWait {
    /// There is room, or none is needed.
    Over,
    /// There is none yet.
    GoesOn,
    /// The request is refused.
    TooLong,
}

/// Part of a connection that is read.
pub(super) enum RequestStage {
    /// Head of a request.
    Head,
    /// Body of a request.
    Body(Box<OpenRequest>),
    /// Nothing more is read; the fault of the peer, if that is why.
    Closed(Option<EndReason>),
}

/// A poll for acknowledgements: its token and channel, and its body so far.
pub(super) type OpenPoll = (Arc<HecToken>, ChannelId, Vec<u8>);

/// The answer to a body that is too long.
pub(super) fn too_large(settings: &HecSettings) -> ReplyContent {
    ReplyContent::TooLarge(settings.content_bytes_max)
}

/// A connection of a client.
pub(super) struct HecConnection {
    pub(super) shared: Arc<HecShared>,
    pub(super) id: AckTarget,
    pub(super) stage: RequestStage,
    /// Time at which the first byte of the next request was read.
    pub(super) begun: Option<Instant>,
    /// The unfinished head.
    head: UnfinishedHead,
    /// Bytes that came behind a request.
    ahead: AheadBytes,
    /// Streams, if HTTP/2 is spoken.
    pub(super) streams: Option<Box<Http2>>,
    /// Time by which the next bytes of an unfinished request must come.
    pub(super) due: Option<Instant>,
    /// Time at which room is looked for again.
    pub(super) retry_at: Option<Instant>,
    pub(super) requests: u64,
    pub(super) replies: VecDeque<PendingReply>,
    /// True if the client of the open request is to be told to send its body.
    pub(super) owes_continue: bool,
    pub(super) out: Vec<u8>,
    /// Bytes of `out` that the connection has taken.
    pub(super) written: usize,
    /// Bytes cut off lines that are too long.
    pub(super) cut_bytes: u64,
}

impl HecConnection {
    pub(super) fn new(shared: Arc<HecShared>, id: AckTarget) -> Self {
        Self {
            shared,
            id,
            stage: RequestStage::Head,
            begun: None,
            head: UnfinishedHead::default(),
            ahead: AheadBytes::default(),
            streams: None,
            due: None,
            retry_at: None,
            requests: 0,
            replies: VecDeque::new(),
            owes_continue: false,
            out: Vec::new(),
            written: 0,
            cut_bytes: 0,
        }
    }

    /// Takes the first `shown` bytes of the room as bytes of a head. Those behind the head are
    /// moved to the start of the room; returns how many these are.
    fn take_head(&mut self, connection: &Connection, room: &mut [u8], shown: usize) -> usize {
        let mut begun = std::mem::take(&mut self.head);
        let (parsed, length) = match begun.is_empty() {
            true => (parse_head(&room[..shown]), shown),
            false => {
                begun.push(&room[..shown]);
                let length = begun.len();
                (begun.parse(), length)
            }
        };
        // What is behind the head is at the end of what came last.
        let behind = match self.begin_parsed(parsed, connection.peer()) {
            Some(used) => length - used,
            None if matches!(self.stage, RequestStage::Head) => {
                if begun.is_empty() {
                    begun.push(&room[..shown]);
                }
                self.head = begun;
                0
            }
            None => 0,
        };
        room.copy_within(shown - behind..shown, 0);
        // A token is never left where a batch is filled.
        room[behind..shown].fill(0);
        behind
    }

    /// Goes on with a head that was looked at; the bytes that it takes, if it is whole.
    fn begin_parsed(&mut self, parsed: HeadParse<'_>, peer: IpAddr) -> Option<usize> {
        self.begun.get_or_insert_with(instant_now);
        match parsed {
            HeadParse::NeedMore => {
                self.due.get_or_insert_with(|| instant_now() + HEAD_MAX);
                None
            }
            HeadParse::Bad(fault) => {
                self.refuse(fault.status());
                None
            }
            HeadParse::Head(head, used) => {
                self.due = None;
                self.begin(&head, peer);
                Some(used)
            }
        }
    }

    /// Goes on with the bytes that came behind a request; the bytes of a body of these stand at
    /// the start of the room then.
    fn take_ahead(&mut self, peer: IpAddr, room: &mut [u8]) -> StreamRead {
        if matches!(self.stage, RequestStage::Head) {
            let mut ahead = std::mem::take(&mut self.ahead);
            match self.begin_parsed(parse_head(ahead.rest()), peer) {
                Some(used) => {
                    ahead.advance(used);
                    self.ahead = ahead;
                }
                None if matches!(self.stage, RequestStage::Head) => self.head.push(ahead.rest()),
                None => {}
            }
        }
        if self.waits() {
            return StreamRead::Blocked;
        }
        let RequestStage::Body(request) = &self.stage else {
            return StreamRead::Data(0);
        };
        let window = request.body.own_bytes(request.window(room.len()));
        let count = self.ahead.take(&mut room[..window]);
        StreamRead::Data(self.take_body(room, count))
    }

    /// Takes the first `shown` bytes of the room as bytes of a body; returns how many bytes of it
    /// stand at the start of the room now.
    pub(super) fn take_body(&mut self, room: &mut [u8], shown: usize) -> usize {
        let RequestStage::Body(request) = &mut self.stage else {
            return 0;
        };
        if shown > 0 {
            self.owes_continue = false;
        }
        let half = request.window(room.len());
        let taken = request.body.take(room, shown).and_then(|taken| {
            if let Some(behind) = taken.behind {
                self.ahead.put_back(&room[behind..shown]);
            }
            Ok(taken.filled + request.body.inflate(&mut room[taken.filled..half])?)
        });
        self.due = (!request.body.is_ended()).then(|| instant_now() + BODY_MAX);
        if let (Some((_, _, body)), Ok(filled)) = (&mut request.poll, &taken) {
            if body.len() + filled <= POLL_BYTES_MAX {
                body.extend_from_slice(&room[..*filled]);
            } else {
                request.fail(ReplyContent::Hec(HecAnswer::InvalidFormat, None));
            }
            return 0;
        }
        match taken {
            Ok(_) if request.fault.is_some() => 0,
            Ok(filled) => {
                if let Some((upload, _)) = &request.upload {
                    upload.token.rate.charge(filled);
                }
                let (kept, ended) = (request.kept, request.body.is_ended());
                let filled = request.gathered.add(room, filled, kept, ended);
                request.unseen += filled;
                filled
            }
            Err(BodyFault::Framing) => {
                self.refuse(400);
                0
            }
            Err(BodyFault::Compression) => {
                let number = match &request.upload {
                    Some((_, EventReader::Objects(splitter))) => splitter.count(),
                    _ => 0,
                };
                request.fail(ReplyContent::Hec(HecAnswer::InvalidFormat, Some(number)));
                0
            }
            Err(BodyFault::TooLong) => {
                let content = too_large(&request.settings);
                request.fail(content);
                0
            }
        }
    }

    /// True if the open request waits for room in the queue.
    pub(super) fn waits(&mut self) -> bool {
        let RequestStage::Body(request) = &mut self.stage else {
            return false;
        };
        let (now, shared) = (instant_now(), &self.shared);
        let wait = request.wait(shared.has_room(), shared.disk_fails(), now);
        if wait == RoomWait::TooLong {
            let answer = shared.no_room(&request.settings);
            request.fail(ReplyContent::Hec(answer, None));
        }
        let waits = wait == RoomWait::GoesOn;
        let patience = match request.admitted {
            true => Some(now + DISK_LOOK),
            false => request
                .waits_since
                .map(|since| since + request.settings.busy_after),
        };
        self.retry_at = patience.filter(|_| waits);
        if waits {
            // Its sender is not slow: nothing is read of it.
            self.due = self.due.map(|_| now + BODY_MAX);
        }
        waits
    }
}

impl Drop for HecConnection {
    /// Requests that were not answered have no acknowledgement.
    fn drop(&mut self) {
        if is_on(Mutant::KeepAck) {
            return;
        }
        let open = match &self.stage {
            RequestStage::Body(request) => request.ack.as_ref(),
            RequestStage::Head | RequestStage::Closed(_) => None,
        };
        let waiting = self
            .replies
            .iter()
            .filter_map(|pending| pending.ack.as_ref());
        for place in open.into_iter().chain(waiting.map(|(place, _)| place)) {
            self.shared.acks.forget(place);
        }
    }
}

impl AnsweringConnection for HecConnection {
    fn receive(
        &mut self,
        connection: &mut Connection,
        room: &mut [u8],
        cipher: &mut [u8],
    ) -> StreamRead {
        if self.has_streams(connection) {
            return self.receive_frames(connection, room, cipher);
        }
        match &self.stage {
            RequestStage::Closed(_) => return StreamRead::Blocked,
            RequestStage::Body(request) if request.body.is_waiting() => {
                return StreamRead::Data(self.take_body(room, 0));
            }
            _ if !self.ahead.is_empty() => return self.take_ahead(connection.peer(), room),
            _ => self.ahead.clear(),
        }
        let window = match &self.stage {
            RequestStage::Body(request) => request.read_bytes(room.len()),
            _ => room.len(),
        };
        // Under TLS what is decrypted at once must fit.
        let cipher_bytes = window.min(cipher.len());
        let outcome = connection.read(&mut room[..window], &mut cipher[..cipher_bytes]);
        if self.has_streams(connection) {
            return self.take_frames(outcome, connection, room);
        }
        let (StreamRead::Data(mut count) | StreamRead::Drained(mut count)) = outcome else {
            return outcome;
        };
        if matches!(self.stage, RequestStage::Head) && count > 0 {
            count = self.take_head(connection, room, count);
        }
        let waits = self.waits();
        let filled = match &self.stage {
            RequestStage::Body(_) if !waits => self.take_body(room, count),
            RequestStage::Body(_) | RequestStage::Head => {
                self.ahead.put_back(&room[..count]);
                0
            }
            RequestStage::Closed(_) => 0,
        };
        if waits {
            return StreamRead::Blocked;
        }
        let again = match &self.stage {
            RequestStage::Body(request) => request.body.is_waiting(),
            RequestStage::Head | RequestStage::Closed(_) => false,
        };
        match outcome {
            StreamRead::Drained(_) if !again && self.ahead.is_empty() => {
                StreamRead::Drained(filled)
            }
            _ => StreamRead::Data(filled),
        }
    }

    fn room_bytes_min(&self) -> usize {
        match &self.stage {
            RequestStage::Body(request) if GatheredBytes::is_for(request.kept) => {
                limits::READ_BYTES_MIN
            }
            _ => 0,
        }
    }

    fn asks_for_room(&self) -> bool {
        true
    }

    /// Frames are read on: the windows bound what comes.
    fn may_read(&mut self) -> bool {
        self.retry_at = None;
        self.streams.is_some() || !self.waits()
    }

    fn waits_for_room(&self) -> bool {
        matches!(&self.stage, RequestStage::Body(request) if request.waits_since.is_some())
    }

    fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Also if answers wait for a disk that fails: they are written then, and it goes on.
    fn overdue(&self, now: Instant) -> Option<EndReason> {
        let unwritten = self.shared.disk_fails() && self.replies.iter().any(|one| one.waits);
        let slow = |streams: &Http2| streams.is_slow(now, HEAD_MAX, BODY_MAX);
        let slow = self.streams.as_deref().is_some_and(slow);
        let late = unwritten || slow || self.due.is_some_and(|due| now >= due);
        late.then_some(EndReason::HttpSlow)
    }

    fn id(&self) -> AckTarget {
        self.id
    }

    /// Always: a client may connect long before it has something to send.
    fn is_open(&self) -> bool {
        true
    }

    fn end(&self) -> Option<Option<EndReason>> {
        match self.stage {
            RequestStage::Closed(reason) if self.replies.is_empty() => Some(reason),
            _ => None,
        }
    }

    fn fault_at_end(&self) -> Option<EndReason> {
        let streams = self.streams.as_deref();
        let between = matches!(self.stage, RequestStage::Head) && self.head.is_empty();
        let between = between && streams.is_none_or(Http2::is_idle);
        (!between).then_some(EndReason::HttpCutShort)
    }

    fn is_full(&self) -> bool {
        // What is to end is read no more, and ends with its last answer.
        let ends = matches!(self.stage, RequestStage::Closed(_)) && !self.replies.is_empty();
        // Frames are read on: who opens windows for answers sends some.
        ends || (self.replies.len() >= UNANSWERED_MAX && self.streams.is_none())
    }

    fn is_clear(&self) -> bool {
        self.replies.is_empty()
    }

    fn settle(&mut self, ack: &AckRange, refused: bool) {
        // Requests that came at once may share a batch, and so a range.
        for number in (ack.first..).take(ack.count as usize) {
            self.settle_request(number, ack.tag, refused);
        }
    }

    fn pump(&mut self, connection: &mut Connection) -> Result<(), EndReason> {
        self.give_up_waiting();
        if self.streams.is_some() {
            return self.pump_frames(connection);
        }
        loop {
            self.fill();
            self.written += connection.write(&self.out[self.written..])?;
            if self.written < self.out.len() {
                return Ok(());
            }
            self.out.clear();
            self.written = 0;
            if self.replies.front().is_none_or(|pending| pending.waits) {
                if self.out.capacity() > IDLE_BYTES {
                    self.out = Vec::new();
                }
                return Ok(());
            }
        }
    }

    fn is_drained(&self, connection: &Connection) -> bool {
        let flushed = self.streams.as_deref().is_none_or(Http2::is_flushed);
        self.out.is_empty() && self.replies.is_empty() && flushed && connection.is_flushed()
    }

    fn hint(&mut self) {
        self.refuse_untaken();
        self.hint_streams();
    }
}

impl StreamDecoder for HecConnection {
    fn decode(
        &mut self,
        arena: &[u8],
        start: usize,
        frames: &mut FrameIntake<'_>,
        acks: &mut PendingAcks,
    ) -> usize {
        let RequestStage::Body(request) = &mut self.stage else {
            return arena.len();
        };
        let (mut keep, mut events) = (arena.len(), 0);
        if let (Some((upload, reader)), None) = (&mut request.upload, &request.fault) {
            let new = (arena.len() - start).saturating_sub(request.kept);
            request.unseen = request.unseen.saturating_sub(new);
            let last = request.body.is_ended() && request.unseen == 0;
            let most = request.settings.event_bytes_max;
            let step = reader.take((arena, start, last), upload, most, frames);
            keep = step.keep;
            request.kept = arena.len() - keep;
            events = step.events;
            request.events += events;
            upload.token.counts.events.add(step.events);
            upload.token.counts.bytes.add(step.bytes);
            upload.token.counts.lag.add(&step.lags);
            if let Some((answer, number)) = step.fault {
                request.fail(ReplyContent::Hec(answer, number));
            }
        }
        if request.is_complete() {
            self.finish_request(acks);
        } else if events > 0 {
            acks.push(self.id, request.number, PART);
        }
        keep
    }

    /// Nothing: a request that is not complete is not answered, so its client has it.
    fn finish(&mut self, _: &[u8], _: usize, _: &mut FrameIntake<'_>) {}

    /// Nothing: a connection that waits for answers is closed instead.
    fn give_up(&mut self, _: &[u8], _: usize, _: &mut FrameIntake<'_>) {}

    fn cut_bytes(&self) -> [u64; 3] {
        [self.cut_bytes, 0, 0]
    }

    fn answers(&self) -> bool {
        true
    }

    fn is_due(&self) -> bool {
        match &self.stage {
            RequestStage::Body(request) => request.is_complete(),
            RequestStage::Head | RequestStage::Closed(_) => false,
        }
    }

    fn buffered_bytes(&self) -> usize {
        let body = match &self.stage {
            RequestStage::Body(request) => {
                request.body.memory_bytes() + request.gathered.memory_bytes()
            }
            RequestStage::Head | RequestStage::Closed(_) => 0,
        };
        let streams = self.streams.as_deref().map_or(0, Http2::memory_bytes);
        self.out.capacity() + self.head.memory_bytes() + self.ahead.memory_bytes() + body + streams
    }
}
