//! Questions to the kernel over netlink (netlink(7)), which anybody may ask.

use std::io;

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::{Socket, SocketAddr};

/// Answers that are read: each holds some 10 messages, and a large host has some 1,000.
const ANSWERS_MAX: usize = 10_000;

/// Bytes that an answer may have: the kernel writes up to 32 KiB, but no more than the reader had
/// room for the time before, and gives up where one message is larger than that.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Bytes of the length at the beginning of each message; messages begin at multiples of it
/// (netlink(7), `NLMSG_ALIGN`).
pub(super) const LENGTH_BYTES: usize = 4;

/// All messages that the kernel has to a question of this protocol.
///
/// # Errors
/// The kernel has no such protocol, does not know the question, or answers with an error.
pub(super) fn dump<M>(protocol: isize, question: M) -> io::Result<Vec<M>>
where
    M: NetlinkSerializable + NetlinkDeserializable,
{
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    // Each answer is there when it is asked for: the kernel writes the next one while the one
    // before is taken. Where it is not, that is an error and no reason to wait.
    socket.set_non_blocking(true)?;
    let payload = NetlinkPayload::InnerMessage(question);
    let mut message = NetlinkMessage::new(NetlinkHeader::default(), payload);
    message.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut messages = Vec::new();
    let mut answer = Vec::with_capacity(ANSWER_BYTES_MAX);
    for _ in 0..ANSWERS_MAX {
        answer.clear();
        socket.recv_from(&mut answer, 0)?;
        if take(&answer, &mut messages)? {
            break;
        }
    }
    Ok(messages)
}

/// Takes the messages of one answer; whether it was the last one.
pub(super) fn take<M>(mut answer: &[u8], messages: &mut Vec<M>) -> io::Result<bool>
where
    M: NetlinkDeserializable,
{
    while let Some(length) = answer.first_chunk::<LENGTH_BYTES>() {
        let length = usize::try_from(u32::from_ne_bytes(*length)).unwrap_or(usize::MAX);
        let Some(one) = answer.get(..length).filter(|one| !one.is_empty()) else {
            return Err(io::Error::other("the kernel's answer is cut off"));
        };
        // A kind that is not understood is passed over; its message has a length all the same.
        if let Ok(message) = NetlinkMessage::<M>::deserialize(one) {
            match message.payload {
                NetlinkPayload::Done(done) if done.code < 0 => {
                    return Err(io::Error::from_raw_os_error(done.code.saturating_neg()));
                }
                NetlinkPayload::Done(_) => return Ok(true),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                NetlinkPayload::InnerMessage(message) => messages.push(message),
                _ => {}
            }
        }
        let next = length.next_multiple_of(LENGTH_BYTES);
        answer = answer.get(next..).unwrap_or_default();
    }
    Ok(false)
}

/// Bytes that the kernel would write: the messages one behind the other, then the end if it is the
/// last.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) fn answer<M: NetlinkSerializable>(messages: Vec<M>, last: bool) -> Vec<u8> {
    let messages = messages.into_iter().map(NetlinkPayload::InnerMessage);
    let done = last.then(|| NetlinkPayload::Done(Default::default()));
    let mut all = Vec::new();
    for payload in messages.chain(done) {
        let mut message = NetlinkMessage::new(NetlinkHeader::default(), payload);
        message.finalize();
        let mut one = vec![0; message.buffer_len()];
        message.serialize(&mut one);
        one.resize(one.len().next_multiple_of(LENGTH_BYTES), 0);
        all.extend(one);
    }
    all
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use netlink_packet_core::DoneMessage;
    use netlink_packet_route::RouteNetlinkMessage;

    use super::*;

    /// The kernel ends an answer early when a message does not fit, and says so at the end.
    #[test]
    fn an_end_that_tells_of_an_error_is_one() {
        let end = |code: i32| {
            let mut done = DoneMessage::default();
            done.code = code;
            let payload: NetlinkPayload<RouteNetlinkMessage> = NetlinkPayload::Done(done);
            let mut message = NetlinkMessage::new(NetlinkHeader::default(), payload);
            message.finalize();
            let mut bytes = vec![0; message.buffer_len()];
            message.serialize(&mut bytes);
            take::<RouteNetlinkMessage>(&bytes, &mut Vec::new())
        };
        assert!(end(0).unwrap());
        let error = end(-90).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(90), "EMSGSIZE");
    }
}
