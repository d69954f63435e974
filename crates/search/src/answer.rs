//! An answer, as it comes.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use inrush_store::reply::{Failure, Reply};
use tokio::sync::mpsc;

/// Replies that are found and not yet taken, at most: a search waits while so many lie here.
const WAITING_MAX: usize = 256;

/// Replies of a search, as it finds them. Dropped, it ends the search.
#[derive(Debug)]
pub struct Answer {
    replies: mpsc::Receiver<Reply>,
}

/// Sender of a search's replies.
pub(crate) type Replies = mpsc::Sender<Reply>;

impl Answer {
    pub(crate) fn new() -> (Replies, Self) {
        let (sender, replies) = mpsc::channel(WAITING_MAX);
        (sender, Self { replies })
    }

    /// An answer that is an error.
    pub(crate) fn failed(failure: Failure) -> Self {
        let (sender, answer) = Self::new();
        // There is room for one.
        let _ = sender.try_send(Reply::Error(failure));
        answer
    }

    /// The next object, and whether another one is there already. For threads that may block.
    pub(crate) fn next_and_more(&mut self) -> Option<(Reply, bool)> {
        let reply = self.replies.blocking_recv()?;
        Some((reply, !self.replies.is_empty()))
    }

    /// The next object; none after the last.
    pub async fn next(&mut self) -> Option<Reply> {
        self.replies.recv().await
    }

    /// The same for threads that may block.
    ///
    /// # Panics
    /// Within an asynchronous runtime.
    pub fn next_blocking(&mut self) -> Option<Reply> {
        self.replies.blocking_recv()
    }
}

impl Stream for Answer {
    type Item = Reply;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Reply>> {
        self.replies.poll_recv(context)
    }
}
