//! Other forwarders of HEC: the OpenTelemetry Collector and Fluent Bit, with the configurations
//! under `bench/peers/`. Their account is that of the collector behind them.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::bare::{SinkProcess, counts_at};
use super::{BenchSubject, SubjectProgress, write_config};
use crate::child::{ChildProcess, free_port, wait};
use crate::sender::Wire;

/// Seconds until it listens, at most.
const READY_SECONDS_MAX: u64 = 20;

/// A product that forwards from HEC to HEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HecForwarder {
    /// OpenTelemetry Collector, of `splunk_hec` receiver and exporter.
    Otel,
    /// Fluent Bit, `in_splunk` and `out_splunk`.
    FluentBit,
}

impl HecForwarder {
    /// The variable that names the program.
    const fn variable(self) -> &'static str {
        match self {
            Self::Otel => "OTELCOL",
            Self::FluentBit => "FLUENT_BIT",
        }
    }

    /// Its name in sentences.
    pub const fn product(self) -> &'static str {
        match self {
            Self::Otel => "OpenTelemetry Collector",
            Self::FluentBit => "Fluent Bit",
        }
    }

    /// The program, if there is one to measure: what the variable names, or what was installed.
    pub fn program(self) -> Option<PathBuf> {
        if let Some(named) = std::env::var_os(self.variable()) {
            return Some(PathBuf::from(named)).filter(|path| path.exists());
        }
        let path = match self {
            // `make test-peers` installs it beside the builds, of which this program is one.
            Self::Otel => {
                let this = std::env::current_exe().ok()?;
                this.parent()?.join("../tools/peers/otel/otelcol")
            }
            Self::FluentBit => PathBuf::from("/opt/fluent-bit/bin/fluent-bit"),
        };
        path.exists().then_some(path)
    }

    /// Place at which its program was looked for in vain.
    pub fn missing(self) -> String {
        let (product, variable) = (self.product(), self.variable());
        let advice = match self {
            Self::Otel => "`dist/install-tools peers target/tools/peers` builds it",
            Self::FluentBit => "no registry has it",
        };
        format!("{product} is SKIPPED: {advice}; {variable} may name the program")
    }

    /// Its version, for the report.
    pub fn version(self) -> Option<String> {
        let output = Command::new(self.program()?)
            .arg("--version")
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = parse_version(&text)?;
        Some(format!("{} {version}", self.product()))
    }

    /// Starts it with `template`, its files in `dir`, before a collector; `gzip` if it is to
    /// compress what it sends.
    pub fn start(
        self,
        template: &str,
        dir: &Path,
        collector: &SinkProcess,
        gzip: bool,
    ) -> Result<HecPeer> {
        let program = self.program().with_context(|| self.missing())?;
        let (port, config) = (free_port()?, dir.join("forwarder.yaml"));
        let values = [
            ("@PORT@", port.to_string()),
            ("@SINK@", collector.port.to_string()),
            ("@DIR@", dir.display().to_string()),
            ("@PLAIN@", (!gzip).to_string()),
            ("@COMPRESS@", compress(gzip).to_owned()),
        ];
        let values = values.each_ref().map(|(k, v)| (*k, v.as_str()));
        write_config(&config, template, &values)?;
        let mut command = Command::new(program);
        match self {
            Self::Otel => command.arg("--config").arg(&config),
            Self::FluentBit => command.arg("-c").arg(&config),
        };
        let mut process = ChildProcess::start(self.product(), &mut command)?;
        await_listener(&mut process, port)?;
        Ok(HecPeer {
            process,
            port,
            collector: collector.port,
        })
    }
}

/// The option of Fluent Bit.
const fn compress(gzip: bool) -> &'static str {
    match gzip {
        true => "compress: gzip",
        false => "",
    }
}

/// The first word with a point between digits: `otelcol version 0.145.0`, `Fluent Bit v5.1.1`.
fn parse_version(text: &str) -> Option<&str> {
    let words = text
        .split_ascii_whitespace()
        .map(|word| word.trim_start_matches('v'));
    let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    words
        .filter(|word| word.contains('.'))
        .find(|word| is_version(word))
}

fn await_listener(process: &mut ChildProcess, port: u16) -> Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let deadline = Instant::now() + Duration::from_secs(READY_SECONDS_MAX);
    while TcpStream::connect(address).is_err() {
        let alive = process.runs() && Instant::now() < deadline;
        ensure!(
            alive,
            "it does not listen at {address}: {:?}",
            said(process)
        );
        wait(Duration::from_millis(20));
    }
    Ok(())
}

/// Words of a process that does not start.
fn said(process: &mut ChildProcess) -> Vec<String> {
    process.kill();
    process.last_lines()
}

/// A running one.
pub struct HecPeer {
    process: ChildProcess,
    port: u16,
    collector: u16,
}

impl BenchSubject for HecPeer {
    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn address(&self, _: Wire) -> Result<String> {
        Ok(format!("127.0.0.1:{}", self.port))
    }

    fn progress(&mut self) -> Result<SubjectProgress> {
        Ok(SubjectProgress {
            delivered: counts_at(self.collector)?.events,
            ..SubjectProgress::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        assert_eq!(parse_version("otelcol version 0.145.0\n"), Some("0.145.0"));
        assert_eq!(
            parse_version("Fluent Bit v5.1.1\nGit commit: x"),
            Some("5.1.1")
        );
        assert_eq!(parse_version("usage: this. that"), None);
    }
}
