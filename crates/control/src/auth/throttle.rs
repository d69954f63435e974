//! Wrong passwords: each address waits longer after each, up to a minute.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Wrong passwords before an address has to wait: fingers slip.
pub(super) const FREE_TRIES: u32 = 3;
/// The wait after the next one; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait: someone who has remembered it at last gets in within a minute.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// After this time without a wrong password all is forgotten.
const FORGET: Duration = Duration::from_secs(15 * 60);
/// Addresses remembered at once; one more makes us forget the one that was longest quiet.
pub(super) const PEERS_MAX: usize = 1024;

struct FailedLogins {
    wrong: u32,
    last: Instant,
}

impl FailedLogins {
    fn wait(&self) -> Duration {
        let Some(doublings) = self.wrong.checked_sub(FREE_TRIES) else {
            return Duration::ZERO;
        };
        let wait = FIRST_WAIT.saturating_mul(1 << doublings.min(10));
        wait.min(LONGEST_WAIT)
    }
}

/// Wrong passwords of each address: their number, and the time of the last.
#[derive(Default)]
pub(super) struct Throttle {
    by_peer: HashMap<IpAddr, FailedLogins>,
}

impl Throttle {
    /// Time that this address still has to wait; `None` if it may try.
    pub(super) fn wait(&self, peer: IpAddr, now: Instant) -> Option<Duration> {
        let tries = self.by_peer.get(&network(peer))?;
        let left = tries.wait().checked_sub(now.duration_since(tries.last))?;
        (!left.is_zero()).then_some(left)
    }

    /// Notes a wrong password; says how many there were.
    pub(super) fn wrong(&mut self, peer: IpAddr, now: Instant) -> u32 {
        let peer = network(peer);
        if self.by_peer.len() >= PEERS_MAX && !self.by_peer.contains_key(&peer) {
            self.make_room(now);
        }
        let tries = self.by_peer.entry(peer).or_insert(FailedLogins {
            wrong: 0,
            last: now,
        });
        if now.duration_since(tries.last) >= FORGET {
            tries.wrong = 0;
        }
        tries.wrong = tries.wrong.saturating_add(1);
        tries.last = now;
        tries.wrong
    }

    /// Notes the right password.
    pub(super) fn right(&mut self, peer: IpAddr) {
        self.by_peer.remove(&network(peer));
    }

    fn make_room(&mut self, now: Instant) {
        self.by_peer
            .retain(|_, tries| now.duration_since(tries.last) < FORGET);
        if self.by_peer.len() >= PEERS_MAX {
            let quiet = self.by_peer.iter().min_by_key(|(_, tries)| tries.last);
            let quiet = quiet.map(|(peer, _)| *peer);
            quiet.map(|peer| self.by_peer.remove(&peer));
        }
    }
}

/// Network that counts as one guesser: an address of IPv4, a /64 of IPv6.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_wait_doubles_up_to_a_minute_and_is_forgotten() {
        let (mut throttle, peer, mut now) = (Throttle::default(), ip("192.0.2.1"), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..12 {
            throttle.wrong(peer, now);
            waits.push(throttle.wait(peer, now).unwrap_or_default().as_secs());
            now += LONGEST_WAIT;
            assert_eq!(throttle.wait(peer, now), None, "a minute is always enough");
        }
        assert_eq!(waits, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
        throttle.wrong(peer, now + FORGET);
        assert_eq!(throttle.wait(peer, now + FORGET), None, "forgotten");
        for _ in 0..9 {
            throttle.wrong(peer, now + FORGET);
        }
        throttle.right(peer);
        assert_eq!(
            throttle.wait(peer, now + FORGET),
            None,
            "the right password forgives"
        );
    }

    #[test]
    fn each_address_waits_for_itself_and_a_network_is_one() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        for n in 0..5 {
            throttle.wrong(ip(&format!("2001:db8:1:2::{n}")), now);
            throttle.wrong(ip("192.0.2.1"), now);
        }
        for (peer, waits) in [
            ("2001:db8:1:2::ffff", true),
            ("2001:db8:1:3::1", false),
            ("::ffff:192.0.2.1", true),
            ("192.0.2.2", false),
        ] {
            assert_eq!(throttle.wait(ip(peer), now).is_some(), waits, "{peer}");
        }
    }

    #[test]
    fn guessing_from_everywhere_costs_a_bounded_memory() {
        let (mut throttle, start) = (Throttle::default(), Instant::now());
        let at = |n: u32| start + Duration::from_millis(n.into());
        for n in 0..3000 {
            throttle.wrong(IpAddr::V4(n.into()), at(n));
        }
        assert_eq!(throttle.by_peer.len(), PEERS_MAX);
        assert!(throttle.by_peer.contains_key(&IpAddr::V4(2999.into())));
    }
}
