//! Messages, built once and patched: the tape.
//!
//! A tape is one buffer of framed messages, one after the other. Generated messages all have the
//! same length, so before a write only digits change: header time, sequence number, connection
//! and send time. Lines of a file stand on the tape in their order, repeated until the tape is
//! long enough for a large write.
//!
//! ```text
//! <38>Nov 21 21:23:01 h a[7]: seq=0000000042 conn=07 run=5eed0001 sent=1763760181123456789 PADDPAD
//! ├ header, time patched ────┤├ marker: seq, conn and sent patched ───────────────────────┤├ fill
//! ```
//! All messages that are patched together carry the same `sent`.

use std::ops::Range;

use crate::args::{SyslogFraming, SyslogProto};
use crate::clock::{MessageClock, NS_DIGITS, put_digits};
use crate::demo::{Mix, MixedMessage};

/// Bytes of messages on a tape, and in one write: large enough that the system call does not
/// count, small enough to stay in the second-level cache.
pub(crate) const TAPE_BYTES: usize = 256 * 1024;

/// Digits of a sequence number.
pub(crate) const SEQ_DIGITS: usize = 10;

/// Messages that one sender can number.
pub(crate) const SEQ_MAX: u64 = 10_u64.pow(SEQ_DIGITS as u32);

/// Bytes of a tape of mixed messages: so many that a store's pages hold no message twice, few
/// enough to be built while one looks on.
const MIXED_TAPE_BYTES: usize = 32 * 1024 * 1024;

/// Bytes that a header of the mixed messages may have more than the plain one.
pub(crate) const MIXED_HEADER_EXTRA: usize = 64;

const PADDING: &[u8] = b"PADD";

/// Properties that all messages of a run have in common.
#[derive(Clone, Debug)]
pub(crate) struct Style {
    pub(crate) proto: SyslogProto,
    /// `None`: one message a datagram.
    pub(crate) framing: Option<SyslogFraming>,
    pub(crate) host: String,
    pub(crate) app: String,
    pub(crate) sdata: Option<String>,
    /// Bytes of a message without framing.
    pub(crate) size: usize,
    /// Eight hexadecimal digits that no other run has.
    pub(crate) run: String,
    /// Digits of the largest sender number.
    pub(crate) sender_digits: usize,
}

/// Offsets of a message on the tape: its patched fields and its end.
#[derive(Clone, Copy, Debug)]
struct MessageOffsets {
    /// First byte of its framing.
    start: u32,
    /// After its framing.
    end: u32,
    /// First byte of the header's time.
    time: Option<u32>,
    /// First byte of the marker.
    mark: Option<u32>,
}

/// A buffer of framed messages, patched before each write.
pub(crate) struct Tape {
    bytes: Vec<u8>,
    slots: Vec<MessageOffsets>,
    /// Slot that is sent next; generated messages are alike, so they always start at 0.
    next: usize,
    turns: bool,
    sender_digits: usize,
}

impl Style {
    fn header(&self, clock: &MessageClock) -> (Vec<u8>, usize) {
        let pid = std::process::id();
        let (host, app) = (&self.host, &self.app);
        let (before, after) = match self.proto {
            SyslogProto::Rfc5424 => {
                let sdata = self.sdata.as_deref().unwrap_or("-");
                ("<38>1 ", format!(" {host} {app} {pid} - {sdata} "))
            }
            _ => ("<38>", format!(" {host} {app}[{pid}]: ")),
        };
        let header = [before.as_bytes(), clock.header(), after.as_bytes()].concat();
        (header, before.len())
    }

    /// A header of another host, and where its time stands.
    fn mixed_header(&self, mixed: &MixedMessage, clock: &MessageClock) -> (Vec<u8>, usize) {
        let (priority, host, app) = (mixed.priority, mixed.host, mixed.app);
        let (before, after) = match self.proto {
            SyslogProto::Rfc5424 => {
                let app = app.split('[').next().filter(|app| !app.is_empty());
                let after = format!(" {host} {} - - - ", app.unwrap_or("-"));
                (format!("<{priority}>1 "), after)
            }
            _ if app.is_empty() => (format!("<{priority}>"), format!(" {host} ")),
            _ => (format!("<{priority}>"), format!(" {host} {app}: ")),
        };
        let header = [before.as_bytes(), clock.header(), after.as_bytes()].concat();
        (header, before.len())
    }

    fn marker(&self) -> String {
        let (run, sender) = (&self.run, "0".repeat(self.sender_digits));
        let (seq, sent) = ("0".repeat(SEQ_DIGITS), "0".repeat(NS_DIGITS));
        format!("seq={seq} conn={sender} run={run} sent={sent}")
    }

    /// Bytes of the smallest message: header and marker.
    pub(crate) fn size_min(&self) -> usize {
        self.header(&MessageClock::new(self.proto)).0.len() + self.marker().len() + 1
    }
}

impl Tape {
    /// Generated messages of `style.size` bytes each, which is at least [`Style::size_min`].
    pub(crate) fn generated(style: &Style, clock: &MessageClock, count: usize) -> Self {
        let (mut message, time) = style.header(clock);
        let mark = message.len();
        message.extend_from_slice(style.marker().as_bytes());
        message.push(b' ');
        message.extend(
            PADDING
                .iter()
                .cycle()
                .take(style.size.saturating_sub(message.len())),
        );
        let mut tape = Self::empty(style, false);
        for _ in 0..count.max(1) {
            tape.append(style, &message, Some(time), Some(mark));
        }
        tape
    }

    /// Tape of what the devices of the demo say, in messages of `style.size` bytes that end in the
    /// marker.
    pub(crate) fn mixed(style: &Style, clock: &MessageClock) -> Self {
        let mut mix = Mix::new(u64::from_str_radix(&style.run, 16).unwrap_or_default());
        let marker = style.marker();
        let mut tape = Self::empty(style, true);
        while tape.bytes.len() < MIXED_TAPE_BYTES {
            let mixed = mix.draw(style.size);
            let (mut message, time) = style.mixed_header(&mixed, clock);
            let room = style.size.saturating_sub(message.len() + 1 + marker.len());
            let cut = mixed.text.floor_char_boundary(room);
            message.extend_from_slice(&mixed.text.as_bytes()[..cut]);
            message.resize(style.size.saturating_sub(marker.len()), b' ');
            let mark = message.len();
            message.extend_from_slice(marker.as_bytes());
            tape.append(style, &message, Some(time), Some(mark));
        }
        tape
    }

    /// The lines of a file, none of them empty, each with a marker if `mark`.
    pub(crate) fn lines(style: &Style, lines: &[&[u8]], mark: bool) -> Self {
        let mut tape = Self::empty(style, true);
        let marker = format!(" {}", style.marker());
        while tape.bytes.len() < TAPE_BYTES && !lines.is_empty() {
            for line in lines {
                if mark {
                    let marked = [line, marker.as_bytes()].concat();
                    tape.append(style, &marked, None, Some(line.len() + 1));
                } else {
                    tape.append(style, line, None, None);
                }
            }
        }
        tape
    }

    fn empty(style: &Style, turns: bool) -> Self {
        let sender_digits = style.sender_digits;
        Self {
            bytes: Vec::new(),
            slots: Vec::new(),
            next: 0,
            turns,
            sender_digits,
        }
    }

    fn append(&mut self, style: &Style, message: &[u8], time: Option<usize>, mark: Option<usize>) {
        let start = self.bytes.len();
        if style.framing == Some(SyslogFraming::Octet) {
            self.bytes
                .extend_from_slice(format!("{} ", message.len()).as_bytes());
        }
        let body = self.bytes.len();
        self.bytes.extend_from_slice(message);
        if style.framing == Some(SyslogFraming::Newline) {
            self.bytes.push(b'\n');
        }
        let end = self.bytes.len();
        self.slots.push(MessageOffsets {
            start: start as u32,
            end: end as u32,
            time: time.map(|at| (body + at) as u32),
            mark: mark.map(|at| (body + at) as u32),
        });
    }

    /// Patches up to `want` messages for `sender`, the first numbered `seq`, with the time that
    /// `clock` shows; the slots that were patched. Fewer come at the end of the tape and when
    /// they would exceed [`TAPE_BYTES`].
    pub(crate) fn load(
        &mut self,
        want: u64,
        sender: u64,
        seq: u64,
        clock: &MessageClock,
    ) -> Range<usize> {
        let first = self.next;
        let limit = self.slots[first].start as usize + TAPE_BYTES;
        let most = usize::try_from(want)
            .unwrap_or(usize::MAX)
            .min(self.slots.len() - first);
        let slots = &self.slots[first..first + most];
        let fitting = match slots.last() {
            Some(last) if last.end as usize > limit => slots
                .partition_point(|slot| slot.end as usize <= limit)
                .max(1),
            _ => most,
        };
        let mut sender_text = [0; 20];
        let sender_text = &mut sender_text[..self.sender_digits];
        put_digits(sender_text, sender);
        patch(&mut self.bytes, &slots[..fitting], seq, sender_text, clock);
        first..first + fitting
    }

    /// The bytes of these slots.
    pub(crate) fn bytes(&self, slots: &Range<usize>) -> &[u8] {
        match self.slots.get(slots.clone()) {
            Some([first, .., last]) => &self.bytes[first.start as usize..last.end as usize],
            Some([only]) => &self.bytes[only.start as usize..only.end as usize],
            _ => &[],
        }
    }

    /// Number of these slots that lie wholly within their first `written` bytes, and the rest of
    /// the message that is cut there.
    pub(crate) fn split(&self, slots: &Range<usize>, written: usize) -> (usize, &[u8]) {
        let slots = &self.slots[slots.clone()];
        let Some(first) = slots.first() else {
            return (0, &[]);
        };
        let stop = first.start as usize + written;
        let whole = slots.partition_point(|slot| slot.end as usize <= stop);
        match slots.get(whole) {
            Some(cut) if (cut.start as usize) < stop => {
                (whole, &self.bytes[stop..cut.end as usize])
            }
            _ => (whole, &[]),
        }
    }

    /// Says that this many slots were used up; lines of a file then go on after them.
    pub(crate) fn advance(&mut self, used: usize) {
        if self.turns {
            self.next = (self.next + used) % self.slots.len();
        }
    }
}

fn patch(
    bytes: &mut [u8],
    slots: &[MessageOffsets],
    first_seq: u64,
    sender: &[u8],
    clock: &MessageClock,
) {
    let time = clock.header();
    for (seq, slot) in (first_seq..).zip(slots) {
        if let Some(at) = slot.time {
            bytes[at as usize..][..time.len()].copy_from_slice(time);
        }
        let Some(at) = slot.mark else { continue };
        let mark = &mut bytes[at as usize..];
        put_digits(&mut mark[SEQ_AT..SEQ_AT + SEQ_DIGITS], seq);
        mark[SENDER_AT..SENDER_AT + sender.len()].copy_from_slice(sender);
        let sent_at = SENDER_AT + sender.len() + RUN_BYTES;
        mark[sent_at..sent_at + NS_DIGITS].copy_from_slice(clock.digits());
    }
}

const SEQ_AT: usize = "seq=".len();
const SENDER_AT: usize = SEQ_AT + SEQ_DIGITS + " conn=".len();
const RUN_BYTES: usize = " run=01234567 sent=".len();

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn style(proto: SyslogProto, framing: Option<SyslogFraming>, size: usize) -> Style {
        Style {
            proto,
            framing,
            host: "fw01".to_owned(),
            app: "test".to_owned(),
            sdata: (proto == SyslogProto::Rfc5424).then(|| "[a@1 b=\"c\"]".to_owned()),
            size,
            run: "5eed0001".to_owned(),
            sender_digits: 2,
        }
    }

    /// The one message of a frame, after checking the framing around it.
    fn unframe(framing: Option<SyslogFraming>, frame: &[u8]) -> &[u8] {
        match framing {
            None => frame,
            Some(SyslogFraming::Newline) => frame.strip_suffix(b"\n").unwrap(),
            Some(SyslogFraming::Octet) => {
                let at = memchr::memchr(b' ', frame).unwrap();
                let length: usize = std::str::from_utf8(&frame[..at]).unwrap().parse().unwrap();
                assert_eq!(frame.len() - at - 1, length);
                &frame[at + 1..]
            }
        }
    }

    #[test]
    fn patching_keeps_every_size_exact() {
        for proto in [
            SyslogProto::Rfc3164,
            SyslogProto::Rfc5424,
            SyslogProto::Rfc3164Iso,
        ] {
            for framing in [
                None,
                Some(SyslogFraming::Newline),
                Some(SyslogFraming::Octet),
            ] {
                let least = style(proto, framing, 0).size_min();
                for size in [least, 250, 800, 9000] {
                    let mut clock = MessageClock::new(proto);
                    let mut tape = Tape::generated(&style(proto, framing, size), &clock, 5);
                    clock.tick();
                    let slots = tape.load(u64::MAX, 7, 99_998, &clock);
                    assert_eq!(slots, 0..5);
                    for (slot, seq) in slots.zip(99_998..) {
                        let message = unframe(framing, tape.bytes(&(slot..slot + 1)));
                        assert_eq!(message.len(), size);
                        let text = std::str::from_utf8(message).unwrap();
                        let sent = std::str::from_utf8(clock.digits()).unwrap();
                        let marker = format!("seq={seq:010} conn=07 run=5eed0001 sent={sent} ");
                        assert_eq!(text.matches(&marker).count(), 1, "{text}");
                        let time = std::str::from_utf8(clock.header()).unwrap();
                        assert!(text.starts_with("<38>") && text.contains(time), "{text}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_write_that_stops_anywhere_is_split_at_the_message() {
        let style = style(SyslogProto::Rfc3164, Some(SyslogFraming::Newline), 150);
        let clock = MessageClock::new(style.proto);
        let mut tape = Tape::generated(&style, &clock, 4);
        let slots = tape.load(4, 0, 0, &clock);
        let all = tape.bytes(&slots).to_vec();
        for written in 0..=all.len() {
            let (whole, cut) = tape.split(&slots, written);
            assert_eq!(whole, written / 151);
            let rest = (151 - written % 151) % 151;
            assert_eq!(cut, &all[written..written + rest]);
        }
    }

    #[test]
    fn lines_go_round_and_keep_their_bytes() {
        let style = style(SyslogProto::Rfc3164, Some(SyslogFraming::Newline), 0);
        let clock = MessageClock::new(style.proto);
        let lines: Vec<&[u8]> = vec![b"one", b"\xff\x00two", b"three"];
        let mut tape = Tape::lines(&style, &lines, false);
        let mut seen = Vec::new();
        while seen.len() < 2 * TAPE_BYTES {
            let slots = tape.load(u64::MAX, 0, 0, &clock);
            assert!(tape.bytes(&slots).len() <= TAPE_BYTES);
            seen.extend_from_slice(tape.bytes(&slots));
            tape.advance(slots.len());
        }
        for (at, line) in seen.split(|b| *b == b'\n').enumerate().take(50_000) {
            assert_eq!(line, lines[at % 3]);
        }
    }

    #[test]
    fn marked_lines_end_in_the_marker() {
        let style = style(SyslogProto::Rfc3164, None, 0);
        let clock = MessageClock::new(style.proto);
        let mut tape = Tape::lines(&style, &[b"<13>hello"], true);
        let slots = tape.load(2, 3, 41, &clock);
        let text = std::str::from_utf8(tape.bytes(&(1..2))).unwrap();
        assert_eq!(slots, 0..2);
        assert!(
            text.starts_with("<13>hello seq=0000000042 conn=03 run=5eed0001 sent="),
            "{text}"
        );
    }

    #[test]
    fn mixed_messages_have_one_size_many_hosts_and_the_marker_at_their_end() {
        for proto in [SyslogProto::Rfc3164, SyslogProto::Rfc5424] {
            let style = style(proto, Some(SyslogFraming::Newline), 300);
            let clock = MessageClock::new(proto);
            let mut tape = Tape::mixed(&style, &clock);
            let (mut messages, mut hosts) = (Vec::new(), BTreeSet::new());
            while messages.len() < 5000 {
                let slots = tape.load(u64::MAX, 7, 41 + messages.len() as u64, &clock);
                let bytes = tape.bytes(&slots).to_vec();
                tape.advance(slots.len());
                let text = String::from_utf8(bytes).unwrap();
                messages.extend(text.lines().map(str::to_owned));
            }
            for (seq, message) in (41..).zip(&messages) {
                assert_eq!(message.len(), 300, "{message}");
                let end = format!(" seq={seq:010} conn=07 run=5eed0001 sent=");
                let (_, sent) = message.split_once(&end).unwrap();
                assert_eq!(sent.as_bytes(), clock.digits());
                let skipped = 2 * usize::from(proto == SyslogProto::Rfc5424);
                let time = std::str::from_utf8(clock.header()).unwrap();
                let (_, after) = message.split_once('>').unwrap();
                let (_, rest) = after[skipped..].split_once(time).unwrap();
                hosts.insert(rest.split(' ').nth(1).unwrap().to_owned());
            }
            assert!(hosts.len() > 20, "{hosts:?}");
            let distinct: BTreeSet<&str> = messages
                .iter()
                .filter_map(|message| message.split(" seq=").next())
                .collect();
            assert!(distinct.len() > 4900, "{}", distinct.len());
        }
    }

    #[test]
    fn a_line_longer_than_a_write_goes_alone() {
        let style = style(SyslogProto::Rfc3164, Some(SyslogFraming::Octet), 0);
        let clock = MessageClock::new(style.proto);
        let long = vec![b'x'; TAPE_BYTES + 1];
        let mut tape = Tape::lines(&style, &[&long, b"short"], false);
        assert_eq!(tape.load(2, 0, 0, &clock), 0..1);
        tape.advance(1);
        assert_eq!(tape.load(2, 0, 0, &clock), 1..2);
    }
}
