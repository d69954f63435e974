//! Reason for a failed attempt at a destination. It is apart from the errors of opening one,
//! because the fuzzer compiles it by itself with what judges answers.

macro_rules! error_reasons {
    ($($variant:ident $label:literal $doc:literal;)*) => {
        /// Reason for a failed attempt at a destination: a closed list, each a label in the
        /// metrics. Whatever the reason, the events stay pending.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum ErrorReason { $(#[doc = $doc] $variant,)* }

        impl ErrorReason {
            /// Every reason, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The label.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }

            /// One sentence for the docs.
            pub const fn describe(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }
    };
}

error_reasons! {
    ConnectFailed "connect_failed" "The name did not resolve or the connection was refused; the next endpoint is tried.";
    Timeout "timeout" "No connection or no answer in time; the request is sent again, and may have been taken.";
    Tls "tls" "The TLS handshake failed: an unknown authority, a wrong name, an expired certificate.";
    Io "io" "The connection broke, or a file could not be written; tried again.";
    BadAnswer "bad_answer" "An answer that is not HEC's, a 2xx of that kind too; the events are held.";
    Http400 "http_400" "The request or an event in it was refused; the event goes to quarantine, a wrong setting holds.";
    Http401And403 "http_401_403" "The token was refused; the events are held until it is accepted.";
    Http404 "http_404" "No collector at this address; the events are held.";
    Http413 "http_413" "The request was too large; it is halved and sent again.";
    Http429 "http_429" "The collector asked to slow down; it is obeyed.";
    Http5xx "http_5xx" "The collector or something before it failed; the request is sent again.";
    HttpOther "http_other" "Another status that is no success; the events are held.";
    AckFailed "ack_failed" "A request that was taken was not acknowledged in time and is sent again, or acknowledgements could not be asked for.";
    DiskFull "disk_full" "No room on the disk or in the quota; tried again until there is.";
    StoreHeld "store_held" "The store cannot be opened: its list of files is damaged, another process writes to it, or it does not answer; tried again.";
    QuarantineFailed "quarantine_failed" "A refused event could not be written to quarantine; it stays pending.";
}

impl ErrorReason {
    /// The reason of a failed file operation.
    pub(crate) fn of_file(error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        match error.kind() {
            StorageFull | QuotaExceeded => Self::DiskFull,
            _ => Self::Io,
        }
    }
}
