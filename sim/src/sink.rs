//! A destination as it is: slow, moody, and not always honest.

use inrush_event::{Delivery, DestinationQueue};

/// A destination that is configured.
pub(crate) struct VirtualSink {
    pub(crate) name: String,
    /// Deliveries that it was handed and has not answered, oldest first.
    pub(crate) hand: Vec<Delivery>,
    /// The limits of its backlog.
    pub(crate) queue: DestinationQueue,
    /// Steps that it stays silent.
    pub(crate) silent: u32,
}

/// Answer of a sink to a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SinkAnswer {
    /// Takes all of it and says so.
    Take,
    /// Takes the first part and says so; answers the rest later.
    TakeFirst,
    /// Takes the first part, and asks for the rest to come again.
    TakeFirstOnly,
    /// Refuses one event for good, takes the others.
    RefuseOne,
    /// Takes nothing: later.
    Later,
    /// Takes all, and then nobody hears its answer, or it is a lie.
    TakeAndFail,
    /// Ends; some of what it was handed it took.
    Die,
}

impl VirtualSink {
    pub(crate) fn new(name: &str, queue: DestinationQueue) -> Self {
        Self {
            name: name.to_owned(),
            hand: Vec::new(),
            queue,
            silent: 0,
        }
    }
}

impl SinkAnswer {
    /// One of all answers; `trouble` in a hundred are not [`SinkAnswer::Take`].
    pub(crate) fn choose(rng: &mut fastrand::Rng, trouble: u8) -> Self {
        if rng.u8(..100) >= trouble {
            return Self::Take;
        }
        match rng.u8(..16) {
            0..3 => Self::TakeFirst,
            3..6 => Self::TakeFirstOnly,
            6..9 => Self::RefuseOne,
            9..12 => Self::Later,
            12..15 => Self::TakeAndFail,
            _ => Self::Die,
        }
    }
}
