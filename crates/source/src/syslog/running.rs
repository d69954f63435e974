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
use inrush_stream::refusals::PersistentRefusal;
use inrush_stream::{OpenListeners, StreamRuntime, StreamSettings};
use inrush_transport::config::ListenAddr;

use super::live::{self, LiveSource};
use super::options::SyslogSource;
use super::udp::{self, UdpWorker};
use crate::options::{SourceOptions, of_type};
use crate::{Source, SourceServices, SourceState};

/// Timeout for the threads of a listener that was closed, at a reload and at the stop.
const LEAVING_BOUND: Duration = Duration::from_secs(2);

/// One UDP address.
struct UdpListener {
    configured: ListenAddr,
    /// The address really bound.
    bound: ListenAddr,
    workers: Vec<UdpWorker>,
}

/// Listeners of one source, and options that wait to be taken on.
struct Listeners {
    config: SyslogSource,
    streams: OpenListeners,
    udp: Vec<UdpListener>,
    /// Listeners that were closed while their threads waited for room in the queue.
    leaving: Vec<UdpListener>,
    prepared: Option<(SyslogSource, StreamSettings)>,
}

impl Listeners {
    /// Addresses that are bound, in the order of the configuration.
    fn bound(&self) -> Vec<ListenAddr> {
        let udp = |address: &ListenAddr| {
            let mut udp = self.udp.iter();
            let found = udp.find(|one| one.configured == *address);
            found.map(|one| one.bound)
        };
        let bound = |address| udp(address).or_else(|| self.streams.bound(address));
        self.config.listen.iter().filter_map(bound).collect()
    }

    fn udp_workers(&self) -> impl Iterator<Item = &UdpWorker> {
        self.udp.iter().flat_map(|listener| &listener.workers)
    }
}

/// A syslog source that runs.
pub(super) struct RunningSyslog {
    live: LiveSource,
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
        let settings = live::resolve(name, options, None, known)?;
        let live = LiveSource::new(name, settings, &services.context.ledger);
        let streams = services.streams();
        let running = Self {
            live,
            services: Arc::clone(services),
            streams: streams.map_err(|error| format!("source {name}: {error}"))?,
            listeners: Mutex::new(Listeners {
                config: options.clone(),
                streams: OpenListeners::default(),
                udp: Vec::new(),
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
        let Listeners {
            config,
            streams,
            udp,
            ..
        } = &mut *listeners;
        let listen = config.listen.iter().copied();
        let (datagrams, connections): (Vec<_>, Vec<_>) =
            listen.partition(|address| address.protocol == Protocol::Udp);
        let live = &self.live.streams;
        let stream = &config.stream;
        let mut problems = streams.open(&connections, stream, &self.streams, live, |address| {
            self.services.inherited(address).into_iter().next()
        });
        for address in datagrams {
            if udp.iter().any(|one| one.configured == address) {
                continue;
            }
            match self.open_udp(config, address) {
                Ok(listener) => udp.push(listener),
                Err(problem) => problems.push(format!("source {}: {problem}", live.name())),
            }
        }
        problems
    }

    fn open_udp(&self, config: &SyslogSource, address: ListenAddr) -> Result<UdpListener, String> {
        let options = &config.udp;
        let context = &self.services.context;
        let inherited = self.services.inherited(&address).into_iter();
        let inherited = inherited.map(Into::into).collect();
        let threads = context.pool_threads.size() + 1;
        let opened = udp::open(address, options, threads, inherited)?;
        let mut bound = address;
        let mut workers = Vec::new();
        for (number, (receiver, granted_bytes)) in opened.receivers.into_iter().enumerate() {
            let worker = || -> io::Result<UdpWorker> {
                bound.addr = receiver.local_addr();
                self.live
                    .add_sockets(bound, receiver.probes(), granted_bytes);
                UdpWorker::start(
                    context.clone().of_worker(number),
                    Arc::clone(&self.live.streams.ingest),
                    receiver,
                    granted_bytes,
                    opened.shared,
                    options.balance,
                )
            };
            workers.push(worker().map_err(|error| format!("{address}: {error}"))?);
        }
        Ok(UdpListener {
            configured: address,
            bound,
            workers,
        })
    }

    /// Closes UDP listeners; their sockets are emptied first and refuse what still comes.
    fn close_udp(&self, listeners: Vec<UdpListener>) {
        let workers = || listeners.iter().flat_map(|listener| &listener.workers);
        workers().for_each(UdpWorker::stop);
        wait_until(Instant::now() + LEAVING_BOUND, || {
            workers().all(UdpWorker::ended)
        });
        self.listeners().leaving.extend(listeners);
        self.reap();
    }

    /// Frees the listeners whose threads have ended.
    fn reap(&self) {
        let mut listeners = self.listeners();
        let ended = |listener: &mut UdpListener| listener.workers.iter().all(UdpWorker::ended);
        for listener in listeners.leaving.extract_if(.., ended) {
            listener.workers.into_iter().for_each(UdpWorker::join);
            self.live.forget_sockets(listener.bound);
        }
    }
}

impl Source for RunningSyslog {
    fn ingest(&self) -> &Arc<IngestSource> {
        &self.live.streams.ingest
    }

    fn prepare(&self, options: &dyn SourceOptions, known: &Enrichment) -> Result<(), String> {
        let name = self.live.streams.name();
        let options = of_type::<SyslogSource>(options, name)?;
        let mut listeners = self.listeners();
        let before = Some((&listeners.config, &*self.live.streams));
        let settings = live::resolve(name, options, before, known)?;
        listeners.prepared = Some((options.clone(), settings));
        Ok(())
    }

    fn release(&self) {
        let mut listeners = self.listeners();
        let Listeners {
            streams,
            udp,
            prepared,
            ..
        } = &mut *listeners;
        let Some((wanted, _)) = prepared else {
            return;
        };
        streams.keep(&wanted.listen, &self.streams);
        let gone = |one: &mut UdpListener| !wanted.listen.contains(&one.configured);
        let gone: Vec<UdpListener> = udp.extract_if(.., gone).collect();
        drop(listeners);
        self.close_udp(gone);
    }

    fn commit(&self) -> Vec<String> {
        let mut listeners = self.listeners();
        if let Some((options, settings)) = listeners.prepared.take() {
            self.live.streams.replace_settings(settings);
            listeners.config = options;
        }
        drop(listeners);
        self.open()
    }

    fn listeners(&self) -> Vec<ListenAddr> {
        Self::listeners(self).bound()
    }

    fn is_incomplete(&self) -> bool {
        let listeners = Self::listeners(self);
        listeners.bound().len() < listeners.config.listen.len()
    }

    fn state(&self) -> SourceState {
        let (sockets, receive_buffer_bytes) = self.live.sockets();
        SourceState {
            sockets,
            receive_buffer_bytes,
            ..self.live.streams.state().into()
        }
    }

    fn metrics(&self, page: &mut MetricsPage) {
        let streams = &self.live.streams;
        streams.metrics(page);
        let labels = vec![("source", streams.name())];
        let granted = self.live.sockets().1;
        page.add(Metric::SourceReceiveBuffer, labels, granted as f64);
    }

    fn count_kernel_drops(&self) {
        self.live.count_kernel_drops();
    }

    fn tick(&self) {
        self.reap();
        self.live.streams.refresh_certificate();
        self.live.streams.tell_refusals(&self.services.connections);
    }

    fn lasting_refusals(&self, now: Timestamp) -> Vec<PersistentRefusal> {
        self.live.streams.refusals().lasting(now)
    }

    fn is_dead(&self) -> bool {
        Self::listeners(self).udp_workers().any(UdpWorker::ended) || self.streams.is_dead()
    }

    fn close(&self) {
        let mut listeners = Self::listeners(self);
        listeners.streams.keep(&[], &self.streams);
        let udp = std::mem::take(&mut listeners.udp);
        drop(listeners);
        self.close_udp(udp);
        self.streams.forget(&self.live.streams);
    }

    fn stop(&self) {
        Self::listeners(self)
            .udp_workers()
            .for_each(UdpWorker::stop);
    }

    fn ended(&self) -> bool {
        Self::listeners(self).udp_workers().all(UdpWorker::ended)
    }

    fn join(&self) {
        let mut listeners = Self::listeners(self);
        let udp = std::mem::take(&mut listeners.udp);
        listeners.leaving.extend(udp);
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
