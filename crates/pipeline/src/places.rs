//! Places for connections: descriptors that connections may have, and a share for one address.
//!
//! # What it guarantees
//! * Queue, store, files, collectors and the admin API have a reserve of descriptors that no
//!   connection takes. The kernel gives the lowest number that is free; a connection whose number
//!   lies above the [`Places::ceiling`] is closed at once, so the numbers above it stay free for
//!   the others, whatever else is open.
//! * One address, or one /64 of IPv6, never has all places of a listener or of the process.
//! * What is held of an address goes with its last connection: memory follows open connections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inrush_event::{AutoCount, Protocol};
use inrush_sink::SinkConfig;
use inrush_transport::process;

use crate::config::{Config, SourceConfig};

/// Descriptors that the queue and quarantine open now and then: segments written, read and synced.
const QUEUE_FILES: u64 = 8;

/// Descriptors for each destination: its cursor, and the segment that it reads.
const DESTINATION_FILES: u64 = 2;

/// Descriptors of an embedded store: files that are written, merged, and read by searches.
const STORE_FILES: u64 = 16;

/// Descriptors of an embedded store where the limit of open files is large.
const STORE_FILES_MAX: u64 = 128;

/// Descriptors for what is seldom: a certificate that is read again, `/proc`, a name server.
const OTHER_FILES: u64 = 4;

/// Descriptors of a `file` destination beside its files: a folder that is synced, one that is
/// compressed.
const FILE_OTHERS: u64 = 2;

/// The part of the limit of open files that a `file` destination may have open at once.
const OPEN_FILES_PART: u64 = 32;

/// Connections to a collector that `workers: auto` comes to at most.
const COLLECTOR_CONNECTIONS: u64 = 16;

/// Connections of the admin API, unless the limit of open files is small.
const ADMIN_CONNECTIONS_MAX: u64 = 128;

/// As few connections as the admin API has, however small the limit is.
const ADMIN_CONNECTIONS_MIN: u64 = 4;

/// The part of the limit of open files that one elastic user may have: a store, the admin API.
const ELASTIC_PART: u64 = 16;

/// Listeners with fewer places give one address all of them.
const SHARED_FROM: u64 = 64;

/// Files that a `file` destination may have open of the `wanted` ones, under this limit.
pub(crate) fn open_files(limit: u64, wanted: u32) -> u32 {
    let most = (limit / OPEN_FILES_PART).max(2);
    wanted.min(u32::try_from(most).unwrap_or(u32::MAX))
}

/// Connections that the admin API may have under this limit.
pub fn admin_connections(limit: u64) -> usize {
    let part = limit / ELASTIC_PART;
    part.clamp(ADMIN_CONNECTIONS_MIN, ADMIN_CONNECTIONS_MAX) as usize
}

/// Descriptors that all but connections may open, under a limit of open files.
pub(crate) fn reserve(config: &Config, limit: u64) -> u64 {
    let destination = |sink: &SinkConfig| {
        DESTINATION_FILES
            + match sink {
                // Open ones, their second handles while they are synced, and closed ones that wait
                // for that.
                SinkConfig::File(file) => {
                    3 * u64::from(open_files(limit, file.max_open_files)) + FILE_OTHERS
                }
                SinkConfig::Store(_) => (limit / ELASTIC_PART).clamp(STORE_FILES, STORE_FILES_MAX),
                SinkConfig::SplunkHec(hec) => match hec.workers {
                    AutoCount::Count(n) => u64::from(n.get()),
                    AutoCount::Auto => COLLECTOR_CONNECTIONS,
                },
                SinkConfig::Stdout(_) | SinkConfig::Blackhole(_) => 0,
            }
    };
    let destinations: u64 = config.destinations.values().map(destination).sum();
    QUEUE_FILES + OTHER_FILES + destinations + admin_connections(limit) as u64
}

/// Warning that a configuration asks for more than a limit of open files, with the remedy; `None`
/// if it fits.
///
/// It runs all the same: connections beyond the limit are refused and counted.
pub fn shortage(config: &Config, limit: u64) -> Option<String> {
    let of_source = |source: &SourceConfig| {
        let SourceConfig::Syslog(syslog) = source;
        let doors = syslog
            .listen
            .iter()
            .filter(|listen| listen.protocol != Protocol::Udp);
        doors.count() as u64 * syslog.stream.max_connections.get() as u64
    };
    let connections: u64 = config.sources.values().map(of_source).sum();
    let files = |sink: &SinkConfig| match sink {
        SinkConfig::File(file) => u64::from(file.max_open_files),
        _ => 0,
    };
    let files: u64 = config.destinations.values().map(files).sum();
    let reserve = reserve(config, limit).max(files);
    let wanted = connections + reserve;
    (wanted > limit).then(|| {
        format!(
            "the limit of open files is {limit}, and this configuration may want {wanted}: \
             {connections} connections (`max_connections` of every listener) and {reserve} for \
             queue, destinations and the admin API, which come first; connections beyond the \
             limit are refused and counted. Raise it: `LimitNOFILE={}` in the systemd unit, \
             `ulimit -Hn` in a shell, `--ulimit nofile=` of a container; or lower \
             `max_connections`",
            wanted.next_multiple_of(1024)
        )
    })
}

/// Address by which connections are counted: all of IPv4, the /64 of IPv6, which is what one host
/// or site is given.
pub(crate) fn one(ip: IpAddr) -> IpAddr {
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
pub(crate) enum Full {
    /// One address has its share.
    Address,
    /// The descriptors that connections may have are used up.
    Descriptors,
}

/// The places of the process.
pub(crate) struct Places {
    /// Descriptors that the process may have open.
    limit: u64,
    /// Numbers of descriptors from here on are not for connections.
    ceiling: AtomicU64,
    /// Places that connections have in all.
    places: AtomicU64,
    /// Taken once a connection, never held across I/O.
    open: Mutex<HashMap<(usize, IpAddr), u64>>,
}

impl Places {
    /// Places under the limit that holds now; all of them until [`Self::reserve`].
    pub(crate) fn new() -> Arc<Self> {
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

    /// Keeps a reserve for what a configuration needs beside connections. What it needs all the
    /// time is open by now.
    ///
    /// Under a limit that is too small for both, three quarters of what is left are the reserve.
    pub(crate) fn reserve(&self, config: &Config) {
        let taken = self.taken();
        let free = self.limit.saturating_sub(taken);
        let reserve = reserve(config, self.limit).min(free - free / 4);
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

    /// Says in the log what does not fit under the limit.
    pub(crate) fn warn(&self, config: &Config) {
        if let Some(words) = shortage(config, self.limit) {
            tracing::warn!("{words}");
        }
    }

    /// Descriptors that the process may have open.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Descriptors that are not for connections.
    pub(crate) fn reserved(&self) -> u64 {
        self.limit - self.ceiling.load(Relaxed)
    }

    /// Connections that the process may have, of all listeners together.
    pub(crate) fn connections_max(&self) -> u64 {
        self.places.load(Relaxed)
    }

    /// A place for a connection of `ip` with this descriptor at the source of that number, which
    /// gives one address `most` of its places, or a share of `all` of them.
    pub(crate) fn take(
        self: &Arc<Self>,
        descriptor: u64,
        source: usize,
        ip: IpAddr,
        bound: Bound,
    ) -> Result<Place, Full> {
        if descriptor >= self.ceiling.load(Relaxed) {
            return Err(Full::Descriptors);
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
                return Err(Full::Address);
            }
        }
        for at in [source, ALL] {
            *open.entry((at, ip)).or_default() += 1;
        }
        Ok(Place {
            places: Arc::clone(self),
            source,
            ip,
        })
    }

    /// The address with most connections, and how many.
    pub(crate) fn busiest(&self) -> Option<(IpAddr, u64)> {
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
pub(crate) struct Bound {
    /// As configured: 0 is no bound, `None` a share.
    pub(crate) most: Option<u64>,
    /// The places of the listener.
    pub(crate) all: u64,
}

impl Bound {
    /// Not any.
    pub(crate) const NONE: Self = Self {
        most: Some(0),
        all: 0,
    };
}

/// A place that a connection has, until it is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    source: usize,
    ip: IpAddr,
}

impl Place {
    /// The connection turned out to be of `ip`; `Err` if that has its share.
    pub(crate) fn move_to(&mut self, ip: IpAddr, bound: Bound) -> Result<(), Full> {
        if one(ip) == self.ip {
            return Ok(());
        }
        // The descriptor has been looked at; the old place goes with the value.
        *self = self.places.take(0, self.source, ip, bound)?;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.give_back(self.source, self.ip);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn places(limit: u64, ceiling: u64) -> Arc<Places> {
        Arc::new(Places {
            limit,
            ceiling: AtomicU64::new(ceiling),
            places: AtomicU64::new(ceiling),
            open: Mutex::default(),
        })
    }

    const SHARE: Bound = Bound {
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
        assert_eq!(refused, Some(Full::Descriptors));
    }

    #[test]
    fn one_address_leaves_a_quarter_to_others() {
        let places = places(10_000, 10_000);
        let mut all: Vec<_> = (0..75)
            .map(|_| places.take(9, 1, ip("192.0.2.1"), SHARE).unwrap())
            .collect();
        let more = |from| places.take(9, 1, ip(from), SHARE);
        assert_eq!(more("192.0.2.1").err(), Some(Full::Address));
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
        let bound = |most| Bound {
            most: Some(most),
            all: 100,
        };
        let first = places.take(9, 1, ip("192.0.2.1"), bound(1)).unwrap();
        let second = places.take(9, 1, ip("192.0.2.1"), bound(1));
        assert_eq!(second.err(), Some(Full::Address));
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
        let wide = Bound {
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
        let one = Bound {
            most: Some(1),
            all: 100,
        };
        let mut place = places.take(9, 1, ip("2001:db8::1"), one).unwrap();
        let same = places.take(9, 1, ip("2001:db8::ffff"), one).err();
        assert_eq!(same, Some(Full::Address));
        place.move_to(ip("192.0.2.7"), one).unwrap();
        assert!(places.take(9, 1, ip("2001:db8::ffff"), one).is_ok());
        assert_eq!(
            places.take(9, 1, ip("192.0.2.7"), one).err(),
            Some(Full::Address)
        );
        drop(place);
        assert!(lock(&places.open).is_empty());
    }

    #[test]
    fn small_limits_shrink_what_is_elastic() {
        assert_eq!((open_files(64, 256), open_files(20_000, 256)), (2, 256));
        assert_eq!(
            (admin_connections(64), admin_connections(1 << 20)),
            (4, 128)
        );
    }
}
