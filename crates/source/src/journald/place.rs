//! Place in a journal: a cursor, and what it says of its entry.
//!
//! A cursor is `s=…;i=…;b=…;m=…;t=…;x=…`, numbers in hexadecimal: the numbering of the journal,
//! the number of the entry in it, the boot, the monotonic and the wall clock in microseconds, and a
//! hash. systemd calls it opaque; one of another form has no number and no boot then.

/// Bytes of a cursor, at most; those of systemd have up to 160.
pub(super) const CURSOR_BYTES_MAX: usize = 512;

/// Number of an entry, and the numbering that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EntryNumber {
    pub(super) numbering: u128,
    pub(super) number: u64,
}

/// Place of an entry in a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct JournalPlace {
    /// The cursor, ASCII without blanks.
    pub(super) cursor: String,
    pub(super) number: Option<EntryNumber>,
    pub(super) boot: Option<u128>,
    /// Time of the entry by journald's clock, microseconds since 1970.
    pub(super) realtime_us: Option<u64>,
}

impl JournalPlace {
    /// The place of a cursor; `None` if it cannot be one.
    pub(super) fn of(cursor: &[u8]) -> Option<Self> {
        let good = |byte: &u8| byte.is_ascii_graphic();
        if cursor.is_empty() || cursor.len() > CURSOR_BYTES_MAX || !cursor.iter().all(good) {
            return None;
        }
        let cursor = std::str::from_utf8(cursor).ok()?.to_owned();
        let part = |key: &str| {
            let mut parts = cursor.split(';').filter_map(|part| part.split_once('='));
            let found = parts.find(|(name, _)| *name == key)?;
            u128::from_str_radix(found.1, 16).ok()
        };
        let short = |key: &str| part(key).and_then(|value| u64::try_from(value).ok());
        let number = part("s").zip(short("i"));
        Some(Self {
            number: number.map(|(numbering, number)| EntryNumber { numbering, number }),
            boot: part("b"),
            realtime_us: short("t"),
            cursor,
        })
    }

    /// Entries between `before` and this one that nobody read, where both have numbers of one
    /// numbering.
    pub(super) fn missing_since(&self, before: &Self) -> Option<u64> {
        let (here, there) = self.number.zip(before.number)?;
        let same = here.numbering == there.numbering && here.number > there.number;
        same.then(|| here.number - there.number - 1)
    }

    /// True if it comes before `other` or is the same, as far as their numbers say.
    pub(super) fn is_not_behind(&self, other: &Self) -> bool {
        let numbers = self.number.zip(other.number);
        self.boot == other.boot
            && numbers.is_some_and(|(here, there)| {
                here.numbering == there.numbering && here.number <= there.number
            })
    }
}

/// Place from which a source goes on, as it is kept with the events of its batches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum KeptPlace {
    /// Behind an entry, read through a filter of that number.
    Behind(JournalPlace, u32),
    /// No entry was read yet: from that time on, in microseconds since 1970.
    From(u64),
}

impl KeptPlace {
    /// Kept form of a place behind an entry.
    pub(super) fn behind(place: &JournalPlace, filter: u32) -> Vec<u8> {
        format!("{}\n{filter:08x}", place.cursor).into_bytes()
    }

    /// Kept form of a place before the first entry.
    pub(super) fn from(time_us: u64) -> Vec<u8> {
        format!("@{time_us}").into_bytes()
    }

    /// Reads what was kept; `None` if it is not of this form.
    pub(super) fn read(state: &[u8]) -> Option<Self> {
        if let Some(time) = state.strip_prefix(b"@") {
            return std::str::from_utf8(time).ok()?.parse().ok().map(Self::From);
        }
        let end = state.iter().position(|byte| *byte == b'\n')?;
        let filter = std::str::from_utf8(&state[end + 1..]).ok()?;
        let filter = u32::from_str_radix(filter, 16).ok()?;
        Some(Self::Behind(JournalPlace::of(&state[..end])?, filter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURSOR: &str = "s=5268188f5db54505bdaad40490e566cb;i=1a;\
        b=63f9ba132a4f453880e034000faeb23a;m=558dbcb1;t=6615261acec2a;x=96d5b9a1b93e1533";

    #[test]
    fn a_cursor_says_number_boot_and_time() {
        let place = JournalPlace::of(CURSOR.as_bytes());
        let number = EntryNumber {
            numbering: 0x5268_188f_5db5_4505_bdaa_d404_90e5_66cb,
            number: 26,
        };
        let expected = JournalPlace {
            cursor: CURSOR.to_owned(),
            number: Some(number),
            boot: Some(0x63f9_ba13_2a4f_4538_80e0_3400_0fae_b23a),
            realtime_us: Some(1_795_856_314_199_082),
        };
        assert_eq!(place, Some(expected));
    }

    #[test]
    fn another_form_has_no_number_and_what_is_no_text_is_no_cursor() {
        let place = JournalPlace::of(b"z=1;i=zz;s=;t=ffffffffffffffffff");
        let found = place.map(|place| (place.number, place.boot, place.realtime_us));
        assert_eq!(found, Some((None, None, None)));
        for bad in [
            &b""[..],
            b"s=1 i=2",
            b"s=\xff",
            &[b's'; CURSOR_BYTES_MAX + 1],
        ] {
            assert_eq!(JournalPlace::of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn what_is_kept_is_read_again_and_nothing_else() {
        let place = JournalPlace::of(CURSOR.as_bytes());
        let kept = place.as_ref().map(|place| KeptPlace::behind(place, 0xab));
        let read = kept.and_then(|kept| KeptPlace::read(&kept));
        assert_eq!(read, place.map(|place| KeptPlace::Behind(place, 0xab)));
        let from = KeptPlace::read(&KeptPlace::from(1234));
        assert_eq!(from, Some(KeptPlace::From(1234)));
        for bad in [
            &b""[..],
            b"@",
            b"@x",
            b"s=1",
            b"s=1\n",
            b"\n00000001",
            b"s=1\nxyz",
        ] {
            assert_eq!(KeptPlace::read(bad), None, "{bad:?}");
        }
    }
}
