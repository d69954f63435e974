//! Decoder of a connection, which its source makes, and the reads of a connection.

use std::time::Instant;

use inrush_event::{Origin, Peer, Protocol, RejectReason, limits};
use inrush_ingest::batch_writer::acks::{AckRange, AckTarget, PendingAcks};
use inrush_ingest::batch_writer::stream::{StreamBuffer, StreamDecoder};
use inrush_ingest::batch_writer::{BatchWriter, FrameIntake};
use inrush_ingest::now::Now;
use inrush_transport::stream::{Connection, EndReason, StreamRead};

/// Maker of the decoders of a source's connections.
pub trait ConnectionDecoders: Send + Sync {
    /// The decoder of a new connection for `protocol`, whose answers go to `id`.
    fn decoder(&self, protocol: Protocol, id: AckTarget) -> ConnectionDecoder;
}

/// Decoder of a connection whose peer waits for answers.
///
/// Answers are owed for batches ([`PendingAcks`]). The worker gives them back with
/// [`Self::settle`] once their batch has met its fate, and writes with [`Self::pump`].
pub trait AnsweringConnection: StreamDecoder + Send {
    /// Reads once into `room`, which is in the batch; what is in no event stays out of it.
    /// `cipher` is scratch as for [`Connection::read`].
    fn receive(
        &mut self,
        connection: &mut Connection,
        room: &mut [u8],
        cipher: &mut [u8],
    ) -> StreamRead {
        connection.read(room, cipher)
    }

    /// Bytes of room that a read needs, at least.
    fn room_bytes_min(&self) -> usize {
        0
    }

    /// True if it asks for room in the queue itself, and is read without.
    fn asks_for_room(&self) -> bool {
        false
    }

    /// Asked before each read: false if it waits for room in the queue instead.
    fn may_read(&mut self) -> bool {
        true
    }

    /// True if it is to be read once the queue has room, though nothing comes.
    fn waits_for_room(&self) -> bool {
        false
    }

    /// Time at which it is to be read again though nothing came and there is no room.
    fn retry_at(&self) -> Option<Instant> {
        None
    }

    /// Reason that it has to end at `now`, because the peer is too slow.
    fn overdue(&self, _now: Instant) -> Option<EndReason> {
        None
    }

    /// The target of its answers.
    fn id(&self) -> AckTarget;

    /// True if the peer has begun its session, or the session has ended.
    fn is_open(&self) -> bool;

    /// End of the session, with the fault of the peer if there was one; `None` while it goes on.
    fn end(&self) -> Option<Option<EndReason>>;

    /// Fault of a stream that the peer has finished where it should not.
    fn fault_at_end(&self) -> Option<EndReason>;

    /// True if so much is unanswered that no more is to be read.
    fn is_full(&self) -> bool;

    /// True if nothing is unanswered.
    fn is_clear(&self) -> bool;

    /// The batch of an ack has met its fate.
    fn settle(&mut self, ack: &AckRange, refused: bool);

    /// Writes answers until there are no more or the connection has no room.
    ///
    /// # Errors
    /// The connection is of no more use.
    fn pump(&mut self, connection: &mut Connection) -> Result<(), EndReason>;

    /// True if everything that may be written is with the kernel.
    fn is_drained(&self, connection: &Connection) -> bool;

    /// Tells the peer that we are about to close.
    fn hint(&mut self);
}

/// Decoder that cuts the bytes of a connection into messages.
pub enum ConnectionDecoder {
    /// Nobody waits for answers.
    Silent(Box<dyn StreamDecoder + Send>),
    /// Its peer waits for answers.
    Answering(Box<dyn AnsweringConnection>),
}

impl ConnectionDecoder {
    /// The answers that it owes; `None` if nobody waits for any.
    pub(super) fn answering(&self) -> Option<&dyn AnsweringConnection> {
        match self {
            Self::Silent(_) => None,
            Self::Answering(answering) => Some(&**answering),
        }
    }

    pub(super) fn answering_mut(&mut self) -> Option<&mut (dyn AnsweringConnection + 'static)> {
        match self {
            Self::Silent(_) => None,
            Self::Answering(answering) => Some(&mut **answering),
        }
    }

    fn receive(
        &mut self,
        connection: &mut Connection,
        room: &mut [u8],
        cipher: &mut [u8],
    ) -> StreamRead {
        match self {
            Self::Silent(_) => connection.read(room, cipher),
            Self::Answering(answering) => answering.receive(connection, room, cipher),
        }
    }

    /// Bytes of room that a read needs, at least.
    fn room_bytes_min(&self) -> usize {
        self.answering()
            .map_or(0, AnsweringConnection::room_bytes_min)
    }

    /// True if it asks for room in the queue itself.
    pub(super) fn asks_for_room(&self) -> bool {
        self.answering()
            .is_some_and(AnsweringConnection::asks_for_room)
    }

    fn stream(&self) -> &dyn StreamDecoder {
        match self {
            Self::Silent(decoder) => &**decoder,
            Self::Answering(answering) => &**answering,
        }
    }

    fn stream_mut(&mut self) -> &mut dyn StreamDecoder {
        match self {
            Self::Silent(decoder) => &mut **decoder,
            Self::Answering(answering) => &mut **answering,
        }
    }
}

impl StreamDecoder for ConnectionDecoder {
    fn decode(
        &mut self,
        arena: &[u8],
        start: usize,
        frames: &mut FrameIntake<'_>,
        acks: &mut PendingAcks,
    ) -> usize {
        self.stream_mut().decode(arena, start, frames, acks)
    }

    fn finish(&mut self, arena: &[u8], start: usize, frames: &mut FrameIntake<'_>) {
        self.stream_mut().finish(arena, start, frames);
    }

    fn give_up(&mut self, arena: &[u8], start: usize, frames: &mut FrameIntake<'_>) {
        self.stream_mut().give_up(arena, start, frames);
    }

    fn cut_bytes(&self) -> [u64; 3] {
        self.stream().cut_bytes()
    }

    fn window_bytes(&self) -> usize {
        self.answering()
            .map_or(limits::READ_BYTES, |answering| answering.window_bytes())
    }

    fn answers(&self) -> bool {
        self.answering().is_some()
    }

    fn is_due(&self) -> bool {
        self.stream().is_due()
    }

    fn buffered_bytes(&self) -> usize {
        self.answering()
            .map_or(0, |answering| answering.buffered_bytes())
    }
}

/// Bytes of a connection that no message has taken yet, and its decoder.
pub(super) type ConnectionBuffer = StreamBuffer<ConnectionDecoder>;

/// Sender of what a connection brings.
pub(super) fn peer_of(connection: &Connection) -> Origin {
    Origin::Peer(Peer {
        ip: connection.peer(),
        local_port: connection.local_port(),
        protocol: connection.protocol(),
        client: connection.client().cloned(),
    })
}

/// Reads once from a connection and takes in what came. Returns the state of the connection; at
/// its end the unfinished frame has been taken in too.
pub(super) fn read(
    writer: &mut BatchWriter,
    connection: &mut Connection,
    buffer: &mut ConnectionBuffer,
    cipher: &mut [u8],
    now: Now,
) -> StreamRead {
    let space = writer.begin_read(buffer, buffer.decoder.room_bytes_min(), now);
    let outcome = buffer.decoder.receive(connection, space, cipher);
    match outcome {
        StreamRead::Data(n) | StreamRead::Drained(n) => {
            writer.end_read(&peer_of(connection), buffer, n, false, now);
        }
        StreamRead::Closed | StreamRead::Failed(_) => {
            reject_foreign(writer, connection);
            writer.end_read(&peer_of(connection), buffer, 0, true, now);
        }
        StreamRead::Blocked => writer.cancel_read(),
    }
    outcome
}

/// Counts what a peer sent in another protocol.
fn reject_foreign(writer: &BatchWriter, connection: &mut Connection) {
    let Some((reason, bytes)) = connection.take_foreign() else {
        return;
    };
    let reason = match reason {
        EndReason::TlsOnPlain => RejectReason::TlsOnPlain,
        EndReason::UntrustedProxy => RejectReason::UntrustedProxy,
        _ => RejectReason::Http,
    };
    writer.reject(reason, bytes);
}
