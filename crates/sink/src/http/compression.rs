//! Compression of bodies, and the buffers that requests are sent from.

use std::sync::Arc;

use bytes::Bytes;
use libdeflater::{CompressionLvl, Compressor};

use super::options::HttpCompression;

/// The fastest level that compresses.
const GZIP_LEVEL: i32 = 1;

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

/// Compresses bodies where the configuration asks for it. One a worker.
pub(crate) struct Packer {
    gzip: Option<(Compressor, Buffer)>,
}

impl Packer {
    pub(crate) fn new(compression: HttpCompression) -> Self {
        let gzip = match compression {
            HttpCompression::None => None,
            HttpCompression::Gzip => {
                // The library's own "fastest" is level 0, which does not compress.
                let level = CompressionLvl::new(GZIP_LEVEL).unwrap_or_default();
                Some((Compressor::new(level), Buffer::default()))
            }
        };
        Self { gzip }
    }

    /// The bytes to send, and their `Content-Encoding`.
    pub(crate) fn pack(&mut self, body: Bytes) -> (Bytes, Option<&'static str>) {
        let Some((compressor, packed)) = &mut self.gzip else {
            return (body, None);
        };
        let room = packed.empty();
        room.resize(compressor.gzip_compress_bound(body.len()), 0);
        // The room is what the library itself says is enough for any input.
        match compressor.gzip_compress(&body, room) {
            Ok(len) => {
                room.truncate(len);
                (packed.share(), Some("gzip"))
            }
            Err(_) => (body, None),
        }
    }
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
    }
}
