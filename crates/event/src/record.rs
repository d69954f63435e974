//! One event's columns: where its fields lie in the arena, its times, and what was odd.

use crate::Anomalies;

/// A range of bytes in a batch's arena. An empty span means that the field is absent.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Hash)]
pub struct Span {
    /// Offset of the first byte, in bytes from the start of the arena.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Span {
    /// No bytes: an absent field.
    pub const EMPTY: Self = Self { start: 0, len: 0 };

    /// The span from `start` up to, not including, `end` (byte offsets, at most 4 GiB).
    pub const fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= u32::MAX as usize);
        Self {
            start: start as u32,
            len: (end - start) as u32,
        }
    }

    /// Offset of the first byte.
    pub const fn start(self) -> usize {
        self.start as usize
    }

    /// Offset after the last byte.
    pub const fn end(self) -> usize {
        self.start as usize + self.len as usize
    }

    /// Length in bytes.
    pub const fn len(self) -> usize {
        self.len as usize
    }

    /// True if the field is absent.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The bytes of this span; empty if it lies outside the arena.
    pub fn of(self, arena: &[u8]) -> &[u8] {
        arena.get(self.start()..self.end()).unwrap_or_default()
    }
}

/// Nanoseconds since 1970-01-01T00:00:00Z; [`Timestamp::NONE`] where no time was found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// No time.
    pub const NONE: Self = Self(i64::MIN);

    /// True if there is a time.
    pub const fn is_some(self) -> bool {
        self.0 != i64::MIN
    }

    /// This time, or `other` where there is none.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        if self.is_some() { self } else { other }
    }

    /// The wall clock now. Read once per batch, never per event.
    pub fn now() -> Self {
        #[cfg(feature = "simulation")]
        if let Some(clocks) = crate::now::virtual_clocks() {
            return clocks.wall;
        }
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self(since.map_or(0, |d| d.as_nanos() as i64))
    }
}

impl Default for Timestamp {
    fn default() -> Self {
        Self::NONE
    }
}

/// The number of a class in its batch, from 1 ([`crate::Batch::class`]);
/// [`ClassId::UNCLASSIFIED`] until something stamps it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Hash)]
pub struct ClassId(pub u16);

impl ClassId {
    /// Not yet, or not, recognised.
    pub const UNCLASSIFIED: Self = Self(0);
}

/// Format as which a record's header was read.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Format {
    /// No header was recognised; the whole record is the message.
    #[default]
    Unparsed,
    /// RFC 3164, as it is really sent.
    Rfc3164,
    /// RFC 3164 with Cisco's sequence number or clock marks.
    Cisco,
    /// RFC 5424.
    Rfc5424,
    /// An object of an HTTP Event Collector. [`Record::msg_id`] is its `event` as it was written,
    /// [`Record::sdata`] its `fields`, [`Record::proc_id`] its `time`.
    Hec,
    /// An entry of the system's journal. [`Record::sdata`] is its kept fields, a JSON object.
    Journal,
    /// An object of the Kubernetes API, as JSON. [`Record::sdata`] is its fields, a JSON object.
    Kubernetes,
}

impl Format {
    /// The name used in output and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unparsed => "unparsed",
            Self::Rfc3164 => "rfc3164",
            Self::Cisco => "cisco",
            Self::Rfc5424 => "rfc5424",
            Self::Hec => "hec",
            Self::Journal => "journal",
            Self::Kubernetes => "kubernetes",
        }
    }

    /// True if [`Record::sdata`] is a JSON object of indexed fields.
    pub const fn has_json_fields(self) -> bool {
        matches!(self, Self::Hec | Self::Journal | Self::Kubernetes)
    }
}

/// One event: 96 bytes, no pointer, no allocation. All spans point into the batch's arena.
///
/// The rows are kept together rather than as one array a column: the parser writes all fields of
/// an event at once and an encoder reads them all at once, so a row costs 1.5 cache lines where
/// columns would touch eleven.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The record as it came, without its framing.
    pub raw: Span,
    /// HOSTNAME; empty if none was sent.
    pub host: Span,
    /// APP-NAME, or the RFC 3164 tag without its PID.
    pub app: Span,
    /// PROCID, or the PID of an RFC 3164 tag.
    pub proc_id: Span,
    /// MSGID (RFC 5424).
    pub msg_id: Span,
    /// STRUCTURED-DATA with its brackets; empty for the nil value.
    pub sdata: Span,
    /// MSG: the text after the header, without a BOM.
    pub message: Span,
    /// Values of the event beyond its class ([`crate::Extra`]).
    pub extra: Span,
    /// Time at which it happened, by the sender's clock.
    pub event_time: Timestamp,
    /// Time at which it was read from the socket, by our clock (one reading a batch).
    pub received: Timestamp,
    /// Index into [`crate::Batch::origins`].
    pub peer: u32,
    /// Anomalies found in it.
    pub anomalies: Anomalies,
    /// Minutes east of UTC that the sender gave, or that were guessed
    /// ([`Anomalies::ZONE_GUESSED`]); [`Record::ZONE_NONE`] if neither.
    pub zone_minutes: i16,
    /// Class as which it was recognised.
    pub class: ClassId,
    /// Facility × 8 + severity (RFC 5424 section 6.2.1); [`Record::PRI_NONE`] if absent.
    pub pri: u8,
    /// Format as which its header was read.
    pub format: Format,
}

const _: () = assert!(size_of::<Record>() == 96);

impl Record {
    /// `pri` of a record that carried none.
    pub const PRI_NONE: u8 = 0xff;
    /// `zone_minutes` of a record that carried none.
    pub const ZONE_NONE: i16 = i16::MIN;

    /// A record of which only the raw bytes are known.
    pub const fn unparsed(raw: Span, received: Timestamp, peer: u32, anomalies: Anomalies) -> Self {
        Self {
            raw,
            host: Span::EMPTY,
            app: Span::EMPTY,
            proc_id: Span::EMPTY,
            msg_id: Span::EMPTY,
            sdata: Span::EMPTY,
            message: raw,
            extra: Span::EMPTY,
            event_time: Timestamp::NONE,
            received,
            peer,
            anomalies,
            zone_minutes: Self::ZONE_NONE,
            class: ClassId::UNCLASSIFIED,
            pri: Self::PRI_NONE,
            format: Format::Unparsed,
        }
    }

    /// Facility 0–23, if a PRI was sent.
    pub const fn facility(&self) -> Option<u8> {
        if self.pri == Self::PRI_NONE {
            None
        } else {
            Some(self.pri >> 3)
        }
    }

    /// Severity 0 (emergency) to 7 (debug), if a PRI was sent.
    pub const fn severity(&self) -> Option<u8> {
        if self.pri == Self::PRI_NONE {
            None
        } else {
            Some(self.pri & 7)
        }
    }

    /// The bytes that hold its text: [`Self::raw`], or the quoted value around it.
    pub const fn extent(&self) -> Span {
        let (raw, value) = (self.raw, self.msg_id);
        let around = value.start() <= raw.start() && raw.end() <= value.end();
        match self.format {
            Format::Hec if around => value,
            _ => raw,
        }
    }

    /// Flags an event whose time differs from the receive time by more than that many nanoseconds;
    /// whether it does. One that has no time stands at its receive time.
    #[inline]
    pub const fn flag_skew(&mut self, skew_ns_max: u64) -> bool {
        let skewed =
            self.event_time.is_some() && self.event_time.0.abs_diff(self.received.0) > skew_ns_max;
        if skewed {
            self.anomalies.insert(Anomalies::TIME_SKEWED);
        }
        skewed
    }

    /// The event time, or the receive time where the sender gave none.
    pub const fn time(&self) -> Timestamp {
        self.event_time.or(self.received)
    }
}

/// The keyword of a facility 0–23, as syslog.conf(5) writes it.
pub fn facility_name(facility: u8) -> &'static str {
    const NAMES: [&str; 24] = [
        "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron",
        "authpriv", "ftp", "ntp", "audit", "alert", "clock", "local0", "local1", "local2",
        "local3", "local4", "local5", "local6", "local7",
    ];
    NAMES.get(facility as usize).copied().unwrap_or("unknown")
}

/// The keyword of a severity 0–7, as syslog.conf(5) writes it.
pub fn severity_name(severity: u8) -> &'static str {
    const NAMES: [&str; 8] = [
        "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
    ];
    NAMES.get(severity as usize).copied().unwrap_or("unknown")
}
