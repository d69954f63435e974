//! The command line: one declaration an option, and the target's own little grammar.
//!
//! # What it guarantees
//! * Names of options follow loggen's where it has the same.
//! * A token in a target is a [`Secret`]: it is never shown.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, ValueEnum};
use inrush_event::{Period, Secret};

/// The header that each message carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SyslogProto {
    /// `<38>Nov 21 21:23:01 host app[pid]: …`, in local time.
    Rfc3164,
    /// `<38>1 2025-11-21T21:23:01.123456Z host app pid - - …`.
    Rfc5424,
    /// RFC 3164 with an ISO 8601 time, as rsyslog forwards it.
    #[value(name = "rfc3164-iso")]
    Rfc3164Iso,
}

/// How messages are told apart in a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SyslogFraming {
    /// A line feed after each message.
    Newline,
    /// Its length in decimal digits and a space before each message (RFC 6587, RFC 5425).
    Octet,
}

/// Transport of the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// A stream.
    Tcp,
    /// A message a datagram.
    Udp,
    /// A stream under TLS.
    Tls,
    /// A stream whose messages are answered.
    Relp,
    /// The same under TLS.
    Relps,
    /// Requests to an HTTP Event Collector.
    Hec,
    /// The same under TLS.
    Hecs,
}

impl Transport {
    /// The scheme in an address, and the word in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Tls => "tls",
            Self::Relp => "relp",
            Self::Relps => "relps",
            Self::Hec => "hec",
            Self::Hecs => "hecs",
        }
    }

    /// True if it is encrypted.
    pub const fn is_tls(self) -> bool {
        matches!(self, Self::Tls | Self::Relps | Self::Hecs)
    }

    /// True if messages are answered one by one.
    pub const fn is_relp(self) -> bool {
        matches!(self, Self::Relp | Self::Relps)
    }

    /// True if messages go in requests that are answered.
    pub const fn is_hec(self) -> bool {
        matches!(self, Self::Hec | Self::Hecs)
    }
}

/// Address of the receiver: `HOST:PORT`, with or without `tcp://`, `udp://`, `tls://`, `relp://` or
/// `relps://`; `hec://TOKEN@HOST:PORT` or `hecs://TOKEN@HOST:PORT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadTarget {
    /// The scheme, if one was given.
    pub scheme: Option<Transport>,
    /// Token of an HTTP Event Collector.
    pub token: Option<Secret>,
    /// Name or address; an IPv6 address without its brackets.
    pub host: String,
    /// Port, never 0.
    pub port: u16,
}

impl FromStr for LoadTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = match text.split_once("://") {
            None => (None, text),
            Some(("tcp", rest)) => (Some(Transport::Tcp), rest),
            Some(("udp", rest)) => (Some(Transport::Udp), rest),
            Some(("tls", rest)) => (Some(Transport::Tls), rest),
            Some(("relp", rest)) => (Some(Transport::Relp), rest),
            Some(("relps", rest)) => (Some(Transport::Relps), rest),
            Some(("hec", rest)) => (Some(Transport::Hec), rest),
            Some(("hecs", rest)) => (Some(Transport::Hecs), rest),
            Some((other, _)) => {
                return Err(format!(
                    "unknown scheme `{other}`; use tcp, udp, tls, relp, relps, hec or hecs"
                ));
            }
        };
        let is_hec = scheme.is_some_and(Transport::is_hec);
        let (token, rest) = match rest.rsplit_once('@') {
            Some((token, rest)) if is_hec => (Some(Secret::new(token)), rest),
            None if is_hec => {
                return Err("no token; write hec://TOKEN@HOST:PORT".to_owned());
            }
            _ => (None, rest),
        };
        let (host, port) = rest
            .rsplit_once(':')
            .ok_or("no port; write HOST:PORT, for example 127.0.0.1:5514")?;
        let host = match host.strip_prefix('[').map(|inner| inner.strip_suffix(']')) {
            Some(Some(inner)) => inner,
            None if !host.contains(':') => host,
            _ => return Err("an IPv6 address needs brackets: [::1]:5514".to_owned()),
        };
        if host.is_empty() {
            return Err("no host before the port".to_owned());
        }
        match port.parse() {
            Ok(0) | Err(_) => Err(format!("`{port}` is not a port; use 1 to 65535")),
            Ok(port) => Ok(Self {
                scheme,
                token,
                host: host.to_owned(),
                port,
            }),
        }
    }
}

impl LoadTarget {
    /// `HOST:PORT`, with brackets where they belong.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Options of `inrush load`; the names follow loggen's.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The receiver: HOST:PORT, or tcp://, udp://, tls://, relp:// or relps://HOST:PORT, or
    /// hec:// or hecs://TOKEN@HOST:PORT; IPv6 in brackets
    #[arg(value_name = "TARGET")]
    pub target: LoadTarget,

    /// Send what two dozen devices of a made-up company say, over UDP and TCP at once and at an
    /// uneven rate, of which --rate is the mean; until Ctrl-C if neither --interval nor --number is
    /// given. For looking, not for measuring
    #[arg(long, conflicts_with_all = ["inet", "dgram", "tls", "ca", "cert", "key", "insecure",
        "size", "active_connections", "idle_connections", "source_ports", "threads",
        "syslog_proto", "sdata", "framing", "host", "app", "read_file", "mark", "proxy_protocol",
        "gso", "window", "reconnect", "acked_file", "target_pid", "verify", "ledger",
        "drain_timeout", "mixed", "backdate"])]
    pub demo: bool,

    /// Send over TCP (the default)
    #[arg(short, long, conflicts_with = "dgram")]
    pub inet: bool,
    /// Send over UDP, one message a datagram
    #[arg(short = 'D', long)]
    pub dgram: bool,
    /// Send over TLS
    #[arg(short = 'U', long, visible_alias = "use-ssl", conflicts_with = "dgram")]
    pub tls: bool,
    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Client certificate chain, PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Private key of the client certificate, PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Accept any server certificate
    #[arg(long, conflicts_with = "ca")]
    pub insecure: bool,

    /// Bytes of a message, header included, framing not
    #[arg(short, long, value_name = "BYTES", default_value_t = 256)]
    pub size: usize,
    /// Messages per second over all connections; 0 sends as fast as it goes
    #[arg(short, long, value_name = "N", default_value_t = 1000)]
    pub rate: u64,
    /// Stop after this long; 10s if neither this nor --number is given
    #[arg(short = 'I', long, value_name = "TIME")]
    pub interval: Option<Period>,
    /// Stop after exactly this many messages over all connections
    #[arg(short, long, value_name = "N")]
    pub number: Option<u64>,

    /// Connections (sockets over UDP) that send
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub active_connections: u64,
    /// Connections that are made, send nothing and stay open until the end
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub idle_connections: u64,
    /// UDP only: send from this many sockets, each with a source port of its own
    #[arg(long, value_name = "N")]
    pub source_ports: Option<u64>,
    /// Threads that send
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,

    /// Header of each message
    #[arg(short = 'P', long, value_name = "PROTO", default_value = "rfc3164")]
    pub syslog_proto: SyslogProto,
    /// Structured data of each message, for example `[id@32473 k="v"]`; needs rfc5424
    #[arg(short = 'p', long, value_name = "TEXT")]
    pub sdata: Option<String>,
    /// How messages are told apart over TCP and TLS; newline if not given
    #[arg(long, value_name = "FRAMING")]
    pub framing: Option<SyslogFraming>,
    /// Host name in the header
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    pub host: String,
    /// Application name in the header
    #[arg(long, value_name = "NAME", default_value = "inrush")]
    pub app: String,
    /// Send the lines of this file as they are, again and again
    #[arg(short = 'R', long, value_name = "FILE")]
    pub read_file: Option<PathBuf>,
    /// Say what the devices of --demo say, under their names, in messages of --size bytes; the
    /// marker stands at the end. For measuring what depends on the text, such as a store
    #[arg(long, conflicts_with_all = ["read_file", "host", "app", "sdata", "gso"])]
    pub mixed: bool,
    /// Header times begin this long ago and reach the present with the last message
    #[arg(long, value_name = "TIME", conflicts_with = "read_file")]
    pub backdate: Option<Period>,
    /// With --read-file: append the marker that --verify looks for
    #[arg(long, requires = "read_file")]
    pub mark: bool,
    /// Start each connection with a PROXY protocol header of this version (1 or 2)
    #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(u8).range(1..=2))]
    pub proxy_protocol: Option<u8>,
    /// UDP only: hand the kernel bursts of this many datagrams (UDP_SEGMENT); 0 is off
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub gso: u64,

    /// RELP only: messages on their way without an answer, on each connection
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub window: usize,
    /// RELP and HEC: when a connection breaks, connect again and send what was not answered again
    #[arg(long)]
    pub reconnect: bool,
    /// RELP and HEC: write the numbers (`seq`) that were answered to this file at the end, one
    /// JSON line a connection: `{"run":"…","conn":0,"acked":[[first,last],…]}`
    #[arg(long, value_name = "FILE")]
    pub acked_file: Option<PathBuf>,

    /// HEC only: messages of a request
    #[arg(long, value_name = "N", default_value_t = 50,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub events_per_request: u64,
    /// HEC only: compress bodies
    #[arg(long)]
    pub gzip: bool,
    /// HEC only: send lines to the raw endpoint, not objects
    #[arg(long)]
    pub raw: bool,
    /// HEC only: poll for acknowledgements after each request, and count messages as acknowledged
    /// only then; the token needs `ack`
    #[arg(long)]
    pub ack: bool,

    /// Print one JSON report on stdout and nothing else
    #[arg(long)]
    pub json: bool,
    /// Also measure CPU time, memory and threads of this process
    #[arg(long, value_name = "PID")]
    pub target_pid: Option<i32>,
    /// Compare with what arrived: a file (a pattern may match several), or the http:// address of
    /// such lines or of the receiver's ledger
    #[arg(long, value_name = "FILE_OR_URL")]
    pub verify: Option<String>,
    /// Address of the receiver's ledger; the run ends when it has taken and settled everything
    #[arg(long, value_name = "URL")]
    pub ledger: Option<String>,
    /// Time after sending for answers, and for the receiver to settle; the store writes its files
    /// every 10 seconds
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub drain_timeout: Period,
}

impl Args {
    /// Reads options from words as a shell would split them, without the program's name; the
    /// same declaration then serves the command line, benchmarks and tests.
    ///
    /// # Errors
    /// What clap finds wrong with them, in its own words.
    pub fn from_words<W>(words: impl IntoIterator<Item = W>) -> Result<Self, clap::Error>
    where
        W: Into<OsString> + Clone,
    {
        #[derive(Parser)]
        #[command(name = "load", no_binary_name = true)]
        struct CommandWords {
            #[command(flatten)]
            args: Args,
        }
        CommandWords::try_parse_from(words).map(|words| words.args)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_people_write_them() {
        let read = |text: &str| text.parse::<LoadTarget>();
        let plain = read("127.0.0.1:5514").unwrap();
        assert_eq!(
            (plain.scheme, plain.host.as_str(), plain.port),
            (None, "127.0.0.1", 5514)
        );
        let six = read("udp://[::1]:514").unwrap();
        assert_eq!(
            (six.scheme, six.host.as_str(), six.port),
            (Some(Transport::Udp), "::1", 514)
        );
        assert_eq!(six.authority(), "[::1]:514");
        assert_eq!(
            read("tls://log.example:6514").unwrap().scheme,
            Some(Transport::Tls)
        );
        for bad in [
            "",
            "host",
            "host:",
            ":514",
            "host:0",
            "host:65536",
            "::1:514",
            "[::1:514",
            "x://h:1",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn options_have_loggens_names_and_short_forms() {
        let args = Args::from_words(
            "-D -s 800 -r 0 -I 5 -n 7 -P rfc5424 --active-connections 3 localhost:514".split(' '),
        )
        .unwrap();
        assert!(args.dgram);
        assert_eq!((args.size, args.rate, args.number), (800, 0, Some(7)));
        assert_eq!(args.interval.unwrap().0.as_secs(), 5);
        assert_eq!(
            (args.syslog_proto, args.active_connections),
            (SyslogProto::Rfc5424, 3)
        );
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        for words in [
            "-i -D h:1",
            "--cert c h:1",
            "--mark h:1",
            "--proxy-protocol 3 h:1",
            "-s x h:1",
        ] {
            assert!(Args::from_words(words.split(' ')).is_err(), "{words}");
        }
    }
}
