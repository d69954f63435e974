//! Settings that the connections of a collector share, and a reload can change.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inrush_codec::hec::HecAnswer;
use inrush_event::{Network, Protocol};
use inrush_ingest::batch_writer::acks::AckTarget;
use inrush_queue::Log;

use super::acks::AckTable;
use super::connection::HecConnection;
use super::cors::CorsOptions;
use super::options::{BusyAnswer, SplunkHecSource};
use super::tokens::TokenTable;
use crate::stream::{ConnectionDecoder, ConnectionDecoders};

/// A peer with a wrong token is in the log so often.
const WRONG_EVERY: Duration = Duration::from_secs(60);

/// Peers with a wrong token in the log within that time, at most.
const WRONG_MAX: usize = 64;

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
    /// Pages whose scripts may send.
    pub(super) cors: CorsOptions,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub(super) proxies: Vec<Network>,
}

impl HecSettings {
    /// The settings by these options. The tokens of `before` go on counting.
    ///
    /// # Errors
    /// In words.
    pub(super) fn new(
        options: &SplunkHecSource,
        data_dir: &Path,
        before: Option<&Self>,
    ) -> Result<Self, String> {
        let known = before.map(|before| &before.tokens);
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
            cors: options.cors.clone().unwrap_or_default(),
            proxies: options.stream.trusted_proxies.clone().unwrap_or_default(),
        })
    }
}

/// A collector as its connections share it.
pub(super) struct HecShared {
    /// Name of the source.
    pub(super) name: String,
    /// Queue whose room decides whether a request is taken.
    pub(super) log: Arc<Log>,
    /// Set once the process stops: no more requests are taken.
    pub(super) stopping: AtomicBool,
    /// Acknowledgements by channel.
    pub(super) acks: AckTable,
    settings: Mutex<Arc<HecSettings>>,
    /// Peers with a wrong token that the log has, and when it last had them.
    wrong: Mutex<HashMap<IpAddr, Instant>>,
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
            acks: AckTable::default(),
            settings: Mutex::new(Arc::new(settings)),
            wrong: Mutex::default(),
        }
    }

    /// Says in the log that a peer has a token that nobody knows: once a minute, and never which.
    pub(super) fn note_wrong_token(&self, peer: IpAddr) {
        let now = Instant::now();
        let mut wrong = lock(&self.wrong);
        wrong.retain(|_, last| now.saturating_duration_since(*last) < WRONG_EVERY);
        if wrong.contains_key(&peer) || wrong.len() >= WRONG_MAX {
            return;
        }
        wrong.insert(peer, now);
        drop(wrong);
        tracing::warn!(source = self.name, %peer, "requests with a token that nobody knows");
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
