//! Events that are known by how they begin, unless a rule of a user's own may want them.

use jiff::tz::TimeZone;

use super::ClassifierRun;
use super::undo::EventSavepoint;
use crate::event::PropertyText;
use crate::pack::RuleStage;
use crate::plan::{OWN, OWN_STAGES};

/// What is known of an event at one moment of its way.
#[derive(Clone, Copy)]
struct EventSnapshot<'a> {
    read: EventSavepoint<'a>,
    set: [PropertyText<'a>; 3],
    hint: [PropertyText<'a>; 2],
    zone: Option<&'a TimeZone>,
    hinted: bool,
    recognised: bool,
    dropped: Option<&'a str>,
}

impl<'a> ClassifierRun<'_, 'a> {
    /// True if the event is known by how it begins. A rule of a user's own that could take it has
    /// it be asked about as if it were not, so that what comes with Inrush takes nothing from it.
    pub(super) fn begins(&mut self) -> bool {
        match self.packs.has_own() {
            true => {
                let begins = self.begins_beside_own();
                self.renew();
                begins
            }
            false => self.stage(RuleStage::Begins),
        }
    }

    #[inline(never)]
    fn begins_beside_own(&mut self) -> bool {
        let (length, before) = (self.work.chain.len(), self.state());
        if !self.stage(RuleStage::Begins) {
            return false;
        }
        let rule = self.work.chain.get(length);
        let own = rule.and_then(|id| self.packs.branch(*id));
        if own.is_some_and(|(rule, _)| rule.own) {
            return true;
        }
        let (after, program) = (self.state(), self.event.record.app);
        self.set_state(&before);
        let mut held = self.own_holds();
        if !held && !program.is_empty() {
            // What the rule made of the program may be what a user's own rule asks for.
            self.set_state(&after);
            held = self.own_holds();
        }
        if held {
            self.set_state(&before);
            self.undo(&before.read);
            return false;
        }
        self.set_state(&after);
        true
    }

    /// True if the condition of a user's own rule holds in one of the stages that a beginning
    /// passes over.
    fn own_holds(&mut self) -> bool {
        let mut stages = OWN_STAGES.into_iter().enumerate();
        stages.any(|(at, stage)| {
            let (table, slot) = (self.packs.table(stage), OWN + at);
            let plan = self.plan();
            let closed = |plan| self.work.plans.closed(plan) >> slot & 1 == 1;
            if table.own.is_empty() || !table.own.has_hints() && plan.is_some_and(closed) {
                return false;
            }
            let base = self.work.candidates.len();
            self.candidates(plan, slot, table, &table.own);
            let holds = (base..self.work.candidates.len()).any(|at| {
                let candidate = self.work.candidates[at];
                let rule = &table.rules[candidate.rule()];
                self.open_condition(rule, candidate).is_none()
            });
            self.work.candidates.truncate(base);
            holds
        })
    }

    /// All that rules change but for values, texts and the way through the packs.
    fn state(&self) -> EventSnapshot<'a> {
        let event = &self.event;
        EventSnapshot {
            read: self.before(),
            set: [event.vendor, event.product, event.class],
            hint: [event.hint_vendor, event.hint_product],
            zone: event.zone,
            hinted: self.hinted,
            recognised: self.recognised,
            dropped: self.dropped,
        }
    }

    fn set_state(&mut self, state: &EventSnapshot<'a>) {
        self.put_back(&state.read);
        let event = &mut self.event;
        [event.vendor, event.product, event.class] = state.set;
        [event.hint_vendor, event.hint_product] = state.hint;
        event.zone = state.zone;
        self.hinted = state.hinted;
        self.recognised = state.recognised;
        self.dropped = state.dropped;
    }
}
