//! Virtual socket: the kernel's end of a connection in a simulation, in memory.
//!
//! Both ends see what the other wrote at once. Reads and writes are as short as the simulation
//! wants: it sends piece by piece, and says how much the peer's window has room for.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct SocketState {
    to_us: Vec<u8>,
    from_us: Vec<u8>,
    /// Bytes that the peer's window has room for.
    window: usize,
    /// The peer writes no more.
    finished: bool,
    /// We write no more.
    shut_down: bool,
    /// The connection was cut.
    reset: bool,
}

/// A socket in memory, which both ends have.
#[derive(Clone, Debug, Default)]
pub struct VirtualSocket(Arc<Mutex<SocketState>>);

impl VirtualSocket {
    fn state(&self) -> MutexGuard<'_, SocketState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The peer sends.
    pub fn send(&self, bytes: &[u8]) {
        self.state().to_us.extend_from_slice(bytes);
    }

    /// The peer takes what was written to it, and then has room for so many bytes.
    pub fn receive(&self, window: usize) -> Vec<u8> {
        let mut state = self.state();
        state.window = window;
        std::mem::take(&mut state.from_us)
    }

    /// The peer writes no more.
    pub fn finish(&self) {
        self.state().finished = true;
    }

    /// The network cuts the connection: what was under way is lost.
    pub fn cut(&self) {
        *self.state() = SocketState {
            reset: true,
            ..SocketState::default()
        };
    }

    /// True if we write no more, or have closed it.
    pub fn is_shut_down(&self) -> bool {
        self.state().shut_down || Arc::strong_count(&self.0) == 1
    }

    pub(crate) fn shut_down(&self) {
        self.state().shut_down = true;
    }
}

impl io::Read for VirtualSocket {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state();
        if state.reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if state.to_us.is_empty() {
            return match state.finished {
                true => Ok(0),
                false => Err(io::ErrorKind::WouldBlock.into()),
            };
        }
        let count = space.len().min(state.to_us.len());
        space[..count].copy_from_slice(&state.to_us[..count]);
        state.to_us.drain(..count);
        Ok(count)
    }
}

impl io::Write for VirtualSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state();
        if state.reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let count = bytes.len().min(state.window);
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.window -= count;
        state.from_us.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
