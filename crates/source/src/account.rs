//! Accounts of tokens: what came with each, and how it was answered.

use std::collections::BTreeMap;
use std::net::IpAddr;

use inrush_event::HistogramSnapshot;
use serde::Serialize;

/// Account of a token, since the start of the process.
#[derive(Clone, Debug, Serialize)]
pub struct TokenAccount {
    /// Name of the token, never its text.
    pub name: String,
    /// True if it is switched off.
    pub disabled: bool,
    /// Events taken.
    pub events: u64,
    /// Bytes of their texts.
    pub bytes: u64,
    /// Requests that were answered.
    pub requests: u64,
    /// Answers by code; by HTTP status where an answer has no code.
    pub answers: BTreeMap<u16, u64>,
    /// Time of the last request, in milliseconds since 1970; `None` before the first.
    pub last_seen_ms: Option<i64>,
    /// Times from an event to its receipt, of events whose envelope or query has a time.
    pub lag: HistogramSnapshot,
    /// Senders with most events, at most 16, those with most first.
    pub senders: Vec<SenderShare>,
}

impl TokenAccount {
    /// The account of requests whose token nobody knows, or that need none: answers alone.
    pub(crate) fn of_nobody(answers: BTreeMap<u16, u64>) -> Self {
        Self {
            name: String::new(),
            disabled: false,
            events: 0,
            bytes: 0,
            requests: answers.values().sum(),
            answers,
            last_seen_ms: None,
            lag: HistogramSnapshot::default(),
            senders: Vec::new(),
        }
    }
}

/// Share of a sender in the events of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SenderShare {
    /// Its address, behind any PROXY header.
    pub ip: IpAddr,
    /// Its events since it came, or came back after others took its place.
    pub events: u64,
    /// Its requests, in the same way.
    pub requests: u64,
}
