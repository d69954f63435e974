//! Places for connections: descriptors that connections may have, and a share for one address.
//!
//! # What it guarantees
//! * Queue, store, files, collectors and the admin API have a reserve of descriptors that no
//!   connection takes. The kernel gives the lowest number that is free; a connection whose number
//!   lies above the `ConnectionLimiter::ceiling` is closed at once, so the numbers above it stay
//!   free for the others, whatever else is open.
//! * One address, or one /64 of IPv6, never has all places of a listener or of the process.
//! * What is held of an address goes with its last connection: memory follows open connections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inrush_transport::process;

/// Listeners with fewer places give one address all of them.
const SHARED_FROM: u64 = 64;

/// Address by which connections are counted: all of IPv4, the /64 of IPv6, which is what one host
/// or site is given.
pub fn one(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
    }
}

/// Three quarters of so many places, of which the last quarter is for others.
fn share(places: u64) -> u64 {
    match places {
        ..SHARED_FROM => places,
        _ => places - places / 4,
    }
}

/// Reason that a connection gets no place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitReached {
    /// One address has its share.
    Address,
    /// The descriptors that connections may have are used up.
    Descriptors,
}

/// The places of the process.
pub struct ConnectionLimiter {
    /// Descriptors that the process may have open.
    limit: u64,
    /// Numbers of descriptors from here on are not for connections.
    ceiling: AtomicU64,
    /// Places that connections have in all.
    places: AtomicU64,
    /// Taken once a connection, never held across I/O.
    open: Mutex<HashMap<(usize, IpAddr), u64>>,
}

impl ConnectionLimiter {
    /// Places under the limit that holds now; all of them until [`Self::reserve`].
    pub fn new() -> Arc<Self> {
        let limit = match process::open_files_max() {
            0 => u64::MAX,
            limit => limit,
        };
        Arc::new(Self {
            limit,
            ceiling: AtomicU64::new(limit),
            places: AtomicU64::new(limit),
            open: Mutex::default(),
        })
    }

    /// Keeps so many descriptors for all but connections. What is needed all the time is open by
    /// now.
    ///
    /// Under a limit that is too small for both, three quarters of what is left are the reserve.
    pub fn reserve(&self, descriptors: u64) {
        let taken = self.taken();
        let free = self.limit.saturating_sub(taken);
        let reserve = descriptors.min(free - free / 4);
        let ceiling = self.limit - reserve;
        self.ceiling.store(ceiling, Relaxed);
        self.places.store(ceiling.saturating_sub(taken), Relaxed);
    }

    /// Descriptors that are open for other things than connections. The lowest free number is that
    /// where nothing was closed in between.
    fn taken(&self) -> u64 {
        let lowest = process::lowest_free_descriptor().unwrap_or(0);
        let open = lock(&self.open);
        let connections = open.iter().filter(|((at, _), _)| *at == ALL);
        let connections: u64 = connections.map(|(_, n)| n).sum();
        lowest.saturating_sub(connections)
    }

    /// Descriptors that the process may have open.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Descriptors that are not for connections.
    pub fn reserved(&self) -> u64 {
        self.limit - self.ceiling.load(Relaxed)
    }

    /// Connections that the process may have, of all listeners together.
    pub fn connections_max(&self) -> u64 {
        self.places.load(Relaxed)
    }

    /// A place for a connection of `ip` with this descriptor at the source of that number, which
    /// gives one address `most` of its places, or a share of `all` of them.
    pub fn take(
        self: &Arc<Self>,
        descriptor: u64,
        source: usize,
        ip: IpAddr,
        bound: AddressLimit,
    ) -> Result<ConnectionPermit, LimitReached> {
        if descriptor >= self.ceiling.load(Relaxed) {
            return Err(LimitReached::Descriptors);
        }
        let ip = one(ip);
        let bound = if bound.most == Some(0) {
            None
        } else {
            Some(bound)
        };
        let mut open = lock(&self.open);
        let count = |at| open.get(&(at, ip)).copied().unwrap_or(0);
        if let Some(bound) = bound {
            let at_source = bound.most.unwrap_or_else(|| share(bound.all));
            let in_all = share(self.places.load(Relaxed)).max(1);
            if count(source) >= at_source || count(ALL) >= in_all {
                return Err(LimitReached::Address);
            }
        }
        for at in [source, ALL] {
            *open.entry((at, ip)).or_default() += 1;
        }
        Ok(ConnectionPermit {
            places: Arc::clone(self),
            source,
            ip,
        })
    }

    /// The address with most connections, and how many.
    pub fn busiest(&self) -> Option<(IpAddr, u64)> {
        let open = lock(&self.open);
        let all = open.iter().filter(|((at, _), _)| *at == ALL);
        all.max_by_key(|(_, n)| **n).map(|((_, ip), n)| (*ip, *n))
    }

    fn give_back(&self, source: usize, ip: IpAddr) {
        let mut open = lock(&self.open);
        for at in [source, ALL] {
            if let Some(n) = open.get_mut(&(at, ip)) {
                *n -= 1;
                if *n == 0 {
                    open.remove(&(at, ip));
                }
            }
        }
        // What a crowd needed is given back.
        if open.is_empty() && open.capacity() > KEPT {
            *open = HashMap::new();
        }
    }
}

/// Room for addresses that is kept when no connection is open.
const KEPT: usize = 1024;

/// Stands for all sources.
const ALL: usize = usize::MAX;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bound of the places that one address may have of a listener.
#[derive(Clone, Copy, Debug)]
pub struct AddressLimit {
    /// As configured: 0 is no bound, `None` a share.
    pub most: Option<u64>,
    /// The places of the listener.
    pub all: u64,
}

impl AddressLimit {
    /// Not any.
    pub const NONE: Self = Self {
        most: Some(0),
        all: 0,
    };
}

/// A place that a connection has, until it is dropped.
pub struct ConnectionPermit {
    places: Arc<ConnectionLimiter>,
    source: usize,
    ip: IpAddr,
}

impl ConnectionPermit {
    /// The connection turned out to be of `ip`; `Err` if that has its share.
    pub fn move_to(&mut self, ip: IpAddr, bound: AddressLimit) -> Result<(), LimitReached> {
        if one(ip) == self.ip {
            return Ok(());
        }
        // The descriptor has been looked at; the old place goes with the value.
        *self = self.places.take(0, self.source, ip, bound)?;
        Ok(())
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.places.give_back(self.source, self.ip);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn places(limit: u64, ceiling: u64) -> Arc<ConnectionLimiter> {
        Arc::new(ConnectionLimiter {
            limit,
            ceiling: AtomicU64::new(ceiling),
            places: AtomicU64::new(ceiling),
            open: Mutex::default(),
        })
    }

    const SHARE: AddressLimit = AddressLimit {
        most: None,
        all: 100,
    };

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn numbers_above_the_ceiling_are_for_others() {
        let places = places(64, 40);
        assert!(places.take(39, 1, ip("192.0.2.1"), SHARE).is_ok());
        let refused = places.take(40, 1, ip("192.0.2.1"), SHARE).err();
        assert_eq!(refused, Some(LimitReached::Descriptors));
    }

    #[test]
    fn one_address_leaves_a_quarter_to_others() {
        let places = places(10_000, 10_000);
        let mut all: Vec<_> = (0..75)
            .map(|_| places.take(9, 1, ip("192.0.2.1"), SHARE).unwrap())
            .collect();
        let more = |from| places.take(9, 1, ip(from), SHARE);
        assert_eq!(more("192.0.2.1").err(), Some(LimitReached::Address));
        assert!(more("192.0.2.2").is_ok());
        assert_eq!(places.busiest(), Some((ip("192.0.2.1"), 75)));
        all.pop();
        assert!(more("192.0.2.1").is_ok());
        drop(all);
        assert!(lock(&places.open).is_empty());
    }

    #[test]
    fn a_bound_is_as_configured_and_zero_is_none() {
        let places = places(10_000, 10_000);
        let bound = |most| AddressLimit {
            most: Some(most),
            all: 100,
        };
        let first = places.take(9, 1, ip("192.0.2.1"), bound(1)).unwrap();
        let second = places.take(9, 1, ip("192.0.2.1"), bound(1));
        assert_eq!(second.err(), Some(LimitReached::Address));
        assert!(
            places.take(9, 2, ip("192.0.2.1"), bound(1)).is_ok(),
            "another source"
        );
        assert!(places.take(9, 1, ip("192.0.2.1"), bound(0)).is_ok());
        drop(first);
    }

    #[test]
    fn the_process_keeps_places_for_other_addresses_too() {
        let places = places(200, 100);
        let wide = AddressLimit {
            most: Some(1000),
            all: 1000,
        };
        let all: Vec<_> = (0..80)
            .filter_map(|n| places.take(9, n % 3, ip("192.0.2.1"), wide).ok())
            .collect();
        assert_eq!(all.len(), 75);
        assert!(places.take(9, 1, ip("192.0.2.2"), wide).is_ok());
    }

    #[test]
    fn a_site_of_ipv6_is_one_address_and_a_proxied_one_is_the_real_one() {
        let places = places(10_000, 10_000);
        let one = AddressLimit {
            most: Some(1),
            all: 100,
        };
        let mut place = places.take(9, 1, ip("2001:db8::1"), one).unwrap();
        let same = places.take(9, 1, ip("2001:db8::ffff"), one).err();
        assert_eq!(same, Some(LimitReached::Address));
        place.move_to(ip("192.0.2.7"), one).unwrap();
        assert!(places.take(9, 1, ip("2001:db8::ffff"), one).is_ok());
        assert_eq!(
            places.take(9, 1, ip("192.0.2.7"), one).err(),
            Some(LimitReached::Address)
        );
        drop(place);
        assert!(lock(&places.open).is_empty());
    }
}
