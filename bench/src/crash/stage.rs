//! State that the killer, the senders and the recorder share: which life of the process this is,
//! and what every lane has sent.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inrush_harness::child::wait;

/// Mark before lane and number in every message.
pub(crate) const MARK: &str = "crash=";

/// Time that a sender waits before it tries to connect again.
const REDIAL: Duration = Duration::from_millis(3);

/// Events a second that one lane sends while it is connected.
const RATE: f64 = 1_200.0;

/// Events that a lane sends at once at most.
const BURST_MAX: f64 = 200.0;

/// Lives are numbered from 1; the process of a life is gone before the next number is given.
#[derive(Default)]
pub(crate) struct RunControl {
    life: AtomicU32,
    /// No more events are to be made.
    last_call: AtomicBool,
    /// True if the collector answers no request in this life.
    dead: AtomicBool,
    /// Something went wrong: everybody goes home.
    over: AtomicBool,
}

impl RunControl {
    pub(crate) fn life(&self) -> u32 {
        self.life.load(SeqCst)
    }

    pub(crate) fn next_life(&self) -> u32 {
        self.life.fetch_add(1, SeqCst) + 1
    }

    pub(crate) fn call_last(&self) {
        self.last_call.store(true, SeqCst);
    }

    pub(crate) fn is_last_call(&self) -> bool {
        self.last_call.load(SeqCst)
    }

    pub(crate) fn set_dead(&self, dead: bool) {
        self.dead.store(dead, SeqCst);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(SeqCst)
    }

    pub(crate) fn end(&self) {
        self.over.store(true, SeqCst);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }
}

/// By which protocol a lane sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LaneProtocol {
    Relp,
    Tcp,
    Hec,
}

/// A numbered stream of events over one connection at a time.
pub(crate) struct EventLane {
    pub(crate) id: u8,
    pub(crate) kind: LaneProtocol,
    pub(crate) port: u16,
    account: Mutex<Account>,
}

/// Account of a lane's events.
#[derive(Clone, Default)]
pub(crate) struct Account {
    /// Number of times that each event was begun to be sent.
    pub(crate) sends: Vec<u8>,
    /// True for each event that was answered with 200.
    pub(crate) acked: Vec<bool>,
    pub(crate) refused: u64,
    pub(crate) faults: Vec<String>,
    /// For each life in which it was connected, the first event sent in it.
    pub(crate) bases: Vec<(u32, u32)>,
}

impl EventLane {
    pub(crate) fn new(id: u8, kind: LaneProtocol, port: u16) -> Self {
        let account = Mutex::default();
        Self {
            id,
            kind,
            port,
            account,
        }
    }

    /// The source that listens for it.
    pub(crate) fn source(&self) -> String {
        match self.kind {
            LaneProtocol::Relp => format!("relp{}", self.id),
            LaneProtocol::Tcp => format!("tcp{}", self.id),
            LaneProtocol::Hec => format!("hec{}", self.id),
        }
    }

    pub(crate) fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Message `number`: its length differs from its neighbours'.
    pub(crate) fn message(&self, number: u32) -> String {
        let fill = (number as usize).wrapping_mul(37) % 400;
        let lane = self.id;
        format!(
            "<134>1 2026-03-04T05:06:07.089Z crash bench 42 ID - {MARK}{lane:02}-{number:010}; \
             {:x<fill$}",
            ""
        )
    }

    /// Connects to the process, and says in which life; nothing once all is over.
    pub(crate) fn dial(&self, stage: &RunControl) -> Option<(std::net::TcpStream, u32)> {
        while !stage.is_over() {
            let life = stage.life();
            let stream = std::net::TcpStream::connect(("127.0.0.1", self.port));
            // Made while one life lasted, it is a connection to that life.
            if let Ok(stream) = stream
                && stage.life() == life
                && stream.set_nodelay(true).is_ok()
            {
                return Some((stream, life));
            }
            wait(REDIAL);
        }
        None
    }
}

impl Account {
    /// Begins a new event; its number.
    pub(crate) fn begin(&mut self) -> u32 {
        self.sends.push(1);
        self.acked.push(false);
        (self.sends.len() - 1) as u32
    }
}

/// Token bucket of the events that may be sent now.
pub(crate) struct TokenBucket {
    since: Instant,
    credit: f64,
}

impl TokenBucket {
    pub(crate) fn new() -> Self {
        let since = Instant::now();
        Self { since, credit: 1.0 }
    }

    /// Takes what has become due.
    pub(crate) fn due(&mut self) -> usize {
        let now = Instant::now();
        let earned = now.duration_since(self.since).as_secs_f64() * RATE;
        self.since = now;
        self.credit = (self.credit + earned).min(BURST_MAX);
        let whole = self.credit.floor();
        self.credit -= whole;
        whole as usize
    }
}
