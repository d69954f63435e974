//! Opening of a worker: without a connection, and awake.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{self, Sender};

use inrush_event::instant_now;
use inrush_ingest::batch_writer::WorkerContext;
use inrush_ingest::buffer_quota::BufferQuota;
use inrush_ingest::coalescing::CoalescingMeter;
use inrush_ingest::pool::WorkerWaker;
use inrush_ingest::saturation::SaturationMonitor;
use inrush_transport::stream::CIPHER_READ_BYTES;
use mio::{Poll, Waker};
use slab::Slab;

use super::gathering::CommitGathering;
use super::{SWEEP, StreamCommand, StreamLoop, WAKE, answers};

impl StreamLoop {
    /// A worker, the channel of its orders, and its waker.
    ///
    /// # Errors
    /// The kernel gives no further descriptor.
    pub(super) fn new(
        doors: WorkerContext,
        carry_bytes_max: u64,
    ) -> io::Result<(Self, Sender<StreamCommand>, Arc<Waker>)> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let (orders, inbox) = mpsc::channel();
        let (ours, now) = (Arc::clone(&waker), instant_now());
        let (awaited, hook) = answers::wake_when_durable(&doors.log, &waker);
        let worker = Self {
            poll,
            inbox,
            load: Arc::new(AtomicUsize::new(0)),
            doors,
            slots: Slab::new(),
            ready: VecDeque::new(),
            retries: Vec::new(),
            waiting: Vec::new(),
            parked: Vec::new(),
            room: true,
            fillers: Vec::new(),
            gone: Vec::new(),
            pressure: SaturationMonitor::new(),
            helping: false,
            wake: WorkerWaker::new(move || ours.wake()),
            share: BufferQuota::of(carry_bytes_max),
            serial: 0,
            awaited,
            _hook: hook,
            cipher: vec![0; CIPHER_READ_BYTES],
            sweep_at: now + SWEEP,
            answering: 0,
            gathering: CommitGathering::new(now),
            held_until: None,
            greeting_until: now,
            drained: false,
            trickle: CoalescingMeter::new(now),
            napped: None,
            stop_at: None,
        };
        Ok((worker, orders, waker))
    }
}
