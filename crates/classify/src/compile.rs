//! Packs, made ready to be asked.

use std::collections::HashMap;

use crate::engine::EventChange;
use crate::index::RuleIndex;
use crate::needs;
use crate::pack::{Branch, Pack, PackLocation, Rule, RuleCondition, RuleStage};
use crate::plan::OWN_STAGES;
use crate::read::StepAction;

/// Compiled packs: shared by all workers, never changed.
#[derive(Debug)]
pub struct CompiledPacks {
    stages: Vec<StageRules>,
    overrides: Overrides,
    rules: usize,
    /// True if a rule of a user's own could be passed over by one that is known by a beginning.
    has_own: bool,
    /// The number of each rule's first branch, with its stage and its place there; ascending.
    starts: Vec<(u32, RuleStage, u32)>,
}

/// The rules of one stage, in the order in which they are asked.
#[derive(Debug, Default)]
pub(crate) struct StageRules {
    pub(crate) rules: Vec<Rule>,
    pub(crate) index: RuleIndex,
    /// The same for the rules that are asked even if an event was recognised.
    pub(crate) over: RuleIndex,
    /// The same for rules that do not come with Inrush: those are not to be passed over by one that
    /// does and is known by a beginning.
    pub(crate) own: RuleIndex,
}

impl StageRules {
    fn new(rules: Vec<Rule>) -> Self {
        let of = |is_one: fn(&Rule) -> bool| {
            let rules = rules.iter();
            RuleIndex::new(rules.map(|rule| is_one(rule).then_some(&rule.branch)))
        };
        let (index, over, own) = (of(|_| true), of(|rule| rule.over), of(|rule| rule.own));
        Self {
            rules,
            index,
            over,
            own,
        }
    }
}

/// Something in packs that is probably not meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackWarning {
    /// The file.
    pub file: String,
    /// Place in the file.
    pub at: PackLocation,
    /// In words.
    pub words: String,
}

/// Two rules of which the second is never taken.
pub type ShadowedRule = (String, String);

/// Texts that a configuration sets in place of what packs set, by `vendor_product` or
/// `vendor_product_class` in lower case.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    by_key: HashMap<String, Override>,
}

/// Override of one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Override {
    pub(crate) index: Option<String>,
    pub(crate) sourcetype: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) text: Option<inrush_event::EventText>,
}

impl Overrides {
    /// Sets what counts for a key; `None` leaves what packs say.
    pub fn insert(
        &mut self,
        key: &str,
        index: Option<String>,
        sourcetype: Option<String>,
        source: Option<String>,
        text: Option<inrush_event::EventText>,
    ) {
        let one = Override {
            index,
            sourcetype,
            source,
            text,
        };
        self.by_key.insert(key.to_ascii_lowercase(), one);
    }

    /// True if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Overrides of a vendor's product, then of its class.
    pub(crate) fn of(&self, vendor: &str, product: &str, class: &str) -> [Option<&Override>; 2] {
        let key = format!("{vendor}_{product}").to_ascii_lowercase();
        let more = format!("{key}_{class}").to_ascii_lowercase();
        let class = (!class.is_empty())
            .then(|| self.by_key.get(&more))
            .flatten();
        [self.by_key.get(&key), class]
    }
}

impl CompiledPacks {
    /// Compiles packs; those that come first are asked first among rules of the same order. What
    /// is not right but does no harm is returned beside them.
    pub fn compile(packs: Vec<Pack>, overrides: Overrides) -> (Self, Vec<PackWarning>) {
        let mut warnings = Vec::new();
        let disabled = disabled(&packs, &mut warnings);
        // The number of the pack that each rule was met in.
        let mut seen: HashMap<String, usize> = HashMap::new();
        let mut stages: Vec<Vec<(String, Rule)>> =
            RuleStage::ALL.iter().map(|_| Vec::new()).collect();
        for (number, pack) in packs.into_iter().enumerate() {
            for mut rule in pack.rules {
                rule.own = !pack.builtin;
                if disabled.contains(&rule.name) {
                    continue;
                }
                // A rule of the same name in an earlier pack stands in for it.
                if let Some(first) = seen.get(&rule.name) {
                    if *first == number {
                        warnings.push(PackWarning {
                            file: pack.file.clone(),
                            at: rule.at,
                            words: format!(
                                "there is a rule `{}` above; this one does not count",
                                rule.name
                            ),
                        });
                    }
                    continue;
                }
                seen.insert(rule.name.clone(), number);
                if let Some(when) = &rule.begins {
                    let early = rule.early(when.clone());
                    stages[RuleStage::Begins as usize].push((pack.file.clone(), early));
                }
                stages[rule.stage as usize].push((pack.file.clone(), rule));
            }
        }
        let rules = seen.len();
        let mut sorted = Vec::new();
        for (stage, mut rules) in RuleStage::ALL.into_iter().zip(stages) {
            rules.sort_by_key(|(_, rule)| rule.order);
            shadows(&rules, &mut warnings);
            let mut rules: Vec<Rule> = rules.into_iter().map(|(_, rule)| rule).collect();
            rules.retain(|rule| !matches!(rule.branch.when, RuleCondition::Never));
            sorted.push((stage, rules));
        }
        needs::prune(&mut sorted);
        let (mut next, mut groups) = (0, 0);
        let stages = sorted.into_iter().map(|(_, mut rules)| {
            for rule in &mut rules {
                number(&mut rule.branch, &mut next, &mut groups);
                rule.branch.then = rule.then;
            }
            StageRules::new(rules)
        });
        let stages: Vec<StageRules> = stages.collect();
        let mut starts = Vec::new();
        for (stage, table) in RuleStage::ALL.into_iter().zip(&stages) {
            let rules = table.rules.iter().enumerate();
            starts.extend(rules.map(|(at, rule)| (rule.branch.id, stage, at as u32)));
        }
        let own = |stage: &RuleStage| !stages[*stage as usize].own.is_empty();
        let packs = Self {
            has_own: OWN_STAGES.iter().any(own),
            stages,
            overrides,
            rules,
            starts,
        };
        (packs, warnings)
    }

    /// No packs at all.
    pub fn none() -> Self {
        Self::compile(Vec::new(), Overrides::default()).0
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.rules
    }

    /// True if rules of a user's own could be passed over by one that is known by a beginning.
    pub(crate) fn has_own(&self) -> bool {
        self.has_own
    }

    /// True if there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules == 0
    }

    /// The rules, by stage.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.stages.iter().flat_map(|table| &table.rules)
    }

    pub(crate) fn table(&self, stage: RuleStage) -> &StageRules {
        &self.stages[stage as usize]
    }

    /// The branch of that number, and the rule that it belongs to.
    pub(crate) fn branch(&self, id: u32) -> Option<(&Rule, &Branch)> {
        let after = self.starts.partition_point(|(start, ..)| *start <= id);
        let (_, stage, at) = self.starts.get(after.checked_sub(1)?)?;
        let rule = self.table(*stage).rules.get(*at as usize)?;
        Some((rule, find(&rule.branch, id)?))
    }

    pub(crate) fn overrides(&self) -> &Overrides {
        &self.overrides
    }
}

fn disabled(packs: &[Pack], warnings: &mut Vec<PackWarning>) -> Vec<String> {
    let names: Vec<&String> = packs
        .iter()
        .flat_map(|p| &p.rules)
        .map(|r| &r.name)
        .collect();
    let mut out = Vec::new();
    for pack in packs {
        for (name, at) in &pack.disable {
            if !names.contains(&name) {
                warnings.push(PackWarning {
                    file: pack.file.clone(),
                    at: *at,
                    words: format!("there is no rule `{name}` that could be disabled"),
                });
            }
            out.push(name.clone());
        }
    }
    out
}

/// Numbers branches and expressions with groups, and makes branches ready to be taken. Cases that
/// options rule out go.
fn number(branch: &mut Branch, next: &mut u32, groups: &mut usize) {
    let possible = |case: &Branch| !matches!(case.when, RuleCondition::Never);
    branch.cases.retain(possible);
    branch.id = *next;
    *next += 1;
    branch.acts = EventChange::all(&branch.set);
    branch.has_cases = !branch.cases.is_empty();
    branch.says = branch.set.sourcetype.is_some() || branch.set.vendor.is_some();
    for step in &mut branch.read {
        if let StepAction::Regex(regex) = &mut step.action {
            regex.id = *groups;
            *groups += 1;
        }
    }
    branch
        .cases
        .iter_mut()
        .for_each(|case| number(case, next, groups));
}

fn find(branch: &Branch, id: u32) -> Option<&Branch> {
    if branch.id == id {
        return Some(branch);
    }
    branch.cases.iter().find_map(|case| find(case, id))
}

/// Warns of rules that are never taken, since an earlier one takes all that they could.
fn shadows(rules: &[(String, Rule)], warnings: &mut Vec<PackWarning>) {
    for (at, (file, rule)) in rules.iter().enumerate() {
        let Some(wanted) = alternatives(&rule.branch.when) else {
            continue;
        };
        let covering = rules[..at].iter().find(|(_, earlier)| {
            let sure = earlier.branch.read.iter().all(|step| step.optional) && !earlier.over;
            let same = earlier.order <= rule.order;
            let covers = alternatives(&earlier.branch.when);
            sure && same
                && covers.is_some_and(|covers| {
                    wanted
                        .iter()
                        .all(|one| covers.iter().any(|other| is_covered(one, other)))
                })
        });
        if let Some((other, earlier)) = covering {
            warnings.push(PackWarning {
                file: file.clone(),
                at: rule.at,
                words: format!(
                    "`{}` is never taken: `{}` ({other}:{}) comes first and takes all of it",
                    rule.name, earlier.name, earlier.at.line
                ),
            });
        }
    }
}

/// The conditions of which each alone is enough.
fn alternatives(when: &RuleCondition) -> Option<Vec<&RuleCondition>> {
    match when {
        RuleCondition::Any(any) => {
            let lists: Option<Vec<_>> = any.iter().map(alternatives).collect();
            lists.map(|lists| lists.into_iter().flatten().collect())
        }
        RuleCondition::Part(..) | RuleCondition::Hint(..) | RuleCondition::All(_) => {
            Some(vec![when])
        }
        _ => None,
    }
}

/// True if `other` takes everything that `one` takes.
fn is_covered(one: &RuleCondition, other: &RuleCondition) -> bool {
    match (one, other) {
        (RuleCondition::All(all), other) if !matches!(other, RuleCondition::All(_)) => {
            all.iter().any(|part| is_covered(part, other))
        }
        (RuleCondition::Part(test), RuleCondition::Part(wider)) => {
            test.part == wider.part && wider.pattern.covers(&test.pattern)
        }
        (RuleCondition::Hint(v, p), RuleCondition::Hint(w, q)) => (v, p) == (w, q),
        _ => false,
    }
}
