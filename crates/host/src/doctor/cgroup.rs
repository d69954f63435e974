//! The control groups that a process is in: of version 2, or of version 1, where each controller
//! has a tree of its own (kernel: Documentation/admin-guide/cgroup-v2.rst, and cgroup-v1).

use std::path::{Component, Path};

use super::scene::HostFacts;

/// Mount point of the control groups, with the controllers of version 1 by their names below it.
const ROOT: &str = "sys/fs/cgroup";

/// Levels that are looked at; systemd's and Kubernetes' nest less than ten.
const LEVELS_MAX: usize = 32;

/// Version of the control groups: each has files of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CgroupVersion {
    One,
    Two,
}

/// The groups of a process for one controller.
pub(super) struct CgroupHierarchy {
    pub(super) version: CgroupVersion,
    /// The folders of the process's group and those above it, the innermost first; at least one.
    pub(super) folders: Vec<String>,
}

/// The groups that bound the process's share of `controller` (`cpu` or `memory`); `None` where
/// none are shown.
pub(super) fn groups(scene: &HostFacts, controller: &str) -> Option<CgroupHierarchy> {
    let process = scene.of_process("cgroup").unwrap_or_default();
    let groups = groups_of(&|path| scene.text(path), &process, controller);
    let Some(first) = groups.first() else {
        scene.hidden(format!("/{ROOT} (no control groups)"));
        return None;
    };
    Some(CgroupHierarchy {
        version: first.version,
        folders: groups.iter().map(|group| group.folder.clone()).collect(),
    })
}

/// One group of a process.
pub(crate) struct ProcessCgroup {
    version: CgroupVersion,
    /// Its folder, below the root.
    pub(crate) folder: String,
}

impl ProcessCgroup {
    /// Its files that hold a limit of memory.
    pub(crate) fn limit_files(&self) -> &'static [&'static str] {
        match self.version {
            CgroupVersion::Two => &["memory.max", "memory.high"],
            CgroupVersion::One => &["memory.limit_in_bytes"],
        }
    }
}

/// The groups that bound a process's share of `controller`, the innermost first. `read` gives the
/// text of a file, and `process` is that of the process's `cgroup`.
pub(crate) fn groups_of(
    read: &dyn Fn(&str) -> Option<String>,
    process: &str,
    controller: &str,
) -> Vec<ProcessCgroup> {
    let version_2 = format!("{ROOT}/cgroup.controllers");
    let (version, root, path) = if read(&version_2).is_some() {
        let path = process.lines().find_map(|line| line.strip_prefix("0::"));
        (
            CgroupVersion::Two,
            ROOT.to_owned(),
            path.unwrap_or("/").to_owned(),
        )
    } else {
        let (root, path) = of_version_1(read, process, controller);
        (CgroupVersion::One, root, path)
    };
    let mark = match version {
        CgroupVersion::One => "cgroup.procs",
        CgroupVersion::Two => "cgroup.controllers",
    };
    let mut folders = folders(root, &path);
    folders.retain(|folder| read(&format!("{folder}/{mark}")).is_some());
    let group = |folder| ProcessCgroup { version, folder };
    folders.into_iter().map(group).collect()
}

/// The folders from the root down to the path, in reverse.
fn folders(root: String, path: &str) -> Vec<String> {
    // In a container the path may begin with `/..`, or be of a group that is not shown in it.
    let parts = Path::new(path).components().filter_map(|part| match part {
        Component::Normal(part) => part.to_str(),
        _ => None,
    });
    let mut folders = vec![root];
    for part in parts.take(LEVELS_MAX) {
        let last = folders.last().map_or(ROOT, String::as_str);
        folders.push(format!("{last}/{part}"));
    }
    folders.reverse();
    folders
}

/// Mount point of a controller of version 1, and the process's path below that.
fn of_version_1(
    read: &dyn Fn(&str) -> Option<String>,
    text: &str,
    controller: &str,
) -> (String, String) {
    let path = text.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let ours = controllers.split(',').any(|name| name == controller);
        ours.then_some(path)
    });
    let path = path.unwrap_or("/");
    let mounts = read("proc/self/mountinfo").unwrap_or_default();
    let Some((shown, root)) = mounts.lines().find_map(|line| mount(line, controller)) else {
        return (format!("{ROOT}/{controller}"), path.to_owned());
    };
    // A container is shown its own group as the root, and told the host's path to it.
    let path = path.strip_prefix(shown).unwrap_or(path);
    (root.trim_start_matches('/').to_owned(), path.to_owned())
}

/// Part of the tree that a line of `mountinfo` shows and its mount point, if it is the controller's
/// (proc(5): the fourth and fifth field; behind `-` the kind, the source and the options).
fn mount<'a>(line: &'a str, controller: &str) -> Option<(&'a str, &'a str)> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    let kind = after.next()?;
    let mut options = after.nth(1)?.split(',');
    let mut before = before.split(' ').skip(3);
    let (shown, point) = (before.next()?, before.next()?);
    let ours = kind == "cgroup" && options.any(|option| option == controller);
    ours.then_some((shown.trim_end_matches('/'), point))
}

/// The number behind a name, in a file with a name and a number a line.
pub(crate) fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}
