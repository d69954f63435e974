//! Class cache of one worker: the branches taken by an event map to a class number and its texts.
//!
//! # What it guarantees
//! * Equal chains of branches get equal class numbers within one generation.
//! * An event of a plain class gets no extra texts, unless its time stayed unread.
//!
//! # States
//! `ClassCache::number` makes a class at the first event of its chain. `ClassCache::of_program`
//! makes a variant for one program, once that program is frequent. A full cache is emptied: the
//! generation then grows, older numbers become invalid, and the plans are emptied too.
//!
//! # Limits
//! At most `CLASSES_MAX` classes are cached; variants are made below half of that. An event has at
//! most 12 extra texts; further texts are left out.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use inrush_event::{ClassInfo, EventText, Extra, ExtraKey, Record, Span};
use smallvec::SmallVec;

use crate::compile::{CompiledPacks, Override};
use crate::event::{Event, PropertyText};
use crate::pack::{Branch, BranchSettings, OutputTemplate, Rule, RuleStage};
use crate::plan::PlanCache;
use crate::render;
use crate::template::TextTemplate;

/// Ways through the packs that are remembered; far more than packs have.
const CLASSES_MAX: usize = 16_384;

/// The branches that were taken, in order, and the number of their class.
type BranchChain = (Vec<u32>, u32);

/// The classes that one worker has met.
#[derive(Debug, Default)]
pub(crate) struct ClassCache {
    by_chain: HashMap<u64, Vec<BranchChain>, BuildHasherDefault<IdentityHasher>>,
    /// The chain of the last event, for runs of events of one kind.
    last: Option<BranchChain>,
    all: Vec<Class>,
    /// Of each of them, whether events have nothing beyond it but a time that was not read.
    plain: Vec<bool>,
    generation: u32,
}

#[derive(Debug)]
struct Class {
    info: Arc<ClassInfo>,
    /// The texts that differ from event to event.
    dynamic: Vec<(ExtraKey, TextTemplate)>,
    fields: Vec<(String, TextTemplate)>,
    template: Option<OutputTemplate>,
    /// True if overrides must be looked up for each event, since its key differs.
    looks_up: bool,
    /// True if some of its texts follow from the program alone.
    by_program: bool,
}

impl ClassCache {
    pub(crate) fn info(&self, number: u32) -> &Arc<ClassInfo> {
        &self.all[number as usize].info
    }

    /// The number of the class of this way through the packs.
    pub(crate) fn number(
        &mut self,
        packs: &CompiledPacks,
        chain: &[u32],
        plans: &mut PlanCache,
    ) -> u32 {
        if let Some((last, number)) = &self.last
            && last == chain
        {
            return *number;
        }
        let key = hash(chain, 0);
        let same = self.by_chain.get(&key).map_or(&[][..], Vec::as_slice);
        let known = same.iter().find(|(known, _)| known == chain);
        let number = match known {
            Some((_, number)) => *number,
            None => self.make(packs, chain, key, plans),
        };
        let (last, known) = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(chain);
        *known = number;
        number
    }

    #[cold]
    fn make(
        &mut self,
        packs: &CompiledPacks,
        chain: &[u32],
        key: u64,
        plans: &mut PlanCache,
    ) -> u32 {
        if self.all.len() >= CLASSES_MAX {
            self.all.clear();
            self.plain.clear();
            self.by_chain.clear();
            plans.clear();
            self.generation += 1;
        }
        let number = self.add(Class::new(packs, chain));
        self.by_chain
            .entry(key)
            .or_default()
            .push((chain.to_vec(), number));
        number
    }

    fn add(&mut self, class: Class) -> u32 {
        self.plain.push(class.is_plain());
        self.all.push(class);
        self.all.len() as u32 - 1
    }

    /// Number of times that the class numbers began anew.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// The class that has the texts which follow from the event's program, and whether it always
    /// will be that one for the program.
    pub(crate) fn of_program(
        &mut self,
        number: u32,
        plan: Option<u32>,
        plans: &mut PlanCache,
        event: &mut Event<'_>,
    ) -> (u32, bool) {
        let Some(plan) = plan.filter(|_| self.all[number as usize].by_program) else {
            return (number, true);
        };
        let enough = match plans.class(plan, number) {
            Ok(special) => return (special, true),
            Err(enough) => enough && self.all.len() < CLASSES_MAX / 2,
        };
        let special = enough
            .then(|| self.all[number as usize].special(event))
            .flatten();
        let Some(special) = special else {
            return (number, false);
        };
        let special = self.add(special);
        plans.keep_class(plan, number, special);
        (special, true)
    }

    /// Writes what the event has beyond its class. Which of its scratch bytes must be appended to
    /// the arena: those from this one on, `None`: none. With `whole` all, if any.
    pub(crate) fn stamp(
        &self,
        number: u32,
        packs: &CompiledPacks,
        event: &mut Event<'_>,
        whole: bool,
    ) -> Option<usize> {
        let number = number as usize;
        event.record.extra = match self.plain[number] && event.unread.is_none() {
            true => Span::EMPTY,
            false => self.all[number].extra(packs, event),
        };
        let (end, record) = (event.arena.len(), &event.record);
        let parts = [
            record.host,
            record.app,
            record.proc_id,
            record.msg_id,
            record.sdata,
            record.message,
            record.extra,
        ];
        let beyond = |span: &Span| !span.is_empty() && span.end() > end;
        match (parts.iter().any(beyond), whole) {
            (false, _) => None,
            (true, true) => Some(0),
            (true, false) => Some(closer(end, &mut event.record)),
        }
    }
}

/// Has the spans beyond `end` begin there; by how many bytes they lay further away. What lies
/// before them are mostly names and values that only the rules asked for.
#[inline(never)]
fn closer(end: usize, record: &mut Record) -> usize {
    let mut parts = [
        &mut record.host,
        &mut record.app,
        &mut record.proc_id,
        &mut record.msg_id,
        &mut record.sdata,
        &mut record.message,
        &mut record.extra,
    ];
    let beyond = |span: &&mut &mut Span| !span.is_empty() && span.end() > end;
    let starts = parts.iter_mut().filter(beyond).map(|span| span.start());
    let unused = starts.min().map_or(0, |first| first - end);
    for span in parts.iter_mut().filter(beyond) {
        **span = Span::new(span.start() - unused, span.end() - unused);
    }
    unused
}

/// Mixes the numbers of branches. They come from packs, not from events: nobody can choose them.
pub(crate) fn hash(chain: &[u32], seed: u32) -> u64 {
    let mix = |hash: u64, number: u32| {
        (hash ^ u64::from(number))
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
            .rotate_left(29)
    };
    // The seed is a step of its own, or it would make up for another first branch.
    let seed = mix(0x9e37_79b9_7f4a_7c15, seed);
    chain.iter().fold(seed, |hash, id| mix(hash, *id))
}

/// Takes a key that is a hash already for its own.
#[derive(Default)]
pub(crate) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 << 8) | u64::from(*byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// Indexed fields: what is fixed goes to the class, the rest is returned.
fn fields(branches: &[(&Rule, &Branch)], info: &mut ClassInfo) -> Vec<(String, TextTemplate)> {
    let mut fields: Vec<(String, TextTemplate)> = Vec::new();
    for (name, text) in branches.iter().flat_map(|(_, branch)| &branch.set.fields) {
        fields.retain(|(known, _)| known != name);
        fields.push((name.clone(), text.clone()));
    }
    fields.retain(|(name, text)| match text {
        TextTemplate::Fixed(value) => {
            info.fields.push((name.clone(), value.clone()));
            false
        }
        TextTemplate::Pieces(_) => true,
    });
    fields
}

/// True if a text is put together when all rules have been asked.
fn is_late(key: ExtraKey) -> bool {
    matches!(
        key,
        ExtraKey::Index | ExtraKey::Sourcetype | ExtraKey::Source
    )
}

fn fixed(text: &TextTemplate) -> Option<String> {
    match text {
        TextTemplate::Fixed(text) => Some(text.clone()),
        TextTemplate::Pieces(_) => None,
    }
}

impl Class {
    fn new(packs: &CompiledPacks, chain: &[u32]) -> Self {
        let branches: Vec<_> = chain.iter().filter_map(|id| packs.branch(*id)).collect();
        let sets = || branches.iter().rev().map(|(_, branch)| &branch.set);
        let mut rules: Vec<&str> = Vec::new();
        for (rule, _) in &branches {
            if rules.last() != Some(&rule.name.as_str()) {
                rules.push(&rule.name);
            }
        }
        let mut dynamic = Vec::new();
        let mut text = |key: ExtraKey, of: fn(&BranchSettings) -> Option<&TextTemplate>| {
            let text = sets().find_map(of)?;
            if text.is_dynamic() {
                dynamic.push((key, text.clone()));
            }
            fixed(text)
        };
        let mut info = ClassInfo {
            vendor: text(ExtraKey::Vendor, |set| set.vendor.as_ref()),
            product: text(ExtraKey::Product, |set| set.product.as_ref()),
            class: text(ExtraKey::Class, |set| set.class.as_ref()),
            index: text(ExtraKey::Index, |set| set.index.as_ref()),
            sourcetype: text(ExtraKey::Sourcetype, |set| set.sourcetype.as_ref()),
            source: text(ExtraKey::Source, |set| set.source.as_ref()),
            rules: rules.join("|"),
            received_time: sets().any(|set| set.received_time),
            ..ClassInfo::default()
        };
        let template = sets().find_map(|set| set.template.clone());
        info.text = match &template {
            None => EventText::ByFormat,
            Some(OutputTemplate::Fixed(text)) => *text,
            Some(_) => EventText::Own,
        };
        let fields = fields(&branches, &mut info);
        let key = |key| dynamic.iter().any(|(dynamic, _)| *dynamic == key);
        let keyed = key(ExtraKey::Vendor) || key(ExtraKey::Product) || key(ExtraKey::Class);
        let looks_up = keyed && !packs.overrides().is_empty();
        let mut class = Self {
            info: Arc::default(),
            dynamic,
            fields,
            template,
            looks_up,
            by_program: false,
        };
        // What the last rules set goes before what is configured for a product.
        let late = branches
            .iter()
            .filter(|(rule, _)| rule.stage == RuleStage::After);
        let late: Vec<&BranchSettings> = late.map(|(_, branch)| &branch.set).collect();
        if !looks_up {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let (vendor, product) = (text(&info.vendor), text(&info.product));
            let found = packs.overrides().of(&vendor, &product, &text(&info.class));
            for one in found.into_iter().flatten() {
                class.overlay(one, &late, &mut info);
            }
        }
        let of_program = |(_, text): &(ExtraKey, TextTemplate)| text.is_of_program();
        class.by_program = !looks_up
            && (class
                .dynamic
                .iter()
                .any(|one| is_late(one.0) && of_program(one))
                || class.fields.iter().any(|(_, text)| text.is_of_program()));
        class.info = Arc::new(info);
        class
    }

    /// The same with the texts that follow from this event's program; `None`: they are no text.
    #[cold]
    fn special(&self, event: &mut Event<'_>) -> Option<Self> {
        let mut info = ClassInfo::clone(&self.info);
        let mut special = Self {
            info: Arc::default(),
            dynamic: Vec::new(),
            fields: Vec::new(),
            template: self.template.clone(),
            looks_up: false,
            by_program: false,
        };
        let mut value = |text: &TextTemplate| {
            let span = event.eval(text);
            String::from_utf8(event.bytes(span).to_vec()).ok()
        };
        for (key, text) in &self.dynamic {
            if !is_late(*key) || !text.is_of_program() {
                special.dynamic.push((*key, text.clone()));
                continue;
            }
            let value = Some(value(text)?);
            match key {
                ExtraKey::Index => info.index = value,
                ExtraKey::Sourcetype => info.sourcetype = value,
                _ => info.source = value,
            }
        }
        for (name, text) in &self.fields {
            if !text.is_of_program() {
                special.fields.push((name.clone(), text.clone()));
                continue;
            }
            // A field that is empty is none.
            let value = value(text)?;
            if !value.is_empty() {
                info.fields.push((name.clone(), value));
            }
        }
        special.info = Arc::new(info);
        Some(special)
    }

    /// Puts the texts of the configuration in place of those that packs set.
    fn overlay(&mut self, one: &Override, late: &[&BranchSettings], info: &mut ClassInfo) {
        let is_set = |of: fn(&BranchSettings) -> bool| late.iter().any(|set| of(set));
        let index = is_set(|set| set.index.is_some());
        let sourcetype = is_set(|set| set.sourcetype.is_some());
        let source = is_set(|set| set.source.is_some());
        let texts = [
            (ExtraKey::Index, &one.index, index, &mut info.index),
            (
                ExtraKey::Sourcetype,
                &one.sourcetype,
                sourcetype,
                &mut info.sourcetype,
            ),
            (ExtraKey::Source, &one.source, source, &mut info.source),
        ];
        for (key, new, is_set, old) in texts {
            if new.is_some() && !is_set {
                old.clone_from(new);
                self.dynamic.retain(|(dynamic, _)| *dynamic != key);
            }
        }
        if let Some(text) = one.text {
            info.text = text;
            self.template = None;
        }
    }

    fn is_plain(&self) -> bool {
        let same = self.dynamic.is_empty() && self.fields.is_empty();
        same && self.info.text != EventText::Own
    }

    /// Writes what this event has beyond its class.
    #[inline(never)]
    fn extra(&self, packs: &CompiledPacks, event: &mut Event<'_>) -> Span {
        // Each text is put together first, then copied behind its key.
        let mut texts = SmallVec::<[(ExtraKey, Span); 12]>::new();
        let mut push = |key, span| texts.push((key, span));
        for (key, text) in &self.dynamic {
            let slot = match key {
                ExtraKey::Vendor => event.vendor,
                ExtraKey::Product => event.product,
                ExtraKey::Class => event.class,
                _ => PropertyText::Unset,
            };
            let span = match slot {
                PropertyText::Own(span) => span,
                _ => event.eval(text),
            };
            push(*key, span);
        }
        if self.looks_up {
            self.look_up(packs, event, &mut push);
        }
        match &self.template {
            Some(OutputTemplate::JsonValues) if !event.object.is_empty() => {
                push(ExtraKey::Json, event.object);
            }
            Some(OutputTemplate::JsonValues) => push(ExtraKey::Json, render::json_values(event)),
            Some(OutputTemplate::KvValues) => push(ExtraKey::Event, render::kv_values(event)),
            Some(OutputTemplate::Text(text)) => {
                let span = event.eval(text);
                push(ExtraKey::Event, span);
            }
            Some(OutputTemplate::Fixed(_)) | None => {}
        }
        if !self.fields.is_empty() || event.unread.is_some() {
            push(ExtraKey::Fields, render::fields(&self.fields, event));
        }
        let start = event.here();
        for (key, span) in texts {
            let mut head = [0; 5];
            head[0] = key as u8;
            head[1..].copy_from_slice(&span.len.to_le_bytes());
            event.scratch.bytes.extend_from_slice(&head);
            event.copy(span);
        }
        Span::new(start, event.here())
    }

    /// Overrides by this event's own vendor, product and class. What is found comes after what the
    /// packs say, and the last of a kind counts... so the packs' texts are given up by the reader
    /// of the first: see [`Extra::get`].
    #[cold]
    fn look_up(
        &self,
        packs: &CompiledPacks,
        event: &mut Event<'_>,
        push: &mut impl FnMut(ExtraKey, Span),
    ) {
        use crate::pack::EventPart;
        let text = |part: EventPart| String::from_utf8_lossy(event.part(&part)).into_owned();
        let (vendor, product, class) = (
            text(EventPart::Vendor),
            text(EventPart::Product),
            text(EventPart::Class),
        );
        let found = packs.overrides().of(&vendor, &product, &class);
        for one in found.into_iter().flatten() {
            let texts = [
                (ExtraKey::Index, &one.index),
                (ExtraKey::Sourcetype, &one.sourcetype),
                (ExtraKey::Source, &one.source),
            ];
            for (key, text) in texts {
                if let Some(text) = text {
                    push(key, event.keep(text.as_bytes()));
                }
            }
        }
    }
}

const _: fn(ExtraKey, &[u8], &mut Vec<u8>) = Extra::push;

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn a_seed_does_not_make_up_for_a_branch() {
        assert_ne!(hash(&[1], 2), hash(&[2], 1));
        assert_ne!(hash(&[1, 5], 2), hash(&[2, 5], 1));
    }
}
