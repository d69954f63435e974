//! One worker's side: asks the expressions about each event of the batch that is being filled.
//!
//! # What it guarantees
//! * Transforms are asked in their order, each about the result of the one before.
//! * An expression that fails leaves the event as it was, and is counted by its rule.
//! * A new message also replaces the old one in the raw record, whatever destination reads it.
//!
//! # Limits
//! `CHANGED_MAX` classes as transforms leave them are remembered; then they are made anew.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use inrush_cel::{CelValue, EvaluationError, EventView, Program};
use inrush_event::{
    BatchBuilder, ClassId, ClassInfo, EventNames, EventText, Extra, ExtraKey, Record, Span,
};

use super::{BatchRouting, TransformRule, TransformRules, TransformTarget, UNROUTED};

/// Classes as transforms leave them that are remembered; far more than there are.
const CHANGED_MAX: usize = 16_384;

/// Asks one worker's events.
pub struct EventTransformer {
    shape: Arc<TransformRules>,
    /// True if routes are asked.
    routing: bool,
    /// Results of the conditions that all events of a class share: by expression, then by class.
    known: Vec<Vec<Option<bool>>>,
    /// Classes as transforms leave them, by the class and the number of the transform. The class is
    /// kept, so that its address stays its own.
    changed: HashMap<(usize, usize), ClassChange>,
    /// The route of each event of the batch.
    routes: Vec<u16>,
    /// Events that were filtered since the last time, by rule.
    filtered: BTreeMap<String, u64>,
    /// Transforms that changed the last event.
    applied: Vec<String>,
}

/// A class, and what a transform made of it.
type ClassChange = (Option<Arc<ClassInfo>>, Arc<ClassInfo>);

/// Number of an event's route, or of the transform that filters it; `usize::MAX`: no route matches.
enum RouteOutcome {
    Route(u16),
    Filtered(usize),
}

impl EventTransformer {
    /// Transformer by these rules; it changes and filters events, and decides the route of each.
    pub fn new(shape: Arc<TransformRules>) -> Self {
        let conditions = shape.transforms.len() + shape.routes.len();
        Self {
            shape,
            routing: true,
            known: vec![Vec::new(); conditions],
            changed: HashMap::new(),
            routes: Vec::new(),
            filtered: BTreeMap::new(),
            applied: Vec::new(),
        }
    }

    /// One that leaves it to others where events go.
    pub fn without_routes(shape: Arc<TransformRules>) -> Self {
        Self {
            routing: false,
            ..Self::new(shape)
        }
    }

    /// A new batch is filled.
    pub fn begin(&mut self) {
        self.known.iter_mut().for_each(Vec::clear);
        self.routes.clear();
    }

    /// Changes, filters and routes the events from number `from` on. Returns how many were
    /// filtered, and their bytes.
    pub fn run(&mut self, builder: &mut BatchBuilder, from: usize) -> (u64, u64) {
        let shape = Arc::clone(&self.shape);
        let (count, mut kept, mut bytes) = (builder.len(), from, 0);
        for index in from..count {
            match self.event(&shape, builder, index) {
                RouteOutcome::Route(route) => {
                    builder.records_mut()[kept] = builder.records()[index];
                    kept += 1;
                    if !shape.routes.is_empty() {
                        self.routes.push(route);
                    }
                }
                RouteOutcome::Filtered(transform) => {
                    let rule = shape.transforms.get(transform);
                    let rule = rule.map_or(UNROUTED, |transform| &transform.rule.name);
                    bytes += u64::from(builder.records()[index].raw.len);
                    match self.filtered.get_mut(rule) {
                        Some(count) => *count += 1,
                        None => drop(self.filtered.insert(rule.to_owned(), 1)),
                    }
                }
            }
        }
        builder.records_mut().truncate(kept);
        ((count - kept) as u64, bytes)
    }

    /// Takes the routes of the events of the batch.
    pub fn routing(&mut self) -> BatchRouting {
        BatchRouting::by_rules(&self.shape, std::mem::take(&mut self.routes))
    }

    /// The transforms that changed the last event.
    pub fn applied(&self) -> &[String] {
        &self.applied
    }

    /// Events that were filtered since the last time, by rule.
    pub fn take_filtered(&mut self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.filtered)
    }

    fn event(
        &mut self,
        shape: &TransformRules,
        builder: &mut BatchBuilder,
        index: usize,
    ) -> RouteOutcome {
        self.applied.clear();
        for (number, transform) in shape.transforms.iter().enumerate() {
            let condition = transform.condition.as_ref();
            match self.holds(number, condition, builder, index) {
                Ok(false) => {}
                Ok(true) if transform.drop => return RouteOutcome::Filtered(number),
                Ok(true) => match values(transform, &view(builder, index)) {
                    Ok(values) => {
                        self.apply(number, transform, values, builder, index);
                        self.applied.push(transform.rule.name.clone());
                    }
                    Err(error) => transform.rule.fail(&error),
                },
                Err(error) => transform.rule.fail(&error),
            }
        }
        if !self.routing || shape.routes.is_empty() {
            return RouteOutcome::Route(0);
        }
        if is_owned(builder, index) {
            // Its owner says where it goes.
            return RouteOutcome::Route(0);
        }
        let first = shape.transforms.len();
        for (number, route) in shape.routes.iter().enumerate() {
            match self.holds(first + number, route.condition.as_ref(), builder, index) {
                Ok(true) => return RouteOutcome::Route(number as u16),
                Ok(false) => {}
                Err(error) => route.rule.fail(&error),
            }
        }
        RouteOutcome::Filtered(usize::MAX)
    }

    /// True if a condition holds; one that all events of a class share is asked once a batch.
    fn holds(
        &mut self,
        number: usize,
        condition: Option<&Program>,
        builder: &BatchBuilder,
        index: usize,
    ) -> Result<bool, EvaluationError> {
        let Some(condition) = condition else {
            return Ok(true);
        };
        let record = &builder.records()[index];
        if !condition.is_of_class() || !record.extra.is_empty() {
            return condition.holds(&view(builder, index));
        }
        let (known, class) = (&mut self.known[number], usize::from(record.class.0));
        if known.len() <= class {
            known.resize(class + 1, None);
        }
        if let Some(holds) = known[class] {
            return Ok(holds);
        }
        let holds = condition.holds(&view(builder, index))?;
        known[class] = Some(holds);
        Ok(holds)
    }

    /// Sets what a transform's expressions gave.
    fn apply(
        &mut self,
        number: usize,
        transform: &TransformRule,
        values: Vec<String>,
        builder: &mut BatchBuilder,
        index: usize,
    ) {
        let mut record = builder.records()[index];
        let mut extra = Vec::new();
        let own = Extra::new(record.extra.of(builder.bytes()));
        let replaced = |key| {
            transform
                .texts
                .iter()
                .any(|(target, _)| *target == TransformTarget::Extra(key))
        };
        let mut fields = own
            .get(ExtraKey::Fields)
            .and_then(object)
            .unwrap_or_default();
        for (key, text) in own {
            if key != ExtraKey::Fields && !replaced(key) {
                Extra::push(key, text, &mut extra);
            }
        }
        let mut values = values.into_iter();
        for ((target, _), value) in transform.texts.iter().zip(values.by_ref()) {
            match target {
                TransformTarget::Extra(key) => Extra::push(*key, value.as_bytes(), &mut extra),
                TransformTarget::Host => record.host = append(builder, value.as_bytes()),
                TransformTarget::Message => set_message(&mut record, value.as_bytes(), builder),
            }
        }
        for ((name, _), value) in transform.fields.iter().zip(values) {
            // An empty field is none.
            if value.is_empty() {
                fields.remove(name);
            } else {
                fields.insert(name.clone(), value.into());
            }
        }
        if !fields.is_empty() {
            let text = serde_json::Value::Object(fields).to_string();
            let inner = text
                .strip_prefix('{')
                .and_then(|text| text.strip_suffix('}'));
            let text = format!(",{}", inner.unwrap_or_default());
            Extra::push(ExtraKey::Fields, text.as_bytes(), &mut extra);
        }
        record.extra = append(builder, &extra);
        record.class = self.class(number, transform, builder, &record);
        builder.records_mut()[index] = record;
    }

    /// The class as the transform leaves it: what the event now has of its own is no more there.
    fn class(
        &mut self,
        number: usize,
        transform: &TransformRule,
        builder: &mut BatchBuilder,
        record: &Record,
    ) -> ClassId {
        let before = class_of(builder, record).cloned();
        let address = before
            .as_ref()
            .map_or(0, |class| Arc::as_ptr(class) as usize);
        if self.changed.len() >= CHANGED_MAX {
            self.changed.clear();
        }
        let (_, changed) = self.changed.entry((address, number)).or_insert_with(|| {
            let mut class = before.as_deref().cloned().unwrap_or_default();
            let set = |name: &String| transform.fields.iter().any(|(known, _)| known == name);
            class.fields.retain(|(name, _)| !set(name));
            if transform
                .texts
                .iter()
                .any(|(to, _)| *to == TransformTarget::Extra(ExtraKey::Event))
            {
                class.text = EventText::Own;
            }
            (before, Arc::new(class))
        });
        builder.class(changed)
    }
}

/// Gives a record another message. The raw record is written anew with it: what a rule masks must
/// not reach a destination that keeps the raw record.
fn set_message(record: &mut Record, message: &[u8], builder: &mut BatchBuilder) {
    let (raw, old) = match record.message.is_empty() {
        true => (record.raw, Span::new(record.raw.end(), record.raw.end())),
        false => (record.raw, record.message),
    };
    let inside = old.start() >= raw.start() && old.end() <= raw.end();
    // An event of a collector is its message, and its envelope tells by that whether it changed.
    if record.format.has_json_fields() || !inside {
        record.raw = append(builder, message);
        record.message = append(builder, message);
        return;
    }
    let part = |from: usize, to: usize| builder.bytes().get(from..to).unwrap_or_default().to_vec();
    let (header, rest) = (part(raw.start(), old.start()), part(old.end(), raw.end()));
    let start = append(builder, &header).start();
    record.message = append(builder, message);
    let end = append(builder, &rest).end();
    record.raw = Span::new(start, end);
    // Parts of the header are found in the record that they are in.
    for span in [
        &mut record.host,
        &mut record.app,
        &mut record.proc_id,
        &mut record.msg_id,
        &mut record.sdata,
    ] {
        if !span.is_empty() && span.start() >= raw.start() && span.end() <= old.start() {
            let at = start + (span.start() - raw.start());
            *span = Span::new(at, at + span.len());
        }
    }
}

/// Texts and fields that a transform's expressions give, in their order.
fn values(
    transform: &TransformRule,
    event: &EventView<'_>,
) -> Result<Vec<String>, EvaluationError> {
    let texts = transform.texts.iter().map(|(_, program)| program);
    let fields = transform.fields.iter().map(|(_, program)| program);
    let value = |program: &Program| {
        Ok(match program.value(event)? {
            CelValue::Bool(holds) => holds.to_string(),
            CelValue::Text(text) => text,
        })
    };
    texts.chain(fields).map(value).collect()
}

fn class_of<'b>(builder: &'b BatchBuilder, record: &Record) -> Option<&'b Arc<ClassInfo>> {
    let number = usize::from(record.class.0).checked_sub(1)?;
    builder.classes().get(number)
}

/// True if the owner of an event's sender names its destinations.
fn is_owned(builder: &BatchBuilder, index: usize) -> bool {
    let class = class_of(builder, &builder.records()[index]);
    let owner = class.and_then(|class| class.owner.as_ref());
    owner.is_some_and(|owner| owner.destinations.is_some())
}

fn view(builder: &BatchBuilder, index: usize) -> EventView<'_> {
    let record = &builder.records()[index];
    let class = class_of(builder, record).map(|class| &**class);
    let extra = Extra::new(record.extra.of(builder.bytes()));
    let peer = builder.peer_at(record.peer);
    EventView {
        arena: builder.bytes(),
        record,
        names: EventNames::of(class, extra, builder.source()),
        class,
        source: builder.source(),
        sender: peer.map(|peer| peer.ip),
        client: peer.and_then(|peer| peer.client.as_deref()),
    }
}

/// The indexed fields of an event, of which each text begins with a comma.
fn object(fields: &[u8]) -> Option<serde_json::Map<String, serde_json::Value>> {
    let fields = fields.strip_prefix(b",")?;
    serde_json::from_slice(&[b"{", fields, b"}"].concat()).ok()
}

fn append(builder: &mut BatchBuilder, bytes: &[u8]) -> Span {
    let start = builder.filled();
    builder.append(bytes);
    Span::new(start, builder.filled())
}
