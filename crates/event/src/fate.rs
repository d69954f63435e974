//! Ways in which an event can end, and the closed lists of reasons. Every reason is a label in the
//! ledger.

use std::time::Duration;

macro_rules! reasons {
    ($(#[$outer:meta])* $name:ident { $($variant:ident $text:literal $doc:literal,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum $name { $(#[doc = $doc] $variant,)* }

        impl $name {
            /// Every reason, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The label in ledger and metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// One sentence for the docs.
            pub const fn describe(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }
    };
}

reasons! {
    /// Reason why something that reached a source did not become an event.
    RejectReason {
        Empty "empty" "A datagram or a RELP message without a byte, or only line ends.",
        Shutdown "shutdown" "Received, but the queue closed before it could be taken.",
        QueueFull "queue_full" "No destination had room in the queue, and the policy is to drop the newest.",
        TlsOnPlain "tls_on_plain_port" "TLS that came to a plain port: the first bytes of a connection, no event.",
        Http "http_on_syslog_port" "A request of HTTP that came to a syslog port, no event.",
        UntrustedProxy "untrusted_proxy" "A PROXY header of a peer that is not one of `trusted_proxies`, and what came with it.",
    }
}

reasons! {
    /// Reason why bytes that came over the network are in no event.
    CutReason {
        Oversize "oversize" "The end of a message longer than `max_message_bytes`.",
        Memory "memory" "The end of a message that was cut short because the unfinished messages of all \
            connections had used up their memory.",
        Unfinished "unfinished" "A RELP frame that was not complete when its connection ended: it was \
            not answered, so its sender has it and sends it again.",
        Unframed "unframed" "What a RELP sender sent beside its session: after a broken frame or its end, \
            or as a message that was refused.",
    }
}

reasons! {
    /// Reason why events were lost before they could be read.
    UpstreamLoss {
        Suppressed "suppressed" "The sender's own rate limit dropped them, and said so: `Suppressed N \
            messages` of journald.",
        Deleted "deleted" "They were deleted or damaged before they were read: by rotation, for room, \
            or by a crash.",
    }
}

reasons! {
    /// Reason why a destination dropped an event for good.
    DropReason {
        QueueFull "queue_full" "Its backlog in the queue was full, and its policy is to drop the oldest or the newest.",
        Shutdown "shutdown" "Still pending when the process stopped, and not on disk: the queue is in \
            memory, or its disk was full or failed.",
        Removed "removed" "Still pending when its destination was taken out of the configuration, or \
            routed to one that a reload took away or could not open; also what such a one gave up \
            because the disk was full.",
        NotDurable "not_durable" "Accepted, and not in the queue's files yet when the process was \
            killed or the machine stopped.",
        Corrupt "corrupt" "Not in the queue's files: unreadable, or left out of a full disk while \
            its destination was away.",
        QuarantineFailed "quarantine_failed" "Refused, and quarantine could not be written.",
    }
}

reasons! {
    /// Reason why a destination refused an event for good: it goes to quarantine.
    RefuseReason {
        InvalidEvent "invalid_event" "The destination named this event as one it cannot take.",
        BadRequest "bad_request" "The destination refused the request and named no event.",
        TooLarge "too_large" "Larger than the destination takes in one request.",
        UnsafePath "unsafe_path" "Its path, made from the event's own fields, is longer than a file system takes.",
    }
}

/// Outcome of a range of events at one destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The destination has taken them.
    Delivered,
    /// Not now: they stay pending and come again after at least this time.
    RetryAfter(Duration),
    /// The destination will never take them: to quarantine.
    Refused {
        /// The closed reason, for counting.
        reason: RefuseReason,
        /// The destination's own code (for HEC the `code` of its answer), 0 if it gave none.
        code: u32,
        /// The destination's own words.
        text: String,
    },
    /// Gone, and counted under this reason.
    Dropped(DropReason),
}
