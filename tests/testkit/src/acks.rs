//! Acknowledgement of requests, as Splunk does it for a token that has it.

use std::collections::HashMap;

use serde_json::{Value, json};

/// Decision on the request of an `ackId`, by the number of questions so far and the id.
type Confirm = Box<dyn Fn(u64, u64) -> bool + Send + Sync>;

/// The `ackId`s that were given, and the answers about them.
pub(crate) struct Acks {
    /// By server and channel: the next `ackId`.
    next: HashMap<(usize, String), u64>,
    /// Questions so far.
    asked: u64,
    confirm: Confirm,
}

impl Acks {
    pub(crate) fn new(confirm: impl Fn(u64) -> bool + Send + Sync + 'static) -> Self {
        Self {
            next: HashMap::new(),
            asked: 0,
            confirm: Box::new(move |_, id| confirm(id)),
        }
    }

    /// Confirms everything from the `n`th further question on.
    pub(crate) fn confirm_after(&mut self, n: u64) {
        let from = self.asked + n;
        self.confirm = Box::new(move |asked, _| asked >= from);
    }

    pub(crate) fn asked(&self) -> u64 {
        self.asked
    }

    /// The next `ackId` of a channel.
    pub(crate) fn give(&mut self, backend: usize, channel: &str) -> u64 {
        let next = self.next.entry((backend, channel.to_owned())).or_default();
        *next += 1;
        *next - 1
    }

    /// The answer to a question; ids of another server or channel are false.
    pub(crate) fn answer(&mut self, backend: usize, channel: &str, question: &[u8]) -> Value {
        let question: Value = serde_json::from_slice(question).unwrap();
        self.asked += 1;
        let given = self.next.get(&(backend, channel.to_owned()));
        let given = given.copied().unwrap_or(0);
        let confirmed = |id| id < given && (self.confirm)(self.asked, id);
        let ids = question["acks"].as_array().unwrap().iter();
        let answers: serde_json::Map<String, Value> = ids
            .map(|id| id.as_u64().unwrap())
            .map(|id| (id.to_string(), confirmed(id).into()))
            .collect();
        json!({ "acks": answers })
    }
}
