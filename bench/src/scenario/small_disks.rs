//! Small disks and a dead destination: what was delivered to the store is found, or a policy that
//! is stated, alarmed and counted has taken it; and never anything younger than the stated age.
//!
//! Each time on a file system of its own: TCP as fast as it goes, of texts that do not compress,
//! until something holds or enough was sent; then an orderly stop, and another start.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use inrush_harness::child::{free_port, wait};
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{ScenarioCheck, ScenarioResult};
use inrush_harness::sender::{self, Amount, HeaderStyle, LoadShape, MessageText, Wire};
use inrush_harness::subject::{BenchSubject, Inrush, User, write_config};
use serde_json::Value;

use super::tell;
use crate::disk::LoopDisk;

/// One disk, and what is configured for it.
struct DiskCase {
    gib: u64,
    /// The difference from the built-in default, for the report.
    words: &'static str,
    /// Options of the store beside those of the built-in default.
    store: &'static str,
    /// Options of the dead destination's backlog.
    policy: &'static str,
    /// Of the store: nothing younger is deleted for room.
    min_age: Duration,
    /// Destinations whose backlog may make sources wait; the alarm names one of them.
    holders: &'static [&'static str],
    /// The alarm without which the run would have shown nothing.
    alarm: Option<&'static str>,
}

/// The configuration that nobody has changed.
const DEFAULT: DiskCase = DiskCase {
    gib: 1,
    words: "default",
    store: "",
    policy: "",
    min_age: Duration::from_secs(24 * 60 * 60),
    holders: &[DEAD],
    alarm: None,
};

const PLANS: [DiskCase; 5] = [
    DEFAULT,
    DiskCase { gib: 3, ..DEFAULT },
    DiskCase { gib: 10, ..DEFAULT },
    DiskCase {
        words: "the dead one drops its oldest",
        policy: "when_full: drop_oldest",
        holders: &[STORE, DEAD],
        alarm: Some("store-short-of-room:local"),
        ..DEFAULT
    },
    DiskCase {
        words: "the dead one drops its oldest, min_age 10 s",
        store: ", min_age: 10s",
        policy: "when_full: drop_oldest",
        min_age: Duration::from_secs(10),
        holders: &[STORE, DEAD],
        alarm: Some("store-deletes-for-room:local"),
        ..DEFAULT
    },
];

const TEMPLATE: &str = include_str!("../../inrush/small-disks.yaml");
const STORE: &str = "local";
const DEAD: &str = "dead";
const SOURCE: &str = "syslog";

/// Bytes of a message.
const SIZE: usize = 1500;

/// Messages of the file that is sent again and again: more than any dictionary holds.
const LINES: usize = 20_000;

/// A load ends after so many bytes for each of the disk, after so long, or when no event was
/// accepted for so long.
const BYTES_OF_DISK: f64 = 2.5;
const LOAD_MAX: Duration = Duration::from_secs(150);
const HELD_ENOUGH: Duration = Duration::from_secs(8);

/// Seconds of one turn of the generator; one that waits for the receiver ends then.
const TURN_SECONDS: u64 = 5;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Nothing has moved for so long: more than what is in memory takes to come into a file.
const STILL: Duration = Duration::from_secs(12);

const SETTLE_MAX: Duration = Duration::from_secs(60);

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "ext4 of 1, 3 and 10 GiB, a store and a dead HEC destination, TCP as fast as it \
                 goes (1,500 B of random text) until something holds: what was delivered is found, \
                 or was taken by a stated, alarmed and counted policy";
    tell(shows);
    let mut scenario = lab.scenario(shows);
    let lines = random_lines(&lab.dir("lines")?.join("random"))?;
    for plan in &PLANS {
        let name = format!("{} GiB, {}", plan.gib, plan.words);
        tell(&format!("  {name}"));
        let outcome = one(lab, plan, &lines).with_context(|| name.clone())?;
        let checks = checks(&name, plan, &outcome);
        for check in &checks {
            tell(&format!("    {}: {}", check.what, check.found));
        }
        scenario.checks.extend(checks);
    }
    scenario.ended = lab.scenario(shows).ended;
    Ok(scenario)
}

/// Writes lines of syslog whose texts do not compress: letters of a generator by Marsaglia
/// (Xorshift RNGs, 2003).
fn random_lines(file: &Path) -> Result<PathBuf> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut text = String::with_capacity(LINES * (SIZE + 1));
    for _ in 0..LINES {
        let begun = text.len();
        text.push_str("<13>1 - host app - - - ");
        while text.len() < begun + SIZE {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let letter = LETTERS.get((state >> 58) as usize).copied();
            text.push(char::from(letter.unwrap_or(b'?')));
        }
        text.push('\n');
    }
    std::fs::write(file, text).with_context(|| file.display().to_string())?;
    Ok(file.to_owned())
}

/// Events by what became of them, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
struct Fates {
    balanced: bool,
    received: u64,
    accepted: u64,
    /// Delivered to the store.
    delivered: u64,
    pending: u64,
    dropped: u64,
    /// Of the process before, whose last line has them too.
    given_up: u64,
    at_start: u64,
    written: u64,
    expired: BTreeMap<String, u64>,
    unreadable: u64,
    searchable: u64,
    in_memory: u64,
    dead_pending: u64,
    dead_dropped: u64,
}

impl Fates {
    fn of(ledger: &Value) -> Result<Self> {
        let count = |value: &Value| value.as_u64().context("the ledger lacks a count");
        let (source, store) = (&ledger["sources"][SOURCE], &ledger["destinations"][STORE]);
        let (stored, dead) = (&store["stored"], &ledger["destinations"][DEAD]);
        Ok(Self {
            balanced: ledger["balanced"] == Value::Bool(true),
            received: count(&source["received"])?,
            accepted: count(&source["accepted"])?,
            delivered: count(&store["delivered"])?,
            pending: count(&store["pending"])?,
            dropped: dropped(store),
            given_up: by_reason(&store["dropped"]).remove(GIVEN_UP).unwrap_or(0),
            at_start: count(&stored["at_start"])?,
            written: count(&stored["written"])?,
            expired: by_reason(&stored["expired"]),
            unreadable: count(&stored["unreadable"])?,
            searchable: count(&stored["searchable"])?,
            in_memory: count(&stored["in_memory"])?,
            dead_pending: count(&dead["pending"])?,
            dead_dropped: dropped(dead),
        })
    }

    fn expired(&self) -> u64 {
        self.expired.values().sum()
    }
}

fn by_reason(value: &Value) -> BTreeMap<String, u64> {
    let reasons = value.as_object().into_iter().flatten();
    let counted = reasons.filter_map(|(reason, count)| Some((reason.clone(), count.as_u64()?)));
    counted.collect()
}

const GIVEN_UP: &str = "shutdown";

/// Dropped while the process ran.
fn dropped(account: &Value) -> u64 {
    let mut reasons = by_reason(&account["dropped"]);
    reasons.remove(GIVEN_UP);
    reasons.values().sum()
}

/// An alarm as it was seen last; where it was critical at any time, as it was critical last.
#[derive(Clone, Debug, PartialEq)]
struct SeenAlarm {
    is_critical: bool,
    /// All that it says.
    text: String,
}

/// Things that were seen while the load ran.
#[derive(Default)]
struct LoadObservations {
    alarms: BTreeMap<String, SeenAlarm>,
    /// Accepted events, each with the moment before they were asked for.
    accepted: Vec<(Instant, u64)>,
    /// Events deleted for room that may have been younger than is stated.
    young: u64,
    /// True if the queue took nothing at the end.
    held: bool,
}

impl LoadObservations {
    fn look(&mut self, inrush: &mut Inrush, min_age: Duration) -> Result<Fates> {
        ensure!(inrush.runs(), "it has ended: {}", inrush.last_words());
        let before = Instant::now();
        let fates = Fates::of(&inrush.ledger()?)?;
        self.accepted.push((before, fates.accepted));
        let room = fates.expired.get("room").copied().unwrap_or(0);
        let old = self.old_enough(Instant::now(), min_age);
        self.young = self.young.max(room.saturating_sub(old));
        let flow = inrush.flow()?;
        self.held = !flow["queue"]["stall"].is_null() || !sources_run(&flow);
        for alarm in flow["alarms"].as_array().into_iter().flatten() {
            let id = alarm["id"].as_str().context("an alarm without an id")?;
            let new = SeenAlarm {
                is_critical: alarm["severity"] == "critical",
                text: alarm.to_string(),
            };
            let known = self.alarms.entry(id.to_owned()).or_insert(new.clone());
            if new.is_critical || !known.is_critical {
                *known = new;
            }
        }
        Ok(fates)
    }

    /// At most so many events were accepted longer than `age` before `now`.
    fn old_enough(&self, now: Instant, age: Duration) -> u64 {
        let Some(then) = now.checked_sub(age) else {
            return 0;
        };
        let late = self.accepted.iter().find(|(at, _)| *at >= then);
        let is_all_later = self.accepted.first().is_some_and(|(at, _)| *at > then);
        match is_all_later {
            true => 0,
            false => late.map_or(0, |(_, accepted)| *accepted),
        }
    }
}

/// True if no source waits for the queue.
fn sources_run(flow: &Value) -> bool {
    let edges = flow["edges"].as_array().into_iter().flatten();
    let mut queues = edges.filter(|edge| edge["kind"] == "queue");
    queues.all(|edge| edge["ok"] == Value::Bool(true))
}

/// All that one plan has shown.
struct DiskOutcome {
    disk_mib: u64,
    free_mib: u64,
    sent: u64,
    seconds: f64,
    seen: LoadObservations,
    /// The fates when nothing moved any more, and the events that a search counted then.
    fates: Fates,
    counted: u64,
    /// The last line of the process.
    stopped: String,
    warned: bool,
    /// After another start, when nothing moved any more; what a search counted, and how many of
    /// them are different.
    again: Fates,
    again_counted: u64,
    again_distinct: u64,
}

fn one(lab: &BenchHarness, plan: &DiskCase, lines: &Path) -> Result<DiskOutcome> {
    let disk = LoopDisk::mount(&lab.dir("small-disks")?, plan.gib)?;
    let config = lab.dir("small-disks-config")?.join("inrush.yaml");
    let values = [
        ("@DATA@", disk.folder().join("data").display().to_string()),
        ("@DEAD@", free_port()?.to_string()),
        ("@STORE@", plan.store.to_owned()),
        ("@POLICY@", plan.policy.to_owned()),
    ];
    let values: Vec<_> = values.iter().map(|(k, v)| (*k, v.as_str())).collect();
    write_config(&config, TEMPLATE, &values)?;
    let start = || Inrush::start(&lab.inrush, Some(&config), disk.folder(), User::Ours);
    let mut inrush = start()?;
    let mut seen = LoadObservations::default();
    let begun = Instant::now();
    let sent = load(lab, plan, lines, &mut inrush, &mut seen)?;
    let seconds = begun.elapsed().as_secs_f64();
    let fates = settle(&mut inrush, &mut seen, plan.min_age)?;
    let counted = inrush.number(COUNT)?;
    let (all, free) = disk.bytes()?;
    let said = inrush.stop().context("an orderly stop")?;
    let stopped = said.iter().rfind(|line| line.contains(STOPPED));
    let stopped = stopped.with_context(|| format!("no last line: {said:?}"))?;
    let warned = said.iter().any(|line| line.contains("room on the disk"));
    let mut inrush = start().context("another start")?;
    let again = settle(&mut inrush, &mut LoadObservations::default(), plan.min_age)?;
    Ok(DiskOutcome {
        disk_mib: all >> 20,
        free_mib: free >> 20,
        sent,
        seconds,
        seen,
        fates,
        counted,
        stopped: stopped.clone(),
        warned,
        again_counted: inrush.number(COUNT)?,
        again_distinct: inrush.number(DISTINCT)?,
        again,
    })
}

const COUNT: &str = "select count(*) from events";
const DISTINCT: &str = "select count(distinct seq) from events";
const STOPPED: &str = "inrush: stopped, ";

/// Sends in turns until something holds, or enough was sent; how many events.
fn load(
    lab: &BenchHarness,
    plan: &DiskCase,
    lines: &Path,
    inrush: &mut Inrush,
    seen: &mut LoadObservations,
) -> Result<u64> {
    let shape = LoadShape {
        wire: Wire::Tcp,
        connections: 4,
        size: SIZE as u64,
        header: HeaderStyle::Rfc5424,
        text: MessageText::File,
        backdate_hours: 0,
        rate: 0,
        burst: 0,
    };
    let most = (BYTES_OF_DISK * (plan.gib << 30) as f64) as u64 / SIZE as u64;
    let (mut sent, mut last, begun) = (0, 0, Instant::now());
    let mut moved = begun;
    while sent < most && begun.elapsed() < LOAD_MAX && moved.elapsed() < HELD_ENOUGH {
        let address = inrush.address(Wire::Tcp)?;
        let amount = Amount::Seconds(TURN_SECONDS);
        let mut turn = sender::start(&lab.inrush, &address, &shape, amount, Some(lines))?;
        while !turn.ended()? {
            let fates = seen.look(inrush, plan.min_age)?;
            if fates.accepted > last {
                (last, moved) = (fates.accepted, Instant::now());
            }
            wait(LOOK_EVERY);
        }
        let turn = turn.finish()?;
        ensure!(!turn.is_broken, "the generator saw {:?}", turn.errors);
        sent += turn.events + turn.cut_short;
        tell(&format!("    {sent} sent, {last} accepted"));
    }
    Ok(sent)
}

/// Waits until nothing moves any more.
fn settle(inrush: &mut Inrush, seen: &mut LoadObservations, min_age: Duration) -> Result<Fates> {
    let begun = Instant::now();
    let mut last = seen.look(inrush, min_age)?;
    let mut moved = Instant::now();
    while moved.elapsed() < STILL && begun.elapsed() < SETTLE_MAX {
        wait(LOOK_EVERY);
        let now = seen.look(inrush, min_age)?;
        if now != last {
            (last, moved) = (now, Instant::now());
        }
    }
    Ok(last)
}

fn checks(name: &str, plan: &DiskCase, outcome: &DiskOutcome) -> Vec<ScenarioCheck> {
    let what = |what: &str| format!("{name}: {what}");
    let fates = &outcome.fates;
    let is_kept = fates.balanced
        && outcome.counted == fates.searchable + fates.in_memory
        && fates.written == fates.searchable + fates.unreadable + fates.expired()
        && fates.unreadable == 0
        && fates.dropped == 0
        && fates.delivered <= fates.written
        && fates.accepted == fates.delivered + fates.pending;
    let reached = plan
        .alarm
        .is_none_or(|id| outcome.seen.alarms.contains_key(id));
    vec![
        ScenarioCheck::new(
            what("what was delivered is found, or was taken by policy"),
            became(outcome),
            is_kept,
        ),
        ScenarioCheck::new(
            what("nothing younger than the stated age was deleted"),
            format!(
                "{} of {} deleted events may have been younger than {:?}",
                outcome.seen.young,
                fates.expired(),
                plan.min_age
            ),
            outcome.seen.young == 0,
        ),
        alarmed(what("it is alarmed, and named"), plan, outcome, reached),
        stopped(
            what("after a stop and a start each event is found, waits, or is counted"),
            outcome,
        ),
    ]
}

/// The row of one plan.
fn became(outcome: &DiskOutcome) -> String {
    let fates = &outcome.fates;
    format!(
        "{} MiB, {} free at the end; {:.0} s; sent {}, not read {}, accepted {}; store: delivered \
         {}, pending {}, searchable {}, in memory {}, counted {}, taken {:?}; dead: pending {}, \
         dropped {}",
        outcome.disk_mib,
        outcome.free_mib,
        outcome.seconds,
        outcome.sent,
        outcome.sent.saturating_sub(fates.received),
        fates.accepted,
        fates.delivered,
        fates.pending,
        fates.searchable,
        fates.in_memory,
        outcome.counted,
        fates.expired,
        fates.dead_pending,
        fates.dead_dropped,
    )
}

/// Whatever held or took events must have been said.
fn alarmed(what: String, plan: &DiskCase, outcome: &DiskOutcome, reached: bool) -> ScenarioCheck {
    let alarms = &outcome.seen.alarms;
    let mut found = String::new();
    for (id, alarm) in alarms {
        let mark = if alarm.is_critical { " (critical)" } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(found, "{id}{mark}, ");
    }
    let critical = alarms.values().filter(|alarm| alarm.is_critical);
    let all: String = critical.map(|alarm| alarm.text.as_str()).collect();
    let is_named = |name: &&&str| all.contains(&format!("destination {name}"));
    let named: Vec<&str> = plan.holders.iter().filter(is_named).copied().collect();
    let took = outcome.fates.expired() > 0;
    let said_taken = outcome.warned && alarms.contains_key("store-deletes-for-room:local");
    let _ = match outcome.seen.held {
        true => write!(found, "sources wait, for {named:?} in the critical ones"),
        false => write!(found, "nothing held at the end"),
    };
    ScenarioCheck::new(
        what,
        found,
        reached && (!outcome.seen.held || !named.is_empty()) && (!took || said_taken),
    )
}

/// The last line of the process against what the next one found.
fn stopped(what: String, outcome: &DiskOutcome) -> ScenarioCheck {
    let (line, again) = (&outcome.stopped, &outcome.again);
    let accepted = number_after(line, " accepted ").unwrap_or(0);
    let kept = number_after(line, "local keeps ");
    let expired = number_after(line, " expired ").unwrap_or(0);
    let in_store = again.searchable + again.in_memory + again.expired() + again.unreadable;
    let waits = again.pending.saturating_sub(again.in_memory);
    let total = in_store + expired + waits + again.dropped + again.given_up;
    let before = |name: &str| {
        let account = line.split_once(&format!("; {name} delivered ")).unzip().1;
        number_after(account.unwrap_or_default(), " dropped ").unwrap_or(0)
    };
    let dropped = before(DEAD) + again.dead_dropped;
    let is_exact = line.contains("ledger balanced")
        && again.balanced
        && kept == Some(again.at_start)
        && again.unreadable == 0
        && outcome.again_counted == again.searchable + again.in_memory
        && outcome.again_distinct == outcome.again_counted
        && before(STORE) == again.given_up
        && total == accepted
        && again.dead_pending + dropped == accepted;
    let found = format!(
        "accepted {accepted}; kept {}, at the start {}; counted {} ({} different), taken {}, waits \
         {waits}, given up with a full disk {}; dead: {} pending, {dropped} dropped",
        kept.unwrap_or(0),
        again.at_start,
        outcome.again_counted,
        outcome.again_distinct,
        expired + again.expired(),
        again.given_up,
        again.dead_pending,
    );
    let found = match is_exact {
        true => found,
        false => format!("{found}; it said: {line}; then: {again:?}"),
    };
    ScenarioCheck::new(what, found, is_exact)
}

/// The number behind the first of these words.
fn number_after(line: &str, words: &str) -> Option<u64> {
    let (_, rest) = line.split_once(words)?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    /// 100 events: 30 deleted for room, 60 in files, 10 in memory.
    fn outcome() -> DiskOutcome {
        let ledger = json!({
            "balanced": true,
            "sources": {"syslog": {"received": 100, "accepted": 100}},
            "destinations": {
                "local": {"delivered": 90, "pending": 10, "dropped": {}, "stored": {
                    "at_start": 0, "written": 90, "expired": {"room": 30}, "unreadable": 0,
                    "searchable": 60, "in_memory": 10,
                }},
                "dead": {"pending": 80, "dropped": {"queue_full": 20}},
            },
        });
        let fates = Fates::of(&ledger).unwrap();
        let alarm = |is_critical, text: &str| SeenAlarm {
            is_critical,
            text: text.to_owned(),
        };
        let alarms = [
            ("store-deletes-for-room:local", alarm(false, "30 events")),
            ("queue-stalled", alarm(true, "kept for destination local")),
        ];
        DiskOutcome {
            disk_mib: 1000,
            free_mib: 100,
            sent: 120,
            seconds: 1.0,
            seen: LoadObservations {
                alarms: alarms.map(|(id, alarm)| (id.to_owned(), alarm)).into(),
                held: true,
                ..LoadObservations::default()
            },
            counted: 70,
            stopped: "inrush: stopped, ledger balanced: syslog received 100 accepted 100 \
                      rejected 0 kernel_dropped 0; dead delivered 0 quarantined 0 dropped 20 \
                      pending 80; local delivered 100 quarantined 0 dropped 0 pending 0; local \
                      keeps 70 expired 30 unreadable 0"
                .to_owned(),
            warned: true,
            again: Fates {
                at_start: 70,
                searchable: 70,
                written: 0,
                delivered: 0,
                pending: 0,
                in_memory: 0,
                accepted: 0,
                expired: BTreeMap::new(),
                dead_dropped: 0,
                ..fates.clone()
            },
            again_counted: 70,
            again_distinct: 70,
            fates,
        }
    }

    fn passed(change: impl FnOnce(&mut DiskOutcome)) -> Vec<bool> {
        let mut outcome = outcome();
        change(&mut outcome);
        let plan = PLANS.last().unwrap();
        let checks = checks("x", plan, &outcome);
        checks.iter().map(|check| check.passed).collect()
    }

    #[test]
    fn each_violation_is_seen() {
        assert_eq!(passed(|_| {}), [true, true, true, true]);
        assert_eq!(passed(|o| o.counted = 69), [false, true, true, true]);
        let lost = |o: &mut DiskOutcome| (o.fates.searchable, o.counted) = (50, 60);
        assert_eq!(passed(lost), [false, true, true, true]);
        assert_eq!(passed(|o| o.seen.young = 1), [true, false, true, true]);
        assert_eq!(passed(|o| o.warned = false), [true, true, false, true]);
        let unnamed = |o: &mut DiskOutcome| {
            let alarm = o.seen.alarms.get_mut("queue-stalled").unwrap();
            alarm.text = "kept for destination x".to_owned();
        };
        assert_eq!(passed(unnamed), [true, true, false, true]);
        let none = |o: &mut DiskOutcome| o.seen.alarms.clear();
        assert_eq!(passed(none), [true, true, false, true]);
        let fewer = |o: &mut DiskOutcome| {
            (o.again.searchable, o.again_counted, o.again_distinct) = (69, 69, 69);
        };
        assert_eq!(passed(fewer), [true, true, true, false]);
        assert_eq!(passed(|o| o.again_distinct = 69), [true, true, true, false]);
        let forgotten = |o: &mut DiskOutcome| o.again.dead_pending = 79;
        assert_eq!(passed(forgotten), [true, true, true, false]);
    }

    #[test]
    fn only_what_was_accepted_before_the_age_may_go() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let seen = LoadObservations {
            accepted: vec![(at(0), 10), (at(5), 20), (at(10), 30)],
            ..LoadObservations::default()
        };
        let old = |at_s, age_s| seen.old_enough(at(at_s), Duration::from_secs(age_s));
        assert_eq!((old(10, 10), old(12, 9), old(15, 5)), (10, 20, 30));
        assert_eq!((old(10, 11), old(10, 86_400)), (0, 0));
    }

    #[test]
    fn lines_are_of_one_size_and_none_is_another_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = random_lines(&dir.path().join("lines")).unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        let lines: std::collections::BTreeSet<&str> = text.lines().collect();
        assert_eq!(lines.len(), LINES);
        assert!(lines.iter().all(|line| line.len() == SIZE));
    }
}
