//! Whether there is memory for the queue and the receive buffers: `memory.max` and `memory.events`
//! of cgroup v2, and `/proc/meminfo`
//! (kernel: Documentation/admin-guide/cgroup-v2.rst, "Memory Interface Files").

use crate::doctor::cgroup::{levels, value};
use crate::doctor::finding::{Finding, Layer, Severity, size};
use crate::doctor::scene::Scene;
use crate::text::number;

/// Memory beside queue and receive buffers, in bytes: batches in work, the store's open rows, a
/// search.
const WORK_BYTES: u64 = 256 * 1024 * 1024;

pub(super) fn check(scene: &Scene) -> Vec<Finding> {
    let levels = levels(scene);
    let limit = |group: &String| number(&scene.text(format!("{group}/memory.max"))?);
    let bounds = levels
        .iter()
        .filter_map(|group| Some((limit(group)?, group)));
    let bound = bounds.min();
    let host = scene.need("proc/meminfo");
    let host = host.and_then(|text| value(&text, "MemTotal:")?.checked_mul(1024));
    let (bytes, whose) = match (bound, host) {
        (Some((bytes, group)), _) => (bytes, format!("memory.max of /{group}")),
        (None, Some(bytes)) => (bytes, "the host's memory".to_owned()),
        (None, None) => return Vec::new(),
    };
    // The leaf's counter holds what happened to the process's own group.
    let events = levels
        .first()
        .and_then(|group| scene.text(format!("{group}/memory.events")));
    let killed = events.as_deref().and_then(|text| value(text, "oom_kill"));
    let queue = scene.ask.queue_memory_bytes;
    let buffers = scene.ask.receive_bytes();
    let need = queue.saturating_add(buffers).saturating_add(WORK_BYTES);
    let found = format!(
        "{whose}: {}; processes killed for want of memory: {}",
        size(bytes),
        killed.map_or("not counted".to_owned(), |killed| killed.to_string()),
    );
    let finding = Finding::new("memory.bound", Layer::Memory, found)
        .wanted(format!(
            "{}: queue.memory_bytes {}, full UDP receive buffers {}, the rest {}",
            size(need),
            size(queue),
            size(buffers),
            size(WORK_BYTES),
        ))
        .why(
            "A group that reaches its bound first slows down, then the kernel drops datagrams for \
             which it has no memory, then it kills the process.",
        );
    let command = match bound {
        Some((_, group)) => format!("echo {need} > /{group}/memory.max"),
        None => "free -m".to_owned(),
    };
    vec![match killed {
        Some(killed) if killed > 0 => finding.bad(Severity::Critical, command),
        _ if bytes < need => finding.bad(Severity::Warn, command),
        _ => finding,
    }]
}
