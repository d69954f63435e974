//! Journal export in pieces: what is read does not depend on the cuts, and every byte of a value is
//! given or counted.

use inrush_codec::journal::{ExportFault, ExportReader, ExportStep};

/// A field: its name, the bytes of its value that were given, and the count of the others.
pub(crate) type ReadField = (Vec<u8>, Vec<u8>, u64);

/// Entries that have ended, the fields of one that has not, and the fault.
pub(crate) type ReadExport = (Vec<Vec<ReadField>>, Vec<ReadField>, Option<ExportFault>);

/// Reads an export that comes in pieces of these lengths, again and again.
pub(crate) fn read(value_bytes_max: usize, bytes: &[u8], pieces: &[usize]) -> ReadExport {
    let mut reader = ExportReader::new(value_bytes_max);
    let mut pieces = pieces.iter().copied().cycle();
    let (mut at, mut shown) = (0, 0);
    let (mut entries, mut fields) = (Vec::new(), Vec::<ReadField>::new());
    loop {
        let (step, consumed) = reader.step(&bytes[at..shown]);
        at += consumed;
        match step {
            ExportStep::Field { name, value, whole } => {
                assert!(value.len() <= value_bytes_max);
                assert!(whole || value.len() == value_bytes_max);
                fields.push((name.to_vec(), value.to_vec(), 0));
            }
            ExportStep::Rest(more) => {
                if let Some(last) = fields.last_mut() {
                    last.2 += more;
                }
            }
            ExportStep::End => {
                assert!(!fields.is_empty());
                entries.push(std::mem::take(&mut fields));
            }
            ExportStep::More if shown == bytes.len() => {
                assert!(!reader.is_between() || fields.is_empty());
                return (entries, fields, None);
            }
            ExportStep::More => {
                assert!(shown - at < reader.window_bytes());
                shown = bytes.len().min(shown + pieces.next().unwrap_or(1));
            }
            ExportStep::Fault(fault) => return (entries, fields, Some(fault)),
        }
    }
}

/// Checks that pieces of these lengths are read as the whole is.
pub(crate) fn check(value_bytes_max: usize, bytes: &[u8], pieces: &[usize]) {
    let (entries, unfinished, fault) = read(value_bytes_max, bytes, &[bytes.len().max(1)]);
    let all = entries.iter().flatten().chain(&unfinished);
    let counted: u64 = all
        .map(|(name, value, rest)| (name.len() + value.len()) as u64 + rest)
        .sum();
    assert!(counted <= bytes.len() as u64);
    let in_pieces = read(value_bytes_max, bytes, pieces);
    assert_eq!(in_pieces, (entries, unfinished, fault));
}
