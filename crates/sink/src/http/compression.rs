//! Compression of bodies, and the buffers that requests are sent from.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use libdeflater::{CompressionLvl, Compressor};
use nix::time::{ClockId, clock_gettime};

use super::auto_compression::{AutoCompression, BodyTimes};
use super::options::{GzipLevel, HttpCompression};

/// Bytes that a request may hold on to while we keep them: sending copies nothing, and when the
/// request is done the room is used again.
#[derive(Default)]
pub(crate) struct Buffer(Arc<Vec<u8>>);

impl Buffer {
    /// The buffer, empty. One that a request still holds (its answer came before all was sent) is
    /// left to it.
    pub(crate) fn empty(&mut self) -> &mut Vec<u8> {
        if Arc::get_mut(&mut self.0).is_none() {
            self.0 = Arc::default();
        }
        let bytes = Arc::make_mut(&mut self.0);
        bytes.clear();
        bytes
    }

    /// So many bytes, whatever they are. A buffer that a request still holds is left to it.
    fn of_bytes(&mut self, bytes: usize) -> &mut [u8] {
        if Arc::get_mut(&mut self.0).is_none() {
            self.0 = Arc::default();
        }
        let room = Arc::make_mut(&mut self.0);
        if room.len() < bytes {
            room.resize(bytes, 0);
        }
        &mut room[..bytes]
    }

    /// The bytes, to append to. No request may hold them, or they are copied.
    pub(crate) fn edit(&mut self) -> &mut Vec<u8> {
        Arc::make_mut(&mut self.0)
    }

    /// All bytes, for a request.
    pub(crate) fn share(&self) -> Bytes {
        struct SharedBuffer(Arc<Vec<u8>>);
        impl AsRef<[u8]> for SharedBuffer {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        Bytes::from_owner(SharedBuffer(Arc::clone(&self.0)))
    }
}

/// A body as it is sent.
pub(crate) struct PackedBody {
    /// Its bytes.
    pub(crate) bytes: Bytes,
    /// Its `Content-Encoding`.
    pub(crate) encoding: Option<&'static str>,
    /// Time that packing it took.
    times: BodyTimes,
}

/// Compresses bodies where the configuration asks for it. One a worker.
pub(crate) struct Packer<'a> {
    gzip: Option<(Compressor, Buffer)>,
    /// Choice between the encodings.
    auto: Option<&'a AutoCompression>,
}

impl<'a> Packer<'a> {
    /// With the choice of the destination, if it has one.
    pub(crate) fn new(
        compression: HttpCompression,
        level: GzipLevel,
        auto: Option<&'a AutoCompression>,
    ) -> Self {
        let gzip = match compression {
            HttpCompression::None => None,
            HttpCompression::Gzip | HttpCompression::Auto => {
                let level = CompressionLvl::new(level.0.into()).unwrap_or_default();
                Some((Compressor::new(level), Buffer::default()))
            }
        };
        Self { gzip, auto }
    }

    /// The body as it is to be sent.
    pub(crate) fn pack(&mut self, body: Bytes) -> PackedBody {
        let mut times = BodyTimes {
            bytes: body.len(),
            ..BodyTimes::default()
        };
        let wanted = self.auto.is_none_or(|auto| auto.choose(body.len()));
        if wanted && let Some((compressor, room)) = &mut self.gzip {
            let (begun, cpu_begun) = (Instant::now(), thread_cpu_time());
            if let Some(bytes) = gzip(compressor, room, &body) {
                times.gzip = true;
                times.packing = begun.elapsed();
                times.packing_cpu = thread_cpu_time().saturating_sub(cpu_begun);
                return PackedBody {
                    bytes,
                    encoding: Some("gzip"),
                    times,
                };
            }
        }
        PackedBody {
            bytes: body,
            encoding: None,
            times,
        }
    }

    /// Notes that a body was taken, and how long its request took.
    pub(crate) fn taken(&self, body: &PackedBody, exchange: Duration) {
        if let Some(auto) = self.auto {
            auto.note(BodyTimes {
                exchange,
                ..body.times
            });
        }
    }
}

/// The body, compressed into the room.
fn gzip(compressor: &mut Compressor, room: &mut Buffer, body: &[u8]) -> Option<Bytes> {
    let bound = compressor.gzip_compress_bound(body.len());
    // The room is what the library itself says is enough for any input.
    let length = compressor.gzip_compress(body, room.of_bytes(bound)).ok()?;
    Some(room.share().slice(..length))
}

/// CPU time of this thread so far.
fn thread_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map(Duration::from)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_and_what_a_request_holds_stays_as_it_is() {
        let mut buffer = Buffer::default();
        buffer.empty().extend_from_slice(b"first");
        let room = buffer.edit().as_ptr();
        let held = buffer.share();
        buffer.empty().extend_from_slice(b"second");
        assert_eq!(&held[..], b"first");
        drop(held);
        let second = buffer.edit().as_ptr();
        assert_ne!(second, room);
        drop(buffer.share());
        buffer.empty().extend_from_slice(b"third");
        assert_eq!(buffer.edit().as_ptr(), second);
        let held = buffer.share();
        assert_ne!(buffer.of_bytes(3).as_ptr(), second);
        assert_eq!(&held[..], b"third");
    }
}
