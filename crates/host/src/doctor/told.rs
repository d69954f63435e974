//! Answers of the kernel over netlink that it shows in no file, or in none that can be trusted.

use super::ethtool::{self, NicSettings};
use super::links::{self, NetworkInterface};
use super::queues::{self, QueueingDiscipline};

/// The kernel's answers; or why there is none.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct NetlinkFacts {
    /// The queueing disciplines.
    pub(super) queues: Result<Vec<QueueingDiscipline>, String>,
    /// The network interfaces.
    pub(super) links: Result<Vec<NetworkInterface>, String>,
    /// The network cards, as their drivers tell them.
    pub(super) cards: Result<Vec<NicSettings>, String>,
}

/// Asks for all of it. It takes some milliseconds.
pub(super) fn ask() -> NetlinkFacts {
    NetlinkFacts {
        queues: queues::ask(),
        links: links::ask(),
        cards: ethtool::ask(),
    }
}
