//! One connection to one endpoint, and what belongs to it: the channel and the cookies with which
//! acknowledgements are asked for where the events went.
//!
//! Behind a load balancer a connection leads to one of several collectors. So it is given up, and
//! the next request goes over a fresh one, when a request over it failed, and when it is old or
//! has carried enough. What still waits for its acknowledgement keeps its link until then.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::HeaderValue;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::client::{Answer, HttpClient};
use super::cookie::Jar;

/// The event loop of a worker's connections. It is driven by who waits for an answer.
pub(crate) struct EventLoop(Option<Runtime>);

impl EventLoop {
    pub(crate) fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            // For names that have to be resolved; one request at a time needs one.
            .max_blocking_threads(1)
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// The outcome, or `None` if the process stops first.
    pub(crate) fn run<T>(
        &self,
        stop: &watch::Sender<bool>,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut stop = stop.subscribe();
        self.0.as_ref()?.block_on(async {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => None,
                done = work => Some(done),
            }
        })
    }

    /// Lets connections that nobody needs any more close.
    fn turn(&self) {
        if let Some(runtime) = &self.0 {
            runtime.block_on(async {
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
            });
        }
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        // A name that is being resolved cannot be broken off and must not hold up the end.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A connection to one endpoint; opened anew where the other side closed it.
pub(crate) struct HttpConnection {
    pub(crate) endpoint: usize,
    pub(crate) http: reqwest::Client,
    pub(crate) wheel: Arc<EventLoop>,
    /// Name of a session that no other link has, for destinations that ask later for what became
    /// of a request: they need the connection and its cookies.
    pub(crate) session: Option<HeaderValue>,
    cookies: Mutex<Jar>,
    /// Lock of its user: a request with events, or a question for acknowledgements.
    turn: Mutex<()>,
    /// Time at which it is to be renewed, if at all.
    ends: Option<Instant>,
    /// Requests that it may still carry.
    left: AtomicU32,
    /// Our end of the connection over which the last answer came.
    via: Mutex<Option<SocketAddr>>,
}

impl HttpConnection {
    /// Waits until nobody else uses it.
    pub(crate) fn take_turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same without waiting; `None` while somebody uses it.
    pub(crate) fn try_turn(&self) -> Option<MutexGuard<'_, ()>> {
        use std::sync::TryLockError::{Poisoned, WouldBlock};
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(Poisoned(turn)) => Some(turn.into_inner()),
            Err(WouldBlock) => None,
        }
    }

    /// A request with events is about to be sent; whether it is the last one.
    pub(crate) fn count(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        self.left.fetch_update(Relaxed, Relaxed, less) == Ok(1)
    }

    /// Takes note of what an answer says about the connection; whether that is another one than
    /// before.
    pub(crate) fn note(&self, answer: &Answer) -> bool {
        if self.session.is_some() {
            let mut jar = self.cookies();
            answer.cookies.iter().for_each(|cookie| jar.set(cookie));
        }
        let mut via = self.via.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *via, answer.via);
        before.is_some() && before != answer.via
    }

    /// The `Cookie` header of a request to this path.
    pub(crate) fn cookie(&self, path: &str) -> Option<HeaderValue> {
        let header = self.cookies().header(path)?;
        HeaderValue::from_str(&header).ok()
    }

    fn cookies(&self) -> MutexGuard<'_, Jar> {
        self.cookies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_worn(&self) -> bool {
        self.left.load(Relaxed) == 0 || self.ends.is_some_and(|ends| ends <= Instant::now())
    }
}

/// A worker's connections, one to each endpoint.
pub(crate) struct WorkerConnections {
    wheel: Arc<EventLoop>,
    links: Vec<Option<Arc<HttpConnection>>>,
    limits: ConnectionLimits,
}

/// Bounds of a connection's age and of its requests, at which it is renewed.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionLimits {
    age: Option<Duration>,
    requests: Option<u32>,
}

impl ConnectionLimits {
    /// Bounds by options; an age of zero is none.
    pub(crate) fn new(age: Duration, requests: Option<NonZeroU32>) -> Self {
        let age = Some(age).filter(|age| !age.is_zero());
        let requests = requests.map(NonZeroU32::get);
        Self { age, requests }
    }

    /// Half of it to all of it: connections that were opened together do not end together.
    fn draw(&self) -> (Option<Instant>, u32) {
        let part = 0.5 + fastrand::f64() / 2.0;
        let ends = self.age.map(|age| Instant::now() + age.mul_f64(part));
        let requests = self.requests.map_or(u32::MAX, |requests| {
            (f64::from(requests) * part).ceil() as u32
        });
        (ends, requests)
    }
}

impl WorkerConnections {
    /// No connection yet.
    ///
    /// # Errors
    /// The kernel gives no descriptors.
    pub(crate) fn new(endpoints: usize, limits: ConnectionLimits) -> io::Result<Self> {
        let links = std::iter::repeat_with(|| None).take(endpoints).collect();
        let wheel = Arc::new(EventLoop::new()?);
        Ok(Self {
            wheel,
            links,
            limits,
        })
    }

    /// The connection to an endpoint; another one than before where that is due and `renewable`. A
    /// new one has the name of `session`.
    ///
    /// # Errors
    /// The system gives none.
    pub(crate) fn link(
        &mut self,
        client: &HttpClient,
        endpoint: usize,
        renewable: bool,
        session: impl FnOnce() -> io::Result<Option<HeaderValue>>,
    ) -> io::Result<Arc<HttpConnection>> {
        let known = self.links[endpoint].as_ref();
        if let Some(link) = known.filter(|link| !(renewable && link.is_worn())) {
            return Ok(Arc::clone(link));
        }
        self.renew(endpoint);
        let (ends, requests) = self.limits.draw();
        let link = Arc::new(HttpConnection {
            endpoint,
            http: client.http()?,
            wheel: Arc::clone(&self.wheel),
            session: session()?,
            cookies: Mutex::default(),
            turn: Mutex::default(),
            ends,
            left: AtomicU32::new(requests),
            via: Mutex::default(),
        });
        self.links[endpoint] = Some(Arc::clone(&link));
        Ok(link)
    }

    /// Has the next request go over a fresh connection.
    pub(crate) fn renew(&mut self, endpoint: usize) {
        if self.links[endpoint].take().is_some() {
            self.wheel.turn();
        }
    }
}
