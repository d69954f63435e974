//! An answer, as it comes.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use inrush_store::reply::{SearchError, SearchReply};
use tokio::sync::mpsc;

/// Replies that are found and not yet taken, at most: a search waits while so many lie here.
const WAITING_MAX: usize = 256;

/// Replies of a search, as it finds them. Dropped, it ends the search.
#[derive(Debug)]
pub struct SearchAnswer {
    replies: mpsc::Receiver<SearchReply>,
}

/// Sender of a search's replies.
pub(crate) type ReplySender = mpsc::Sender<SearchReply>;

impl SearchAnswer {
    pub(crate) fn new() -> (ReplySender, Self) {
        let (sender, replies) = mpsc::channel(WAITING_MAX);
        (sender, Self { replies })
    }

    /// An answer that is an error.
    pub(crate) fn failed(failure: SearchError) -> Self {
        let (sender, answer) = Self::new();
        // There is room for one.
        let _ = sender.try_send(SearchReply::Error(failure));
        answer
    }

    /// The next object, and whether another one is there already. For threads that may block.
    pub(crate) fn next_and_more(&mut self) -> Option<(SearchReply, bool)> {
        let reply = self.replies.blocking_recv()?;
        Some((reply, !self.replies.is_empty()))
    }

    /// The next object; none after the last.
    pub async fn next(&mut self) -> Option<SearchReply> {
        self.replies.recv().await
    }

    /// The same for threads that may block.
    ///
    /// # Panics
    /// Within an asynchronous runtime.
    pub fn next_blocking(&mut self) -> Option<SearchReply> {
        self.replies.blocking_recv()
    }
}

impl Stream for SearchAnswer {
    type Item = SearchReply;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<SearchReply>> {
        self.replies.poll_recv(context)
    }
}
