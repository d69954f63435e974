//! The doctor: what of this host does not suit the configuration, what was lost by it, and the
//! command that mends it.
//!
//! # What it guarantees
//! * [`examine`] reads files under `/proc` and `/sys`, asks the kernel for its queues, and writes,
//!   syncs and removes one file of 64 KiB in the data directory. It changes nothing else.
//! * [`DoctorReport::apply`] changes only what is safe, and writes the way back first.
//! * What cannot be read is not judged; it is told in one finding.
//!
//! # Limits
//! Counters are those since the host, or a socket, was started: the doctor sees that something was
//! lost, not when.
//!
//! # In reading order
//! 1. [`Finding`]: one thing that it has to say.
//! 2. `scene`, `asked`, `cgroup`, `probe`, and `told` with `netlink`, `links`, `queues`,
//!    `ethtool`: what it looks at.
//! 3. `checks`: one small file each.
//! 4. `print`, `apply`: what is done with the findings.
//!
//! # After a crash
//! The file that was written for a try may lie in the data directory as `.doctor-sync-PID`; it can
//! be removed.

mod apply;
mod asked;
pub(crate) mod cgroup;
mod checks;
mod ethtool;
mod finding;
mod links;
mod netlink;
mod print;
mod probe;
mod queues;
mod scene;
#[cfg(test)]
mod tests;
mod told;
mod unmeasured;

use std::cmp::Reverse;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use apply::{ApplyResult, SysctlChange};
pub use asked::{
    CertificateFile, CollectorEndpoint, CollectorReachability, CollectorResponse, DiskRequirement,
    FileRequirement, FoundPaths, RefusedSender, ValidityPeriod, ValidityTime,
};
pub use checks::{collector_findings, overdrawn};
pub use finding::{Finding, Layer, Setting, Severity};
pub use probe::{device, free_bytes, total_bytes};
use scene::HostFacts;
pub use scene::{HostRequirements, TcpRequirement, UdpRequirement};
pub use unmeasured::UnmeasuredReason;

use crate::rate::SafeRate;

/// Findings of the doctor, and the rate once it is measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DoctorReport {
    /// The worst first; of the same severity in the order of an event's way.
    pub findings: Vec<Finding>,
    /// The rate that this host takes safely, once it is measured: see [`Self::set_safe_rate`].
    safe_rate: Option<SafeRate>,
    #[serde(skip)]
    root: PathBuf,
}

/// Looks at this host. It takes as long as 16 syncs of the disk.
pub fn examine(ask: HostRequirements) -> DoctorReport {
    let disk = probe::disk(&ask.data_dir);
    let page_bytes = probe::page_bytes();
    let root = Path::new("/");
    examine_scene(
        root,
        &HostFacts::new(root, ask, disk, told::ask(), page_bytes),
    )
}

fn examine_scene(root: &Path, scene: &HostFacts) -> DoctorReport {
    let mut findings: Vec<Finding> = checks::ALL.iter().flat_map(|check| check(scene)).collect();
    sort(&mut findings);
    DoctorReport {
        findings,
        safe_rate: None,
        root: root.to_owned(),
    }
}

fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| (Reverse(finding.severity), finding.layer));
}

impl DoctorReport {
    /// Takes on the rate that was measured, or says why none was.
    pub fn set_safe_rate(&mut self, rate: Result<SafeRate, UnmeasuredReason>) {
        match rate {
            Ok(rate) => self.safe_rate = Some(rate),
            Err(unmeasured) => {
                self.findings.push(unmeasured.finding());
                sort(&mut self.findings);
            }
        }
    }

    /// Adds the words that name the configuration, such as ` -c FILE`, to the commands of Inrush:
    /// what is pasted looks at the same one.
    pub fn name_configuration(&mut self, words: &str) {
        let commands = self
            .findings
            .iter_mut()
            .filter_map(|one| one.command.as_mut());
        for command in commands.filter(|command| command.starts_with("inrush ")) {
            command.push_str(words);
        }
    }

    /// Writes it for the eye, some 100 columns wide.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        print::write(&self.findings, self.safe_rate.as_ref(), out)
    }

    /// Sets what is safe, with the way back in the script `undo`. Takes root, or
    /// `CAP_NET_ADMIN` over this network namespace.
    pub fn apply(&self, undo: &Path) -> ApplyResult {
        apply::apply(&self.root, &self.findings, undo)
    }
}
