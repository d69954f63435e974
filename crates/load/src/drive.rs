//! The loop of one sending thread: ask the pacer, serve the lanes in turn, wait.
//!
//! A lane is one connection or socket. Lanes share the thread's tape, so a thread's memory does
//! not grow with its connections. A lane whose peer does not keep up is passed over until the
//! kernel says that it has room; it delays no other lane.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::clock::MessageClock;
use crate::message::Tape;
use crate::pace::Pacer;

/// Milliseconds: the longest wait before looking at the stop flag again.
const WAIT_MAX_MS: u16 = 100;

/// Milliseconds: the longest wait before looking at the clock again when all is sent.
const SETTLE_STEP_MS: u16 = 20;

/// Messages and bytes that went on their way in one push.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct PushedCounts {
    /// Messages, a cut one included: its rest follows.
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// One connection or socket, as the loop sees it.
pub(crate) trait SendLane {
    /// Messages that it sends in all.
    fn quota(&self) -> u64;
    /// True if anything is left to send and it can be sent.
    fn open(&self) -> bool;
    /// True if the kernel had no room at the last push.
    fn blocked(&self) -> bool;
    /// The kernel has room again.
    fn unblock(&mut self);
    /// Descriptor to poll; `None` while there is no connection.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
    /// Events to poll it for while it is blocked.
    fn interest(&self) -> PollFlags {
        PollFlags::POLLOUT
    }
    /// Sends up to `want` messages, and first whatever was left of a cut one.
    fn push(&mut self, tape: &mut Tape, want: u64, clock: &mut MessageClock) -> PushedCounts;
    /// True if it owes or is owed something for what was begun, and may still get it.
    fn unfinished(&self) -> bool {
        false
    }
    /// No more messages are begun.
    fn begin_no_more(&mut self) {}
}

/// Messages and bytes that a thread has sent so far, for the progress line and the meter.
#[derive(Default, Debug)]
pub(crate) struct SendProgress {
    pub(crate) messages: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// Stop conditions of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StopConditions<'a> {
    pub(crate) start: Instant,
    pub(crate) interval: Option<Duration>,
    /// Age that the first message claims by its time; the last one claims the present.
    pub(crate) backdate: Option<Duration>,
    /// Set from outside, for example on Ctrl-C.
    pub(crate) stop: &'a AtomicBool,
}

impl StopConditions<'_> {
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Age by which a message is dated back that is sent now, when `sent` of `quota` messages are
    /// out.
    fn behind(&self, sent: u64, quota: u64) -> Option<Duration> {
        let backdate = self.backdate?;
        let by_number = sent as f64 / quota.max(1) as f64;
        let by_time = self.elapsed_ns() as f64 / self.end_ns() as f64;
        let left = (1.0 - by_number.max(by_time)).max(0.0);
        Some(backdate.mul_f64(left))
    }

    fn end_ns(&self) -> u64 {
        self.interval
            .map_or(u64::MAX, |interval| interval.as_nanos() as u64)
    }
}

/// Sends until all lanes are done or `until` says so. Without a pacer it goes as fast as the
/// lanes take it.
pub(crate) fn drive<L: SendLane>(
    lanes: &mut [L],
    tape: &mut Tape,
    clock: &mut MessageClock,
    pacer: Option<&Pacer>,
    until: &StopConditions<'_>,
    progress: &SendProgress,
) {
    let mut turn = LaneCursor { cursor: 0 };
    let mut handed = 0;
    let quota = lanes
        .iter()
        .fold(0, |sum: u64, lane| sum.saturating_add(lane.quota()));
    loop {
        if let Some(behind) = until.behind(handed, quota) {
            clock.set_behind(behind);
        }
        let tick_ns = until.elapsed_ns();
        let last = tick_ns >= until.end_ns();
        let allowance = match pacer {
            // What fell due just before the end still goes out, so that rate × interval is exact
            // unless the sender was held up.
            Some(pacer) => pacer.allowance(tick_ns.min(until.end_ns()), handed),
            None if last => 0,
            None => u64::MAX,
        };
        let pushed = turn.serve(lanes, tape, clock, allowance);
        handed += pushed.messages;
        progress.messages.fetch_add(pushed.messages, Relaxed);
        progress.bytes.fetch_add(pushed.bytes, Relaxed);
        if last || until.stop.load(Relaxed) || !lanes.iter().any(SendLane::open) {
            return;
        }
        let pause_ns = pacer.map_or(0, |p| p.sleep_ns(until.elapsed_ns(), tick_ns, handed));
        pause(lanes, pause_ns, pushed.bytes == 0 && allowance > 0, until);
    }
}

/// Finishes what was begun, within `longest`: rests of messages are sent, answers are waited for.
/// Call it before the clock of the run stops.
pub(crate) fn settle<L: SendLane>(
    lanes: &mut [L],
    tape: &mut Tape,
    clock: &mut MessageClock,
    longest: Duration,
) {
    let deadline = Instant::now() + longest;
    lanes.iter_mut().for_each(SendLane::begin_no_more);
    while lanes.iter().any(SendLane::unfinished) && Instant::now() < deadline {
        let ready = |lane: &&mut L| lane.unfinished() && !lane.blocked();
        for lane in lanes.iter_mut().filter(ready) {
            lane.push(tape, 0, clock);
        }
        if lanes
            .iter()
            .all(|lane| !lane.unfinished() || lane.blocked())
        {
            poll_writable(lanes, SETTLE_STEP_MS);
        }
    }
}

/// Cursor of the round-robin over the lanes.
struct LaneCursor {
    cursor: usize,
}

impl LaneCursor {
    /// Shares `allowance` among the lanes that can take it, starting where the last turn ended.
    fn serve<L: SendLane>(
        &mut self,
        lanes: &mut [L],
        tape: &mut Tape,
        clock: &mut MessageClock,
        allowance: u64,
    ) -> PushedCounts {
        let ready = lanes
            .iter()
            .filter(|lane| lane.open() && !lane.blocked())
            .count() as u64;
        let share = allowance.div_ceil(ready.max(1));
        let mut total = PushedCounts::default();
        for _ in 0..lanes.len() {
            let want = share.min(allowance.saturating_sub(total.messages));
            if want == 0 {
                break;
            }
            let at = self.cursor % lanes.len();
            self.cursor = at + 1;
            let lane = &mut lanes[at];
            if lane.open() && !lane.blocked() {
                let pushed = lane.push(tape, want, clock);
                total.messages += pushed.messages;
                total.bytes += pushed.bytes;
            }
        }
        total
    }
}

/// Waits for room on blocked lanes, for the next tick, or both.
fn pause<L: SendLane>(lanes: &mut [L], pause_ns: u64, stuck: bool, until: &StopConditions<'_>) {
    let any_blocked = lanes.iter().any(|lane| lane.open() && lane.blocked());
    if any_blocked {
        let left_ms = until.end_ns().saturating_sub(until.elapsed_ns()) / 1_000_000 + 1;
        let wait_ms = if stuck {
            left_ms.min(WAIT_MAX_MS.into()) as u16
        } else {
            0
        };
        poll_writable(lanes, wait_ms);
    }
    if pause_ns > 0 && !(any_blocked && stuck) {
        let longest_ns = u64::from(WAIT_MAX_MS) * 1_000_000;
        std::thread::sleep(Duration::from_nanos(pause_ns.min(longest_ns)));
    }
}

/// Asks the kernel which blocked lanes have room, waiting up to `wait_ms` for the first.
fn poll_writable<L: SendLane>(lanes: &mut [L], wait_ms: u16) {
    let blocked = lanes.iter().enumerate().filter(|(_, lane)| lane.blocked());
    let (waiting, mut asked): (Vec<usize>, Vec<PollFd<'_>>) = blocked
        .filter_map(|(i, lane)| Some((i, PollFd::new(lane.fd()?, lane.interest()))))
        .unzip();
    if poll(&mut asked, PollTimeout::from(wait_ms)).is_err() {
        return;
    }
    let ready: Vec<bool> = asked.iter().map(|fd| fd.any().unwrap_or(true)).collect();
    for (i, _) in waiting.iter().zip(&ready).filter(|(_, ready)| **ready) {
        lanes[*i].unblock();
    }
}
