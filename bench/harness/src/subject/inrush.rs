//! Inrush as a measured subject: process control, admin API, and the account in its ledger.
//!
//! # What it guarantees
//! * A start returns after `inrush: ready`; all addresses come from the lines of the process.
//! * `disagreement` names every mismatch: balance, sources against `sent`, each destination.
//! * Progress is that of the named destination, or of the ledger's first one without a name.
//! * `AcceptedSubject` counts events that sources accepted or hold, because packs filter and join
//!   events.
//!
//! # States
//! The process runs until `stop`, `kill` or the drop of its `Inrush`.
//!
//! # Limits
//! `STOP_MAX` bounds an orderly stop; a slower process is killed, and `stop` is an error.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{BenchSubject, SubjectProgress};
use crate::child::ChildProcess;
use crate::probe;
use crate::sender::Wire;

/// The most that an orderly stop may take.
const STOP_MAX: Duration = Duration::from_secs(60);

/// Words by which the product says that it listens everywhere, behind time and level.
pub const READY_LINE: &str = "inrush: ready";

/// Words between the program and its configuration.
pub const RUN_WORDS: [&str; 2] = ["run", "-c"];

/// The command that runs the product with a configuration, in the folder `dir`.
pub fn run_command(binary: &Path, config: &Path, dir: &Path) -> Command {
    let mut command = Command::new(binary);
    command.args(RUN_WORDS).arg(config).current_dir(dir);
    command
}

/// True if a line says that the product listens everywhere.
pub fn is_ready(line: &str) -> bool {
    line.trim().ends_with(READY_LINE)
}

/// A running `inrush`.
pub struct Inrush {
    process: ChildProcess,
    admin: String,
    tcp: Option<String>,
    udp: Option<String>,
    tls: Option<String>,
    http: Option<String>,
    /// The destination whose account is asked for; the only destination if none is named.
    destination: Option<String>,
}

/// Whom it runs as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum User {
    Ours,
    /// Without any privilege.
    Nobody,
}

impl Inrush {
    /// Starts `binary` with `config`, or with the built-in default and its data in `data_dir`.
    pub fn start(
        binary: &Path,
        config: Option<&Path>,
        data_dir: &Path,
        user: User,
    ) -> Result<Self> {
        Self::start_by(user.command(binary), config, data_dir)
    }

    /// The same by a command that runs it.
    pub fn start_by(mut command: Command, config: Option<&Path>, data_dir: &Path) -> Result<Self> {
        command.current_dir(data_dir);
        match config {
            Some(file) => command.args(RUN_WORDS).arg(file),
            None => command.args(["run", "--data-dir"]).arg(data_dir),
        };
        let mut process = ChildProcess::start("inrush", &mut command)?;
        let lines = process.lines_until(is_ready)?;
        let listening = |scheme: &str| {
            let prefix = format!("inrush: listening on {scheme}://");
            let (_, rest) = lines.iter().find_map(|line| line.split_once(&prefix))?;
            Some(reachable(rest.split_whitespace().next()?))
        };
        let prefix = "inrush: admin on ";
        let admin = lines.iter().find_map(|line| line.split_once(prefix));
        let (_, admin) = admin.context("inrush does not say where its admin API is")?;
        let admin = admin.trim().to_owned();
        let (tcp, udp, tls) = (listening("tcp"), listening("udp"), listening("tls"));
        let http = listening("http");
        Ok(Self {
            process,
            admin,
            tcp,
            udp,
            tls,
            http,
            destination: None,
        })
    }

    /// Names the destination whose account counts.
    pub fn watching(mut self, destination: &str) -> Self {
        self.destination = Some(destination.to_owned());
        self
    }

    /// Its admin API, `http://HOST:PORT`.
    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// URL at which a POST makes it read its configuration again.
    pub fn reload_url(&self) -> String {
        format!("{}/api/v1/reload", self.admin)
    }

    /// True if it still runs.
    pub fn runs(&mut self) -> bool {
        self.process.runs()
    }

    /// The last line that it said, once it has ended.
    pub fn last_words(&mut self) -> String {
        self.process.last_lines().pop().unwrap_or_default()
    }

    /// Kills it: nothing of it runs afterwards, and nothing in it was told.
    pub fn kill(mut self) {
        self.process.kill();
    }

    /// Has it end in order; all that it said since it was ready.
    ///
    /// # Errors
    /// It did not end within `STOP_MAX`, and was killed.
    pub fn stop(mut self) -> Result<Vec<String>> {
        self.process.stop(STOP_MAX)?;
        Ok(self.process.last_lines())
    }

    /// Its ledger at this moment.
    pub fn ledger(&self) -> Result<Value> {
        ledger_at(&self.admin)
    }

    /// The flow of this moment: edges, queue and alarms.
    pub fn flow(&self) -> Result<Value> {
        self.json("/api/v1/flow")
    }

    /// The one number that a statement finds in the store.
    pub fn number(&self, statement: &str) -> Result<u64> {
        let path = format!("/api/v1/sql?q={}", statement.replace(' ', "%20"));
        let rows = probe::ask(&self.admin, &path)?.found;
        let number = rows.first().and_then(|row| row["values"][0].as_u64());
        number.with_context(|| format!("{statement}: {rows:?}"))
    }

    fn json(&self, path: &str) -> Result<Value> {
        json_at(&self.admin, path)
    }
}

/// The ledger at this moment of the process whose admin API is `http://HOST:PORT`.
pub fn ledger_at(admin: &str) -> Result<Value> {
    json_at(admin, "/api/v1/ledger")
}

fn json_at(admin: &str, path: &str) -> Result<Value> {
    let text = crate::http::get(&format!("{admin}{path}"))?;
    serde_json::from_str(&text).with_context(|| text.clone())
}

/// An address to send to for an address listened on.
fn reachable(listening: &str) -> String {
    listening
        .replace("0.0.0.0:", "127.0.0.1:")
        .replace("[::]:", "[::1]:")
}

impl User {
    /// Runs `binary` as this user.
    pub(super) fn command(self, binary: &Path) -> Command {
        match self {
            Self::Ours => Command::new(binary),
            Self::Nobody => as_nobody(binary),
        }
    }
}

fn as_nobody(binary: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid=nobody",
        "--regid=nogroup",
        "--clear-groups",
        "--no-new-privs",
    ]);
    command
        .args(["--inh-caps=-all", "--bounding-set=-all"])
        .arg(binary);
    command
}

impl BenchSubject for Inrush {
    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn address(&self, wire: Wire) -> Result<String> {
        let address = match wire {
            Wire::Tcp => &self.tcp,
            Wire::Udp => &self.udp,
            Wire::Tls => &self.tls,
            Wire::Hec(_) => &self.http,
        };
        address
            .clone()
            .with_context(|| format!("inrush does not listen on {wire:?}"))
    }

    fn progress(&mut self) -> Result<SubjectProgress> {
        progress_of(self.ledger()?, self.destination.as_deref())
    }

    fn wrong(&self, last: &SubjectProgress, sent: u64) -> Option<String> {
        disagreement(last.ledger.as_ref()?, sent, self.destination.as_deref())
    }
}

/// One whose packs filter events and join others: what it has accepted counts, and the parts that
/// wait for others, which may be for seconds.
pub struct AcceptedSubject(pub Inrush);

impl BenchSubject for AcceptedSubject {
    fn pid(&self) -> u32 {
        self.0.pid()
    }

    fn address(&self, wire: Wire) -> Result<String> {
        self.0.address(wire)
    }

    fn progress(&mut self) -> Result<SubjectProgress> {
        accepted_of(self.0.ledger()?)
    }

    fn arrive(&self, last: &SubjectProgress, sent: u64) -> u64 {
        let all = last.ledger.as_ref().map(|ledger| &ledger["destinations"]);
        let first = all.and_then(|all| all.as_object()?.values().next());
        first.map_or(sent, |first| first["delivered"].as_u64().unwrap_or(0))
    }

    fn wrong(&self, last: &SubjectProgress, sent: u64) -> Option<String> {
        let ledger = last.ledger.as_ref()?;
        let missing = last.unaccounted(sent);
        (missing != 0 || last.pending != 0 || ledger["balanced"] != Value::Bool(true)).then(|| {
            format!(
                "{missing} of {sent} unaccounted for, {} pending: {ledger}",
                last.pending
            )
        })
    }
}

fn accepted_of(ledger: Value) -> Result<SubjectProgress> {
    let mut progress = progress_of(ledger, None)?;
    let ledger = progress.ledger.as_ref().context("a ledger")?;
    let sum = |key: &str| {
        let sources = ledger["sources"].as_object().into_iter().flatten();
        sources.filter_map(|(_, s)| s[key].as_u64()).sum::<u64>()
    };
    progress.delivered = sum("accepted") + sum("held");
    Ok(progress)
}

/// Account of all sources together and of one destination in a ledger.
pub(crate) fn progress_of(ledger: Value, destination: Option<&str>) -> Result<SubjectProgress> {
    let sources = ledger["sources"]
        .as_object()
        .context("the ledger has no sources")?;
    let kernel_dropped = sources
        .values()
        .filter_map(|s| s["kernel_dropped"].as_u64())
        .sum();
    let all = ledger["destinations"]
        .as_object()
        .context("the ledger has no destinations")?;
    let account = match destination {
        Some(name) => all.get(name),
        None => all.values().next(),
    };
    let account = account.context("the ledger does not know the destination")?;
    let count = |key: &str| account[key].as_u64().unwrap_or(0);
    let (delivered, pending) = (count("delivered"), count("pending"));
    Ok(SubjectProgress {
        delivered,
        pending,
        kernel_dropped,
        ledger: Some(ledger),
    })
}

/// Entries of a ledger that do not agree with `sent` events; nothing if all do. Without the name of
/// a destination, every one of them must have delivered all.
pub(crate) fn disagreement(ledger: &Value, sent: u64, only: Option<&str>) -> Option<String> {
    let mut wrong = Vec::new();
    if ledger["balanced"] != Value::Bool(true) {
        wrong.push("not balanced".to_owned());
    }
    let sources = ledger["sources"].as_object().cloned().unwrap_or_default();
    let sum = |key: &str| {
        sources
            .values()
            .filter_map(|s| s[key].as_u64())
            .sum::<u64>()
    };
    let (accepted, dropped) = (sum("accepted"), sum("kernel_dropped"));
    if accepted + dropped != sent {
        wrong.push(format!(
            "accepted {accepted} + kernel_dropped {dropped} is not {sent}"
        ));
    }
    let all = ledger["destinations"].as_object().into_iter().flatten();
    for (name, account) in all.filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        let (delivered, pending) = (account["delivered"].as_u64(), account["pending"].as_u64());
        if (delivered, pending) != (Some(accepted), Some(0)) {
            wrong.push(format!(
                "{name}: delivered {delivered:?}, pending {pending:?}"
            ));
        }
    }
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

/// Path of the binary, if none is given: beside this one, built by the same profile.
pub fn default_binary() -> Result<PathBuf> {
    let this = std::env::current_exe().context("own path")?;
    let beside = this.with_file_name("inrush");
    anyhow::ensure!(
        beside.exists(),
        "no inrush beside {}; build it (cargo build --release) or say --inrush PATH",
        this.display()
    );
    Ok(beside)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn ledger(accepted: u64, dropped: u64, delivered: u64, pending: u64) -> Value {
        json!({
            "balanced": true,
            "sources": {"syslog": {"accepted": accepted, "kernel_dropped": dropped}},
            "destinations": {"null0": {"delivered": delivered, "pending": pending}},
        })
    }

    #[test]
    fn a_ledger_agrees_when_every_event_sent_is_delivered_or_dropped_by_the_kernel() {
        assert_eq!(disagreement(&ledger(10, 0, 10, 0), 10, None), None);
        assert_eq!(disagreement(&ledger(7, 3, 7, 0), 10, None), None);
    }

    #[test]
    fn each_disagreement_is_named() {
        assert!(
            disagreement(&ledger(9, 0, 9, 0), 10, None)
                .unwrap()
                .contains("is not 10")
        );
        assert!(
            disagreement(&ledger(10, 0, 9, 1), 10, None)
                .unwrap()
                .contains("null0")
        );
        let mut unbalanced = ledger(10, 0, 10, 0);
        unbalanced["balanced"] = json!(false);
        assert_eq!(disagreement(&unbalanced, 10, None).unwrap(), "not balanced");
    }

    #[test]
    fn a_destination_that_came_late_need_not_have_all() {
        let mut late = ledger(10, 0, 10, 0);
        late["destinations"]["spare"] = json!({"delivered": 4, "pending": 0});
        assert_eq!(disagreement(&late, 10, Some("null0")), None);
        assert!(disagreement(&late, 10, None).is_some());
    }

    #[test]
    fn progress_is_that_of_the_destination_asked_for() {
        let mut two = ledger(10, 2, 10, 0);
        two["destinations"]["splunk"] = json!({"delivered": 4, "pending": 6});
        let splunk = progress_of(two.clone(), Some("splunk")).unwrap();
        assert_eq!(
            (splunk.delivered, splunk.pending, splunk.kernel_dropped),
            (4, 6, 2)
        );
        assert!(progress_of(two, Some("none")).is_err());
    }

    #[test]
    fn parts_that_wait_are_accounted_for() {
        let mut held = ledger(10, 0, 7, 0);
        held["sources"]["syslog"]["held"] = json!(2);
        assert_eq!(accepted_of(held).unwrap().unaccounted(12), 0);
    }

    #[test]
    fn an_address_for_all_is_reached_on_loopback() {
        assert_eq!(reachable("0.0.0.0:5514"), "127.0.0.1:5514");
        assert_eq!(reachable("[::]:5514"), "[::1]:5514");
        assert_eq!(reachable("127.0.0.1:9"), "127.0.0.1:9");
    }
}
