//! The bare loops as subjects: this very program, started again.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{BenchSubject, SubjectProgress};
use crate::bare::LoopCount;
use crate::child::ChildProcess;
use crate::meter::udp_dropped;
use crate::sender::Wire;
use crate::sink::SinkCounts;

/// The loop of [`crate::bare::tcp`], to which limits are scaled.
pub struct BareTcp(Loop);

/// The loop of [`crate::bare::udp`].
pub struct BareUdp(Loop);

/// The relay of [`crate::bare::relay`]; its collector counts for it.
pub struct BareRelay {
    relay: Loop,
    collector: u16,
}

struct Loop {
    process: ChildProcess,
    port: u16,
}

impl Loop {
    fn start(words: &[&str]) -> Result<Self> {
        let this = std::env::current_exe().context("own path")?;
        let process = ChildProcess::start(words[0], Command::new(this).args(words))?;
        let mut process = process.ending_with_stdin();
        let line = process.line()?;
        let Some(port) = line
            .strip_prefix("ready ")
            .and_then(|port| port.parse().ok())
        else {
            bail!("{}: expected `ready PORT`, got {line:?}", words[0]);
        };
        Ok(Self { process, port })
    }

    fn count(&mut self) -> Result<LoopCount> {
        self.process.ask("count")?;
        let line = self.process.line()?;
        serde_json::from_str(&line).with_context(|| line.clone())
    }
}

impl BareTcp {
    pub fn start() -> Result<Self> {
        Loop::start(&["bare-tcp"]).map(Self)
    }
}

impl BareUdp {
    pub fn start() -> Result<Self> {
        Loop::start(&["bare-udp"]).map(Self)
    }
}

impl BareRelay {
    /// Starts it before a collector; with a folder it syncs each request there before the answer.
    pub fn start(collector: &SinkProcess, folder: Option<&Path>) -> Result<Self> {
        let to = format!("--to=127.0.0.1:{}", collector.port);
        let sync = folder.map(|folder| format!("--sync={}", folder.display()));
        let words = ["bare-relay", &to].into_iter().chain(sync.as_deref());
        Ok(Self {
            relay: Loop::start(&words.collect::<Vec<_>>())?,
            collector: collector.port,
        })
    }
}

impl BenchSubject for BareRelay {
    fn pid(&self) -> u32 {
        self.relay.process.pid()
    }

    fn address(&self, _: Wire) -> Result<String> {
        Ok(format!("127.0.0.1:{}", self.relay.port))
    }

    fn progress(&mut self) -> Result<SubjectProgress> {
        Ok(SubjectProgress {
            delivered: counts_at(self.collector)?.events,
            ..SubjectProgress::default()
        })
    }
}

impl BenchSubject for BareTcp {
    fn pid(&self) -> u32 {
        self.0.process.pid()
    }

    fn address(&self, _: Wire) -> Result<String> {
        Ok(format!("127.0.0.1:{}", self.0.port))
    }

    fn progress(&mut self) -> Result<SubjectProgress> {
        Ok(SubjectProgress {
            delivered: self.0.count()?.events,
            ..SubjectProgress::default()
        })
    }
}

impl BenchSubject for BareUdp {
    fn pid(&self) -> u32 {
        self.0.process.pid()
    }

    fn address(&self, _: Wire) -> Result<String> {
        Ok(format!("127.0.0.1:{}", self.0.port))
    }

    fn progress(&mut self) -> Result<SubjectProgress> {
        let kernel_dropped = udp_dropped(self.0.port)?;
        let delivered = self.0.count()?.events;
        Ok(SubjectProgress {
            delivered,
            kernel_dropped,
            ..SubjectProgress::default()
        })
    }
}

/// The sink of [`crate::sink`], started as a process beside a subject.
pub struct SinkProcess {
    process: ChildProcess,
    pub port: u16,
}

impl SinkProcess {
    /// Starts it, with options of [`crate::sink::HecSink`].
    pub fn start(options: &[&str]) -> Result<Self> {
        Self::start_as(&["hec-sink"], options)
    }

    /// Starts it where this program knows it by the `name`.
    pub fn start_as(name: &[&str], options: &[&str]) -> Result<Self> {
        Loop::start(&[name, options].concat()).map(|Loop { process, port }| Self { process, port })
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub fn counts(&self) -> Result<SinkCounts> {
        counts_at(self.port)
    }
}

pub(super) fn counts_at(port: u16) -> Result<SinkCounts> {
    let text = crate::http::get(&format!("http://127.0.0.1:{port}/count"))?;
    serde_json::from_str(&text).with_context(|| text.clone())
}
