//! Control groups with a limit of memory or of CPU time, of version 1 or 2. They need root.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// Place of the groups, and the names of their files.
struct CgroupLayout {
    root: &'static str,
    limit: &'static str,
    peak: &'static str,
    events: &'static str,
}

const VERSIONS: [CgroupLayout; 2] = [
    CgroupLayout {
        root: "/sys/fs/cgroup/memory",
        limit: "memory.limit_in_bytes",
        peak: "memory.max_usage_in_bytes",
        events: "memory.oom_control",
    },
    CgroupLayout {
        root: "/sys/fs/cgroup",
        limit: "memory.max",
        peak: "memory.peak",
        events: "memory.events",
    },
];

/// A group; it goes when dropped, once nothing runs in it.
pub struct ControlGroup {
    folder: PathBuf,
    version: &'static CgroupLayout,
}

impl ControlGroup {
    /// A group in which so many bytes may be taken.
    pub fn new(limit_bytes: u64) -> Result<Self> {
        let made = VERSIONS.iter().find_map(|version| {
            let name = format!("inrush-bench-{}-{limit_bytes}", std::process::id());
            let folder = Path::new(version.root).join(name);
            fs::create_dir(&folder).ok()?;
            let group = Self { folder, version };
            let limit = group.folder.join(version.limit);
            fs::write(limit, limit_bytes.to_string()).ok()?;
            Some(group)
        });
        made.context(
            "no control group can be made: run it as root, where /sys/fs/cgroup is writable",
        )
    }

    /// The command that runs `binary` in it.
    pub fn command(&self, binary: &Path) -> Command {
        let [shell, words @ ..] = words_within(&self.folder);
        let mut command = Command::new(shell);
        command.args(words).arg(binary);
        command
    }

    fn text(&self, name: &str) -> Result<String> {
        let file = self.folder.join(name);
        fs::read_to_string(&file).with_context(|| file.display().to_string())
    }

    /// Bytes that were taken at most, pages of files among them.
    pub fn peak_bytes(&self) -> Result<u64> {
        let text = self.text(self.version.peak)?;
        text.trim().parse().context(self.version.peak)
    }

    /// Processes of it that the kernel has killed for want of memory.
    pub fn killed(&self) -> Result<u64> {
        let text = self.text(self.version.events)?;
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        let count = line.context("no oom_kill")?.trim();
        count.parse().context(self.version.events)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Fails while a process is in it; then it stays.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Microseconds of a period, the kernel's default.
const PERIOD_US: u64 = 100_000;

/// A group with a quota of CPU time; it goes when dropped, once nothing runs in it.
pub struct CpuGroup {
    folder: PathBuf,
}

impl CpuGroup {
    /// A group that may use so many thousandths of a CPU.
    pub fn new(milli_cpus: u64) -> Result<Self> {
        let quota_us = (milli_cpus * PERIOD_US / 1000).to_string();
        let name = format!("inrush-bench-{}-{milli_cpus}", std::process::id());
        let groups = [
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", quota_us.clone()),
            (
                "/sys/fs/cgroup",
                "cpu.max",
                format!("{quota_us} {PERIOD_US}"),
            ),
        ];
        let made = groups.into_iter().find_map(|(root, file, quota)| {
            // Version 2 gives the controller to those below only then; version 1 has no such file.
            let control = Path::new(root).join("cgroup.subtree_control");
            let control = OpenOptions::new().write(true).open(control);
            let _ = control.and_then(|mut control| control.write_all(b"+cpu"));
            let folder = Path::new(root).join(&name);
            fs::create_dir(&folder).ok()?;
            let group = Self { folder };
            fs::write(group.folder.join(file), quota).ok()?;
            Some(group)
        });
        made.context(
            "no control group can be made: run it as root, where /sys/fs/cgroup is writable",
        )
    }

    /// The words before a command line that run it in the group.
    pub fn words(&self) -> [String; 4] {
        words_within(&self.folder)
    }

    /// Periods in which its quota was used up, and those in which anything ran.
    pub fn throttled(&self) -> Result<(u64, u64)> {
        let file = self.folder.join("cpu.stat");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let count = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            let count = lines.find(|(found, _)| *found == name);
            count.and_then(|(_, count)| count.trim().parse().ok())
        };
        let counts = count("nr_throttled").zip(count("nr_periods"));
        counts.with_context(|| format!("{}: no counts: {text}", file.display()))
    }
}

impl Drop for CpuGroup {
    fn drop(&mut self) {
        // Fails while a process is in it; then it stays.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The words before a command line that run it in the group of a folder.
fn words_within(folder: &Path) -> [String; 4] {
    let procs = folder.join("cgroup.procs");
    let script = format!("echo $$ > {} && exec \"$@\"", procs.display());
    ["sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()]
}
