//! Preview of a request: the events that a collector would take of a body, and its answer.
//!
//! # What it guarantees
//! * Head, token, body and answer go through the parts that a request on a connection goes through:
//!   `request`, `events` and `reply`. Nothing is read in another way.
//! * Nothing is counted or kept, and the file of a token is neither read nor made.
//!
//! # Limits
//! Memory is bounded by the longest event (`max_event_bytes`). Room in the queue, `rate` and
//! acknowledgements are left out: the answer is that of a collector with room.

use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

use inrush_codec::hec::{BodySplitter, BodyStep, Envelope, EnvelopeTime, HecAnswer};
use inrush_event::{Batch, Origin, Peer, Protocol, Record, Secret, Timestamp};
use inrush_ingest::batch_writer::FrameIntake;
use inrush_ingest::batch_writer::preview::EventPreview;
use inrush_ingest::batch_writer::source::IngestSettings;
use inrush_transport::http::head::{HeadParse, parse_head};

use super::events::EventReader;
use super::options::{HostRule, SplunkHecSource, TokenOptions};
use super::reply::ReplyContent;
use super::request::{self, BodyFormat, EventDefaults, EventUpload, HeadRequest, RequestQuery};
use super::settings::HecSettings;
use crate::options::SourceOptions;

/// Bytes of a body that are read at once.
const READ_BYTES: usize = 1024 * 1024;

/// Any channel: whether a client gives one is not asked here.
const CHANNEL: &str = "00000000-0000-4000-8000-000000000000";

/// Request whose body is looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct PreviewedRequest<'a> {
    /// Name of the token that it comes with; `None`: the first.
    pub token: Option<&'a str>,
    /// Query behind the question mark of its path.
    pub query: &'a str,
    /// True if it goes to the raw endpoint.
    pub raw: bool,
}

/// Place that a value of an event comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueOrigin {
    /// The envelope of the event.
    Envelope,
    /// The query of the request.
    Query,
    /// The options of the token.
    Token,
    /// The options of the source.
    Source,
    /// The text of the event.
    Text,
    /// The `Host` field of the request, as the token has it.
    HostField,
    /// The address of the sender.
    Sender,
    /// The time of receipt.
    Receipt,
}

impl ValueOrigin {
    /// The words in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Envelope => "envelope",
            Self::Query => "query",
            Self::Token => "token default",
            Self::Source => "source default",
            Self::Text => "text of the event",
            Self::HostField => "Host field",
            Self::Sender => "address of the sender",
            Self::Receipt => "time of receipt",
        }
    }
}

/// Places that the values of an event come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventOrigins {
    /// Of its index.
    pub index: ValueOrigin,
    /// Of its sourcetype.
    pub sourcetype: ValueOrigin,
    /// Of its source.
    pub source: ValueOrigin,
    /// Of its host.
    pub host: ValueOrigin,
    /// Of its time.
    pub time: ValueOrigin,
}

/// Answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreviewedAnswer {
    /// Status of HTTP.
    pub status: u16,
    /// Body of the answer: text, code and, of a bad body, the number of the object at fault.
    pub body: String,
}

impl PreviewedAnswer {
    fn new(content: &ReplyContent) -> Self {
        let mut body = Vec::new();
        content.write_body(None, &mut body);
        Self {
            status: content.status(),
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }
}

/// An event of a body, and the places that its values come from.
pub type EventVisitor<'v> = dyn FnMut(&Batch, &Record, EventOrigins) -> io::Result<()> + 'v;

/// Result of a preview: an answer in place of it, if the head alone is refused.
pub type PreviewStart = Result<HecPreview, PreviewedAnswer>;

/// A request of which the head is read.
pub struct HecPreview {
    settings: HecSettings,
    upload: EventUpload,
    reader: EventReader,
    /// Finds the envelopes, to tell what stands in them.
    splitter: BodySplitter,
    events: EventPreview,
    sender: Origin,
    /// Names, host and time of the query alone, and of the query and the token.
    query: EventDefaults,
    token_host: HostRule,
}

/// The options of a collector; `None`: it is a source of another type.
pub fn collector(options: &dyn SourceOptions) -> Option<&SplunkHecSource> {
    options.as_any().downcast_ref()
}

/// The options with a text for each token, so that no file is read or made.
fn with_texts(options: &SplunkHecSource) -> SplunkHecSource {
    let mut options = options.clone();
    for (at, token) in options.tokens.iter_mut().enumerate() {
        if token.token_file.take().is_some() {
            token.token = Some(Secret::new(format!("token-of-file-{at}")));
        }
    }
    options
}

/// The token of that name, or the first.
fn chosen<'o>(
    options: &'o SplunkHecSource,
    wanted: Option<&str>,
) -> Result<&'o TokenOptions, String> {
    let name = |at: usize| {
        let name = options.tokens[at].name.clone();
        name.unwrap_or_else(|| format!("tokens[{at}]"))
    };
    let names: Vec<String> = (0..options.tokens.len()).map(name).collect();
    let at = match wanted {
        None => 0,
        Some(wanted) => names.iter().position(|one| one == wanted).ok_or_else(|| {
            let names = names.join(", ");
            format!("there is no token `{wanted}`; there are: {names}")
        })?,
    };
    options
        .tokens
        .get(at)
        .ok_or_else(|| "the source has no token".to_owned())
}

impl HecPreview {
    /// Reads the head of a request to the collector `name`.
    ///
    /// # Errors
    /// In words: there is no such token, or a time zone cannot be used.
    pub fn begin(
        name: &str,
        options: &SplunkHecSource,
        request: PreviewedRequest<'_>,
    ) -> Result<PreviewStart, String> {
        let options = with_texts(options);
        let token = chosen(&options, request.token)?;
        let secret = token.token.as_ref().map_or("", Secret::expose);
        let (token_host, listen) = (token.host, options.listen());
        let settings = HecSettings::new(&options, Path::new(""), None, None)?;
        let path = match request.raw {
            true => "raw",
            false => "event",
        };
        let query = request.query;
        let head = format!(
            "POST /services/collector/{path}?{query} HTTP/1.1\r\nHost: localhost\r\n\
             Authorization: Splunk {secret}\r\nX-Splunk-Request-Channel: {CHANNEL}\r\n\r\n"
        );
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let asked = match parse_head(head.as_bytes()) {
            HeadParse::Head(head, _) => request::asked(&head, &settings, ip),
            HeadParse::NeedMore => HeadRequest::Answer(ReplyContent::Http(400)),
            HeadParse::Bad(fault) => HeadRequest::Answer(ReplyContent::Http(fault.status())),
        };
        let upload = match asked {
            HeadRequest::Events(upload) => *upload,
            HeadRequest::Answer(content) => return Ok(Err(PreviewedAnswer::new(&content))),
            HeadRequest::Poll(..) | HeadRequest::Health | HeadRequest::S2s => {
                return Ok(Err(PreviewedAnswer::new(&ReplyContent::NotFound)));
            }
        };
        let first = listen.first();
        let sender = Origin::Peer(Peer {
            ip,
            local_port: first.map_or(8088, |listen| listen.addr.port()),
            protocol: first.map_or(Protocol::Http, |listen| listen.protocol),
            client: None,
        });
        Ok(Ok(Self {
            reader: EventReader::new(upload.format, settings.event_bytes_max),
            splitter: BodySplitter::default(),
            events: EventPreview::new(ingest_settings(name, &options)?),
            query: RequestQuery::read(query).names,
            settings,
            upload,
            sender,
            token_host,
        }))
    }

    /// Reads a body to its end, shows its events, and returns the answer.
    ///
    /// # Errors
    /// The body cannot be read, or an event not shown.
    pub fn read(
        mut self,
        mut body: impl Read,
        show: &mut EventVisitor<'_>,
    ) -> io::Result<PreviewedAnswer> {
        let (mut bytes, mut total, mut taken) = (Vec::new(), 0_u64, 0);
        loop {
            let kept = bytes.len();
            bytes.resize(kept + READ_BYTES, 0);
            let count = match body.read(&mut bytes[kept..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    bytes.truncate(kept);
                    continue;
                }
                count => count?,
            };
            bytes.truncate(kept + count);
            total += count as u64;
            if total > self.settings.content_bytes_max {
                let content = ReplyContent::TooLarge(self.settings.content_bytes_max);
                return Ok(PreviewedAnswer::new(&content));
            }
            let last = count == 0;
            let (keep, events, fault) = self.step(&bytes, last, show)?;
            taken += events;
            if let Some((answer, number)) = fault {
                return Ok(PreviewedAnswer::new(&ReplyContent::Hec(answer, number)));
            }
            if last {
                let answer = match taken {
                    0 => HecAnswer::NoData,
                    _ => HecAnswer::Success,
                };
                return Ok(PreviewedAnswer::new(&ReplyContent::Hec(answer, None)));
            }
            bytes.drain(..keep);
        }
    }

    /// Shows the events that end in `bytes`. Returns the offset of the first byte to show again,
    /// the number of events, and the fault that ends the body.
    fn step(
        &mut self,
        bytes: &[u8],
        last: bool,
        show: &mut EventVisitor<'_>,
    ) -> io::Result<(usize, u64, Option<super::events::EventFault>)> {
        let envelopes = match self.upload.format {
            BodyFormat::Event => self.envelopes(bytes, last),
            BodyFormat::Raw => Vec::new(),
        };
        let (reader, upload) = (&mut self.reader, &self.upload);
        let most = self.settings.event_bytes_max;
        let received = Timestamp::now();
        let decode = |arena: &[u8], frames: &mut FrameIntake<'_>| {
            reader.take((arena, 0, last), upload, most, frames)
        };
        let (batch, step) = self.events.show(bytes, &self.sender, received, decode);
        for (at, record) in batch.records().iter().enumerate() {
            show(&batch, record, self.origins(envelopes.get(at), record))?;
        }
        Ok((step.keep, step.events, step.fault))
    }

    fn envelopes(&mut self, bytes: &[u8], last: bool) -> Vec<Envelope> {
        let (mut found, mut at) = (Vec::new(), 0);
        while let BodyStep::Object { envelope, end } = self.splitter.step(bytes, at, last) {
            found.push(envelope);
            at = end;
        }
        found
    }

    /// Places that the values of an event come from; `envelope` is `None` for a line.
    fn origins(&self, envelope: Option<&Envelope>, record: &Record) -> EventOrigins {
        let (query, defaults) = (&self.query, &self.upload.defaults);
        let name = |in_envelope: bool, query: &[u8], default: &[u8]| match () {
            () if in_envelope => ValueOrigin::Envelope,
            () if !query.is_empty() => ValueOrigin::Query,
            () if !default.is_empty() => ValueOrigin::Token,
            () => ValueOrigin::Source,
        };
        let has = |text: fn(&Envelope) -> inrush_codec::hec::EnvelopeText| {
            envelope.is_some_and(|envelope| !text(envelope).span.is_empty())
        };
        let host = match name(has(|one| one.host), &query.host, b"") {
            ValueOrigin::Source => match (record.host.is_empty(), self.token_host) {
                (true, _) => ValueOrigin::Sender,
                (false, HostRule::Header) => ValueOrigin::HostField,
                (false, _) => ValueOrigin::Text,
            },
            origin => origin,
        };
        let in_envelope = envelope.map_or(EnvelopeTime::Absent, |envelope| envelope.time);
        let time = match (in_envelope, query.time) {
            (EnvelopeTime::At(_), _) => ValueOrigin::Envelope,
            (EnvelopeTime::Absent, Some(_)) => ValueOrigin::Query,
            _ if record.event_time.is_some() => ValueOrigin::Text,
            _ => ValueOrigin::Receipt,
        };
        EventOrigins {
            index: name(has(|one| one.index), &query.index, &defaults.index),
            sourcetype: name(
                has(|one| one.sourcetype),
                &query.sourcetype,
                &defaults.sourcetype,
            ),
            source: name(has(|one| one.source), &query.source, &defaults.source),
            host,
            time,
        }
    }
}

/// Settings by which headers are read; all that comes behind is the caller's.
fn ingest_settings(name: &str, options: &SplunkHecSource) -> Result<IngestSettings, String> {
    let syslog = options.header_options();
    let zone = syslog.zone().map_err(|error| error.to_string())?;
    Ok(IngestSettings {
        info: Arc::new(options.info(name)),
        message_bytes_max: syslog.message_bytes_max(),
        zone,
        guess_timezone: syslog.guess_timezone,
        skew_ns_max: syslog.time_skew_ns_max(),
        encoding: syslog.encoding,
        recognition: None,
        names: None,
        transforms: None,
    })
}
