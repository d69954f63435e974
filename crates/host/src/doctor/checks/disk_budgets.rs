//! The bounds of all parts on a file system together, and what is to be left free, against its
//! size. How much of it is used already is `disk.space`.

use crate::doctor::asked::DiskRequirement;
use crate::doctor::finding::{Finding, Layer, Severity, size, total};
use crate::doctor::scene::HostFacts;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let budgets = budgets(&scene.ask.disks);
    let id = |budget: &DiskBudget<'_>| match &budgets[..] {
        [_] => "disk.budgets".to_owned(),
        _ => format!("disk.budgets:{}", budget.folder()),
    };
    let found = |budget| finding(id(budget), budget);
    budgets.iter().map(found).collect()
}

/// Faults of the bounds of these parts: a sentence for each file system that is smaller
/// than all of them, or than what one leaves free.
pub fn overdrawn(asks: &[DiskRequirement]) -> Vec<String> {
    let budgets = budgets(asks);
    let wrong = |budget: &DiskBudget<'_>| {
        let problem = budget.problem()?;
        Some(format!("{}: {}", budget.words(), problem.text()))
    };
    budgets.iter().filter_map(wrong).collect()
}

/// The parts on one file system.
struct DiskBudget<'a> {
    parts: Vec<&'a DiskRequirement>,
}

/// By file system, in the order of their first parts.
fn budgets(asks: &[DiskRequirement]) -> Vec<DiskBudget<'_>> {
    let mut budgets: Vec<DiskBudget<'_>> = Vec::new();
    for ask in asks {
        let same = |budget: &&mut DiskBudget<'_>| budget.is_on(ask.device);
        match budgets.iter_mut().find(same) {
            Some(budget) => budget.parts.push(ask),
            None => budgets.push(DiskBudget { parts: vec![ask] }),
        }
    }
    budgets
}

enum DiskOvercommit {
    /// The option of what is to be left free, which is more than there is.
    Leaves(String),
    /// All bounds together are more than there is.
    Sum,
}

impl DiskOvercommit {
    fn text(&self) -> String {
        match self {
            Self::Leaves(option) => format!(
                "`{option}` is more than the disk has: everything that may be deleted for room is, \
                 and nothing new is kept"
            ),
            Self::Sum => "that is more than the disk has: the oldest events go for room on the \
                          disk before `keep` is reached, or sources wait before `queue.max_bytes` \
                          is"
            .to_owned(),
        }
    }
}

impl DiskBudget<'_> {
    fn is_on(&self, device: u64) -> bool {
        self.parts.iter().any(|part| part.device == device)
    }

    fn folder(&self) -> String {
        let first = self.parts.first();
        first.map_or(String::new(), |part| part.folder.display().to_string())
    }

    fn total_bytes(&self) -> u64 {
        self.parts.first().map_or(0, |part| part.total_bytes)
    }

    /// The part that leaves most free.
    fn leaves(&self) -> Option<&(String, u64)> {
        let leaves = self.parts.iter().filter_map(|part| part.leaves.as_ref());
        leaves.max_by_key(|(_, bytes)| *bytes)
    }

    fn wanted_bytes(&self) -> u64 {
        let most = self.parts.iter().filter_map(|part| part.most_bytes);
        total(most.chain(self.leaves().map(|(_, bytes)| *bytes)))
    }

    fn problem(&self) -> Option<DiskOvercommit> {
        let all = self.total_bytes();
        match self.leaves() {
            Some((option, bytes)) if *bytes >= all => Some(DiskOvercommit::Leaves(option.clone())),
            _ => (self.wanted_bytes() > all).then_some(DiskOvercommit::Sum),
        }
    }

    fn words(&self) -> String {
        let bound = |part: &&DiskRequirement| match part.most_bytes {
            Some(bytes) => format!("`{}` {}", part.option, size(bytes)),
            None => format!("`{}` without a bound", part.option),
        };
        let mut words: Vec<String> = self.parts.iter().map(bound).collect();
        if let Some((option, bytes)) = self.leaves() {
            words.push(format!("`{option}` {} left free", size(*bytes)));
        }
        format!(
            "{}: {} of {}: {}",
            self.folder(),
            size(self.wanted_bytes()),
            size(self.total_bytes()),
            words.join(", "),
        )
    }
}

fn finding(id: String, budget: &DiskBudget<'_>) -> Finding {
    let why = match budget.problem() {
        Some(problem) => format!("As it is, {}.", problem.text()),
        None => {
            "Each part keeps to its own bound. Where the disk is smaller than all of them, one \
                 takes the room of another."
                .to_owned()
        }
    };
    let finding = Finding::new(id, Layer::Disk, budget.words())
        .wanted("all bounds, and what is left free, within the size of the disk")
        .why(why);
    match budget.problem() {
        Some(_) => finding.bad(Severity::Warn, format!("df -h {}", budget.folder())),
        None => finding,
    }
}
