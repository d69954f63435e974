//! Settings of network cards, as their drivers tell them: rings, queues, coalescing, pause frames
//! and offloads, by generic netlink (kernel: Documentation/networking/ethtool-netlink.rst; anybody
//! may ask).
//!
//! The five questions and their numbers are all that is needed of a protocol of some 60, and the
//! crate `ethtool` brings `netlink-proto` and `futures`; so the messages are taken apart here.

use std::collections::BTreeMap;
use std::io;

use netlink_packet_core::{DecodeError, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable};
use netlink_sys::protocols::NETLINK_GENERIC;

use super::netlink;

/// One network card, with what its driver tells; each is `None` where it does not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct NicSettings {
    /// Such as `eth0`.
    pub(super) name: String,
    /// Packets that wait for the host to fetch them.
    pub(super) rx_ring: Option<BoundedCount>,
    /// Queues that receive, alone or combined with sending ones.
    pub(super) queues: Option<BoundedCount>,
    /// True if these queues are combined with sending ones, as ethtool(8) calls them.
    pub(super) combined: bool,
    /// Time and number of packets that an interrupt waits for.
    pub(super) coalescing: Option<Coalescing>,
    /// Pause frames, by which it holds up the other end of the cable.
    pub(super) pause: Option<Pause>,
    /// Offloads that are on, by the kernel's names.
    pub(super) active: Option<Vec<String>>,
    /// Offloads that can be switched, by the kernel's names.
    pub(super) switchable: Vec<String>,
}

impl NicSettings {
    /// Name in ethtool(8) of the queues that receive: `combined` or `rx`.
    pub(super) fn kind(&self) -> &'static str {
        if self.combined { "combined" } else { "rx" }
    }
}

/// A number of something, and how many there can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BoundedCount {
    pub(super) now: u64,
    pub(super) max: u64,
}

/// Interrupt coalescing: the bounds at which a card interrupts a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Coalescing {
    /// Microseconds after the first packet.
    pub(super) rx_us: u64,
    /// Packets after which it does so at once; 0 where only time counts.
    pub(super) rx_frames: u64,
    /// True if the driver sets both by itself.
    pub(super) adaptive: bool,
}

/// Pause frames (IEEE 802.3x).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pause {
    /// True if the card may ask the other end to wait.
    pub(super) sends: bool,
    /// True if it waits when it is asked to.
    pub(super) obeys: bool,
    /// Times that it asked; `None` where the driver does not count.
    pub(super) sent: Option<u64>,
}

/// The family that tells the numbers of the others, which are given anew at each start
/// (linux/genetlink.h).
const CONTROL: u16 = 0x10;

/// Attributes of a family: its number and its name.
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// `CTRL_CMD_GETFAMILY`.
const GET_FAMILY: u8 = 3;

// Questions of linux/ethtool_netlink.h. In each the first attribute is the header.
const FEATURES_GET: u8 = 11;
const RINGS_GET: u8 = 15;
const CHANNELS_GET: u8 = 17;
const COALESCE_GET: u8 = 19;
const PAUSE_GET: u8 = 21;

/// Attribute of every answer: whose it is.
const HEADER: u16 = 1;
const HEADER_NAME: u16 = 2;
const HEADER_FLAGS: u16 = 3;

/// `ETHTOOL_FLAG_STATS`: with the counters of pause frames (Linux 5.10).
const WITH_COUNTERS: u32 = 4;

/// The bit of an attribute's type that says that others are in it, and the mask of the type.
const NESTED: u16 = 0x8000;
const TYPE_MASK: u16 = 0x3fff;

// The other numbers of attributes stand where they are used, in the order of that header file.

/// Asks the drivers of all cards.
pub(super) fn ask() -> Result<Vec<NicSettings>, String> {
    read().map_err(|error| error.to_string())
}

fn read() -> io::Result<Vec<NicSettings>> {
    let families = netlink::dump(NETLINK_GENERIC, GenlMessage::new(CONTROL, GET_FAMILY))?;
    let Some(family) = families.iter().find_map(family) else {
        return Err(io::Error::other("this kernel has none (Linux 5.6)"));
    };
    let mut cards = BTreeMap::new();
    // A question that a kernel does not know leaves its part unknown.
    let mut ask = |question: GenlMessage, take: fn(&mut NicSettings, &[u8])| {
        for answer in netlink::dump(NETLINK_GENERIC, question).unwrap_or_default() {
            take_answer(&mut cards, &answer.attributes, take);
        }
    };
    ask(GenlMessage::new(family, RINGS_GET), rings);
    ask(GenlMessage::new(family, CHANNELS_GET), channels);
    ask(GenlMessage::new(family, COALESCE_GET), coalescing);
    ask(
        GenlMessage::new(family, PAUSE_GET).flags(WITH_COUNTERS),
        pause,
    );
    ask(GenlMessage::new(family, FEATURES_GET), features);
    Ok(cards.into_values().collect())
}

/// The number of the family `ethtool`, if this message is of it.
fn family(message: &GenlMessage) -> Option<u16> {
    let name = find(&message.attributes, FAMILY_NAME)?;
    let number = find(&message.attributes, FAMILY_ID)?;
    let number = u16::from_ne_bytes(*number.first_chunk()?);
    (text(name) == "ethtool").then_some(number)
}

fn take_answer(
    cards: &mut BTreeMap<String, NicSettings>,
    answer: &[u8],
    take: fn(&mut NicSettings, &[u8]),
) {
    let name = find(answer, HEADER).and_then(|header| find(header, HEADER_NAME));
    let Some(name) = name.map(text).filter(|name| !name.is_empty()) else {
        return;
    };
    let card = cards.entry(name.clone()).or_default();
    card.name = name;
    take(card, answer);
}

fn rings(card: &mut NicSettings, answer: &[u8]) {
    card.rx_ring = bounded(number(answer, 6), number(answer, 2));
}

fn channels(card: &mut NicSettings, answer: &[u8]) {
    let combined = bounded(number(answer, 9), number(answer, 5));
    card.combined = combined.is_some();
    card.queues = combined.or_else(|| bounded(number(answer, 6), number(answer, 2)));
}

/// Nothing where there can be none.
fn bounded(now: Option<u64>, max: Option<u64>) -> Option<BoundedCount> {
    let (now, max) = (now?, max?);
    (max > 0).then_some(BoundedCount { now, max })
}

fn coalescing(card: &mut NicSettings, answer: &[u8]) {
    let adaptive = number(answer, 11).unwrap_or(0) != 0;
    let (time, frames) = (number(answer, 2), number(answer, 3));
    if time.is_some() || frames.is_some() || adaptive {
        card.coalescing = Some(Coalescing {
            rx_us: time.unwrap_or(0),
            rx_frames: frames.unwrap_or(0),
            adaptive,
        });
    }
}

fn pause(card: &mut NicSettings, answer: &[u8]) {
    let (Some(obeys), Some(sends)) = (number(answer, 3), number(answer, 4)) else {
        return;
    };
    let counters = find(answer, 5);
    card.pause = Some(Pause {
        sends: sends != 0,
        obeys: obeys != 0,
        sent: counters.and_then(|counters| number(counters, 2)),
    });
}

fn features(card: &mut NicSettings, answer: &[u8]) {
    card.switchable = find(answer, 2).map(names).unwrap_or_default();
    card.active = find(answer, 4).map(names);
}

/// The names of the bits that are set, in a set of bits that spells them out.
fn names(set: &[u8]) -> Vec<String> {
    let bits = find(set, 3).unwrap_or_default();
    let bit = |(_, bit): (u16, &[u8])| find(bit, 2).map(text);
    attributes(bits).filter_map(bit).collect()
}

/// A message of generic netlink: command and attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
struct GenlMessage {
    family: u16,
    command: u8,
    attributes: Vec<u8>,
}

/// Bytes of command, version and two that are kept free (`struct genlmsghdr`).
const GENERIC_BYTES: usize = 4;

impl GenlMessage {
    fn new(family: u16, command: u8) -> Self {
        Self {
            family,
            command,
            attributes: Vec::new(),
        }
    }

    /// With these flags in the header.
    fn flags(mut self, flags: u32) -> Self {
        let mut header = Vec::new();
        put(&mut header, HEADER_FLAGS, &flags.to_ne_bytes());
        put(&mut self.attributes, HEADER | NESTED, &header);
        self
    }
}

impl NetlinkSerializable for GenlMessage {
    fn message_type(&self) -> u16 {
        self.family
    }

    fn buffer_len(&self) -> usize {
        GENERIC_BYTES + self.attributes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let version = 1;
        let head = [self.command, version, 0, 0];
        let bytes = head.iter().chain(&self.attributes);
        buffer
            .iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = *from);
    }
}

impl NetlinkDeserializable for GenlMessage {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let short = || DecodeError::from("shorter than its header");
        let (head, rest) = payload.split_at_checked(GENERIC_BYTES).ok_or_else(short)?;
        let command = head.first().copied().ok_or_else(short)?;
        Ok(Self {
            family: header.message_type,
            command,
            attributes: rest.to_vec(),
        })
    }
}

/// Bytes of the length and the type before each attribute.
const ATTRIBUTE_BYTES: usize = 4;

/// The attributes of a message or of another attribute, up to the first that is cut off.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (head, _) = bytes.split_at_checked(ATTRIBUTE_BYTES)?;
        let length = usize::from(u16::from_ne_bytes(*head.first_chunk()?));
        let kind = u16::from_ne_bytes(*head.last_chunk()?) & TYPE_MASK;
        let value = bytes.get(ATTRIBUTE_BYTES..length)?;
        let next = length.next_multiple_of(netlink::LENGTH_BYTES);
        bytes = bytes.get(next..).unwrap_or_default();
        Some((kind, value))
    })
}

fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(found, value)| (found == kind).then_some(value))
}

/// A number of 8, 32 or 64 bits.
fn number(bytes: &[u8], kind: u16) -> Option<u64> {
    let value = find(bytes, kind)?;
    match value.len() {
        1 => value.first().map(|byte| u64::from(*byte)),
        4 => Some(u32::from_ne_bytes(*value.first_chunk()?).into()),
        8 => Some(u64::from_ne_bytes(*value.first_chunk()?)),
        _ => None,
    }
}

/// A text, up to its 0.
fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&value[..end.unwrap_or(value.len())]).into_owned()
}

fn put(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(ATTRIBUTE_BYTES + value.len()).unwrap_or(u16::MAX);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(netlink::LENGTH_BYTES), 0);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An answer of a driver: its card's name, then these attributes.
    fn answer(attributes: &[(u16, Vec<u8>)]) -> GenlMessage {
        let mut header = Vec::new();
        put(&mut header, HEADER_NAME, b"eth0\0");
        let mut message = GenlMessage::new(21, 0);
        put(&mut message.attributes, HEADER | NESTED, &header);
        for (kind, value) in attributes {
            put(&mut message.attributes, *kind, value);
        }
        message
    }

    fn word(value: u32) -> Vec<u8> {
        value.to_ne_bytes().to_vec()
    }

    fn nest(attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, value) in attributes {
            put(&mut bytes, *kind, value);
        }
        bytes
    }

    /// What is made of an answer that went through the bytes of a netlink message.
    fn card(message: GenlMessage, take: fn(&mut NicSettings, &[u8])) -> NicSettings {
        let bytes = netlink::answer(vec![message], true);
        let mut taken: Vec<GenlMessage> = Vec::new();
        assert!(netlink::take(&bytes, &mut taken).unwrap());
        let mut cards = BTreeMap::new();
        take_answer(&mut cards, &taken[0].attributes, take);
        cards.remove("eth0").unwrap()
    }

    #[test]
    fn rings_and_queues_have_their_bounds() {
        let attributes = [
            (2, word(4096)),
            (5, word(4096)),
            (6, word(512)),
            (9, word(1)),
        ];
        let found = card(answer(&attributes), rings).rx_ring;
        let (now, max) = (512, 4096);
        assert_eq!(found, Some(BoundedCount { now, max }));
        let attributes = [(2, word(0)), (5, word(8)), (6, word(0)), (9, word(2))];
        let found = card(answer(&attributes), channels);
        assert_eq!(found.queues, Some(BoundedCount { now: 2, max: 8 }));
        assert!(found.combined);
        let attributes = [(2, word(4)), (5, word(0)), (6, word(3)), (9, word(0))];
        let found = card(answer(&attributes), channels);
        assert_eq!(found.queues, Some(BoundedCount { now: 3, max: 4 }));
        assert!(!found.combined);
        let none = [(2, word(0)), (6, word(0))];
        assert_eq!(card(answer(&none), rings).rx_ring, None);
    }

    #[test]
    fn coalescing_and_pause_frames_are_read() {
        let attributes = [(2, word(50)), (3, word(64)), (11, vec![1])];
        let wanted = Coalescing {
            rx_us: 50,
            rx_frames: 64,
            adaptive: true,
        };
        let found = card(answer(&attributes), coalescing).coalescing;
        assert_eq!(found, Some(wanted));
        assert_eq!(card(answer(&[]), coalescing).coalescing, None);
        let counters = nest(&[(2, 77_u64.to_ne_bytes().to_vec()), (3, vec![0; 8])]);
        let attributes = [(2, vec![1]), (3, vec![0]), (4, vec![1]), (5, counters)];
        let wanted = Pause {
            sends: true,
            obeys: false,
            sent: Some(77),
        };
        assert_eq!(card(answer(&attributes), pause).pause, Some(wanted));
    }

    #[test]
    fn offloads_are_told_by_their_names() {
        let bit = |name: &str| {
            let name = format!("{name}\0").into_bytes();
            (1, nest(&[(1, word(14)), (2, name), (3, Vec::new())]))
        };
        let set = |names: &[&str]| {
            let bits: Vec<_> = names.iter().map(|name| bit(name)).collect();
            nest(&[(1, Vec::new()), (2, word(64)), (3, nest(&bits))])
        };
        let attributes = [(2, set(&["rx-gro", "rx-lro"])), (4, set(&["rx-gro"]))];
        let found = card(answer(&attributes), features);
        assert_eq!(found.active, Some(vec!["rx-gro".to_owned()]));
        assert_eq!(found.switchable, ["rx-gro", "rx-lro"]);
    }

    /// Whatever the drivers here tell: every interface has offloads, in answers of several KiB.
    #[test]
    fn this_kernel_answers_for_every_interface() {
        let cards = ask().unwrap();
        let entries = std::fs::read_dir("/sys/class/net").unwrap();
        // A file among them, such as `bonding_masters`, is no interface.
        let folders = entries
            .map(Result::unwrap)
            .filter(|entry| entry.path().is_dir());
        for folder in folders {
            let name = folder.file_name().into_string().unwrap();
            let of = |card: &&NicSettings| card.name == name;
            let card = cards.iter().find(of).unwrap_or_else(|| panic!("{name}"));
            assert!(card.active.is_some(), "{name}");
        }
        let loopback = cards.iter().find(|card| card.name == "lo").unwrap();
        let active = loopback.active.as_ref().unwrap();
        assert!(active.iter().any(|name| name == "rx-gro"), "{active:?}");
    }

    proptest! {
        #[test]
        fn damaged_attributes_are_no_reason_to_panic(bytes: Vec<u8>) {
            for take in [rings, channels, coalescing, pause, features] {
                take_answer(&mut BTreeMap::new(), &bytes, take);
                take(&mut NicSettings::default(), &bytes);
            }
        }
    }
}
