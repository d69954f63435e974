//! Room of the disk for what the queue may take, and the kind of its file system: statvfs(3) and
//! `/proc/self/mountinfo` (proc(5)).

use std::path::{Path, PathBuf};

use crate::doctor::finding::{Finding, Layer, Severity, size};
use crate::doctor::scene::HostFacts;

/// File systems that forget everything at a restart of the host or the container.
const FORGETFUL: [&str; 3] = ["tmpfs", "ramfs", "overlay"];

/// File systems over the network, where a pause of the network is a pause of the queue.
const REMOTE: [&str; 7] = ["nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "fuse.sshfs"];

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let space = space(scene);
    let mount = scene.need("proc/self/mountinfo");
    let mount = mount.and_then(|text| mount_of(&text, &scene.disk.folder));
    space
        .into_iter()
        .chain(mount.map(|mount| file_system(scene, &mount)))
        .collect()
}

fn space(scene: &HostFacts) -> Option<Finding> {
    let disk = &scene.disk;
    let space = disk.space?;
    let reserve = scene.ask.reserve_bytes;
    let growth = scene.ask.queue_disk_bytes.saturating_sub(disk.queue_bytes);
    let wanted = reserve.saturating_add(growth);
    let found = format!(
        "{}: {} free of {}; the queue takes {}",
        disk.folder.display(),
        size(space.free_bytes),
        size(space.total_bytes),
        size(disk.queue_bytes),
    );
    let finding = Finding::new("disk.space", Layer::Disk, found)
        .wanted(format!(
            "{} free: what the queue may still take ({}) and leaves free ({})",
            size(wanted),
            size(growth),
            size(reserve),
        ))
        .why(
            "While a destination is down its events wait on this disk. When it is full, sources \
             wait too: TCP senders are held up, and UDP is lost.",
        );
    let command = format!("df -h {0}; du -xh -d1 {0}", disk.folder.display());
    Some(if space.free_bytes < reserve {
        finding.bad(Severity::Critical, command)
    } else if space.free_bytes < wanted {
        finding.bad(Severity::Warn, command)
    } else {
        finding
    })
}

/// Mount point and kind of a file system.
struct Mount {
    point: PathBuf,
    kind: String,
}

/// The mount that a folder is on: of those above it the deepest, of several there the last.
fn mount_of(text: &str, folder: &Path) -> Option<Mount> {
    let mounts = text.lines().filter_map(mount);
    let above = mounts.filter(|mount| folder.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.components().count())
}

/// One line of `mountinfo`: the fifth field is the mount point, the one behind `-` the kind.
fn mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let point = before.split(' ').nth(4)?;
    // The kernel writes blanks in octal.
    let point = point.replace("\\040", " ");
    Some(Mount {
        point: point.into(),
        kind: after.split(' ').next()?.to_owned(),
    })
}

fn file_system(scene: &HostFacts, mount: &Mount) -> Finding {
    let kind = mount.kind.as_str();
    let folder = scene.disk.folder.display();
    let found = format!(
        "{folder} is on {kind}, mounted at {}",
        mount.point.display()
    );
    let finding =
        Finding::new("disk.file_system", Layer::Disk, found).wanted("a local disk: ext4 or xfs");
    let command = format!("findmnt -T {folder}");
    if FORGETFUL.contains(&kind) {
        let why = "What was acknowledged must outlive a restart. This file system forgets it with \
            the host's memory or with the container: mount a volume there.";
        return finding.why(why).bad(Severity::Warn, command);
    }
    let why = "Every acknowledgement waits for this disk. Over a network it waits for the network \
        too, and a pause there holds up all sources.";
    let finding = finding.why(why);
    if REMOTE.contains(&kind) {
        return finding.bad(Severity::Warn, command);
    }
    finding
}
