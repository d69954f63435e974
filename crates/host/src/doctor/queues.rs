//! The queueing disciplines of all interfaces, which the kernel tells over netlink only
//! (rtnetlink(7), `RTM_GETQDISC`; anybody may ask).

use std::io;

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcStats2};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// Answers that are read: each holds some 10 disciplines, and a large host has some 1,000.
const ANSWERS_MAX: usize = 10_000;

/// Bytes of the length at the beginning of each message; messages begin at multiples of it
/// (netlink(7), `NLMSG_ALIGN`).
const LENGTH_BYTES: usize = 4;

/// What packets wait in before they leave an interface (or, of kind `ingress` and `clsact`, what
/// they pass when they come in).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Queue {
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
pub(super) fn ask() -> Result<Vec<Queue>, String> {
    read().map_err(|error| error.to_string())
}

fn read() -> io::Result<Vec<Queue>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    // Each answer is there when it is asked for: the kernel writes the next one while the one
    // before is taken. Where it is not, that is an error and no reason to wait.
    socket.set_non_blocking(true)?;
    let question = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
    let mut message = NetlinkMessage::new(NetlinkHeader::default(), question.into());
    message.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut queues = Vec::new();
    for _ in 0..ANSWERS_MAX {
        let (answer, _) = socket.recv_from_full()?;
        if take(&answer, &mut queues)? {
            break;
        }
    }
    Ok(queues)
}

/// Takes what is in one answer; whether it was the last one.
fn take(mut answer: &[u8], queues: &mut Vec<Queue>) -> io::Result<bool> {
    while let Some(length) = answer.first_chunk::<LENGTH_BYTES>() {
        let length = u32::from_ne_bytes(*length) as usize;
        let Some(one) = answer.get(..length).filter(|one| !one.is_empty()) else {
            return Err(io::Error::other("the kernel's answer is cut off"));
        };
        // A kind that is not understood is passed over; its message has a length all the same.
        if let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(one) {
            match message.payload {
                NetlinkPayload::Done(_) => return Ok(true),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewQueueDiscipline(tc)) => {
                    queues.extend(queue(&tc));
                }
                _ => {}
            }
        }
        let next = length.next_multiple_of(LENGTH_BYTES);
        answer = answer.get(next..).unwrap_or_default();
    }
    Ok(false)
}

fn queue(message: &TcMessage) -> Option<Queue> {
    let outermost = [TcHandle::ROOT, TcHandle::INGRESS, TcHandle::CLSACT];
    if !outermost.contains(&message.header.parent) {
        return None;
    }
    let mut queue = Queue {
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

    fn message(index: i32, parent: TcHandle) -> NetlinkMessage<RouteNetlinkMessage> {
        let (mut basic, mut inside) = (TcStatsBasic::default(), TcStatsQueue::default());
        (basic.packets, inside.drops) = (1000, 7);
        let mut tc = TcMessage::default();
        (tc.header.index, tc.header.parent) = (index, parent);
        tc.attributes = vec![
            TcAttribute::Kind("fq_codel".to_owned()),
            TcAttribute::Stats2(vec![TcStats2::Basic(basic), TcStats2::Queue(inside)]),
        ];
        let payload = RouteNetlinkMessage::NewQueueDiscipline(tc).into();
        NetlinkMessage::new(NetlinkHeader::default(), payload)
    }

    fn bytes(messages: Vec<NetlinkMessage<RouteNetlinkMessage>>) -> Vec<u8> {
        let mut all = Vec::new();
        for mut message in messages {
            message.finalize();
            let mut one = vec![0; message.buffer_len()];
            message.serialize(&mut one);
            one.resize(one.len().next_multiple_of(LENGTH_BYTES), 0);
            all.extend(one);
        }
        all
    }

    #[test]
    fn the_outermost_of_each_interface_are_counted() {
        let inside = TcHandle { major: 1, minor: 1 };
        let answer = bytes(vec![message(2, TcHandle::ROOT), message(2, inside)]);
        let mut queues = Vec::new();
        assert!(!take(&answer, &mut queues).unwrap());
        let queue = Queue {
            interface: 2,
            kind: "fq_codel".to_owned(),
            packets: 1000,
            dropped: 7,
        };
        assert_eq!(queues, [queue]);
    }

    #[test]
    fn the_last_answer_is_known_and_one_that_is_cut_off_is_an_error() {
        let done = NetlinkPayload::Done(Default::default());
        let done = NetlinkMessage::new(NetlinkHeader::default(), done);
        let answer = bytes(vec![message(2, TcHandle::ROOT), done]);
        assert!(take(&answer, &mut Vec::new()).unwrap());
        assert!(take(&answer[..answer.len() - 8], &mut Vec::new()).is_err());
        assert!(
            take(&[0; 16], &mut Vec::new()).is_err(),
            "it must come to an end"
        );
    }

    #[test]
    fn this_kernel_answers() {
        ask().unwrap();
    }

    proptest! {
        #[test]
        fn a_damaged_answer_is_no_reason_to_panic(at in 0_usize..100, byte: u8) {
            let mut answer = bytes(vec![message(2, TcHandle::ROOT)]);
            if let Some(place) = answer.get_mut(at) {
                *place = byte;
            }
            let _ = take(&answer, &mut Vec::new());
        }
    }
}
