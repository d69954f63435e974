//! NUMA nodes: processors that have a part of the memory near them, and the rest far.

use std::fs;
use std::path::Path;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

const FOLDER: &str = "/sys/devices/system/node";

/// The calling thread.
const THIS: Pid = Pid::from_raw(0);

/// The nodes of this host with processors that the process may use.
#[derive(Debug)]
pub struct NumaNodes(Vec<CpuSet>);

impl NumaNodes {
    /// Reads them. Where the kernel does not say, there is one.
    pub fn of_process() -> Self {
        let allowed = sched_getaffinity(THIS);
        allowed.map_or(Self(Vec::new()), |allowed| {
            Self::at(Path::new(FOLDER), &allowed)
        })
    }

    fn at(folder: &Path, allowed: &CpuSet) -> Self {
        let numbers = fs::read_to_string(folder.join("online")).unwrap_or_default();
        let cpus = |node| {
            let list = fs::read_to_string(folder.join(format!("node{node}/cpulist"))).ok()?;
            let mut cpus = CpuSet::new();
            let usable = list_of(&list).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
            // Each one may be used, so each is one that the set has room for.
            let some = usable.map(|cpu| cpus.set(cpu)).count() > 0;
            some.then_some(cpus)
        };
        Self(list_of(&numbers).filter_map(cpus).collect())
    }

    /// Number of NUMA nodes, one at least.
    pub fn count(&self) -> usize {
        self.0.len().max(1)
    }

    /// Keeps the calling thread on the processors of one node: the `number`-th, by turns. Where
    /// there is one only, or the kernel refuses, it stays free.
    pub fn keep(&self, number: usize) {
        if let [_, _, ..] = self.0[..]
            && let Err(error) = sched_setaffinity(THIS, &self.0[number % self.0.len()])
        {
            tracing::debug!(%error, "a thread cannot be kept on its NUMA node");
        }
    }
}

/// The numbers of a list like `0-3,8` (cpuset(7), "List format"); what is none is left out.
fn list_of(list: &str) -> impl Iterator<Item = usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let last: usize = last.parse().ok()?;
        Some(first.parse().ok()?..=last.min(CpuSet::count()))
    };
    list.trim().split(',').filter_map(range).flatten()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn cpus(list: &str) -> CpuSet {
        let mut cpus = CpuSet::new();
        list_of(list).for_each(|cpu| cpus.set(cpu).unwrap());
        cpus
    }

    fn nodes(nodes: &[(&str, &str)], online: &str, allowed: &str) -> Vec<CpuSet> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("online"), online).unwrap();
        for (node, list) in nodes {
            fs::create_dir(dir.path().join(node)).unwrap();
            fs::write(dir.path().join(node).join("cpulist"), list).unwrap();
        }
        NumaNodes::at(dir.path(), &cpus(allowed)).0
    }

    #[test]
    fn each_node_has_its_processors_as_far_as_they_may_be_used() {
        let four = [
            ("node0", "0-3,8-11\n"),
            ("node1", "4-7,12-15\n"),
            ("node2", "\n"),
            ("node4", "16\n"),
        ];
        let all = nodes(&four, "0-2,4\n", "0-31");
        assert_eq!(all, [cpus("0-3,8-11"), cpus("4-7,12-15"), cpus("16")]);
        let some = nodes(&four, "0-2,4\n", "2-5");
        assert_eq!(some, [cpus("2-3"), cpus("4-5")]);
        assert_eq!(nodes(&four, "0-2,4\n", "17"), []);
    }

    #[test]
    fn what_the_kernel_does_not_say_is_one_node() {
        let untold = NumaNodes(nodes(&[], "0-1\n", "0-31"));
        assert_eq!((untold.0.len(), untold.count()), (0, 1));
        assert_eq!(nodes(&[("node0", "what?,-,3-x,")], "0", "0-31"), []);
        assert_eq!(list_of("5-3,0-99999999999").last(), Some(CpuSet::count()));
        // It has nowhere else to be.
        untold.keep(3);
    }

    #[test]
    fn threads_stay_on_their_nodes_by_turns() {
        let allowed = sched_getaffinity(THIS).unwrap();
        let usable: Vec<usize> = (0..CpuSet::count())
            .filter(|cpu| allowed.is_set(*cpu).unwrap())
            .collect();
        let [first, .., last] = usable[..] else {
            return; // One processor is one node.
        };
        let two = NumaNodes(vec![cpus(&first.to_string()), cpus(&last.to_string())]);
        let on = |number| {
            two.keep(number);
            sched_getaffinity(THIS).unwrap()
        };
        let stays = std::thread::scope(|scope| {
            let turns = scope.spawn(|| [0, 1, 2].map(on));
            turns.join().unwrap()
        });
        let (first, last) = (cpus(&first.to_string()), cpus(&last.to_string()));
        assert_eq!(stays, [first, last, first]);
    }
}
