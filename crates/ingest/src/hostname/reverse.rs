//! Cache of the names that DNS has for senders, and the queue of addresses to look up.
//!
//! An answer of DNS counts for as long as it said, and goes on counting while it is asked again;
//! that there is no name, or no answer, counts for minutes. A worker that finds an address unknown
//! puts it into a queue of [`WAITING_MAX`], if it is not in it, and goes on.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inrush_event::MetricsPage;
use inrush_event::{Counter, Metric};
use lru::LruCache;
use mio::Waker;

use super::SENDERS_MAX;
use super::dns_message::DnsAnswer;
use super::resolver;
use crate::options::ReverseDnsOptions;

/// Addresses that wait to be asked for, at most: at 64 lookups at once and 10 ms each a sixth of a
/// second. What finds no room is tried again with the sender's next batch.
const WAITING_MAX: usize = 1024;

/// After no answer came, it is asked again no sooner than this.
const FAILED_FOR: Duration = Duration::from_secs(60);

/// Cached answer for an address.
struct CachedName {
    /// `None`: it has no name.
    name: Option<Arc<str>>,
    fresh_until: Instant,
}

struct DnsCacheState {
    by_sender: LruCache<IpAddr, CachedName, RandomState>,
    /// Those that wait, or are being asked for: at most [`WAITING_MAX`] and those in flight.
    asked: HashSet<IpAddr>,
}

/// Cache of the answers of DNS, shared by workers and the resolver. The lock is taken once a batch
/// and sender by who asks, and once for each answer.
pub(super) struct DnsCache {
    state: Mutex<DnsCacheState>,
    found: Counter,
    none: Counter,
    bad: Counter,
    failed: Counter,
    /// Times that an address was not looked up, since too many waited.
    dropped: Counter,
}

impl DnsCache {
    fn new() -> Self {
        let by_sender = LruCache::unbounded_with_hasher(RandomState::new());
        let state = DnsCacheState {
            by_sender,
            asked: HashSet::new(),
        };
        Self {
            state: Mutex::new(state),
            found: Counter::default(),
            none: Counter::default(),
            bad: Counter::default(),
            failed: Counter::default(),
            dropped: Counter::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, DnsCacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name as it is known, and whether it has to be asked for; then `order` is to do so, and
    /// says whether it could.
    fn get(&self, sender: IpAddr, now: Instant, order: impl FnOnce() -> bool) -> Option<Arc<str>> {
        let mut state = self.state();
        let known = state.by_sender.get(&sender);
        let name = known.and_then(|known| known.name.clone());
        let fresh = known.is_some_and(|known| now < known.fresh_until);
        if fresh || state.asked.contains(&sender) {
            return name;
        }
        match order() {
            true => drop(state.asked.insert(sender)),
            false => self.dropped.add(1),
        }
        name
    }

    /// Takes an answer.
    pub(super) fn settle(&self, sender: IpAddr, said: DnsAnswer, now: Instant) {
        let mut state = self.state();
        state.asked.remove(&sender);
        let (counter, name, counts) = match said {
            DnsAnswer::Name(name, counts) => (&self.found, Some(name.into()), counts),
            DnsAnswer::NoName(counts) => (&self.none, None, counts),
            DnsAnswer::BadName(counts) => (&self.bad, None, counts),
            DnsAnswer::Failed => {
                // What was known is better than nothing.
                let before = state.by_sender.pop(&sender).and_then(|known| known.name);
                (&self.failed, before, FAILED_FOR)
            }
        };
        counter.add(1);
        let fresh_until = now + counts;
        state
            .by_sender
            .put(sender, CachedName { name, fresh_until });
        if state.by_sender.len() > SENDERS_MAX {
            state.by_sender.pop_lru();
        }
    }
}

/// Names that DNS has for senders, for whoever wants them: the first who does starts the thread
/// that asks.
pub struct ReverseNames {
    options: ReverseDnsOptions,
    running: Mutex<Option<Arc<ReverseDns>>>,
}

impl ReverseNames {
    /// By these options, whether or not they are enabled; those of `before` go on if they are the
    /// same.
    pub(crate) fn new(options: &ReverseDnsOptions, before: Option<&Arc<Self>>) -> Arc<Self> {
        let options = ReverseDnsOptions {
            enabled: true,
            ..options.clone()
        };
        let same = before.filter(|before| before.options == options);
        same.cloned().unwrap_or_else(|| {
            Arc::new(Self {
                options,
                running: Mutex::default(),
            })
        })
    }

    /// Starts to look up, or joins those who do.
    ///
    /// # Errors
    /// The thread that asks DNS cannot be started.
    pub fn open(&self) -> io::Result<Arc<ReverseDns>> {
        let mut running = self.running();
        if let Some(known) = &*running {
            return Ok(Arc::clone(known));
        }
        let started = ReverseDns::start(&self.options)?;
        *running = Some(Arc::clone(&started));
        Ok(started)
    }

    fn running(&self) -> MutexGuard<'_, Option<Arc<ReverseDns>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the metrics of look-ups to a page of `/metrics`, if there are any.
    pub fn metrics(&self, page: &mut MetricsPage) {
        if let Some(running) = &*self.running() {
            running.metrics(page);
        }
    }
}

/// Looks senders up.
pub struct ReverseDns {
    answers: Arc<DnsCache>,
    /// The resolver ends when this does.
    orders: Option<SyncSender<IpAddr>>,
    waker: Waker,
}

impl ReverseDns {
    /// Starts the thread that asks.
    ///
    /// # Errors
    /// The kernel has no thread or descriptor left.
    fn start(options: &ReverseDnsOptions) -> io::Result<Arc<Self>> {
        let (orders, inbox) = mpsc::sync_channel(WAITING_MAX);
        let answers = Arc::new(DnsCache::new());
        let waker = resolver::start(options, inbox, Arc::clone(&answers))?;
        Ok(Arc::new(Self {
            answers,
            orders: Some(orders),
            waker,
        }))
    }

    /// The name of a sender, if it is known. If it is not, or no more for certain, DNS is asked.
    pub fn get(&self, sender: IpAddr, now: Instant) -> Option<Arc<str>> {
        let mut ordered = false;
        let name = self.answers.get(sender, now, || {
            let orders = self.orders.as_ref();
            ordered = orders.is_some_and(|orders| orders.try_send(sender).is_ok());
            ordered
        });
        if ordered && let Err(error) = self.waker.wake() {
            tracing::error!(%error, "the resolver cannot be woken");
        }
        name
    }

    fn metrics(&self, page: &mut MetricsPage) {
        let DnsCache {
            found,
            none,
            bad,
            failed,
            dropped,
            ..
        } = &*self.answers;
        for (outcome, counter) in [
            ("found", found),
            ("none", none),
            ("bad_name", bad),
            ("failed", failed),
        ] {
            let labels = vec![("outcome", outcome)];
            page.add(Metric::ReverseDnsLookups, labels, counter.get() as f64);
        }
        page.add(Metric::ReverseDnsDropped, vec![], dropped.get() as f64);
        let known = self.answers.state().by_sender.len();
        page.add(Metric::ReverseDnsSenders, vec![], known as f64);
    }
}

impl fmt::Debug for ReverseDns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReverseDns").finish_non_exhaustive()
    }
}

impl Drop for ReverseDns {
    fn drop(&mut self) {
        self.orders = None;
        // A thread that cannot be woken ends with the process.
        let _ = self.waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));
    const SECOND: Duration = Duration::from_secs(1);

    fn named(name: &str, counts: Duration) -> DnsAnswer {
        DnsAnswer::Name(name.into(), counts)
    }

    /// What is known of the address, and whether it was asked for.
    fn get(answers: &DnsCache, sender: IpAddr, now: Instant) -> (Option<String>, bool) {
        let mut asked = false;
        let name = answers.get(sender, now, || {
            asked = true;
            true
        });
        (name.map(|name| name.to_string()), asked)
    }

    #[test]
    fn what_was_said_counts_while_it_is_asked_again() {
        let (answers, start) = (DnsCache::new(), Instant::now());
        assert_eq!(get(&answers, IP, start), (None, true));
        assert_eq!(
            get(&answers, IP, start),
            (None, false),
            "it is being asked for"
        );
        answers.settle(IP, named("fw1", 60 * SECOND), start);
        let fw1 = || Some("fw1".to_owned());
        assert_eq!(get(&answers, IP, start + 59 * SECOND), (fw1(), false));
        assert_eq!(
            get(&answers, IP, start + 60 * SECOND),
            (fw1(), true),
            "stale"
        );
        assert_eq!(get(&answers, IP, start + 61 * SECOND), (fw1(), false));
        answers.settle(IP, DnsAnswer::Failed, start + 61 * SECOND);
        assert_eq!(get(&answers, IP, start + 62 * SECOND), (fw1(), false));
        assert_eq!(
            get(&answers, IP, start + 121 * SECOND),
            (fw1(), true),
            "after a failure"
        );
        answers.settle(IP, DnsAnswer::NoName(30 * SECOND), start + 121 * SECOND);
        assert_eq!(
            get(&answers, IP, start + 122 * SECOND),
            (None, false),
            "it has none now"
        );
        assert_eq!(get(&answers, IP, start + 151 * SECOND), (None, true));
    }

    #[test]
    fn what_finds_no_room_is_counted_and_tried_again() {
        let (answers, start) = (DnsCache::new(), Instant::now());
        assert_eq!(answers.get(IP, start, || false), None);
        assert_eq!(answers.dropped.get(), 1);
        assert_eq!(get(&answers, IP, start), (None, true));
    }

    #[test]
    fn who_was_not_asked_for_longest_is_forgotten() {
        let (answers, start) = (DnsCache::new(), Instant::now());
        let ip = |n: u32| IpAddr::from(n.to_be_bytes());
        for n in 0..SENDERS_MAX as u32 {
            answers.settle(ip(n), named("a", 60 * SECOND), start);
        }
        assert!(get(&answers, ip(0), start).0.is_some());
        answers.settle(ip(u32::MAX), named("b", 60 * SECOND), start);
        assert_eq!(answers.state().by_sender.len(), SENDERS_MAX);
        assert!(get(&answers, ip(0), start).0.is_some());
        assert_eq!(get(&answers, ip(1), start), (None, true));
        assert!(answers.state().asked.len() <= 1);
    }
}
