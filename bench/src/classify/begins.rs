//! Rules that are known by how an event begins win over those that were asked before they could
//! be: which ones is said here, and shown over all samples, the corpus and broken messages.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use inrush_classify::pack::RuleStage;
use inrush_classify::{Classifier, ClassifierVerdict, CompiledPacks, Pack};
use inrush_codec::{SyslogParser, Zone};
use inrush_event::{
    Anomalies, ClassInfo, EventNames, Extra, ExtraKey, Record, SourceInfo, Span, Timestamp,
};

use super::outcomes::{broken_one, spans};
use super::{PLACE, RECEIVED};

/// Broken messages.
const BROKEN: usize = 30_000;

/// The rule that is known by its beginning, and the first rule that had the event before: there
/// the beginning is right. The last was seen in RFC 5424 without structured data, the others where
/// the text of another event stands behind it.
const WINS: &[(&str, &str)] = &[
    ("cef_first", "cisco_header_any"),
    ("cisco_firewall", "program_is_none"),
    ("palo_alto_panos", "juniper_junos_unstructured_msg"),
    ("fortinet_fortios", "cisco_header_any"),
    ("vmware_esx_daemon", "cisco_header_any"),
    ("palo_alto_panos", "header_wrong_version"),
    ("palo_alto_panos", "cisco_header_any"),
    ("palo_alto_panos", "cisco_syslog_relayed"),
    ("palo_alto_panos", "symantec_brightmail"),
    ("vmware_esx_daemon", "vmware_vsphere_two_names"),
];

pub(super) struct OutcomeReader {
    parser: SyslogParser,
    classifier: Classifier,
}

/// All that a destination gets of an event.
#[derive(PartialEq, Debug)]
pub(super) struct DeliveredEvent {
    /// As what its class has it written; its names are below.
    class: Option<ClassInfo>,
    names: [Vec<u8>; 6],
    time: Timestamp,
    texts: Vec<Vec<u8>>,
}

impl OutcomeReader {
    fn new(packs: Vec<Pack>) -> Self {
        let (packs, _) = CompiledPacks::compile(packs, Default::default());
        Self::of(&Arc::new(packs))
    }

    pub(super) fn of(packs: &Arc<CompiledPacks>) -> Self {
        Self {
            parser: SyslogParser::new(Zone::utc()),
            classifier: Classifier::new(Arc::clone(packs), None),
        }
    }

    /// Returns the outcome of a message, and the rules that it was recognised by.
    pub(super) fn read(&mut self, message: &[u8]) -> (DeliveredEvent, String) {
        let raw = Span::new(0, message.len());
        let mut record = Record::unparsed(raw, RECEIVED, 0, Anomalies::NONE);
        self.parser.parse(message, &mut record);
        let (verdict, _) = self.classifier.classify(message, &mut record, PLACE);
        let class = match verdict {
            ClassifierVerdict::Class(class) | ClassifierVerdict::Part(class) => Some(class),
            ClassifierVerdict::Dropped(_) => None,
        };
        let class = class.map(|class| ClassInfo::clone(self.classifier.class(class)));
        let rules = class.as_ref().map_or("", |class| &class.rules).to_owned();
        let mut both = message.to_vec();
        both.extend_from_slice(self.classifier.tail());
        let extra = Extra::new(record.extra.of(&both));
        let source = SourceInfo {
            name: String::new(),
            index: String::new(),
            sourcetype: String::new(),
        };
        let names = EventNames::of(class.as_ref(), extra, &source);
        let names = [
            names.index,
            names.sourcetype,
            names.source,
            names.vendor,
            names.product,
            names.class,
        ];
        let own = [ExtraKey::Event, ExtraKey::Json, ExtraKey::Fields];
        let own = own.map(|key| extra.get(key).unwrap_or_default());
        // The last is what `extra` has.
        let parts = &spans(&record)[..7];
        let outcome = DeliveredEvent {
            names: names.map(<[u8]>::to_vec),
            time: record.event_time,
            texts: parts
                .iter()
                .map(|span| span.of(&both))
                .chain(own)
                .map(<[u8]>::to_vec)
                .collect(),
            class: class.map(|class| ClassInfo {
                text: class.text,
                fields: class.fields,
                received_time: class.received_time,
                ..ClassInfo::default()
            }),
        };
        (outcome, rules)
    }
}

/// The same without a look at beginnings. A rule that is nothing but known by one is gone, and
/// another one has its events.
fn without(packs: &[Pack]) -> Vec<Pack> {
    let mut packs = packs.to_vec();
    for pack in &mut packs {
        pack.rules.retain(|rule| rule.stage != RuleStage::Begins);
        pack.rules.iter_mut().for_each(|rule| rule.begins = None);
    }
    packs
}

pub(super) fn packs() -> Vec<Pack> {
    inrush_packs::builtin(&[("fallback".to_owned(), "sc4s".to_owned())].into()).expect("packs")
}

/// The samples of the packs with so many broken messages, and as many more with the corpus: where
/// that is absent, the first ones are the same.
pub(super) fn messages(packs: &[Pack], broken: usize) -> Vec<Vec<u8>> {
    let rules = packs.iter().flat_map(|pack| &pack.rules);
    let samples = rules.flat_map(|rule| rule.samples.iter().flat_map(|sample| sample.raw.clone()));
    let mut whole: Vec<Vec<u8>> = samples.map(String::into_bytes).collect();
    let mut messages = broken_ones(&whole, broken);
    let corpus = corpus();
    if !corpus.is_empty() {
        whole.extend(corpus.into_iter().map(String::into_bytes));
        messages.extend(broken_ones(&whole, broken));
    }
    messages.extend(whole);
    messages
}

fn broken_ones(whole: &[Vec<u8>], count: usize) -> Vec<Vec<u8>> {
    let all: Vec<&[u8]> = whole.iter().map(Vec::as_slice).collect();
    let mut random = fastrand::Rng::with_seed(1);
    (0..count).map(|_| broken_one(&all, &mut random)).collect()
}

fn corpus() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus/sc4s/answers.jsonl");
    let Ok(text) = std::fs::read_to_string(path) else {
        eprintln!("SKIPPED in part: no ../shared/corpus here");
        return Vec::new();
    };
    let message = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(line["message"].as_str()?.to_owned())
    };
    text.lines().filter_map(message).collect()
}

#[test]
fn a_beginning_wins_only_where_it_is_said_to() {
    let packs = packs();
    let messages = messages(&packs, BROKEN);
    let (mut before, mut now) = (
        OutcomeReader::new(without(&packs)),
        OutcomeReader::new(packs),
    );
    let mut others: BTreeMap<(String, String), Vec<u8>> = BTreeMap::new();
    for message in messages {
        let ((old, had), (new, has)) = (before.read(&message), now.read(&message));
        if old != new {
            let first = |rules: &str| rules.split('|').next().unwrap_or_default().to_owned();
            others.entry((first(&has), first(&had))).or_insert(message);
        }
    }
    let said = |(has, had): &(String, String)| WINS.contains(&(has.as_str(), had.as_str()));
    others.retain(|pair, _| !said(pair));
    let words: Vec<_> = others
        .iter()
        .map(|(pair, message)| format!("{pair:?}: {}", String::from_utf8_lossy(message)))
        .collect();
    assert!(words.is_empty(), "{}", words.join("\n"));
}

#[test]
fn a_rule_of_a_users_own_is_asked_however_often_its_program_came() {
    let options = [("fallback".to_owned(), "sc4s".to_owned())].into();
    let mut packs = inrush_packs::builtin(&options).expect("packs");
    let own = "rules:\n\
        - name: one\n  stage: message\n  when: { message: \"*devname=fw-lab *\" }\n  \
          set: { sourcetype: mine }\n\
        - name: two\n  stage: program\n  when: { program: hostd, host: esx9 }\n  \
          set: { sourcetype: mine }\n";
    packs.insert(
        0,
        inrush_packs::read("own.yaml", own, &options).expect("a pack"),
    );
    let mut reader = OutcomeReader::new(packs);
    let fortios = |name: &str| {
        format!(
            "<189>date=2024-05-06 time=07:08:09 devname={name} devid=FGT60F level=notice type=dns"
        )
    };
    let hostd = |host: &str| {
        format!(
            "<166>2024-05-06T07:08:05.250Z {host} Hostd: info hostd[2] [Originator@6876 a=b] Done"
        )
    };
    for _ in 0..40 {
        for (message, wanted) in [
            (fortios("fw-lab"), "mine"),
            (fortios("fw-branch"), "fgt_dns"),
            (hostd("esx9"), "mine"),
            (hostd("esx4"), "vmware:esxlog:hostd"),
        ] {
            let (outcome, rules) = reader.read(message.as_bytes());
            let [_, sourcetype, ..] = &outcome.names;
            let sourcetype = String::from_utf8_lossy(sourcetype);
            assert!(
                sourcetype.contains(wanted),
                "{sourcetype} by {rules}: {message}"
            );
        }
    }
}
