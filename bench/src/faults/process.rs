//! The process of a round: started with faults or without, asked, killed, stopped.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use inrush_harness::child::{ChildProcess, wait};
use inrush_harness::subject::{is_ready, run_command};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::injected::{PID, Traced};
use super::plan::Injection;

/// Time that the admin API may take to answer: a debug build searches slowly.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Time that a process may take to be gone once killed or asked to stop.
const END_MAX: Duration = Duration::from_secs(40);

/// Between two looks at something that is waited for.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(5);

/// One life.
pub(super) struct FaultsProcess {
    served: ChildProcess,
    pid: Pid,
    agent: ureq::Agent,
    base: String,
    report: Option<PathBuf>,
    said: Vec<String>,
}

/// Things that stay the same in all lives of a series.
pub(super) struct SeriesSettings {
    pub(super) binary: PathBuf,
    pub(super) dir: PathBuf,
    pub(super) admin_port: u16,
}

impl SeriesSettings {
    /// Starts the process; with an injection, under our own eyes.
    pub(super) fn start(&self, injection: Option<&Injection>) -> Result<FaultsProcess> {
        let config = self.dir.join("inrush.yaml");
        let ours = run_command(&self.binary, &config, &self.dir);
        let report = self.dir.join("injected.json");
        let mut command = match injection {
            None => ours,
            Some(injection) => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("injected").arg("--root");
                command.arg(self.dir.join("data/store"));
                command
                    .arg("--injection")
                    .arg(serde_json::to_string(injection)?);
                command.arg("--report").arg(&report).arg("--");
                command.arg(ours.get_program()).args(ours.get_args());
                command.current_dir(&self.dir);
                command
            }
        };
        command.env("INRUSH_FAULTS_KEY", "hush");
        let mut served = ChildProcess::start("inrush", &mut command)?;
        let pid = match injection {
            None => served.pid().to_string(),
            Some(_) => {
                let line = served.line()?;
                let pid = line.strip_prefix(PID).map(str::to_owned);
                pid.with_context(|| format!("injected said {line}"))?
            }
        };
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER_MAX))
            .http_status_as_error(false)
            .proxy(None)
            .build();
        Ok(FaultsProcess {
            served,
            pid: Pid::from_raw(pid.parse()?),
            agent: agent.into(),
            base: format!("http://127.0.0.1:{}", self.admin_port),
            report: injection.map(|_| report),
            said: Vec::new(),
        })
    }
}

impl FaultsProcess {
    /// Waits until it listens everywhere, or, killed by us at a fault, is gone.
    pub(super) fn ready(&mut self) -> Result<()> {
        loop {
            match self.served.line() {
                Ok(line) => {
                    let ready = is_ready(&line);
                    self.said.push(line);
                    if ready {
                        return Ok(());
                    }
                }
                Err(error) => {
                    // Its outputs are closed a little before it is gone.
                    let deadline = Instant::now() + LOOK_EVERY * 200;
                    while self.runs() && Instant::now() < deadline {
                        wait(LOOK_EVERY);
                    }
                    if !self.runs() && self.traced()?.is_some_and(|traced| traced.killed) {
                        return Ok(());
                    }
                    return Err(error);
                }
            }
        }
    }

    /// True if it still runs.
    pub(super) fn runs(&mut self) -> bool {
        self.served.runs()
    }

    /// The report of what was done to it, once it is gone.
    pub(super) fn traced(&self) -> Result<Option<Traced>> {
        let Some(report) = &self.report else {
            return Ok(None);
        };
        let text = std::fs::read(report).with_context(|| report.display().to_string())?;
        Ok(Some(serde_json::from_slice(&text)?))
    }

    /// Has it end by a signal, and waits until it is gone.
    pub(super) fn end(&mut self, signal: Signal) -> Result<()> {
        if self.runs() {
            let _ = kill(self.pid, signal);
        }
        let deadline = Instant::now() + END_MAX;
        while self.runs() {
            if Instant::now() > deadline {
                let _ = kill(self.pid, Signal::SIGKILL);
                bail!("it did not end within {END_MAX:?} after {signal}");
            }
            wait(LOOK_EVERY);
        }
        Ok(())
    }

    /// All that it said; call it once it is gone.
    pub(super) fn said(&mut self) -> Vec<String> {
        let last = self.served.last_lines();
        self.said.extend(last);
        std::mem::take(&mut self.said)
    }

    fn get(&self, path: &str) -> Result<(u16, String)> {
        let url = format!("{}{path}", self.base);
        let mut answer = self.agent.get(&url).call().context("the admin API")?;
        let status = answer.status().as_u16();
        let text = answer
            .body_mut()
            .with_config()
            .limit(64 << 20)
            .read_to_string()?;
        Ok((status, text))
    }

    /// Its ledger.
    pub(super) fn ledger(&self) -> Result<Value> {
        let (_, text) = self.get("/api/v1/ledger")?;
        serde_json::from_str(&text).with_context(|| text.clone())
    }

    /// True if everything is as it should be.
    pub(super) fn is_healthy(&self) -> Result<bool> {
        Ok(self.get("/healthz")?.0 == 200)
    }

    /// The word of each destination of itself.
    pub(super) fn destinations(&self) -> Result<String> {
        Ok(self.get("/api/v1/destinations")?.1)
    }

    /// The rows that a statement finds in the store.
    pub(super) fn sql(&self, statement: &str) -> Result<Vec<Vec<Value>>> {
        let mut encoded = String::new();
        for byte in statement.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => encoded.push(char::from(byte)),
                _ => encoded.push_str(&format!("%{byte:02X}")),
            }
        }
        let (status, text) = self.get(&format!("/api/v1/sql?limit=100000&q={encoded}"))?;
        ensure!(status == 200, "{statement}: {status}: {text}");
        let mut rows = Vec::new();
        let mut ended = false;
        for line in text.lines() {
            let reply: Value = serde_json::from_str(line)?;
            match reply["type"].as_str() {
                Some("row") => rows.push(reply["values"].as_array().cloned().unwrap_or_default()),
                Some("error") => bail!("{statement}: {line}"),
                Some("end") => ended = true,
                _ => {}
            }
        }
        ensure!(ended, "{statement}: no end: {text}");
        Ok(rows)
    }

    /// The one number that a statement finds.
    pub(super) fn number(&self, statement: &str) -> Result<u64> {
        let rows = self.sql(statement)?;
        let number = rows.first().and_then(|row| row.first()?.as_u64());
        number.with_context(|| format!("{statement}: {rows:?}"))
    }
}
