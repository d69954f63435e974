//! Decoder of a connection: lines and octet counts of syslog, or a RELP session; and its reads.

use inrush_codec::FrameDecoder;
use inrush_event::{Origin, Peer, Protocol, RejectReason};
use inrush_ingest::batch_writer::acks::{AckTarget, PendingAcks};
use inrush_ingest::batch_writer::stream::{StreamBuffer, StreamDecoder};
use inrush_ingest::batch_writer::{BatchWriter, FrameIntake};
use inrush_ingest::now::Now;
use inrush_transport::stream::{Connection, EndReason, StreamRead};

use crate::syslog::live::SourceSettings;
use crate::syslog::relp::RelpConnection;

/// Decoder that cuts the bytes of a connection into messages.
pub(super) enum ConnectionDecoder {
    Syslog(FrameDecoder),
    Relp(Box<RelpConnection>),
}

impl ConnectionDecoder {
    /// Of a connection for `protocol`, whose answers go to `id`.
    pub(super) fn new(settings: &SourceSettings, protocol: Protocol, id: AckTarget) -> Self {
        let syslog = &settings.syslog;
        let max = syslog.message_bytes_max();
        match protocol.is_relp() {
            true => Self::Relp(Box::new(RelpConnection::new(id, max))),
            false => Self::Syslog(FrameDecoder::new(syslog.framing, max)),
        }
    }

    /// Session of a RELP connection with the answers that it owes; `None` for all others.
    pub(super) fn relp(&self) -> Option<&RelpConnection> {
        match self {
            Self::Syslog(_) => None,
            Self::Relp(relp) => Some(relp),
        }
    }

    pub(super) fn relp_mut(&mut self) -> Option<&mut RelpConnection> {
        match self {
            Self::Syslog(_) => None,
            Self::Relp(relp) => Some(relp),
        }
    }
}

impl StreamDecoder for ConnectionDecoder {
    #[inline]
    fn decode(
        &mut self,
        arena: &[u8],
        start: usize,
        frames: &mut FrameIntake<'_>,
        acks: &mut PendingAcks,
    ) -> usize {
        match self {
            Self::Syslog(decoder) => decoder.decode(arena, start, |frame| frames.take(frame)),
            Self::Relp(relp) => relp.decode(arena, start, frames, acks),
        }
    }

    fn finish(&mut self, arena: &[u8], start: usize, frames: &mut FrameIntake<'_>) {
        match self {
            Self::Syslog(decoder) => decoder.finish(arena, start, |frame| frames.take(frame)),
            Self::Relp(relp) => relp.finish(arena, start, frames),
        }
    }

    fn give_up(&mut self, arena: &[u8], start: usize, frames: &mut FrameIntake<'_>) {
        match self {
            Self::Syslog(decoder) => decoder.give_up(arena, start, |frame| frames.take(frame)),
            Self::Relp(relp) => relp.give_up(arena, start, frames),
        }
    }

    fn cut_bytes(&self) -> [u64; 3] {
        match self {
            Self::Syslog(decoder) => [decoder.cut_bytes(), 0, 0],
            Self::Relp(relp) => relp.cut_bytes(),
        }
    }

    fn window_bytes(&self) -> usize {
        self.relp().map_or(
            inrush_event::limits::READ_BYTES,
            StreamDecoder::window_bytes,
        )
    }

    fn answers(&self) -> bool {
        self.relp().is_some()
    }

    fn buffered_bytes(&self) -> usize {
        self.relp().map_or(0, StreamDecoder::buffered_bytes)
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
    let space = writer.begin_read(buffer, now);
    let outcome = connection.read(space, cipher);
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
