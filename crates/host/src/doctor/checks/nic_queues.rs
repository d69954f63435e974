//! Number of queues over which a card spreads what comes in, against that of the CPUs (kernel:
//! Documentation/networking/scaling.rst; ethtool-netlink.rst, `CHANNELS_GET`).

use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let cpus = u64::try_from(scene.cpus()).unwrap_or(u64::MAX);
    let queues = |name: &String| {
        let card = scene.card(name)?;
        let queues = card.queues?;
        let (now, max) = (queues.now, queues.max);
        let wanted = max.min(cpus);
        let found = format!("{name}: {now} queues of {max}, {cpus} CPUs");
        let finding = Finding::new(format!("nic.queues:{name}"), Layer::Nic, found)
            .wanted(format!(
                "{wanted}: one for each CPU, as far as the card has them"
            ))
            .why(
                "Each queue is emptied by one CPU. With fewer queues than CPUs some are busy \
                 with packets while others wait.",
            );
        Some(if now < wanted {
            let command = format!("ethtool -L {name} {} {wanted}", card.kind());
            finding.bad(Severity::Info, command)
        } else {
            finding
        })
    };
    scene.interfaces().iter().filter_map(queues).collect()
}
