//! The network interfaces as the kernel tells them over netlink (rtnetlink(7), `RTM_GETLINK`): of
//! our own network namespace, whatever `/sys` shows. A `/sys` that was mounted in another one shows
//! the interfaces of that one.

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage, State, Stats64};
use netlink_sys::protocols::NETLINK_ROUTE;

use super::netlink;

/// One network interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct NetworkInterface {
    /// Its number, as in `/sys/class/net/NAME/ifindex`.
    pub(super) index: u64,
    /// Such as `eth0`.
    pub(super) name: String,
    /// Bytes of the largest packet.
    pub(super) mtu: u64,
    /// True if it is the loopback.
    pub(super) loopback: bool,
    /// True if it is known to be down.
    pub(super) down: bool,
    /// Its counters, 64 bits wide.
    pub(super) statistics: Stats64,
}

impl NetworkInterface {
    /// A counter under its name in `/sys/class/net/NAME/statistics`; those that checks look at.
    pub(super) fn counter(&self, name: &str) -> Option<u64> {
        let all = &self.statistics;
        Some(match name {
            "rx_packets" => all.rx_packets,
            "rx_dropped" => all.rx_dropped,
            "rx_missed_errors" => all.rx_missed_errors,
            "rx_fifo_errors" => all.rx_fifo_errors,
            "rx_over_errors" => all.rx_over_errors,
            "rx_crc_errors" => all.rx_crc_errors,
            _ => return None,
        })
    }
}

/// Asks the kernel.
pub(super) fn ask() -> Result<Vec<NetworkInterface>, String> {
    let question = RouteNetlinkMessage::GetLink(LinkMessage::default());
    match netlink::dump(NETLINK_ROUTE, question) {
        Ok(messages) => Ok(of(&messages)),
        Err(error) => Err(error.to_string()),
    }
}

fn of(messages: &[RouteNetlinkMessage]) -> Vec<NetworkInterface> {
    let one = |message: &RouteNetlinkMessage| match message {
        RouteNetlinkMessage::NewLink(message) => Some(link(message)),
        _ => None,
    };
    messages.iter().filter_map(one).collect()
}

fn link(message: &LinkMessage) -> NetworkInterface {
    let mut link = NetworkInterface {
        index: message.header.index.into(),
        loopback: message.header.flags.contains(LinkFlags::Loopback),
        ..NetworkInterface::default()
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => link.mtu = (*mtu).into(),
            LinkAttribute::OperState(state) => link.down = *state == State::Down,
            LinkAttribute::Stats64(statistics) => link.statistics = *statistics,
            _ => {}
        }
    }
    link
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_and_counters_come_from_the_message() {
        let mut message = LinkMessage::default();
        message.header.index = 7;
        let mut statistics = Stats64::default();
        (statistics.rx_packets, statistics.rx_missed_errors) = (1000, 5);
        message.attributes = vec![
            LinkAttribute::IfName("veth7".to_owned()),
            LinkAttribute::Mtu(1280),
            LinkAttribute::OperState(State::Down),
            LinkAttribute::Stats64(statistics),
        ];
        let answer = netlink::answer(vec![RouteNetlinkMessage::NewLink(message)], true);
        let mut taken = Vec::new();
        assert!(netlink::take(&answer, &mut taken).unwrap());
        let links = of(&taken);
        let [link] = &links[..] else {
            panic!("{links:?}")
        };
        assert_eq!(
            (link.index, link.name.as_str(), link.mtu),
            (7, "veth7", 1280)
        );
        assert!(link.down && !link.loopback);
        assert_eq!(link.counter("rx_packets"), Some(1000));
        assert_eq!(link.counter("rx_missed_errors"), Some(5));
        assert_eq!(link.counter("tx_packets"), None);
    }

    #[test]
    fn this_kernel_has_a_loopback() {
        let links = ask().unwrap();
        assert!(links.iter().any(|link| link.loopback && link.name == "lo"));
    }
}
