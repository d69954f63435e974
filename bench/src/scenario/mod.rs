//! The experiments.

mod classified;
mod classified_mix;
mod conserve;
mod cost;
mod dead;
mod dead_full;
mod durable;
mod files;
mod grid;
mod grid_udp;
mod heavy_forwarder;
mod hec_connections;
mod hec_server;
mod hec_steady;
mod memory;
pub(crate) mod node;
mod noloss;
mod one_sender;
mod ordinary;
mod rates;
mod reload;
mod rounds;
mod safe_rate;
mod saturate;
mod sc4s_answers;
mod search;
mod small_disks;
mod soak;
mod startup;
mod store;
mod turns;
mod udp;

use anyhow::Result;
use clap::ValueEnum;
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::ScenarioResult;
#[cfg(test)]
use inrush_harness::measure::{Cell, RunResult};
use inrush_harness::sender::{HeaderStyle, LoadShape, MessageText, Wire};

pub(crate) use store::MIXED;

/// The experiments by name, in the order in which `all` runs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum ScenarioName {
    /// All of them.
    All,
    /// TCP, 10 connections, 800 B, to a blackhole.
    Tcp10,
    /// TCP, one connection, 800 B.
    Tcp1,
    /// TCP, 10 connections, octet-counted RFC 5424, 800 B.
    Tcp5424,
    /// TCP, 10 connections, 250 B.
    Tcp250,
    /// TCP, 10 connections, 209 B.
    Tcp209,
    /// TLS, 10 connections, 800 B, to a blackhole.
    Tls10,
    /// TCP, 10 connections, 800 B, to a HEC endpoint.
    Hec,
    /// HEC in, durable before the answer, HEC out.
    HecServer,
    /// 10 TiB a day through HEC for ten minutes: CPU, lag, memory.
    HecSteady,
    /// 10,000 idle and 1,000 active connections to HEC, requests of one event.
    HecConnections,
    /// The published test of a heavy forwarder, its six runs.
    HeavyForwarder,
    /// TCP, 10 connections, real messages mixed, with and without the packs, to a blackhole.
    Classified,
    /// The same to a HEC endpoint.
    ClassifiedHec,
    /// The same into the store.
    ClassifiedStore,
    /// What fills most networks, and each of twelve products alone, recognised.
    ClassifiedMix,
    /// What an event costs at the rates of most sites.
    Ordinary,
    /// UDP, 800 B, beside the bare loop.
    Udp,
    /// UDP loss against the rate, as root.
    UdpRates,
    /// UDP loss against the rate as an ordinary user, beside the peers.
    UdpUser,
    /// UDP at 150,000/s for a minute, nothing lost.
    UdpNoloss,
    /// The same with the built-in default configuration, its store included.
    UdpNolossDefault,
    /// UDP overload as an ordinary user, every datagram accounted for.
    UdpConserve,
    /// One sender with two workers beside one.
    OneSender,
    /// One HEC client with two workers beside one.
    OneHecClient,
    /// The order of one sender's events.
    Order,
    /// The same over UDP as an ordinary user.
    OrderUser,
    /// UDP: the default configuration beside the best of a grid search.
    GridUdp,
    /// TCP: the same.
    GridTcp,
    /// HEC out, answers at once: the same.
    GridHec0,
    /// HEC out, answers after 5 ms: the same.
    GridHec5,
    /// HEC out, answers after 50 ms: the same.
    GridHec50,
    /// TCP at 500,000/s for minutes, memory flat.
    Soak,
    /// A reload each second under full load.
    Reload,
    /// What fsync costs beside memory, to a blackhole.
    Durable,
    /// TCP, 10 connections, 800 B, to a HEC endpoint, with the default queue.
    DurableHec,
    /// As fast as it goes with fsync, beside `dd`.
    Saturate,
    /// What the doctor states as the safe rate, and the rate that is really taken.
    SafeRate,
    /// A dead destination beside one that lives, and its return.
    DeadDestination,
    /// A dead destination whose backlog is full beside one that lives.
    DeadFull,
    /// Small control groups at full load.
    Memory,
    /// Small disks and a dead destination.
    SmallDisks,
    /// Killed with gigabytes of backlog, and started again.
    Startup,
    /// Into the built-in store.
    Store,
    /// What a search of many stored events takes.
    Search,
    /// Collectors of files: cost of a line, idle files, lag.
    Files,
    /// The published test of a node: containers of docker, a collector with one CPU.
    Node,
    /// Share of SC4S's recorded answers that Inrush gives.
    Sc4sAnswers,
}

impl ScenarioName {
    /// Those that `names` stand for, each once.
    pub(crate) fn expand(names: &[Self]) -> Vec<Self> {
        let all = || {
            Self::value_variants()
                .iter()
                .copied()
                .filter(|name| *name != Self::All)
        };
        if names.is_empty() || names.contains(&Self::All) {
            return all().collect();
        }
        all().filter(|name| names.contains(name)).collect()
    }

    /// `names` in order, each once; `all` stands for every one, none for none.
    pub(crate) fn expand_named(names: &[Self]) -> Vec<Self> {
        match names {
            [] => Vec::new(),
            _ => Self::expand(names),
        }
    }

    /// As it is written on the command line.
    pub(crate) fn text(self) -> String {
        self.to_possible_value()
            .map_or(String::new(), |value| value.get_name().to_owned())
    }

    /// Runs it.
    pub(crate) fn run(self, lab: &BenchHarness) -> Result<ScenarioResult> {
        match self {
            Self::All => anyhow::bail!("`all` is expanded before it is run"),
            Self::Tcp10 => cost::run(lab, &cost::TCP10),
            Self::Tcp1 => cost::run(lab, &cost::TCP1),
            Self::Tcp5424 => cost::run(lab, &cost::TCP5424),
            Self::Tcp250 => cost::run(lab, &cost::TCP250),
            Self::Tcp209 => cost::run(lab, &cost::TCP209),
            Self::Tls10 => cost::run(lab, &cost::TLS10),
            Self::Hec => cost::run(lab, &cost::HEC),
            Self::HecServer => hec_server::run(lab),
            Self::HecSteady => hec_steady::run(lab),
            Self::HecConnections => hec_connections::run(lab),
            Self::HeavyForwarder => heavy_forwarder::run(lab),
            Self::Classified => classified::run(lab),
            Self::ClassifiedHec => classified::run_hec(lab),
            Self::ClassifiedStore => classified::run_store(lab),
            Self::ClassifiedMix => classified_mix::run(lab),
            Self::Ordinary => ordinary::run(lab),
            Self::Udp => udp::run(lab),
            Self::UdpRates => rates::run(lab),
            Self::UdpUser => rates::run_user(lab),
            Self::UdpNoloss => noloss::run(lab, noloss::Configuration::Blackhole),
            Self::UdpNolossDefault => noloss::run(lab, noloss::Configuration::BuiltIn),
            Self::UdpConserve => conserve::run(lab),
            Self::OneSender => one_sender::run(lab),
            Self::OneHecClient => one_sender::run_hec(lab),
            Self::Order => one_sender::run_order(lab),
            Self::OrderUser => one_sender::run_order_user(lab),
            Self::GridUdp => grid_udp::run(lab),
            Self::GridTcp => grid::run_tcp(lab),
            Self::GridHec0 => grid::run_hec(lab, 0),
            Self::GridHec5 => grid::run_hec(lab, 5),
            Self::GridHec50 => grid::run_hec(lab, 50),
            Self::Soak => soak::run(lab),
            Self::Reload => reload::run(lab),
            Self::Durable => durable::run(lab),
            Self::DurableHec => durable::run_hec(lab),
            Self::Saturate => saturate::run(lab),
            Self::SafeRate => safe_rate::run(lab),
            Self::DeadDestination => dead::run(lab),
            Self::DeadFull => dead_full::run(lab),
            Self::Memory => memory::run(lab),
            Self::SmallDisks => small_disks::run(lab),
            Self::Startup => startup::run(lab),
            Self::Store => store::run(lab),
            Self::Search => search::run(lab),
            Self::Files => files::run(lab),
            Self::Node => node::run(lab),
            Self::Sc4sAnswers => sc4s_answers::run(lab),
        }
    }
}

/// The load of the reference loop: TCP, 10 connections, 800 B, as fast as it goes.
pub(crate) const REFERENCE: LoadShape = LoadShape {
    wire: Wire::Tcp,
    connections: 10,
    size: 800,
    header: HeaderStyle::Rfc3164Iso,
    text: MessageText::Padding,
    backdate_hours: 0,
    rate: 0,
    burst: 0,
};

/// Tells the person who waits what is going on.
fn tell(text: &str) {
    eprintln!("{text}");
}

/// A cell that has only what its runs cost, CPU-µs per event.
#[cfg(test)]
fn costing(figures: &[f64]) -> Cell {
    let run = |us: &f64| RunResult {
        us_per_event: *us,
        ..RunResult::default()
    };
    Cell {
        runs: figures.iter().map(run).collect(),
        ..Cell::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_every_scenario_but_itself() {
        let all = ScenarioName::expand(&[ScenarioName::All]);
        assert_eq!(all.len(), ScenarioName::value_variants().len() - 1);
        assert_eq!(ScenarioName::expand(&[]), all);
    }

    #[test]
    fn a_scenario_named_twice_runs_once() {
        assert_eq!(
            ScenarioName::expand(&[ScenarioName::Hec, ScenarioName::Tcp1, ScenarioName::Hec]),
            [ScenarioName::Tcp1, ScenarioName::Hec]
        );
        assert_eq!(ScenarioName::UdpNoloss.text(), "udp-noloss");
    }
}
