//! The bare loops as subjects: this very program, started again.

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Progress, Subject};
use crate::bare::Count;
use crate::child::Served;
use crate::meter::udp_dropped;
use crate::sender::Wire;

/// The loop of [`crate::bare::tcp`], to which limits are scaled.
pub(crate) struct BareTcp(Loop);

/// The loop of [`crate::bare::udp`].
pub(crate) struct BareUdp(Loop);

struct Loop {
    process: Served,
    port: u16,
}

impl Loop {
    fn start(words: &[&str]) -> Result<Self> {
        let this = std::env::current_exe().context("own path")?;
        let process = Served::start(words[0], Command::new(this).args(words))?;
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

    fn count(&mut self) -> Result<Count> {
        self.process.ask("count")?;
        let line = self.process.line()?;
        serde_json::from_str(&line).with_context(|| line.clone())
    }
}

impl BareTcp {
    pub(crate) fn start() -> Result<Self> {
        Loop::start(&["bare-tcp"]).map(Self)
    }
}

impl BareUdp {
    pub(crate) fn start() -> Result<Self> {
        Loop::start(&["bare-udp"]).map(Self)
    }
}

impl Subject for BareTcp {
    fn pid(&self) -> u32 {
        self.0.process.pid()
    }

    fn address(&self, _: Wire) -> Result<String> {
        Ok(format!("127.0.0.1:{}", self.0.port))
    }

    fn progress(&mut self) -> Result<Progress> {
        Ok(Progress {
            delivered: self.0.count()?.events,
            ..Progress::default()
        })
    }
}

impl Subject for BareUdp {
    fn pid(&self) -> u32 {
        self.0.process.pid()
    }

    fn address(&self, _: Wire) -> Result<String> {
        Ok(format!("127.0.0.1:{}", self.0.port))
    }

    fn progress(&mut self) -> Result<Progress> {
        let kernel_dropped = udp_dropped(self.0.port)?;
        let delivered = self.0.count()?.events;
        Ok(Progress {
            delivered,
            kernel_dropped,
            ..Progress::default()
        })
    }
}

/// The sink of [`crate::sink`], started as a process beside a subject.
pub(crate) struct Sink {
    process: Served,
    pub(crate) port: u16,
}

impl Sink {
    /// Starts it, with options of [`crate::sink::HecSink`].
    pub(crate) fn start(options: &[&str]) -> Result<Self> {
        Self::start_as(&["hec-sink"], options)
    }

    /// Starts it where this program knows it by the `name`.
    pub(crate) fn start_as(name: &[&str], options: &[&str]) -> Result<Self> {
        Loop::start(&[name, options].concat()).map(|Loop { process, port }| Self { process, port })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn counts(&self) -> Result<crate::sink::Counts> {
        let text = crate::http::get(&format!("http://127.0.0.1:{}/count", self.port))?;
        serde_json::from_str(&text).with_context(|| text.clone())
    }
}
