//! The checks, in the order of an event's way. A new one is a file with a function `check`, a line
//! in [`ALL`], and its cases in `tests/`.

mod budget;
mod certificates;
mod cgroup_cpu;
mod clock_source;
mod collectors;
mod configuration;
mod disk_budgets;
mod disk_space;
mod disk_sync;
mod files;
mod fragments;
mod governor;
mod hugepages;
mod idle_states;
mod inotify;
mod irq;
mod listen_backlog;
mod memory;
mod nic_coalescing;
mod nic_link;
mod nic_loss;
mod nic_offloads;
mod nic_pause;
mod nic_queues;
mod nic_rings;
mod nic_untold;
mod open_files;
mod qdisc;
mod receive_buffer;
mod refused;
mod softnet;
mod too_big;
mod udp_host;
mod udp_memory;
mod udp_sockets;
mod unread;

pub use collectors::collector_findings;
pub use disk_budgets::overdrawn;

use super::finding::Finding;
use super::scene::HostFacts;

/// Looks at one thing. It depends on the scene and on nothing else, and changes nothing. What it
/// cannot see, it says nothing about.
pub(super) type HostCheck = fn(&HostFacts) -> Vec<Finding>;

/// Every check. The last one tells what the ones before could not read.
pub(super) const ALL: &[HostCheck] = &[
    nic_loss::check,
    nic_link::check,
    irq::check,
    nic_rings::check,
    nic_queues::check,
    nic_coalescing::check,
    nic_offloads::check,
    nic_pause::check,
    nic_untold::check,
    softnet::check,
    budget::check,
    fragments::check,
    too_big::check,
    qdisc::check,
    receive_buffer::check,
    udp_sockets::check,
    udp_host::check,
    udp_memory::check,
    listen_backlog::check,
    cgroup_cpu::check,
    governor::check,
    idle_states::check,
    memory::check,
    hugepages::check,
    disk_space::check,
    disk_budgets::check,
    disk_sync::check,
    open_files::check,
    inotify::check,
    files::check,
    refused::check,
    clock_source::check,
    configuration::check,
    certificates::check,
    collectors::check,
    unread::check,
];
