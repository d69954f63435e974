//! One thread a UDP socket, or a group of sockets that are read as one: read in bulk, frame, parse,
//! hand on.
//!
//! After a read that drained the socket the thread rests for a moment instead of asking to be
//! woken by the very next datagram ([`ReadPause`]): at 150,000 datagrams a second a wake-up each
//! costs more than everything else together. The rest is bounded by what the receive buffer can
//! hold at the present rate, so that it never causes a loss.

mod receivers;

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use inrush_event::{Origin, Peer, Protocol};
use inrush_ingest::batch_writer::{BatchWriter, WorkerContext};
use inrush_ingest::coalescing::CoalescingMeter;
use inrush_ingest::now::Now;
use inrush_ingest::pool::WorkerWaker;
use inrush_ingest::saturation::SaturationMonitor;
use inrush_transport::config::UdpBalance;
use inrush_transport::udp::{UdpProbe, UdpRead, UdpReceiver};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};

use crate::syslog::receive_buffer::ReceiveBufferTuner;
use inrush_ingest::batch_writer::source::IngestSource;

/// After the order to stop, a socket is read for at most this long.
const LAST_READ: Duration = Duration::from_secs(1);

pub(crate) use receivers::open;
/// Datagrams that are looked at before anything else is: sockets with small buffers emptied again,
/// and others helped.
const TOGETHER: usize = 256;

const SOCKET: Token = Token(0);
const WAKE: Token = Token(1);

/// A running socket thread.
pub(crate) struct UdpWorker {
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl UdpWorker {
    /// Starts the thread of a receiver. `buffer_bytes` is what the kernel granted its sockets as
    /// receive buffers together. A `shared` socket outlives us: it is left as it is when we stop.
    /// With `balance` `hash` or `random` the thread studies all that it reads itself.
    pub(crate) fn start(
        doors: WorkerContext,
        source: Arc<IngestSource>,
        receiver: UdpReceiver,
        buffer_bytes: u64,
        shared: bool,
        balance: UdpBalance,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let fd = receiver.as_raw_fd();
        poll.registry()
            .register(&mut SourceFd(&fd), SOCKET, Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let ours = Arc::clone(&waker);
        let wake = WorkerWaker::new(move || ours.wake());
        let stop = Arc::new(AtomicBool::new(false));
        let thread = thread::Builder::new().name(format!("udp-{}", source.name));
        let probes = receiver.probes();
        let worker = UdpLoop {
            poll,
            receiver,
            filler: BatchWriter::new(doors.clone(), Arc::clone(&source), Arc::clone(&wake)),
            wake,
            pressure: matches!(balance, UdpBalance::Auto | UdpBalance::Ordered)
                .then(SaturationMonitor::new),
            trickle: CoalescingMeter::new(Instant::now()),
            pause: ReadPause::new(buffer_bytes),
            backlog: ReceiveBufferTuner::new(buffer_bytes / probes.len().max(1) as u64),
            probes,
            stop: Arc::clone(&stop),
            stop_at: None,
            shared,
        };
        let thread = doors.spawn(thread, move || worker.run())?;
        Ok(Self {
            stop,
            waker,
            thread: Some(thread),
        })
    }

    /// Asks the thread to take in what is queued and end.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "cannot wake a UDP worker");
        }
    }

    /// Waits for the thread.
    pub(crate) fn join(mut self) {
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a UDP worker ended by a fault; its socket is closed");
        }
    }

    /// True if the thread has ended.
    pub(crate) fn ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

struct UdpLoop {
    poll: Poll,
    receiver: UdpReceiver,
    filler: BatchWriter,
    /// Ends our own sleep.
    wake: Arc<WorkerWaker>,
    /// `None`: the work is not shared.
    pressure: Option<SaturationMonitor>,
    pause: ReadPause,
    trickle: CoalescingMeter,
    backlog: ReceiveBufferTuner,
    probes: Vec<UdpProbe>,
    stop: Arc<AtomicBool>,
    /// Set once we were asked to stop: when to end even if senders go on.
    stop_at: Option<Instant>,
    shared: bool,
}

impl UdpLoop {
    fn run(mut self) {
        let mut events = Events::with_capacity(4);
        let local = self.receiver.local_addr();
        // From datagram to datagram only the address changes.
        let mut origin = Origin::Peer(Peer {
            ip: local.ip(),
            local_port: local.port(),
            protocol: Protocol::Udp,
            client: None,
        });
        loop {
            let stopping = self.stop.load(Ordering::Acquire);
            if stopping && !self.shared {
                self.receiver.refuse_more();
            }
            let last = stopping && self.late();
            let UdpRead {
                datagrams,
                mut more,
            } = match last {
                true => self.receiver.give_up(),
                false => self.read(),
            };
            let mut now = Now::read();
            for index in 0..datagrams {
                if index % TOGETHER == TOGETHER - 1 && !last {
                    more |= self.receiver.gather();
                    now = Now::read();
                    self.filler.help(now);
                }
                self.receiver.fetch(index, self.filler.room());
                if let Some(datagram) = self.receiver.datagram(index) {
                    self.trickle.read(datagram.bytes.len());
                    if let Origin::Peer(peer) = &mut origin {
                        peer.ip = datagram.from;
                    }
                    let (bytes, cut) = (datagram.bytes, datagram.cut);
                    self.filler.take_datagram(bytes, cut, &origin, now);
                }
            }
            self.filler.pace(self.trickle.holds(now.instant));
            self.filler.flush_if_due(now);
            let busy = self.filler.help(now);
            self.judge(now);
            if last || stopping && !self.receiver.holds() && (self.shared || !more) {
                // A shared socket is left to its next owner, with all that it still holds.
                break;
            } else if more {
                self.pause.count(datagrams);
            } else if busy {
                // No time to rest: others would wait for what this thread has begun.
                self.pause.after_draining(datagrams, now.instant);
            } else {
                let rest = self.pause.after_draining(datagrams, now.instant);
                match rest {
                    Some(rest) => thread::sleep(rest),
                    None => self.wait(&mut events, now),
                }
                let rested = now.instant.elapsed();
                self.backlog.rested(rested);
                if let Some(pressure) = &mut self.pressure {
                    pressure.rested(rested);
                }
            }
        }
        self.filler.close(Now::read());
    }

    fn read(&mut self) -> UdpRead {
        self.receiver.receive().unwrap_or_else(|error| {
            let source = &self.filler.source().name;
            tracing::error!(%error, source, "reading a UDP socket failed");
            UdpRead::default()
        })
    }

    /// Has others help from now on, or not any more; and as much wait as is of use.
    fn judge(&mut self, now: Now) {
        let add = |sum: u32, probe: &UdpProbe| Some(sum.wrapping_add(probe.meminfo().ok()?.drops));
        let drops = || self.probes.iter().try_fold(0, add);
        if let Some(bytes) = self.backlog.judge(now.instant, drops) {
            self.resize(bytes);
        }
        let Some(pressure) = &mut self.pressure else {
            return;
        };
        let (helped, blocked) = self.filler.take_times();
        pressure.helped(helped);
        pressure.rested(blocked);
        if let Some(share) = pressure.judge(now.instant) {
            self.filler.share(share);
        }
    }

    /// Changes the size of each receive buffer.
    fn resize(&mut self, bytes: u64) {
        let source = &self.filler.source().name;
        match self.receiver.set_receive_buffer(bytes as usize) {
            Ok(()) => {
                // A rest that a large buffer bridges would lose datagrams with a small one.
                self.pause.capacity = ReadPause::capacity(bytes * self.probes.len() as u64);
                tracing::info!(source, bytes, "receive buffer: as much as is of use now");
            }
            // It stays as it is.
            Err(error) => tracing::warn!(source, %error, "cannot change a receive buffer"),
        }
    }

    /// True if emptying the socket after the order to stop has taken too long: the kernel would not
    /// refuse what still comes.
    fn late(&mut self) -> bool {
        let now = Instant::now();
        now >= *self.stop_at.get_or_insert(now + LAST_READ)
    }

    /// Sleeps until a datagram comes, the open batch is due, or someone wakes us.
    fn wait(&mut self, events: &mut Events, now: Now) {
        let timeout = self
            .filler
            .due()
            .map(|due| due.saturating_duration_since(now.instant));
        self.wake.fall_asleep();
        let timeout = match self.filler.has_news() || self.receiver.holds() {
            true => Some(Duration::ZERO),
            false => timeout,
        };
        let polled = self.poll.poll(events, timeout);
        self.wake.awake();
        match polled {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::error!(%error, "waiting for datagrams failed");
                thread::sleep(Duration::from_millis(10));
            }
        }
        // Registration is edge-triggered: the caller reads until the socket is drained.
        self.filler.flush_if_due(Now::read());
    }
}

/// Rest after draining a socket: its length, by the rate and the receive buffer.
struct ReadPause {
    /// Datagrams that the receive buffer surely holds, at the kernel's worst overhead.
    capacity: u64,
    window_start: Instant,
    window_datagrams: u64,
    /// Datagrams a second in the last full window.
    rate: u64,
}

impl ReadPause {
    /// The rate is measured over windows of this length.
    const WINDOW: Duration = Duration::from_millis(20);
    /// Below this rate (datagrams a second) every datagram may wake us.
    const RATE_MIN: u64 = 10_000;
    /// The same with a buffer that bridges the longest rest whatever comes: a link of 10 Gbit/s
    /// brings so many datagrams of 100 bytes in 4 ms.
    const RATE_MIN_BRIDGED: u64 = 500;
    const BRIDGES: u64 = 30_000;
    /// Rests are never longer than this, which is less than a batch may wait anyway. Measured at
    /// 150,000 datagrams a second: rests of 1 ms cost 10 % more CPU than rests of 4 ms.
    const REST_MAX: Duration = Duration::from_millis(4);
    /// Rests shorter than this gain nothing.
    const REST_MIN: Duration = Duration::from_micros(100);
    /// Of the receive buffer, this share (1/n) may fill up during a rest.
    const HEADROOM: u64 = 16;
    /// Bytes that a datagram of ordinary size takes of the receive buffer.
    const DATAGRAM_TRUESIZE: u64 = 2304;

    fn new(buffer_bytes: u64) -> Self {
        Self {
            capacity: Self::capacity(buffer_bytes),
            window_start: Instant::now(),
            window_datagrams: 0,
            rate: 0,
        }
    }

    /// The kernel's limit is twice what it says it granted.
    fn capacity(buffer_bytes: u64) -> u64 {
        2 * buffer_bytes / Self::DATAGRAM_TRUESIZE
    }

    fn count(&mut self, n: usize) {
        self.window_datagrams += n as u64;
    }

    /// The rest to take after a read of `n` datagrams left nothing; `None`: wait to be woken.
    fn after_draining(&mut self, n: usize, now: Instant) -> Option<Duration> {
        self.count(n);
        let elapsed = now.duration_since(self.window_start);
        if elapsed >= Self::WINDOW {
            self.rate = (self.window_datagrams as f64 / elapsed.as_secs_f64()) as u64;
            self.window_start = now;
            self.window_datagrams = 0;
        }
        let least = match self.capacity >= Self::BRIDGES {
            true => Self::RATE_MIN_BRIDGED,
            false => Self::RATE_MIN,
        };
        if n == 0 || self.rate < least {
            return None;
        }
        let fills = self.capacity / Self::HEADROOM;
        let rest = Duration::from_nanos(fills.saturating_mul(1_000_000_000) / self.rate);
        (rest >= Self::REST_MIN).then(|| rest.min(Self::REST_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(buffer_bytes: u64, datagrams: usize) -> Option<Duration> {
        let mut pause = ReadPause::new(buffer_bytes);
        let start = pause.window_start;
        pause.after_draining(datagrams, start + Duration::from_millis(100))
    }

    #[test]
    fn a_trickle_wakes_at_once() {
        assert_eq!(rest(4 << 20, 900), None, "9,000 a second");
        assert_eq!(rest(64 << 20, 40), None, "400 a second");
    }

    #[test]
    fn an_ordinary_rate_gathers_where_the_buffer_bridges_any_burst() {
        assert_eq!(
            rest(64 << 20, 500),
            Some(ReadPause::REST_MAX),
            "5,000 a second"
        );
    }

    #[test]
    fn a_surge_rests_as_long_as_the_buffer_allows() {
        assert_eq!(rest(64 << 20, 15_000), Some(ReadPause::REST_MAX));
        // 4 MiB hold some 3,640 datagrams; a sixteenth of them comes in 152 µs at 1.5 M/s.
        let short = rest(4 << 20, 150_000).map(|rest| rest.as_micros());
        assert!(
            short.is_some_and(|us| (140..160).contains(&us)),
            "{short:?}"
        );
        assert_eq!(
            rest(212_992 / 2, 15_000),
            None,
            "a small buffer is never left alone"
        );
    }
}
