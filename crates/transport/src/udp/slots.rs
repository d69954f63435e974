//! Slots that `recvmmsg(2)` writes to: datagrams, their senders, and their receive times.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use inrush_event::limits;

use super::Datagram;

/// Bytes of room for one datagram: no UDP payload is longer than 65,535. Only the pages that
/// datagrams really fill are ever touched.
const SLOT_BYTES: usize = 64 * 1024;

/// Bytes from one slot to the next. The odd kilobyte spreads the starts of the slots over the
/// sets of the caches; 64 KiB apart they would all compete for the same few.
const STRIDE_BYTES: usize = SLOT_BYTES + 1024;

const CACHE_LINE_BYTES: usize = 64;

/// Bytes of a datagram that are fetched ahead; the processor foresees the rest of a longer one.
const FETCH_BYTES_MAX: usize = 1024;

/// Room for the one control message that may come with a datagram: `SCM_TIMESTAMPING`, three
/// `timespec`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct ControlBuffer([u8; 64]);

/// Room for what one `recvmmsg` brings.
pub(super) struct ReceiveSlots {
    headers: Box<[libc::mmsghdr]>,
    // What the headers point into. Never moved or resized after `new`.
    // One each: the kernel has a short path for a single vector.
    _vectors: Box<[libc::iovec]>,
    names: Box<[libc::sockaddr_storage]>,
    /// Empty where nobody asks for stamps.
    controls: Box<[ControlBuffer]>,
    bytes: Box<[u8]>,
    received: usize,
}

// SAFETY: the raw pointers in `headers` and `_vectors` point into heap buffers that this value
// owns alone and that keep their address when it moves, so moving it to another thread is sound.
unsafe impl Send for ReceiveSlots {}

impl ReceiveSlots {
    /// With room for the kernel's stamps, or without.
    pub(super) fn new(stamped: bool) -> Self {
        let count = limits::DATAGRAMS_PER_READ;
        let mut bytes = vec![0u8; count * STRIDE_BYTES].into_boxed_slice();
        let mut vectors: Box<[libc::iovec]> = bytes
            .chunks_exact_mut(STRIDE_BYTES)
            .map(|slot| vector(&mut slot[..SLOT_BYTES]))
            .collect();
        // SAFETY: sockaddr_storage is plain data for which all zeroes is a valid value.
        let mut names: Box<[libc::sockaddr_storage]> =
            (0..count).map(|_| unsafe { std::mem::zeroed() }).collect();
        let mut headers: Box<[libc::mmsghdr]> = vectors
            .iter_mut()
            .zip(names.iter_mut())
            .map(|(v, name)| header(v, name))
            .collect();
        let room = if stamped { count } else { 0 };
        let mut controls = vec![ControlBuffer([0; 64]); room].into_boxed_slice();
        for (header, control) in headers.iter_mut().zip(&mut controls) {
            header.msg_hdr.msg_control = std::ptr::from_mut(control).cast();
            header.msg_hdr.msg_controllen = size_of::<ControlBuffer>();
        }
        Self {
            headers,
            _vectors: vectors,
            names,
            controls,
            bytes,
            received: 0,
        }
    }

    /// Reads what is in `socket`, at most [`limits::DATAGRAMS_PER_READ`] datagrams, without
    /// waiting. Returns how many.
    ///
    /// # Errors
    /// What `recvmmsg(2)` says, but for "would block" and "interrupted", which are 0.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let control = if self.controls.is_empty() {
            0
        } else {
            size_of::<ControlBuffer>()
        };
        for header in &mut self.headers[..self.received] {
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_hdr.msg_controllen = control;
        }
        self.received = 0;
        // SAFETY: `headers` are `len` valid mmsghdrs whose pointers were set up in `new` over
        // buffers that this value owns, and the kernel writes within the lengths given there.
        let n = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        if n >= 0 {
            self.received = n as usize;
            return Ok(self.received);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
            // A queued ICMP error of an earlier send; the socket itself is fine.
            io::ErrorKind::ConnectionRefused => Ok(0),
            _ => Err(error),
        }
    }

    /// Datagram `index` of the last [`Self::receive`]; `None` beyond what it returned.
    pub(super) fn datagram(&self, index: usize) -> Option<Datagram<'_>> {
        let header = self.headers[..self.received].get(index)?;
        let len = header.msg_len as usize;
        Some(Datagram {
            bytes: &self.bytes[index * STRIDE_BYTES..][..len.min(SLOT_BYTES)],
            from: sender(&self.names[index]),
            cut: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        })
    }

    /// The sender's port.
    pub(super) fn port(&self, index: usize) -> u16 {
        // SAFETY: `sockaddr_in` and `sockaddr_in6` both have the port after the family, two bytes
        // in network order, and `sockaddr_storage` is larger and as aligned as each.
        let name = unsafe { &*std::ptr::from_ref(&self.names[index]).cast::<libc::sockaddr_in>() };
        u16::from_be(name.sin_port)
    }

    /// Time at which the kernel received datagram `index` of the last [`Self::receive`], in ns
    /// since the epoch; 0 if it had not begun to stamp then.
    pub(super) fn stamp(&self, index: usize) -> u64 {
        let Some(header) = self.headers[..self.received].get(index) else {
            return 0;
        };
        // SAFETY: `header` points to a control buffer of `msg_controllen` bytes, if that is not 0,
        // that the kernel has filled; the macro checks the length.
        let message = unsafe { libc::CMSG_FIRSTHDR(&raw const header.msg_hdr) };
        if message.is_null() {
            return 0;
        }
        // SAFETY: the macro gave a whole header; its data are three `timespec` if it says that it
        // is an SCM_TIMESTAMPING, and need not be aligned.
        unsafe {
            if (*message).cmsg_level != libc::SOL_SOCKET
                || (*message).cmsg_type != libc::SCM_TIMESTAMPING
            {
                return 0;
            }
            let time = libc::CMSG_DATA(message)
                .cast::<libc::timespec>()
                .read_unaligned();
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        }
    }

    /// Has the processor fetch what follows datagram `index` while the caller works on that one,
    /// and the part of `room` that it will be copied to after that one.
    pub(super) fn fetch(&self, index: usize, room: &mut [u8]) {
        let headers = &self.headers[..self.received];
        let [this, next, ..] = &headers[index.min(headers.len())..] else {
            return;
        };
        prefetch(std::ptr::from_ref(&self.names[index + 1]).cast());
        let bytes = &self.bytes[(index + 1) * STRIDE_BYTES..][..next.msg_len as usize];
        fetch(bytes, this.msg_len as usize, room);
    }
}

/// Has the processor fetch the beginning of `bytes`, and what they will be copied to: `room`, after
/// `before` bytes that come there first.
pub(super) fn fetch(bytes: &[u8], before: usize, room: &mut [u8]) {
    let len = bytes.len().min(FETCH_BYTES_MAX);
    for line in bytes[..len].chunks(CACHE_LINE_BYTES) {
        prefetch(line.as_ptr());
    }
    let room = room.get_mut(before..).unwrap_or_default();
    let len = len.min(room.len());
    for line in room[..len].chunks_mut(CACHE_LINE_BYTES) {
        prefetch_to_write(line.as_mut_ptr());
    }
}

/// Asks for the cache line of `address`; a hint that changes nothing.
#[cfg(target_arch = "x86_64")]
fn prefetch(address: *const u8) {
    // SAFETY: a prefetch reads nothing and never faults, whatever the address.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_address: *const u8) {}

/// Asks for the cache line of `address` as one that will be written.
#[cfg(target_arch = "x86_64")]
fn prefetch_to_write(address: *mut u8) {
    // SAFETY: as in `prefetch`; nothing is written.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(address.cast());
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch_to_write(_address: *mut u8) {}

fn vector(buffer: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    }
}

fn header(vector: &mut libc::iovec, name: &mut libc::sockaddr_storage) -> libc::mmsghdr {
    // SAFETY: mmsghdr is plain data for which all zeroes is a valid value.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_iov = std::ptr::from_mut(vector);
    header.msg_hdr.msg_iovlen = 1;
    header.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
    header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    header
}

fn sender(name: &libc::sockaddr_storage) -> IpAddr {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the kernel filled in a sockaddr_in, as ss_family says; sockaddr_storage is
            // at least as large and as aligned.
            let v4 = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for sockaddr_in6.
            let v6 = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            Ipv6Addr::from(v6.sin6_addr.s6_addr).to_canonical()
        }
        _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    }
}
