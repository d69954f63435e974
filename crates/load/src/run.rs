//! Load run from start to end: connect, send, watch, settle, verify, report.
//!
//! # What it guarantees
//! * Every connection and `--acked-file` exist before the first message is sent.
//! * After that, errors go into the report, because the account of sent messages is still wanted.
//! * An early stop settles and verifies as usual; a missed `--number` is then an error.
//! * A sender thread that cannot start is named on stderr, and its messages count as not sent.
//!
//! # Limits
//! One deadline, `--drain-timeout` after sending, bounds ledger, idle wait and markers together.
//!
//! # After a crash
//! `--acked-file` is empty, because its lines are written after all sending.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use inrush_files::Access;
use nix::sys::resource::{UsageWho, getrusage};

use crate::acked::AnswerTally;
use crate::args::{Args, Transport};
use crate::clock::MessageClock;
use crate::dial::Dialer;
use crate::drive::{SendProgress, StopConditions, drive, settle};
use crate::error::LoadError;
use crate::fault::Faults;
use crate::hec::{HecDialect, HecLane};
use crate::latency::Latency;
use crate::meter::Metering;
use crate::pace::Pacer;
use crate::plan::LoadPlan;
use crate::relp::{RelpDialect, RelpLane};
use crate::report::{AnswerTotals, Connections, LoadReport, grouped};
use crate::stream::{StreamLane, StreamLink};
use crate::udp::UdpLane;
use crate::verify::{Verifier, VerifyReport};
use crate::{acked, demo, relp, stream, tcp, udp};

/// How often the progress line is written and the process measured.
const SECOND: Duration = Duration::from_secs(1);

/// How often a run that only holds idle connections looks at the stop flag.
const HOLD_STEP: Duration = Duration::from_millis(50);

/// What one sender did.
#[derive(Clone, Default, Debug)]
pub(crate) struct SenderTally {
    pub(crate) id: u64,
    /// Messages of which the kernel took every byte; their numbers are 0 to this.
    pub(crate) sent: u64,
    /// Messages begun; those beyond `sent` may have arrived or not.
    pub(crate) attempted: u64,
    pub(crate) bytes: u64,
    pub(crate) failed: bool,
    pub(crate) faults: Faults,
    /// Counts of the answers, over RELP or HTTP.
    pub(crate) answers: Option<AnswerTally>,
}

impl SenderTally {
    /// A sender that never began.
    fn failed(id: u64) -> Self {
        Self {
            id,
            failed: true,
            ..Self::default()
        }
    }

    /// Messages with numbers below this must have arrived: those sent; where they are answered,
    /// those.
    pub(crate) fn certain(&self) -> u64 {
        self.answers
            .as_ref()
            .map_or(self.sent, |answers| answers.acked.prefix())
    }
}

/// Sends as `args` say and gives the account.
///
/// # Errors
/// What kept the run from starting. Errors while sending or verifying are in the report.
pub fn run(args: &Args) -> Result<LoadReport, LoadError> {
    run_until(args, &AtomicBool::new(false))
}

/// [`run`], ended early when `stop` becomes true; what was sent is then settled and verified as
/// usual. If `--number` was not reached by then, that is an error in the report.
///
/// # Errors
/// As [`run`].
pub fn run_until(args: &Args, stop: &AtomicBool) -> Result<LoadReport, LoadError> {
    if args.demo {
        return demo::run(args, stop);
    }
    let plan = LoadPlan::resolve(args)?;
    let verifier = Verifier::start(args.verify.as_deref(), args.ledger.as_deref())?;
    let acked_file = create(args)?;
    let dialer = Dialer::new(args, &plan)?;
    let (parts, held) = connect(&dialer, &plan)?;
    let mut metering = args.target_pid.map(Metering::start).transpose()?;

    let cpu_before = own_cpu_seconds();
    let start = Instant::now();
    let until = StopConditions {
        backdate: plan.backdate,
        start,
        interval: plan.interval,
        stop,
    };
    let outcome = send(&plan, &dialer, parts, &until, metering.as_mut(), !args.json);
    let cpu_seconds = own_cpu_seconds() - cpu_before;

    let mut faults = Faults::default();
    tcp::closed_while_idle(&held, &mut faults);
    let mut report = account(&plan, args, &outcome, faults);
    report.cpu_seconds = cpu_seconds;
    if let Some((mut file, path)) = acked_file
        && let Err(error) = acked::write(&mut file, &plan.style.run, &outcome.senders)
    {
        let what = error.to_string();
        let path = path.to_owned();
        report.add_error("acked_file", LoadError::File { path, what }.to_string());
    }
    let short = report.requested.filter(|number| report.sent < *number);
    if let Some(number) = short.filter(|_| args.number.is_some() && stop.load(Relaxed)) {
        let (sent, number) = (grouped(report.sent), grouped(number));
        report.add_error(
            "interrupted",
            format!("{sent} of {number} messages were sent"),
        );
    }
    let deadline = Instant::now() + args.drain_timeout.0;
    let ledger = verifier.settle(report.sent, deadline);
    let ledger = keep_going(&mut report, ledger);
    if let Some(mut metering) = metering {
        let settled = match &ledger {
            Some(check) => check.settled,
            None => metering.wait_idle(deadline.saturating_duration_since(Instant::now())),
        };
        let t = start.elapsed().as_secs_f64();
        report.process = Some(metering.finish(t, report.sent, settled));
    }
    let markers = verifier.markers(&plan.style.run, &outcome.senders, deadline);
    let markers = keep_going(&mut report, markers);
    if markers.is_some() || ledger.is_some() {
        report.verify = Some(VerifyReport { markers, ledger });
    }
    Ok(report)
}

/// Turns a failed verification into an error in the report: what was sent is still worth telling.
fn keep_going<T>(report: &mut LoadReport, result: Result<Option<T>, LoadError>) -> Option<T> {
    result.unwrap_or_else(|error| {
        report.add_error("verify", error.to_string());
        None
    })
}

/// The file for what was answered, made before anything is sent.
fn create(args: &Args) -> Result<Option<(File, &Path)>, LoadError> {
    let Some(path) = args.acked_file.as_deref() else {
        return Ok(None);
    };
    let file = inrush_files::create(path, &Access::PRIVATE).map_err(|error| LoadError::File {
        path: path.to_owned(),
        what: error.to_string(),
    })?;
    Ok(Some((file, path)))
}

/// One sender before its thread makes a lane of it.
struct LaneSetup {
    id: u64,
    quota: u64,
    door: LaneSocket,
}

enum LaneSocket {
    Stream(StreamLink),
    Udp(UdpSocket),
}

/// Makes every connection, the idle ones too, before the first message.
fn connect(
    dialer: &Dialer,
    plan: &LoadPlan,
) -> Result<(Vec<LaneSetup>, Vec<TcpStream>), LoadError> {
    tcp::raise_descriptor_limit(plan.senders + plan.idle);
    let mut parts = Vec::new();
    for id in 0..plan.senders {
        let door = match plan.transport {
            Transport::Udp => LaneSocket::Udp(udp::open(dialer.address())?),
            _ => LaneSocket::Stream(dialer.stream()?),
        };
        parts.push(LaneSetup {
            id,
            quota: plan.quota(id),
            door,
        });
    }
    let mut held = Vec::new();
    for _ in 0..plan.idle {
        held.push(dialer.stream()?.into_socket());
    }
    Ok((parts, held))
}

/// What all threads did.
struct SendOutcome {
    senders: Vec<SenderTally>,
    seconds: f64,
}

/// Sends on `plan.threads` threads while this one watches.
fn send(
    plan: &LoadPlan,
    dialer: &Dialer,
    parts: Vec<LaneSetup>,
    until: &StopConditions<'_>,
    metering: Option<&mut Metering>,
    talk: bool,
) -> SendOutcome {
    let mut shares: Vec<Vec<LaneSetup>> = (0..plan.threads).map(|_| Vec::new()).collect();
    for (at, part) in parts.into_iter().enumerate() {
        shares[at % plan.threads].push(part);
    }
    let progress: Vec<SendProgress> = shares.iter().map(|_| SendProgress::default()).collect();
    let (done, finished) = mpsc::channel();
    let mut outcome = SendOutcome {
        senders: Vec::new(),
        seconds: 0.0,
    };
    std::thread::scope(|scope| {
        for (share, progress) in shares.into_iter().zip(&progress) {
            let failed = share.iter().map(|part| SenderTally::failed(part.id));
            let failed: Vec<SenderTally> = failed.collect();
            let lane_done = done.clone();
            let lane = move || work(plan, dialer, share, until, progress, &lane_done);
            let sender = std::thread::Builder::new().name("sender".into());
            if let Err(error) = sender.spawn_scoped(scope, lane) {
                eprintln!("inrush: no thread for a sender, it sends nothing: {error}");
                let (senders, seconds) = (failed, 0.0);
                // The receiver is in this function.
                let _ = done.send(SendOutcome { senders, seconds });
            }
        }
        drop(done);
        outcome = watch(
            &finished,
            &progress,
            until,
            metering,
            talk && plan.senders > 0,
        );
    });
    outcome.senders.sort_by_key(|sender| sender.id);
    outcome
}

/// One thread: its lanes until they are done, then their account.
fn work(
    plan: &LoadPlan,
    dialer: &Dialer,
    parts: Vec<LaneSetup>,
    until: &StopConditions<'_>,
    progress: &SendProgress,
    done: &Sender<SendOutcome>,
) {
    let pacer = (plan.rate > 0 && !parts.is_empty())
        .then(|| Pacer::new(plan.rate, parts.len() as u64, plan.senders, plan.segments));
    let (mut streams, mut sockets) = (Vec::new(), Vec::new());
    let (mut sessions, mut requests) = (Vec::new(), Vec::new());
    for LaneSetup { id, quota, door } in parts {
        match door {
            LaneSocket::Stream(link) if plan.transport.is_hec() => {
                let dialect = HecDialect::new(&plan.hec, &dialer.authority());
                let (again, of) = (plan.hec.reconnect, (id, quota));
                requests.push(HecLane::new(dialer, dialect, again, link, of));
            }
            LaneSocket::Stream(link) if plan.transport.is_relp() => {
                let dialect = RelpDialect::new(plan.relp);
                let (again, of) = (plan.relp.reconnect, (id, quota));
                sessions.push(RelpLane::new(dialer, dialect, again, link, of));
            }
            LaneSocket::Stream(link) => streams.push(StreamLane::new(link, id, quota)),
            LaneSocket::Udp(socket) => {
                let segments = plan.segments as usize;
                sockets.push(UdpLane::new(socket, id, quota, segments, plan.style.size));
            }
        }
    }
    let mut clock = MessageClock::new(plan.style.proto);
    let mut seconds = 0.0;
    let mut senders = Vec::new();
    if streams.is_empty() && sockets.is_empty() && sessions.is_empty() && requests.is_empty() {
        hold(until);
    } else {
        let mut tape = plan.tape(&clock);
        let pacer = pacer.as_ref();
        drive(&mut sockets, &mut tape, &mut clock, pacer, until, progress);
        if !streams.is_empty() {
            drive(&mut streams, &mut tape, &mut clock, pacer, until, progress);
            stream::flush(&mut streams, &mut tape, &mut clock);
        }
        if !sessions.is_empty() {
            drive(&mut sessions, &mut tape, &mut clock, pacer, until, progress);
            settle(&mut sessions, &mut tape, &mut clock, plan.relp.drain);
        }
        if !requests.is_empty() {
            drive(&mut requests, &mut tape, &mut clock, pacer, until, progress);
            settle(&mut requests, &mut tape, &mut clock, plan.hec.drain);
        }
        seconds = until.start.elapsed().as_secs_f64();
        senders.extend(sockets.into_iter().map(UdpLane::finish));
        senders.extend(stream::finish(streams));
        senders.extend(relp::finish(sessions));
        senders.extend(requests.into_iter().map(HecLane::into_tally));
    }
    // The receiver outlives this thread: it is in the scope around it.
    let _ = done.send(SendOutcome { senders, seconds });
}

/// Waits for the end while only idle connections are held.
fn hold(until: &StopConditions<'_>) {
    while until
        .interval
        .is_some_and(|interval| until.start.elapsed() < interval)
        && !until.stop.load(Relaxed)
    {
        std::thread::sleep(HOLD_STEP);
    }
}

/// Gathers what the threads did; each second a sample and a line of progress.
fn watch(
    finished: &Receiver<SendOutcome>,
    progress: &[SendProgress],
    until: &StopConditions<'_>,
    mut metering: Option<&mut Metering>,
    talk: bool,
) -> SendOutcome {
    let talk = talk && std::io::stderr().is_terminal();
    let mut outcome = SendOutcome {
        senders: Vec::new(),
        seconds: 0.0,
    };
    let mut line = ProgressLine::default();
    let mut next = until.start + SECOND;
    loop {
        match finished.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(part) => {
                outcome.senders.extend(part.senders);
                outcome.seconds = outcome.seconds.max(part.seconds);
            }
            Err(RecvTimeoutError::Timeout) => {
                next += SECOND;
                let t = until.start.elapsed().as_secs_f64();
                let messages = progress.iter().map(|p| p.messages.load(Relaxed)).sum();
                if let Some(metering) = metering.as_deref_mut() {
                    metering.sample(t, messages);
                }
                if talk {
                    let bytes = progress.iter().map(|p| p.bytes.load(Relaxed)).sum();
                    line.show(t, messages, bytes);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                if talk {
                    line.clear();
                }
                return outcome;
            }
        }
    }
}

/// The line of progress on a terminal.
#[derive(Default)]
pub(crate) struct ProgressLine {
    t: f64,
    messages: u64,
    bytes: u64,
}

impl ProgressLine {
    pub(crate) fn show(&mut self, t: f64, messages: u64, bytes: u64) {
        let seconds = (t - self.t).max(1e-3);
        let rate = (messages - self.messages) as f64 / seconds;
        let megabytes = (bytes - self.bytes) as f64 / seconds / 1e6;
        // A terminal that is gone loses nothing but this line.
        let _ = write!(
            std::io::stderr(),
            "\r\x1b[K{t:.0} s  {}/s  {megabytes:.1} MB/s  {} messages",
            grouped(rate as u64),
            grouped(messages)
        );
        (self.t, self.messages, self.bytes) = (t, messages, bytes);
    }

    pub(crate) fn clear(&self) {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}

fn account(plan: &LoadPlan, args: &Args, outcome: &SendOutcome, mut faults: Faults) -> LoadReport {
    let senders = &outcome.senders;
    senders
        .iter()
        .for_each(|sender| faults.merge(sender.faults.clone()));
    let sent: u64 = senders.iter().map(|sender| sender.sent).sum();
    let bytes: u64 = senders.iter().map(|sender| sender.bytes).sum();
    let per_second = |n: u64| {
        if outcome.seconds > 0.0 {
            n as f64 / outcome.seconds
        } else {
            0.0
        }
    };
    LoadReport {
        run: plan.style.run.clone(),
        target: format!("{}://{}", plan.transport.name(), args.target.authority()),
        requested: plan.total.filter(|_| plan.senders > 0),
        sent,
        acked: answers(senders).map(|(acked, _)| acked),
        requests: request_times(senders),
        answers: answers(senders).map(|(_, answers)| answers),
        bytes,
        seconds: outcome.seconds,
        rate: per_second(sent),
        bytes_per_second: per_second(bytes),
        errors: faults
            .iter()
            .map(|(kind, count, _)| (kind.to_owned(), count))
            .collect(),
        first_errors: faults
            .iter()
            .map(|(kind, _, words)| (kind.to_owned(), words.to_owned()))
            .collect(),
        connections: Connections {
            active: plan.senders,
            idle: plan.idle,
            failed: senders.iter().filter(|sender| sender.failed).count() as u64,
        },
        cpu_seconds: 0.0,
        process: None,
        verify: None,
    }
}

/// Answers over RELP or HTTP: messages acknowledged, and the rest.
fn answers(senders: &[SenderTally]) -> Option<(u64, AnswerTotals)> {
    let all = || senders.iter().filter_map(|sender| sender.answers.as_ref());
    all().next()?;
    let sum = |get: fn(&AnswerTally) -> u64| all().map(get).sum::<u64>();
    let answers = AnswerTotals {
        answered: sum(|one| one.answered),
        refused: sum(|one| one.refused),
        resent: sum(|one| one.resent),
        reconnects: sum(|one| one.reconnects),
        polls: sum(|one| one.polls),
    };
    Some((sum(|one| one.acked.count()), answers))
}

/// Times of the requests of all senders; `None` if there were none.
fn request_times(senders: &[SenderTally]) -> Option<Latency> {
    let answers = senders.iter().filter_map(|sender| sender.answers.as_ref());
    let mut of_senders = answers.filter_map(|answers| answers.requests.as_ref());
    let mut all = of_senders.next()?.clone();
    of_senders.for_each(|times| all.add(times));
    Some(all.latency())
}

/// CPU time of this process so far.
pub(crate) fn own_cpu_seconds() -> f64 {
    let seconds = |at: nix::sys::time::TimeVal| at.tv_sec() as f64 + at.tv_usec() as f64 / 1e6;
    getrusage(UsageWho::RUSAGE_SELF)
        .map(|usage| seconds(usage.user_time()) + seconds(usage.system_time()))
        .unwrap_or(0.0)
}
