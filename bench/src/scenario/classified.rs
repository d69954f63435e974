//! Cost scenarios of classification: Inrush with and without its packs, beside syslog-ng.
//!
//! # What it guarantees
//! * Every run starts a fresh process, and all arms take turns beside the bare TCP loop.
//! * A ratio of costs compares runs of one round, because the host's speed drifts between rounds.
//! * syslog-ng gets one channel for each rule of the packs. A rule that it cannot express becomes
//!   one that no message matches; the report counts the others.
//! * The checks judge Inrush alone, so they need no syslog-ng on the machine.
//!
//! # Limits
//! `US` and `HEC_US` bound the CPU time of an event, `STORE_RATIO` and `MANY_RATIO` two ratios.
//! `MANY` made-up rules are added in files of 500.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use inrush_classify::Pack;
use inrush_classify::pack::{EventPart, RuleCondition};
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::sender::{Amount, LoadShape, MessageText, Wire};
use inrush_harness::subject::{AcceptedSubject, BenchSubject, SinkProcess, SyslogNg, User};

use super::cost::{bare_arm, pilot};
use super::rounds::{Arm, limit, rounds};
use super::{REFERENCE, tell};
use crate::classify::synthetic;

/// Ten connections that repeat the file of messages.
const MIXED: LoadShape = LoadShape {
    text: MessageText::File,
    ..REFERENCE
};

/// CPU-µs per event in all, in the reference state: to nowhere, and to HEC.
const US: f64 = 1.5;
const HEC_US: f64 = 2.0;

/// Cost of the way into the store with packs, at most, in times of its cost without.
const STORE_RATIO: f64 = 1.3;

/// Made-up rules beside those of the packs, and how much more they may cost.
const MANY: usize = 5_000;
const MANY_RATIO: f64 = 1.10;

/// Contender that is measured.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ClassifyContender {
    /// Inrush without packs.
    Off,
    /// With all of them.
    Packs,
    /// With thousands of rules more.
    Many,
    /// syslog-ng that only reads headers.
    Peer,
    /// syslog-ng with as many rules as the packs have.
    PeerRules,
    /// The same, with the parsers that SC4S uses for the values of what it recognises.
    PeerValues,
}

impl ClassifyContender {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Off => "inrush, no packs",
            Self::Packs => "inrush, packs",
            Self::Many => "inrush, packs and 5,000 rules",
            Self::Peer => "syslog-ng, no rules",
            Self::PeerRules => "syslog-ng, as many rules",
            Self::PeerValues => "syslog-ng, rules and values",
        }
    }

    /// True if it can be measured here.
    pub(super) fn is_there(self, lab: &BenchHarness) -> bool {
        match self {
            Self::Peer | Self::PeerRules | Self::PeerValues => {
                lab.terms.peers && SyslogNg::installed()
            }
            _ => true,
        }
    }
}

/// The destination.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ClassifyDestination {
    Nowhere,
    Hec,
    Store,
}

/// Messages that are sent, and the shape of the load.
pub(super) struct MessageLoad {
    pub(super) shape: LoadShape,
    /// Messages, one a line.
    pub(super) file: PathBuf,
    /// Description of the messages, for the report.
    pub(super) words: String,
}

impl MessageLoad {
    /// True if all messages have a header of RFC 5424: a version behind the PRI.
    fn is_rfc5424(&self) -> bool {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let version = |line: &str| {
            line.split_once('>')
                .is_some_and(|(_, rest)| rest.starts_with("1 "))
        };
        text.lines().all(version)
    }

    /// The messages of the lab over ten connections.
    fn of(lab: &BenchHarness) -> Self {
        Self {
            shape: MIXED,
            file: lab.messages.file.clone(),
            words: lab.messages.words.clone(),
        }
    }
}

/// Set-up of the contenders: load, destination and rules.
pub(super) struct ClassifySetup<'a> {
    lab: &'a BenchHarness,
    load: MessageLoad,
    to: ClassifyDestination,
    rules: String,
    /// Rules in `rules` that are ours.
    pub(super) count: usize,
    /// The folder of the made-up packs.
    many: PathBuf,
}

/// To a blackhole: what the packs cost.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let arms = [
        ClassifyContender::Packs,
        ClassifyContender::Off,
        ClassifyContender::Many,
        ClassifyContender::Peer,
        ClassifyContender::PeerRules,
    ];
    let shows = "a mixed load of real messages over TCP, 10 connections, to a blackhole, with and \
                 without the packs";
    measure(lab, shows, ClassifyDestination::Nowhere, &arms, |cells| {
        vec![
            limit(&cells[0], US),
            at_most("5,000 more rules cost", &cells[2], &cells[0], MANY_RATIO),
            cells[0].accounts(),
        ]
    })
}

/// To a HEC endpoint: the whole way.
pub(super) fn run_hec(lab: &BenchHarness) -> Result<ScenarioResult> {
    let arms = [
        ClassifyContender::Packs,
        ClassifyContender::Off,
        ClassifyContender::PeerRules,
    ];
    let shows = "a mixed load of real messages over TCP, 10 connections, recognised, to a HEC \
                 endpoint without gzip";
    measure(lab, shows, ClassifyDestination::Hec, &arms, |cells| {
        vec![limit(&cells[0], HEC_US), cells[0].accounts()]
    })
}

/// Into the store: what its many indexes cost.
pub(super) fn run_store(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "a mixed load of real messages over TCP, 10 connections, into the store, with and \
                 without the packs";
    measure(
        lab,
        shows,
        ClassifyDestination::Store,
        &[ClassifyContender::Packs, ClassifyContender::Off],
        |cells| {
            vec![
                at_most("the packs cost", &cells[0], &cells[1], STORE_RATIO),
                cells[0].accounts(),
            ]
        },
    )
}

/// The check that one costs so many times what the other does.
fn at_most(what: &str, one: &Cell, other: &Cell, times: f64) -> ScenarioCheck {
    let ratio = of_rounds(one, other);
    ScenarioCheck::new(
        format!("{what} at most {times} × as much"),
        ratio.map_or("no figure".into(), |ratio| format!("{ratio:.3}")),
        ratio.is_some_and(|ratio| ratio <= times),
    )
}

/// The median of what one costs against the other in the same round: the host's speed drifts less
/// from one run to the next than over all rounds.
fn of_rounds(one: &Cell, other: &Cell) -> Option<f64> {
    let rounds = one.runs.iter().zip(&other.runs);
    let mut ratios: Vec<f64> = rounds
        .map(|(one, other)| one.us_per_event / other.us_per_event)
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied()
}

fn measure(
    lab: &BenchHarness,
    shows: &str,
    to: ClassifyDestination,
    arms: &[ClassifyContender],
    checks: impl Fn(&[Cell]) -> Vec<ScenarioCheck>,
) -> Result<ScenarioResult> {
    tell(shows);
    let bench = ClassifySetup::new(lab, MessageLoad::of(lab), to)?;
    let mut all = Vec::new();
    for who in arms.iter().copied().filter(|who| who.is_there(lab)) {
        all.push(bench.arm(who)?);
    }
    let (bare, cells) = rounds(lab, bare_arm(lab)?, all, 2)?;
    let mut scenario = lab.scenario(shows);
    scenario
        .versions
        .push(format!("{} rules in syslog-ng", bench.count));
    scenario.checks = checks(&cells);
    scenario.cells.push(bare);
    scenario.cells.extend(cells);
    Ok(scenario)
}

impl<'a> ClassifySetup<'a> {
    pub(super) fn new(
        lab: &'a BenchHarness,
        load: MessageLoad,
        to: ClassifyDestination,
    ) -> Result<Self> {
        let packs = inrush_packs::builtin(&[("fallback".to_owned(), "sc4s".to_owned())].into())?;
        let (rules, count) = peer_rules(&packs);
        Ok(Self {
            lab,
            load,
            to,
            rules,
            count,
            many: many(lab)?,
        })
    }

    pub(super) fn arm<'b>(&'b self, who: ClassifyContender) -> Result<Arm<'b>> {
        let number = pilot(self.lab, |number| self.one(who, number))?;
        let once = move || self.one(who, number);
        Ok(Arm::new(who.name(), self.load.words.clone(), once))
    }

    /// One run of a fresh process.
    fn one(&self, who: ClassifyContender, number: u64) -> Result<RunResult> {
        let sink = (self.to == ClassifyDestination::Hec)
            .then(|| SinkProcess::start(&[]))
            .transpose()?;
        let sink = sink.as_ref();
        let mut subject: Box<dyn BenchSubject> = match who {
            ClassifyContender::Peer
            | ClassifyContender::PeerRules
            | ClassifyContender::PeerValues => {
                let template = self.peer(who);
                let dir = self.lab.dir("syslog-ng")?;
                Box::new(SyslogNg::start(
                    &template,
                    Wire::Tcp,
                    &dir,
                    sink,
                    User::Ours,
                )?)
            }
            _ => {
                let template = self.inrush(who);
                Box::new(AcceptedSubject(self.lab.start_inrush(
                    &template,
                    sink,
                    User::Ours,
                )?))
            }
        };
        let amount = Amount::Number(number);
        let what = (&self.load.shape, self.load.file.as_path());
        self.lab
            .measure_with(subject.as_mut(), None, what, amount, None)
    }

    fn inrush(&self, who: ClassifyContender) -> String {
        let template = match self.to {
            ClassifyDestination::Nowhere => include_str!("../../inrush/tcp-blackhole.yaml"),
            ClassifyDestination::Hec => include_str!("../../inrush/tcp-hec.yaml"),
            ClassifyDestination::Store => include_str!("../../inrush/ordinary-store.yaml"),
        };
        let packs = match who {
            ClassifyContender::Off => return template.to_owned(),
            ClassifyContender::Many => format!(
                "packs: {{ enabled: true, fallback: sc4s, files: [\"{}\"] }}\n",
                self.many.display()
            ),
            _ => "packs: { enabled: true, fallback: sc4s }\n".to_owned(),
        };
        template.replace("packs: { enabled: false }\n", &packs)
    }

    fn peer(&self, who: ClassifyContender) -> String {
        let template = match self.to {
            ClassifyDestination::Hec => include_str!("../../peers/syslog-ng-hec.conf"),
            _ => include_str!("../../peers/syslog-ng-tcp.conf"),
        };
        let values = match who {
            // With rules its own parser reads such a header, among what it does by them.
            ClassifyContender::Peer if self.load.is_rfc5424() => {
                let tcp = r#"transport("tcp")"#;
                return template.replace(tcp, &format!("{tcp} flags(syslog-protocol)"));
            }
            ClassifyContender::Peer => return template.to_owned(),
            ClassifyContender::PeerValues => include_str!("../../peers/syslog-ng-values.conf"),
            _ => "",
        };
        // Right behind the source, as SC4S has it.
        template.replace(
            "log { source(s);",
            &format!("log {{ source(s);\n{}{values}", self.rules),
        )
    }
}

/// The folder of packs with made-up rules that no message meets.
fn many(lab: &BenchHarness) -> Result<PathBuf> {
    const STEP: usize = 500;
    let dir = lab.dir("many-packs")?;
    for from in (0..MANY).step_by(STEP) {
        let file = dir.join(format!("synthetic-{from}.yaml"));
        let text = synthetic(from..MANY.min(from + STEP));
        std::fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    Ok(dir)
}

/// As many rules as the packs have, as syslog-ng's own `program()` and `match()`: theirs, as far as
/// they ask for a part of the message, and made-up ones that nothing meets for the others; and how
/// many of them are theirs.
fn peer_rules(packs: &[Pack]) -> (String, usize) {
    let (mut text, mut count) = (String::from("junction {\n"), 0);
    for rule in packs.iter().flat_map(|pack| &pack.rules) {
        let filter = peer_filter(&rule.branch.when);
        count += usize::from(filter.is_some());
        let name = &rule.name;
        let filter = filter.unwrap_or_else(|| format!("program('zz{name}' type(string))"));
        // Writing to a text cannot fail.
        let _ = writeln!(
            text,
            " channel {{ filter {{ {filter} }}; rewrite {{ set(\"{name}\" value(\".rule\")); }}; \
             flags(final); }};"
        );
    }
    text.push_str(" channel { flags(final); };\n};\n");
    (text, count)
}

/// A condition in syslog-ng's words; `None`: it asks for something that syslog-ng has no word for.
fn peer_filter(when: &RuleCondition) -> Option<String> {
    let list = |all: &[RuleCondition], joint: &str| {
        let known: Vec<String> = all.iter().filter_map(peer_filter).collect();
        (!known.is_empty()).then(|| format!("({})", known.join(joint)))
    };
    match when {
        RuleCondition::All(all) => list(all, " and "),
        RuleCondition::Any(any) => list(any, " or "),
        RuleCondition::Part(test) => peer_match(&test.part, &test.written),
        _ => None,
    }
}

fn peer_match(part: &EventPart, written: &str) -> Option<String> {
    let value = match part {
        EventPart::Program => "PROGRAM",
        EventPart::Message | EventPart::Text => "MESSAGE",
        EventPart::Host => "HOST",
        _ => return None,
    };
    let (flag, body) = match written.strip_prefix("i:") {
        Some(rest) => ("ignore-case", rest),
        None => ("", written),
    };
    let expression = body
        .strip_prefix('/')
        .and_then(|text| text.strip_suffix('/'));
    let inner = body.trim_matches('*');
    let (kind, text, how) = match expression {
        Some(expression) => ("pcre", expression, ""),
        None if inner.is_empty() || inner.contains('*') => return None,
        None if body.starts_with('*') => ("string", inner, "substring"),
        None if body.ends_with('*') => ("string", inner, "prefix"),
        None => ("string", inner, ""),
    };
    if text.contains('\'') {
        return None;
    }
    let flags = [flag, how].join(" ");
    let flags = match flags.trim() {
        "" => String::new(),
        flags => format!(" flags({})", flags.replace(' ', ", ")),
    };
    Some(if value == "PROGRAM" {
        format!("program('{text}' type({kind}){flags})")
    } else {
        format!("match('{text}' value(\"{value}\") type({kind}){flags})")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_said_in_the_peers_words() {
        let said = |part: &EventPart, written: &str| peer_match(part, written).unwrap_or_default();
        assert_eq!(
            said(&EventPart::Program, "sshd*"),
            "program('sshd' type(string) flags(prefix))"
        );
        assert_eq!(
            said(&EventPart::Message, "i:*x y*"),
            "match('x y' value(\"MESSAGE\") type(string) flags(ignore-case, substring))"
        );
        assert_eq!(
            said(&EventPart::Host, r"/^a\d/"),
            r#"match('^a\d' value("HOST") type(pcre))"#
        );
        assert_eq!(said(&EventPart::Message, "a*b"), "");
        assert_eq!(said(&EventPart::Sdata, "a"), "");
    }

    #[test]
    fn rounds_are_compared_one_by_one() {
        let (one, other) = (
            super::super::costing(&[1.0, 4.0, 9.0]),
            super::super::costing(&[1.0, 2.0, 3.0]),
        );
        assert_eq!(of_rounds(&one, &other), Some(2.0));
        assert_eq!(of_rounds(&one, &super::super::costing(&[])), None);
    }

    #[test]
    fn most_rules_have_words_there() {
        let packs = inrush_packs::builtin(&Default::default()).unwrap_or_default();
        let rules = packs.iter().map(|pack| pack.rules.len()).sum::<usize>();
        let (text, count) = peer_rules(&packs);
        assert!(count * 2 > rules && count <= rules);
        assert_eq!(text.matches("channel").count(), rules + 1);
    }
}
