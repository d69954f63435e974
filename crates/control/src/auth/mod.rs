//! Access to the admin API: one password for people, tokens for scripts.
//!
//! # What it guarantees
//! * Where a password or a token is configured, nothing but the page, the login and a bare
//!   `/healthz` is answered without one.
//! * A session is 256 random bits in a cookie that scripts cannot read and other sites cannot send.
//!   It is always made here, so nobody can plant one; it ends at logout, when it was idle for
//!   [`IDLE`], after `admin.session_hours`, when the password changes, and with the process.
//! * A change made with a session carries its CSRF token. A bearer token needs none: no browser
//!   sends it by itself.
//! * An answer that streams ends with the session or token that it was asked for with.
//! * Guessing is slow: see [`throttle`] and [`desk`]. Every attempt is counted, some are logged.
//!
//! # Limits
//! [`sessions::SESSIONS_MAX`] sessions, [`throttle::PEERS_MAX`] addresses remembered,
//! [`desk::WAITING_MAX`] logins that wait, one that is checked.

mod cookie;
mod desk;
mod endpoints;
mod held;
mod sessions;
mod throttle;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue, Method, header};
use inrush_config::{AdminOptions, HashingError, PasswordHash};
use inrush_event::{Metric, Secret};
use inrush_event::{MetricPart, MetricSample};
use subtle::ConstantTimeEq;

use cookie::Cookie;
use desk::HashQueue;
use sessions::{SessionId, Sessions};
use throttle::Throttle;

pub(crate) use endpoints::{LOGIN_PATH, SESSION_PATH, router};
pub(crate) use held::held;

/// The header of a change that was asked for by the page.
const CSRF_HEADER: &str = "x-inrush-csrf";

/// Idle time after which a session ends: nothing was heard of it. An open page is heard of once a
/// second.
const IDLE: Duration = Duration::from_secs(3600);

/// Address that a request came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAddress(pub(crate) IpAddr);

/// By what a request came in.
#[derive(Clone)]
pub(crate) enum RequestCredential {
    /// Nobody is asked.
    Open,
    /// A session's cookie.
    Session(SessionId),
    /// A token of the configuration.
    Token(Secret),
}

/// Reason that a request stays outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AuthRejection {
    /// Neither session nor token, or not a good one.
    Stranger,
    /// A change without the session's CSRF token.
    Forged,
}

/// Keys to the door: the hash of the password, and the tokens.
struct AdminCredentials {
    options: AdminOptions,
    password: Option<PasswordHash>,
    tokens: Vec<Secret>,
}

/// Counters of logins and of refused requests, by result.
#[derive(Default)]
struct AuthCounters {
    logins: AtomicU64,
    refused: AtomicU64,
    throttled: AtomicU64,
    strangers: AtomicU64,
    forged: AtomicU64,
}

/// The door of the admin API.
pub(crate) struct AccessControl {
    /// Swapped by a reload; held only to compare.
    keys: RwLock<AdminCredentials>,
    /// Held only to look up. Order: never together with `keys` or `throttle`.
    sessions: Mutex<Sessions>,
    throttle: Mutex<Throttle>,
    desk: HashQueue,
    cookie: Cookie,
    counts: AuthCounters,
    /// Longest time for the body of a login.
    body: Duration,
}

impl AccessControl {
    /// The door as `options` have it; `port` is the one really bound; `body` is
    /// how long the body of a login may take.
    ///
    /// # Errors
    /// A plain password cannot be hashed.
    pub(crate) fn new(
        options: &AdminOptions,
        port: u16,
        body: Duration,
    ) -> Result<Self, HashingError> {
        Ok(Self {
            keys: RwLock::new(AdminCredentials::of(options)?),
            sessions: Mutex::default(),
            throttle: Mutex::default(),
            desk: HashQueue::default(),
            cookie: Cookie::new(port, options.tls.is_some()),
            counts: AuthCounters::default(),
            body,
        })
    }

    /// Takes on what a reload changed. Another password ends all sessions.
    ///
    /// # Errors
    /// A plain password cannot be hashed; the old keys stay.
    pub(crate) fn renew(&self, options: &AdminOptions) -> Result<(), HashingError> {
        if self.keys(|keys| keys.options == *options) {
            return Ok(());
        }
        let new = AdminCredentials::of(options)?;
        let same_password = self.keys(|keys| {
            let old = &keys.options;
            (&old.password, &old.password_hash) == (&options.password, &options.password_hash)
        });
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = new;
        if !same_password {
            self.sessions().clear();
        }
        Ok(())
    }

    /// True if a password or a token is asked for.
    pub(crate) fn asks(&self) -> bool {
        self.keys(|keys| keys.options.asks())
    }

    /// By what the sender of these headers may come in.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<RequestCredential, AuthRejection> {
        if !self.asks() {
            return Ok(RequestCredential::Open);
        }
        let admitted = match headers.get(header::AUTHORIZATION).and_then(bearer) {
            Some(shown) => self.token(shown).map(RequestCredential::Token),
            None => self.cookie.of(headers).into_iter().find_map(|id| {
                let alive = self.alive(&id);
                alive.then_some(RequestCredential::Session(id))
            }),
        };
        admitted.ok_or(AuthRejection::Stranger)
    }

    /// Checks that a request that came in so may do what it asks for.
    pub(crate) fn allow(
        &self,
        pass: &RequestCredential,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<(), AuthRejection> {
        let RequestCredential::Session(id) = pass else {
            return Ok(());
        };
        if method.is_safe() {
            return Ok(());
        }
        let shown = headers.get(CSRF_HEADER).map(|value| value.as_bytes());
        let csrf = self.sessions().csrf(id);
        let same = csrf
            .zip(shown)
            .is_some_and(|(csrf, shown)| bool::from(csrf.as_bytes().ct_eq(shown)));
        same.then_some(()).ok_or(AuthRejection::Forged)
    }

    /// True if the pass by which an answer was begun is still good. A session is heard of by it.
    fn still(&self, pass: &RequestCredential) -> bool {
        match pass {
            RequestCredential::Open => !self.asks(),
            RequestCredential::Session(id) => self.alive(id),
            RequestCredential::Token(token) => self.keys(|keys| keys.tokens.contains(token)),
        }
    }

    /// Counts a request that was refused.
    pub(crate) fn note(&self, refused: AuthRejection) {
        let counter = match refused {
            AuthRejection::Stranger => &self.counts.strangers,
            AuthRejection::Forged => &self.counts.forged,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Samples of it for `/metrics`.
    pub(crate) fn metrics(&self) -> Vec<MetricSample> {
        let counts = &self.counts;
        let rows = [
            (Metric::AdminLogins, "result", "ok", &counts.logins),
            (Metric::AdminLogins, "result", "refused", &counts.refused),
            (
                Metric::AdminLogins,
                "result",
                "throttled",
                &counts.throttled,
            ),
            (Metric::AdminRefused, "reason", "login", &counts.strangers),
            (Metric::AdminRefused, "reason", "csrf", &counts.forged),
        ];
        let sample = |(metric, label, value, count): (_, _, &str, &AtomicU64)| MetricSample {
            metric,
            part: MetricPart::Whole,
            labels: vec![(label, value.to_owned())],
            value: count.load(Relaxed) as f64,
        };
        rows.into_iter().map(sample).collect()
    }

    fn alive(&self, id: &SessionId) -> bool {
        let lifetime = self.keys(AdminCredentials::lifetime);
        self.sessions().alive(id, lifetime, Instant::now())
    }

    /// The configured token that is shown. All are compared, each in a time that says nothing of
    /// how much of it was right.
    fn token(&self, shown: &[u8]) -> Option<Secret> {
        self.keys(|keys| {
            let mut found = None;
            for known in &keys.tokens {
                if bool::from(known.expose().as_bytes().ct_eq(shown)) {
                    found = Some(known.clone());
                }
            }
            found
        })
    }

    fn keys<T>(&self, look: impl FnOnce(&AdminCredentials) -> T) -> T {
        look(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn throttle(&self) -> MutexGuard<'_, Throttle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AdminCredentials {
    fn of(options: &AdminOptions) -> Result<Self, HashingError> {
        let password = match (&options.password_hash, &options.password) {
            (Some(hash), _) => Some(hash.clone()),
            (None, Some(password)) => Some(PasswordHash::of(password.expose())?),
            (None, None) => None,
        };
        Ok(Self {
            password,
            tokens: options.tokens.clone(),
            options: options.clone(),
        })
    }

    fn lifetime(&self) -> Duration {
        Duration::from_secs(3600 * u64::from(self.options.session_hours))
    }
}

/// The token of an `Authorization` header (RFC 6750). Another scheme is that of a proxy before us.
fn bearer(shown: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = shown.as_bytes().split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| token.trim_ascii())
}

/// Result of a login.
enum LoginOutcome {
    /// The value of the `Set-Cookie` header.
    In(String),
    /// Not the password.
    Wrong,
    /// To be tried again after this time.
    Later(Duration),
    /// Nobody can log in.
    NoPassword,
    /// Too many wait.
    Busy,
    /// The system gave no thread or no random bytes.
    Failed,
}

impl AccessControl {
    /// Checks a password that came from `peer`.
    async fn login(self: &Arc<Self>, peer: IpAddr, password: String) -> LoginOutcome {
        let Some(hash) = self.keys(|keys| keys.password.clone()) else {
            return LoginOutcome::NoPassword;
        };
        if let Some(wait) = self.throttled(peer) {
            return LoginOutcome::Later(wait);
        }
        let Some(turn) = self.desk.turn().await else {
            self.counts.throttled.fetch_add(1, Relaxed);
            return LoginOutcome::Busy;
        };
        // Those who waited behind a wrong guess from the same address wait with it.
        if let Some(wait) = self.throttled(peer) {
            return LoginOutcome::Later(wait);
        }
        let access = Arc::clone(self);
        let check = move || hash.matches(&password);
        let right = desk::check(turn, check, move |right| access.settle(peer, right)).await;
        match right {
            Some(true) => self.begin().map_or(LoginOutcome::Failed, LoginOutcome::In),
            Some(false) => LoginOutcome::Wrong,
            None => LoginOutcome::Failed,
        }
    }

    fn throttled(&self, peer: IpAddr) -> Option<Duration> {
        let wait = self.throttle().wait(peer, Instant::now())?;
        self.counts.throttled.fetch_add(1, Relaxed);
        Some(wait)
    }

    /// Counts an attempt, whether or not whoever made it still waits for the answer.
    fn settle(&self, peer: IpAddr, right: bool) {
        if right {
            self.throttle().right(peer);
            self.counts.logins.fetch_add(1, Relaxed);
            tracing::info!(%peer, "admin: logged in");
            return;
        }
        let failures = self.throttle().wrong(peer, Instant::now());
        self.counts.refused.fetch_add(1, Relaxed);
        // The 4th, 8th, 16th…: guessing is seen, and does not fill the log.
        if failures >= throttle::FREE_TRIES && failures.is_power_of_two() {
            tracing::warn!(%peer, failures, "admin: wrong passwords");
        }
    }

    fn begin(&self) -> Option<String> {
        let lifetime = self.keys(AdminCredentials::lifetime);
        let id = self.sessions().open(lifetime, Instant::now())?;
        Some(self.cookie.set(&id))
    }
}
