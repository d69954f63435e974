//! An answer, as it comes.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use inrush_store::reply::Reply;
use tokio::sync::mpsc;

/// What is found and not yet taken: a search waits while so many lie here.
const WAITING_MAX: usize = 256;

/// What a search finds, as it finds it. Dropped, it ends the search.
#[derive(Debug)]
pub struct Answer {
    replies: mpsc::Receiver<Reply>,
}

/// Where a search puts what it finds.
pub(crate) type Replies = mpsc::Sender<Reply>;

impl Answer {
    pub(crate) fn new() -> (Replies, Self) {
        let (sender, replies) = mpsc::channel(WAITING_MAX);
        (sender, Self { replies })
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
