//! Requests: what a head asks for, and whether it may.
//!
//! Checks come in the order that Splunk's answers show: path, method, encoding, token, channel.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use inrush_codec::hec::{EnvelopeTime, HecAnswer, epoch};
use inrush_event::{Timestamp, instant_now};
use inrush_transport::http::head::RequestHead;

use super::acks::ChannelId;
use super::counts::TokenCounts;
use super::options::{AckRule, HostRule};
use super::reply::ReplyContent;
use super::settings::HecSettings;
use super::tokens::HecToken;

/// Purpose of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HecEndpoint {
    Event,
    Raw,
    Ack,
    Health,
    /// Splunk's own protocol, which nobody else speaks.
    S2s,
}

impl HecEndpoint {
    fn of(path: &str) -> Option<Self> {
        let path = path.strip_prefix("/services/collector")?;
        Some(match path.strip_suffix('/').unwrap_or(path) {
            "" | "/event" | "/event/1.0" => Self::Event,
            "/raw" | "/raw/1.0" => Self::Raw,
            "/ack" | "/ack/1.0" => Self::Ack,
            "/health" | "/health/1.0" => Self::Health,
            "/s2s" => Self::S2s,
            _ => return None,
        })
    }

    fn methods(self) -> &'static str {
        match self {
            Self::Health => "GET,HEAD,OPTIONS",
            _ => "POST,OPTIONS",
        }
    }
}

/// Format of the events of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BodyFormat {
    /// Objects with envelopes.
    Event,
    /// Lines.
    Raw,
}

/// Longest index, sourcetype, source or host of a request or token, in bytes.
const DEFAULT_BYTES_MAX: usize = 1024;

/// Names, host and time of the events of a request that name none themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct EventDefaults {
    /// Index; empty: that of the source.
    pub(super) index: Vec<u8>,
    /// Sourcetype; empty: that of the source.
    pub(super) sourcetype: Vec<u8>,
    /// Source.
    pub(super) source: Vec<u8>,
    /// Host; empty: the address of the sender.
    pub(super) host: Vec<u8>,
    /// Time, if the query gives one.
    pub(super) time: Option<Timestamp>,
    /// True if the time of an event that has none is looked for in its text.
    pub(super) extracts_time: bool,
}

impl EventDefaults {
    /// True if one is longer than it may be: each event has it, so that a short body would become
    /// gigabytes.
    fn is_too_long(&self) -> bool {
        let all = [&self.index, &self.sourcetype, &self.source, &self.host];
        all.iter().any(|one| one.len() > DEFAULT_BYTES_MAX)
    }
}

/// Request with a body of events.
pub(super) struct EventUpload {
    /// Format of the body.
    pub(super) format: BodyFormat,
    /// True if the body is compressed by gzip.
    pub(super) gzip: bool,
    /// HecToken that it came with.
    pub(super) token: Arc<HecToken>,
    /// Channel of its acknowledgement, if its token has them.
    pub(super) channel: Option<ChannelId>,
    /// Names, host and time of its events that name none.
    pub(super) defaults: EventDefaults,
}

/// Request of a head.
pub(super) enum HeadRequest {
    /// Its events are to be taken.
    Events(Box<EventUpload>),
    /// A poll for acknowledgements of a channel of a token, which gzip has compressed or not.
    Poll(Arc<HecToken>, ChannelId, bool),
    /// A question for health.
    Health,
    /// It is answered at once.
    Answer(ReplyContent),
    /// Splunk's own protocol: it is answered as a path that is not there, and said in the log.
    S2s,
}

/// RequestQuery of a request, as far as it matters.
#[derive(Default)]
pub(super) struct RequestQuery<'a> {
    token: Option<Cow<'a, str>>,
    channel: Option<Cow<'a, str>>,
    /// Names, host and time for events.
    pub(super) names: EventDefaults,
    /// A `time` that is none.
    bad_time: bool,
}

impl<'a> RequestQuery<'a> {
    pub(super) fn read(query: &'a str) -> Self {
        let mut read = Self::default();
        for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let bytes = || value.as_bytes().to_vec();
            match &*key {
                "token" => read.token = Some(value),
                "channel" => read.channel = Some(value),
                "index" => read.names.index = bytes(),
                "source" => read.names.source = bytes(),
                "sourcetype" => read.names.sourcetype = bytes(),
                "host" => read.names.host = bytes(),
                "auto_extract_timestamp" => {
                    read.names.extracts_time = matches!(&*value, "true" | "1");
                }
                "time" => match epoch(value.as_bytes()) {
                    Ok(EnvelopeTime::At(at)) => read.names.time = Some(at),
                    Ok(_) => {}
                    Err(_) => read.bad_time = true,
                },
                _ => {}
            }
        }
        read
    }
}

/// Reads what a head asks for, from a peer.
pub(super) fn asked(head: &RequestHead<'_>, settings: &HecSettings, peer: IpAddr) -> HeadRequest {
    let answer = |answer| HeadRequest::Answer(ReplyContent::Hec(answer, None));
    let Some(endpoint) = HecEndpoint::of(head.path) else {
        return HeadRequest::Answer(ReplyContent::NotFound);
    };
    let methods = endpoint.methods();
    let good = match head.method {
        "OPTIONS" => return HeadRequest::Answer(ReplyContent::Options(methods)),
        "GET" | "HEAD" => endpoint == HecEndpoint::Health,
        "POST" => endpoint != HecEndpoint::Health,
        _ => false,
    };
    if !good {
        return HeadRequest::Answer(ReplyContent::Method(methods));
    }
    let query = RequestQuery::read(head.query);
    if endpoint == HecEndpoint::Health {
        return match token(head, &query, settings) {
            Err(HecAnswer::InvalidToken) => answer(HecAnswer::HealthInvalidToken),
            Err(HecAnswer::TokenDisabled) => answer(HecAnswer::HealthTokenDisabled),
            _ => HeadRequest::Health,
        };
    }
    let gzip = match head.field("content-encoding").unwrap_or_default() {
        b"" => false,
        coding if coding.eq_ignore_ascii_case(b"identity") => false,
        coding if coding.eq_ignore_ascii_case(b"gzip") => true,
        coding if coding.eq_ignore_ascii_case(b"x-gzip") => true,
        _ => return HeadRequest::Answer(ReplyContent::Encoding),
    };
    if endpoint == HecEndpoint::S2s {
        return HeadRequest::S2s;
    }
    let token = match token(head, &query, settings) {
        Ok(token) => Arc::clone(token),
        Err(fault) => return answer(fault),
    };
    let acked = token.ack != AckRule::Off;
    if endpoint == HecEndpoint::Ack && !acked {
        return answer(HecAnswer::AckDisabled);
    }
    let channel = match acked.then(|| channel(head, &query)).transpose() {
        Ok(channel) => channel,
        Err(fault) => return answer(fault),
    };
    let format = match (endpoint, channel) {
        (HecEndpoint::Ack, Some(channel)) => return HeadRequest::Poll(token, channel, gzip),
        (HecEndpoint::Raw, _) => BodyFormat::Raw,
        _ => BodyFormat::Event,
    };
    if query.bad_time {
        return answer(HecAnswer::InvalidFormat);
    }
    let defaults = defaults(query.names, &token, head, settings, peer);
    if defaults.is_too_long() {
        return answer(HecAnswer::InvalidFormat);
    }
    if !token.allows(&defaults.index) && !defaults.index.is_empty() {
        return answer(HecAnswer::IncorrectIndex);
    }
    HeadRequest::Events(Box::new(EventUpload {
        format,
        gzip,
        token,
        channel,
        defaults,
    }))
}

/// Defaults for the events: of the query first, then of the token.
fn defaults(
    query: EventDefaults,
    token: &HecToken,
    head: &RequestHead<'_>,
    settings: &HecSettings,
    peer: IpAddr,
) -> EventDefaults {
    let or = |one: Vec<u8>, other: &[u8]| match one.is_empty() {
        true => other.to_vec(),
        false => one,
    };
    let host = match token.host {
        _ if !query.host.is_empty() => query.host,
        HostRule::Ip => Vec::new(),
        HostRule::Dns => {
            let dns = settings.dns.as_ref();
            let name = dns.and_then(|dns| dns.get(peer, instant_now()));
            name.map_or_else(Vec::new, |name| name.as_bytes().to_vec())
        }
        HostRule::Header => head.field("host").unwrap_or_default().to_vec(),
        HostRule::Proxied => {
            let believed = settings.proxies.iter().any(|one| one.contains(peer));
            let forwarded = head.field("x-forwarded-for").filter(|_| believed);
            let first = forwarded
                .unwrap_or_default()
                .split(|byte| *byte == b',')
                .next();
            first.unwrap_or_default().trim_ascii().to_vec()
        }
    };
    EventDefaults {
        index: or(query.index, &token.index),
        sourcetype: or(query.sourcetype, &token.sourcetype),
        source: or(query.source, &token.source),
        host,
        time: query.time,
        extracts_time: query.extracts_time && query.time.is_none(),
    }
}

/// The channel of a request; one in the query counts where the head has none.
fn channel(head: &RequestHead<'_>, query: &RequestQuery<'_>) -> Result<ChannelId, HecAnswer> {
    let field = head.field("x-splunk-request-channel");
    let text = field.or(query.channel.as_ref().map(|text| text.as_bytes()));
    let text = text.ok_or(HecAnswer::ChannelMissing)?;
    ChannelId::parse(text).ok_or(HecAnswer::InvalidChannel)
}

/// The text of the channel that a request names, whether or not its token has any; `None` if it is
/// no GUID.
pub(super) fn channel_of(head: &RequestHead<'_>) -> Option<String> {
    let query = RequestQuery::read(head.query);
    let field = head.field("x-splunk-request-channel");
    let text = field.or(query.channel.as_ref().map(|text| text.as_bytes()))?;
    ChannelId::parse(text)?;
    String::from_utf8(text.to_vec()).ok()
}

/// The token of a request. One in the query wins over one in the head, as at Splunk.
fn token<'s>(
    head: &RequestHead<'_>,
    query: &RequestQuery<'_>,
    settings: &'s HecSettings,
) -> Result<&'s Arc<HecToken>, HecAnswer> {
    let text = token_text(head, query)?;
    let token = settings.tokens.find(&text);
    match token.ok_or(HecAnswer::InvalidToken)? {
        token if token.disabled => Err(HecAnswer::TokenDisabled),
        token if query.token.is_some() && !token.query_string_auth => {
            Err(HecAnswer::QueryTokenDisabled)
        }
        token => Ok(token),
    }
}

/// Counts of the token that a request names, which it may not use: to count how it was answered.
pub(super) fn counts_of(
    head: &RequestHead<'_>,
    settings: &HecSettings,
) -> Option<Arc<TokenCounts>> {
    let query = RequestQuery::read(head.query);
    let text = token_text(head, &query).ok()?;
    let token = settings.tokens.find(&text)?;
    Some(Arc::clone(&token.counts))
}

/// The text that a request has as its token.
fn token_text<'t>(
    head: &'t RequestHead<'_>,
    query: &'t RequestQuery<'_>,
) -> Result<Cow<'t, [u8]>, HecAnswer> {
    if let Some(text) = &query.token {
        return Ok(text.as_bytes().into());
    }
    let field = head
        .field("authorization")
        .ok_or(HecAnswer::TokenRequired)?;
    let split = field.iter().position(|byte| *byte == b' ');
    let (scheme, rest) = field.split_at(split.ok_or(HecAnswer::InvalidAuthorization)?);
    let rest = rest.trim_ascii();
    if rest.is_empty() {
        return Err(HecAnswer::InvalidAuthorization);
    }
    if scheme.eq_ignore_ascii_case(b"splunk") {
        return Ok(rest.into());
    }
    if scheme.eq_ignore_ascii_case(b"basic") {
        let password = password(rest).ok_or(HecAnswer::InvalidAuthorization)?;
        return Ok(password.into());
    }
    Err(HecAnswer::InvalidAuthorization)
}

/// The password of Basic credentials (RFC 7617 section 2).
fn password(credentials: &[u8]) -> Option<Vec<u8>> {
    use base64::Engine as _;
    let decoded = base64::engine::general_purpose::STANDARD
        .decode(credentials)
        .ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some(decoded[colon + 1..].to_vec())
}
