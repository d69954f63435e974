//! Recognition of events: reads and compiles packs, and runs their rules over each batch.
//!
//! # What it guarantees
//! * Records keep their order of arrival, although events of one kind are classified together. With
//!   hints they are classified as they came: a host's class counts for its next event.
//! * A part of an event whose peer waits for an answer never waits for others: the answer needs a
//!   durable event.
//!
//! # States
//! `BatchClassifier::begin` starts a batch and forgets the class ids of the last one.
//! `BatchClassifier::run` classifies from an index on. A new generation of the classifier ends all
//! its class numbers.
//!
//! # Limits
//! A file of a pack has at most `PACK_BYTES_MAX` bytes; `group` bounds the parts that wait.

mod assembler;
mod detached;
mod order;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use inrush_classify::{
    Classifier, ClassifierVerdict, EventOrigin, HostProducts, Overrides, Pack, PackWarning,
    RuleTrace,
};
use inrush_event::{
    Anomalies, BatchBuilder, ClassId, ClassInfo, EventText, Origin, Record, crc32c, crc32c_append,
};
use inrush_yaml::{FileProblems, Findings, Location};
use jiff::tz::{Offset, TimeZone};

use crate::options::{FallbackPolicy, PacksOptions};
use crate::unclassified::UnclassifiedNotes;
use detached::BatchEvent;
use order::EventOrder;

pub use assembler::{MemoryBudget, MultilineAssembler, PartOutcome};
pub use inrush_classify::CompiledPacks;

/// Bytes of a pack's file, at most.
const PACK_BYTES_MAX: u64 = 1024 * 1024;

/// Classes beside those of the source that are remembered; far more than there are.
const BESIDE_MAX: usize = 16_384;

/// Compiled packs, and what is not right with them but does no harm.
pub struct LoadedPacks {
    /// The packs.
    pub packs: Arc<CompiledPacks>,
    /// Rules that are never taken, and the like.
    pub warnings: Vec<PackWarning>,
    /// Tells these packs from others: a checksum of all that they were made from.
    pub fingerprint: u32,
}

/// Reads and compiles the packs that a configuration names, and those that come with Inrush.
///
/// # Errors
/// Everything that is wrong with them.
pub fn load(options: &PacksOptions) -> Result<LoadedPacks, FileProblems> {
    let packs = read(options, &options.options)?;
    let (packs, warnings) = CompiledPacks::compile(packs, overrides(options)?);
    Ok(LoadedPacks {
        packs: Arc::new(packs),
        warnings,
        fingerprint: fingerprint(options)?,
    })
}

/// The packs with these options, a user's own first.
pub fn read(
    packs: &PacksOptions,
    options: &inrush_packs::PackOptionMap,
) -> Result<Vec<Pack>, FileProblems> {
    if !packs.enabled {
        return Ok(Vec::new());
    }
    let mut options = options.clone();
    if packs.fallback == FallbackPolicy::Sc4s {
        options
            .entry("fallback".into())
            .or_insert_with(|| "sc4s".into());
    }
    let mut all = Vec::new();
    let mut problems: Option<FileProblems> = None;
    let mut add = |read: Result<Pack, FileProblems>| match read {
        Ok(pack) => all.push(pack),
        Err(new) => {
            problems = Some(match problems.take() {
                Some(known) => known.join(new),
                None => new,
            });
        }
    };
    if let Some(text) = &packs.inline {
        add(inrush_packs::read("packs.inline", text, &options));
    }
    for path in &packs.files {
        for file in files(path)? {
            let name = file.display().to_string();
            let text = text(&file).map_err(|words| problem(&name, words))?;
            add(inrush_packs::read(&name, &text, &options));
        }
    }
    for (name, text) in inrush_packs::BUILTIN {
        let ours = |pack| Pack {
            builtin: true,
            ..pack
        };
        add(inrush_packs::read(name, text, &options).map(ours));
    }
    if let Some(problems) = problems {
        return Err(problems);
    }
    let disabled = packs.disable.iter();
    let disable = disabled
        .map(|name| (name.clone(), Default::default()))
        .collect();
    all.insert(
        0,
        Pack {
            file: "packs.disable".into(),
            disable,
            ..Pack::default()
        },
    );
    Ok(all)
}

fn fingerprint(options: &PacksOptions) -> Result<u32, FileProblems> {
    let mut sum = crc32c(format!("{options:?}").as_bytes());
    for path in &options.files {
        for file in files(path)? {
            let text = text(&file).map_err(|words| problem(&file.display().to_string(), words))?;
            sum = crc32c_append(sum, text.as_bytes());
        }
    }
    Ok(sum)
}

fn problem(file: &str, words: String) -> FileProblems {
    let mut findings = Findings::default();
    findings.add(Location::START, words);
    findings.into_problems(file)
}

/// A file, or the `*.yaml` of a folder in the order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>, FileProblems> {
    let failed = |error: std::io::Error| {
        let words = format!("the packs cannot be read: {error}; name a file or a folder");
        problem(&path.display().to_string(), words)
    };
    if !path.metadata().map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        if file
            .extension()
            .is_some_and(|end| end == "yaml" || end == "yml")
        {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn text(file: &Path) -> Result<String, String> {
    inrush_files::read_to_string(file, PACK_BYTES_MAX).map_err(|error| match error.kind() {
        std::io::ErrorKind::FileTooLarge => {
            format!("the file is larger than {PACK_BYTES_MAX} bytes; is it a pack?")
        }
        _ => error.to_string(),
    })
}

fn overrides(packs: &PacksOptions) -> Result<Overrides, FileProblems> {
    let mut overrides = Overrides::default();
    for (key, one) in &packs.metadata {
        let text = match &one.template {
            None => None,
            Some(name) => Some(inrush_packs::event_text(name).ok_or_else(|| {
                problem(
                    "packs.metadata",
                    format!("`{key}`: there is no template `{name}`"),
                )
            })?),
        };
        overrides.insert(
            key,
            one.index.clone(),
            one.sourcetype.clone(),
            one.source.clone(),
            text,
        );
    }
    Ok(overrides)
}

/// Packs and context by which a source's events are recognised.
#[derive(Clone)]
pub struct ClassifierContext {
    packs: Arc<CompiledPacks>,
    hints: Option<Arc<HostProducts>>,
    listener: String,
    product: Option<(String, String)>,
    zone: TimeZone,
}

impl ClassifierContext {
    /// For the source `name`, to which `product` sends, as `vendor/product`; `None` if nothing is
    /// recognised. `hints` are those of the process.
    pub fn new(
        name: &str,
        product: Option<&str>,
        zone: &TimeZone,
        packs: &Arc<CompiledPacks>,
        hints: Option<&Arc<HostProducts>>,
    ) -> Option<Self> {
        if packs.is_empty() {
            return None;
        }
        let product = product.and_then(|text| text.split_once('/'));
        Some(Self {
            packs: Arc::clone(packs),
            hints: hints.cloned(),
            listener: name.to_ascii_lowercase(),
            product: product.map(|(vendor, product)| (vendor.to_owned(), product.to_owned())),
            zone: zone.clone(),
        })
    }
}

impl ClassifierContext {
    /// Has what hosts were recognised as count, or not.
    pub fn remember(&mut self, hints: Option<Arc<HostProducts>>) {
        self.hints = hints;
    }
}

/// The zone that was guessed of a record's sender: it holds for all times without one.
fn guessed_zone(record: &Record) -> Option<TimeZone> {
    let guessed = record.anomalies.contains(Anomalies::ZONE_GUESSED);
    let seconds = i32::from(record.zone_minutes) * 60;
    guessed.then(|| Offset::from_seconds(seconds).ok().map(TimeZone::fixed))?
}

/// The class that a source gave an event, if it gave one.
fn given_class(builder: &BatchBuilder, class: ClassId) -> Option<&ClassInfo> {
    let index = usize::from(class.0).checked_sub(1)?;
    builder.classes().get(index).map(|class| &**class)
}

/// Vendor and product that a source says to send the events of a class.
fn hint_of(builder: &BatchBuilder, class: ClassId) -> Option<&(String, String)> {
    given_class(builder, class)?.hint.as_ref()
}

/// True if the sender waits for an answer, and gets it once an event is durable.
fn is_answered(origin: Option<&Origin>) -> bool {
    let peer = origin.and_then(Origin::peer);
    peer.is_some_and(|peer| peer.protocol.is_answered())
}

/// Recognises the events of one source in one worker.
pub struct BatchClassifier {
    recognition: ClassifierContext,
    classifier: Classifier,
    /// The number in the batch of each class that the classifier has given; of the batch that is
    /// being filled.
    ids: Vec<ClassId>,
    generation: u32,
    /// Events that were filtered, by the number of the rule.
    dropped: Vec<u64>,
    /// Classes of events that several parts make, by the class number of a part by itself.
    wholes: HashMap<u32, Arc<ClassInfo>>,
    /// Classes with what holds of those that the source gave, by the address of that and the
    /// number of the class. The given one is kept, so that its address stays its own.
    beside: HashMap<(usize, u32), (Arc<ClassInfo>, Arc<ClassInfo>)>,
    /// The class of the last event, if it is a part.
    part: Option<u32>,
    /// True if there was a part in the batch.
    saw_part: bool,
    /// Events of the open batch that no rule recognised, if somebody wants to know.
    fallen: Option<UnclassifiedNotes>,
    /// Room for the order of a batch, and for the events that are taken out.
    order: EventOrder,
    gone: Vec<usize>,
}

/// Groups in which parts of events wait, and the time.
pub type TimedAssembler<'g> = (&'g mut MultilineAssembler, Instant);

/// One round of recognising.
struct ClassificationPass<'g> {
    hold: Option<TimedAssembler<'g>>,
    /// Parts of events, which come last: they are put together in the order of their arrival.
    later: Option<Vec<usize>>,
    taken: RemovedCounts,
    /// Numbers of the events that are taken out.
    gone: Vec<usize>,
}

/// Takes the records of these numbers out, which are in order.
fn take_out(records: &mut Vec<Record>, gone: &[usize]) {
    let Some(first) = gone.first() else {
        return;
    };
    let mut next = gone.iter().peekable();
    let mut kept = *first;
    for at in *first..records.len() {
        if next.next_if_eq(&&at).is_none() {
            records[kept] = records[at];
            kept += 1;
        }
    }
    records.truncate(kept);
}

/// Counts of what recognising took out of a batch.
#[derive(Clone, Copy, Default)]
pub struct RemovedCounts {
    /// Events that a rule filters, and their bytes.
    pub filtered: (u64, u64),
    /// Parts of events that wait for the others, and their bytes.
    pub held: (u64, u64),
}

impl BatchClassifier {
    /// Classifier of one source's events; it neither watches for unclassified ones nor traces yet.
    pub fn new(recognition: ClassifierContext) -> Self {
        let packs = Arc::clone(&recognition.packs);
        let classifier = Classifier::new(packs, recognition.hints.clone());
        Self {
            recognition,
            classifier,
            ids: Vec::new(),
            generation: 0,
            dropped: Vec::new(),
            wholes: HashMap::new(),
            beside: HashMap::new(),
            part: None,
            saw_part: false,
            fallen: None,
            order: EventOrder::default(),
            gone: Vec::new(),
        }
    }

    /// Takes note of events that no rule recognises.
    pub fn watch(mut self) -> Self {
        self.fallen = Some(UnclassifiedNotes::default());
        self
    }

    /// The events of the batch that no rule recognised, if note is taken of them.
    pub fn fallen(&mut self) -> Option<&mut UnclassifiedNotes> {
        self.fallen.as_mut()
    }

    /// True if no rule recognised the last event.
    pub fn fell(&self) -> bool {
        self.classifier.fell()
    }

    /// Remembers what was considered.
    pub fn trace(&mut self) {
        self.classifier.trace();
    }

    /// Rules asked about the last event, in order; empty unless [`Self::trace`] was called before.
    pub fn considered(&self) -> &[RuleTrace] {
        self.classifier.considered()
    }

    /// A new batch is filled.
    pub fn begin(&mut self) {
        self.ids.clear();
        self.saw_part = false;
    }

    /// True if there was a part of an event in the batch.
    pub fn saw_part(&self) -> bool {
        self.saw_part
    }

    /// Recognises the events from number `from` on. What is filtered is taken out, and so are parts
    /// of events, if there is somewhere to hold them.
    pub fn run(
        &mut self,
        builder: &mut BatchBuilder,
        from: usize,
        hold: Option<TimedAssembler<'_>>,
    ) -> RemovedCounts {
        let mut round = ClassificationPass {
            hold,
            later: None,
            taken: RemovedCounts::default(),
            gone: std::mem::take(&mut self.gone),
        };
        let mut order = std::mem::take(&mut self.order);
        // What a host was recognised as counts for its next events, so that these must wait.
        let places = match self.recognition.hints {
            None => order.of(builder.bytes(), &builder.records()[from..]),
            Some(_) => None,
        };
        match places {
            Some(places) => {
                round.later = Some(Vec::new());
                for place in places {
                    self.one(builder, from + *place as usize, &mut round);
                }
                let mut later = round.later.take().unwrap_or_default();
                later.sort_unstable();
                later
                    .into_iter()
                    .for_each(|at| self.one(builder, at, &mut round));
            }
            None => (from..builder.len()).for_each(|at| self.one(builder, at, &mut round)),
        }
        self.order = order;
        let ClassificationPass {
            taken, mut gone, ..
        } = round;
        gone.sort_unstable();
        take_out(builder.records_mut(), &gone);
        gone.clear();
        self.gone = gone;
        taken
    }

    /// Recognises the event of that number.
    fn one(&mut self, builder: &mut BatchBuilder, at: usize, round: &mut ClassificationPass<'_>) {
        let mut record = builder.records()[at];
        let given = record.class;
        if given_class(builder, given).is_some_and(ClassInfo::is_final) {
            return;
        }
        let sender = builder.peer_at(record.peer).map(|peer| peer.ip);
        let hint = hint_of(builder, given).or(self.recognition.product.as_ref());
        let guessed = guessed_zone(&record);
        let place = EventOrigin {
            sender,
            listener: &self.recognition.listener,
            hint: hint.map(|(v, p)| (v.as_str(), p.as_str())),
            zone: guessed.as_ref().unwrap_or(&self.recognition.zone),
        };
        let (verdict, append) = self
            .classifier
            .classify(builder.bytes(), &mut record, place);
        self.part = None;
        if let ClassifierVerdict::Part(number) = verdict {
            if let Some(later) = &mut round.later {
                return later.push(at);
            }
            self.part = Some(number);
            self.saw_part |= !is_answered(builder.origin_at(record.peer));
            if let Some((groups, now)) = &mut round.hold
                && self.hold(builder, &record, groups, *now) != PartOutcome::Not
            {
                round.taken.held.0 += 1;
                round.taken.held.1 += u64::from(record.raw.len);
                round.gone.push(at);
                return;
            }
        }
        match verdict {
            ClassifierVerdict::Class(number) | ClassifierVerdict::Part(number) => {
                if append {
                    builder.append(self.classifier.tail());
                }
                record.class = match given {
                    given if self.classifier.fell() && given != ClassId::UNCLASSIFIED => given,
                    given => self.id_beside(number, given, builder),
                };
                if self.classifier.fell()
                    && let Some(fallen) = &mut self.fallen
                {
                    fallen.note(builder.bytes(), &record);
                }
                builder.records_mut()[at] = record;
            }
            ClassifierVerdict::Dropped(rule) => {
                let rule = rule as usize;
                if self.dropped.len() <= rule {
                    self.dropped.resize(rule + 1, 0);
                }
                self.dropped[rule] += 1;
                round.taken.filtered.0 += 1;
                round.taken.filtered.1 += u64::from(record.raw.len);
                round.gone.push(at);
            }
        }
    }

    /// The rule that the last event is a part by.
    pub fn part_of(&self) -> Option<&str> {
        let (group, _) = self.classifier.part(&[]).filter(|_| self.part.is_some())?;
        Some(&group.rule)
    }

    /// Has the last event, which is `record`, wait for the others of its group. Who waits for an
    /// answer gets it once an event is durable, so that is not held.
    pub fn hold(
        &mut self,
        builder: &BatchBuilder,
        record: &Record,
        groups: &mut MultilineAssembler,
        now: Instant,
    ) -> PartOutcome {
        let origin = builder.origin_at(record.peer);
        let origin = origin.filter(|_| !is_answered(origin));
        let (Some(number), Some(origin)) = (self.part, origin.cloned()) else {
            return PartOutcome::Not;
        };
        if self.generation != self.classifier.generation() {
            self.forget_classes();
        }
        let arena = builder.bytes();
        let Some((rule, part)) = self.classifier.part(arena) else {
            return PartOutcome::Not;
        };
        let class = self.classifier.class(number);
        // What is made of several has a text of its own.
        let class = if rule.is_last() && part.before.is_empty() {
            class
        } else {
            self.wholes.entry(number).or_insert_with(|| {
                Arc::new(ClassInfo {
                    text: EventText::Own,
                    ..ClassInfo::clone(class)
                })
            })
        };
        let tail = self.classifier.tail();
        let from = BatchEvent {
            arena,
            tail,
            record,
            class,
            origin,
        };
        groups.add(rule, &part, &from, now)
    }

    fn forget_classes(&mut self) {
        self.generation = self.classifier.generation();
        self.ids.clear();
        self.wholes.clear();
        self.beside.clear();
    }

    /// Number of a class, with what holds of the one that the source gave.
    fn id_beside(&mut self, number: u32, given: ClassId, builder: &mut BatchBuilder) -> ClassId {
        let index = usize::from(given.0).checked_sub(1);
        let given = index.and_then(|index| builder.classes().get(index));
        let given = given.filter(|given| given.owner.is_some() || !given.fields.is_empty());
        let Some(given) = given.cloned() else {
            return self.id(number, builder);
        };
        if self.generation != self.classifier.generation() {
            self.forget_classes();
        }
        if self.beside.len() >= BESIDE_MAX {
            self.beside.clear();
        }
        let key = (Arc::as_ptr(&given) as usize, number);
        let (_, whole) = self.beside.entry(key).or_insert_with(|| {
            let mut whole = ClassInfo::clone(self.classifier.class(number));
            whole.keep_given(&given);
            (given, Arc::new(whole))
        });
        builder.class(whole)
    }

    fn id(&mut self, number: u32, builder: &mut BatchBuilder) -> ClassId {
        if self.generation != self.classifier.generation() {
            self.forget_classes();
        }
        let slot = number as usize;
        if self.ids.len() <= slot {
            self.ids.resize(slot + 1, ClassId::UNCLASSIFIED);
        }
        if self.ids[slot] == ClassId::UNCLASSIFIED {
            self.ids[slot] = builder.class(self.classifier.class(number));
        }
        self.ids[slot]
    }

    /// Events that were filtered since the last time, by rule.
    pub fn take_dropped(&mut self) -> impl Iterator<Item = (&str, u64)> {
        let classifier = &self.classifier;
        let dropped = self.dropped.iter_mut().enumerate();
        dropped.filter_map(|(rule, count)| {
            let count = std::mem::take(count);
            (count > 0).then(|| (classifier.rule_name(rule as u32), count))
        })
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
