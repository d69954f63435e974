//! The counters of the host that mean lost packets: each once, with where it stands on an event's
//! way and what to do about it.

/// Place on the way from the wire to us at which something is lost, in the order of that way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostLossPlace {
    /// In the network card or its driver.
    Nic,
    /// Between the driver and the sockets, in the kernel's backlog of a CPU.
    Softnet,
    /// At a socket.
    Socket,
}

macro_rules! causes {
    ($($variant:ident $place:ident $label:literal $hint:literal;)*) => {
        /// Reason for which the host lost something.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum Cause { $(#[doc = $hint] $variant,)* }

        impl Cause {
            /// Every cause, in the order of an event's way.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Place at which it happens.
            pub const fn place(self) -> HostLossPlace {
                match self { $(Self::$variant => HostLossPlace::$place,)* }
            }

            /// The kernel's own name of the counter, as an operator finds it in manuals.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }

            /// Meaning of the counter and the remedy, in one or two sentences.
            pub const fn hint(self) -> &'static str {
                match self { $(Self::$variant => $hint,)* }
            }
        }
    };
}

causes! {
    NicMissed Nic "rx_missed_errors" "The card had no room left: the host takes packets off it too slowly. Larger rings help (`ethtool -G DEV rx 4096`), and more queues (`ethtool -L`).";
    NicFifo Nic "rx_fifo_errors" "The card's own buffer ran over before the host took the packets. Larger rings help (`ethtool -G DEV rx 4096`).";
    NicDropped Nic "rx_dropped" "Packets that the kernel did not take from the card. It grows on healthy hosts too, by packets of protocols that nobody here speaks; look whether it grows with the load.";
    NicCrc Nic "rx_crc_errors" "Packets that were damaged on the wire: look at the cable, the optics and the switch port.";
    SoftnetDropped Softnet "dropped" "A CPU's backlog was full: `sysctl net.core.netdev_max_backlog=10000`, and spread the card's interrupts over more CPUs.";
    UdpReceiveBuffer Socket "UDP RcvbufErrors" "Receive buffers of any process on this host were full. What of it was ours is counted beside each source as `kernel_dropped`.";
    UdpOther Socket "UDP InErrors, others" "Datagrams with a wrong checksum, or for which the kernel had no memory, of any process on this host.";
    UdpNoPorts Socket "UDP NoPorts" "Datagrams for a port at which nobody listens: a device that sends to the wrong port, or one that sent while nothing ran here.";
    ListenOverflows Socket "TCP ListenOverflows" "Connections that waited to be accepted and found the queue full, of any process on this host: `sysctl net.core.somaxconn=4096`. Most senders try again.";
    ListenOther Socket "TCP ListenDrops, others" "Connections that the kernel turned away for other reasons, such as want of memory. Most senders try again.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_said_in_whole_sentences() {
        for (i, cause) in Cause::ALL.iter().enumerate() {
            assert!(cause.hint().ends_with('.'), "{cause:?}");
            let same = Cause::ALL[..i]
                .iter()
                .any(|other| other.label() == cause.label());
            assert!(!same, "{cause:?}: two counters of one name");
        }
    }
}
