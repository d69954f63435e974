//! Severities, words and links of alarms.
#![allow(clippy::unwrap_used)]
use std::path::Path;

use inrush_sink::LastError;
use inrush_stream::refusals::PersistentRefusal;
use inrush_transport::refusal::Refusal;

use super::*;

const AT: Timestamp = Timestamp(5_000_000_000);

fn failing(reason: ErrorReason) -> DestinationFault {
    let error = LastError {
        reason,
        text: "idx1:8088: its own words".to_owned(),
        at: AT,
    };
    DestinationFault::Failing {
        since: AT,
        error: Some(error),
    }
}

fn backlogs(when_full: WhenFull) -> Vec<DestinationBacklog> {
    let backlog = |name: &str, bytes, abandoned| DestinationBacklog {
        destination: name.to_owned(),
        bytes,
        bytes_max: 1000,
        when_full,
        full: bytes > 900,
        abandoned,
    };
    vec![
        backlog("splunk", 1000, false),
        backlog("old", 950, true),
        backlog("local", 10, false),
    ]
}

/// One of each.
fn all() -> Vec<AlarmDraft> {
    let stall = |full| Stall {
        since: AT,
        text: "the disk is full".to_owned(),
        full,
    };
    let loss = |kind| GrowingLoss {
        kind,
        name: "syslog".to_owned(),
        since: AT,
        count: 7,
    };
    let soon = Timestamp::now().0 / 1_000_000_000 + 3 * 86_400 + 60;
    let mut all = vec![
        unbalanced("source s: received 1 ≠ accepted 0"),
        reader_ended("syslog"),
        queue_stalled(&stall(true), &backlogs(WhenFull::Block)),
        queue_stalled(&stall(false), &[]),
        queue_full(AT, &backlogs(WhenFull::Block)),
        queue_full(AT, &backlogs(WhenFull::DropOldest)),
        queue_filling(61, &backlogs(WhenFull::Block)).unwrap(),
        backlog_filling(61, &backlogs(WhenFull::Block)[0]).unwrap(),
        backlog_filling(61, &backlogs(WhenFull::DropOldest)[0]).unwrap(),
        backlog_filling(61, &backlogs(WhenFull::DropNewest)[0]).unwrap(),
        destination("tape", &DestinationFault::Ended),
        destination("tape", &DestinationFault::Stalled { since: AT }),
        certificate("syslog", soon).unwrap(),
        certificate("syslog", 1).unwrap(),
        unreadable("local", 1).unwrap(),
        unreadable("local", 3).unwrap(),
    ];
    for refusal in Refusal::ALL {
        let lasting = PersistentRefusal {
            refusal: *refusal,
            address: [192, 0, 2, 1].into(),
            why: refusal.words().to_owned(),
            count: 3,
            others: 2,
            since: AT,
        };
        all.push(refused(
            "syslog",
            &lasting,
            Some(([192, 0, 2, 1].into(), 9)),
        ));
    }
    let reasons = ErrorReason::ALL.iter();
    all.extend(reasons.map(|reason| destination("splunk", &failing(*reason))));
    for kind in [
        LossKind::KernelDropped,
        LossKind::Rejected,
        LossKind::Cut,
        LossKind::RotatedAway,
        LossKind::MissedFiles,
        LossKind::Dropped,
        LossKind::Quarantined,
        LossKind::DeletedForRoom,
    ] {
        all.push(losing(&loss(kind)));
    }
    all.extend(store::examples());
    all.extend(overflow::examples());
    all.extend(latency::examples());
    all.extend(files::examples());
    all
}

#[test]
fn every_alarm_says_what_why_and_what_to_do_in_whole_sentences() {
    for draft in all() {
        for (words, least) in [(&draft.what, 15), (&draft.cause, 15), (&draft.remedy, 30)] {
            let whole = words.ends_with('.') && !words.ends_with("..");
            assert!(whole && words.len() >= least, "{draft:?}");
            assert!(!words.contains("  "), "{draft:?}");
        }
    }
    for reason in ErrorReason::ALL {
        let (cause, remedy, _) = cause_and_remedy(*reason);
        assert!(cause.ends_with('.') && remedy.ends_with('.'), "{reason:?}");
    }
}

#[test]
fn every_link_leads_to_a_section_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for draft in all() {
        let (file, section) = draft.link.split_once('#').unwrap_or((draft.link, ""));
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let anchor = |line: &str| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
            title
                .chars()
                .filter(kept)
                .collect::<String>()
                .replace(' ', "-")
        };
        let mut headings = text.lines().filter(|line| line.starts_with('#'));
        let there = section.is_empty() || headings.any(|line| anchor(line) == section);
        assert!(there, "{}", draft.link);
    }
}

#[test]
fn the_words_of_a_collector_are_shown_and_the_worst_comes_first() {
    let drafts = vec![
        destination("splunk", &failing(ErrorReason::Http401And403)),
        unbalanced("x"),
    ];
    let alarms = settle(drafts, &mut HashMap::new(), Timestamp(9_000_000));
    assert_eq!(alarms[0].severity, Severity::Critical);
    assert_eq!(alarms[1].id, "destination-failing:splunk");
    assert_eq!(alarms[1].since_ms, 5000);
    assert!(alarms[1].what.contains("idx1:8088: its own words"));
    assert!(alarms[1].remedy.contains("token"));
}

#[test]
fn an_alarm_that_does_not_know_since_when_is_remembered_while_it_lasts() {
    let mut known = HashMap::new();
    let mut at = |ms: i64, drafts: Vec<AlarmDraft>| {
        let alarms = settle(drafts, &mut known, Timestamp(ms * 1_000_000));
        alarms.first().map(|alarm| alarm.since_ms)
    };
    assert_eq!(at(1000, vec![reader_ended("a")]), Some(1000));
    assert_eq!(at(2000, vec![reader_ended("a")]), Some(1000));
    assert_eq!(at(3000, vec![]), None);
    assert_eq!(at(4000, vec![reader_ended("a")]), Some(4000));
}

#[test]
fn a_full_queue_names_all_that_fill_it_and_is_critical_minutes_ahead() {
    let block = backlogs(WhenFull::Block);
    let hour = queue_filling(FULL_SOON_S, &block).unwrap();
    let soon = queue_filling(FULL_SOON_S - 1, &block).unwrap();
    assert_eq!(
        (hour.severity, soon.severity),
        (Severity::Warning, Severity::Critical)
    );
    let names = "destinations splunk and old (not configured any more)";
    for words in [
        &soon.what,
        &soon.cause,
        &soon.remedy,
        &queue_full(AT, &block).what,
    ] {
        assert!(words.contains(names), "{words}");
    }
    let dropping = backlog_filling(1, &backlogs(WhenFull::DropOldest)[0]).unwrap();
    assert_eq!(
        dropping.severity,
        Severity::Warning,
        "it costs nobody else anything"
    );
}

#[test]
fn what_is_far_off_is_no_alarm() {
    let one = &backlogs(WhenFull::Block)[..1];
    assert!(queue_filling(FILLING_SOON_S, one).is_none());
    assert!(backlog_filling(FILLING_SOON_S, &one[0]).is_none());
    let now = Timestamp::now().0 / 1_000_000_000;
    assert!(certificate("syslog", now + CERTIFICATE_SOON_S + 60).is_none());
}

#[test]
fn a_certificate_that_ends_tonight_says_in_how_many_hours() {
    let what = |left_s: i64| {
        let now = Timestamp::now().0 / 1_000_000_000;
        certificate("syslog", now + left_s).unwrap().what
    };
    assert!(what(30 * 60).contains("within the hour"));
    assert!(what(47 * 3600 + 60).contains("in 48 hours"));
    assert!(what(50 * 3600).contains("in 2 days"));
    assert!(what(-1).contains("has expired"));
}
