//! The process under test.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use inrush_event::{LedgerSnapshot, StoredSnapshot};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::{DEADLINE, HttpAnswer, eventually, http, json_lines};

/// The built binary: `INRUSH_BIN`, or `inrush` beside the test's own target folder.
///
/// # Panics
/// If it is not there, with the command that builds it.
pub fn binary() -> PathBuf {
    let path = std::env::var_os("INRUSH_BIN")
        .map(PathBuf::from)
        .unwrap_or_else(|| {
            let own = std::env::current_exe().unwrap();
            // target/debug/deps/blackbox-… → target/debug/inrush
            own.parent().and_then(Path::parent).unwrap().join("inrush")
        });
    assert!(
        path.is_file(),
        "{} is missing: run `cargo build -p inrush` first (make test does), or set INRUSH_BIN",
        path.display()
    );
    path
}

/// How to start it.
#[derive(Default)]
pub struct Options<'a> {
    /// Flags after `run -c FILE --data-dir DIR`.
    pub args: &'a [&'a str],
    /// What to run in place of the binary, with the binary as its next argument; a wrapper.
    pub wrapper: &'a [String],
    /// Environment variables.
    pub env: &'a [(&'a str, &'a str)],
    /// The folder for configuration, data and output; by default a new one.
    pub dir: Option<TempDir>,
}

/// How it ended.
#[derive(Debug)]
pub struct Exit {
    pub status: ExitStatus,
    pub stderr: String,
}

#[derive(Default)]
struct Log {
    lines: Vec<String>,
    ended: bool,
}

type SharedLog = Arc<(Mutex<Log>, Condvar)>;

/// A running `inrush run`.
pub struct Inrush {
    child: Child,
    log: SharedLog,
    reader: Option<std::thread::JoinHandle<()>>,
    admin: SocketAddr,
    dir: Option<TempDir>,
}

impl Inrush {
    /// Starts it with `yaml` as its configuration and waits until it is ready. `{dir}` in the
    /// text becomes the test's folder; an admin address is added where there is none. Packs are off
    /// unless the text names them: few tests are about products.
    pub fn start(yaml: &str) -> Self {
        Self::with(yaml, Options::default())
    }

    /// [`Self::start`] with options.
    pub fn with(yaml: &str, options: Options<'_>) -> Self {
        let dir = options.dir.unwrap_or_else(|| tempfile::tempdir().unwrap());
        write_config(dir.path(), yaml);
        let mut words: Vec<String> = options.wrapper.to_vec();
        words.push(binary().to_str().unwrap().to_owned());
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .arg("run")
            .arg("-c")
            .arg(dir.path().join("inrush.yaml"))
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .args(options.args)
            .envs(options.env.iter().copied())
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(dir.path().join("stdout")).unwrap())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = SharedLog::default();
        let reader = follow(child.stderr.take().unwrap(), Arc::clone(&log));
        let admin = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut inrush = Self {
            child,
            log,
            reader: Some(reader),
            admin,
            dir: Some(dir),
        };
        inrush.line("inrush: ready");
        let admin = inrush.line("inrush: admin on http");
        let (_, address) = admin.split_once("://").unwrap();
        inrush.admin = address.parse().unwrap();
        inrush
    }

    /// The first line of stderr that has `start` behind time and level, from there on, waiting for
    /// it.
    pub fn line(&self, start: &str) -> String {
        let (log, changed) = &*self.log;
        let end = Instant::now() + DEADLINE;
        let mut log = log.lock().unwrap();
        loop {
            let mut found = log
                .lines
                .iter()
                .filter_map(|line| Some(&line[line.find(start)?..]));
            if let Some(line) = found.next() {
                return line.to_owned();
            }
            let left = end.saturating_duration_since(Instant::now());
            let text = log.lines.join("\n");
            assert!(
                !log.ended && !left.is_zero(),
                "no line `{start}…` on stderr:\n{text}"
            );
            log = changed.wait_timeout(log, left).unwrap().0;
        }
    }

    /// Everything on stderr so far.
    pub fn stderr(&self) -> String {
        let log = self.log.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.lines.join("\n")
    }

    /// The address really bound for the first listener of `protocol` (`udp`, `tcp`, `tls`).
    pub fn address(&self, protocol: &str) -> SocketAddr {
        self.nth_address(protocol, 0)
    }

    /// The address of the `n`th listener of `protocol`, from 0.
    pub fn nth_address(&self, protocol: &str, n: usize) -> SocketAddr {
        let start = format!("inrush: listening on {protocol}://");
        let stderr = self.stderr();
        let mut own = stderr.lines().filter_map(|line| line.split_once(&start));
        let (_, rest) = own
            .nth(n)
            .unwrap_or_else(|| panic!("no {protocol} listener:\n{stderr}"));
        rest.split(' ').next().unwrap().parse().unwrap()
    }

    /// The admin API's address.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A path in the test's folder: `inrush.yaml`, `data/…`, `out.jsonl`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.as_ref().unwrap().path().join(name)
    }

    /// One request to the admin API.
    pub fn http(&self, method: &str, path: &str) -> HttpAnswer {
        http(self.admin, method, path)
    }

    /// A JSON document of the admin API.
    pub fn json(&self, path: &str) -> Value {
        self.http("GET", path).json()
    }

    /// The ledger now.
    pub fn ledger(&self) -> LedgerSnapshot {
        serde_json::from_value(self.json("/api/v1/ledger")).unwrap()
    }

    /// Waits until the ledger is as `condition` wants it, checking on the way that it always
    /// balances.
    pub fn wait_until(
        &self,
        what: &str,
        condition: impl Fn(&LedgerSnapshot) -> bool,
    ) -> LedgerSnapshot {
        let end = Instant::now() + DEADLINE;
        loop {
            let ledger = self.ledger();
            assert!(ledger.balanced, "{:?}\n{ledger:#?}", ledger.imbalance());
            if condition(&ledger) {
                return ledger;
            }
            let log = || self.stderr();
            assert!(
                Instant::now() < end,
                "in vain: {what}\n{ledger:#?}\n{}",
                log()
            );
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Waits until exactly `events` events were received, accepted and taken by every
    /// destination, and nothing was lost on the way.
    pub fn conserved(&self, events: u64) -> LedgerSnapshot {
        let ledger = self.wait_until(&format!("{events} events delivered"), |ledger| {
            let received: u64 = ledger.sources.values().map(|s| s.received).sum();
            let settled = ledger.destinations.values().all(|d| d.pending == 0);
            received >= events && settled
        });
        let sum = |get: fn(&inrush_event::SourceSnapshot) -> u64| {
            ledger.sources.values().map(get).sum::<u64>()
        };
        assert_eq!(sum(|s| s.received), events, "received: {ledger:#?}");
        assert_eq!(sum(|s| s.accepted), events, "accepted: {ledger:#?}");
        assert_eq!(sum(|s| s.kernel_dropped), 0, "kernel_dropped: {ledger:#?}");
        for (name, d) in &ledger.destinations {
            assert_eq!(
                (d.accepted, d.delivered),
                (events, events),
                "{name}: {ledger:#?}"
            );
        }
        ledger
    }

    /// The events in a file of JSON lines in the test's folder, in the order of the file.
    pub fn events(&self, file: &str) -> Vec<Value> {
        json_lines(&self.path(file))
    }

    /// Like [`Self::events`] while the file is being written: a line that has no end yet is left
    /// out.
    pub fn events_so_far(&self, file: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path(file)).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Resident memory of the process.
    pub fn rss_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// [`Self::conserved`], then the events of `out.jsonl`, as many as were sent.
    pub fn collected(&self, events: u64) -> Vec<Value> {
        self.conserved(events);
        let lines = self.events("out.jsonl");
        assert_eq!(lines.len() as u64, events);
        lines
    }

    /// The status of the only (or first) source.
    pub fn source(&self) -> Value {
        self.json("/api/v1/sources")["sources"][0].clone()
    }

    /// The row of the only (or first) source for connections refused for a reason in these words.
    pub fn refused(&self, why: &str) -> Value {
        eventually(&format!("one refused for: {why}"), || {
            let source = self.source();
            let rows = source["refused"].as_array()?;
            let found = rows.iter().find(|row| row["why"].to_string().contains(why));
            found.cloned()
        })
    }

    /// The status of the only (or first) destination.
    pub fn destination(&self) -> Value {
        self.json("/api/v1/destinations")["destinations"][0].clone()
    }

    /// The status of the destination of this name.
    pub fn destination_named(&self, name: &str) -> Value {
        let all = self.json("/api/v1/destinations")["destinations"].clone();
        let mut all = all.as_array().unwrap().iter();
        all.find(|one| one["name"] == name).unwrap().clone()
    }

    /// What a store has of the events that it got, once a search has found as many as it says:
    /// `select count(*)`, what retention took and what damage hides are all that came.
    pub fn stored(&self, name: &str) -> StoredSnapshot {
        let count = || {
            let query = "/api/v1/sql?q=select+count(*)+from+events";
            let answer = self.http("GET", query).body;
            let rows = answer
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok());
            let mut rows = rows.filter(|line: &Value| line["type"] == "row");
            rows.next()?["values"][0].as_u64()
        };
        let stored = || {
            let ledger = self.ledger();
            assert!(ledger.balanced, "{:?}\n{ledger:#?}", ledger.imbalance());
            ledger.destinations[name].stored.clone().unwrap()
        };
        eventually("a search finds what the ledger says", || {
            let before = stored();
            let found = count()?;
            let after = stored();
            let says = after.searchable + after.in_memory;
            (before == after && says == found).then(|| {
                let expired: u64 = after.expired.values().sum();
                let gone = expired + after.unreadable;
                let delivered = found - after.in_memory + gone - after.at_start;
                assert_eq!(delivered, after.delivered - after.repeated, "{after:?}");
                after.clone()
            })
        })
    }

    /// Waits until a counter of connections that ended early is `n` or more.
    pub fn connection_errors(&self, reason: &str, n: u64) {
        eventually(&format!("{n} connection errors `{reason}`"), || {
            (self.source()["connection_errors"][reason].as_u64()? >= n).then_some(())
        });
    }

    /// Writes another configuration over the running one's; it counts from the next reload.
    pub fn rewrite(&self, yaml: &str) {
        write_config(self.dir.as_ref().unwrap().path(), yaml);
    }

    /// `POST /api/v1/reload`.
    pub fn reload(&self) -> HttpAnswer {
        self.http("POST", "/api/v1/reload")
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// SIGTERM, then how it ended; the folder is left for the caller to look at or start again in.
    pub fn stop(mut self) -> (Exit, TempDir) {
        self.signal(Signal::SIGTERM);
        let exit = self.ended();
        (exit, self.dir.take().unwrap())
    }

    /// SIGKILL, then how it ended; the folder is left to be started again in.
    pub fn kill(mut self) -> (Exit, TempDir) {
        self.signal(Signal::SIGKILL);
        let exit = self.ended();
        (exit, self.dir.take().unwrap())
    }

    fn ended(&mut self) -> Exit {
        let status = eventually("the process to end", || self.child.try_wait().unwrap());
        // The pipe ends with the process, so that the whole of stderr is here now.
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        Exit {
            status,
            stderr: self.stderr(),
        }
    }
}

impl Drop for Inrush {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- stderr of inrush\n{}\n---", self.stderr());
        }
    }
}

fn write_config(dir: &Path, yaml: &str) {
    let yaml = yaml.replace("{dir}", dir.to_str().unwrap());
    // Written beside and moved over, as an editor or a configuration tool does it.
    let new = dir.join("inrush.yaml.new");
    let admin = match yaml.contains("admin: {") {
        true => "",
        false => "admin: { listen: 127.0.0.1:0 }\n",
    };
    let packs = match yaml.contains("packs: {") || yaml.contains("packs:\n") {
        true => "",
        false => "packs: { enabled: false }\n",
    };
    std::fs::write(&new, format!("{yaml}\n{admin}{packs}")).unwrap();
    std::fs::rename(new, dir.join("inrush.yaml")).unwrap();
}

fn follow(stderr: ChildStderr, log: SharedLog) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let (shared, changed) = &*log;
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            shared
                .lock()
                .unwrap()
                .lines
                .push(String::from_utf8_lossy(&line).into_owned());
            changed.notify_all();
        }
        shared.lock().unwrap().ended = true;
        changed.notify_all();
    })
}
