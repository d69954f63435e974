//! UDP receiving: `recvmmsg` in bulk, the receive buffer as large as the kernel allows, and the
//! kernel's own count of what it dropped.
//!
//! `UDP_GRO` is left off on purpose. With it a burst that the kernel drops counts once in
//! `sk_drops` however many datagrams it held (measured on Linux 6.18: 864 of 960 lost datagrams
//! uncounted), and a ledger that is exact to the packet is worth more than its cycles.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use inrush_event::limits;
use nix::sys::socket::{setsockopt, sockopt};

/// Bytes of room for one datagram: no UDP payload is longer than 65,535. Only the pages that
/// datagrams really fill are ever touched.
const SLOT_BYTES: usize = 64 * 1024;

/// Bytes from one slot to the next. The odd kilobyte spreads the starts of the slots over the
/// sets of the caches; 64 KiB apart they would all compete for the same few.
const STRIDE_BYTES: usize = SLOT_BYTES + 1024;

const CACHE_LINE_BYTES: usize = 64;

/// Bytes of a datagram that are fetched ahead; the processor foresees the rest of a longer one.
const FETCH_BYTES_MAX: usize = 1024;

/// One datagram of the last read.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The payload.
    pub bytes: &'a [u8],
    /// Who sent it, IPv4-mapped addresses unmapped.
    pub from: IpAddr,
    /// Whether the kernel had to cut it.
    pub cut: bool,
}

/// Receives datagrams of one socket into buffers of its own, in bulk.
pub struct UdpReceiver {
    socket: UdpSocket,
    local: SocketAddr,
    headers: Box<[libc::mmsghdr]>,
    // What the headers point into. Never moved or resized after `new`.
    // One each: the kernel has a short path for a single vector.
    _vectors: Box<[libc::iovec]>,
    names: Box<[libc::sockaddr_storage]>,
    slots: Box<[u8]>,
    received: usize,
}

// SAFETY: the raw pointers in `headers` and `_vectors` point into heap buffers that this value
// owns alone and that keep their address when it moves, so moving it to another thread is sound.
unsafe impl Send for UdpReceiver {}

impl UdpReceiver {
    /// Takes over a bound socket and makes it non-blocking.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        let count = limits::DATAGRAMS_PER_READ;
        let mut slots = vec![0u8; count * STRIDE_BYTES].into_boxed_slice();
        let mut vectors: Box<[libc::iovec]> = slots
            .chunks_exact_mut(STRIDE_BYTES)
            .map(|slot| vector(&mut slot[..SLOT_BYTES]))
            .collect();
        // SAFETY: sockaddr_storage is plain data for which all zeroes is a valid value.
        let mut names: Box<[libc::sockaddr_storage]> =
            (0..count).map(|_| unsafe { std::mem::zeroed() }).collect();
        let headers = vectors
            .iter_mut()
            .zip(names.iter_mut())
            .map(|(v, name)| header(v, name))
            .collect();
        Ok(Self {
            socket,
            local,
            headers,
            _vectors: vectors,
            names,
            slots,
            received: 0,
        })
    }

    /// The address that the socket is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Reads what is there, at most [`limits::DATAGRAMS_PER_READ`] datagrams, without waiting.
    /// Returns how many; 0 if there was none. Read them with [`Self::datagram`].
    ///
    /// # Errors
    /// What `recvmmsg(2)` says, but for "would block" and "interrupted", which are 0.
    pub fn receive(&mut self) -> io::Result<usize> {
        for header in &mut self.headers[..self.received] {
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        }
        self.received = 0;
        // SAFETY: `headers` are `len` valid mmsghdrs whose pointers were set up in `new` over
        // buffers that this value owns, and the kernel writes within the lengths given there.
        let n = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
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
    pub fn datagram(&self, index: usize) -> Option<Datagram<'_>> {
        let header = self.headers[..self.received].get(index)?;
        let len = header.msg_len as usize;
        Some(Datagram {
            bytes: &self.slots[index * STRIDE_BYTES..][..len.min(SLOT_BYTES)],
            from: sender(&self.names[index]),
            cut: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        })
    }

    /// Has the processor fetch what follows datagram `index` of the last [`Self::receive`] while
    /// the caller works on that one, and the part of `room` that it will be copied to after that
    /// one. What the kernel has just written lies in a far cache: reading it costs 80 ns a
    /// datagram where nothing else is done meanwhile; an arena's lines cost the same.
    pub fn fetch(&self, index: usize, room: &mut [u8]) {
        let headers = &self.headers[..self.received];
        let [this, next, ..] = &headers[index.min(headers.len())..] else {
            return;
        };
        prefetch(std::ptr::from_ref(&self.names[index + 1]).cast());
        let bytes = &self.slots[(index + 1) * STRIDE_BYTES..];
        let len = (next.msg_len as usize).min(FETCH_BYTES_MAX);
        for line in bytes[..len].chunks(CACHE_LINE_BYTES) {
            prefetch(line.as_ptr());
        }
        let room = room.get_mut(this.msg_len as usize..).unwrap_or_default();
        let len = len.min(room.len());
        for line in room[..len].chunks_mut(CACHE_LINE_BYTES) {
            prefetch_to_write(line.as_mut_ptr());
        }
    }

    /// Has the kernel drop, and count, every datagram that comes from now on, so that after the
    /// queue is emptied nothing can be lost unseen between the last read and the close. What the
    /// kernel refuses here is only that exactness; the socket works on.
    pub fn refuse_more(&self) {
        // A classic BPF program of one instruction, `ret 0`: keep no byte of the packet.
        let drop_all = socket2::SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, 0);
        if let Err(error) = socket2::SockRef::from(&self.socket).attach_filter(&[drop_all]) {
            tracing::debug!(%error, "cannot close a UDP socket to new datagrams");
        }
    }

    /// Makes the receive buffer as large as this, or as the kernel allows, also smaller than it is.
    /// What waits in it is kept.
    ///
    /// # Errors
    /// `setsockopt(2)`.
    pub fn set_receive_buffer(&self, bytes: usize) -> io::Result<()> {
        // As root or with CAP_NET_ADMIN, past net.core.rmem_max; otherwise up to it.
        let forced = setsockopt(&self.socket, sockopt::RcvBufForce, &bytes);
        Ok(forced.or_else(|_| setsockopt(&self.socket, sockopt::RcvBuf, &bytes))?)
    }

    /// A probe of the socket's kernel counters that can be used from another thread.
    pub fn probe(&self) -> io::Result<UdpProbe> {
        Ok(UdpProbe {
            socket: self.socket.try_clone()?,
        })
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

impl AsRawFd for UdpReceiver {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

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

/// Reads the kernel's counters of one UDP socket.
pub struct UdpProbe {
    socket: UdpSocket,
}

/// What `SO_MEMINFO` says of a socket (linux/sock_diag.h).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemInfo {
    /// Bytes queued for us, with the kernel's overhead (`SK_MEMINFO_RMEM_ALLOC`).
    pub queued_bytes: u32,
    /// The receive buffer's limit in the same bytes (`SK_MEMINFO_RCVBUF`).
    pub buffer_bytes: u32,
    /// Datagrams dropped since the socket was made, modulo 2^32 (`SK_MEMINFO_DROPS`).
    pub drops: u32,
}

impl UdpProbe {
    /// The counters now.
    ///
    /// # Errors
    /// `getsockopt(2)`; Linux has `SO_MEMINFO` since 4.12.
    pub fn meminfo(&self) -> io::Result<MemInfo> {
        // SK_MEMINFO_VARS of linux/sock_diag.h: RMEM_ALLOC, RCVBUF, WMEM_ALLOC, SNDBUF,
        // FWD_ALLOC, WMEM_QUEUED, OPTMEM, BACKLOG, DROPS.
        let mut values = [0u32; 9];
        let mut len = size_of_val(&values) as libc::socklen_t;
        // SAFETY: `values` is writable for `len` bytes, and the kernel writes at most that.
        let rc = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MEMINFO,
                values.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if rc != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(MemInfo {
            queued_bytes: values[0],
            buffer_bytes: values[1],
            drops: values[8],
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pair() -> (UdpSocket, UdpReceiver) {
        let receiver = UdpReceiver::new(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr()).unwrap();
        (sender, receiver)
    }

    #[test]
    fn a_receive_buffer_becomes_smaller_and_larger_and_keeps_what_waits() {
        let (sender, mut receiver) = pair();
        let probe = receiver.probe().unwrap();
        let size = |bytes| {
            receiver.set_receive_buffer(bytes).unwrap();
            probe.meminfo().unwrap().buffer_bytes
        };
        // The kernel counts twice what is asked for.
        assert_eq!(size(100_000), 200_000);
        sender.send(b"waits").unwrap();
        assert_eq!((size(20_000), size(90_000)), (40_000, 180_000));
        assert_eq!(receiver.receive().unwrap(), 1);
        assert_eq!(receiver.datagram(0).unwrap().bytes, b"waits");
    }

    #[test]
    fn datagrams_come_whole_short_and_long() {
        let (sender, mut receiver) = pair();
        let long: Vec<u8> = (0..60_000u32).map(|i| i as u8).collect();
        sender.send(b"short").unwrap();
        sender.send(b"").unwrap();
        sender.send(&long).unwrap();
        assert_eq!(receiver.receive().unwrap(), 3);
        let first = receiver.datagram(0).unwrap();
        assert_eq!(first.bytes, b"short");
        assert_eq!(first.from, sender.local_addr().unwrap().ip());
        assert!(receiver.datagram(1).unwrap().bytes.is_empty());
        let third = receiver.datagram(2).unwrap();
        assert_eq!(third.bytes, long);
        assert!(receiver.datagram(3).is_none());
        assert_eq!(
            receiver.receive().unwrap(),
            0,
            "nothing is left, and nothing waits"
        );
    }

    #[test]
    fn the_kernel_counts_what_it_drops() {
        let (sender, mut receiver) = pair();
        let probe = receiver.probe().unwrap();
        socket2::SockRef::from(&receiver.socket)
            .set_recv_buffer_size(4096)
            .unwrap();
        for _ in 0..500 {
            sender.send(&[b'x'; 800]).unwrap();
        }
        let mut read = 0;
        loop {
            match receiver.receive().unwrap() {
                0 => break,
                n => read += n,
            }
        }
        assert!(read < 500);
        assert_eq!(read + probe.meminfo().unwrap().drops as usize, 500);
    }

    #[test]
    fn a_socket_that_refuses_more_counts_what_comes() {
        let (sender, mut receiver) = pair();
        let probe = receiver.probe().unwrap();
        sender.send(b"queued").unwrap();
        receiver.refuse_more();
        sender.send(b"late").unwrap();
        assert_eq!(receiver.receive().unwrap(), 1);
        assert_eq!(receiver.datagram(0).unwrap().bytes, b"queued");
        assert_eq!(probe.meminfo().unwrap().drops, 1);
    }

    #[test]
    fn addresses_of_both_families_are_read() {
        let receiver = UdpSocket::bind("[::1]:0").unwrap();
        let mut receiver = UdpReceiver::new(receiver).unwrap();
        let sender = UdpSocket::bind("[::1]:0").unwrap();
        sender.send_to(b"six", receiver.local_addr()).unwrap();
        assert_eq!(receiver.receive().unwrap(), 1);
        assert_eq!(
            receiver.datagram(0).unwrap().from,
            IpAddr::V6(Ipv6Addr::LOCALHOST)
        );
    }
}
