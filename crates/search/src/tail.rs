//! Following what comes in: every chunk that becomes searchable is searched by itself.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use inrush_query as query;
use inrush_store::reply::{SearchError, SearchProgress, SearchReply, SearchSummary};
use inrush_store::snapshot::Snapshot;
use inrush_store::{Follower, Store};
use tokio::sync::OwnedSemaphorePermit;

use crate::answer::{ReplySender, SearchAnswer};
use crate::engine::Engine;
use crate::request::SearchRequest;

/// Longest silence: after it, whoever listens is told that somebody is there.
const QUIET_MAX: Duration = Duration::from_secs(1);

/// Events that are shown of what comes at once; nobody reads more.
const AT_ONCE: u64 = 500;

/// One who follows.
struct TailSearch {
    engine: Arc<Engine>,
    store: Arc<Store>,
    follower: Arc<Follower>,
    query: String,
    replies: ReplySender,
    _permit: OwnedSemaphorePermit,
}

/// Every event from now on that meets a query, the oldest first. An [`SearchReply::End`] says how
/// many were left out, because too many came at once or its reader was too slow.
///
/// # Errors
/// The query cannot be read or has functions; too many follow already; or there are no threads.
pub fn tail(
    engine: &Arc<Engine>,
    store: &Arc<Store>,
    query: &str,
) -> Result<SearchAnswer, SearchError> {
    let parsed = query::parse(query)?;
    let message = |text: &str| SearchError {
        message: text.to_owned(),
        ..SearchError::default()
    };
    if !parsed.stages.is_empty() {
        return Err(message(
            "what comes in can be filtered, not counted: leave out what follows |",
        ));
    }
    let permit = engine
        .follower()
        .ok_or_else(|| message("too many follow already"))?;
    let (replies, answer) = SearchAnswer::new();
    let tail = TailSearch {
        engine: Arc::clone(engine),
        store: Arc::clone(store),
        follower: store.follow(),
        query: query.to_owned(),
        replies,
        _permit: permit,
    };
    let spawned = std::thread::Builder::new()
        .name("search-tail".into())
        .spawn(move || tail.run());
    spawned.map_err(|error: io::Error| message(&format!("no thread: {error}")))?;
    Ok(answer)
}

impl TailSearch {
    fn run(self) {
        while self.step().is_some() {}
    }

    /// Shows what came; `None` once nobody listens.
    fn step(&self) -> Option<()> {
        let (chunks, mut left_out) = self.follower.next(QUIET_MAX);
        if chunks.is_empty() && left_out == 0 {
            return self.say(SearchReply::Progress(SearchProgress::default()));
        }
        let snapshot = Snapshot {
            storage: self.store.home().storage(),
            files: Arc::new([]),
            tail: chunks.into(),
            far: Arc::new([]),
        };
        let request = SearchRequest {
            limit: Some(AT_ONCE),
            buckets: 0,
            fields: false,
            ..SearchRequest::new(&self.query)
        };
        // It was read before: nothing about it can be wrong.
        let mut answer = self.engine.search(snapshot, request).ok()?;
        let mut events = Vec::new();
        while let Some(reply) = answer.next_blocking() {
            match reply {
                SearchReply::Event(event) => events.push(event),
                SearchReply::End(end) => {
                    left_out += end.matched.saturating_sub(events.len() as u64);
                }
                SearchReply::Error(failure) => return self.say(SearchReply::Error(failure)),
                _ => {}
            }
        }
        for event in events.into_iter().rev() {
            self.say(SearchReply::Event(event))?;
        }
        if left_out > 0 {
            self.say(SearchReply::End(SearchSummary {
                matched: left_out,
                ..SearchSummary::default()
            }))?;
        }
        Some(())
    }

    fn say(&self, reply: SearchReply) -> Option<()> {
        self.replies.blocking_send(reply).ok()
    }
}
