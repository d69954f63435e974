//! The control groups (v2) that a process is in.

use std::path::{Component, Path};

use super::scene::Scene;

/// Where they are mounted.
const ROOT: &str = "sys/fs/cgroup";

/// Levels that are looked at; systemd's and Kubernetes' nest less than ten.
const LEVELS_MAX: usize = 32;

/// The folders of the process's group and those above it, the innermost first. None where there
/// are no control groups of version 2.
pub(super) fn levels(scene: &Scene) -> Vec<String> {
    if scene.need("sys/fs/cgroup/cgroup.controllers").is_none() {
        return Vec::new();
    }
    let text = scene.of_process("cgroup").unwrap_or_default();
    let path = text.lines().find_map(|line| line.strip_prefix("0::"));
    // In a container the path may begin with `/..`, or be of a group that is not shown in it.
    let parts = Path::new(path.unwrap_or("/")).components();
    let parts = parts.filter_map(|part| match part {
        Component::Normal(part) => part.to_str(),
        _ => None,
    });
    let mut levels = vec![ROOT.to_owned()];
    for part in parts.take(LEVELS_MAX) {
        let last = levels.last().map_or(ROOT, String::as_str);
        levels.push(format!("{last}/{part}"));
    }
    levels.reverse();
    levels.retain(|folder| scene.text(format!("{folder}/cgroup.controllers")).is_some());
    levels
}

/// The number behind a name, in a file with a name and a number a line.
pub(super) fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}
