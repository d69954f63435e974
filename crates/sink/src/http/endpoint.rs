//! Selection of the next endpoint: the healthy ones in turn, one that failed only after its
//! back-off.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::backoff;

/// First and longest pause of an endpoint that may recover by itself.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// First and longest pause of an endpoint where a person has to mend something.
const HOLD: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Result of [`Endpoints::pick`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pick {
    /// Use the endpoint of this index.
    Use(usize),
    /// All are put aside; the next one is due after this time.
    Wait(Duration),
}

/// Kind of failure of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EndpointFailure {
    /// It may work again soon.
    Passing,
    /// It asked to be left alone for this time.
    AskedToWait(Duration),
    /// A person has to mend something.
    Lasting,
}

#[derive(Clone, Copy, Default)]
struct EndpointState {
    /// In a row; 0 is healthy.
    failures: u32,
    /// Not to be used before this; set while it has failures.
    until: Option<Instant>,
    /// Time of the last failure seen: requests begun before it tell nothing new.
    failed_at: Option<Instant>,
}

/// The endpoints of a destination, shared by its workers.
pub(crate) struct Endpoints {
    states: Vec<EndpointState>,
    next: usize,
    /// Time for which an attempt at a failed endpoint keeps other workers from trying it too.
    probe: Duration,
    /// Workers that wait for an endpoint, by ticket, the first to come first.
    waiting: VecDeque<Ticket>,
    /// Tickets given so far.
    tickets: u64,
}

/// The place of a worker among those that wait for an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket(u64);

impl Endpoints {
    /// `count` healthy endpoints; `probe` is the longest that one request can take.
    pub(crate) fn new(count: usize, probe: Duration) -> Self {
        Self {
            states: vec![EndpointState::default(); count],
            next: 0,
            probe,
            waiting: VecDeque::new(),
            tickets: 0,
        }
    }

    /// Puts a worker behind all that wait for an endpoint.
    pub(crate) fn queue(&mut self) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.waiting.push_back(ticket);
        ticket
    }

    /// The worker waits no longer.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        self.waiting.retain(|other| *other != ticket);
    }

    /// The endpoint to use at `now`. One that failed and whose pause is over goes first, for one
    /// worker at a time: only a real request shows whether it works again, and without one it
    /// would never be used again while another is healthy. It goes to the worker that waits
    /// longest: one whose body alone fails would else spend every attempt on it.
    pub(crate) fn pick(&mut self, ticket: Ticket, now: Instant) -> Pick {
        let is_first = self.waiting.front() == Some(&ticket);
        let due =
            |state: &EndpointState| state.failures > 0 && state.until.is_none_or(|at| at <= now);
        if let Some(index) = self.states.iter().position(due).filter(|_| is_first) {
            self.states[index].until = Some(now + self.probe);
            return Pick::Use(index);
        }
        let count = self.states.len();
        let in_turn = (0..count).map(|step| (self.next + step) % count);
        if let Some(index) = in_turn
            .into_iter()
            .find(|index| self.states[*index].failures == 0)
        {
            self.next = index + 1;
            return Pick::Use(index);
        }
        let soonest = self.states.iter().filter_map(|state| state.until).min();
        let left = soonest.map_or(RETRY.0, |at| at.saturating_duration_since(now));
        Pick::Wait(if is_first { left } else { left.max(RETRY.0) })
    }

    /// The endpoint answered as it should.
    pub(crate) fn succeeded(&mut self, index: usize) {
        self.states[index] = EndpointState::default();
    }

    /// A request that was begun at `begun` failed at `now`. When several were under way, the first
    /// failure counts for all of them.
    pub(crate) fn failed(
        &mut self,
        index: usize,
        failure: EndpointFailure,
        begun: Instant,
        now: Instant,
    ) {
        let state = &mut self.states[index];
        if state.failures > 0 && state.failed_at.is_some_and(|at| at > begun) {
            return;
        }
        state.failures += 1;
        state.failed_at = Some(now);
        let pause = match failure {
            EndpointFailure::Passing => backoff::pause(state.failures, RETRY.0, RETRY.1),
            EndpointFailure::Lasting => backoff::pause(state.failures, HOLD.0, HOLD.1),
            EndpointFailure::AskedToWait(asked) => asked.max(backoff::pause(1, RETRY.0, RETRY.1)),
        };
        state.until = Some(now + pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: Duration = Duration::from_secs(30);

    /// The pick of a worker that is alone.
    fn pick(endpoints: &mut Endpoints, now: Instant) -> Pick {
        let ticket = endpoints.queue();
        let pick = endpoints.pick(ticket, now);
        endpoints.leave(ticket);
        pick
    }

    #[test]
    fn a_failed_endpoint_goes_to_the_worker_that_waits_longest() {
        let mut endpoints = Endpoints::new(1, PROBE);
        let mut now = Instant::now();
        let (first, second) = (endpoints.queue(), endpoints.queue());
        assert_eq!(endpoints.pick(first, now), Pick::Use(0));
        endpoints.leave(first);
        endpoints.failed(0, EndpointFailure::Passing, now, now);
        let first = endpoints.queue();
        now += RETRY.0;
        assert_eq!(endpoints.pick(first, now), Pick::Wait(RETRY.0), "later");
        assert_eq!(endpoints.pick(second, now), Pick::Use(0));
        endpoints.leave(second);
        endpoints.succeeded(0);
        assert_eq!(endpoints.pick(first, now), Pick::Use(0));
    }

    #[test]
    fn healthy_endpoints_take_turns() {
        let mut endpoints = Endpoints::new(3, PROBE);
        let now = Instant::now();
        let picks: Vec<Pick> = (0..4).map(|_| pick(&mut endpoints, now)).collect();
        assert_eq!(
            picks,
            [Pick::Use(0), Pick::Use(1), Pick::Use(2), Pick::Use(0)]
        );
    }

    #[test]
    fn a_failed_endpoint_rests_is_probed_by_one_and_comes_back() {
        let mut endpoints = Endpoints::new(2, PROBE);
        let now = Instant::now();
        endpoints.failed(0, EndpointFailure::Passing, now, now);
        assert_eq!(pick(&mut endpoints, now), Pick::Use(1));
        assert_eq!(pick(&mut endpoints, now), Pick::Use(1));
        let later = now + RETRY.0;
        assert_eq!(
            pick(&mut endpoints, later),
            Pick::Use(0),
            "its pause is over"
        );
        assert_eq!(
            pick(&mut endpoints, later),
            Pick::Use(1),
            "somebody is already trying it"
        );
        endpoints.succeeded(0);
        assert_eq!(pick(&mut endpoints, later), Pick::Use(0));
    }

    #[test]
    fn with_all_down_the_soonest_is_waited_for() {
        let mut endpoints = Endpoints::new(2, PROBE);
        let now = Instant::now();
        endpoints.failed(
            0,
            EndpointFailure::AskedToWait(Duration::from_secs(9)),
            now,
            now,
        );
        endpoints.failed(
            1,
            EndpointFailure::AskedToWait(Duration::from_secs(7)),
            now,
            now,
        );
        assert_eq!(
            pick(&mut endpoints, now),
            Pick::Wait(Duration::from_secs(7))
        );
    }

    #[test]
    fn pauses_grow_with_failures_in_a_row_and_requests_under_way_count_once() {
        let mut endpoints = Endpoints::new(1, PROBE);
        let mut now = Instant::now();
        for _ in 0..3 {
            let begun = now;
            now += Duration::from_secs(60);
            endpoints.failed(0, EndpointFailure::Passing, begun, now);
            endpoints.failed(0, EndpointFailure::Passing, begun, now);
        }
        let Pick::Wait(pause) = pick(&mut endpoints, now) else {
            panic!("it has failed")
        };
        assert!(pause >= RETRY.0 * 2 && pause <= RETRY.0 * 4, "{pause:?}");
    }

    #[test]
    fn a_refused_token_is_tried_slowly() {
        let mut endpoints = Endpoints::new(1, PROBE);
        let now = Instant::now();
        endpoints.failed(0, EndpointFailure::Lasting, now, now);
        let Pick::Wait(pause) = pick(&mut endpoints, now) else {
            panic!("it has failed")
        };
        assert!(pause >= HOLD.0 / 2, "{pause:?}");
    }
}
