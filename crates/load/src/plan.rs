//! Load plan: the options of the command line, resolved into one set without contradictions.
//!
//! # What it guarantees
//! * Contradictions that the parser cannot see are a `LoadError::Usage`, before any connection.
//! * `LoadPlan::resolve` reads `--read-file` and draws the run's number; the rest is pure.
//! * The shares of `LoadPlan::quota` differ by one at most and add up to the total exactly.
//! * A rate and an interval give a total; a smaller `--number` wins.
//!
//! # Limits
//! `SENDERS_MAX` connections send up to `SEQ_MAX` messages each; idle ones have no bound here.
//! A message has `STREAM_MESSAGE_BYTES_MAX` bytes at most, over UDP `PAYLOAD_BYTES_MAX`, and
//! `--read-file` has `READ_FILE_BYTES_MAX`. `INTERVAL_DEFAULT` holds if nothing else ends the run.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::time::Duration;

use crate::args::{Args, SyslogFraming, SyslogProto, Transport};
use crate::clock::MessageClock;
use crate::error::LoadError;
use crate::hec::HecPlan;
use crate::message::{MIXED_HEADER_EXTRA, SEQ_MAX, Style, TAPE_BYTES, Tape};
use crate::relp::RelpPlan;
use crate::udp::{BATCH, BURST_BYTES_MAX, PAYLOAD_BYTES_MAX, SEGMENTS_MAX};

/// Seconds to send when neither `--number` nor `--interval` is given.
const INTERVAL_DEFAULT: Duration = Duration::from_secs(10);

/// Bytes of the largest message in a stream.
const STREAM_MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of the largest `--read-file`: it is held in memory once a thread.
const READ_FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Senders: bounded by the ports and descriptors of a host anyway.
const SENDERS_MAX: u64 = 1_000_000;

/// Plan of a run, without contradictions.
#[derive(Debug)]
pub(crate) struct LoadPlan {
    pub(crate) transport: Transport,
    pub(crate) style: Style,
    /// Content of `--read-file`.
    pub(crate) file: Option<Vec<u8>>,
    pub(crate) mark: bool,
    pub(crate) mixed: bool,
    pub(crate) backdate: Option<Duration>,
    pub(crate) senders: u64,
    pub(crate) idle: u64,
    /// Messages over all senders, if there is a number to reach.
    pub(crate) total: Option<u64>,
    pub(crate) interval: Option<Duration>,
    /// Messages a second over all senders; 0 is unlimited.
    pub(crate) rate: u64,
    /// Messages in one UDP burst; 1 without UDP_SEGMENT.
    pub(crate) segments: u64,
    pub(crate) threads: usize,
    pub(crate) relp: RelpPlan,
    pub(crate) hec: HecPlan,
}

impl LoadPlan {
    /// Resolves the options.
    ///
    /// # Errors
    /// [`LoadError::Usage`] and [`LoadError::File`].
    pub(crate) fn resolve(args: &Args) -> Result<Self, LoadError> {
        let transport = transport(args)?;
        check_transport(args, transport)?;
        check_header(args)?;
        let senders = args.source_ports.unwrap_or(args.active_connections);
        if senders + args.idle_connections == 0 || senders > SENDERS_MAX {
            return usage(format!("{senders} connections: use 1 to {SENDERS_MAX}"));
        }
        let framing = match transport {
            Transport::Udp
            | Transport::Relp
            | Transport::Relps
            | Transport::Hec
            | Transport::Hecs => None,
            Transport::Tcp | Transport::Tls => Some(args.framing.unwrap_or(SyslogFraming::Newline)),
        };
        let style = Style {
            proto: args.syslog_proto,
            framing,
            host: args.host.clone(),
            app: args.app.clone(),
            sdata: args.sdata.clone(),
            size: args.size,
            run: run_id(),
            sender_digits: senders.saturating_sub(1).max(1).ilog10() as usize + 1,
        };
        let file = args
            .read_file
            .as_deref()
            .map(|path| read_lines(path, transport))
            .transpose()?;
        if file.is_none() {
            check_size(args, transport, &style)?;
        }
        let (total, interval) = extent(args, senders)?;
        let token = args.target.token.as_ref();
        Ok(Self {
            transport,
            style,
            file,
            mark: args.mark,
            mixed: args.mixed,
            backdate: args.backdate.map(|period| period.0),
            senders,
            idle: args.idle_connections,
            total,
            interval,
            rate: args.rate,
            segments: args.gso.max(1),
            threads: args.threads.clamp(1, senders.max(1) as usize),
            relp: RelpPlan {
                window: args.window,
                reconnect: args.reconnect,
                drain: args.drain_timeout.0,
            },
            hec: HecPlan {
                token: token
                    .map(|token| token.expose().to_owned())
                    .unwrap_or_default(),
                per_request: args.events_per_request,
                gzip: args.gzip,
                raw: args.raw,
                ack: args.ack,
                reconnect: args.reconnect,
                drain: args.drain_timeout.0,
            },
        })
    }

    /// Messages for one sender: an even share of the total, as many as it can number if there
    /// is none.
    pub(crate) fn quota(&self, sender: u64) -> u64 {
        self.total.map_or(SEQ_MAX, |total| {
            total / self.senders + u64::from(sender < total % self.senders)
        })
    }

    /// A tape of this plan's messages.
    pub(crate) fn tape(&self, clock: &MessageClock) -> Tape {
        match &self.file {
            Some(file) => {
                let lines: Vec<&[u8]> = lines_of(file).collect();
                Tape::lines(&self.style, &lines, self.mark)
            }
            None if self.mixed => Tape::mixed(&self.style, clock),
            None => {
                let fitting = TAPE_BYTES / self.style.size;
                let count = match self.transport {
                    Transport::Udp => {
                        let bursts = (fitting / self.segments as usize).clamp(1, BATCH);
                        bursts * self.segments as usize
                    }
                    _ => fitting,
                };
                Tape::generated(&self.style, clock, count)
            }
        }
    }
}

fn usage<T>(words: impl Into<String>) -> Result<T, LoadError> {
    Err(LoadError::Usage(words.into()))
}

fn transport(args: &Args) -> Result<Transport, LoadError> {
    let flag = match (args.dgram, args.tls, args.inet) {
        (true, _, _) => Some(Transport::Udp),
        (_, true, _) => Some(Transport::Tls),
        (_, _, true) => Some(Transport::Tcp),
        _ => None,
    };
    match (args.target.scheme, flag) {
        (Some(Transport::Tls), Some(Transport::Tcp)) => Ok(Transport::Tls),
        (Some(Transport::Relp | Transport::Relps), Some(Transport::Tls)) => Ok(Transport::Relps),
        (Some(Transport::Hec | Transport::Hecs), Some(Transport::Tls)) => Ok(Transport::Hecs),
        (Some(scheme), Some(Transport::Tcp)) if scheme.is_relp() || scheme.is_hec() => Ok(scheme),
        (Some(scheme), Some(flag)) if scheme != flag => usage(format!(
            "the target says {} and the flag says {}: leave one out",
            scheme.name(),
            flag.name()
        )),
        (scheme, flag) => Ok(scheme.or(flag).unwrap_or(Transport::Tcp)),
    }
}

fn check_transport(args: &Args, transport: Transport) -> Result<(), LoadError> {
    let (udp, relp) = (transport == Transport::Udp, transport.is_relp());
    let hec = transport.is_hec();
    let answer_option = args.reconnect || args.acked_file.is_some();
    let hec_option = args.gzip || args.raw || args.ack;
    let tls_option =
        args.ca.is_some() || args.cert.is_some() || args.key.is_some() || args.insecure;
    let wrong = [
        (
            (udp || relp || hec) && args.framing.is_some(),
            "--framing is for TCP and TLS: a datagram is one message, and so is a RELP frame",
        ),
        (
            !hec && hec_option,
            "--gzip, --raw and --ack are for an HTTP Event Collector: use hec://TOKEN@HOST:PORT",
        ),
        (
            !relp && !hec && answer_option,
            "--reconnect and --acked-file are for RELP and HEC: nothing else is answered; use \
             relp:// or hec://",
        ),
        (relp && args.window == 0, "--window 0: use at least 1"),
        (
            udp && args.proxy_protocol.is_some(),
            "--proxy-protocol is for TCP and TLS",
        ),
        (
            (udp || relp) && args.idle_connections > 0,
            "--idle-connections is for TCP and TLS",
        ),
        (!udp && args.gso > 0, "--gso is for UDP: add --dgram"),
        (
            !udp && args.source_ports.is_some(),
            "--source-ports is for UDP: add --dgram",
        ),
        (
            args.gso > 0 && args.read_file.is_some(),
            "--gso needs messages of one size: not a file",
        ),
        (
            !transport.is_tls() && tls_option,
            "--ca, --cert, --key and --insecure are for TLS: add --tls",
        ),
        (
            args.verify.is_some() && args.read_file.is_some() && !args.mark && !is_url(args),
            "--verify looks for the marker in each line: add --mark to --read-file",
        ),
    ];
    match wrong.iter().find(|(is_wrong, _)| *is_wrong) {
        Some((_, words)) => usage(*words),
        None => Ok(()),
    }
}

fn is_url(args: &Args) -> bool {
    args.verify
        .as_deref()
        .is_some_and(|from| from.contains("://"))
}

fn check_header(args: &Args) -> Result<(), LoadError> {
    for (name, word) in [("--host", &args.host), ("--app", &args.app)] {
        if word.is_empty() || !word.bytes().all(|b| b.is_ascii_graphic()) {
            return usage(format!(
                "{name} `{word}`: use printable characters without spaces"
            ));
        }
    }
    match &args.sdata {
        Some(_) if args.syslog_proto != SyslogProto::Rfc5424 => {
            usage("--sdata needs --syslog-proto rfc5424")
        }
        Some(text) if !text.starts_with('[') || text.contains(['\n', '\r', '\0']) => {
            usage("--sdata must be like [id@32473 key=\"value\"], on one line")
        }
        _ => Ok(()),
    }
}

fn check_size(args: &Args, transport: Transport, style: &Style) -> Result<(), LoadError> {
    let longest = if args.mixed { MIXED_HEADER_EXTRA } else { 0 };
    let (size, least) = (args.size, style.size_min() + longest);
    let most = match transport {
        Transport::Udp => PAYLOAD_BYTES_MAX,
        _ => STREAM_MESSAGE_BYTES_MAX,
    };
    if size < least {
        return usage(format!(
            "--size {size}: header and marker alone take {least} bytes"
        ));
    }
    if size > most {
        let name = transport.name();
        return usage(format!(
            "--size {size}: a message over {name} has at most {most} bytes"
        ));
    }
    let segments_max = SEGMENTS_MAX.min((BURST_BYTES_MAX / size) as u64);
    if args.gso > 1 && args.gso > segments_max {
        let gso = args.gso;
        return usage(format!(
            "--gso {gso}: at most {segments_max} messages of {size} bytes fit"
        ));
    }
    Ok(())
}

/// Upper bounds of a run: its messages, and its duration.
fn extent(args: &Args, senders: u64) -> Result<(Option<u64>, Option<Duration>), LoadError> {
    let interval = match (args.interval, args.number) {
        (Some(interval), _) => Some(interval.0),
        (None, None) => Some(INTERVAL_DEFAULT),
        (None, Some(_)) => None,
    };
    if interval.is_some_and(|interval| interval.is_zero()) {
        return usage("--interval 0: use at least 1ms");
    }
    let by_rate = interval.filter(|_| args.rate > 0).map(|interval| {
        let total = u128::from(args.rate) * interval.as_nanos() / 1_000_000_000;
        u64::try_from(total).unwrap_or(u64::MAX).max(1)
    });
    let total = match (args.number, by_rate) {
        (Some(number), Some(by_rate)) => Some(number.min(by_rate)),
        (number, by_rate) => number.or(by_rate),
    };
    if total.is_some_and(|total| total.div_ceil(senders.max(1)) > SEQ_MAX) {
        return usage(format!(
            "too many messages: a connection can number {SEQ_MAX} of them"
        ));
    }
    Ok((total, interval))
}

fn read_lines(path: &Path, transport: Transport) -> Result<Vec<u8>, LoadError> {
    let fail = |what: String| LoadError::File {
        path: path.to_owned(),
        what,
    };
    let file =
        inrush_files::read(path, READ_FILE_BYTES_MAX).map_err(|error| fail(error.to_string()))?;
    let most = match transport {
        Transport::Udp => PAYLOAD_BYTES_MAX,
        _ => STREAM_MESSAGE_BYTES_MAX,
    };
    if let Some(at) = file
        .split(|b| *b == b'\n')
        .position(|line| line.len() > most)
    {
        return Err(fail(format!("line {} is longer than {most} bytes", at + 1)));
    }
    if lines_of(&file).next().is_none() {
        return Err(fail("holds no line to send".to_owned()));
    }
    Ok(file)
}

/// The lines that are sent: all that are not empty.
fn lines_of(file: &[u8]) -> impl Iterator<Item = &[u8]> {
    file.split(|b| *b == b'\n').filter(|line| !line.is_empty())
}

/// Eight hexadecimal digits that tell this run's markers from those of others.
pub(crate) fn run_id() -> String {
    let random = RandomState::new().build_hasher().finish();
    format!("{:08x}", random as u32)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn plan(words: &str) -> Result<LoadPlan, LoadError> {
        LoadPlan::resolve(&Args::from_words(words.split(' ')).unwrap())
    }

    #[test]
    fn contradictions_are_named() {
        for (words, part) in [
            ("udp://h:1 --inet", "leave one out"),
            ("h:1 --gso 4", "--dgram"),
            ("udp://h:1 --framing octet", "--framing"),
            ("relp://h:1 --framing octet", "--framing"),
            ("relp://h:1 --window 0", "--window"),
            ("h:1 --reconnect", "relp://"),
            ("tls://h:1 --acked-file x", "relp://"),
            ("relp://h:1 --ack", "hec://"),
            ("relp://h:1 --ca x", "--tls"),
            ("h:1 --sdata [a]", "rfc5424"),
            ("h:1 -s 20", "take"),
            ("-D h:1 -s 70000", "65507"),
            ("-D h:1 -s 2000 --gso 64", "at most 32"),
            ("h:1 --ca x", "--tls"),
            ("h:1 --active-connections 0", "connections"),
            ("h:1 --host a\tb", "--host"),
            ("h:1 -n 99999999999", "number"),
            ("h:1 -R /nonexistent", "/nonexistent"),
            ("h:1 --mixed -s 120", "take"),
        ] {
            let error = plan(words).unwrap_err().to_string();
            assert!(error.contains(part), "{words}: {error}");
        }
    }

    #[test]
    fn the_scheme_or_the_flag_chooses_the_transport() {
        for (words, transport) in [
            ("h:1", Transport::Tcp),
            ("-D h:1", Transport::Udp),
            ("udp://h:1", Transport::Udp),
            ("tls://h:1 -i", Transport::Tls),
            ("h:1 --tls", Transport::Tls),
            ("relp://h:1", Transport::Relp),
            ("relp://h:1 --tls", Transport::Relps),
            ("relps://h:1 --insecure", Transport::Relps),
        ] {
            assert_eq!(plan(words).unwrap().transport, transport, "{words}");
        }
    }

    #[test]
    fn shares_of_the_total_are_even_and_exact() {
        let plan = plan("h:1 -n 1003 --active-connections 10").unwrap();
        let shares: Vec<u64> = (0..10).map(|i| plan.quota(i)).collect();
        assert_eq!(shares.iter().sum::<u64>(), 1003);
        assert_eq!((shares[0], shares[9]), (101, 100));
        assert_eq!(plan.interval, None);
    }

    #[test]
    fn a_rate_and_an_interval_make_a_number() {
        assert_eq!(plan("h:1").unwrap().total, Some(10_000));
        assert_eq!(plan("h:1 -r 50 -I 300ms").unwrap().total, Some(15));
        assert_eq!(plan("h:1 -r 0").unwrap().total, None);
        assert_eq!(plan("h:1 -r 50 -I 10 -n 7").unwrap().total, Some(7));
    }
}
