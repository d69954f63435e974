//! Memory in the place of a socket.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::OUTPUT_BYTES_MAX;

/// Bytes that go in and out.
#[derive(Default)]
pub(super) struct Pipe {
    /// Bytes of the peer.
    pub(super) input: Vec<u8>,
    /// Bytes of it that are used.
    used: usize,
    /// True if no more will come.
    pub(super) closed: bool,
    /// Bytes for the peer.
    pub(super) output: Vec<u8>,
}

/// The session's end of the pipe. Its lock is held by one thread alone, for a copy.
#[derive(Clone, Default)]
pub(super) struct PipeEnd(Arc<Mutex<Pipe>>);

impl PipeEnd {
    pub(super) fn lock(&self) -> MutexGuard<'_, Pipe> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for PipeEnd {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let pipe = &mut *self.lock();
        let left = &pipe.input[pipe.used..];
        if left.is_empty() && !pipe.closed {
            return Poll::Pending;
        }
        let count = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..count]);
        pipe.used += count;
        if pipe.used == pipe.input.len() {
            (pipe.input, pipe.used) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PipeEnd {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut pipe = self.lock();
        if pipe.output.len() >= OUTPUT_BYTES_MAX {
            return Poll::Pending;
        }
        pipe.output.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
