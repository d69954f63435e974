//! A control group with a limit of memory, of version 1 or 2. It needs root.

use std::fs;
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
        let mut command = Command::new("sh");
        let procs = self.folder.join("cgroup.procs");
        let script = format!("echo $$ > {} && exec \"$@\"", procs.display());
        command.arg("-c").arg(script).arg("sh").arg(binary);
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
