//! Settings that the connections of a collector share, and a reload can change.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inrush_codec::SyslogOptions;
use inrush_codec::hec::HecAnswer;
use inrush_event::{Histogram, Network, Protocol, instant_now};
use inrush_ingest::batch_writer::acks::AckTarget;
use inrush_ingest::hostname::{ReverseDns, ReverseNames};
use inrush_queue::Log;
use inrush_stream::{ConnectionDecoder, ConnectionDecoders};

use super::acks::{AckLimits, AckTable};
use super::connection::HecConnection;
use super::cors::CorsOptions;
use super::counts::{AnswerCounts, TokenCounts};
use super::options::{BusyAnswer, HostRule, SplunkHecSource};
use super::reply::ReplyContent;
use super::tokens::TokenTable;

/// A fault of a peer is logged at most once in this time.
const NOTED_EVERY: Duration = Duration::from_secs(60);

/// Faults logged within that time, at most.
const NOTED_MAX: usize = 64;

/// Settings of a collector.
#[derive(Debug)]
pub(super) struct HecSettings {
    /// Tokens of those who may send.
    pub(super) tokens: TokenTable,
    /// Bytes of a body, at most.
    pub(super) content_bytes_max: u64,
    /// Bytes of an event, at most.
    pub(super) event_bytes_max: usize,
    /// Times that a compressed body may grow.
    pub(super) ratio_max: u64,
    /// Time that a request waits for room.
    pub(super) busy_after: Duration,
    /// Answer when there is none.
    pub(super) busy: HecAnswer,
    /// Answer when there is no room for an acknowledgement.
    pub(super) busy_acks: HecAnswer,
    /// Bounds of acknowledgements.
    pub(super) ack_limits: AckLimits,
    /// Cookie that has the channel of a request, if there is to be one.
    pub(super) channel_cookie: Option<String>,
    /// Pages whose scripts may send.
    pub(super) cors: CorsOptions,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub(super) proxies: Vec<Network>,
    /// Names of senders, if a token has them as hosts.
    pub(super) dns: Option<Arc<ReverseDns>>,
}

impl HecSettings {
    /// The settings by these options. The tokens of `before` go on counting. `names` are asked for
    /// senders; without them none is looked up.
    ///
    /// # Errors
    /// In words.
    pub(super) fn new(
        options: &SplunkHecSource,
        data_dir: &Path,
        before: Option<&Self>,
        names: Option<&ReverseNames>,
    ) -> Result<Self, String> {
        let known = before.map(|before| &before.tokens);
        let wanted = options
            .tokens
            .iter()
            .any(|token| token.host == HostRule::Dns);
        let dns = names.filter(|_| wanted).map(ReverseNames::open).transpose();
        Ok(Self {
            tokens: TokenTable::new(&options.tokens, data_dir, known)?,
            content_bytes_max: options.max_content_length.0,
            event_bytes_max: usize::try_from(options.max_event_bytes.0).unwrap_or(usize::MAX),
            ratio_max: u64::from(options.max_compression_ratio),
            busy_after: options.busy_after.0,
            busy: match options.busy {
                BusyAnswer::ServiceUnavailable => HecAnswer::Busy,
                BusyAnswer::TooManyRequests => HecAnswer::QueueAtCapacity,
            },
            busy_acks: match options.busy {
                BusyAnswer::ServiceUnavailable => HecAnswer::Busy,
                BusyAnswer::TooManyRequests => HecAnswer::AckAtCapacity,
            },
            ack_limits: AckLimits {
                channels: options.max_ack_channels.get() as usize,
                numbers: options.max_pending_acks.get() as usize,
            },
            channel_cookie: options.channel_cookie.clone(),
            cors: options.cors.clone().unwrap_or_default(),
            proxies: options.stream.trusted_proxies.clone().unwrap_or_default(),
            dns: dns.map_err(|error| format!("hosts: names cannot be looked up: {error}"))?,
        })
    }
}

impl SplunkHecSource {
    /// Options by which headers of texts are read, and times compared.
    pub fn header_options(&self) -> SyslogOptions {
        SyslogOptions {
            max_time_skew: self.max_time_skew,
            ..SyslogOptions::default()
        }
    }
}

/// A misconfiguration of a peer, which is logged.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PeerFault {
    /// Its token is unknown.
    UnknownToken,
    /// It is a forwarder that speaks Splunk's own protocol over HTTP.
    S2s,
}

/// A collector as its connections share it.
pub(super) struct HecShared {
    /// Name of the source.
    pub(super) name: String,
    /// Queue whose room decides whether a request is taken.
    pub(super) log: Arc<Log>,
    /// Set once the process stops: no more requests are taken.
    pub(super) stopping: AtomicBool,
    /// Set while the queue's disk fails and has done so for `busy_after`.
    pub(super) disk_fails: AtomicBool,
    /// Acknowledgements by channel.
    pub(super) acks: AckTable,
    /// Times of requests from their first byte until their answer.
    pub(super) request_times: Histogram,
    /// Answers to requests whose token nobody knows, or that need none.
    pub(super) nameless: AnswerCounts,
    settings: Mutex<Arc<HecSettings>>,
    /// Faults of peers that were logged, and the time of the last line.
    noted: Mutex<HashMap<(IpAddr, PeerFault), Instant>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HecShared {
    pub(super) fn new(name: &str, log: &Arc<Log>, settings: HecSettings) -> Self {
        Self {
            name: name.to_owned(),
            log: Arc::clone(log),
            stopping: AtomicBool::new(false),
            disk_fails: AtomicBool::new(false),
            acks: AckTable::default(),
            request_times: Histogram::default(),
            nameless: AnswerCounts::default(),
            settings: Mutex::new(Arc::new(settings)),
            noted: Mutex::default(),
        }
    }

    /// Counts an answer to a request that began at `begun`, with the counts of its token.
    pub(super) fn answered(
        &self,
        counts: Option<&TokenCounts>,
        content: &ReplyContent,
        begun: Instant,
    ) {
        let took = i64::try_from(begun.elapsed().as_nanos());
        self.request_times.observe(took.unwrap_or(i64::MAX));
        let answers = counts.map_or(&self.nameless, |counts| &counts.answers);
        answers.note(content);
    }

    /// Logs a peer's misconfiguration once a minute: the peer needs no token to repeat it.
    pub(super) fn note_fault(&self, peer: IpAddr, fault: PeerFault) {
        let now = instant_now();
        let mut noted = lock(&self.noted);
        noted.retain(|_, last| now.saturating_duration_since(*last) < NOTED_EVERY);
        if noted.contains_key(&(peer, fault)) || noted.len() >= NOTED_MAX {
            return;
        }
        noted.insert((peer, fault), now);
        drop(noted);
        let source = &self.name;
        match fault {
            PeerFault::UnknownToken => {
                tracing::warn!(source, %peer, "requests with a token that nobody knows");
            }
            PeerFault::S2s => tracing::warn!(
                source,
                %peer,
                "a Splunk forwarder asks for S2S, which only Splunk speaks: see the guide \
                 docs/guides/hec-server.md"
            ),
        }
    }

    /// Looks after what time changes, once a second.
    pub(super) fn tick(&self) {
        self.acks.tidy(instant_now());
        self.look_at_disk();
    }

    /// The settings now.
    pub(super) fn settings(&self) -> Arc<HecSettings> {
        Arc::clone(&lock(&self.settings))
    }

    /// Replaces the settings: they hold from the next request on.
    pub(super) fn replace(&self, settings: HecSettings) {
        *lock(&self.settings) = Arc::new(settings);
    }
}

/// Makes the decoders of a collector's connections.
pub(super) struct HecDecoders(pub(super) Arc<HecShared>);

impl ConnectionDecoders for HecDecoders {
    fn decoder(&self, _: Protocol, id: AckTarget) -> ConnectionDecoder {
        let connection = HecConnection::new(Arc::clone(&self.0), id);
        ConnectionDecoder::Answering(Box::new(connection))
    }
}
