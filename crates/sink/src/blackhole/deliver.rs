//! Takes every batch and settles it at once.

use std::sync::Arc;

use inrush_event::{Fate, Feed, FeedNext};

use crate::{IDLE_WAIT, Sink, SinkStatus};

/// The sink that forgets.
pub struct BlackholeSink {
    status: Arc<SinkStatus>,
}

impl BlackholeSink {
    pub(crate) fn new(status: Arc<SinkStatus>) -> Self {
        Self { status }
    }
}

impl Sink for BlackholeSink {
    fn run(self: Box<Self>, feed: Arc<dyn Feed>) {
        loop {
            match feed.next(IDLE_WAIT) {
                FeedNext::Batch(delivery) => {
                    self.status.attempted();
                    feed.settle(delivery.position, delivery.events, Fate::Delivered);
                    self.status.succeeded(0);
                }
                FeedNext::Idle if feed.stopping() => return,
                FeedNext::Idle => {}
                FeedNext::Closed => return,
            }
        }
    }
}
