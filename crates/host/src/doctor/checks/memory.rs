//! Bound of memory, against what the queue and the receive buffers need: `memory.max` and
//! `memory.events` of cgroup v2 (kernel: Documentation/admin-guide/cgroup-v2.rst, "Memory Interface
//! Files"), `memory.limit_in_bytes`, `memory.failcnt` and `memory.oom_control` of v1
//! (Documentation/admin-guide/cgroup-v1/memory.rst), and `/proc/meminfo`.

use crate::doctor::cgroup::{CgroupHierarchy, CgroupVersion, groups, value};
use crate::doctor::finding::{Finding, Layer, Severity, size};
use crate::doctor::scene::HostFacts;
use crate::memory::BESIDE_QUEUE_BYTES_MIN;
use crate::text::number;

/// Bytes from which a limit of version 1 is none: without one it is the largest number of pages.
const UNBOUNDED_BYTES: u64 = u64::MAX / 4;

/// The tightest bound of memory.
struct MemoryBound {
    bytes: u64,
    /// The file that holds it; `None` for the host's own memory.
    file: Option<String>,
    /// Times that it was reached; `None` where nothing counts them.
    reached: Option<u64>,
}

/// The bound of the process's groups; `None` where they have none.
fn of_groups(scene: &HostFacts, groups: &CgroupHierarchy) -> Option<MemoryBound> {
    let file = match groups.version {
        CgroupVersion::Two => "memory.max",
        CgroupVersion::One => "memory.limit_in_bytes",
    };
    let read = |folder: &str, name: &str| number(&scene.text(format!("{folder}/{name}"))?);
    let limits = groups.folders.iter().filter_map(|folder| {
        let bytes = read(folder, file).filter(|bytes| *bytes < UNBOUNDED_BYTES)?;
        Some((bytes, folder))
    });
    let (bytes, folder) = limits.min()?;
    let events = || scene.text(format!("{folder}/memory.events"));
    Some(MemoryBound {
        bytes,
        file: Some(format!("{folder}/{file}")),
        reached: match groups.version {
            CgroupVersion::Two => value(&events().unwrap_or_default(), "max"),
            CgroupVersion::One => read(folder, "memory.failcnt"),
        },
    })
}

/// Processes of the innermost group that were killed for want of memory.
fn killed(scene: &HostFacts, groups: &CgroupHierarchy) -> Option<u64> {
    let file = match groups.version {
        CgroupVersion::Two => "memory.events",
        CgroupVersion::One => "memory.oom_control",
    };
    let leaf = groups.folders.first()?;
    value(&scene.text(format!("{leaf}/{file}"))?, "oom_kill")
}

fn of_host(scene: &HostFacts) -> Option<MemoryBound> {
    let text = scene.need("proc/meminfo")?;
    Some(MemoryBound {
        bytes: value(&text, "MemTotal:")?.checked_mul(1024)?,
        file: None,
        reached: None,
    })
}

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let groups = groups(scene, "memory");
    let bound = groups.as_ref().and_then(|groups| of_groups(scene, groups));
    let Some(bound) = bound.or_else(|| of_host(scene)) else {
        return Vec::new();
    };
    let killed = groups.and_then(|groups| killed(scene, &groups));
    let bytes = bound.bytes;
    let queue = scene.ask.queue_memory_bytes;
    let buffers = scene.ask.receive_bytes();
    let need = queue
        .saturating_add(buffers)
        .saturating_add(BESIDE_QUEUE_BYTES_MIN);
    let count = |count: Option<u64>| count.map_or("not counted".to_owned(), |n| n.to_string());
    let whose = match &bound.file {
        Some(file) => format!(
            "/{file}: {}, reached: {}",
            size(bytes),
            count(bound.reached)
        ),
        None => format!("the host's memory: {}", size(bytes)),
    };
    let killed_words = count(killed);
    let found = format!("{whose}; processes killed for want of memory: {killed_words}");
    let finding = Finding::new("memory.bound", Layer::Memory, found)
        .wanted(format!(
            "{}: queue.memory_bytes {}, full UDP receive buffers {}, the rest {}",
            size(need),
            size(queue),
            size(buffers),
            size(BESIDE_QUEUE_BYTES_MIN),
        ))
        .why(
            "A group that reaches its bound first slows down, then the kernel drops datagrams for \
             which it has no memory, then it kills the process.",
        );
    let command = match bound.file {
        Some(file) => format!("echo {need} > /{file}"),
        None => "free -m".to_owned(),
    };
    vec![match killed {
        Some(killed) if killed > 0 => finding.bad(Severity::Critical, command),
        _ if bytes < need => finding.bad(Severity::Warn, command),
        _ => finding,
    }]
}
