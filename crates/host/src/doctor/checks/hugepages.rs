//! Transparent huge pages for the memory that events are received into: batches ask for them
//! (`MADV_HUGEPAGE`; kernel: Documentation/admin-guide/mm/transhuge.rst).

use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;

const FILE: &str = "sys/kernel/mm/transparent_hugepage/enabled";

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    // A kernel without them has no such file.
    let Some(text) = scene.text(FILE) else {
        return Vec::new();
    };
    let chosen = text.split_ascii_whitespace().find_map(|word| {
        let word = word.strip_prefix('[')?;
        word.strip_suffix(']')
    });
    let Some(chosen) = chosen else {
        return Vec::new();
    };
    let found = format!("transparent huge pages: {chosen}");
    let finding = Finding::new("memory.huge_pages", Layer::Memory, found)
        .wanted("madvise or always")
        .why(
            "Events are received into blocks of 2 MiB that ask for one large page each. Without, \
             they are 512 small ones, which costs CPU time and loses nothing.",
        );
    vec![match chosen {
        "never" => finding.bad(Severity::Info, format!("echo madvise > /{FILE}")),
        _ => finding,
    }]
}
