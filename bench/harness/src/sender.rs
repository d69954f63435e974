//! The load: `inrush load`, run as a process of its own and believed only for what it says in
//! its JSON report.
//!
//! # What it guarantees
//! * A load counts once [`Sending::finish`] has waited for its process.
//! * Every error of the generator is in the report, except messages that it sent again by itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// Transport of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Wire {
    Tcp,
    Udp,
    Tls,
    Hec(HecRequests),
}

/// Requests to an HTTP Event Collector.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HecRequests {
    /// Events of a request.
    pub events: u64,
    /// True if bodies are compressed.
    pub gzip: bool,
    /// True if lines go to the raw endpoint.
    #[serde(default)]
    pub raw: bool,
}

/// The token of collectors that are measured.
pub const HEC_TOKEN: &str = "bench-hec-token";

impl Wire {
    /// As an address begins with it.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Tls => "tls",
            Self::Hec(_) => "hec",
        }
    }
}

/// The header of the messages, and with it how a stream of them is framed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HeaderStyle {
    /// RFC 3164, a line feed after each.
    Rfc3164,
    /// RFC 3164 with an ISO time, a line feed after each.
    Rfc3164Iso,
    /// RFC 5424 with one element of structured data, octet counted.
    Rfc5424,
}

/// Content of the messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MessageText {
    /// The marker, and padding up to the size.
    Padding,
    /// Messages of made-up devices, and the marker.
    Mixed,
    /// The lines of a file, again and again.
    File,
}

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadShape {
    pub wire: Wire,
    pub connections: u64,
    /// Bytes of a message without framing.
    pub size: u64,
    pub header: HeaderStyle,
    pub text: MessageText,
    /// Hours before the present at which their times begin; they end now.
    pub backdate_hours: u64,
    /// Messages a second; 0 is as fast as it goes.
    pub rate: u64,
    /// Datagrams handed to the kernel as one (UDP_SEGMENT); 0 is none.
    pub burst: u64,
}

/// End of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// After so many messages.
    Number(u64),
    /// After so many seconds, however many messages that are.
    Seconds(u64),
}

/// Times of requests, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct RequestTimes {
    /// Half of them took no longer.
    pub p50_us: u64,
    /// 99 % took no longer.
    pub p99_us: u64,
}

/// Report of a load on itself.
#[derive(Clone, Debug, PartialEq)]
pub struct SendReport {
    pub events: u64,
    /// Events a second while it sent.
    pub rate: f64,
    /// Times of its requests; only over HTTP.
    pub requests: Option<RequestTimes>,
    /// Errors on the way, in the generator's words; nothing on a good day.
    pub errors: Option<String>,
    /// Messages of `errors` of which the kernel took only the beginning: the receiver held the
    /// connection until the generator ended.
    pub cut_short: u64,
    /// True if anything else went wrong.
    pub is_broken: bool,
}

const CUT_SHORT: &str = "cut_short";

/// The part of the generator's report that is used here.
#[derive(Deserialize)]
struct GeneratorReport {
    /// Messages of which the kernel took every byte.
    sent: u64,
    /// Messages a second.
    rate: f64,
    /// Times of requests.
    #[serde(default)]
    requests: Option<RequestTimes>,
    /// Errors by kind.
    errors: BTreeMap<String, u64>,
}

/// The kind of error after which the generator sends the same message again.
const SENT_AGAIN: &str = "no_buffers";

/// A load under way.
pub struct Sending {
    child: Child,
    pub begun: Instant,
}

/// The target of `inrush load` at an address; `token` is for collectors.
fn target(address: &str, wire: Wire, token: &str) -> String {
    let scheme = wire.scheme();
    match wire {
        Wire::Hec(_) => format!("{scheme}://{token}@{address}"),
        Wire::Tcp | Wire::Udp | Wire::Tls => format!("{scheme}://{address}"),
    }
}

/// The options of `inrush load`.
fn words(target: String, shape: &LoadShape, amount: Amount, file: Option<&Path>) -> Vec<String> {
    let mut words = vec![
        "load".to_owned(),
        target,
        "--json".to_owned(),
        match amount {
            Amount::Number(number) => format!("--number={number}"),
            Amount::Seconds(seconds) => format!("--interval={seconds}s"),
        },
        format!("--rate={}", shape.rate),
        format!("--active-connections={}", shape.connections),
    ];
    match shape.wire {
        Wire::Tls => words.push("--insecure".to_owned()),
        Wire::Hec(requests) => {
            words.push(format!("--events-per-request={}", requests.events));
            words.extend(requests.gzip.then(|| "--gzip".to_owned()));
            words.extend(requests.raw.then(|| "--raw".to_owned()));
        }
        Wire::Tcp | Wire::Udp => {}
    }
    if let Some(file) = file.filter(|_| shape.text == MessageText::File) {
        words.push(format!("--read-file={}", file.display()));
        words.push("--framing=newline".to_owned());
        return words;
    }
    words.push(format!("--size={}", shape.size));
    words.push(match shape.header {
        HeaderStyle::Rfc3164 => "--syslog-proto=rfc3164".to_owned(),
        HeaderStyle::Rfc3164Iso => "--syslog-proto=rfc3164-iso".to_owned(),
        HeaderStyle::Rfc5424 => "--syslog-proto=rfc5424".to_owned(),
    });
    if shape.header == HeaderStyle::Rfc5424 {
        words.push(r#"--sdata=[test name="value"]"#.to_owned());
    }
    match (shape.wire, shape.header) {
        (Wire::Tcp | Wire::Tls, HeaderStyle::Rfc5424) => words.push("--framing=octet".to_owned()),
        (Wire::Tcp | Wire::Tls, HeaderStyle::Rfc3164 | HeaderStyle::Rfc3164Iso) => {
            words.push("--framing=newline".to_owned())
        }
        (Wire::Udp | Wire::Hec(_), _) => {}
    }
    if shape.text == MessageText::Mixed {
        words.push("--mixed".to_owned());
    }
    if shape.backdate_hours > 0 {
        words.push(format!("--backdate={}h", shape.backdate_hours));
    }
    if shape.burst > 0 {
        words.push(format!("--gso={}", shape.burst));
    }
    words
}

/// Starts to send to `address` with the generator in `inrush`; `file` is what [`MessageText::File`]
/// sends.
pub fn start(
    inrush: &Path,
    address: &str,
    shape: &LoadShape,
    amount: Amount,
    file: Option<&Path>,
) -> Result<Sending> {
    let target = target(address, shape.wire, HEC_TOKEN);
    spawn(inrush, &words(target, shape, amount, file))
}

/// The same to a collector, with a token of one's own.
pub fn start_hec(
    inrush: &Path,
    address: &str,
    token: &str,
    shape: &LoadShape,
    amount: Amount,
) -> Result<Sending> {
    let target = target(address, shape.wire, token);
    spawn(inrush, &words(target, shape, amount, None))
}

fn spawn(inrush: &Path, words: &[String]) -> Result<Sending> {
    let mut command = Command::new(inrush);
    command.args(words);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    Ok(Sending {
        child,
        begun: Instant::now(),
    })
}

impl Sending {
    /// True if it has ended.
    pub fn ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().context("the generator")?.is_some())
    }

    /// Waits for the end and reads the report.
    pub fn finish(self) -> Result<SendReport> {
        let output = self.child.wait_with_output().context("the generator")?;
        let report = String::from_utf8_lossy(&output.stdout);
        match parse_report(&report) {
            Some(sent) => Ok(sent),
            None => bail!(
                "inrush load: {}, no report; it said:\n{}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            ),
        }
    }
}

fn parse_report(text: &str) -> Option<SendReport> {
    let report: GeneratorReport = serde_json::from_str(text.trim()).ok()?;
    let mut errors = report.errors;
    errors.retain(|kind, count| *count > 0 && kind != SENT_AGAIN);
    Some(SendReport {
        events: report.sent,
        rate: report.rate,
        requests: report.requests,
        is_broken: errors.keys().any(|kind| kind != CUT_SHORT),
        cut_short: errors.get(CUT_SHORT).copied().unwrap_or_default(),
        errors: (!errors.is_empty()).then(|| format!("{errors:?}")),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const TCP: LoadShape = LoadShape {
        wire: Wire::Tcp,
        connections: 10,
        size: 800,
        header: HeaderStyle::Rfc5424,
        text: MessageText::Padding,
        backdate_hours: 0,
        rate: 0,
        burst: 0,
    };

    #[test]
    fn a_shape_becomes_options() {
        let to = |shape: &LoadShape| target("127.0.0.1:1", shape.wire, HEC_TOKEN);
        let tcp = words(to(&TCP), &TCP, Amount::Number(7), None).join(" ");
        assert_eq!(
            tcp,
            "load tcp://127.0.0.1:1 --json --number=7 --rate=0 --active-connections=10 --size=800 \
             --syslog-proto=rfc5424 --sdata=[test name=\"value\"] --framing=octet"
        );
        let shape = LoadShape {
            wire: Wire::Udp,
            header: HeaderStyle::Rfc3164Iso,
            burst: 8,
            text: MessageText::Mixed,
            backdate_hours: 3,
            ..TCP
        };
        let udp = words(to(&shape), &shape, Amount::Seconds(7), None).join(" ");
        assert!(udp.contains(" --interval=7s ") && !udp.contains("--number"));
        assert!(
            udp.contains("udp://")
                && udp.ends_with(" --mixed --backdate=3h --gso=8")
                && !udp.contains("framing")
        );
        let shape = LoadShape {
            text: MessageText::File,
            ..TCP
        };
        let file = words(to(&shape), &shape, Amount::Number(7), Some(Path::new("/m"))).join(" ");
        assert!(file.ends_with(" --read-file=/m --framing=newline") && !file.contains("--size"));
    }

    #[test]
    fn a_report_is_believed_for_its_counts_and_its_errors() {
        let clean = parse_report(r#"{"sent":5,"rate":2.5,"errors":{}}"#).unwrap();
        assert_eq!(
            clean,
            SendReport {
                events: 5,
                rate: 2.5,
                requests: None,
                errors: None,
                cut_short: 0,
                is_broken: false
            }
        );
        let broken = parse_report(r#"{"sent":5,"rate":2.5,"errors":{"reset":2}}"#).unwrap();
        assert!(broken.is_broken);
        assert_eq!(broken.errors.unwrap(), r#"{"reset": 2}"#);
        let cut = parse_report(r#"{"sent":5,"rate":2.5,"errors":{"cut_short":2}}"#).unwrap();
        assert!(cut.errors.is_some() && !cut.is_broken && cut.cut_short == 2);
        let again = parse_report(r#"{"sent":5,"rate":2.5,"errors":{"no_buffers":2}}"#).unwrap();
        assert_eq!(again.errors, None);
        assert_eq!(parse_report("usage: …"), None);
    }
}
