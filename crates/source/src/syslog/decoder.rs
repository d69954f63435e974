//! Decoder of a syslog connection: lines and octet counts, or a RELP session.

use inrush_codec::{FrameDecoder, SyslogOptions};
use inrush_event::Protocol;
use inrush_ingest::batch_writer::FrameIntake;
use inrush_ingest::batch_writer::acks::{AckTarget, PendingAcks};
use inrush_ingest::batch_writer::stream::StreamDecoder;
use inrush_stream::{ConnectionDecoder, ConnectionDecoders};

use super::relp::RelpConnection;

/// Makes the decoders of a syslog source's connections.
pub(super) struct SyslogDecoders(pub(super) SyslogOptions);

impl ConnectionDecoders for SyslogDecoders {
    fn decoder(&self, protocol: Protocol, id: AckTarget) -> ConnectionDecoder {
        let max = self.0.message_bytes_max();
        match protocol.is_relp() {
            true => ConnectionDecoder::Answering(Box::new(RelpConnection::new(id, max))),
            false => {
                let decoder = FrameDecoder::new(self.0.framing, max);
                ConnectionDecoder::Silent(Box::new(SyslogStream(decoder)))
            }
        }
    }
}

/// Lines and octet counts of a connection.
struct SyslogStream(FrameDecoder);

impl StreamDecoder for SyslogStream {
    fn decode(
        &mut self,
        arena: &[u8],
        start: usize,
        frames: &mut FrameIntake<'_>,
        _: &mut PendingAcks,
    ) -> usize {
        self.0.decode(arena, start, |frame| frames.take(frame))
    }

    fn finish(&mut self, arena: &[u8], start: usize, frames: &mut FrameIntake<'_>) {
        self.0.finish(arena, start, |frame| frames.take(frame));
    }

    fn give_up(&mut self, arena: &[u8], start: usize, frames: &mut FrameIntake<'_>) {
        self.0.give_up(arena, start, |frame| frames.take(frame));
    }

    fn cut_bytes(&self) -> [u64; 3] {
        [self.0.cut_bytes(), 0, 0]
    }
}
