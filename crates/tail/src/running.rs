//! Tailer that runs: a thread that finds files, and one that reads them.
//!
//! # What it guarantees
//! * Files that stay in the configuration stay open over a reload.
//! * At a stop what was read is handed to the queue; the rest is read by the next process.

use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use inrush_event::{MetricsPage, SourceInfo, StreamPosition, Timestamp};
use inrush_ingest::batch_writer::WorkerContext;
use inrush_ingest::batch_writer::source::{IngestSettings, IngestSource};
use inrush_ingest::enrichment::Enrichment;
use inrush_queue::Log;

use super::counts::{FileCounts, SharedCounts};
use super::file_places::FilePlaces;
use super::finder::{FIRST_START, FileFinder, FinderHandle, first_start};
use super::form::host_name;
use super::listing::FileListing;
use super::options::FileSource;
use super::tail::{LogReader, ReaderHandle, TailOrder};
use super::workload::{ClusterWatches, SourceDesk, WakeCallback, WorkloadBoard, WorkloadState};

/// Parts of the process that its tailers share.
#[derive(Clone)]
pub struct TailServices {
    /// Context of batch writers.
    pub context: WorkerContext,
    /// Places for open log files.
    pub places: Arc<FilePlaces>,
    /// Watches of clusters.
    pub clusters: Arc<ClusterWatches>,
    /// Bytes of unfinished lines and open events of all logs of a source, at most.
    pub carry_bytes: u64,
}

/// Reader of the logs of one source. Its threads run until [`LogTailer::stop`].
pub struct LogTailer {
    ingest: Arc<IngestSource>,
    pub(super) counts: SharedCounts,
    reader: ReaderHandle,
    reading: JoinHandle<()>,
    finder: FinderHandle,
    finding: JoinHandle<()>,
    board: Arc<WorkloadBoard>,
    services: TailServices,
    prepared: Mutex<Option<PreparedFiles>>,
}

/// Options that were prepared: they, the settings of events, and the desk that is asked about
/// containers.
type PreparedFiles = (FileSource, IngestSettings, Arc<SourceDesk>);

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Settings by which the events of a source are taken.
pub(super) fn settings(
    info: SourceInfo,
    options: &FileSource,
    known: &Enrichment,
) -> Result<IngestSettings, String> {
    let syslog = options.header_options();
    let zone = syslog.zone().map_err(|error| error.to_string())?;
    let mut settings = known.settings(info, options.product.as_deref(), &syslog, zone);
    settings.message_bytes_max = usize::try_from(options.max_line_bytes.0).unwrap_or(usize::MAX);
    // Who owns a container may say what writes there.
    let has_owners = options.kubernetes.is_some() || options.docker.is_some();
    if !options.packs && !has_owners {
        settings.recognition = None;
    }
    // Hosts are known: nobody is asked for a name.
    settings.names = None;
    Ok(settings)
}

/// The desk that is asked about containers.
fn open_desk(
    options: &FileSource,
    services: &TailServices,
    wake: WakeCallback,
) -> Result<SourceDesk, String> {
    let host = String::from_utf8_lossy(&host_name()).into_owned();
    SourceDesk::open(options, &services.context, &services.clusters, &host, wake)
}

/// Makes the time of the first start durable before any file is opened: by it a later process
/// tells old files from new ones.
pub(super) fn note_first_start(log: &Log, source: &Arc<SourceInfo>, at: Timestamp) {
    let position = StreamPosition {
        stream: FIRST_START,
        state: at.0.to_le_bytes().into(),
    };
    // A log that is closed belongs to a process that ends.
    let noted = log.append_positions(source, Arc::from([position])).is_ok();
    if let (true, Err(error)) = (noted, log.keep_positions()) {
        tracing::warn!(
            source = source.name,
            %error,
            "the time of the first start is not on disk: it is written later"
        );
    }
}

impl LogTailer {
    /// Starts the threads of the source that `info` names.
    ///
    /// # Errors
    /// In words: no thread can be had, or the kernel gives no notices of files.
    pub fn start(
        info: SourceInfo,
        options: &FileSource,
        services: TailServices,
        known: &Enrichment,
    ) -> Result<Self, String> {
        let name = &info.name.clone();
        let said = |words: String| format!("source {name}: {words}");
        let context = services.context.clone();
        let positions = context.log.positions(name);
        let settings = settings(info, options, known).map_err(said)?;
        let first_start = first_start(&positions).unwrap_or_else(|| {
            let now = Timestamp::now();
            note_first_start(&context.log, &settings.info, now);
            now
        });
        let ingest = IngestSource::new(name, settings, &context.ledger);
        let counts: SharedCounts = Arc::new(FileCounts::new(
            Arc::clone(&services.places),
            Arc::clone(&ingest.counters),
        ));
        let (orders, ordered) = mpsc::channel();
        let (reports, reported) = mpsc::channel();
        let board = Arc::<WorkloadBoard>::default();
        let open = |wake| open_desk(options, &services, wake);
        let begin = (first_start, &positions[..]);
        let finder = FileFinder::new(options, (&counts, &board), begin, reported, open);
        let finder = finder.map_err(said)?;
        let handle = finder.handle();
        let thread = thread::Builder::new().name(format!("tail-{name}"));
        let (source, ours) = (Arc::clone(&ingest), Arc::clone(&counts));
        let (carry, waker) = (services.carry_bytes, handle.clone());
        let near = context.clone();
        let run = move || {
            let wake = Box::new(move || waker.wake());
            LogReader::new(near, source, ours, (ordered, reports), wake, carry).run();
        };
        let reading = context
            .spawn(thread, run)
            .map_err(|error| said(error.to_string()))?;
        let reader = ReaderHandle {
            orders,
            thread: reading.thread().clone(),
        };
        let thread = thread::Builder::new().name(format!("files-{name}"));
        let to_reader = reader.clone();
        let finding = thread.spawn(move || finder.run(&to_reader));
        let finding = finding.map_err(|error| said(error.to_string()))?;
        Ok(Self {
            ingest,
            counts,
            reader,
            reading,
            finder: handle,
            finding,
            board,
            services,
            prepared: Mutex::default(),
        })
    }

    /// The source as its batch writer shares it: its name and counts.
    pub fn ingest(&self) -> &Arc<IngestSource> {
        &self.ingest
    }

    /// Resolves other options, without any effect on what is read.
    ///
    /// # Errors
    /// In words; the tailer stays as it is.
    pub fn prepare(
        &self,
        info: SourceInfo,
        options: &FileSource,
        known: &Enrichment,
    ) -> Result<(), String> {
        let name = &self.ingest.name;
        let settings = settings(info, options, known)?;
        let desk = open_desk(options, &self.services, self.finder.wake_callback());
        let desk = Arc::new(desk.map_err(|words| format!("source {name}: {words}"))?);
        *lock(&self.prepared) = Some((options.clone(), settings, desk));
        Ok(())
    }

    /// Follows the prepared options: files that still match stay open.
    pub fn commit(&self) {
        if let Some((options, settings, desk)) = lock(&self.prepared).take() {
            self.ingest.replace_settings(settings);
            self.finder.replace(options, desk);
        }
    }

    /// Adds its counts.
    pub fn metrics(&self, page: &mut MetricsPage) {
        self.counts.metrics(&self.ingest.name, page);
    }

    /// Containers whose logs it reads, and what their owners' annotations decide.
    pub fn workloads(&self) -> Vec<WorkloadState> {
        self.board.list()
    }

    /// Files that it reads, at most `most` of them listed. Asks the kernel for the length of each
    /// file that is not silent.
    pub fn files(&self, most: usize) -> FileListing {
        let lost = self.counts.rotated_away_unread_bytes.get();
        FileListing {
            missed_generations: self.counts.missed_generations.get(),
            ..self.counts.board.list(most, lost)
        }
    }

    /// True if the thread that reads has ended by a fault.
    pub fn is_dead(&self) -> bool {
        self.reading.is_finished() && !self.finder.is_stopped()
    }

    /// Asks the threads to hand on what was read, and to end.
    pub fn stop(&self) {
        self.finder.stop();
        self.reader.order(TailOrder::Stop);
    }

    /// True if both threads have ended.
    pub fn ended(&self) -> bool {
        self.reading.is_finished() && self.finding.is_finished()
    }
}
