//! The journal of systemd: a real journald in a mount namespace of its own, and its `journalctl`.

use std::path::Path;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::{Daemon, Inrush, Options, eventually, is_root, run_ok, tool};

const JOURNALD: &str = "/lib/systemd/systemd-journald";

/// Mounts an empty `/run`, and configures a journal in it that drops nothing by itself.
const NAMESPACE: &str = "mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journal /run/log/journal
printf '[Journal]\\nStorage=volatile\\nReadKMsg=no\\nRateLimitBurst=0\\nForwardToSyslog=no\\n\
RuntimeMaxUse=200M\\nAudit=no\\n' >/run/journald.conf
mount --bind /run/journald.conf /etc/systemd/journald.conf
echo holder $$
exec sleep 100000";

/// A journal that no one else writes to.
pub struct Journal {
    /// Process that keeps the namespace.
    holder: String,
    pid: Pid,
    _journald: Daemon,
    _holder: Daemon,
    folder: TempDir,
}

/// The number behind `word` in what a program said.
fn number(daemon: &mut Daemon, word: &str) -> String {
    daemon.until(word, |said| {
        let line = said.lines().find_map(|line| line.strip_prefix(word))?;
        Some(line.trim().to_owned())
    })
}

/// A journald in the namespace of that process.
fn journald(holder: &str, folder: &Path) -> (Daemon, Pid) {
    let mut command = Command::new("nsenter");
    let script = format!("echo journald $$; exec {JOURNALD}");
    command.args(["-t", holder, "-m", "sh", "-c", &script]);
    let mut journald = Daemon::start(&mut command, &folder.join("journald"));
    let pid = number(&mut journald, "journald ").parse().unwrap();
    (journald, Pid::from_raw(pid))
}

impl Journal {
    /// `None` where something is missing for it.
    pub fn start() -> Option<Self> {
        let needed = ["unshare", "nsenter", "mount", "journalctl", "systemd-cat"].map(tool);
        if !is_root() || needed.contains(&None) || !Path::new(JOURNALD).is_file() {
            return None;
        }
        let allowed = Command::new("unshare").args(["-m", "true"]).status();
        if !allowed.is_ok_and(|status| status.success()) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut namespace = Command::new("unshare");
        namespace.args(["-m", "sh", "-ec", NAMESPACE]);
        let mut keeper = Daemon::start(&mut namespace, &folder.path().join("holder"));
        let holder = number(&mut keeper, "holder ");
        let (journald, pid) = journald(&holder, folder.path());
        let journal = Self {
            holder,
            pid,
            _journald: journald,
            _holder: keeper,
            folder,
        };
        journal.await_socket();
        Some(journal)
    }

    fn await_socket(&self) {
        eventually("journald's socket", || {
            let there = self.shell("test -S /run/systemd/journal/stdout && echo yes || echo no");
            (there.trim() == "yes").then_some(())
        });
    }

    /// Kills journald with SIGKILL.
    pub fn kill_journald(&self) {
        kill(self.pid, Signal::SIGKILL).unwrap();
    }

    /// Starts another journald in place of the one that was killed.
    pub fn replace_journald(&mut self) {
        self.shell("rm -f /run/systemd/journal/stdout /run/systemd/journal/socket");
        (self._journald, self.pid) = journald(&self.holder, self.folder.path());
        self.await_socket();
    }

    /// Runs a script beside it.
    pub fn shell(&self, script: &str) -> String {
        let mut command = Command::new("nsenter");
        run_ok(command.args(["-t", &self.holder, "-m", "sh", "-ec", script]))
    }

    /// Writes lines of these numbers, a step of which its files are rotated in between.
    pub fn write(&self, first: u64, last: u64) {
        let pid = self.pid;
        std::thread::scope(|scope| {
            let cat = format!("seq -f 'line %.0f' {first} {last} | systemd-cat -t numbers");
            let writer = scope.spawn(move || self.shell(&cat));
            while !writer.is_finished() {
                kill(pid, Signal::SIGUSR2).unwrap();
                self.shell("journalctl --no-pager --quiet -n 1 >/dev/null");
            }
        });
        // What systemd-cat has written journald may still have to take.
        eventually("the last line in the journal", || {
            let script = "journalctl --no-pager --quiet -t numbers -n 1 -o cat";
            (self.shell(script).trim() == format!("line {last}")).then_some(())
        });
    }

    /// Number of its last entry: journald counts them from 1.
    pub fn last_number(&self) -> u64 {
        let script = "journalctl --no-pager --quiet -n 1 -o export";
        let entry = self.shell(script);
        let cursor = entry
            .lines()
            .find_map(|line| line.strip_prefix("__CURSOR="));
        let mut parts = cursor.unwrap().split(';');
        let number = parts.find_map(|part| part.strip_prefix("i="));
        u64::from_str_radix(number.unwrap(), 16).unwrap()
    }

    /// Starts Inrush beside it, to a store.
    pub fn inrush(&self, dir: Option<TempDir>) -> Inrush {
        let wrapper = ["nsenter", "-t", &self.holder, "-m"].map(str::to_owned);
        let yaml = "sources:\n  journal: { type: journald, start_at: beginning }\n\
            destinations:\n  local: { type: store, flush_bytes: 1MiB, flush_after: 100ms }\n";
        let options = Options {
            wrapper: &wrapper,
            dir,
            ..Options::default()
        };
        Inrush::with(yaml, options)
    }
}
