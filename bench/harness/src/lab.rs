//! The bench itself: where things are, how long a run is, and how one is measured.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::child::wait_until;
use crate::group::ControlGroup;
use crate::measure::{RunResult, ScenarioResult};
use crate::messages::MessageFile;
use crate::meter::{Machine, Window, calibrate_ms, process_rss_peak_mib, softnet_dropped};
use crate::sender::{self, Amount, LoadShape, SendReport, Wire};
use crate::stats::per_event;
use crate::subject::{
    BenchSubject, Inrush, Rsyslog, SinkProcess, SubjectProgress, SyslogNg, User, drain,
    write_config,
};

/// Data and configuration of a running Inrush, in the scratch directory.
pub const INRUSH_DIR: &str = "inrush-data";

/// State that all scenarios share.
pub struct BenchHarness {
    /// The program that is measured and whose generator makes the load.
    pub inrush: PathBuf,
    pub terms: RunParameters,
    /// The messages sent where real ones are wanted.
    pub messages: MessageFile,
    scratch: TempDir,
}

/// Number, length and size of the runs.
#[derive(Clone, Copy, Default)]
pub struct RunParameters {
    /// Clean runs a cell.
    pub runs: usize,
    /// Seconds that a run should last.
    pub seconds: f64,
    /// Minutes that `soak` lasts.
    pub soak_minutes: u64,
    /// Size of the backlog of `startup`.
    pub gib: u64,
    /// Seconds for which `store` holds the full rate.
    pub store_seconds: u64,
    /// Seconds for which `memory` loads each control group.
    pub memory_seconds: u64,
    /// Seconds for which `dead-full` holds a rate beside a full backlog.
    pub full_seconds: u64,
    /// Seconds of each run of `heavy-forwarder`.
    pub forwarder_seconds: u64,
    /// Seconds of each run of `node`.
    pub node_seconds: u64,
    /// Seconds that `hec-steady` lasts.
    pub steady_seconds: u64,
    /// Events that `search` searches.
    pub events: u64,
    /// True if peers are measured too.
    pub peers: bool,
}

/// Something to be done again and again while a load runs.
pub struct PeriodicTask<'a> {
    pub every: Duration,
    pub act: &'a mut dyn FnMut() -> Result<()>,
}

impl BenchHarness {
    /// Sets the bench up, in a folder of its own in `scratch`, which is open to all: one scenario
    /// runs as nobody. Without `messages` real ones are the samples of the packs.
    pub fn new(
        inrush: &Path,
        terms: RunParameters,
        scratch: &Path,
        messages: Option<&Path>,
    ) -> Result<Self> {
        let scratch = tempfile::Builder::new()
            .prefix("inrush-bench-")
            .tempdir_in(scratch)?;
        open_to_all(scratch.path())?;
        write_certificate(&scratch.path().join("tls"))?;
        let inrush = inrush
            .canonicalize()
            .with_context(|| inrush.display().to_string())?;
        // A copy that nobody can reach, wherever the build put the original.
        let copy = scratch.path().join("inrush");
        fs::copy(&inrush, &copy).with_context(|| inrush.display().to_string())?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
        Ok(Self {
            inrush: copy,
            terms: RunParameters {
                runs: terms.runs.max(1),
                ..terms
            },
            messages: MessageFile::new(messages, scratch.path())?,
            scratch,
        })
    }

    /// An empty directory, open to all.
    pub fn dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.scratch.path().join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| dir.display().to_string())?;
        }
        fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        open_to_all(&dir)?;
        Ok(dir)
    }

    /// Starts Inrush with the configuration made of `template`.
    pub fn start_inrush(
        &self,
        template: &str,
        sink: Option<&SinkProcess>,
        user: User,
    ) -> Result<Inrush> {
        let dir = self.dir(INRUSH_DIR)?;
        let config = self.inrush_config();
        self.write_inrush_config(&config, template, sink)?;
        Inrush::start(&self.inrush, Some(&config), &dir, user)
    }

    /// The same in a control group.
    pub fn start_inrush_within(&self, template: &str, group: &ControlGroup) -> Result<Inrush> {
        let dir = self.dir(INRUSH_DIR)?;
        let config = self.inrush_config();
        self.write_inrush_config(&config, template, None)?;
        Inrush::start_by(group.command(&self.inrush), Some(&config), &dir)
    }

    /// Starts another one beside it, in a folder of that name.
    pub fn start_inrush_in(&self, name: &str, template: &str) -> Result<Inrush> {
        let dir = self.dir(name)?;
        let config = dir.join("inrush.yaml");
        write_config(&config, template, &[("@DIR@", &dir.display().to_string())])?;
        Inrush::start(&self.inrush, Some(&config), &dir, User::Ours)
    }

    /// Data folder of a running Inrush.
    pub fn inrush_dir(&self) -> PathBuf {
        self.scratch.path().join(INRUSH_DIR)
    }

    /// Deletes what Inrush kept there.
    pub fn clear_inrush_dir(&self) -> Result<()> {
        self.dir(INRUSH_DIR).map(|_| ())
    }

    /// Path of the configuration of a running Inrush.
    pub fn inrush_config(&self) -> PathBuf {
        self.inrush_dir().join("inrush.yaml")
    }

    /// The segments of its queue.
    pub fn queue_files(&self) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(self.inrush_dir().join("queue")).context("the queue's folder")? {
            let file = entry?.path();
            if file.extension().is_some_and(|ending| ending == "seg") {
                files.push(file);
            }
        }
        Ok(files)
    }

    /// The bytes of its queue's segments on disk; a segment that goes while they are counted does
    /// not count.
    pub fn queue_bytes(&self) -> Result<u64> {
        let length = |file: &PathBuf| fs::metadata(file).map_or(0, |meta| meta.len());
        Ok(self.queue_files()?.iter().map(length).sum())
    }

    /// Writes the configuration made of `template`.
    pub fn write_inrush_config(
        &self,
        file: &Path,
        template: &str,
        sink: Option<&SinkProcess>,
    ) -> Result<()> {
        let dir = self.inrush_dir().display().to_string();
        let sink_port = sink.map_or(String::new(), |sink| sink.port.to_string());
        write_config(file, template, &[("@DIR@", &dir), ("@SINK@", &sink_port)])
    }

    /// Sends to `subject` and meters it until all is drained.
    pub fn measure(
        &self,
        subject: &mut dyn BenchSubject,
        sink: Option<&SinkProcess>,
        shape: &LoadShape,
        amount: Amount,
        meanwhile: Option<PeriodicTask<'_>>,
    ) -> Result<RunResult> {
        let file = &self.messages.file;
        self.measure_with(subject, sink, (shape, file), amount, meanwhile)
    }

    /// The same where [`MessageText::File`](crate::sender::MessageText::File) is another file.
    pub fn measure_with(
        &self,
        subject: &mut dyn BenchSubject,
        sink: Option<&SinkProcess>,
        (shape, file): (&LoadShape, &Path),
        amount: Amount,
        meanwhile: Option<PeriodicTask<'_>>,
    ) -> Result<RunResult> {
        let calibration_ms = calibrate_ms();
        let address = subject.address(shape.wire)?;
        let backlog = softnet_dropped()?;
        let window = Window::open(subject.pid(), sink.map(SinkProcess::pid))?;
        let mut sending = sender::start(&self.inrush, &address, shape, amount, Some(file))?;
        let begun = sending.begun;
        if let Some(meanwhile) = meanwhile {
            let mut next = begun + meanwhile.every;
            while !sending.ended()? {
                wait_until(next);
                next = (next + meanwhile.every).max(Instant::now());
                (meanwhile.act)()?;
            }
        }
        let sent = sending.finish()?;
        let last = drain(subject, sent.events)?;
        let metered = window.close()?;
        let mut wrong = self::wrong(subject, &last, &sent, sink)?;
        let backlog = softnet_dropped()? - backlog;
        if shape.wire == Wire::Udp && backlog > 0 {
            wrong.push(format!(
                "{backlog} packets lost before any socket (softnet backlog)"
            ));
        }
        let us_per_event = per_event(metered.cpu.total_us(), last.delivered)
            .with_context(|| format!("nothing was delivered: {}", wrong.join("; ")))?;
        Ok(RunResult {
            sent: sent.events,
            offered_rate: sent.rate,
            delivered: last.delivered,
            kernel_dropped: last.kernel_dropped,
            unaccounted: last.unaccounted(sent.events),
            seconds: metered.wall.as_secs_f64(),
            user_us: metered.cpu.user_us,
            sys_us: metered.cpu.sys_us,
            us_per_event,
            rss_peak_mib: process_rss_peak_mib(subject.pid())?,
            calibration_ms,
            sink_pct: metered.helper_pct,
            sender_pct: metered.ours_pct,
            disk_bytes: metered.disk_bytes,
            write_calls: metered.write_calls,
            latency: sink
                .map(SinkProcess::counts)
                .transpose()?
                .and_then(|counts| counts.latency),
            others_pct: metered.others_pct,
            steal_pct: metered.steal_pct,
            noisy: metered.noisy(),
            wrong: (!wrong.is_empty()).then(|| wrong.join("; ")),
            ..RunResult::default()
        })
    }

    /// An empty account of a scenario that ends now.
    pub fn scenario(&self, shows: &str) -> ScenarioResult {
        let inrush = format!("inrush {}", env!("CARGO_PKG_VERSION"));
        let peers = [SyslogNg::version(), Rsyslog::version()];
        let peers = peers.into_iter().flatten().filter(|_| self.terms.peers);
        ScenarioResult {
            shows: shows.to_owned(),
            ended: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string(),
            machine: Machine::here(),
            versions: std::iter::once(inrush).chain(peers).collect(),
            ..ScenarioResult::default()
        }
    }
}

/// Contradictions between generator, subject and sink.
fn wrong(
    subject: &dyn BenchSubject,
    last: &SubjectProgress,
    sent: &SendReport,
    sink: Option<&SinkProcess>,
) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    wrong.extend(
        sent.errors
            .as_ref()
            .map(|errors| format!("the generator saw {errors}")),
    );
    wrong.extend(subject.wrong(last, sent.events));
    if let Some(sink) = sink {
        let arrived = sink.counts()?.events;
        let due = subject.arrive(last, sent.events);
        if arrived != due {
            wrong.push(format!("{arrived} of {due} at the sink"));
        }
    }
    Ok(wrong)
}

/// Writes `server.pem` and `server.key`, by which nobody is to be known, into a new folder `dir`.
fn write_certificate(dir: &Path) -> Result<()> {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
    fs::create_dir(dir).with_context(|| dir.display().to_string())?;
    fs::write(dir.join("server.pem"), made.cert.pem()).context("a certificate")?;
    fs::write(dir.join("server.key"), made.signing_key.serialize_pem()).context("its key")
}

fn open_to_all(dir: &Path) -> Result<()> {
    let mode = fs::Permissions::from_mode(0o777);
    fs::set_permissions(dir, mode).with_context(|| dir.display().to_string())
}
