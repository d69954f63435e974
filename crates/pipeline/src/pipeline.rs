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

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use inrush_config::{Config, SourceConfig};
use inrush_event::{Counter, DropReason, Ledger, Timestamp};
use inrush_ingest::batch_writer::WorkerContext;
use inrush_ingest::classification::MemoryBudget;
use inrush_ingest::enrichment::Enrichment;
use inrush_ingest::numa::NumaPlacement;
use inrush_ingest::pool::WorkPool;
use inrush_ingest::timezone::ZonesFile;
use inrush_ingest::unclassified::UnclassifiedTable;
use inrush_queue::QuarantineLog;
use inrush_sink::{Quarantine, SinkConfig};
use inrush_source::{SourceServices, StartedSource, WorkerSizes};
use inrush_transport::activation::InheritedSockets;
use inrush_transport::config::ListenAddr;
use inrush_transport::nodes::NumaNodes;
use serde::Serialize;

use crate::data_dir;
use crate::data_dir_lock::DataDirLock;
use crate::descriptors;
use crate::destination::{RunningDestination, SinkContext};
use crate::housekeeping::HousekeepingThread;
use crate::quarantine::{self, DiskQuarantine};
use crate::queue::{self, open_log};
use crate::shutdown_drops::ShutdownDrops;
use crate::topology::{self, ConfigLoader, RunningGraph, RunningSource, Topology};

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

/// Result of a reload.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReloadReport {
    /// Changes, one line each: parts that were added, changed or removed, then each option with its
    /// former and its new value. Empty if nothing changed.
    pub changed: Vec<String>,
}

/// A running pipeline.
pub struct Pipeline {
    pub(crate) shared: Arc<Topology>,
    watch: HousekeepingThread,
}

impl Pipeline {
    /// Opens destinations first, then sources, so that no event comes before its way is open.
    ///
    /// `inherited` are the sockets that systemd passed; `loader` reads the configuration anew.
    ///
    /// # Errors
    /// One line for each address, certificate or destination that could not be opened.
    pub fn start(
        config: Config,
        inherited: InheritedSockets,
        loader: ConfigLoader,
    ) -> Result<Self, StartError> {
        let owner = data_dir::open(&config).map_err(|what| {
            StartError::one(format!("data_dir {}: {what}", config.data_dir.display()))
        })?;
        let known = Enrichment::receiving(config.enrichment(), None).map_err(StartError)?;
        let shared = Topology::open(&config, known, inherited, loader, owner);
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
            shared.reserve_descriptors(&config);
            problems.extend(shared.start_sources(&mut graph, &config));
            shared.reserve_descriptors(&config);
            if let Some(words) = descriptors::shortage(&config, shared.services.connections.limit())
            {
                tracing::warn!("{words}");
            }
            shared.publish(&graph);
            problems
        };
        shared.given_up.told();
        let watch = HousekeepingThread::start(Arc::clone(&shared)).map_err(StartError::one)?;
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
            let bound = running.source.listeners().into_iter();
            bound
                .map(|address| (running.name().to_owned(), address))
                .collect::<Vec<_>>()
        };
        graph.sources.iter().flat_map(of).collect()
    }

    /// What runs, for those who tell its state.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.shared
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

impl Topology {
    fn open(
        config: &Config,
        recognition: Enrichment,
        inherited: InheritedSockets,
        loader: ConfigLoader,
        owner: DataDirLock,
    ) -> io::Result<Self> {
        let ledger = Ledger::new();
        let given_up = ShutdownDrops::open(&config.data_dir, &ledger);
        let log = open_log(config, &ledger)?;
        let quarantine = open_quarantine(config);
        let pool = log.pool();
        let budget = config.memory_budget();
        let cores = inrush_config::worker_count(config.workers);
        let near = NumaPlacement::new(NumaNodes::of_process(), Arc::clone(&pool));
        near.keep_free(budget.pool_arenas());
        let context = WorkerContext {
            pool: Arc::clone(&pool),
            log: Arc::clone(&log),
            ledger: Arc::clone(&ledger),
            room: MemoryBudget::new(),
            unknown: UnclassifiedTable::new(),
            pool_threads: WorkPool::new(cores),
            near,
            worker: 0,
        };
        let sizes = WorkerSizes {
            cores,
            carry_bytes: budget.carry / cores as u64,
        };
        let services = SourceServices::new(context, sizes, &config.data_dir, inherited);
        let graph = RunningGraph {
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
            observers: Mutex::default(),
            graph: Mutex::new(graph),
            live_sources: Mutex::default(),
            live_stores: Mutex::default(),
            live_names: Mutex::default(),
            live_dns: Mutex::default(),
            services,
            zones: ZonesFile::open(&config.data_dir),
            given_up,
            quarantine,
            loader,
            leaving: Mutex::default(),
            writer: Mutex::default(),
            _owner: owner,
        })
    }

    /// Keeps descriptors for all that a configuration needs beside connections.
    fn reserve_descriptors(&self, config: &Config) {
        let connections = &self.services.connections;
        connections.reserve(descriptors::reserve(config, connections.limit()));
    }

    fn publish(&self, graph: &RunningGraph) {
        let store =
            |to: &RunningDestination| Some((to.name.clone(), Arc::clone(to.store.as_ref()?)));
        let stores = graph.destinations.iter().filter_map(store).collect();
        let sources = graph.sources.iter();
        let sources = sources.map(|running| Arc::clone(&running.source)).collect();
        *topology::lock(&self.live_names) = graph.recognition.names.clone();
        *topology::lock(&self.live_dns) = Some(Arc::clone(&graph.recognition.dns));
        *topology::lock(&self.live_stores) = stores;
        *topology::lock(&self.live_sources) = sources;
    }

    fn start_destinations(&self, graph: &mut RunningGraph, config: &Config) -> Vec<String> {
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
    ) -> Result<RunningDestination, String> {
        let quarantine: Arc<dyn Quarantine> = Arc::clone(&self.quarantine) as _;
        let around = SinkContext {
            log: &self.log,
            ledger: &self.ledger,
            data_dir,
            quarantine: &quarantine,
            descriptors: self.services.connections.limit(),
            kept: Some(&self.quarantine),
        };
        RunningDestination::start(name, config, &around)
    }

    fn start_sources(&self, graph: &mut RunningGraph, config: &Config) -> Vec<String> {
        let known = graph.recognition.clone();
        let mut problems = Vec::new();
        for (name, wanted) in &config.sources {
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
        config: &SourceConfig,
        known: &Enrichment,
    ) -> Result<(RunningSource, Vec<String>), String> {
        let options = config.options();
        let StartedSource { source, problems } = options.start(name, &self.services, known)?;
        self.zones.give(name, &source.ingest().zones);
        let config = config.clone();
        Ok((RunningSource { source, config }, problems))
    }

    /// Reads the configuration again and takes it on.
    ///
    /// # Errors
    /// One line a problem; what could not be taken on goes on as it was.
    pub fn reload(&self) -> Result<ReloadReport, Vec<String>> {
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
        let known = Enrichment::receiving(config.enrichment(), Some(&graph.recognition))?;
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
        if config.health != graph.config.health {
            report.changed.push("health".to_owned());
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
        self.reserve_descriptors(&config);
        let options = inrush_config::changes(&graph.config, &config);
        report
            .changed
            .extend(options.iter().map(ToString::to_string));
        graph.config = config;
        if problems.is_empty() {
            return Ok(report);
        }
        problems.push("everything else in the configuration was taken on".to_owned());
        Err(problems)
    }

    fn swap_destinations(
        &self,
        graph: &mut RunningGraph,
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
        graph: &mut RunningGraph,
        config: &Config,
        report: &mut ReloadReport,
        problems: &mut Vec<String>,
    ) {
        let known = graph.recognition.clone();
        // First everything that goes, so that an address can move from one source to another. A
        // source of another type under the same name is another source.
        let stays = |running: &RunningSource| {
            let wanted = config.sources.get(running.name());
            let type_name = |config: &SourceConfig| config.options().type_name();
            wanted.is_some_and(|wanted| type_name(wanted) == type_name(&running.config))
        };
        let (kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut graph.sources)
            .into_iter()
            .partition(stays);
        graph.sources = kept;
        for running in gone {
            let name = running.name();
            report.changed.push(format!("source {name} removed"));
            running.source.close();
            topology::lock(&self.leaving).push(running.source);
        }
        // Before the first listener closes: a source that cannot be changed stays as it is.
        let mut prepared = HashSet::new();
        for running in &graph.sources {
            let Some(wanted) = config.sources.get(running.name()) else {
                continue;
            };
            match running.source.prepare(wanted.options(), &known) {
                Ok(()) => {
                    running.source.release();
                    prepared.insert(running.name().to_owned());
                }
                Err(problem) => problems.push(problem),
            }
        }
        for (name, wanted) in &config.sources {
            let running = graph.sources.iter_mut().find(|one| one.name() == *name);
            match running {
                Some(running) if prepared.contains(name) => {
                    if running.config != *wanted || running.source.is_incomplete() {
                        report.changed.push(format!("source {name} changed"));
                    }
                    // Packs may have changed even if nothing else has.
                    problems.extend(running.source.commit());
                    running.config = wanted.clone();
                }
                Some(_) => {}
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
}

fn open_quarantine(config: &Config) -> Arc<DiskQuarantine> {
    let kept = config.data_dir.join(quarantine::FOLDER);
    let budget = queue::options(config).quarantine();
    let quarantine = DiskQuarantine::new(QuarantineLog::new(&kept, budget));
    if let Err(error) = quarantine.log.open() {
        let folder = kept.display();
        tracing::warn!(%folder, %error, "quarantine cannot be opened; refused events are held");
    }
    quarantine
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
