//! Pipeline of the process: its start, its reloads, and in `stop` its end.
//!
//! # What it guarantees
//! * Destinations open before sources, so that no event arrives before its way is open.
//! * A listener that its source keeps stays open over a reload.
//!
//! # States
//! [`Pipeline::start`] runs everything, or stops it again if a destination or source fails.
//! [`Pipeline::reload`] refuses unusable packs and options that need a restart before any change.
//! Any other problem is reported, and the rest is taken on. [`Pipeline::stop`] ends everything.
//!
//! # After a crash
//! The queue on disk continues from its cursors, so some events may be sent twice. Open batches and
//! a queue in memory are lost; a RELP sender repeats each unanswered message.

mod stop;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use inrush_event::{Counter, DropReason, Ledger, Protocol, Timestamp};
use inrush_queue::QuarantineLog;
use inrush_sink::{Quarantine, SinkConfig};
use inrush_transport::activation::Inherited;
use inrush_transport::config::ListenAddr;
use inrush_transport::listen;
use inrush_transport::nodes::Nodes;

use crate::ReloadReport;
use crate::acceptor::{Acceptor, Door};
use crate::config::{Config, SourceConfig, SyslogSource};
use crate::destination::{Destination, Surroundings};
use crate::enrichment::Enrichment;
use crate::filler::Doors;
use crate::given_up::GivenUp;
use crate::home;
use crate::meter::Meter;
use crate::near::Near;
use crate::owner::Owner;
use crate::places::Places;
use crate::pool::WorkPool;
use crate::quarantine::{self, Kept};
use crate::queue::{self, open_log};
use crate::recognise::Room;
use crate::source::{Settings, Source};
use crate::stream::{StreamWorker, WorkerHandle};
use crate::topology::{self, Graph, Listener, Loader, RunningSource, Shared};
use crate::udp::{self, UdpWorker};
use crate::unknown::Unknown;
use crate::watch::Watch;
use crate::zones::KeptZones;
use stop::wait_until;

/// Reasons that the pipeline could not start or take on a configuration, one line each.
#[derive(Debug)]
pub struct StartError(pub Vec<String>);

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for StartError {}

impl StartError {
    fn one(line: impl ToString) -> Self {
        Self(vec![line.to_string()])
    }
}

/// A running pipeline.
pub struct Pipeline {
    pub(crate) shared: Arc<Shared>,
    watch: Watch,
}

impl Pipeline {
    /// Opens destinations first, then sources, so that no event comes before its way is open.
    ///
    /// `inherited` are the sockets that systemd passed; `loader` reads the configuration anew.
    ///
    /// # Errors
    /// One line for each address, certificate or destination that could not be opened.
    pub fn start(config: Config, inherited: Inherited, loader: Loader) -> Result<Self, StartError> {
        let owner = home::open(&config).map_err(|what| {
            StartError::one(format!("data_dir {}: {what}", config.data_dir.display()))
        })?;
        let known = Enrichment::receiving(&config, None).map_err(StartError)?;
        let shared = Shared::open(&config, known, inherited, loader, owner);
        let shared = shared.map_err(StartError::one)?;
        let shared = Arc::new(shared);
        let problems = {
            let mut graph = shared.graph();
            let mut problems = shared.start_destinations(&mut graph, &config);
            shared.detach_unconfigured(&config);
            // Only now: it deletes what no destination needs.
            let writer = shared.log.start().map_err(StartError::one)?;
            *shared.writer.lock().unwrap_or_else(PoisonError::into_inner) = writer;
            // Before the first listener opens: by then the rest has what it needs all the time.
            shared.places.reserve(&config);
            problems.extend(shared.start_sources(&mut graph, &config));
            shared.places.reserve(&config);
            shared.places.warn(&config);
            shared.publish(&graph);
            problems
        };
        shared.given_up.told();
        let watch = Watch::start(Arc::clone(&shared)).map_err(StartError::one)?;
        let pipeline = Self { shared, watch };
        if problems.is_empty() {
            return Ok(pipeline);
        }
        pipeline.stop();
        Err(StartError(problems))
    }

    /// The addresses really bound, with the name of the source of each.
    pub fn listeners(&self) -> Vec<(String, ListenAddr)> {
        let graph = self.shared.graph();
        let of = |running: &RunningSource| {
            let name = running.source.name.clone();
            running
                .listeners
                .iter()
                .map(move |l| (name.clone(), l.bound))
                .collect::<Vec<_>>()
        };
        graph.sources.iter().flat_map(of).collect()
    }

    /// Interface for the admin API.
    pub fn admin(&self) -> Arc<dyn crate::Admin> {
        Arc::clone(&self.shared) as _
    }

    /// Reads the configuration again and takes it on, as `POST /api/v1/reload` does.
    ///
    /// # Errors
    /// One line a problem; the old configuration goes on.
    pub fn reload(&self) -> Result<ReloadReport, Vec<String>> {
        self.shared.reload()
    }

    /// Stops taking, takes in what the kernel holds, delivers within `shutdown_timeout`, and
    /// leaves the rest on disk; a queue in memory counts it as dropped.
    pub fn stop(self) {
        self.watch.stop();
        self.shared.stop();
    }
}

impl Shared {
    fn open(
        config: &Config,
        recognition: Enrichment,
        inherited: Inherited,
        loader: Loader,
        owner: Owner,
    ) -> io::Result<Self> {
        let ledger = Ledger::new();
        let given_up = GivenUp::open(&config.data_dir, &ledger);
        let log = open_log(config, &ledger)?;
        let quarantine = open_quarantine(config);
        let pool = log.pool();
        let budget = config.memory_budget();
        let cores = crate::config::worker_count(config.workers);
        let near = Near::new(Nodes::of_process(), Arc::clone(&pool));
        near.keep_free(budget.pool_arenas());
        let doors = Doors {
            pool: Arc::clone(&pool),
            log: Arc::clone(&log),
            ledger: Arc::clone(&ledger),
            room: Room::new(),
            unknown: Unknown::new(),
            pool_threads: WorkPool::new(cores),
            near,
            worker: 0,
        };
        let carry_bytes = budget.carry / cores as u64;
        let start = |number| {
            let doors = doors.clone().of_worker(number);
            StreamWorker::start(number, doors, carry_bytes)
        };
        let workers = (0..cores).map(start).collect::<io::Result<Vec<_>>>()?;
        let handles: Vec<WorkerHandle> = workers.iter().map(StreamWorker::handle).collect();
        let places = Places::new();
        let acceptor = Acceptor::start(handles.clone(), Arc::clone(&places))?;
        let graph = Graph {
            config: config.clone(),
            sources: Vec::new(),
            destinations: Vec::new(),
            recognition,
        };
        Ok(Self {
            ledger,
            log,
            started: Timestamp::now(),
            reloads: Counter::default(),
            reload_failures: Counter::default(),
            progress: Mutex::default(),
            trend: Mutex::default(),
            meter: Mutex::new(Meter::open()),
            graph: Mutex::new(graph),
            live_sources: Mutex::default(),
            live_stores: Mutex::default(),
            live_names: Mutex::default(),
            places,
            zones: KeptZones::open(&config.data_dir),
            given_up,
            inherited: Mutex::new(inherited),
            quarantine,
            doors,
            loader,
            workers: Mutex::new(workers),
            handles,
            acceptor: Mutex::new(Some(acceptor)),
            leaving: Mutex::default(),
            writer: Mutex::default(),
            _owner: owner,
        })
    }

    fn publish(&self, graph: &Graph) {
        let store = |to: &Destination| Some((to.name.clone(), Arc::clone(to.store.as_ref()?)));
        let stores = graph.destinations.iter().filter_map(store).collect();
        let sources = graph.sources.iter();
        let sources = sources.map(|running| Arc::clone(&running.source)).collect();
        *topology::lock(&self.live_names) = graph.recognition.names.clone();
        *topology::lock(&self.live_stores) = stores;
        *topology::lock(&self.live_sources) = sources;
    }

    fn start_destinations(&self, graph: &mut Graph, config: &Config) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, sink) in &config.destinations {
            match self.start_destination(name, sink, &config.data_dir) {
                Ok(destination) => graph.destinations.push(destination),
                Err(problem) => problems.push(problem),
            }
        }
        problems
    }

    fn start_destination(
        &self,
        name: &str,
        config: &SinkConfig,
        data_dir: &Path,
    ) -> Result<Destination, String> {
        let quarantine: Arc<dyn Quarantine> = Arc::clone(&self.quarantine) as _;
        let around = Surroundings {
            log: &self.log,
            ledger: &self.ledger,
            data_dir,
            quarantine: &quarantine,
            descriptors: self.places.limit(),
            kept: Some(&self.quarantine),
        };
        Destination::start(name, config, &around)
    }

    fn start_sources(&self, graph: &mut Graph, config: &Config) -> Vec<String> {
        let known = graph.recognition.clone();
        let mut problems = Vec::new();
        for (name, SourceConfig::Syslog(wanted)) in &config.sources {
            match self.start_source(name, wanted, &known) {
                Ok((running, failed)) => {
                    graph.sources.push(running);
                    problems.extend(failed);
                }
                Err(problem) => problems.push(problem),
            }
        }
        problems
    }

    fn start_source(
        &self,
        name: &str,
        config: &SyslogSource,
        known: &Enrichment,
    ) -> Result<(RunningSource, Vec<String>), String> {
        let source = Source::new(
            name,
            Settings::resolve(name, config, None, known)?,
            &self.ledger,
        );
        self.zones.give(&source.name, &source.zones);
        let mut running = RunningSource {
            source,
            config: config.clone(),
            listeners: Vec::new(),
        };
        let problems = self.open_listeners(&mut running, &config.listen);
        Ok((running, problems))
    }

    fn open_listeners(&self, running: &mut RunningSource, wanted: &[ListenAddr]) -> Vec<String> {
        let mut problems = Vec::new();
        for address in wanted {
            if running
                .listeners
                .iter()
                .any(|listener| listener.configured == *address)
            {
                continue;
            }
            let opened = match address.protocol {
                Protocol::Udp => self.open_udp(running, *address),
                _ => self.open_stream(running, *address),
            };
            match opened {
                Ok(listener) => running.listeners.push(listener),
                Err(problem) => problems.push(format!("source {}: {problem}", running.source.name)),
            }
        }
        problems
    }

    fn inherited(&self, address: &ListenAddr) -> Vec<socket2::Socket> {
        self.inherited
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(address)
    }

    fn open_udp(&self, running: &RunningSource, address: ListenAddr) -> Result<Listener, String> {
        let options = &running.config.udp;
        let inherited = self.inherited(&address).into_iter().map(Into::into);
        let workers = self.doors.pool_threads.size() + 1;
        let opened = udp::open(address, options, workers, inherited.collect())?;
        let mut bound = address;
        let mut udp = Vec::new();
        for (number, (receiver, granted_bytes)) in opened.receivers.into_iter().enumerate() {
            let worker = || -> io::Result<UdpWorker> {
                bound.addr = receiver.local_addr();
                running
                    .source
                    .add_sockets(bound, receiver.probes(), granted_bytes);
                let source = Arc::clone(&running.source);
                UdpWorker::start(
                    self.doors.clone().of_worker(number),
                    source,
                    receiver,
                    granted_bytes,
                    opened.shared,
                    options.balance,
                )
            };
            udp.push(worker().map_err(|error| format!("{address}: {error}"))?);
        }
        Ok(Listener {
            configured: address,
            bound,
            udp,
        })
    }

    fn open_stream(
        &self,
        running: &RunningSource,
        address: ListenAddr,
    ) -> Result<Listener, String> {
        let passed = self.inherited(&address).into_iter().next();
        let listener = match passed {
            Some(socket) => std::net::TcpListener::from(socket),
            None => listen::tcp_listener(address).map_err(|error| error.to_string())?,
        };
        let keepalive = running.config.stream.keepalive.0;
        let set_up = || -> io::Result<_> {
            listen::set_keepalive(&listener, keepalive)?;
            listener.local_addr()
        };
        let addr = set_up().map_err(|error| format!("{address}: {error}"))?;
        let bound = ListenAddr {
            protocol: address.protocol,
            addr,
        };
        self.with_acceptor(|acceptor| {
            acceptor.listen(Door {
                configured: address,
                listener: mio::net::TcpListener::from_std(listener),
                source: Arc::clone(&running.source),
            })
        });
        Ok(Listener {
            configured: address,
            bound,
            udp: Vec::new(),
        })
    }

    /// Reads the configuration again and takes it on.
    pub(crate) fn reload(&self) -> Result<ReloadReport, Vec<String>> {
        let taken_on = (self.loader)().and_then(|config| self.take_on(config));
        match &taken_on {
            Ok(_) => self.reloads.add(1),
            Err(_) => self.reload_failures.add(1),
        }
        taken_on
    }

    /// Swaps the graph for that of `config`. What could not be opened is reported, and what it
    /// was to replace goes on.
    fn take_on(&self, config: Config) -> Result<ReloadReport, Vec<String>> {
        let mut graph = self.graph();
        let mut report = ReloadReport::default();
        let mut problems = Vec::new();
        let admin_can_follow = config.admin.can_follow(&graph.config.admin);
        let same_home = config.data_dir == graph.config.data_dir
            && config.data_access == graph.config.data_access;
        if !same_home || !admin_can_follow {
            let words = "data_dir, data_access, admin.listen and admin.tls cannot change while \
                         running; restart";
            problems.push(words.to_owned());
            return Err(problems);
        }
        if config.workers != graph.config.workers {
            problems.push("workers cannot change while running; restart".to_owned());
            return Err(problems);
        }
        let before = graph.config.queue.durability;
        if config.queue.durability.has_disk() != before.has_disk() {
            problems.push(
                "queue.durability cannot change to or from `memory` while running; restart"
                    .to_owned(),
            );
            return Err(problems);
        }
        // From here on something changes: names of senders may be forgotten.
        let known = Enrichment::receiving(&config, Some(&graph.recognition))?;
        if known.fingerprint != graph.recognition.fingerprint {
            report
                .changed
                .push(format!("packs: {} rules", known.packs.len()));
        }
        if config.transforms != graph.config.transforms || config.routes != graph.config.routes {
            report.changed.push("transforms and routes".to_owned());
        }
        graph.recognition = known;
        if config.hosts != graph.config.hosts {
            report.changed.push("hosts".to_owned());
        }
        if config.admin != graph.config.admin {
            let words = "admin: password, tokens or session_hours changed";
            report.changed.push(words.to_owned());
        }
        if config.queue != graph.config.queue {
            report.changed.push("queue".to_owned());
        }
        let options = queue::options(&config);
        self.quarantine.log.reconfigure(options.quarantine());
        self.log.reconfigure(options);
        self.swap_destinations(&mut graph, &config, &mut report, &mut problems);
        self.swap_sources(&mut graph, &config, &mut report, &mut problems);
        self.publish(&graph);
        self.places.reserve(&config);
        graph.config = config;
        if problems.is_empty() {
            return Ok(report);
        }
        problems.push("everything else in the configuration was taken on".to_owned());
        Err(problems)
    }

    fn swap_destinations(
        &self,
        graph: &mut Graph,
        config: &Config,
        report: &mut ReloadReport,
        problems: &mut Vec<String>,
    ) {
        let mut old = std::mem::take(&mut graph.destinations);
        for (name, sink) in &config.destinations {
            let known = old
                .iter()
                .position(|d| d.name == *name)
                .map(|index| old.remove(index));
            let known = known.map(|mut one| {
                if one.config.queue() != sink.queue() {
                    one.config.set_queue(sink.queue());
                    self.log.limit(name, sink.queue());
                    report.changed.push(format!("queue of destination {name}"));
                }
                one
            });
            let before = match known {
                Some(same) if same.config == *sink && !same.ended() => {
                    graph.destinations.push(same);
                    continue;
                }
                Some(other) => {
                    let before = other.config.clone();
                    other.stop();
                    Some(before)
                }
                None => None,
            };
            let verb = if before.is_some() { "changed" } else { "added" };
            match self.start_destination(name, sink, &config.data_dir) {
                Ok(destination) => {
                    graph.destinations.push(destination);
                    report.changed.push(format!("destination {name} {verb}"));
                }
                Err(problem) => {
                    problems.push(problem);
                    let again = before
                        .map(|before| self.start_destination(name, &before, &config.data_dir));
                    match again {
                        Some(Ok(destination)) => graph.destinations.push(destination),
                        Some(Err(_)) => problems.push(format!(
                            "destination {name}: its former options fail too; its events wait in \
                             the queue until a reload opens it"
                        )),
                        None => {}
                    }
                }
            }
        }
        for gone in old {
            let name = gone.name.clone();
            gone.stop();
            self.log.detach(&name, DropReason::Removed);
            report.changed.push(format!("destination {name} removed"));
        }
        self.detach_unconfigured(config);
    }

    /// Takes the cursors away of destinations that are not configured: they would fill the queue.
    /// The events of one that cannot be opened wait for it.
    fn detach_unconfigured(&self, config: &Config) {
        for name in self.log.names() {
            if !config.destinations.contains_key(&name) {
                self.log.detach(&name, DropReason::Removed);
            }
        }
    }

    fn swap_sources(
        &self,
        graph: &mut Graph,
        config: &Config,
        report: &mut ReloadReport,
        problems: &mut Vec<String>,
    ) {
        let known = graph.recognition.clone();
        // First everything that goes, so that an address can move from one source to another.
        let (kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut graph.sources)
            .into_iter()
            .partition(|running| config.sources.contains_key(&running.source.name));
        graph.sources = kept;
        for running in gone {
            let name = &running.source.name;
            report.changed.push(format!("source {name} removed"));
            self.close_source(running);
        }
        // Before the first listener closes: a source that cannot be changed stays as it is.
        let mut resolved = BTreeMap::new();
        for running in &mut graph.sources {
            let Some(SourceConfig::Syslog(wanted)) = config.sources.get(&running.source.name)
            else {
                continue;
            };
            let before = Some((&running.config, &*running.source));
            match Settings::resolve(&running.source.name, wanted, before, &known) {
                Ok(settings) => {
                    self.close_unwanted(running, wanted);
                    resolved.insert(running.source.name.clone(), settings);
                }
                Err(problem) => problems.push(problem),
            }
        }
        for (name, SourceConfig::Syslog(wanted)) in &config.sources {
            match graph
                .sources
                .iter_mut()
                .find(|running| running.source.name == *name)
            {
                Some(running) => {
                    let Some(settings) = resolved.remove(name) else {
                        continue;
                    };
                    let missing = running.listeners.len() < wanted.listen.len();
                    if running.config != *wanted || missing {
                        report.changed.push(format!("source {name} changed"));
                    }
                    // Packs may have changed even if nothing else has.
                    running.source.replace_settings(settings);
                    running.config = wanted.clone();
                    problems.extend(self.open_listeners(running, &wanted.listen));
                }
                None => match self.start_source(name, wanted, &known) {
                    Ok((running, failed)) => {
                        graph.sources.push(running);
                        problems.extend(failed);
                        report.changed.push(format!("source {name} added"));
                    }
                    Err(problem) => problems.push(problem),
                },
            }
        }
    }

    /// Closes a source's listeners, and has its connections read for the last time.
    fn close_source(&self, running: RunningSource) {
        let RunningSource {
            source, listeners, ..
        } = running;
        for listener in listeners {
            self.close(&source, listener);
        }
        for worker in &self.handles {
            worker.forget(&source);
        }
    }

    /// Closes the listeners that are no longer in the configuration.
    fn close_unwanted(&self, running: &mut RunningSource, wanted: &SyslogSource) {
        let (kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut running.listeners)
            .into_iter()
            .partition(|listener| wanted.listen.contains(&listener.configured));
        running.listeners = kept;
        gone.into_iter()
            .for_each(|listener| self.close(&running.source, listener));
    }

    /// Closes a listener; its UDP sockets are emptied first and refuse what still comes.
    ///
    /// While the queue is full a thread may still wait for room: it is then left to end by itself.
    fn close(&self, source: &Arc<Source>, listener: Listener) {
        if listener.udp.is_empty() {
            self.with_acceptor(|acceptor| acceptor.close(listener.configured));
        }
        listener.udp.iter().for_each(UdpWorker::stop);
        wait_until(Instant::now() + LEAVING_BOUND, || {
            listener.udp.iter().all(UdpWorker::ended)
        });
        self.leaving().push((Arc::clone(source), listener));
        self.reap();
    }

    fn with_acceptor(&self, order: impl FnOnce(&Acceptor)) {
        let acceptor = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(acceptor) = acceptor.as_ref() {
            order(acceptor);
        }
    }
}

fn open_quarantine(config: &Config) -> Arc<Kept> {
    let kept = config.data_dir.join(quarantine::FOLDER);
    let budget = queue::options(config).quarantine();
    let quarantine = Kept::new(QuarantineLog::new(&kept, budget));
    if let Err(error) = quarantine.log.open() {
        let folder = kept.display();
        tracing::warn!(%folder, %error, "quarantine cannot be opened; refused events are held");
    }
    quarantine
}

/// Timeout for the threads of a listener that was closed, at a reload and at the stop.
const LEAVING_BOUND: Duration = Duration::from_secs(2);

#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
