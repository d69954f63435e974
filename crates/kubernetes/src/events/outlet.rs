//! Way of events from the thread that watches to the one that takes them.
//!
//! # What it guarantees
//! * Memory is bounded: who watches waits while [`OUTLET_EVENTS_MAX`] events or
//!   [`OUTLET_BYTES_MAX`] bytes are not taken. The API is not read meanwhile.
//! * An event is taken only while the term of the lead lasts in which it came. Others are dropped:
//!   the process that leads now reads them too.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::object::ClusterEvent;

/// Events that wait to be taken, at most.
const OUTLET_EVENTS_MAX: usize = 1024;
/// Bytes of these events, at most, beside one of any size.
const OUTLET_BYTES_MAX: usize = 8 << 20;
/// Time between two looks at the lead while there is no room.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Item of the feed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventItem {
    /// An event, and the place behind it.
    Event(Box<ClusterEvent>, u64),
    /// A place: nothing happened up to it.
    Place(u64),
}

impl EventItem {
    fn bytes(&self) -> usize {
        match self {
            Self::Event(event, _) => event.text.len() + event.fields.len(),
            Self::Place(_) => 0,
        }
    }

    fn place(&self) -> u64 {
        match self {
            Self::Event(_, place) | Self::Place(place) => *place,
        }
    }
}

/// Term of the lead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LeadTerm {
    pub(super) number: u64,
    /// Place at which it begins; 0: none.
    pub(super) place: u64,
}

#[derive(Default)]
struct OutletState {
    items: VecDeque<(u64, EventItem)>,
    bytes: usize,
    /// Number of the term; it grows whenever another process may have led.
    term: u64,
    leads_until: Option<Instant>,
    /// Places behind the last event that was taken, and that is durable.
    taken: u64,
    durable: u64,
    /// True once the server's numbers began anew, so that a lower place may be the later one.
    is_renumbered: bool,
    stopped: bool,
}

/// The outlet. One lock; never held across I/O.
#[derive(Default)]
pub(super) struct EventOutlet {
    state: Mutex<OutletState>,
    changed: Condvar,
}

impl EventOutlet {
    /// An outlet whose reader goes on from a durable place.
    pub(super) fn new(place: u64) -> Self {
        let outlet = Self::default();
        let mut state = outlet.lock();
        (state.taken, state.durable) = (place, place);
        drop(state);
        outlet
    }

    fn lock(&self) -> MutexGuard<'_, OutletState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes up to when this process leads. `takes`: another one may have led before, up to
    /// `foreign_place`.
    pub(super) fn lead(&self, until: Option<Instant>, takes: bool, foreign_place: u64) {
        let mut state = self.lock();
        state.leads_until = until;
        if takes {
            state.term += 1;
            state.taken = state.taken.max(foreign_place);
            state.durable = state.durable.max(foreign_place);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Ends all waits.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// The term, while this process leads; waits for it up to a second.
    pub(super) fn await_lead(&self) -> Option<LeadTerm> {
        let waits = |state: &mut OutletState| !state.leads() && !state.stopped;
        let state = self.lock();
        let waited = self
            .changed
            .wait_timeout_while(state, Duration::from_secs(1), waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (state.leads() && !state.stopped).then(|| LeadTerm {
            number: state.term,
            place: state.taken,
        })
    }

    /// True while this process leads.
    pub(super) fn leads(&self) -> bool {
        self.lock().leads()
    }

    /// Hands an item over; waits while there is no room. False: the term is over.
    pub(super) fn push(&self, term: u64, item: EventItem) -> bool {
        let mut state = self.lock();
        loop {
            if !state.is_term(term) {
                return false;
            }
            let is_full = state.items.len() >= OUTLET_EVENTS_MAX || state.bytes >= OUTLET_BYTES_MAX;
            if !is_full {
                state.bytes += item.bytes();
                state.items.push_back((term, item));
                return true;
            }
            let waited = self.changed.wait_timeout(state, LOOK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes the oldest item of the present term.
    pub(super) fn take(&self) -> Option<EventItem> {
        let mut state = self.lock();
        if !state.leads() {
            state.items.clear();
            state.bytes = 0;
            return None;
        }
        let term = state.term;
        let taken = loop {
            let (of, item) = state.items.pop_front()?;
            state.bytes -= item.bytes();
            if of == term {
                break item;
            }
        };
        state.taken = taken.place();
        drop(state);
        self.changed.notify_all();
        Some(taken)
    }

    /// Notes that events up to a place are durable.
    pub(super) fn note_durable(&self, place: u64) {
        let mut state = self.lock();
        if place > state.durable || state.is_renumbered {
            state.durable = place;
        }
    }

    /// The place up to which events are durable here, or at those that led before.
    pub(super) fn durable(&self) -> u64 {
        self.lock().durable
    }

    /// The numbering of the server began anew: places of before mean nothing. Waits until what was
    /// handed over is taken. False: the term is over.
    pub(super) fn renumber(&self, term: u64) -> bool {
        let mut state = self.lock();
        while !state.items.is_empty() {
            if !state.is_term(term) {
                return false;
            }
            let waited = self.changed.wait_timeout(state, LOOK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_renumbered = true;
        (state.taken, state.durable) = (0, 0);
        state.is_term(term)
    }
}

impl OutletState {
    /// True while this process leads in that term.
    fn is_term(&self, term: u64) -> bool {
        !self.stopped && self.term == term && self.leads()
    }

    fn leads(&self) -> bool {
        self.leads_until.is_some_and(|until| Instant::now() < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(3600))
    }

    fn event(place: u64) -> EventItem {
        EventItem::Event(Box::default(), place)
    }

    #[test]
    fn an_event_of_a_term_that_is_over_is_never_taken() {
        let outlet = EventOutlet::new(3);
        assert!(!outlet.push(0, event(4)));
        outlet.lead(soon(), true, 0);
        assert!(outlet.push(1, event(4)));
        assert!(outlet.push(1, event(5)));
        assert_eq!(outlet.take(), Some(event(4)));
        // Another process led, up to 9.
        outlet.lead(None, false, 0);
        assert!(!outlet.push(1, event(6)));
        outlet.lead(soon(), true, 9);
        assert_eq!(outlet.take(), None);
        assert!(!outlet.push(1, event(6)));
        let term = LeadTerm {
            number: 2,
            place: 9,
        };
        assert_eq!(outlet.await_lead(), Some(term));
        assert!(outlet.push(2, event(10)));
        assert_eq!(outlet.take(), Some(event(10)));
    }

    #[test]
    fn the_lead_ends_with_its_time() {
        let outlet = EventOutlet::new(0);
        outlet.lead(soon(), true, 0);
        assert!(outlet.push(1, event(1)));
        outlet.lead(Some(Instant::now()), false, 0);
        assert_eq!((outlet.leads(), outlet.take()), (false, None));
    }

    #[test]
    fn the_durable_place_is_told_and_a_new_numbering_forgets_it() {
        let outlet = EventOutlet::new(3);
        outlet.lead(soon(), true, 0);
        outlet.push(1, event(7));
        outlet.take();
        assert_eq!(outlet.durable(), 3);
        outlet.note_durable(7);
        outlet.note_durable(5);
        assert_eq!(outlet.durable(), 7);
        outlet.lead(soon(), false, 8);
        assert_eq!(outlet.durable(), 7);
        outlet.lead(soon(), true, 8);
        assert_eq!(outlet.durable(), 8);
        assert!(!outlet.renumber(1));
        assert!(outlet.renumber(2));
        assert_eq!(outlet.durable(), 0);
        // Of before, and of the new numbers.
        outlet.note_durable(8);
        outlet.note_durable(2);
        assert_eq!(outlet.durable(), 2);
    }

    #[test]
    fn who_watches_waits_for_room_and_ends_with_the_feed() {
        let outlet = EventOutlet::new(0);
        outlet.lead(soon(), true, 0);
        for place in 1..=OUTLET_EVENTS_MAX as u64 {
            assert!(outlet.push(1, event(place)));
        }
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| outlet.push(1, event(9999)));
            assert_eq!(outlet.take(), Some(event(1)));
            assert_eq!(waits.join().ok(), Some(true));
            let waits = scope.spawn(|| outlet.push(1, event(9999)));
            outlet.stop();
            assert_eq!(waits.join().ok(), Some(false));
        });
    }
}
