//! Tokens: who may send, and what holds for the events that come with each.
//!
//! # What it guarantees
//! * How long a look-up takes says nothing of the tokens: they are found by a keyed digest.
//! * What is counted of a token goes on over a reload, by its name. Tokens of the same name are
//!   counted together: such as the old and the new one while clients change over.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use inrush_event::{Secret, instant_now};
use inrush_files::Access;
use regex::bytes::Regex;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::counts::TokenCounts;
use super::options::{AckRule, HostRule, TokenOptions, check_token};
use crate::TokenAccount;

/// A token.
pub(super) struct HecToken {
    /// Name in metrics.
    pub(super) name: String,
    /// True if it is switched off.
    pub(super) disabled: bool,
    /// Index of its events that name none; empty: that of the source.
    pub(super) index: Vec<u8>,
    /// Indexes that its events may name; empty: any.
    indexes: Vec<Vec<u8>>,
    /// Sourcetype of its events that name none; empty: that of the source.
    pub(super) sourcetype: Vec<u8>,
    /// Source of its events that name none.
    pub(super) source: Vec<u8>,
    /// Host of its events that name none.
    pub(super) host: HostRule,
    /// Rule of its acknowledgements.
    pub(super) ack: AckRule,
    /// True if it may stand in a query.
    pub(super) query_string_auth: bool,
    /// True if packs are asked about its events.
    pub(super) packs: bool,
    /// Product that sends lines, as `vendor/product`, if packs are told one.
    product: Option<String>,
    /// Rule for the first line of an event of the raw endpoint; `None`: each line is an event.
    pub(super) first_line: Option<Regex>,
    /// Bound of its bytes.
    pub(super) rate: RateLimit,
    /// Counts.
    pub(super) counts: Arc<TokenCounts>,
}

impl HecToken {
    /// True if its events may go to an index that they name.
    pub(super) fn allows(&self, index: &[u8]) -> bool {
        self.indexes.is_empty() || self.indexes.iter().any(|one| one == index)
    }

    /// Vendor and product that packs are told of its lines.
    pub(super) fn product(&self) -> Option<(&str, &str)> {
        self.product.as_ref()?.split_once('/')
    }

    fn account(&self) -> TokenAccount {
        let counts = &self.counts;
        let (answers, last_seen) = (counts.answers.list(), counts.last_seen.get());
        TokenAccount {
            name: self.name.clone(),
            disabled: self.disabled,
            events: counts.events.get(),
            bytes: counts.bytes.get(),
            requests: answers.values().sum(),
            answers,
            last_seen_ms: (last_seen > 0).then_some(last_seen as i64 / 1_000_000),
            lag: counts.lag.snapshot(),
            senders: counts.senders.list(),
        }
    }
}

/// Bound of the bytes of a token: a bucket of one second.
pub(super) struct RateLimit {
    /// Bytes a second; `None`: no bound.
    rate: Option<f64>,
    /// Time of the last look, and the bytes that may still come. A body goes beyond by itself.
    left: Mutex<(Instant, f64)>,
}

impl RateLimit {
    fn new(bytes_a_second: Option<u64>) -> Self {
        let rate = bytes_a_second.map(|bytes| bytes as f64);
        Self {
            rate,
            left: Mutex::new((instant_now(), rate.unwrap_or_default())),
        }
    }

    /// True if a request may come at `now`.
    pub(super) fn admits(&self, now: Instant) -> bool {
        let Some(rate) = self.rate else { return true };
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, bytes) = *left;
        let earned = now.saturating_duration_since(before).as_secs_f64() * rate;
        *left = (now, (bytes + earned).min(rate));
        left.1 > 0.0
    }

    /// Takes off the bytes that came.
    pub(super) fn charge(&self, bytes: usize) {
        if self.rate.is_some() {
            self.left.lock().unwrap_or_else(PoisonError::into_inner).1 -= bytes as f64;
        }
    }
}

/// The text of a token, from its file if it has one.
fn secret(token: &TokenOptions, data_dir: &Path) -> Result<Secret, String> {
    if let Some(secret) = &token.token {
        return Ok(secret.clone());
    }
    let path = data_dir.join(
        token
            .token_file
            .as_deref()
            .unwrap_or(Path::new("hec-token")),
    );
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    match inrush_files::read_to_string(&path, FILE_BYTES_MAX) {
        Ok(text) => {
            let text = text.lines().next().unwrap_or_default().trim();
            check_token(text).map_err(|words| format!("{}: {words}", path.display()))?;
            Ok(Secret::new(text))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = make()?;
            let mut file = inrush_files::create(&path, &Access::PRIVATE).map_err(failed)?;
            file.write_all(format!("{text}\n").as_bytes())
                .map_err(failed)?;
            file.sync_all().map_err(failed)?;
            tracing::warn!(
                file = %path.display(),
                "a token was made for the HTTP Event Collector, and is shown only now: {text}"
            );
            Ok(Secret::new(text))
        }
        Err(error) => Err(failed(error)),
    }
}

/// A new token: a random UUID (RFC 9562 section 5.4).
fn make() -> Result<String, String> {
    let mut bytes = [0; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| NO_RANDOM.to_owned())?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    Ok(parts.join("-"))
}

/// Bytes of the file of a token, at most.
const FILE_BYTES_MAX: u64 = 4096;

const NO_RANDOM: &str = "the system has no random numbers";

/// Digest by which a token is found.
type TokenDigest = [u8; 32];

/// The tokens of a source.
pub(super) struct TokenTable {
    key: hmac::Key,
    tokens: HashMap<TokenDigest, Arc<HecToken>>,
}

impl fmt::Debug for TokenTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens", self.tokens.len())
    }
}

impl TokenTable {
    /// The tokens of these options. Those of `before` go on counting.
    ///
    /// # Errors
    /// In words: the system has no random numbers, or the file of a token cannot be used.
    pub(super) fn new(
        options: &[TokenOptions],
        data_dir: &Path,
        before: Option<&Self>,
    ) -> Result<Self, String> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| NO_RANDOM.to_owned())?;
        let mut table = Self {
            key,
            tokens: HashMap::new(),
        };
        for (at, one) in options.iter().enumerate() {
            let name = one.name.clone().unwrap_or_else(|| format!("tokens[{at}]"));
            let bytes = |text: &Option<String>| text.clone().unwrap_or_default().into_bytes();
            let source = one.source.clone().unwrap_or_else(|| format!("http:{name}"));
            let known = table.named(&name);
            let known = known.or_else(|| before?.named(&name));
            let token = HecToken {
                counts: known.map_or_else(Arc::default, |known| Arc::clone(&known.counts)),
                name,
                disabled: one.disabled,
                index: bytes(&one.index),
                indexes: one
                    .indexes
                    .iter()
                    .map(|one| one.clone().into_bytes())
                    .collect(),
                sourcetype: bytes(&one.sourcetype),
                source: source.into_bytes(),
                host: one.host,
                ack: one.ack,
                query_string_auth: one.query_string_auth,
                packs: one.packs,
                product: one.raw.product.clone(),
                first_line: one.raw.first_line()?,
                rate: RateLimit::new(one.rate.map(|rate| rate.0)),
            };
            let secret = secret(one, data_dir)?;
            let digest = table.digest(secret.expose().as_bytes());
            table.tokens.insert(digest, Arc::new(token));
        }
        Ok(table)
    }

    fn digest(&self, token: &[u8]) -> TokenDigest {
        let tag = hmac::sign(&self.key, token);
        tag.as_ref().try_into().unwrap_or_default()
    }

    /// The token of that text.
    pub(super) fn find(&self, text: &[u8]) -> Option<&Arc<HecToken>> {
        self.tokens.get(&self.digest(text))
    }

    fn named(&self, name: &str) -> Option<&Arc<HecToken>> {
        self.tokens.values().find(|token| token.name == name)
    }

    /// Accounts of all tokens, one for each name.
    pub(super) fn accounts(&self) -> Vec<TokenAccount> {
        let mut tokens: Vec<_> = self.tokens.values().collect();
        // Of the same name, one that is in use.
        tokens.sort_by_key(|one| (&one.name, one.disabled));
        tokens.dedup_by_key(|one| &one.name);
        tokens.into_iter().map(|one| one.account()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bound_lets_a_second_of_bytes_through_and_what_comes_later() {
        let limit = RateLimit::new(Some(1000));
        let now = Instant::now();
        assert!(limit.admits(now));
        limit.charge(1500);
        assert!(!limit.admits(now) && !limit.admits(now + Duration::from_millis(400)));
        assert!(limit.admits(now + Duration::from_millis(600)));
        assert!(RateLimit::new(None).admits(now));
    }
}
