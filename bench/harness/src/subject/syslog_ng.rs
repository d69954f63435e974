//! syslog-ng, with the configurations under `bench/peers/`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::bare::SinkProcess;
use super::{BenchSubject, SubjectProgress, User, write_config};
use crate::child::{ChildProcess, free_port, wait};
use crate::meter::udp_dropped;
use crate::sender::Wire;

/// Path at which Debian installs it.
const PROGRAM: &str = "/usr/sbin/syslog-ng";

/// Seconds until its control socket answers, at most.
const READY_SECONDS_MAX: u64 = 20;

/// A running syslog-ng.
pub struct SyslogNg {
    process: ChildProcess,
    control: PathBuf,
    port: u16,
    wire: Wire,
}

impl SyslogNg {
    /// True if it is installed.
    pub fn installed() -> bool {
        Path::new(PROGRAM).exists()
    }

    /// Its version, for the report.
    pub fn version() -> Option<String> {
        let output = Command::new(PROGRAM).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let installed = text
            .lines()
            .find_map(|line| line.strip_prefix("Installer-Version: "))?;
        Some(format!("syslog-ng {}", installed.trim()))
    }

    /// True if it can parse one connection's messages by several workers: from 4.3 on.
    pub fn can_parallelize() -> bool {
        Self::version().is_some_and(|version| is_since(&version, (4, 3)))
    }

    /// Starts it with `template`, its files in `dir`, delivering to `sink` if there is one.
    pub fn start(
        template: &str,
        wire: Wire,
        dir: &Path,
        sink: Option<&SinkProcess>,
        user: User,
    ) -> Result<Self> {
        let port = free_port()?;
        let (config, control) = (dir.join("syslog-ng.conf"), dir.join("syslog-ng.ctl"));
        let sink_port = sink.map_or(String::new(), |sink| sink.port.to_string());
        let values = [
            ("@PORT@", port.to_string()),
            ("@SINK@", sink_port),
            ("@DIR@", dir.display().to_string()),
        ];
        write_config(
            &config,
            template,
            &values.each_ref().map(|(k, v)| (*k, v.as_str())),
        )?;
        let mut command = user.command(Path::new(PROGRAM));
        command.args(["-F", "--no-caps", "-f"]).arg(&config);
        command
            .arg("-R")
            .arg(dir.join("syslog-ng.persist"))
            .arg("-c")
            .arg(&control);
        command.arg("-p").arg(dir.join("syslog-ng.pid"));
        let process = ChildProcess::start("syslog-ng", &mut command)?;
        let mut started = Self {
            process,
            control,
            port,
            wire,
        };
        started.await_ready()?;
        Ok(started)
    }

    fn await_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(READY_SECONDS_MAX);
        while self.stats().is_err() {
            if Instant::now() > deadline || !self.process.runs() {
                bail!("syslog-ng does not start; try {PROGRAM} -s -f on its configuration");
            }
            wait(Duration::from_millis(20));
        }
        Ok(())
    }

    fn stats(&self) -> Result<String> {
        let output = Command::new("syslog-ng-ctl")
            .args(["stats", "-c"])
            .arg(&self.control)
            .output()
            .context("syslog-ng-ctl")?;
        anyhow::ensure!(output.status.success(), "syslog-ng-ctl: {}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl BenchSubject for SyslogNg {
    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn address(&self, _: Wire) -> Result<String> {
        Ok(format!("127.0.0.1:{}", self.port))
    }

    fn progress(&mut self) -> Result<SubjectProgress> {
        let delivered = parse_delivered(&self.stats()?).context("syslog-ng's stats")?;
        let kernel_dropped = match self.wire {
            Wire::Udp => udp_dropped(self.port)?,
            Wire::Tcp | Wire::Tls | Wire::Hec(_) => 0,
        };
        Ok(SubjectProgress {
            delivered,
            kernel_dropped,
            ..SubjectProgress::default()
        })
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(100)
    }
}

/// True if `words`, such as `syslog-ng 4.8.1-1`, are of this version or a later one.
fn is_since(words: &str, least: (u32, u32)) -> bool {
    let number = words.rsplit(' ').next().unwrap_or_default();
    let mut parts = number.split(['.', '-', '~', '+']).map(str::parse::<u32>);
    let mut next = || parts.next().and_then(Result::ok);
    next().zip(next()).is_some_and(|version| version >= least)
}

/// `SourceName;SourceId;SourceInstance;State;Type;Number`. What an HTTP or file destination has
/// written where there is one; else what the source has processed.
fn parse_delivered(stats: &str) -> Option<u64> {
    let rows = || {
        stats
            .lines()
            .map(|line| line.split(';').collect::<Vec<_>>())
    };
    let number = |row: Vec<&str>| row.last()?.parse::<u64>().ok();
    let is = |row: &[&str], name: &str, what: &str| {
        row.first() == Some(&name) && row.get(row.len().wrapping_sub(2)) == Some(&what)
    };
    let written = rows()
        .filter(|row| is(row, "dst.http", "written") || is(row, "dst.file", "written"))
        .filter_map(number);
    let written = written.reduce(|a, b| a + b);
    written.or_else(|| {
        rows()
            .find(|row| is(row, "source", "processed"))
            .and_then(number)
    })
}

#[cfg(test)]
mod tests {
    use super::{is_since, parse_delivered};

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(!is_since("syslog-ng 3.38.1-5+deb12u1", (4, 3)));
        assert!(is_since("syslog-ng 4.10.0", (4, 3)) && is_since("syslog-ng 4.3.0-1", (4, 3)));
        assert!(!is_since("syslog-ng 4.2", (4, 3)) && !is_since("syslog-ng", (4, 3)));
    }

    const SOURCE: &str = "SourceName;SourceId;SourceInstance;State;Type;Number\n\
        global;msg_clones;;a;processed;0\n\
        source;s;;a;processed;4200\n\
        src.tcp;s#0;tcp,127.0.0.1;d;processed;9\n";

    #[test]
    fn without_a_destination_the_source_counts() {
        assert_eq!(parse_delivered(SOURCE), Some(4200));
        assert_eq!(parse_delivered("SourceName;\n"), None);
    }

    #[test]
    fn with_an_http_destination_what_it_wrote_counts() {
        let http = format!("{SOURCE}dst.http;d#0;http,http://127.0.0.1:1/x;a;written;4100\n");
        assert_eq!(parse_delivered(&http), Some(4100));
        let file = http.replace("dst.http", "dst.file");
        assert_eq!(parse_delivered(&file), Some(4100));
    }
}
