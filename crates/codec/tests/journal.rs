//! Journal export: what is written is read again, whatever the cuts.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/journal.rs"]
mod journal;

use proptest::prelude::*;

/// A field as `journalctl -o export` writes it.
fn write(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    if value.iter().all(|byte| *byte >= b' ' || *byte == b'\t') {
        out.push(b'=');
    } else {
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    }
    out.extend_from_slice(value);
    out.push(b'\n');
}

fn field() -> impl Strategy<Value = (String, Vec<u8>)> {
    let value = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        "[ -~]{0,40}".prop_map(String::into_bytes),
        "(MESSAGE=\n|\n|[a-c=\n]){0,8}".prop_map(String::into_bytes),
    ];
    ("[A-Z_][A-Z0-9_]{0,12}", value)
}

/// Pieces of which streams that try all paths are made.
fn token() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..12),
        3 => "[A-Z_]{1,70}".prop_map(String::into_bytes),
        3 => Just(b"\n".to_vec()),
        2 => Just(b"=".to_vec()),
        4 => field().prop_map(|(name, value)| {
            let mut out = Vec::new();
            write(&name, &value, &mut out);
            out
        }),
        2 => (any::<u64>(), 0u64..60).prop_map(|(huge, small)| {
            let length = if huge % 4 == 0 { huge } else { small };
            [b"DATA\n", &length.to_le_bytes()[..]].concat()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    #[test]
    fn what_is_written_is_read(
        entries in prop::collection::vec(prop::collection::vec(field(), 1..8), 0..6),
        limit in 1usize..50,
        pieces in prop::collection::vec(1usize..40, 1..8),
    ) {
        let mut bytes = Vec::new();
        for entry in &entries {
            entry.iter().for_each(|(name, value)| write(name, value, &mut bytes));
            bytes.push(b'\n');
        }
        let (read, unfinished, fault) = journal::read(limit, &bytes, &pieces);
        prop_assert_eq!((unfinished, fault), (vec![], None));
        let expected = entries.iter().map(|entry| {
            let of = |(name, value): &(String, Vec<u8>)| {
                let kept = value.len().min(limit);
                let rest = (value.len() - kept) as u64;
                (name.clone().into_bytes(), value[..kept].to_vec(), rest)
            };
            entry.iter().map(of).collect::<Vec<_>>()
        });
        prop_assert_eq!(read, expected.collect::<Vec<_>>());
    }

    #[test]
    fn cuts_change_nothing_whatever_the_bytes(
        limit in 1usize..48,
        tokens in prop::collection::vec(token(), 0..24),
        pieces in prop::collection::vec(1usize..20, 1..12),
    ) {
        journal::check(limit, &tokens.concat(), &pieces);
    }
}
