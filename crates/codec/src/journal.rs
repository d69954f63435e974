//! Journal export format, as `journalctl -o export` writes it
//! (<https://systemd.io/JOURNAL_EXPORT_FORMATS/>).
//!
//! An entry is a list of fields and an empty line behind them. A field is `NAME=value` and a line
//! feed; a value with line feeds or control bytes is `NAME`, a line feed, its length (64 bits,
//! little-endian), its bytes, and a line feed. Fields of one name may come again.
//!
//! # What it guarantees
//! * Steps do not depend on the cuts between reads.
//! * Every byte of a value is in the step of its field, or is counted in steps behind it.
//! * A length that lies costs no memory: a value is never waited for beyond `value_bytes_max`.
//! * After a fault the reader gives nothing more: the bytes are not of this format.
//!
//! # States
//! | State | Shown next |
//! |---|---|
//! | line | a field, or the empty line that ends an entry |
//! | rest of a line | the end of a value without a length, beyond `value_bytes_max` |
//! | rest of a value | the end of a value with a length, beyond `value_bytes_max` |
//! | broken | nothing |
//!
//! # Limits
//! [`NAME_BYTES_MAX`] of a name, [`VALUE_BYTES_MAX`] of a value; the reader keeps no byte itself.
//! An entry may have any number of fields: each is a step.

use memchr::memchr;

/// Bytes of a field's name, at most: journald takes 64 (`journal_field_valid` in systemd).
pub const NAME_BYTES_MAX: usize = 64;

/// Bytes of a value, at most: what journald takes (`DATA_SIZE_MAX` in systemd). A longer one is
/// not of a journal.
pub const VALUE_BYTES_MAX: u64 = 768 * 1024 * 1024;

/// Bytes of the length before a value.
const LENGTH_BYTES: usize = 8;

/// Fault by which bytes are no journal export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportFault {
    /// A line that is neither a field nor a field's name.
    Name,
    /// A value longer than [`VALUE_BYTES_MAX`].
    Length,
    /// No line feed behind a value of known length.
    Unended,
}

impl ExportFault {
    /// Words for the log.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Name => "a line is no field",
            Self::Length => "a value is longer than a journal can have",
            Self::Unended => "a value does not end where its length says",
        }
    }
}

/// A step through journal export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportStep<'b> {
    /// A field of the entry.
    Field {
        /// Its name.
        name: &'b [u8],
        /// Its value, or the first `value_bytes_max` of it.
        value: &'b [u8],
        /// False if there is more of the value: it follows as [`ExportStep::Rest`].
        whole: bool,
    },
    /// So many further bytes of the last field's value, which are not given.
    Rest(u64),
    /// The entry ends; it has one field at least.
    End,
    /// More bytes are needed.
    More,
    /// The bytes are of another format.
    Fault(ExportFault),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ReadState {
    /// At the beginning of a line.
    Line,
    /// In a value that ends with its line; so many bytes of it were passed.
    RestOfLine(u64),
    /// In a value of which so many bytes are still to come, and a line feed.
    RestOfValue(u64),
    Broken(ExportFault),
}

/// Reads journal export step by step.
#[derive(Debug)]
pub struct ExportReader {
    state: ReadState,
    value_bytes_max: usize,
    /// Bytes of the present line that have no line feed.
    searched: usize,
    /// True if the entry has a field.
    in_entry: bool,
}

impl ExportReader {
    /// A reader before the first entry, which gives so many bytes of a value at most.
    pub fn new(value_bytes_max: usize) -> Self {
        Self {
            state: ReadState::Line,
            value_bytes_max,
            searched: 0,
            in_entry: false,
        }
    }

    /// Bytes that a step asks for at most, before it is another than [`ExportStep::More`].
    pub const fn window_bytes(&self) -> usize {
        NAME_BYTES_MAX + 2 + LENGTH_BYTES + self.value_bytes_max
    }

    /// True between entries.
    pub fn is_between(&self) -> bool {
        self.state == ReadState::Line && !self.in_entry && self.searched == 0
    }

    /// The next step through `bytes`, which are all that no step has consumed, and the count of
    /// bytes that it consumes.
    pub fn step<'b>(&mut self, bytes: &'b [u8]) -> (ExportStep<'b>, usize) {
        match self.state {
            ReadState::Line => self.line(bytes),
            ReadState::RestOfLine(passed) => self.rest_of_line(passed, bytes),
            ReadState::RestOfValue(left) => self.rest_of_value(left, bytes),
            ReadState::Broken(fault) => (ExportStep::Fault(fault), 0),
        }
    }

    fn fault<'b>(&mut self, fault: ExportFault) -> (ExportStep<'b>, usize) {
        self.state = ReadState::Broken(fault);
        (ExportStep::Fault(fault), 0)
    }

    /// More bytes are needed; the first `searched` have no line feed.
    fn more<'b>(&mut self, searched: usize) -> (ExportStep<'b>, usize) {
        self.searched = searched;
        (ExportStep::More, 0)
    }

    fn line<'b>(&mut self, bytes: &'b [u8]) -> (ExportStep<'b>, usize) {
        let unsearched = bytes.get(self.searched..).unwrap_or_default();
        let Some(end) = memchr(b'\n', unsearched).map(|at| self.searched + at) else {
            return self.unended_line(bytes);
        };
        self.searched = 0;
        let (line, behind) = (&bytes[..end], end + 1);
        if line.is_empty() {
            // What stands between entries is no entry.
            let step = match std::mem::take(&mut self.in_entry) {
                true => ExportStep::End,
                false => ExportStep::Rest(0),
            };
            return (step, behind);
        }
        match equals_sign(line) {
            Some(at) => self.text(line, at, behind),
            None => self.counted(line, &bytes[behind..], behind),
        }
    }

    /// A line of which no end is there yet.
    fn unended_line<'b>(&mut self, bytes: &'b [u8]) -> (ExportStep<'b>, usize) {
        match equals_sign(bytes) {
            Some(at) if bytes.len() - at - 1 > self.value_bytes_max => {
                self.text(bytes, at, bytes.len())
            }
            None if bytes.len() > NAME_BYTES_MAX => self.fault(ExportFault::Name),
            _ => self.more(bytes.len()),
        }
    }

    /// A field whose name ends at `equals`; `behind` is where the next line begins if it is whole.
    fn text<'b>(
        &mut self,
        line: &'b [u8],
        equals: usize,
        behind: usize,
    ) -> (ExportStep<'b>, usize) {
        let (name, value) = (&line[..equals], &line[equals + 1..]);
        if name.is_empty() {
            return self.fault(ExportFault::Name);
        }
        (self.in_entry, self.searched) = (true, 0);
        let whole = value.len() <= self.value_bytes_max;
        let kept = &value[..value.len().min(self.value_bytes_max)];
        let consumed = match whole {
            true => behind,
            false => {
                self.state = ReadState::RestOfLine(kept.len() as u64);
                equals + 1 + kept.len()
            }
        };
        let value = kept;
        (ExportStep::Field { name, value, whole }, consumed)
    }

    /// A field of that name whose length stands in front of `rest`.
    fn counted<'b>(
        &mut self,
        name: &'b [u8],
        rest: &'b [u8],
        behind: usize,
    ) -> (ExportStep<'b>, usize) {
        if !is_field_name(name) {
            return self.fault(ExportFault::Name);
        }
        let Some((length, value)) = rest.split_first_chunk::<LENGTH_BYTES>() else {
            return self.more(name.len());
        };
        let length = u64::from_le_bytes(*length);
        if length > VALUE_BYTES_MAX {
            return self.fault(ExportFault::Length);
        }
        let start = behind + LENGTH_BYTES;
        if length > self.value_bytes_max as u64 {
            let Some(value) = value.get(..self.value_bytes_max) else {
                return self.more(name.len());
            };
            self.in_entry = true;
            self.state = ReadState::RestOfValue(length - value.len() as u64);
            let whole = false;
            return (
                ExportStep::Field { name, value, whole },
                start + value.len(),
            );
        }
        match value.split_at_checked(length as usize) {
            Some((value, [b'\n', ..])) => {
                self.in_entry = true;
                let whole = true;
                let consumed = start + value.len() + 1;
                (ExportStep::Field { name, value, whole }, consumed)
            }
            Some((_, [_, ..])) => self.fault(ExportFault::Unended),
            _ => self.more(name.len()),
        }
    }

    fn rest_of_line<'b>(&mut self, passed: u64, bytes: &'b [u8]) -> (ExportStep<'b>, usize) {
        if bytes.is_empty() {
            return (ExportStep::More, 0);
        }
        let end = memchr(b'\n', bytes);
        let rest = end.unwrap_or(bytes.len());
        let passed = passed.saturating_add(rest as u64);
        if passed > VALUE_BYTES_MAX {
            return self.fault(ExportFault::Length);
        }
        self.state = match end {
            Some(_) => ReadState::Line,
            None => ReadState::RestOfLine(passed),
        };
        let consumed = rest + usize::from(end.is_some());
        (ExportStep::Rest(rest as u64), consumed)
    }

    fn rest_of_value<'b>(&mut self, left: u64, bytes: &'b [u8]) -> (ExportStep<'b>, usize) {
        match (left, bytes) {
            (_, []) => (ExportStep::More, 0),
            (0, [b'\n', ..]) => {
                self.state = ReadState::Line;
                (ExportStep::Rest(0), 1)
            }
            (0, _) => self.fault(ExportFault::Unended),
            (left, bytes) => {
                let there = left.min(bytes.len() as u64);
                self.state = ReadState::RestOfValue(left - there);
                (ExportStep::Rest(there), there as usize)
            }
        }
    }
}

/// Place of the first `=`, if a name may end there.
fn equals_sign(line: &[u8]) -> Option<usize> {
    memchr(b'=', &line[..line.len().min(NAME_BYTES_MAX + 1)])
}

/// True if a field may have that name. Only asked where nothing else tells a field from other
/// text.
fn is_field_name(name: &[u8]) -> bool {
    let known = |byte: &u8| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_');
    name.len() <= NAME_BYTES_MAX && name.iter().all(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field as its entry has it: name, the bytes that were given, and the count of the others.
    type ReadField = (String, Vec<u8>, u64);

    /// Entries of an export that comes in pieces of that length, and its fault.
    fn read(bytes: &[u8], max: usize, piece: usize) -> (Vec<Vec<ReadField>>, Option<ExportFault>) {
        let mut reader = ExportReader::new(max);
        let (mut at, mut shown) = (0, 0);
        let (mut entries, mut fields) = (Vec::new(), Vec::<ReadField>::new());
        loop {
            let (step, consumed) = reader.step(&bytes[at..shown]);
            at += consumed;
            match step {
                ExportStep::Field { name, value, .. } => {
                    let name = String::from_utf8_lossy(name).into_owned();
                    fields.push((name, value.to_vec(), 0));
                }
                ExportStep::Rest(more) => {
                    if let Some(last) = fields.last_mut() {
                        last.2 += more;
                    }
                }
                ExportStep::End => entries.push(std::mem::take(&mut fields)),
                ExportStep::More if shown == bytes.len() => return (entries, None),
                ExportStep::More => {
                    assert!(shown - at < reader.window_bytes(), "it waits for too much");
                    shown = bytes.len().min(shown + piece);
                }
                ExportStep::Fault(fault) => return (entries, Some(fault)),
            }
        }
    }

    fn field(name: &str, value: &[u8], rest: u64) -> ReadField {
        (name.to_owned(), value.to_vec(), rest)
    }

    fn counted(name: &str, length: u64, value: &[u8]) -> Vec<u8> {
        [name.as_bytes(), b"\n", &length.to_le_bytes(), value].concat()
    }

    #[test]
    fn both_forms_of_values_and_repeated_fields_are_read() {
        let mut bytes = b"\n__CURSOR=s=1;i=2\nMESSAGE=\nX=a\nX=b\n".to_vec();
        bytes.extend(counted("MULTI", 9, b"two\nlines\n"));
        bytes.extend(b"\n\nMESSAGE=second\n\n");
        let first = vec![
            field("__CURSOR", b"s=1;i=2", 0),
            field("MESSAGE", b"", 0),
            field("X", b"a", 0),
            field("X", b"b", 0),
            field("MULTI", b"two\nlines", 0),
        ];
        let second = vec![field("MESSAGE", b"second", 0)];
        for piece in [1, 3, 1000] {
            let found = read(&bytes, 64, piece);
            assert_eq!(found, (vec![first.clone(), second.clone()], None));
        }
    }

    #[test]
    fn an_entry_without_its_end_is_none() {
        let mut bytes = b"MESSAGE=whole\n\nMESSAGE=cut\nPRI".to_vec();
        for length in 0..bytes.len() {
            let (entries, fault) = read(&bytes[..length], 64, 7);
            assert_eq!(
                (entries.len(), fault),
                (usize::from(length >= 15), None),
                "{length}"
            );
        }
        bytes.truncate(15);
        let mut reader = ExportReader::new(64);
        assert!(reader.is_between());
        reader.step(&bytes);
        assert!(!reader.is_between());
    }

    #[test]
    fn a_long_value_is_cut_and_its_rest_is_counted() {
        let mut bytes = b"TEXT=".to_vec();
        bytes.extend(vec![b'x'; 1000]);
        bytes.push(b'\n');
        bytes.extend(counted("DATA", 900, &[0; 900]));
        bytes.extend(b"\n\nNEXT=1\n\n");
        let expected = vec![
            vec![
                field("TEXT", &[b'x'; 10], 990),
                field("DATA", &[0; 10], 890),
            ],
            vec![field("NEXT", b"1", 0)],
        ];
        for piece in [1, 13, 5000] {
            assert_eq!(read(&bytes, 10, piece), (expected.clone(), None), "{piece}");
        }
    }

    #[test]
    fn a_value_of_768_megabytes_is_passed_in_pieces() {
        let mut reader = ExportReader::new(100);
        let head = counted("COREDUMP", VALUE_BYTES_MAX, &[1; 100]);
        let (step, consumed) = reader.step(&head);
        assert!(matches!(step, ExportStep::Field { whole: false, .. }));
        assert_eq!(consumed, head.len());
        let (piece, mut left) = (vec![b'\n'; 1 << 20], VALUE_BYTES_MAX - 100);
        while left > 0 {
            let there = left.min(piece.len() as u64);
            let step = reader.step(&piece[..there as usize]);
            assert_eq!(step, (ExportStep::Rest(there), there as usize));
            left -= there;
        }
        assert_eq!(reader.step(b"\n\n"), (ExportStep::Rest(0), 1));
        assert_eq!(reader.step(b"\n"), (ExportStep::End, 1));
    }

    #[test]
    fn what_is_no_export_is_a_fault_and_ends_it() {
        let lying = |length: u64| counted("DATA", length, b"abc\n\n");
        let long = vec![b'A'; NAME_BYTES_MAX + 1];
        for (bytes, fault) in [
            (
                b"No journal files were found.\n".to_vec(),
                ExportFault::Name,
            ),
            (b"=value\n".to_vec(), ExportFault::Name),
            ([&long, &b"=x\n"[..]].concat(), ExportFault::Name),
            (long.clone(), ExportFault::Name),
            (lying(u64::MAX), ExportFault::Length),
            (lying(VALUE_BYTES_MAX + 1), ExportFault::Length),
            (lying(2), ExportFault::Unended),
            (lying(0), ExportFault::Unended),
        ] {
            for piece in [1, 500] {
                let found = read(&bytes, 64, piece);
                assert_eq!(found, (vec![], Some(fault)), "{bytes:?}");
            }
        }
        let mut reader = ExportReader::new(64);
        reader.step(b"=\n");
        let step = reader.step(b"MESSAGE=good\n\n");
        assert_eq!(step, (ExportStep::Fault(ExportFault::Name), 0));
    }

    #[test]
    fn an_entry_may_have_thousands_of_fields() {
        let mut bytes = Vec::new();
        for number in 0..5000 {
            bytes.extend(format!("F{number}={number}\n").bytes());
        }
        bytes.push(b'\n');
        let (entries, fault) = read(&bytes, 64, 100);
        assert_eq!((entries[0].len(), fault), (5000, None));
    }
}
