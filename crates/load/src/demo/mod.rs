//! `--demo`: what a made-up company's devices say, for somebody who wants to see a page with life.
//!
//! Some two dozen hosts of thirteen products (`products`) speak over UDP and TCP, in RFC 3164, RFC
//! 5424 and the ways of those who heed neither, at an uneven rate (`day`). One of them says almost
//! as much as all others together, one falls silent for minutes, one has a wrong clock, and one
//! does not speak syslog. Where the target is the loopback net, each has an address of its own.
//!
//! It is for looking, not for measuring: messages are written one by one, and nothing is verified.
//! A connection that breaks is made again once a second, so that a receiver may be restarted under
//! it.

mod day;
mod mixed;
mod products;
mod sender;
mod template;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::error::{LoadError, connect_hint};
use crate::fault::Faults;
use crate::plan::run_id;
use crate::report::{Connections, LoadReport, grouped};
use crate::run::{ProgressLine, own_cpu_seconds};
use crate::tcp;

pub(crate) use mixed::{Mix, MixedMessage};
use products::{ALL, Habit};
use sender::{DemoSender, SendFate};

/// Between two looks at what is due: short enough to look smooth, long enough to cost nothing.
const TICK: Duration = Duration::from_millis(20);

/// Longest lag that is made up for, in seconds.
const BEHIND_MAX_S: f64 = 0.5;

/// Between two tries to connect again, and two lines of progress.
const SECOND: Duration = Duration::from_secs(1);

/// Longest wait of the end for a receiver that does not read.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// Sends until the interval or the number of `args` is over, or `stop` becomes true.
///
/// # Errors
/// The command line makes no sense, or nothing listens at the target.
pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<LoadReport, LoadError> {
    check(args)?;
    let address = first(&tcp::resolve(&args.target)?);
    let cpu_before = own_cpu_seconds();
    let mut cast = DemoFleet::open(address, fastrand::Rng::new())?;
    if !args.json {
        // A terminal that is gone loses nothing but this line.
        let _ = writeln!(
            std::io::stderr(),
            "{} hosts of {} products speak to {address} over UDP and TCP, {} messages a second in \
             the mean; Ctrl-C ends it",
            cast.senders.len(),
            ALL.len(),
            grouped(args.rate)
        );
    }
    let start = Instant::now();
    let mut progress = DemoProgress::new(start, !args.json && std::io::stderr().is_terminal());
    let mut before = start;
    while !stop.load(Relaxed) {
        let now = Instant::now();
        let t = (now - start).as_secs_f64();
        let left = args.number.map(|number| number.saturating_sub(cast.begun));
        if left == Some(0) || args.interval.is_some_and(|most| now - start >= most.0) {
            break;
        }
        let passed = (now - before).as_secs_f64().min(BEHIND_MAX_S);
        before = now;
        cast.act(t, passed, args.rate as f64, left.unwrap_or(u64::MAX));
        progress.show(now, &mut cast);
        thread::sleep(TICK);
    }
    let seconds = start.elapsed().as_secs_f64();
    cast.finish(Instant::now() + FLUSH_MAX);
    progress.clear();
    Ok(cast.account(args, seconds, own_cpu_seconds() - cpu_before))
}

fn check(args: &Args) -> Result<(), LoadError> {
    if args.target.scheme.is_some() {
        let text = "--demo sends over UDP and TCP at once: write the target as HOST:PORT";
        return Err(LoadError::Usage(text.to_owned()));
    }
    match args.rate {
        0 => Err(LoadError::Usage(
            "--demo goes at a rate that people can watch: give --rate a number".to_owned(),
        )),
        _ => Ok(()),
    }
}

/// One address, of IPv4 if there is any: there each host can have an address of its own.
fn first(addresses: &[SocketAddr]) -> SocketAddr {
    let four = addresses.iter().find(|address| address.is_ipv4());
    *four.unwrap_or(&addresses[0])
}

/// All hosts.
struct DemoFleet {
    senders: Vec<DemoSender>,
    address: SocketAddr,
    rng: fastrand::Rng,
    /// Parts of a message that are due.
    owed: f64,
    owed_extra: f64,
    /// Messages said, whether or not the kernel took them yet.
    begun: u64,
    faults: Faults,
}

impl DemoFleet {
    fn open(address: SocketAddr, rng: fastrand::Rng) -> Result<Self, LoadError> {
        let all = ALL
            .iter()
            .flat_map(|product| product.hosts.iter().map(move |host| (*product, host)));
        let open =
            |(number, (product, host)): (u8, _)| DemoSender::open(product, host, number, address);
        let senders = (1..).zip(all).map(open).collect::<Result<_, _>>();
        Ok(Self {
            senders: senders.map_err(|source| LoadError::Connect {
                target: format!("{address}"),
                hint: connect_hint(&source),
                source,
            })?,
            address,
            rng,
            owed: 0.0,
            owed_extra: 0.0,
            begun: 0,
            faults: Faults::default(),
        })
    }

    /// Says what is due at `t` after `passed` seconds, at a mean of `rate` a second, and at most so
    /// many messages.
    fn act(&mut self, t: f64, passed: f64, rate: f64, most: u64) {
        self.owed += passed * rate * day::level(t);
        self.owed_extra += passed * rate * day::extra(t);
        let due = (self.owed as u64).min(most);
        let extra = (self.owed_extra as u64).min(most - due);
        (self.owed, self.owed_extra) = (self.owed.fract(), self.owed_extra.fract());
        let is_silent = day::is_silent(t);
        let weights: Vec<u32> = self
            .senders
            .iter()
            .map(|one| match one.host.habit {
                Habit::FallsSilent if is_silent => 0,
                _ => one.host.weight,
            })
            .collect();
        for _ in 0..due {
            let at = pick(&mut self.rng, &weights);
            self.say(at);
        }
        if let Some(at) = day::burst(t).map(|n| burster(&weights, n)) {
            (0..extra).for_each(|_| self.say(at));
        }
        for sender in &mut self.senders {
            if let Err(error) = sender.flush() {
                self.faults.io(&error, "connecting again every second");
            }
        }
    }

    fn say(&mut self, at: usize) {
        let Some(sender) = self.senders.get_mut(at) else {
            return;
        };
        match sender.say(&mut self.rng) {
            Ok(SendFate::Out) => self.begun += 1,
            Ok(SendFate::Unsaid) => {}
            Err(error) => self.faults.io(&error, connect_hint(&error)),
        }
    }

    /// Tries to mend what broke. Returns how many are broken still.
    fn mend(&mut self) -> usize {
        let broken = self.senders.iter_mut().filter(|sender| sender.is_broken());
        broken.filter_map(|sender| sender.connect().err()).count()
    }

    /// Hands over what waits, until `until` at the latest.
    fn finish(&mut self, until: Instant) {
        while !self.senders.iter().all(DemoSender::is_done) && Instant::now() < until {
            for sender in &mut self.senders {
                if let Err(error) = sender.flush() {
                    self.faults.io(&error, "");
                }
            }
            thread::sleep(TICK);
        }
    }

    fn sent(&self) -> (u64, u64) {
        let sent = self.senders.iter().map(|sender| sender.sent).sum();
        (sent, self.senders.iter().map(|sender| sender.bytes).sum())
    }

    fn account(&self, args: &Args, seconds: f64, cpu_seconds: f64) -> LoadReport {
        let (sent, bytes) = self.sent();
        let broken = self.senders.iter().filter(|sender| sender.is_broken());
        let faults = || self.faults.iter();
        LoadReport {
            run: run_id(),
            target: format!("udp and tcp at {}", self.address),
            requested: args.number,
            sent,
            acked: None,
            requests: None,
            answers: None,
            bytes,
            seconds,
            rate: sent as f64 / seconds.max(f64::EPSILON),
            bytes_per_second: bytes as f64 / seconds.max(f64::EPSILON),
            errors: faults().map(|(kind, n, _)| (kind.to_owned(), n)).collect(),
            first_errors: faults()
                .map(|(kind, _, words)| (kind.to_owned(), words.to_owned()))
                .collect(),
            connections: Connections {
                active: self.senders.len() as u64,
                idle: 0,
                failed: broken.count() as u64,
            },
            cpu_seconds,
            process: None,
            verify: None,
        }
    }
}

/// One place of a list, by weight. There is always one that is not 0.
fn pick(rng: &mut fastrand::Rng, weights: &[u32]) -> usize {
    let mut left = rng.u32(0..weights.iter().sum::<u32>().max(1));
    let at = weights.iter().position(|weight| {
        let here = left < *weight;
        left = left.saturating_sub(*weight);
        here
    });
    at.unwrap_or_default()
}

/// Index of the host whose burst it is: each host in turn, but for those that are silent.
fn burster(weights: &[u32], number: usize) -> usize {
    let able: Vec<usize> = (0..weights.len()).filter(|at| weights[*at] > 0).collect();
    able.get(number * 7 % able.len().max(1))
        .copied()
        .unwrap_or_default()
}

/// Progress shown on a terminal while it goes on.
struct DemoProgress {
    start: Instant,
    next: Instant,
    talk: bool,
    line: ProgressLine,
}

impl DemoProgress {
    fn new(start: Instant, talk: bool) -> Self {
        Self {
            start,
            next: start + SECOND,
            talk,
            line: ProgressLine::default(),
        }
    }

    /// Once a second: mends connections, and says how it goes.
    fn show(&mut self, now: Instant, cast: &mut DemoFleet) {
        if now < self.next {
            return;
        }
        self.next = now + SECOND;
        let broken = cast.mend();
        if !self.talk {
            return;
        }
        let (sent, bytes) = cast.sent();
        self.line
            .show((now - self.start).as_secs_f64(), sent, bytes);
        if broken > 0 {
            let address = cast.address;
            // A terminal that is gone loses nothing but this line.
            let _ = write!(
                std::io::stderr(),
                "  nothing listens at {address}; trying again"
            );
        }
    }

    fn clear(&self) {
        if self.talk {
            self.line.clear();
        }
    }
}
