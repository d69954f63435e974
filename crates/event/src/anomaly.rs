//! Anomalies of an event, as named bits that travel with it.

use std::fmt;

macro_rules! anomalies {
    ($($bit:literal $constant:ident $name:literal $doc:literal;)*) => {
        impl Anomalies {
            $(#[doc = $doc] pub const $constant: Self = Self(1 << $bit);)*
            /// Every anomaly, in bit order.
            pub const ALL: &'static [Self] = &[$(Self::$constant),*];
        }
        const NAMES: &[(u32, &str, &str)] = &[$((1 << $bit, $name, $doc)),*];
    };
}

/// The bits that have a name.
const NAMED_BITS: u32 = {
    let (mut bits, mut at) = (0, 0);
    while at < NAMES.len() {
        bits |= NAMES[at].0;
        at += 1;
    }
    bits
};

/// The names by bit, empty where there is none.
static NAME_BY_BIT: [&str; 32] = {
    let (mut names, mut at) = ([""; 32], 0);
    while at < NAMES.len() {
        names[NAMES[at].0.trailing_zeros() as usize] = NAMES[at].1;
        at += 1;
    }
    names
};

/// A set of oddities of one event: bad input is named, counted and kept, never an exception.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Anomalies(u32);

anomalies! {
    0 OVERSIZE "oversize" "Longer than `max_message_bytes`; the first bytes were kept.";
    1 UNTERMINATED "unterminated" "The stream ended before the frame did.";
    2 BAD_FRAME "bad_frame" "An octet count was broken; these are the bytes up to the next frame.";
    3 NO_PRI "no_pri" "No `<PRI>` at the start; facility and severity are unknown.";
    4 BAD_PRI "bad_pri" "A `<PRI>` that is not a number from 0 to 191.";
    5 NO_TIME "no_time" "No timestamp; the receive time stands in.";
    6 BAD_TIME "bad_time" "A timestamp that is no date; the receive time stands in.";
    7 NO_HOST "no_host" "No host name; the sender's address stands in.";
    8 YEAR_ASSUMED "year_assumed" "No year was sent: the year closest to the receive time was taken.";
    9 ZONE_ASSUMED "zone_assumed" "No time zone was sent: the zone of the source, or of a rule, was taken.";
    10 BAD_VERSION "bad_version" "An RFC 5424 version other than 1.";
    11 BAD_SDATA "bad_sdata" "Broken structured data; it was left in the message.";
    12 NO_SDATA "no_sdata" "RFC 5424 without its structured data field.";
    13 LONG_FIELD "long_field" "A header field longer than RFC 5424 allows.";
    14 CLOCK_UNSYNCED "clock_unsynced" "The device marked its clock as not synchronised (Cisco `*` or `.`).";
    15 UNPARSED "unparsed" "No header was recognised; the whole record is the message.";
    16 DATAGRAM_CUT "datagram_cut" "The kernel cut the datagram because it was longer than the buffer.";
    17 GROUP_INCOMPLETE "group_incomplete" "Parts of the event did not come in time, or there was no room to wait for them.";
    18 TIME_SKEWED "time_skewed" "The event time is further from the receive time than `max_time_skew`.";
    19 ZONE_GUESSED "zone_guessed" "No time zone was sent: the one that earlier events of the sender came in was taken.";
    20 NOT_UTF8 "not_utf8" "Not UTF-8, and the source has no `encoding` that it is valid in: broken bytes are shown as U+FFFD, and `raw_base64` has the record as it was received.";
    21 CONVERTED "converted" "The text was converted to UTF-8 from the `encoding` of the source.";
    22 HOUR_ASSUMED "hour_assumed" "The hour occurs twice, because clocks are set back: of the two times the one closest to the receive time, or that follows the sender's events, was taken.";
    24 MEMORY_CUT "memory_cut" "Cut short: the unfinished messages of all connections had used up their memory.";
}

impl Anomalies {
    /// Nothing odd.
    pub const NONE: Self = Self(0);

    /// The raw bits, for storage.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set with these raw bits; unknown bits are kept.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// True if nothing is set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if every bit of `other` is set here.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The anomalies found while the record was framed, and not in its text.
    #[must_use]
    pub const fn framed(self) -> Self {
        const FRAMED: u32 = Anomalies::OVERSIZE.0
            | Anomalies::UNTERMINATED.0
            | Anomalies::BAD_FRAME.0
            | Anomalies::DATAGRAM_CUT.0;
        Self(self.0 & FRAMED)
    }

    /// Adds the bits of `other`.
    pub const fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The names of the bits that are set, in bit order. It costs as many steps as it gives names.
    #[inline]
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let mut bits = self.0 & NAMED_BITS;
        std::iter::from_fn(move || {
            // Without a bit that is set it is 32, which no name has.
            let name = NAME_BY_BIT.get(bits.trailing_zeros() as usize)?;
            bits &= bits - 1;
            Some(*name)
        })
    }

    /// One sentence for the (single) anomaly, for docs and `explain`.
    pub fn describe(self) -> &'static str {
        NAMES
            .iter()
            .find(|(bit, ..)| *bit == self.0)
            .map_or("", |(.., doc)| doc)
    }
}

impl fmt::Debug for Anomalies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_are_those_of_the_bits_whatever_bits_are_set(bits in any::<u32>()) {
            let set = NAMES.iter().filter(|(bit, ..)| bits & bit != 0);
            let expected: Vec<_> = set.map(|(_, name, _)| *name).collect();
            prop_assert_eq!(Anomalies::from_bits(bits).names().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn names_follow_the_bits() {
        let both = Anomalies::OVERSIZE.union(Anomalies::NO_PRI);
        assert_eq!(both.names().collect::<Vec<_>>(), ["oversize", "no_pri"]);
        assert!(both.contains(Anomalies::NO_PRI) && !both.contains(Anomalies::NO_HOST));
    }

    #[test]
    fn every_anomaly_has_its_own_bit_and_words() {
        let mut seen = 0;
        for one in Anomalies::ALL {
            assert_eq!(seen & one.bits(), 0, "{one:?} shares a bit");
            seen |= one.bits();
            assert!(!one.describe().is_empty());
        }
    }
}
