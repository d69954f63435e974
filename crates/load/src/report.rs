//! The account of a run: one JSON document, or a page for people.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::latency::Latency;
use crate::meter::ProcessReport;
use crate::verify::VerifyReport;

/// Errors that a run may have and still be good: the message was sent again, or was never due.
const HARMLESS: [&str; 2] = ["no_buffers", "idle_closed"];

/// Results of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadReport {
    /// Eight hexadecimal digits; the `run=` of this run's markers.
    pub run: String,
    /// Scheme, host and port.
    pub target: String,
    /// Messages that were to be sent, if there was a number to reach.
    pub requested: Option<u64>,
    /// Messages of which the kernel took every byte.
    pub sent: u64,
    /// Messages that were acknowledged; only over RELP and HTTP. Without `--ack`, those that were
    /// answered with 200.
    #[serde(default)]
    pub acked: Option<u64>,
    /// Times of requests with messages, from their first byte until their answer; only over HTTP.
    #[serde(default)]
    pub requests: Option<Latency>,
    /// Other fates of messages and connections; only over RELP and HTTP.
    #[serde(default)]
    pub answers: Option<AnswerTotals>,
    /// Bytes given to the kernel, framing included; under TLS before encryption.
    pub bytes: u64,
    /// From the first message until the last was with the kernel.
    pub seconds: f64,
    /// Messages a second.
    pub rate: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Errors while sending, by kind.
    pub errors: BTreeMap<String, u64>,
    /// The first error of each kind, in words.
    pub first_errors: BTreeMap<String, String>,
    /// Connections, or sockets over UDP.
    pub connections: Connections,
    /// CPU seconds of this generator while it sent.
    pub cpu_seconds: f64,
    /// The process measured with `--target-pid`.
    pub process: Option<ProcessReport>,
    /// Findings of `--verify` and `--ledger`.
    pub verify: Option<VerifyReport>,
}

/// Fates of messages that are answered.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AnswerTotals {
    /// Messages that were answered with 200.
    #[serde(default)]
    pub answered: u64,
    /// Messages that the receiver refused; they are not sent again.
    pub refused: u64,
    /// Messages sent again because their connection broke before the answer, or the receiver had
    /// no room.
    pub resent: u64,
    /// Connections made again.
    pub reconnects: u64,
    /// Polls for acknowledgements, with `--ack`.
    #[serde(default)]
    pub polls: u64,
}

/// Connections of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Connections {
    /// Made to send.
    pub active: u64,
    /// Made to be held.
    pub idle: u64,
    /// Of the active, ended by an error.
    pub failed: u64,
}

impl LoadReport {
    /// True if everything that was begun arrived at least in the kernel, and whatever was verified
    /// is in order. `--number` was reached then, or `--interval` was over first.
    pub fn ok(&self) -> bool {
        self.connections.failed == 0
            && self.acked.is_none_or(|acked| acked >= self.sent)
            && self
                .errors
                .keys()
                .all(|kind| HARMLESS.contains(&kind.as_str()))
            && self.verify.as_ref().is_none_or(VerifyReport::ok)
    }

    pub(crate) fn add_error(&mut self, kind: &str, words: String) {
        *self.errors.entry(kind.to_owned()).or_default() += 1;
        self.first_errors.entry(kind.to_owned()).or_insert(words);
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Connections {
            active,
            idle,
            failed,
        } = self.connections;
        writeln!(f, "run {} to {}", self.run, self.target)?;
        write!(f, "sent          {}", grouped(self.sent))?;
        match self.requested {
            Some(requested) if requested != self.sent => {
                writeln!(f, " of {} messages", grouped(requested))?;
            }
            _ => writeln!(f, " messages")?,
        }
        if let (Some(acked), Some(answers)) = (self.acked, &self.answers) {
            writeln!(
                f,
                "answered      {} with 200, {} refused, {} sent again over {} new connections",
                grouped(answers.answered),
                answers.refused,
                answers.resent,
                answers.reconnects
            )?;
            if let Some(times) = &self.requests {
                writeln!(
                    f,
                    "requests      {}: p50 {} µs, p99 {} µs, max {} µs",
                    grouped(times.count),
                    times.p50_us,
                    times.p99_us,
                    times.max_us
                )?;
            }
            if answers.polls > 0 {
                let (acked, polls) = (grouped(acked), grouped(answers.polls));
                writeln!(f, "acknowledged  {acked} in {polls} polls")?;
            }
        }
        writeln!(
            f,
            "              {:.1} MB in {:.3} s: {}/s, {:.1} MB/s",
            self.bytes as f64 / 1e6,
            self.seconds,
            grouped(self.rate as u64),
            self.bytes_per_second / 1e6
        )?;
        writeln!(
            f,
            "connections   {active} active, {idle} idle, {failed} failed"
        )?;
        writeln!(f, "own CPU       {:.3} s", self.cpu_seconds)?;
        for (kind, count) in &self.errors {
            let words = self.first_errors.get(kind).map_or("", String::as_str);
            writeln!(f, "error         {kind} × {count}: {words}")?;
        }
        if let Some(process) = &self.process {
            write_process(f, process)?;
        }
        match &self.verify {
            Some(verify) => write_verify(f, verify),
            None => Ok(()),
        }
    }
}

fn write_process(f: &mut fmt::Formatter<'_>, process: &ProcessReport) -> fmt::Result {
    writeln!(f, "process       {} ({})", process.name, process.pid)?;
    if let Some(cost) = process.cpu_us_per_event {
        writeln!(f, "              {cost:.3} CPU-µs per event")?;
    }
    writeln!(
        f,
        "              {:.3} CPU-s (user {:.2}, system {:.2}), RSS {} KiB (most {}), {} threads",
        process.cpu_seconds,
        process.user_seconds,
        process.system_seconds,
        grouped(process.rss_kib_last),
        grouped(process.rss_kib_max),
        process.threads_max
    )?;
    match (&process.ended, process.settled) {
        (Some(why), _) => writeln!(f, "              {why}"),
        (None, false) => writeln!(f, "              was still working: raise --drain-timeout"),
        (None, true) => Ok(()),
    }
}

fn write_verify(f: &mut fmt::Formatter<'_>, verify: &VerifyReport) -> fmt::Result {
    if let Some(check) = &verify.markers {
        writeln!(
            f,
            "arrived       {} of {}: {} lost, {} duplicated, {} out of order, {} stray",
            grouped(check.received),
            grouped(check.sent),
            check.lost,
            check.duplicated,
            check.out_of_order,
            check.stray
        )?;
        for loss in &check.losses {
            writeln!(
                f,
                "              connection {} lost {}, the first is seq={}",
                loss.conn, loss.lost, loss.first_seq
            )?;
        }
        if let Some(latency) = &check.latency {
            writeln!(
                f,
                "latency       p50 {} µs, p90 {} µs, p99 {} µs, p99.9 {} µs, max {} µs",
                latency.p50_us, latency.p90_us, latency.p99_us, latency.p999_us, latency.max_us
            )?;
        }
    }
    if let Some(check) = &verify.ledger {
        writeln!(
            f,
            "ledger        received {}, kernel dropped {}, accepted {}, unaccounted {}, {}{}",
            grouped(check.received),
            grouped(check.kernel_dropped),
            grouped(check.accepted),
            check.unaccounted,
            if check.balanced {
                "balanced"
            } else {
                "NOT balanced"
            },
            if check.settled { "" } else { ", not settled" }
        )?;
        for (name, row) in &check.destinations {
            writeln!(
                f,
                "              {name}: delivered {}, quarantined {}, dropped {}, pending {}",
                grouped(row.delivered),
                row.quarantined,
                row.dropped,
                row.pending
            )?;
        }
    }
    Ok(())
}

/// A number with a thin comma between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let shown = [0, 999, 1000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }
}
