//! One order out of several sockets: what was received first is handed out first, by sender.
//!
//! The kernel's receive stamps say which of two datagrams came first, but not whether an earlier
//! one is still to be read from another socket. That is known one pass later. A sender's
//! datagrams are put into sockets one after the other, each with its wake-up: whatever was put
//! into any socket before a datagram that a pass has read is found by the next pass, if that one
//! empties all sockets. So a datagram is handed out by the pass after the one that read it,
//! together with those of its sender that turned up since and are stamped before it. No clock is
//! asked and no window waited for.
//!
//! The order of one sender can only be wrong if the host's clock is set back between two of its
//! datagrams, or if a pass cannot empty a socket and processors disagree about the order of
//! different senders in it ([`DatagramMerge::not_emptied`]): both within the few datagrams of two
//! passes.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use super::Datagram;

/// A datagram that was read.
#[derive(Clone, Copy)]
struct StampedDatagram {
    /// Time at which the kernel received it, in ns since the epoch; 0: before it began to stamp.
    stamp: u64,
    pass: u64,
    start: usize,
    len: usize,
    from: IpAddr,
    port: u16,
    cut: bool,
}

/// Stores that are kept for reuse, and bytes of room in each of them, at most: what a pass reads
/// of a million datagrams a second.
const SPARE_MAX: usize = 8;
const SPARE_BYTES_MAX: usize = 2 << 20;

/// Payloads of the datagrams of one pass, one after the other.
#[derive(Default)]
struct PassBuffer {
    bytes: Vec<u8>,
    /// Datagrams of it that are still held or handed out.
    datagrams: usize,
}

/// Brings the datagrams of several sockets into one order.
#[derive(Default)]
pub(super) struct DatagramMerge {
    held: Vec<StampedDatagram>,
    out: Vec<StampedDatagram>,
    /// Of the passes from `first` on.
    stores: VecDeque<PassBuffer>,
    first: u64,
    spare: Vec<PassBuffer>,
    /// Nothing stamped later is handed out by this pass.
    limit: u64,
}

impl DatagramMerge {
    /// Forgets what was handed out.
    pub(super) fn forget(&mut self) {
        for gone in self.out.drain(..) {
            self.stores[(gone.pass - self.first) as usize].datagrams -= 1;
        }
        while let Some(store) = self.stores.pop_front_if(|store| store.datagrams == 0) {
            self.first += 1;
            if self.spare.len() < SPARE_MAX && store.bytes.capacity() <= SPARE_BYTES_MAX {
                self.spare.push(store);
            }
        }
    }

    /// Begins a pass over all sockets that have something. One that is not ended hands out nothing,
    /// and ends with the next.
    pub(super) fn begin_pass(&mut self) {
        let mut store = self.spare.pop().unwrap_or_default();
        store.bytes.clear();
        self.stores.push_back(store);
        self.limit = u64::MAX;
    }

    /// Takes a datagram that this pass has read, of the sender's `port`. Those of one socket come
    /// in the order in which they are read from it.
    pub(super) fn take(&mut self, stamp: u64, port: u16, datagram: Datagram<'_>) {
        let pass = self.first + self.stores.len() as u64 - 1;
        let Some(store) = self.stores.back_mut() else {
            return;
        };
        self.held.push(StampedDatagram {
            stamp,
            pass,
            start: store.bytes.len(),
            len: datagram.bytes.len(),
            from: datagram.from,
            port,
            cut: datagram.cut,
        });
        store.bytes.extend_from_slice(datagram.bytes);
        store.datagrams += 1;
    }

    /// Notes that this pass leaves something in a socket, all of it stamped after `stamp`, the
    /// stamp of the last one that was read from it.
    pub(super) fn not_emptied(&mut self, stamp: u64) {
        self.limit = self.limit.min(stamp);
    }

    /// Hands out what can have no earlier one any more, in order.
    pub(super) fn end_pass(&mut self) {
        // Stable: datagrams of a burst have one stamp, and came from one socket, in order.
        self.held.sort_by_key(|held| held.stamp);
        let this = self.first + self.stores.len() as u64 - 1;
        let old = |held: &StampedDatagram| held.pass < this;
        let upto = self.held.partition_point(|held| held.stamp <= self.limit);
        let upto = self.held[..upto]
            .iter()
            .rposition(old)
            .map_or(0, |at| at + 1);
        let ripe = &self.held[..upto];
        if ripe.iter().all(old) {
            self.out.extend(self.held.drain(..upto));
            return;
        }
        // A new one only goes before an old one of its own sender: it has no other proof that all
        // before it were read.
        let new = ripe.iter().filter(|held| !old(held));
        let mut proven: HashMap<(IpAddr, u16), bool> =
            new.map(|held| ((held.from, held.port), false)).collect();
        let mut goes = |held: &StampedDatagram| {
            let proven = proven.get_mut(&(held.from, held.port));
            match old(held) {
                true => {
                    proven.into_iter().for_each(|proven| *proven = true);
                    true
                }
                false => proven.is_some_and(|proven| *proven),
            }
        };
        let mut goes: Vec<bool> = ripe.iter().rev().map(&mut goes).collect();
        let out = &mut self.out;
        self.held.retain(|held| {
            let goes = goes.pop().unwrap_or(false);
            if goes {
                out.push(*held);
            }
            !goes
        });
    }

    /// Hands out all that is held, in order.
    pub(super) fn hand_out_all(&mut self) {
        self.held.sort_by_key(|held| held.stamp);
        self.out.append(&mut self.held);
    }

    /// Number of datagrams that are handed out.
    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    /// Bytes of datagrams that are held or handed out.
    pub(super) fn stored(&self) -> usize {
        self.stores.iter().map(|store| store.bytes.len()).sum()
    }

    /// Number of datagrams that were read and not handed out.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// One of those handed out.
    pub(super) fn datagram(&self, index: usize) -> Option<Datagram<'_>> {
        let held = self.out.get(index)?;
        let store = &self.stores[(held.pass - self.first) as usize];
        Some(Datagram {
            bytes: &store.bytes[held.start..held.start + held.len],
            from: held.from,
            cut: held.cut,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    const SOCKETS: usize = 3;
    const SENDERS: usize = 4;

    /// A host whose processors receive for one reader.
    #[derive(Default)]
    struct Host {
        clock: u64,
        /// Of each processor: what it has stamped and not yet put into a socket, in order.
        stamped: Vec<VecDeque<Sent>>,
        sockets: [VecDeque<Sent>; SOCKETS],
        /// The next number of each sender.
        sent: [u32; SENDERS],
        received: [u32; SENDERS],
        merge: DatagramMerge,
        /// Where the reader is in its pass: the sockets that it has still to empty.
        to_read: Option<Vec<usize>>,
        /// Datagrams that it reads at once, and how often in a pass.
        at_once: usize,
        reads: usize,
        left: usize,
    }

    #[derive(Clone, Copy)]
    struct Sent {
        stamp: u64,
        sender: usize,
        number: u32,
    }

    impl Host {
        fn new(processors: usize, at_once: usize, reads: usize) -> Self {
            Self {
                stamped: vec![VecDeque::new(); processors],
                at_once,
                reads,
                ..Self::default()
            }
        }

        /// One of all that may happen next, as `choice` says.
        fn step(&mut self, choice: u16) {
            let (kind, which) = (choice % 4, usize::from(choice / 4));
            let processors = self.stamped.len();
            match kind {
                0 => {
                    let sender = which % SENDERS;
                    self.clock += 1;
                    let sent = Sent {
                        stamp: self.clock,
                        sender,
                        number: self.sent[sender],
                    };
                    self.sent[sender] += 1;
                    self.stamped[sender % processors].push_back(sent);
                }
                1 => {
                    if let Some(sent) = self.stamped[which % processors].pop_front() {
                        self.sockets[which / processors % SOCKETS].push_back(sent);
                    }
                }
                _ => self.read(),
            }
        }

        /// The reader looks what there is, or reads from a socket, or ends its pass.
        fn read(&mut self) {
            let Some(to_read) = &mut self.to_read else {
                let has = |socket: &usize| !self.sockets[*socket].is_empty();
                self.to_read = Some((0..SOCKETS).filter(has).collect());
                self.left = self.reads;
                self.merge.forget();
                self.merge.begin_pass();
                return;
            };
            let Some(socket) = to_read.last().copied() else {
                self.merge.end_pass();
                self.to_read = None;
                self.check();
                return;
            };
            let queue = &mut self.sockets[socket];
            let n = queue.len().min(self.at_once);
            let mut last = 0;
            for sent in queue.drain(..n) {
                last = sent.stamp;
                self.merge.take(
                    sent.stamp,
                    sent.sender as u16,
                    Datagram {
                        bytes: &sent.number.to_le_bytes(),
                        from: IpAddr::from([10, 0, 0, sent.sender as u8]),
                        cut: false,
                    },
                );
            }
            self.left -= 1;
            if n < self.at_once || self.left == 0 {
                to_read.pop();
                self.left = self.reads;
                if n == self.at_once {
                    self.merge.not_emptied(last);
                }
            }
        }

        fn check(&mut self) {
            for index in 0..self.merge.len() {
                let datagram = self.merge.datagram(index).unwrap();
                let IpAddr::V4(from) = datagram.from else {
                    panic!("{datagram:?}");
                };
                let sender = usize::from(from.octets()[3]);
                let number = u32::from_le_bytes(datagram.bytes.try_into().unwrap());
                assert_eq!(number, self.received[sender], "of sender {sender}");
                self.received[sender] += 1;
            }
        }

        /// All that was sent arrives.
        fn finish(mut self) {
            for processor in &mut self.stamped {
                self.sockets[0].extend(processor.drain(..));
            }
            let mut idle = 0;
            while idle < 3 {
                let before = self.received;
                while self.to_read.is_some() {
                    self.read();
                }
                self.read();
                while self.to_read.is_some() {
                    self.read();
                }
                idle = if before == self.received { idle + 1 } else { 0 };
            }
            assert_eq!(self.received, self.sent);
            assert_eq!(self.merge.held(), 0);
            self.merge.forget();
            assert!(self.merge.stores.is_empty(), "kept for nothing");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn every_senders_order_is_kept_whatever_processors_and_the_reader_do(
            processors in 1usize..4,
            at_once in 1usize..5,
            steps in prop::collection::vec(any::<u16>(), 0..300),
        ) {
            let mut host = Host::new(processors, at_once, usize::MAX);
            steps.iter().for_each(|choice| host.step(*choice));
            host.finish();
        }

        #[test]
        fn a_reader_that_cannot_keep_up_keeps_the_order_of_one_processor(
            at_once in 1usize..3,
            steps in prop::collection::vec(any::<u16>(), 0..300),
        ) {
            let mut host = Host::new(1, at_once, 1);
            steps.iter().for_each(|choice| host.step(*choice));
            host.finish();
        }
    }
}
