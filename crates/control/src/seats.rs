//! Seats for connections: who comes in when all are taken.
//!
//! # What it guarantees
//! * A new connection gets a seat at once. Where none is free, the address that has most gives up
//!   its oldest connection without a whole request: the stranger's half request, or a browser's
//!   idle connection, which opens the next one by itself.
//! * One address has at most [`crate::ServerLimits::per_address`] seats; beyond them its own
//!   connections make room, and nobody else's.
//! * A request in hand goes only where there is nothing else to give, and a stream never does.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::Notify;

use crate::serve::StreamProgress;

/// A connection's seat.
pub(crate) struct ClientSlot {
    ip: IpAddr,
    /// True if a request is in hand.
    busy: AtomicBool,
    stay: StreamProgress,
    leave: Notify,
}

impl ClientSlot {
    /// Returns once the connection has to go.
    pub(crate) async fn taken_away(&self) {
        self.leave.notified().await;
    }

    /// By which an answer that streams keeps its connection.
    pub(crate) fn stay(&self) -> StreamProgress {
        self.stay.clone()
    }

    /// A whole request has come.
    pub(crate) fn begin(&self) {
        self.busy.store(true, Relaxed);
    }

    fn is_waiting(&self) -> bool {
        !self.busy.load(Relaxed)
    }
}

/// The seats of a server.
pub(crate) struct ClientLimiter {
    /// The longest there first. Taken once a connection, never held across I/O.
    all: Mutex<Vec<Arc<ClientSlot>>>,
    most: usize,
    per_address: usize,
}

impl ClientLimiter {
    pub(crate) fn new(most: usize, per_address: usize) -> Arc<Self> {
        Arc::new(Self {
            all: Mutex::default(),
            most: most.max(1),
            per_address: per_address.max(1),
        })
    }

    /// A seat for a connection of `ip`; `None` if nobody can go.
    pub(crate) fn take(self: &Arc<Self>, ip: IpAddr) -> Option<SlotGuard> {
        let ip = network(ip);
        let mut all = self.lock();
        let own = all.iter().filter(|seat| seat.ip == ip).count();
        let place = if own >= self.per_address {
            Some(leaver_of(&all, ip)?)
        } else if all.len() >= self.most {
            Some(leaver(&all)?)
        } else {
            None
        };
        if let Some(place) = place {
            all.remove(place).leave.notify_one();
        }
        let seat = Arc::new(ClientSlot {
            ip,
            busy: AtomicBool::new(false),
            stay: StreamProgress::default(),
            leave: Notify::new(),
        });
        all.push(Arc::clone(&seat));
        Some(SlotGuard {
            seats: Arc::clone(self),
            seat,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<ClientSlot>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address that has most seats.
fn busiest(all: &[Arc<ClientSlot>]) -> Option<IpAddr> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for seat in all {
        *counts.entry(seat.ip).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, n)| *n);
    most.map(|(ip, _)| ip)
}

/// Index of the seat that an address gives up: its oldest without a request in hand; else its
/// oldest with one, unless it streams.
fn leaver_of(all: &[Arc<ClientSlot>], ip: IpAddr) -> Option<usize> {
    let find = |wanted: &dyn Fn(&ClientSlot) -> bool| {
        let mut seats = all.iter();
        seats.position(|seat| seat.ip == ip && wanted(seat))
    };
    find(&|seat| seat.is_waiting()).or_else(|| find(&|seat| !seat.stay.streams()))
}

/// Index of the seat that is given up where none is left: one of the address that has most; else
/// anybody's oldest without a request in hand.
fn leaver(all: &[Arc<ClientSlot>]) -> Option<usize> {
    let of_busiest = busiest(all).and_then(|ip| leaver_of(all, ip));
    of_busiest.or_else(|| all.iter().position(|seat| seat.is_waiting()))
}

/// Network that counts as one client: an address of IPv4, a /64 of IPv6.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
    }
}

/// A seat for as long as it is not dropped.
pub(crate) struct SlotGuard {
    seats: Arc<ClientLimiter>,
    pub(crate) seat: Arc<ClientSlot>,
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        let mut all = self.seats.lock();
        all.retain(|seat| !Arc::ptr_eq(seat, &self.seat));
    }
}

/// Has the seat wait for the next request once the answer has gone.
pub(crate) fn until_answered(answer: Response, seat: Arc<ClientSlot>) -> Response {
    let inner = BusyGuard(seat);
    answer.map(|body| {
        Body::new(GuardedBody {
            body,
            _answering: inner,
        })
    })
}

struct BusyGuard(Arc<ClientSlot>);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.busy.store(false, Relaxed);
    }
}

struct GuardedBody {
    body: Body,
    _answering: BusyGuard,
}

impl HttpBody for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn the_newest_comes_in_and_the_longest_without_a_request_goes() {
        let seats = ClientLimiter::new(3, 3);
        let first = seats.take(ip(1)).unwrap();
        first.seat.begin();
        let (second, third) = (seats.take(ip(1)).unwrap(), seats.take(ip(2)).unwrap());
        let fourth = seats.take(ip(3)).unwrap();
        let here = |taken: &SlotGuard| {
            seats
                .lock()
                .iter()
                .any(|seat| Arc::ptr_eq(seat, &taken.seat))
        };
        let all = [&first, &second, &third, &fourth];
        assert_eq!(all.map(here), [true, false, true, true]);
        drop((second, third));
        assert_eq!(seats.lock().len(), 2);
    }

    #[test]
    fn one_address_makes_room_for_itself_alone() {
        let seats = ClientLimiter::new(8, 2);
        let other = seats.take(ip(9)).unwrap();
        let own: Vec<_> = (0..5).map(|_| seats.take(ip(1)).unwrap()).collect();
        let left = seats.lock().len();
        assert_eq!(left, 3);
        assert!(
            seats
                .lock()
                .iter()
                .any(|seat| Arc::ptr_eq(seat, &other.seat))
        );
        drop(own);
    }

    #[test]
    fn an_address_whose_seats_all_stream_takes_no_other_ones() {
        let seats = ClientLimiter::new(8, 2);
        let other = seats.take(ip(9)).unwrap();
        let streams = [seats.take(ip(1)).unwrap(), seats.take(ip(1)).unwrap()];
        for one in &streams {
            one.seat.begin();
            one.seat.stay().gets_on();
        }
        assert!(seats.take(ip(1)).is_none());
        let here = |seat: &Arc<ClientSlot>| Arc::ptr_eq(seat, &other.seat);
        assert!(seats.lock().iter().any(here));
    }

    #[test]
    fn streams_stay() {
        let seats = ClientLimiter::new(2, 2);
        let streams = [seats.take(ip(1)).unwrap(), seats.take(ip(1)).unwrap()];
        for one in &streams {
            one.seat.begin();
            one.seat.stay().gets_on();
        }
        assert!(seats.take(ip(1)).is_none() && seats.take(ip(2)).is_none());
    }
}
