//! A collector that runs: its listeners and settings, over reloads.
//!
//! # What it guarantees
//! * A listener that stays in the configuration stays open, and so do its connections: settings and
//!   tokens hold from the next request on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inrush_event::{HistogramSnapshot, Metric, MetricsPage, Timestamp};
use inrush_ingest::batch_writer::WorkerContext;
use inrush_ingest::batch_writer::source::IngestSource;
use inrush_ingest::enrichment::Enrichment;
use inrush_stream::refusals::PersistentRefusal;
use inrush_stream::{OpenListeners, StreamRuntime, StreamSettings, StreamSource};
use inrush_transport::config::ListenAddr;
use inrush_transport::tls::HTTP_PROTOCOLS;

use super::options::SplunkHecSource;
use super::settings::{HecDecoders, HecSettings, HecShared};
use crate::options::{SourceOptions, ingest_settings, of_type};
use crate::{Source, SourceServices, SourceState, TokenAccount};

/// Options, and those that wait to be taken on.
struct HecListeners {
    config: SplunkHecSource,
    open: OpenListeners,
    prepared: Option<(SplunkHecSource, StreamSettings, HecSettings)>,
}

impl HecListeners {
    fn bound(&self) -> Vec<ListenAddr> {
        let listen = self.config.listen();
        listen
            .iter()
            .filter_map(|one| self.open.bound(one))
            .collect()
    }
}

/// A collector that runs.
pub(super) struct RunningHec {
    shared: Arc<HecShared>,
    streams: Arc<StreamSource>,
    services: Arc<SourceServices>,
    runtime: Arc<StreamRuntime>,
    listeners: Mutex<HecListeners>,
}

/// Settings of the connections of a collector by its options.
fn resolve(
    name: &str,
    options: &SplunkHecSource,
    before: Option<(&SplunkHecSource, &StreamSource)>,
    shared: &Arc<HecShared>,
    known: &Enrichment,
) -> Result<StreamSettings, String> {
    let before = before.map(|(options, running)| (options.tls.as_ref(), running));
    let tls = StreamSettings::tls(options.tls.as_ref(), HTTP_PROTOCOLS, before);
    let syslog = options.header_options();
    Ok(StreamSettings {
        ingest: ingest_settings(name, options, &syslog, known)?,
        options: options.stream.clone(),
        decoders: Arc::new(HecDecoders(Arc::clone(shared))),
        tls: tls?,
    })
}

/// Opens a collector without a listener: its settings, and acknowledgements of the last process.
///
/// # Errors
/// In words: a certificate or a token that cannot be used.
pub(super) fn open(
    name: &str,
    options: &SplunkHecSource,
    context: &WorkerContext,
    data_dir: &Path,
    known: &Enrichment,
) -> Result<(Arc<HecShared>, Arc<StreamSource>), String> {
    let settings = HecSettings::new(options, data_dir, None, Some(&known.dns))?;
    let shared = Arc::new(HecShared::new(name, &context.log, settings));
    if context.log.has_disk()
        && let Err(error) = shared
            .acks
            .remember(data_dir, name, context.log.next_event())
    {
        tracing::warn!(
            source = name,
            %error,
            "acknowledgements are not known over a restart"
        );
    }
    let settings = resolve(name, options, None, &shared, known)?;
    let streams = StreamSource::new(name, settings, &context.ledger);
    Ok((shared, streams))
}

impl RunningHec {
    /// Starts the source; what could not be opened is told beside it.
    ///
    /// # Errors
    /// A certificate that cannot be used, or no thread can be had.
    pub(super) fn start(
        name: &str,
        options: &SplunkHecSource,
        services: &Arc<SourceServices>,
        known: &Enrichment,
    ) -> Result<(Arc<Self>, Vec<String>), String> {
        let said = |words: String| format!("source {name}: {words}");
        let context = &services.context;
        let opened = open(name, options, context, &services.data_dir, known);
        let (shared, streams) = opened.map_err(said)?;
        let runtime = services.streams();
        let running = Self {
            shared,
            streams,
            services: Arc::clone(services),
            runtime: runtime.map_err(|error| said(error.to_string()))?,
            listeners: Mutex::new(HecListeners {
                config: options.clone(),
                open: OpenListeners::default(),
                prepared: None,
            }),
        };
        let problems = running.open();
        Ok((Arc::new(running), problems))
    }

    fn listeners(&self) -> MutexGuard<'_, HecListeners> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the addresses that are configured and not open. Returns what could not be, in words.
    fn open(&self) -> Vec<String> {
        let mut listeners = self.listeners();
        let HecListeners { config, open, .. } = &mut *listeners;
        let (runtime, streams) = (&self.runtime, &self.streams);
        open.open(
            &config.listen(),
            &config.stream,
            runtime,
            streams,
            |address| self.services.inherited(address).into_iter().next(),
        )
    }
}

/// Adds the answers of a token.
fn answers(page: &mut MetricsPage, labels: &[(&'static str, &str)], counts: &BTreeMap<u16, u64>) {
    for (code, n) in counts {
        let code = code.to_string();
        let labels = [labels, &[("code", code.as_str())]].concat();
        page.add(Metric::HecTokenAnswers, labels, *n as f64);
    }
}

impl Source for RunningHec {
    fn ingest(&self) -> &Arc<IngestSource> {
        &self.streams.ingest
    }

    fn prepare(&self, options: &dyn SourceOptions, known: &Enrichment) -> Result<(), String> {
        let name = self.streams.name();
        let said = |words: String| format!("source {name}: {words}");
        let options = of_type::<SplunkHecSource>(options, name)?;
        let mut listeners = self.listeners();
        let before = Some((&listeners.config, &*self.streams));
        let settings = resolve(name, options, before, &self.shared, known).map_err(said)?;
        let (data_dir, before) = (&self.services.data_dir, self.shared.settings());
        let hec = HecSettings::new(options, data_dir, Some(&before), Some(&known.dns));
        let hec = hec.map_err(said)?;
        listeners.prepared = Some((options.clone(), settings, hec));
        Ok(())
    }

    fn release(&self) {
        let mut listeners = self.listeners();
        let HecListeners { open, prepared, .. } = &mut *listeners;
        if let Some((wanted, ..)) = prepared {
            open.keep(&wanted.listen(), &self.runtime);
        }
    }

    fn commit(&self) -> Vec<String> {
        let mut listeners = self.listeners();
        if let Some((options, settings, hec)) = listeners.prepared.take() {
            self.streams.replace_settings(settings);
            self.shared.replace(hec);
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
        listeners.bound().len() < listeners.config.listen().len()
    }

    fn state(&self) -> SourceState {
        self.streams.state().into()
    }

    fn metrics(&self, page: &mut MetricsPage) {
        self.streams.metrics(page);
        let source = self.streams.name();
        let given_up = self.shared.acks.given_up.get();
        page.add(
            Metric::HecAcksGivenUp,
            vec![("source", source)],
            given_up as f64,
        );
        for token in self.tokens() {
            let known = [("source", source), ("token", token.name.as_str())];
            answers(page, &known, &token.answers);
            if token.name.is_empty() {
                continue;
            }
            let labels = || known.to_vec();
            page.add(Metric::HecTokenEvents, labels(), token.events as f64);
            page.add(Metric::HecTokenBytes, labels(), token.bytes as f64);
            page.add(Metric::HecTokenRequests, labels(), token.requests as f64);
            let last_seen = token.last_seen_ms.unwrap_or(0) as f64 / 1e3;
            page.add(Metric::HecTokenLastSeen, labels(), last_seen);
        }
    }

    fn request_times(&self) -> Option<HistogramSnapshot> {
        Some(self.shared.request_times.snapshot())
    }

    fn tokens(&self) -> Vec<TokenAccount> {
        let mut accounts = self.shared.settings().tokens.accounts();
        let answers = self.shared.nameless.list();
        if !answers.is_empty() {
            accounts.push(TokenAccount::of_nobody(answers));
        }
        accounts
    }

    fn tick(&self) {
        self.shared.tick();
        self.streams.refresh_certificate();
        self.streams.tell_refusals(&self.services.connections);
    }

    fn lasting_refusals(&self, now: Timestamp) -> Vec<PersistentRefusal> {
        self.streams.refusals().lasting(now)
    }

    fn is_dead(&self) -> bool {
        self.runtime.is_dead()
    }

    fn close(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        Self::listeners(self).open.keep(&[], &self.runtime);
        self.runtime.forget(&self.streams);
    }

    fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
    }

    fn ended(&self) -> bool {
        true
    }
}
