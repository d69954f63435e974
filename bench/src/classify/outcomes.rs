//! Outcomes of each message, and of broken ones: for telling whether two builds recognise alike.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufWriter, Write as _};
use std::sync::Arc;

use anyhow::Result;
use inrush_classify::{Classifier, ClassifierVerdict, CompiledPacks};
use inrush_codec::{SyslogParser, Zone};
use inrush_event::{Anomalies, Record, Span};

use super::{MessageArena, PLACE, RECEIVED};

/// Seed of the random changes that make the broken messages.
const SEED: u64 = 0x1b7e_5f3a;

/// Bytes that are put into messages: what readers stumble over.
const STUMBLES: &[u8] = b"\"'\\[]{}<>|=:,; \t\0%-/\xff0a";

/// Changes to one message, at most.
const CHANGES_MAX: usize = 4;

/// Writes a line for each message and for so many broken ones.
pub(super) fn write(messages: &MessageArena, packs: CompiledPacks, broken: usize) -> Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut reader = DigestReader {
        parser: SyslogParser::new(Zone::utc()),
        classifier: Classifier::new(Arc::new(packs), None),
    };
    let all: Vec<&[u8]> = messages
        .spans
        .iter()
        .map(|span| span.of(&messages.arena))
        .collect();
    for message in &all {
        writeln!(out, "{}", reader.outcome(message))?;
    }
    let mut random = fastrand::Rng::with_seed(SEED);
    for _ in 0..broken {
        let message = broken_one(&all, &mut random);
        writeln!(out, "{}", reader.outcome(&message))?;
    }
    Ok(out.flush()?)
}

/// A message with one to four changes.
pub(super) fn broken_one(all: &[&[u8]], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut message = all[random.usize(..all.len())].to_vec();
    for _ in 0..random.usize(1..=CHANGES_MAX) {
        let at = random.usize(..=message.len());
        let to = at + random.usize(..=(message.len() - at).min(40));
        match random.u8(..7) {
            0 => message.truncate(at),
            1 => {
                let other = all[random.usize(..all.len())];
                message.truncate(at);
                message.extend_from_slice(&other[random.usize(..=other.len())..]);
            }
            2 => message[at..to]
                .iter_mut()
                .for_each(|byte| *byte ^= 1 << (at & 7)),
            3 => {
                let part = message[at..to].to_vec();
                message.splice(at..at, part);
            }
            4 => {
                let byte = STUMBLES[random.usize(..STUMBLES.len())];
                message.insert(at, byte);
            }
            5 => drop(message.drain(at..to)),
            _ => {
                if let Some(byte) = message.get_mut(at) {
                    *byte = STUMBLES[random.usize(..STUMBLES.len())];
                }
            }
        }
    }
    message
}

struct DigestReader {
    parser: SyslogParser,
    classifier: Classifier,
}

impl DigestReader {
    /// All that can be known of a message from outside.
    fn outcome(&mut self, message: &[u8]) -> String {
        let raw = Span::new(0, message.len());
        let mut record = Record::unparsed(raw, RECEIVED, 0, Anomalies::NONE);
        self.parser.parse(message, &mut record);
        let (verdict, appended) = self.classifier.classify(message, &mut record, PLACE);
        let rule = match verdict {
            ClassifierVerdict::Class(class) | ClassifierVerdict::Part(class) => {
                format!("{:?}", self.classifier.class(class))
            }
            ClassifierVerdict::Dropped(rule) => self.classifier.rule_name(rule).to_owned(),
        };
        let kind = match verdict {
            ClassifierVerdict::Class(_) => "class",
            ClassifierVerdict::Part(_) => "part",
            ClassifierVerdict::Dropped(_) => "dropped",
        };
        let part = match self.classifier.part(message) {
            // The rule by name: how it is held in memory is no outcome.
            Some((group, part)) => format!("{} {part:?}", group.rule),
            None => String::new(),
        };
        let mut digest = DefaultHasher::new();
        let fell = self.classifier.fell();
        let times = (
            record.event_time,
            record.zone_minutes,
            record.anomalies.bits(),
        );
        let header = (record.pri, record.format, record.class);
        (&rule, part, times, header, appended, fell).hash(&mut digest);
        let mut both = message.to_vec();
        both.extend_from_slice(self.classifier.tail());
        // The text of a span counts, not where behind the message it was put.
        for span in spans(&record) {
            span.of(&both).hash(&mut digest);
        }
        format!("{kind} {:016x} {:016x}", hash(&rule), digest.finish())
    }
}

/// The parts of a record that have a text.
pub(super) fn spans(record: &Record) -> [Span; 8] {
    [
        record.raw,
        record.host,
        record.app,
        record.proc_id,
        record.msg_id,
        record.sdata,
        record.message,
        record.extra,
    ]
}

/// A short stand-in for a text.
fn hash(text: &str) -> u64 {
    let mut digest = DefaultHasher::new();
    text.hash(&mut digest);
    digest.finish()
}
