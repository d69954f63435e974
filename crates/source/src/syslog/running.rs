//! A syslog source that runs: its listeners, opened and closed over reloads.
//!
//! # What it guarantees
//! * A listener that stays in the configuration stays open.
//! * A UDP socket that is closed is emptied first. While the queue is full its thread may wait for
//!   room: it is then left to end by itself, and reaped by [`Source::tick`].
//!
//! # Limits
//! A closed listener's threads are waited for at most [`LEAVING_BOUND`].

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use inrush_event::{Metric, MetricsPage, Protocol, Timestamp};
use inrush_ingest::batch_writer::source::IngestSource;
use inrush_ingest::enrichment::Enrichment;
use inrush_transport::config::ListenAddr;
use inrush_transport::listen;
use inrush_transport::refusal::Refusal;
use inrush_transport::tls::Refresh;

use super::acceptor::StreamListener;
use super::live::{LiveSource, SourceSettings};
use super::options::SyslogSource;
use super::runtime::StreamRuntime;
use super::udp::{self, UdpWorker};
use crate::options::SourceOptions;
use crate::refusals::PersistentRefusal;
use crate::{Source, SourceServices, SourceState};

/// Timeout for the threads of a listener that was closed, at a reload and at the stop.
const LEAVING_BOUND: Duration = Duration::from_secs(2);

/// One listening address.
struct RunningListener {
    configured: ListenAddr,
    /// The address really bound.
    bound: ListenAddr,
    udp: Vec<UdpWorker>,
}

/// Listeners of one source, and options that wait to be taken on.
struct Listeners {
    config: SyslogSource,
    open: Vec<RunningListener>,
    /// Listeners that were closed while their threads waited for room in the queue.
    leaving: Vec<RunningListener>,
    prepared: Option<(SyslogSource, SourceSettings)>,
}

/// A syslog source that runs.
pub(super) struct RunningSyslog {
    live: Arc<LiveSource>,
    services: Arc<SourceServices>,
    streams: Arc<StreamRuntime>,
    listeners: Mutex<Listeners>,
}

impl RunningSyslog {
    /// Starts the source; what could not be opened is told beside it.
    ///
    /// # Errors
    /// A certificate or a time zone that cannot be used, or no thread can be had.
    pub(super) fn start(
        name: &str,
        options: &SyslogSource,
        services: &Arc<SourceServices>,
        known: &Enrichment,
    ) -> Result<(Arc<Self>, Vec<String>), String> {
        let settings = SourceSettings::resolve(name, options, None, known)?;
        let live = LiveSource::new(name, settings, &services.context.ledger);
        let streams = services.shared(|| {
            StreamRuntime::start(&services.context, services.sizes, &services.connections)
        });
        let running = Self {
            live,
            services: Arc::clone(services),
            streams: streams.map_err(|error| format!("source {name}: {error}"))?,
            listeners: Mutex::new(Listeners {
                config: options.clone(),
                open: Vec::new(),
                leaving: Vec::new(),
                prepared: None,
            }),
        };
        let problems = running.open();
        Ok((Arc::new(running), problems))
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the addresses that are configured and not open. Returns what could not be, in words.
    fn open(&self) -> Vec<String> {
        let mut listeners = self.listeners();
        let Listeners { config, open, .. } = &mut *listeners;
        let mut problems = Vec::new();
        for address in &config.listen {
            if open.iter().any(|one| one.configured == *address) {
                continue;
            }
            let opened = match address.protocol {
                Protocol::Udp => self.open_udp(config, *address),
                _ => self.open_stream(config, *address),
            };
            match opened {
                Ok(listener) => open.push(listener),
                Err(problem) => problems.push(format!("source {}: {problem}", self.live.name())),
            }
        }
        problems
    }

    fn open_udp(
        &self,
        config: &SyslogSource,
        address: ListenAddr,
    ) -> Result<RunningListener, String> {
        let options = &config.udp;
        let context = &self.services.context;
        let inherited = self.services.inherited(&address).into_iter();
        let inherited = inherited.map(Into::into).collect();
        let workers = context.pool_threads.size() + 1;
        let opened = udp::open(address, options, workers, inherited)?;
        let mut bound = address;
        let mut udp = Vec::new();
        for (number, (receiver, granted_bytes)) in opened.receivers.into_iter().enumerate() {
            let worker = || -> io::Result<UdpWorker> {
                bound.addr = receiver.local_addr();
                self.live
                    .add_sockets(bound, receiver.probes(), granted_bytes);
                UdpWorker::start(
                    context.clone().of_worker(number),
                    Arc::clone(&self.live),
                    receiver,
                    granted_bytes,
                    opened.shared,
                    options.balance,
                )
            };
            udp.push(worker().map_err(|error| format!("{address}: {error}"))?);
        }
        Ok(RunningListener {
            configured: address,
            bound,
            udp,
        })
    }

    fn open_stream(
        &self,
        config: &SyslogSource,
        address: ListenAddr,
    ) -> Result<RunningListener, String> {
        let passed = self.services.inherited(&address).into_iter().next();
        let listener = match passed {
            Some(socket) => std::net::TcpListener::from(socket),
            None => listen::tcp_listener(address).map_err(|error| error.to_string())?,
        };
        let keepalive = config.stream.keepalive.0;
        let set_up = || -> io::Result<_> {
            listen::set_keepalive(&listener, keepalive)?;
            listener.local_addr()
        };
        let addr = set_up().map_err(|error| format!("{address}: {error}"))?;
        let bound = ListenAddr {
            protocol: address.protocol,
            addr,
        };
        self.streams.listen(StreamListener {
            configured: address,
            listener: mio::net::TcpListener::from_std(listener),
            source: Arc::clone(&self.live),
        });
        Ok(RunningListener {
            configured: address,
            bound,
            udp: Vec::new(),
        })
    }

    /// Closes listeners; their UDP sockets are emptied first and refuse what still comes.
    fn close_listeners(&self, listeners: Vec<RunningListener>) {
        for listener in &listeners {
            if listener.udp.is_empty() {
                self.streams.close(listener.configured);
            }
            listener.udp.iter().for_each(UdpWorker::stop);
        }
        let udp = || listeners.iter().flat_map(|listener| &listener.udp);
        wait_until(Instant::now() + LEAVING_BOUND, || {
            udp().all(UdpWorker::ended)
        });
        self.listeners().leaving.extend(listeners);
        self.reap();
    }

    /// Frees the listeners whose threads have ended.
    fn reap(&self) {
        let mut listeners = self.listeners();
        let ended = |listener: &mut RunningListener| listener.udp.iter().all(UdpWorker::ended);
        for listener in listeners.leaving.extract_if(.., ended) {
            listener.udp.into_iter().for_each(UdpWorker::join);
            self.live.forget_sockets(listener.bound);
        }
    }

    fn refresh_certificate(&self) {
        let Some(tls) = self.live.settings().tls.clone() else {
            return;
        };
        let source = self.live.name();
        match tls.refresh() {
            Refresh::Unchanged => {}
            Refresh::Reloaded { not_after } => {
                self.live.tls_reloads.add(1);
                tracing::info!(source, not_after, "certificate reloaded");
            }
            Refresh::Kept(error) => {
                self.live.tls_reload_failures.add(1);
                tracing::warn!(source, %error, "the last good certificate is kept");
            }
        }
    }

    /// Says who was turned away, and where descriptors ran out who has most connections.
    fn tell_refusals(&self) {
        let lines = self.live.refusals().lines(Instant::now());
        for line in &lines {
            tracing::warn!(source = self.live.name(), "connections refused: {line}");
        }
        let short = Refusal::NoDescriptors.words();
        let connections = &self.services.connections;
        if lines.iter().any(|line| line.contains(short))
            && let Some((address, count)) = connections.busiest()
        {
            let (limit, reserved) = (connections.limit(), connections.reserved());
            tracing::warn!(
                limit,
                reserved,
                "connections refused: most are of {address}, which has {count}; {}",
                Refusal::NoDescriptors.remedy()
            );
        }
    }
}

impl Source for RunningSyslog {
    fn ingest(&self) -> &Arc<IngestSource> {
        &self.live.ingest
    }

    fn prepare(&self, options: &dyn SourceOptions, known: &Enrichment) -> Result<(), String> {
        let name = self.live.name();
        let Some(options) = options.as_any().downcast_ref::<SyslogSource>() else {
            return Err(format!(
                "source {name}: its type cannot change while running"
            ));
        };
        let mut listeners = self.listeners();
        let before = Some((&listeners.config, &*self.live));
        let settings = SourceSettings::resolve(name, options, before, known)?;
        listeners.prepared = Some((options.clone(), settings));
        Ok(())
    }

    fn release(&self) {
        let mut listeners = self.listeners();
        let Listeners { open, prepared, .. } = &mut *listeners;
        let Some((wanted, _)) = prepared else {
            return;
        };
        let gone = |one: &mut RunningListener| !wanted.listen.contains(&one.configured);
        let gone: Vec<RunningListener> = open.extract_if(.., gone).collect();
        drop(listeners);
        self.close_listeners(gone);
    }

    fn commit(&self) -> Vec<String> {
        let mut listeners = self.listeners();
        if let Some((options, settings)) = listeners.prepared.take() {
            self.live.replace_settings(settings);
            listeners.config = options;
        }
        drop(listeners);
        self.open()
    }

    fn listeners(&self) -> Vec<ListenAddr> {
        let listeners = Self::listeners(self);
        listeners.open.iter().map(|one| one.bound).collect()
    }

    fn is_incomplete(&self) -> bool {
        let listeners = Self::listeners(self);
        listeners.open.len() < listeners.config.listen.len()
    }

    fn state(&self) -> SourceState {
        let (sockets, receive_buffer_bytes) = self.live.sockets();
        let refusals = self.live.refusals();
        let (refused, refused_others) = (refusals.list(), refusals.others());
        drop(refusals);
        let tls = self.live.settings().tls.clone();
        SourceState {
            connections: self.live.connections.get(),
            sockets,
            receive_buffer_bytes,
            certificate_not_after: tls.map(|tls| tls.not_after()),
            connection_errors: self.live.connection_errors(),
            refused,
            refused_others,
        }
    }

    fn metrics(&self, page: &mut MetricsPage) {
        let (live, name) = (&self.live, self.live.name());
        let labels = || vec![("source", name)];
        let mut add = |metric, value: u64| page.add(metric, labels(), value as f64);
        add(Metric::SourceConnections, live.connections.get());
        add(
            Metric::SourceConnectionsAccepted,
            live.connections_accepted.get(),
        );
        add(Metric::SourceReceiveBuffer, live.sockets().1);
        for (reason, n) in live.connection_errors() {
            let labels = vec![("source", name), ("reason", reason.as_str())];
            page.add(Metric::SourceConnectionErrors, labels, n as f64);
        }
        if let Some(tls) = &live.settings().tls {
            let not_after = tls.not_after() as f64;
            page.add(Metric::TlsCertificateNotAfter, labels(), not_after);
            for (result, counter) in [
                ("ok", &live.tls_reloads),
                ("failed", &live.tls_reload_failures),
            ] {
                let labels = vec![("source", name), ("result", result)];
                page.add(Metric::TlsReloads, labels, counter.get() as f64);
            }
        }
    }

    fn count_kernel_drops(&self) {
        self.live.count_kernel_drops();
    }

    fn tick(&self) {
        self.reap();
        self.refresh_certificate();
        self.tell_refusals();
    }

    fn lasting_refusals(&self, now: Timestamp) -> Vec<PersistentRefusal> {
        self.live.refusals().lasting(now)
    }

    fn is_dead(&self) -> bool {
        let listeners = Self::listeners(self);
        let mut udp = listeners.open.iter().flat_map(|listener| &listener.udp);
        udp.any(UdpWorker::ended) || self.streams.is_dead()
    }

    fn close(&self) {
        let open = std::mem::take(&mut Self::listeners(self).open);
        self.close_listeners(open);
        self.streams.forget(&self.live);
    }

    fn stop(&self) {
        let listeners = Self::listeners(self);
        let udp = listeners.open.iter().flat_map(|listener| &listener.udp);
        udp.for_each(UdpWorker::stop);
    }

    fn ended(&self) -> bool {
        let listeners = Self::listeners(self);
        let mut udp = listeners.open.iter().flat_map(|listener| &listener.udp);
        udp.all(UdpWorker::ended)
    }

    fn join(&self) {
        let mut listeners = Self::listeners(self);
        let open = std::mem::take(&mut listeners.open);
        listeners.leaving.extend(open);
        drop(listeners);
        wait_until(Instant::now() + LEAVING_BOUND, || {
            self.reap();
            Self::listeners(self).leaving.is_empty()
        });
    }
}

/// Waits for something that other threads do, at most until `deadline`.
fn wait_until(deadline: Instant, done: impl Fn() -> bool) {
    while !done() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(2));
    }
}
