//! The queueing disciplines of all interfaces, which the kernel tells over netlink only
//! (rtnetlink(7), `RTM_GETQDISC`; anybody may ask).

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcStats2};
use netlink_sys::protocols::NETLINK_ROUTE;

use super::netlink;

/// Queueing discipline, in which packets wait before they leave an interface. One of kind `ingress`
/// or `clsact` they pass when they come in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct QueueingDiscipline {
    /// The number of the interface, as in `/sys/class/net/NAME/ifindex`.
    pub(super) interface: u64,
    /// Such as `fq_codel`.
    pub(super) kind: String,
    /// Packets that passed, in 32 bits.
    pub(super) packets: u64,
    /// Packets that were dropped, in 32 bits.
    pub(super) dropped: u64,
}

/// Asks the kernel. Only the outermost of each interface are told: their counts contain those of
/// the ones inside.
pub(super) fn ask() -> Result<Vec<QueueingDiscipline>, String> {
    let question = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
    match netlink::dump(NETLINK_ROUTE, question) {
        Ok(messages) => Ok(of(&messages)),
        Err(error) => Err(error.to_string()),
    }
}

fn of(messages: &[RouteNetlinkMessage]) -> Vec<QueueingDiscipline> {
    let one = |message: &RouteNetlinkMessage| match message {
        RouteNetlinkMessage::NewQueueDiscipline(tc) => queue(tc),
        _ => None,
    };
    messages.iter().filter_map(one).collect()
}

fn queue(message: &TcMessage) -> Option<QueueingDiscipline> {
    let outermost = [TcHandle::ROOT, TcHandle::INGRESS, TcHandle::CLSACT];
    if !outermost.contains(&message.header.parent) {
        return None;
    }
    let mut queue = QueueingDiscipline {
        interface: u64::try_from(message.header.index).ok()?,
        kind: String::new(),
        packets: 0,
        dropped: 0,
    };
    for attribute in &message.attributes {
        match attribute {
            TcAttribute::Kind(kind) => queue.kind.clone_from(kind),
            TcAttribute::Stats2(stats) => stats.iter().for_each(|stats| match stats {
                TcStats2::Basic(basic) => queue.packets = basic.packets.into(),
                TcStats2::Queue(inside) => queue.dropped = inside.drops.into(),
                _ => {}
            }),
            _ => {}
        }
    }
    Some(queue)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use netlink_packet_route::tc::{TcStatsBasic, TcStatsQueue};
    use proptest::prelude::*;

    use super::*;

    fn message(index: i32, parent: TcHandle) -> RouteNetlinkMessage {
        let (mut basic, mut inside) = (TcStatsBasic::default(), TcStatsQueue::default());
        (basic.packets, inside.drops) = (1000, 7);
        let mut tc = TcMessage::default();
        (tc.header.index, tc.header.parent) = (index, parent);
        tc.attributes = vec![
            TcAttribute::Kind("fq_codel".to_owned()),
            TcAttribute::Stats2(vec![TcStats2::Basic(basic), TcStats2::Queue(inside)]),
        ];
        RouteNetlinkMessage::NewQueueDiscipline(tc)
    }

    #[test]
    fn the_outermost_of_each_interface_are_counted() {
        let inside = TcHandle { major: 1, minor: 1 };
        let messages = vec![message(2, TcHandle::ROOT), message(2, inside)];
        let mut taken = Vec::new();
        assert!(!netlink::take(&netlink::answer(messages, false), &mut taken).unwrap());
        let queue = QueueingDiscipline {
            interface: 2,
            kind: "fq_codel".to_owned(),
            packets: 1000,
            dropped: 7,
        };
        assert_eq!(of(&taken), [queue]);
    }

    #[test]
    fn the_last_answer_is_known_and_one_that_is_cut_off_is_an_error() {
        let take = |answer: &[u8]| {
            let mut taken: Vec<RouteNetlinkMessage> = Vec::new();
            netlink::take(answer, &mut taken)
        };
        let answer = netlink::answer(vec![message(2, TcHandle::ROOT)], true);
        assert!(take(&answer).unwrap());
        assert!(take(&answer[..answer.len() - 8]).is_err());
        assert!(take(&[0; 16]).is_err(), "it must come to an end");
    }

    #[test]
    fn this_kernel_answers() {
        ask().unwrap();
    }

    proptest! {
        #[test]
        fn a_damaged_answer_is_no_reason_to_panic(at in 0_usize..100, byte: u8) {
            let mut answer = netlink::answer(vec![message(2, TcHandle::ROOT)], false);
            if let Some(place) = answer.get_mut(at) {
                *place = byte;
            }
            let mut taken: Vec<RouteNetlinkMessage> = Vec::new();
            let _ = netlink::take(&answer, &mut taken);
        }
    }
}
