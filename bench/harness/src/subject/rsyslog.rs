//! rsyslog, installed, or unpacked somewhere: then `RSYSLOGD` names the program. Its modules are
//! found beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{BenchSubject, SubjectProgress, User, write_config};
use crate::child::{ChildProcess, free_port, wait};
use crate::meter::{process_cpu, udp_dropped};
use crate::sender::Wire;

/// The variable that names the program.
const VARIABLE: &str = "RSYSLOGD";

/// Path at which Debian installs it.
const PROGRAM: &str = "/usr/sbin/rsyslogd";

/// impstats writes once a second; less than this much CPU in that time is the statistics alone.
const IDLE_US_MAX: f64 = 20_000.0;

/// A running rsyslogd.
pub struct Rsyslog {
    process: ChildProcess,
    stats: PathBuf,
    port: u16,
    wire: Wire,
}

impl Rsyslog {
    /// The program, if there is one to measure.
    pub fn program() -> Option<PathBuf> {
        let named = std::env::var_os(VARIABLE).map(PathBuf::from);
        let path = named.unwrap_or_else(|| PathBuf::from(PROGRAM));
        path.exists().then_some(path)
    }

    /// Its version, for the report.
    pub fn version() -> Option<String> {
        let output = command(User::Ours)?.arg("-v").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split_whitespace().nth(1)?.to_owned();
        Some(format!("rsyslog {version}"))
    }

    /// Starts it with `template`, its files in `dir`.
    pub fn start(template: &str, wire: Wire, dir: &Path, user: User) -> Result<Self> {
        let port = free_port()?;
        let (config, stats) = (dir.join("rsyslog.conf"), dir.join("rsyslog.stats"));
        let values = [
            ("@PORT@", port.to_string()),
            ("@DIR@", dir.display().to_string()),
        ];
        write_config(
            &config,
            template,
            &values.each_ref().map(|(k, v)| (*k, v.as_str())),
        )?;
        // The statistics are appended: those of an earlier run are not ours.
        let _ = fs::remove_file(&stats);
        let mut command = command(user).context("RSYSLOGD names no program")?;
        command
            .arg("-n")
            .arg("-f")
            .arg(&config)
            .arg("-i")
            .arg(dir.join("rsyslog.pid"));
        let mut process = ChildProcess::start("rsyslog", &mut command)?;
        while !stats.exists() {
            anyhow::ensure!(process.runs(), "rsyslog has ended: {:?}", process.line());
            wait(Duration::from_millis(50));
        }
        Ok(Self {
            process,
            stats,
            port,
            wire,
        })
    }

    fn submitted(&self) -> Result<u64> {
        let text = fs::read_to_string(&self.stats).context("rsyslog's statistics")?;
        Ok(parse_submitted(&text))
    }
}

/// The program with the paths of an unpacked package: its libraries and its modules.
fn command(user: User) -> Option<Command> {
    let program = Rsyslog::program()?;
    let root = program.parent()?.parent()?.join("lib");
    let libraries = fs::read_dir(&root)
        .ok()?
        .filter_map(Result::ok)
        .map(|entry| entry.path());
    let library = libraries
        .into_iter()
        .find(|path| path.join("rsyslog/lmnet.so").exists())?;
    let mut command = user.command(&program);
    command
        .env("LD_LIBRARY_PATH", &library)
        .arg("-M")
        .arg(library.join("rsyslog"));
    Some(command)
}

impl BenchSubject for Rsyslog {
    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn address(&self, _: Wire) -> Result<String> {
        Ok(format!("127.0.0.1:{}", self.port))
    }

    /// Events that the input has submitted wait in the main queue for the parser, which no counter
    /// of this version tells: as long as the process computes, something is pending.
    fn progress(&mut self) -> Result<SubjectProgress> {
        let before = process_cpu(self.pid())?.total_us();
        wait(Duration::from_millis(200));
        let used = process_cpu(self.pid())?.total_us() - before;
        let kernel_dropped = match self.wire {
            Wire::Udp => udp_dropped(self.port)?,
            Wire::Tcp | Wire::Tls | Wire::Hec(_) => 0,
        };
        let pending = u64::from(used > IDLE_US_MAX);
        Ok(SubjectProgress {
            delivered: self.submitted()?,
            pending,
            kernel_dropped,
            ledger: None,
        })
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(100)
    }
}

/// The last figure of each input, summed: lines of JSON, one a counter and a second.
fn parse_submitted(text: &str) -> u64 {
    let mut last = std::collections::BTreeMap::new();
    for line in text
        .lines()
        .filter_map(|line| Some(&line[line.find('{')?..]))
    {
        let Ok(row) = serde_json::from_str::<serde_json::Value>(line) else {
            continue;
        };
        if let (Some(name), Some(submitted)) = (row["name"].as_str(), row["submitted"].as_u64()) {
            last.insert(name.to_owned(), submitted);
        }
    }
    last.values().sum()
}

#[cfg(test)]
mod tests {
    use super::parse_submitted;

    #[test]
    fn the_last_second_counts_and_a_cut_line_does_not() {
        let stats = r#"Nov 21: { "name": "imtcp(5514)", "origin": "imtcp", "submitted": 5 }
Nov 21: { "name": "main Q", "size": 3 }
Nov 21: { "name": "imtcp(5514)", "origin": "imtcp", "submitted": 900 }
Nov 21: { "name": "imtcp(5514)", "subm"#;
        assert_eq!(parse_submitted(stats), 900);
        assert_eq!(parse_submitted(""), 0);
    }
}
