//! Edits of texts: each kind by itself, their order and their bounds.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::annotations::{AnnotationSettings, ContainerStream, resolve_labels};

fn edits(annotations: &[(&str, &str)]) -> EventEdits {
    let label =
        |(name, value): &(&str, &str)| (format!("inrush.io/{name}").into(), (*value).into());
    let labels: BTreeMap<Box<str>, Box<str>> = annotations.iter().map(label).collect();
    let settings = AnnotationSettings::default();
    let policy = resolve_labels(&labels, "web", ContainerStream::Stdout, &settings);
    assert!(policy.problems.is_empty(), "{:?}", policy.problems);
    EventEdits::of(&policy).unwrap()
}

/// The text as it is sent; `Err`: the event is left out.
fn edited(annotations: &[(&str, &str)], text: &str) -> Result<String, FilterReason> {
    let mut out = Vec::new();
    match edits(annotations).apply(text.as_bytes(), 1, 1000, &mut out) {
        EditOutcome::Same => Ok(text.to_owned()),
        EditOutcome::Changed { cut_bytes: 0 } => Ok(String::from_utf8(out).unwrap()),
        EditOutcome::Changed { cut_bytes } => panic!("{cut_bytes} bytes cut"),
        EditOutcome::Left(reason) => Err(reason),
    }
}

#[test]
fn what_no_policy_asks_for_is_no_edit() {
    assert!(EventEdits::of(&ContainerPolicy::default()).is_none());
}

#[test]
fn events_are_kept_dropped_and_excluded_by_reason() {
    assert_eq!(edited(&[("keep", "GET")], "GET /"), Ok("GET /".to_owned()));
    assert_eq!(edited(&[("keep", "GET")], "PUT /"), Err(FilterReason::Keep));
    assert_eq!(
        edited(&[("drop", "^PUT")], "PUT /"),
        Err(FilterReason::Drop)
    );
    assert_eq!(edited(&[("drop", "^PUT")], "a PUT"), Ok("a PUT".to_owned()));
    assert_eq!(
        edited(&[("exclude", "true")], "x"),
        Err(FilterReason::Exclude)
    );
    let both = [("keep", "a"), ("drop", "b")];
    assert_eq!(edited(&both, "ab"), Err(FilterReason::Drop));
}

#[test]
fn replacements_come_in_the_order_of_their_numbers_before_hashes() {
    let rules = [
        ("replace.10", "/b/c/"),
        ("replace.9", r"/user=(\w+)/name=$1 b/"),
        ("hash.1", "name=(ann)"),
    ];
    let text = edited(&rules, "user=ann b").unwrap();
    let hash = text
        .strip_prefix("name=")
        .and_then(|rest| rest.strip_suffix(" c c"));
    let hash = hash.unwrap();
    assert_eq!(hash.len(), 64, "{text}");
    assert!(hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(edited(&rules, "nothing"), Ok("nothing".to_owned()));
}

#[test]
fn a_hash_is_that_of_sha_256() {
    // FIPS 180-2, B.1.
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(
        edited(&[("hash.1", "abc")], "x abc y"),
        Ok(format!("x {abc} y"))
    );
}

#[test]
fn patterns_see_text_without_colours() {
    let rules = [
        ("strip_ansi", "true"),
        ("drop", "^DEBUG"),
        ("replace.1", "/rr/RR/"),
    ];
    assert_eq!(
        edited(&rules, "\x1b[2mDEBUG\x1b[0m x"),
        Err(FilterReason::Drop)
    );
    assert_eq!(
        edited(&rules, "\x1b[31merror\x1b[0m"),
        Ok("eRRor".to_owned())
    );
}

#[test]
fn sequences_of_terminals_go_and_text_stays() {
    let strip = |text: &str| edited(&[("strip_ansi", "on")], text).unwrap();
    for (text, bare) in [
        ("plain", "plain"),
        ("\x1b[1;31mred\x1b[m", "red"),
        ("\x1b[38;2;1;2;3mx\x1b[K", "x"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bx", "x"),
        ("\x1bcx", "x"),
        ("\x1b]never ended", "never ended"),
        ("\x1b[12", "12"),
        ("\x1b", ""),
        ("\x1b\x1b[0mx", "x"),
        ("a\x1bü", "aü"),
    ] {
        assert_eq!(strip(text), bare, "{}", text.escape_debug());
    }
}

#[test]
fn a_share_is_chosen_and_always_the_same() {
    let edits = edits(&[("sample", "10%")]);
    let kept = |place: &u64| edits.apply(b"x", *place, 9, &mut Vec::new()) == EditOutcome::Same;
    let chosen: Vec<u64> = (0..10_000).filter(kept).collect();
    assert!((900..1100).contains(&chosen.len()), "{}", chosen.len());
    assert!(chosen.iter().all(kept));
    assert_eq!((0..1000).filter(|at| is_sampled(*at, 100.0)).count(), 1000);
    assert_eq!((0..1000).filter(|at| is_sampled(*at, 0.0)).count(), 0);
}

#[test]
fn a_text_that_grows_is_cut() {
    let edits = edits(&[("replace.1", "/a/bbbbbbbbbb/")]);
    let mut out = Vec::new();
    let outcome = edits.apply("a".repeat(1000).as_bytes(), 1, 95, &mut out);
    assert_eq!(outcome, EditOutcome::Changed { cut_bytes: 990 });
    assert_eq!(out, "b".repeat(95).as_bytes());
}

proptest! {
    #[test]
    fn stripped_text_has_no_escape_and_all_that_was_text(
        text in "[\\x1b\\x07\\[\\]0-9;mPa-c ü\\\\]{0,60}"
    ) {
        let mut out = Vec::new();
        let found = strip_escapes(text.as_bytes(), &mut out);
        prop_assert_eq!(found, text.contains('\x1b'));
        if found {
            prop_assert!(!out.contains(&ESC));
            let count = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b' ').count();
            prop_assert!(count(&out) <= count(text.as_bytes()));
        }
        let first = text.as_bytes().iter().position(|byte| *byte == ESC);
        if let Some(first) = first {
            prop_assert_eq!(&out[..first], &text.as_bytes()[..first]);
        }
    }

    #[test]
    fn edits_stay_within_their_bounds(
        text in "[a-c]{0,40}",
        with in "[$0-9a-c]{0,9}",
        most in 1usize..60,
    ) {
        let rule = format!("/[ab]*/{with}/");
        let edits = edits(&[("replace.1", &rule), ("hash.1", "c")]);
        let mut out = Vec::new();
        edits.apply(text.as_bytes(), 1, most, &mut out);
        prop_assert!(out.len() <= most);
    }
}
