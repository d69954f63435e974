//! `inrush explain`: says of each record how it is read, what it is taken for and where it goes.
//!
//! It runs the very decoder, parser and encoder that a source and a `splunk_hec` destination run,
//! on one record at a time; nothing is sent anywhere. Memory does not grow with the input.

mod human;
mod input;
mod json;

use std::io::{IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueEnum;
use inrush_codec::encode::{HecEncoder, HecOptions};
use inrush_codec::{Parser, Zone};
use inrush_event::{
    Anomalies, Batch, BatchPool, Peer, Protocol, Record, Secret, SourceInfo, Span, Timestamp,
    limits,
};
use inrush_pipeline::config::{Config, SourceConfig, SyslogSource};
use inrush_sink::SinkConfig;
use inrush_sink::splunk_hec::SplunkHecConfig;

use super::{ExplainArgs, Usage};

/// What stands on stdin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Input {
    /// Records as a sender writes them to a connection: lines, or octet-counted.
    Raw,
    /// JSON objects, one a line, with the record in `raw`.
    Json,
}

/// One record as it came, and what is known of its arrival.
struct Arrival<'a> {
    bytes: &'a [u8],
    framing: Anomalies,
    sender: Option<IpAddr>,
    received: Option<Timestamp>,
}

/// A record that was read, and what would be sent of it.
struct Explained {
    /// From 1, in the order of the input.
    number: u64,
    /// The record alone in its batch.
    batch: Batch,
    record: Record,
    /// Whether the sender's address and the receive time are our own stand-ins.
    stand_in: bool,
    timezone: String,
    hec: Vec<u8>,
}

/// Why a record has no class.
const UNCLASSIFIED: &str = "no packs are installed yet";

/// Which rule decided index and sourcetype.
const RULE: &str = "source default";

impl Explained {
    /// The fields that the parser found, by their names in output; an absent one is `None`.
    fn fields(&self) -> [(&'static str, Option<&[u8]>); 7] {
        let field = |span: Span| (!span.is_empty()).then(|| self.batch.get(span));
        let Record {
            host,
            app,
            proc_id,
            msg_id,
            sdata,
            message,
            raw,
            ..
        } = self.record;
        [
            ("host", field(host)),
            ("app", field(app)),
            ("proc_id", field(proc_id)),
            ("msg_id", field(msg_id)),
            ("sdata", field(sdata)),
            ("message", field(message)),
            ("raw", field(raw)),
        ]
    }

    /// How the event time came about, in sentences.
    fn time_notes(&self) -> Vec<String> {
        let has = |anomaly| self.record.anomalies.contains(anomaly);
        if !self.record.event_time.is_some() {
            let stands_in = "the receive time stands in";
            let why = if has(Anomalies::BAD_TIME) {
                "what was sent is no date"
            } else {
                "none was sent"
            };
            return vec![format!("{why}; {stands_in}")];
        }
        let mut notes = Vec::new();
        if has(Anomalies::YEAR_ASSUMED) {
            notes
                .push("no year was sent: the one closest to the receive time was taken".to_owned());
        }
        if has(Anomalies::ZONE_ASSUMED) {
            let zone = &self.timezone;
            notes.push(format!("no zone was sent: the source's, {zone}, was taken"));
        } else if self.record.zone_minutes != Record::ZONE_NONE {
            notes.push(format!(
                "sent with the zone {}",
                offset(self.record.zone_minutes)
            ));
        }
        if has(Anomalies::CLOCK_UNSYNCED) {
            notes.push("the device said that its clock is not synchronised".to_owned());
        }
        notes
    }

    /// Each anomaly with its sentence.
    fn anomalies(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let set = self.record.anomalies;
        let present = Anomalies::ALL.iter().filter(move |one| set.contains(**one));
        present.filter_map(|one| Some((one.names().next()?, one.describe())))
    }

    fn peer(&self) -> Option<&Peer> {
        self.batch.peer(&self.record)
    }
}

/// Minutes east of UTC as `+02:00`.
fn offset(minutes: i16) -> String {
    let sign = if minutes < 0 { '-' } else { '+' };
    let minutes = minutes.unsigned_abs();
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

/// What a source does to a record, without its sockets.
struct Explainer {
    pool: Arc<BatchPool>,
    source: Arc<SourceInfo>,
    /// As whose datagram or connection a record counts that does not say.
    door: Peer,
    zone: Zone,
    timezone: String,
    parser: Parser,
    hec_options: HecOptions,
    hec: HecEncoder,
    fresh: bool,
    number: u64,
}

impl Explainer {
    fn new(
        name: &str,
        source: &SyslogSource,
        hec_options: HecOptions,
        fresh: bool,
    ) -> anyhow::Result<Self> {
        let zone = source.syslog.zone()?;
        let first = source.listen.first();
        Ok(Self {
            pool: BatchPool::new(),
            source: Arc::new(SourceInfo {
                name: name.to_owned(),
                index: source.index.clone(),
                sourcetype: source.sourcetype.clone(),
            }),
            door: Peer {
                ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
                local_port: first.map_or(514, |listen| listen.addr.port()),
                protocol: first.map_or(Protocol::Udp, |listen| listen.protocol),
            },
            parser: Parser::new(zone.clone()),
            zone,
            timezone: source.syslog.timezone.clone(),
            hec: HecEncoder::new(hec_options.clone()),
            hec_options,
            fresh,
            number: 0,
        })
    }

    fn explain(&mut self, arrival: &Arrival<'_>) -> Explained {
        if self.fresh {
            self.parser = Parser::new(self.zone.clone());
            self.hec = HecEncoder::new(self.hec_options.clone());
            self.pool = BatchPool::new();
        }
        self.number += 1;
        let received = arrival.received.unwrap_or_else(Timestamp::now);
        let peer = Peer {
            ip: arrival.sender.unwrap_or(self.door.ip),
            ..self.door
        };
        let mut builder = self.pool.lend(&self.source, limits::MESSAGE_BYTES_DEFAULT);
        builder.stamp(received);
        builder.extend(arrival.bytes);
        let peer = builder.peer(peer);
        let raw = Span::new(0, arrival.bytes.len());
        let mut record = Record::unparsed(raw, received, peer, arrival.framing);
        self.parser.parse(builder.bytes(), &mut record);
        builder.parts().1.push(record);
        let batch = builder.freeze(self.number);
        let mut hec = Vec::new();
        self.hec.encode(&batch, &record, b"", &mut hec);
        Explained {
            number: self.number,
            batch,
            record,
            stand_in: arrival.sender.is_none(),
            timezone: self.timezone.clone(),
            hec,
        }
    }
}

/// Reads stdin to its end and explains every record on stdout.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let config = super::configuration(args.config.as_deref())?;
    let (name, source) = chosen(&config, args.source.as_deref())?;
    let mut explainer = Explainer::new(name, source, hec_options(&config), args.fresh)?;
    let stdout = std::io::stdout().lock();
    let colour = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let mut out = std::io::BufWriter::new(stdout);
    // Someone who types records wants each answer at once; a file wants speed.
    let interactive = std::io::stdin().is_terminal();
    let mut faults = 0;
    let mut show = |arrival: input::Item<'_>| -> anyhow::Result<()> {
        match arrival {
            Ok(arrival) => {
                let explained = explainer.explain(&arrival);
                if args.json {
                    json::write(&explained, &mut out)?;
                } else {
                    human::write(&explained, colour, &mut out)?;
                }
            }
            Err(fault) => {
                faults += 1;
                eprintln!("inrush: {fault}");
            }
        }
        if interactive {
            Ok(out.flush()?)
        } else {
            Ok(())
        }
    };
    let stdin = std::io::stdin().lock();
    match args.input {
        Input::Raw => input::raw(stdin, &source.syslog, &mut show)?,
        Input::Json => input::json(stdin, source.syslog.message_bytes_max(), &mut show)?,
    }
    out.flush()?;
    Ok(if faults == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// As the first `splunk_hec` destination has it, or as one without options would.
fn hec_options(config: &Config) -> HecOptions {
    let hec = config
        .destinations
        .values()
        .find_map(|destination| match destination {
            SinkConfig::SplunkHec(options) => Some(options.envelope()),
            _ => None,
        });
    hec.unwrap_or_else(|| SplunkHecConfig::new(Vec::new(), Secret::new("")).envelope())
}

fn chosen<'c>(
    config: &'c Config,
    wanted: Option<&str>,
) -> anyhow::Result<(&'c str, &'c SyslogSource)> {
    let mut sources = config.sources.iter();
    let found = match wanted {
        None => sources.next(),
        Some(wanted) => sources.find(|(name, _)| *name == wanted),
    };
    let Some((name, source)) = found else {
        let names: Vec<_> = config.sources.keys().map(String::as_str).collect();
        let wanted = wanted.unwrap_or_default();
        let names = names.join(", ");
        return Err(Usage(format!(
            "--source: there is no source `{wanted}`; there are: {names}"
        ))
        .into());
    };
    let SourceConfig::Syslog(source) = source;
    Ok((name, source))
}
