//! Input of the checks: the host's files, what the configuration asks of the host, and what was
//! tried out on the disk.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::asked::{
    CertificateFile, CollectorEndpoint, DiskRequirement, FileRequirement, RefusedSender,
};
use super::ethtool::NicSettings;
use super::finding::total;
use super::links::NetworkInterface;
use super::probe::DiskProbe;
use super::told::NetlinkFacts;
use crate::files::{HostFiles, INTERFACES_MAX};
use crate::text::{cpu_list, number};

/// Demands of the configuration on the host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostRequirements {
    /// The folder for everything that is kept.
    pub data_dir: PathBuf,
    /// The UDP addresses of all sources.
    pub udp: Vec<UdpRequirement>,
    /// The TCP addresses of all sources.
    pub tcp: Vec<TcpRequirement>,
    /// Connections that all listeners together may have open.
    pub connections: u64,
    /// Memory that the queue may take, in bytes.
    pub queue_memory_bytes: u64,
    /// Disk that the queue may take, in bytes.
    pub queue_disk_bytes: u64,
    /// Disk that the queue leaves free, in bytes.
    pub reserve_bytes: u64,
    /// Parts that take disk.
    pub disks: Vec<DiskRequirement>,
    /// Certificates and keys that the configuration names, as they were found.
    pub certificates: Vec<CertificateFile>,
    /// Splunk collectors of all destinations, as they answered.
    pub collectors: Vec<CollectorEndpoint>,
    /// Senders that the running process has turned away, by source.
    pub refused: Vec<RefusedSender>,
    /// Files that sources would read, by source.
    pub files: Vec<FileRequirement>,
    /// Reason that the configuration cannot be used as it is, though it can be understood.
    pub unusable: Option<String>,
}

/// One UDP address of a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UdpRequirement {
    /// The source's name.
    pub source: String,
    /// Its port; 0 is any free one, which cannot be told from others.
    pub port: u16,
    /// Sockets opened on it.
    pub sockets: u64,
    /// Receive buffer that each asks for, in bytes as `net.core.rmem_max` counts them.
    pub receive_buffer_bytes: u64,
}

/// One TCP address of a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcpRequirement {
    /// The source's name.
    pub source: String,
    /// Its port; 0 is any free one, which cannot be told from others.
    pub port: u16,
    /// Connections that may wait to be accepted, as its listener asks for.
    pub backlog: u64,
}

impl HostRequirements {
    /// Bytes of the kernel's memory that all receive buffers take when they are full: the kernel
    /// doubles what is asked for (socket(7), `SO_RCVBUF`).
    pub(super) fn receive_bytes(&self) -> u64 {
        let each = |udp: &UdpRequirement| udp.receive_buffer_bytes.saturating_mul(2 * udp.sockets);
        total(self.udp.iter().map(each))
    }
}

/// Text for a `/sys` that shows the interfaces of another network namespace.
const FOREIGN: &str = "/sys/class/net (of another network namespace: mount sysfs in this one)";

/// A host at one moment.
pub(super) struct HostFacts {
    files: HostFiles,
    pub(super) ask: HostRequirements,
    pub(super) disk: DiskProbe,
    /// Answers of the kernel over netlink.
    pub(super) told: NetlinkFacts,
    /// True if `/sys/class/net` has the interfaces of another network namespace.
    foreign: bool,
    /// Bytes of a page of memory.
    pub(super) page_bytes: u64,
    /// The running `inrush`, if one has the data directory.
    pub(super) process: Option<u32>,
    /// Files that a check needed and did not get, with the reason.
    unread: RefCell<BTreeSet<String>>,
}

impl HostFacts {
    /// The host under `root`.
    pub(super) fn new(
        root: &Path,
        ask: HostRequirements,
        disk: DiskProbe,
        told: NetlinkFacts,
        page_bytes: u64,
    ) -> Self {
        let files = HostFiles::at(root);
        let foreign = told
            .links
            .as_ref()
            .is_ok_and(|links| foreign(&files, links));
        let process = owner(&files, &ask.data_dir);
        Self {
            files,
            ask,
            disk,
            told,
            foreign,
            page_bytes,
            process,
            unread: RefCell::default(),
        }
    }

    /// A file that not every kernel has; `None` if it cannot be read.
    pub(super) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        self.files.text(path)
    }

    /// A file that every host has; one that cannot be read is remembered.
    pub(super) fn need(&self, path: &str) -> Option<String> {
        match self.files.read(path) {
            Ok(text) => Some(text),
            Err(error) => {
                self.hidden(format!("/{path} ({})", reason(&error)));
                None
            }
        }
    }

    /// Remembers that something was needed and could not be had.
    pub(super) fn hidden(&self, what: String) {
        self.unread.borrow_mut().insert(what);
    }

    /// Files and answers that were needed and could not be read, in the order of their names.
    pub(super) fn unread(&self) -> Vec<String> {
        self.unread.borrow().iter().cloned().collect()
    }

    /// A value of the kernel that is one number.
    pub(super) fn sysctl(&self, key: &str) -> Option<u64> {
        number(&self.need(&sysctl_path(key))?)
    }

    /// A file of the running process, or of our own where none runs.
    pub(super) fn of_process(&self, name: &str) -> Option<String> {
        match self.process {
            Some(process) => self.need(&format!("proc/{process}/{name}")),
            None => self.need(&format!("proc/self/{name}")),
        }
    }

    /// Name, for the reader, of the process whose limits [`Self::of_process`] shows.
    pub(super) fn whose(&self) -> String {
        match self.process {
            Some(process) => format!("process {process}"),
            None => "this shell (no inrush runs on the data directory)".to_owned(),
        }
    }

    /// A file under `/sys/class/net/NAME` that holds one number.
    pub(super) fn of_interface(&self, name: &str, file: &str) -> Option<u64> {
        if !self.foreign {
            return number(&self.text(format!("sys/class/net/{name}/{file}"))?);
        }
        let link = self.links().iter().find(|link| link.name == name)?;
        match file.strip_prefix("statistics/") {
            Some(counter) => link.counter(counter),
            None if file == "mtu" => Some(link.mtu),
            None => None,
        }
    }

    /// Folder of an interface below `/sys`, without the slash at the beginning; `None` where `/sys`
    /// shows those of another network namespace, which may have one of this name, too.
    pub(super) fn interface_folder(&self, name: &str) -> Option<String> {
        (!self.foreign).then(|| format!("sys/class/net/{name}"))
    }

    /// The interfaces that have hardware below them, or all but the loopback where none has.
    pub(super) fn interfaces(&self) -> Vec<String> {
        if self.foreign {
            self.hidden(FOREIGN.to_owned());
            let own = self.links().iter().filter(|link| !link.loopback);
            let mut names: Vec<String> = own.map(|link| link.name.clone()).collect();
            names.sort_unstable();
            names.truncate(INTERFACES_MAX);
            return names;
        }
        if self.names("sys/class/net").is_empty() {
            self.hidden("/sys/class/net (no such folder)".to_owned());
        }
        self.files.interfaces()
    }

    /// True if an interface is known to be down.
    pub(super) fn is_down(&self, name: &str) -> bool {
        if self.foreign {
            return self
                .links()
                .iter()
                .any(|link| link.name == name && link.down);
        }
        let state = self.text(format!("sys/class/net/{name}/operstate"));
        state.is_some_and(|state| state.trim() == "down")
    }

    /// The name of an interface by its number.
    pub(super) fn interface_name(&self, number: u64) -> String {
        let link = self.links().iter().find(|link| link.index == number);
        let name = link.map(|link| link.name.clone()).or_else(|| {
            let names = self.names("sys/class/net");
            let is_it = |name: &String| self.of_interface(name, "ifindex") == Some(number);
            names.into_iter().find(is_it)
        });
        name.unwrap_or_else(|| format!("interface {number}"))
    }

    /// A card as its driver tells it; `None` where the driver says nothing.
    pub(super) fn card(&self, name: &str) -> Option<&NicSettings> {
        let cards = self.told.cards.as_deref().unwrap_or_default();
        cards.iter().find(|card| card.name == name)
    }

    /// The interfaces as netlink tells them; none where it does not.
    fn links(&self) -> &[NetworkInterface] {
        self.told.links.as_deref().unwrap_or_default()
    }

    /// The names in a folder, sorted; none if it cannot be read.
    pub(super) fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        self.files.names(path)
    }

    /// The last part of what a link leads to.
    pub(super) fn link_name(&self, path: impl AsRef<Path>) -> Option<String> {
        let target = std::fs::read_link(self.files.path(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// CPUs that are online; at least one.
    pub(super) fn cpus(&self) -> usize {
        let online = self.need("sys/devices/system/cpu/online");
        online.map_or(1, |list| cpu_list(&list).len()).max(1)
    }

    /// True if a process of this name runs, as far as we see processes.
    pub(super) fn runs(&self, name: &str) -> bool {
        let is_it = |process: &String| {
            let comm = self.text(format!("proc/{process}/comm"));
            comm.is_some_and(|comm| comm.trim_end() == name)
        };
        let mut processes = self.names("proc");
        processes.retain(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        processes.iter().any(is_it)
    }
}

/// Path of the file of a sysctl(8) value, without the slash at the beginning.
pub(super) fn sysctl_path(key: &str) -> String {
    format!("proc/sys/{}", key.replace('.', "/"))
}

fn reason(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file",
        std::io::ErrorKind::PermissionDenied => "permission denied",
        _ => "cannot be read",
    }
}

/// True if the interfaces under `/sys` are not those that the kernel tells us of.
fn foreign(files: &HostFiles, links: &[NetworkInterface]) -> bool {
    let names = files.names("sys/class/net");
    let same = |name: &String| {
        let index = files.text(format!("sys/class/net/{name}/ifindex"));
        let index = index.and_then(|text| number(&text));
        // A file among the folders, such as `bonding_masters`, has no number.
        index.is_none_or(|index| {
            let own = links.iter().find(|link| link.name == *name);
            own.is_some_and(|link| link.index == index)
        })
    };
    let shown = |link: &NetworkInterface| names.contains(&link.name);
    let is_ours = names.iter().all(same) && links.iter().all(shown);
    !names.is_empty() && !is_ours
}

/// The process whose number is in the data directory, if it still runs and is an `inrush`.
fn owner(files: &HostFiles, data_dir: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(data_dir.join("owner.pid")).ok()?;
    let process: u32 = text.trim().parse().ok()?;
    let comm = files.text(format!("proc/{process}/comm"))?;
    (comm.trim_end() == "inrush").then_some(process)
}
