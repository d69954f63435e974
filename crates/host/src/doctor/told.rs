//! Answers of the kernel over netlink that it shows in no file, or in none that can be trusted.

use super::ethtool::{self, Card};
use super::links::{self, Link};
use super::queues::{self, Queue};

/// The kernel's answers; or why there is none.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Told {
    /// The queueing disciplines.
    pub(super) queues: Result<Vec<Queue>, String>,
    /// The network interfaces.
    pub(super) links: Result<Vec<Link>, String>,
    /// The network cards, as their drivers tell them.
    pub(super) cards: Result<Vec<Card>, String>,
}

/// Asks for all of it. It takes some milliseconds.
pub(super) fn ask() -> Told {
    Told {
        queues: queues::ask(),
        links: links::ask(),
        cards: ethtool::ask(),
    }
}
