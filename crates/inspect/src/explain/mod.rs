//! Explanation of one record: its header, rules, transforms, destinations and HEC envelope.
//!
//! # What it guarantees
//! * Parser, rules and transforms are those of the source. The envelope has the options of the
//!   first `splunk_hec` destination, or the defaults.
//! * Nothing is sent. No counter, hint or zone guess of a running source is read or changed.
//! * Two steps of a source are left out: the conversion by `encoding` and the lookup of host names.
//!
//! # States
//! An [`Explainer`] learns from each record. [`Explainer::forget`] clears hints and zone guesses,
//! but no groups. After [`Explainer::group`] parts wait, at most until [`Explainer::rest`].
//!
//! # Limits
//! A record of the admin API has at most [`RECORD_BYTES_MAX`] bytes.

pub mod collector;
mod explanation;
mod json;
pub mod log;
mod nearest_rule;
pub mod pod_policy;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_classify::{CompiledPacks, HostProducts, RuleTrace};
use inrush_codec::encode::{HecEncoder, HecOptions};
use inrush_codec::{OptionsError, SyslogOptions, SyslogParser, Zone, ZoneGuesses, datagram};
use inrush_config::{Config, SourceOptions};
use inrush_event::{
    Anomalies, Batch, BatchBuilder, BatchPool, Peer, Protocol, Record, Secret, SourceInfo, Span,
    Timestamp, limits,
};
use inrush_ingest::classification::{
    self, BatchClassifier, ClassifierContext, MemoryBudget, MultilineAssembler, PartOutcome,
};
use inrush_ingest::transform::{EventTransformer, FailureCounters, TransformRules};
use inrush_sink::SinkConfig;
use inrush_sink::splunk_hec::SplunkHecConfig;

use collector::ValueTrail;

pub use explanation::{PartFate, RecordExplanation, reason};
pub use json::{rest, rfc3339};
pub use nearest_rule::{NearestRule, UnknownStatus, unknown};

/// Bytes of the largest record that can be explained over the admin API.
pub const RECORD_BYTES_MAX: usize = limits::MESSAGE_BYTES_DEFAULT;

/// Rule in output of a record that no rule recognised: its source gives index and sourcetype.
pub const RULE: &str = "source default";

/// One record as it came, and what is known of its arrival.
pub struct RawRecord<'a> {
    /// The record without its framing.
    pub bytes: &'a [u8],
    /// Anomalies of its framing.
    pub framing: Anomalies,
    /// Address of the sender, if that is known.
    pub sender: Option<IpAddr>,
    /// The listener that it came to, as `protocol:port` or by the name of its source, if that is
    /// known.
    pub listener: Option<&'a str>,
    /// Receive time, if that is known.
    pub received: Option<Timestamp>,
}

/// Findings of the rules about a record: as in [`RecordExplanation`].
struct Recognition {
    part: Option<(String, PartFate)>,
    filtered: Option<String>,
    considered: Option<Vec<RuleTrace>>,
    fell: bool,
}

/// Transforms, destinations, and the rule that filters.
type TransformResult = (Vec<String>, Option<Vec<String>>, Option<String>);

/// Pipeline of a source without its sockets: parser, rules, transforms and encoder.
pub struct Explainer {
    pool: Arc<BatchPool>,
    source: Arc<SourceInfo>,
    /// As whose datagram or connection a record counts that does not say.
    door: Peer,
    zone: Zone,
    syslog: SyslogOptions,
    parser: SyslogParser,
    hec_options: HecOptions,
    hec: HecEncoder,
    number: u64,
    /// Packs that events are recognised by, without hosts that were learnt.
    recognition: Option<ClassifierContext>,
    recogniser: Option<BatchClassifier>,
    shape: Option<Arc<TransformRules>>,
    remember_hosts: bool,
    /// Parts of events that wait, if any do.
    groups: Option<MultilineAssembler>,
    /// Start of the clock of the groups, and the receive time that it stands for.
    clock: Option<(Instant, Timestamp)>,
}

impl Explainer {
    /// As the source `name` of `config` would read a record, by these packs.
    ///
    /// # Errors
    /// The source's time zone is not known.
    pub fn new(
        name: &str,
        source: &dyn SourceOptions,
        config: &Config,
        packs: &Arc<CompiledPacks>,
    ) -> Result<Self, OptionsError> {
        let syslog = collector::header_options(source);
        let zone = syslog.zone()?;
        let listen = source.listen();
        let first = listen.first();
        let hec_options = hec_options(config);
        let recognition =
            ClassifierContext::new(name, source.product(), zone.time_zone(), packs, None);
        let mut explainer = Self {
            pool: BatchPool::new(),
            source: Arc::new(source.info(name)),
            door: Peer {
                ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
                local_port: first.map_or(514, |listen| listen.addr.port()),
                protocol: first.map_or(Protocol::Udp, |listen| listen.protocol),
                client: None,
            },
            parser: SyslogParser::new(zone.clone()),
            zone,
            syslog,
            hec: HecEncoder::new(hec_options.clone()),
            hec_options,
            number: 0,
            recognition,
            recogniser: None,
            // What is wrong with it was said when the configuration was read.
            shape: TransformRules::new(
                &config.transforms,
                &config.routes,
                &FailureCounters::default(),
            )
            .ok()
            .flatten()
            .map(Arc::new),
            remember_hosts: config.packs.remember_hosts,
            groups: None,
            clock: None,
        };
        explainer.forget();
        Ok(explainer)
    }

    /// Forgets everything that was learnt from earlier records.
    pub fn forget(&mut self) {
        self.parser = match self.syslog.guess_timezone {
            true => SyslogParser::guessing(self.zone.clone(), ZoneGuesses::new()),
            false => SyslogParser::new(self.zone.clone()),
        };
        self.hec = HecEncoder::new(self.hec_options.clone());
        self.pool = BatchPool::new();
        let hints = self.remember_hosts.then(HostProducts::new);
        self.recogniser = self.recognition.clone().map(|mut recognition| {
            recognition.remember(hints);
            let mut recogniser = BatchClassifier::new(recognition);
            recogniser.trace();
            recogniser
        });
    }

    /// Has parts of events wait for the others from now on, instead of looking at each alone.
    pub fn group(&mut self) {
        self.groups = Some(MultilineAssembler::new(MemoryBudget::new()));
    }

    /// Has rules be asked as for events that nobody asks about: what their programs decide is
    /// remembered.
    #[cfg(test)]
    pub fn remember(&mut self) {
        self.recogniser = self.recognition.clone().map(BatchClassifier::new);
    }

    /// Reads one record.
    pub fn explain(&mut self, arrival: &RawRecord<'_>) -> RecordExplanation {
        self.number += 1;
        let received = arrival.received.unwrap_or_else(Timestamp::now);
        let now = self.now(received);
        let peer = Peer {
            ip: arrival.sender.unwrap_or(self.door.ip),
            ..self.door.clone()
        };
        let (builder, record) = self.read(arrival, received, peer);
        let mut explained = self.study(builder, record, now, None);
        explained.stand_in = arrival.sender.is_none();
        explained
    }

    /// Explains the record in `builder`, of which no more than its header is known. `trail` follows
    /// the values of an event of a collector.
    fn study(
        &mut self,
        mut builder: BatchBuilder,
        mut record: Record,
        now: Instant,
        mut trail: Option<ValueTrail>,
    ) -> RecordExplanation {
        let Recognition {
            mut part,
            mut filtered,
            considered,
            fell,
        } = self.recognise(&mut builder);
        self.flag_skewed(&mut builder);
        if let Some(trail) = &mut trail {
            trail.recognised(&builder);
        }
        if let (Some((_, fate)), Some(groups)) = (&mut part, &mut self.groups) {
            *fate = hold(self.recogniser.as_mut(), &builder, groups, now);
        }
        let waits = part
            .as_ref()
            .is_some_and(|(_, fate)| *fate != PartFate::Alone);
        let (mut transforms, mut destinations) = (Vec::new(), None);
        if filtered.is_none() && !waits {
            (transforms, destinations, filtered) = self.shaped(&mut builder);
        }
        let values = trail.map(|trail| trail.values(&builder, &transforms));
        let own = usize::from(filtered.is_none());
        record = builder.records().first().copied().unwrap_or(record);
        self.put_ready(&mut builder);
        let batch = builder.freeze(self.number);
        let sent = batch.records().iter().skip(if waits { own } else { 0 });
        // What waited longest comes first, and the record itself last.
        let mut envelopes: Vec<_> = sent.map(|record| self.envelope(&batch, record)).collect();
        if own == 1 && !waits {
            envelopes.rotate_left(1);
        }
        let mine = own == 1
            && part
                .as_ref()
                .is_none_or(|(_, fate)| *fate != PartFate::Held);
        RecordExplanation {
            hec: envelopes
                .last()
                .filter(|_| mine)
                .cloned()
                .unwrap_or_default(),
            envelopes,
            part,
            filtered,
            transforms,
            destinations,
            considered,
            fell,
            number: self.number,
            batch,
            record,
            stand_in: true,
            values,
            lines: None,
            timezone: self.syslog.timezone.clone(),
            time_skew_max: self.syslog.max_time_skew,
        }
    }

    /// Asks the rules about the record.
    fn recognise(&mut self, builder: &mut BatchBuilder) -> Recognition {
        let Some(recogniser) = &mut self.recogniser else {
            return Recognition {
                part: None,
                filtered: None,
                considered: None,
                fell: true,
            };
        };
        recogniser.begin();
        recogniser.run(builder, 0, None);
        let part = recogniser.part_of();
        let part = part.map(|rule| (rule.to_owned(), PartFate::Alone));
        let (considered, fell) = (recogniser.considered().to_vec(), recogniser.fell());
        let mut dropped = recogniser.take_dropped();
        Recognition {
            part,
            filtered: dropped.next().map(|(rule, _)| rule.to_owned()),
            considered: Some(considered),
            fell,
        }
    }

    /// The record in a batch of its own, with its header read.
    fn read(
        &mut self,
        arrival: &RawRecord<'_>,
        received: Timestamp,
        peer: Peer,
    ) -> (BatchBuilder, Record) {
        let most = limits::MESSAGE_BYTES_DEFAULT;
        let mut builder = self.pool.lend(&self.source, most);
        builder.stamp(received);
        builder.extend(arrival.bytes);
        let sender = peer.ip;
        let peer = builder.peer(peer);
        let raw = Span::new(0, arrival.bytes.len());
        let mut record = Record::unparsed(raw, received, peer, arrival.framing);
        // What is learnt of the sender shows in what is read next.
        let _ = (self.parser).parse_from(builder.bytes(), &mut record, sender);
        builder.parts().1.push(record);
        (builder, record)
    }

    fn flag_skewed(&self, builder: &mut BatchBuilder) {
        let most = self.syslog.time_skew_ns_max();
        for record in builder.records_mut() {
            record.flag_skew(most);
        }
    }

    /// Runs the user's own expressions on the record. Returns the transforms that changed it, its
    /// destinations, and the rule that filters it.
    fn shaped(&self, builder: &mut BatchBuilder) -> TransformResult {
        let Some(shape) = &self.shape else {
            return (Vec::new(), None, None);
        };
        let mut shaper = EventTransformer::new(Arc::clone(shape));
        shaper.run(builder, 0);
        let destinations = shaper.routing().first().map(|to| to.to_vec());
        let filtered = shaper.take_filtered().into_keys().next();
        (shaper.applied().to_vec(), destinations, filtered)
    }

    /// Envelopes of what waits at the end of the input for parts that did not come.
    pub fn rest(&mut self) -> Vec<Vec<u8>> {
        if let Some(groups) = &mut self.groups {
            groups.end_all();
        }
        let mut builder = self.pool.lend(&self.source, limits::MESSAGE_BYTES_DEFAULT);
        self.put_ready(&mut builder);
        let batch = builder.freeze(self.number);
        let records = batch.records().iter();
        records
            .map(|record| self.envelope(&batch, record))
            .collect()
    }

    fn put_ready(&mut self, builder: &mut BatchBuilder) {
        while let Some(ready) = self.groups.as_mut().and_then(MultilineAssembler::pop) {
            ready.put(builder);
            if let Some(shape) = &self.shape {
                let last = builder.len() - 1;
                EventTransformer::new(Arc::clone(shape)).run(builder, last);
            }
        }
    }

    fn envelope(&mut self, batch: &Batch, record: &Record) -> Vec<u8> {
        let mut hec = Vec::new();
        self.hec.encode(batch, record, b"", &mut hec);
        hec
    }

    /// The time that groups go by: that of the records, which never goes back.
    fn now(&mut self, received: Timestamp) -> Instant {
        let (start, first) = *self.clock.get_or_insert_with(|| (Instant::now(), received));
        let passed = u64::try_from(received.0.saturating_sub(first.0)).unwrap_or(0);
        let now = start
            .checked_add(Duration::from_nanos(passed))
            .unwrap_or(start);
        if let Some(groups) = &mut self.groups {
            groups.expire(now);
        }
        now
    }
}

/// Has the record in `builder` wait for others, and says what became of it.
fn hold(
    recogniser: Option<&mut BatchClassifier>,
    builder: &BatchBuilder,
    groups: &mut MultilineAssembler,
    now: Instant,
) -> PartFate {
    let record = builder.records().first();
    let held = recogniser
        .zip(record)
        .map(|(recogniser, record)| recogniser.hold(builder, record, groups, now));
    match held {
        Some(PartOutcome::Waits) => PartFate::Held,
        Some(PartOutcome::Done) => PartFate::Joined,
        Some(PartOutcome::Not) | None => PartFate::Alone,
    }
}

/// The source of that name, or the first one.
///
/// # Errors
/// In words, with the names that there are.
pub fn source<'c>(
    config: &'c Config,
    wanted: Option<&str>,
) -> Result<(&'c str, &'c dyn SourceOptions), String> {
    let mut sources = config.sources.iter();
    let found = match wanted {
        None => sources.next(),
        Some(wanted) => sources.find(|(name, _)| *name == wanted),
    };
    let Some((name, source)) = found else {
        let names: Vec<_> = config.sources.keys().map(String::as_str).collect();
        let wanted = wanted.unwrap_or_default();
        let names = names.join(", ");
        return Err(format!("there is no source `{wanted}`; there are: {names}"));
    };
    Ok((name, source.options()))
}

/// The source that listens at `protocol:port`, or is called so.
pub fn listening<'c>(
    config: &'c Config,
    listener: &str,
) -> Option<(&'c str, &'c dyn SourceOptions)> {
    let port = listener
        .rsplit_once(':')
        .map(|(protocol, port)| (protocol, port.parse::<u16>()));
    config.sources.iter().find_map(|(name, source)| {
        let source = source.options();
        let here = source.listen().iter().any(|listen| match port {
            Some((protocol, Ok(port))) => {
                listen.addr.port() == port && listen.protocol.name() == protocol
            }
            _ => false,
        });
        (here || name == listener).then_some((name.as_str(), source))
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

/// One record as a datagram would bring it to the source `wanted` of `config`, as one JSON object.
///
/// # Errors
/// In words: there is no such source, or the record is empty.
pub fn datagram_to_json(
    config: &Config,
    wanted: Option<&str>,
    bytes: &[u8],
) -> Result<Vec<u8>, String> {
    let (name, options) = source(config, wanted)?;
    let kept = datagram(bytes, Span::new(0, bytes.len()));
    let kept = kept.ok_or("the record is empty; send it as the body of the request")?;
    let syslog = options.syslog().cloned().unwrap_or_default();
    let most = syslog.message_bytes_max();
    let mut framing = Anomalies::NONE;
    if kept.len() > most {
        framing.insert(Anomalies::OVERSIZE);
    }
    let bytes = kept.of(bytes);
    let arrival = RawRecord {
        bytes: &bytes[..bytes.len().min(most)],
        framing,
        sender: None,
        listener: None,
        received: None,
    };
    let loaded = classification::load(&config.packs).map_err(|problems| problems.to_string())?;
    let mut explainer =
        Explainer::new(name, options, config, &loaded.packs).map_err(|error| error.to_string())?;
    explainer
        .explain(&arrival)
        .to_json()
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::Value;

    fn config(more: &str) -> Config {
        let yaml = format!(
            "sources:\n  a: {{ type: syslog, listen: [\"udp://127.0.0.1:0\"]{more} }}\n  \
             b: {{ type: syslog, listen: [\"tcp://127.0.0.1:0\"], index: other }}\n\
             destinations:\n  out: {{ type: blackhole }}\n"
        );
        inrush_config::parse(&yaml, "test", &|_| None).unwrap()
    }

    fn explained(config: &Config, wanted: Option<&str>, bytes: &[u8]) -> Value {
        serde_json::from_slice(&datagram_to_json(config, wanted, bytes).unwrap()).unwrap()
    }

    #[test]
    fn a_record_is_read_as_its_source_reads_it() {
        let config = config("");
        let first = explained(
            &config,
            None,
            b"<34>Oct 11 22:14:15 fw1 su[230]: failed\r\n",
        );
        assert_eq!(first["format"], "rfc3164");
        assert_eq!(
            (&first["host"], &first["index"]),
            (&"fw1".into(), &"main".into())
        );
        assert_eq!(first["hec"]["event"], "su[230]: failed");
        assert_eq!(first["protocol"], "udp");
        let second = explained(&config, Some("b"), b"no header\0\xff");
        assert_eq!(
            (&second["format"], &second["index"]),
            (&"unparsed".into(), &"other".into())
        );
        assert_eq!(second["raw"], "no header\0\u{fffd}");
    }

    #[test]
    fn what_cannot_be_explained_is_said_in_words() {
        let config = config("");
        let empty = datagram_to_json(&config, None, b"\r\n\0").unwrap_err();
        assert!(empty.contains("empty"), "{empty}");
        let unknown = datagram_to_json(&config, Some("c"), b"x").unwrap_err();
        assert_eq!(unknown, "there is no source `c`; there are: a, b");
    }

    #[test]
    fn what_only_the_fallback_knows_has_a_nearest_rule() {
        let mut config = config("");
        config.packs.enabled = true;
        config.packs.fallback = inrush_config::FallbackPolicy::Sc4s;
        let rule = "{ name: mine, stage: program, when: { program: gadget, message: 'x*' }, \
            set: { sourcetype: acme } }";
        config.packs.inline = Some(format!("about: mine\nrules: [{rule}]\n"));
        let why = |message: &str| {
            let record = format!("<13>May  6 07:08:09 h1 gadget[4]: {message}");
            explained(&config, None, record.as_bytes())["why"].clone()
        };
        assert_eq!(
            why("hello"),
            "recognised by fallback_nix, as no other rule took it; the nearest was `mine`: it is \
             not so that message is `x*`"
        );
        assert_eq!(why("xylophone"), "recognised by mine");
    }

    #[test]
    fn what_is_too_long_for_the_source_is_cut_as_the_source_cuts_it() {
        let config = config(", max_message_bytes: 480");
        let long = explained(&config, None, &[b'x'; 1000]);
        assert_eq!(long["raw"].as_str().map(str::len), Some(480));
        let names = long["anomalies"].as_array().unwrap().iter();
        assert!(
            names.into_iter().any(|one| one["name"] == "oversize"),
            "{long}"
        );
    }
}
