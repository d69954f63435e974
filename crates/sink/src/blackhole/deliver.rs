//! Takes every batch and settles it at once.

use std::sync::Arc;

use inrush_event::{Fate, Feed, Next};

use crate::{IDLE_WAIT, Sink, SinkStatus};

/// The sink that forgets.
pub struct Blackhole {
    status: Arc<SinkStatus>,
}

impl Blackhole {
    pub(crate) fn new(status: Arc<SinkStatus>) -> Self {
        Self { status }
    }
}

impl Sink for Blackhole {
    fn run(self: Box<Self>, feed: Arc<dyn Feed>) {
        loop {
            match feed.next(IDLE_WAIT) {
                Next::Batch(delivery) => {
                    self.status.attempted();
                    feed.settle(delivery.position, delivery.events, Fate::Delivered);
                    self.status.succeeded(0);
                }
                Next::Idle if feed.stopping() => return,
                Next::Idle => {}
                Next::Closed => return,
            }
        }
    }
}
