//! UDP receiving: `recvmmsg` in bulk, the receive buffer as large as the kernel allows, and the
//! kernel's own count of what it dropped.
//!
//! Where the kernel bounds a socket's buffer (`net.core.rmem_max`, without `CAP_NET_ADMIN`),
//! several sockets of one address are read as one ([`UdpReceiver::new`]): the bound is on each.
//!
//! `UDP_GRO` is left off on purpose. With it a burst that the kernel drops counts once in
//! `sk_drops` however many datagrams it held (measured on Linux 6.18: 864 of 960 lost datagrams
//! uncounted), and a ledger that is exact to the packet is worth more than its cycles.

mod merge;
mod slots;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use inrush_event::limits;

use crate::listen::set_receive_buffer;
use merge::DatagramMerge;
use slots::ReceiveSlots;

/// One datagram of the last read.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The payload.
    pub bytes: &'a [u8],
    /// Address of the sender, IPv4-mapped addresses unmapped.
    pub from: IpAddr,
    /// True if the kernel had to cut it.
    pub cut: bool,
}

/// Result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UdpRead {
    /// Datagrams to be had by [`UdpReceiver::datagram`].
    pub datagrams: usize,
    /// True if more may wait in the kernel.
    pub more: bool,
}

/// Receives the datagrams of an address into buffers of its own, in bulk.
pub struct UdpReceiver {
    sockets: Vec<Arc<UdpSocket>>,
    local: SocketAddr,
    slots: ReceiveSlots,
    /// With more than one socket.
    several: Option<SocketGroup>,
}

/// State for reading several sockets as one.
struct SocketGroup {
    poll: mio::Poll,
    events: mio::Events,
    /// For each socket: whether it may have something.
    ready: Vec<bool>,
    merge: DatagramMerge,
}

/// Reads of one socket in a pass: more than a receive buffer of the default `net.core.rmem_max`
/// holds.
const READS_PER_PASS: usize = 16;

/// Bytes of datagrams that are read before others have been looked at: once there are so many, a
/// pass reads each socket once at most, and [`UdpReceiver::gather`] none.
const STORED_MAX: usize = 16 << 20;

impl UdpReceiver {
    /// Takes over bound sockets and makes them non-blocking. Several have to share an address and
    /// stamp what they receive ([`crate::listen::udp_sockets_to_merge`]); they are read as one:
    /// each sender's datagrams come in the order in which the kernel received them, whichever
    /// socket it put them into.
    ///
    /// # Errors
    /// There is none, one is not bound, or the process has no file descriptor left.
    pub fn new(sockets: Vec<UdpSocket>) -> io::Result<Self> {
        let first = sockets.first().ok_or(io::ErrorKind::InvalidInput)?;
        let local = first.local_addr()?;
        for socket in &sockets {
            socket.set_nonblocking(true)?;
        }
        let several = match sockets.len() {
            1 => None,
            _ => Some(SocketGroup::of(&sockets)?),
        };
        Ok(Self {
            local,
            slots: ReceiveSlots::new(several.is_some()),
            sockets: sockets.into_iter().map(Arc::new).collect(),
            several,
        })
    }

    /// The address that it receives at.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Reads what is there without waiting; of one socket at most
    /// [`limits::DATAGRAMS_PER_READ`] datagrams. Look at them with [`Self::datagram`].
    ///
    /// # Errors
    /// What `recvmmsg(2)` and `epoll_wait(2)` say, but for "would block" and "interrupted".
    pub fn receive(&mut self) -> io::Result<UdpRead> {
        let Some(several) = &mut self.several else {
            let datagrams = self.slots.receive(self.sockets[0].as_fd())?;
            let more = datagrams == limits::DATAGRAMS_PER_READ;
            return Ok(UdpRead { datagrams, more });
        };
        several.merge.forget();
        let mut passed = several.pass(&self.sockets, &mut self.slots);
        if several.merge.held() > 0 {
            // What the first pass read is handed out by the second.
            passed = passed.and(several.pass(&self.sockets, &mut self.slots));
        }
        match passed {
            // What other sockets had must be looked at first.
            Err(error) if several.merge.len() == 0 => Err(error),
            _ => Ok(UdpRead {
                datagrams: several.merge.len(),
                more: several.ready.contains(&true),
            }),
        }
    }

    /// Takes what waits in several sockets out of them, for the next [`Self::receive`]: for a
    /// caller that has much to do with what the last one gave. A single socket is left as it is.
    /// Says whether there was anything.
    pub fn gather(&mut self) -> bool {
        let Some(several) = &mut self.several else {
            return false;
        };
        let held = several.merge.held();
        if several.merge.stored() < STORED_MAX {
            // What went wrong, the next `receive` meets too.
            let _ = several.collect(&self.sockets, &mut self.slots);
        }
        several.merge.held() > held
    }

    /// True if datagrams were read that the next [`Self::receive`] will give, whatever comes.
    pub fn holds(&self) -> bool {
        let holds = |several: &SocketGroup| several.merge.held() > 0;
        self.several.as_ref().is_some_and(holds)
    }

    /// Gives those that it [holds](Self::holds), and reads no more.
    pub fn give_up(&mut self) -> UdpRead {
        let datagrams = match &mut self.several {
            None => 0,
            Some(several) => {
                several.merge.forget();
                several.merge.hand_out_all();
                several.merge.len()
            }
        };
        let more = false;
        UdpRead { datagrams, more }
    }

    /// Datagram `index` of the last [`Self::receive`]; `None` beyond what it returned.
    pub fn datagram(&self, index: usize) -> Option<Datagram<'_>> {
        match &self.several {
            None => self.slots.datagram(index),
            Some(several) => several.merge.datagram(index),
        }
    }

    /// Has the processor fetch what follows datagram `index` of the last [`Self::receive`] while
    /// the caller works on that one, and the part of `room` that it will be copied to after that
    /// one. What the kernel has just written lies in a far cache: reading it costs 80 ns a
    /// datagram where nothing else is done meanwhile; an arena's lines cost the same.
    pub fn fetch(&self, index: usize, room: &mut [u8]) {
        let Some(several) = &self.several else {
            return self.slots.fetch(index, room);
        };
        let of = |index| several.merge.datagram(index).map(|datagram| datagram.bytes);
        if let (Some(this), Some(next)) = (of(index), of(index + 1)) {
            slots::fetch(next, this.len(), room);
        }
    }

    /// Has the kernel drop, and count, every datagram that comes from now on, so that after the
    /// queue is emptied nothing can be lost unseen between the last read and the close. What the
    /// kernel refuses here is only that exactness; the socket works on.
    pub fn refuse_more(&self) {
        // A classic BPF program of one instruction, `ret 0`: keep no byte of the packet.
        let code = (libc::BPF_RET | libc::BPF_K) as u16;
        for socket in &self.sockets {
            let drop_all = socket2::SockFilter::new(code, 0, 0, 0);
            if let Err(error) = socket2::SockRef::from(&**socket).attach_filter(&[drop_all]) {
                tracing::debug!(%error, "cannot close a UDP socket to new datagrams");
            }
        }
    }

    /// Makes the receive buffer of each socket as large as this, or as the kernel allows, also
    /// smaller than it is. What waits in it is kept.
    ///
    /// # Errors
    /// `setsockopt(2)`.
    pub fn set_receive_buffer(&self, bytes: usize) -> io::Result<()> {
        let mut sockets = self.sockets.iter();
        sockets.try_for_each(|socket| set_receive_buffer(socket, bytes))
    }

    /// Probes of the sockets' kernel counters that can be used from another thread. A socket stays
    /// open as long as its probe.
    pub fn probes(&self) -> Vec<UdpProbe> {
        let probe = |socket: &Arc<UdpSocket>| UdpProbe(Arc::clone(socket));
        self.sockets.iter().map(probe).collect()
    }
}

impl SocketGroup {
    fn of(sockets: &[UdpSocket]) -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        for (index, socket) in sockets.iter().enumerate() {
            let mut source = mio::unix::SourceFd(&socket.as_raw_fd());
            poll.registry()
                .register(&mut source, mio::Token(index), mio::Interest::READABLE)?;
        }
        Ok(Self {
            poll,
            events: mio::Events::with_capacity(sockets.len()),
            ready: vec![true; sockets.len()],
            merge: DatagramMerge::default(),
        })
    }

    /// Reads every socket that has something until it has nothing, and hands out in order what has
    /// ripened.
    fn pass(&mut self, sockets: &[Arc<UdpSocket>], slots: &mut ReceiveSlots) -> io::Result<()> {
        let collected = self.collect(sockets, slots);
        self.merge.end_pass();
        collected
    }

    /// Reads every socket that has something until it has nothing.
    fn collect(&mut self, sockets: &[Arc<UdpSocket>], slots: &mut ReceiveSlots) -> io::Result<()> {
        self.merge.begin_pass();
        match self.poll.poll(&mut self.events, Some(Duration::ZERO)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &self.events {
            self.ready[event.token().0] = true;
        }
        let mut failed = Ok(());
        for (ready, socket) in self.ready.iter_mut().zip(sockets) {
            let mut reads = 0;
            let mut last = 0;
            let more = |merge: &DatagramMerge| merge.stored() < STORED_MAX;
            while *ready && reads < READS_PER_PASS && (reads == 0 || more(&self.merge)) {
                let n = slots.receive(socket.as_fd()).unwrap_or_else(|error| {
                    failed = Err(error);
                    0
                });
                *ready = n == limits::DATAGRAMS_PER_READ;
                reads += 1;
                for index in 0..n {
                    last = slots.stamp(index);
                    if let Some(datagram) = slots.datagram(index) {
                        self.merge.take(last, slots.port(index), datagram);
                    }
                }
            }
            if *ready {
                self.merge.not_emptied(last);
            }
        }
        failed
    }
}

/// The descriptor that becomes readable when there is something to receive.
impl AsRawFd for UdpReceiver {
    fn as_raw_fd(&self) -> RawFd {
        match &self.several {
            None => self.sockets[0].as_raw_fd(),
            Some(several) => several.poll.as_raw_fd(),
        }
    }
}

/// Reads the kernel's counters of one UDP socket.
pub struct UdpProbe(Arc<UdpSocket>);

/// Counters of a socket from `SO_MEMINFO` (linux/sock_diag.h).
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
                self.0.as_raw_fd(),
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
    use std::net::Ipv6Addr;

    use super::*;
    use crate::listen;

    fn read(receiver: &mut UdpReceiver) -> usize {
        receiver.receive().unwrap().datagrams
    }

    fn pair() -> (UdpSocket, UdpReceiver) {
        let receiver = UdpReceiver::new(vec![UdpSocket::bind("127.0.0.1:0").unwrap()]).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr()).unwrap();
        (sender, receiver)
    }

    #[test]
    fn a_receive_buffer_becomes_smaller_and_larger_and_keeps_what_waits() {
        let (sender, mut receiver) = pair();
        let probes = receiver.probes();
        let size = |bytes| {
            receiver.set_receive_buffer(bytes).unwrap();
            probes[0].meminfo().unwrap().buffer_bytes
        };
        // The kernel counts twice what is asked for.
        assert_eq!(size(100_000), 200_000);
        sender.send(b"waits").unwrap();
        assert_eq!((size(20_000), size(90_000)), (40_000, 180_000));
        assert_eq!(read(&mut receiver), 1);
        assert_eq!(receiver.datagram(0).unwrap().bytes, b"waits");
    }

    #[test]
    fn datagrams_come_whole_short_and_long() {
        let (sender, mut receiver) = pair();
        let long: Vec<u8> = (0..60_000u32).map(|i| i as u8).collect();
        sender.send(b"short").unwrap();
        sender.send(b"").unwrap();
        sender.send(&long).unwrap();
        assert_eq!(read(&mut receiver), 3);
        let first = receiver.datagram(0).unwrap();
        assert_eq!(first.bytes, b"short");
        assert_eq!(first.from, sender.local_addr().unwrap().ip());
        assert!(receiver.datagram(1).unwrap().bytes.is_empty());
        let third = receiver.datagram(2).unwrap();
        assert_eq!(third.bytes, long);
        assert!(receiver.datagram(3).is_none());
        assert_eq!(read(&mut receiver), 0, "nothing is left, and nothing waits");
    }

    #[test]
    fn the_kernel_counts_what_it_drops() {
        let (sender, mut receiver) = pair();
        let probes = receiver.probes();
        socket2::SockRef::from(&*receiver.sockets[0])
            .set_recv_buffer_size(4096)
            .unwrap();
        for _ in 0..500 {
            sender.send(&[b'x'; 800]).unwrap();
        }
        let mut got = 0;
        loop {
            match read(&mut receiver) {
                0 => break,
                n => got += n,
            }
        }
        assert!(got < 500);
        assert_eq!(got + probes[0].meminfo().unwrap().drops as usize, 500);
    }

    #[test]
    fn a_socket_that_refuses_more_counts_what_comes() {
        let (sender, mut receiver) = pair();
        let probes = receiver.probes();
        sender.send(b"queued").unwrap();
        receiver.refuse_more();
        sender.send(b"late").unwrap();
        assert_eq!(read(&mut receiver), 1);
        assert_eq!(receiver.datagram(0).unwrap().bytes, b"queued");
        assert_eq!(probes[0].meminfo().unwrap().drops, 1);
    }

    #[test]
    fn addresses_of_both_families_are_read() {
        let receiver = UdpSocket::bind("[::1]:0").unwrap();
        let mut receiver = UdpReceiver::new(vec![receiver]).unwrap();
        let sender = UdpSocket::bind("[::1]:0").unwrap();
        sender.send_to(b"six", receiver.local_addr()).unwrap();
        assert_eq!(read(&mut receiver), 1);
        assert_eq!(
            receiver.datagram(0).unwrap().from,
            IpAddr::V6(Ipv6Addr::LOCALHOST)
        );
    }

    /// Sixteen sockets of one address, in so many groups.
    fn merging(address: &str, groups: usize) -> Option<(Vec<UdpReceiver>, SocketAddr)> {
        UdpSocket::bind((address, 0)).ok()?;
        let each = 16 / groups;
        let address = SocketAddr::new(address.parse().unwrap(), 0);
        let listen = format!("udp://{address}").parse().unwrap();
        let mut sockets = listen::udp_sockets_to_merge(listen, groups, each).unwrap();
        let at = sockets[0].local_addr().unwrap();
        let mut receivers = Vec::new();
        while !sockets.is_empty() {
            let rest = sockets.split_off(each);
            receivers.push(UdpReceiver::new(sockets).unwrap());
            sockets = rest;
        }
        Some((receivers, at))
    }

    fn number(datagram: Datagram<'_>) -> u32 {
        u32::from_le_bytes(datagram.bytes.try_into().unwrap())
    }

    #[test]
    fn sockets_read_as_one_keep_the_order_of_their_sender() {
        let (mut receivers, at) = merging("127.0.0.1", 1).unwrap();
        let receiver = &mut receivers[0];
        const DATAGRAMS: u32 = 50_000;
        let sends = std::thread::spawn(move || {
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            for n in 0..DATAGRAMS {
                sender.send_to(&n.to_le_bytes(), at).unwrap();
            }
        });
        let mut next = 0;
        let mut ended = false;
        loop {
            let read = receiver.receive().unwrap();
            for index in 0..read.datagrams {
                let n = number(receiver.datagram(index).unwrap());
                assert!(n >= next, "{n} came after {next}");
                next = n + 1;
            }
            if ended && read.datagrams == 0 {
                break;
            }
            ended = sends.is_finished();
        }
        sends.join().unwrap();
        let lost: u32 = receiver.probes().iter().map(drops).sum();
        assert!(next > DATAGRAMS / 2, "{next}, {lost} lost");
        assert!(!receiver.holds());
    }

    fn drops(probe: &UdpProbe) -> u32 {
        probe.meminfo().unwrap().drops
    }

    #[test]
    fn each_sender_stays_with_one_group_and_uses_all_its_sockets() {
        uses_all_sockets_of_one_group("127.0.0.1");
        uses_all_sockets_of_one_group("::1");
    }

    fn uses_all_sockets_of_one_group(address: &str) {
        let Some((mut receivers, at)) = merging(address, 2) else {
            return; // A machine without IPv6.
        };
        let senders: Vec<_> = (0..32)
            .map(|_| UdpSocket::bind((address, 0)).unwrap())
            .collect();
        for _ in 0..20 {
            for (n, sender) in senders.iter().enumerate() {
                sender.send_to(&(n as u32).to_le_bytes(), at).unwrap();
            }
        }
        let mut groups = vec![vec![0; senders.len()]; 2];
        for (receiver, counts) in receivers.iter_mut().zip(&mut groups) {
            let waiting = |probe: &UdpProbe| probe.meminfo().unwrap().queued_bytes > 0;
            let probes = receiver.probes();
            assert!(probes.iter().all(waiting), "a socket that got nothing");
            let read = receiver.receive().unwrap();
            assert!(!read.more);
            for index in 0..read.datagrams {
                counts[number(receiver.datagram(index).unwrap()) as usize] += 1;
            }
        }
        for (one, other) in groups[0].iter().zip(&groups[1]) {
            assert!([(20, 0), (0, 20)].contains(&(*one, *other)), "{groups:?}");
        }
        // All with one group has a chance of 2 in 2^32.
        assert!(groups.iter().all(|group| group.contains(&20)), "{groups:?}");
    }
}
