//! Expressions as a program for a backtracking matcher that mostly need not backtrack.
//!
//! The expressions of packs are sequences of literals and of runs of one class of bytes, and what
//! follows a run seldom can begin with a byte of it. Where that is so, a run is taken as a whole
//! and never given back; where the next byte decides between branches, only one is tried. Such
//! an expression costs a few nanoseconds per element; general engines take a microsecond for one
//! with groups, most of it when they were not used a moment before.
//!
//! What remains is bounded by a budget of steps for the whole search. Whoever exceeds it is
//! answered by the general engine, whose time is linear in the text.

use regex_syntax::hir::{Class, Hir, HirKind, Look};
use smallvec::SmallVec;

/// Elements of a program; a longer one is left to the general engine.
const OPS_MAX: usize = 1024;

/// Steps for a search, and for each byte of the text.
const STEPS: usize = 1024;
const STEPS_PER_BYTE: usize = 2;

/// Bytes of a run that count as a step.
const RUN_STEP: usize = 4;

/// A set of bytes.
type Set = Box<[bool; 256]>;

#[derive(Clone, Debug)]
enum Op {
    Byte(u8),
    Literal(Box<[u8]>),
    One(u16),
    /// A run of bytes of a set, as long as it may be. What can begin nowhere within it follows:
    /// it is not given back.
    Run {
        set: u16,
        least: u32,
        most: u32,
    },
    /// The same, given back byte by byte.
    Give {
        set: u16,
        least: u32,
        most: u32,
    },
    /// A run as short as it may be.
    Lazy {
        set: u16,
        least: u32,
        most: u32,
    },
    /// Goes on, and later perhaps there.
    Split(u16),
    /// Goes on if the next byte is of the set, and else there.
    Decide(u16, u16),
    /// The same, and later perhaps there.
    Prefer(u16, u16),
    Jump(u16),
    Save(u16),
    Start,
    End,
    Boundary(bool),
    Match,
}

/// A program.
#[derive(Clone, Debug)]
pub(super) struct Program {
    ops: Box<[Op]>,
    sets: Box<[Set]>,
    /// Twice the number of groups, the whole match among them.
    slots: usize,
    from: From,
}

/// Where a match can begin.
#[derive(Clone, Debug)]
enum From {
    /// At the beginning of the text only.
    Start,
    Byte(u8),
    Text(Box<memchr::memmem::Finder<'static>>),
}

/// Where groups lie: `u32::MAX` stands for nowhere.
pub(crate) type Slots = SmallVec<[u32; 24]>;

/// What a search came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Yes,
    No,
    /// The budget is used up.
    Unknown,
}

/// What the rest of an expression can begin with. To take more for possible is never wrong.
#[derive(Clone)]
struct First {
    set: Set,
    /// Whether the rest can match nothing although the text goes on, and then wants more.
    empty: bool,
    /// Whether the rest can match nothing, whatever follows.
    done: bool,
    /// Whether the rest can match nothing at the end of the text.
    end: bool,
}

impl First {
    fn nothing() -> Self {
        Self {
            set: Box::new([false; 256]),
            empty: false,
            done: false,
            end: false,
        }
    }

    fn done() -> Self {
        Self {
            done: true,
            ..Self::nothing()
        }
    }

    fn anything() -> Self {
        Self {
            set: Box::new([true; 256]),
            empty: true,
            done: true,
            end: true,
        }
    }

    /// Whether it can begin with none of these bytes, nor with nothing. At the end of a run of them
    /// that is as long as it can be, what is done is done: nothing need be given back.
    fn is_disjoint(&self, set: &[bool; 256]) -> bool {
        !self.empty && !self.set.iter().zip(set).any(|(a, b)| *a && *b)
    }

    fn or(mut self, other: &Self) -> Self {
        for (a, b) in self.set.iter_mut().zip(other.set.iter()) {
            *a |= *b;
        }
        self.empty |= other.empty;
        self.done |= other.done;
        self.end |= other.end;
        self
    }
}

/// What `hir` and then `rest` can begin with.
fn first(hir: &Hir, rest: &First) -> First {
    match hir.kind() {
        HirKind::Empty => rest.clone(),
        HirKind::Look(Look::End) => First {
            end: true,
            ..First::nothing()
        },
        HirKind::Look(_) | HirKind::Class(Class::Unicode(_)) => First::anything(),
        HirKind::Literal(text) => {
            let mut one = First::nothing();
            match text.0.first() {
                Some(byte) => one.set[usize::from(*byte)] = true,
                None => return rest.clone(),
            }
            one
        }
        HirKind::Class(Class::Bytes(_)) => set_of(hir).map_or_else(First::anything, |set| First {
            set,
            ..First::nothing()
        }),
        HirKind::Repetition(again) if is_nullable(&again.sub) => First::anything(),
        HirKind::Repetition(again) => {
            let one = first(&again.sub, &First::nothing());
            if again.min == 0 { one.or(rest) } else { one }
        }
        HirKind::Capture(capture) => first(&capture.sub, rest),
        HirKind::Concat(parts) => {
            let last = rest.clone();
            parts
                .iter()
                .rev()
                .fold(last, |rest, part| first(part, &rest))
        }
        HirKind::Alternation(parts) => {
            let none = First::nothing();
            parts
                .iter()
                .fold(none, |all, part| first(part, rest).or(&all))
        }
    }
}

fn is_nullable(hir: &Hir) -> bool {
    hir.properties().minimum_len() == Some(0)
}

/// The bytes that a part of one byte can be.
fn set_of(hir: &Hir) -> Option<Set> {
    let mut set = Box::new([false; 256]);
    match hir.kind() {
        HirKind::Class(Class::Bytes(class)) => {
            for range in class.ranges() {
                for byte in range.start()..=range.end() {
                    set[usize::from(byte)] = true;
                }
            }
        }
        HirKind::Literal(text) if text.0.len() == 1 => set[usize::from(text.0[0])] = true,
        _ => return None,
    }
    Some(set)
}

/// Puts a program together.
struct Builder {
    ops: Vec<Op>,
    sets: Vec<Set>,
    /// Whether groups are wanted.
    saves: bool,
}

impl Program {
    /// The program of an expression; `None`: it has something that is left to the general engine.
    /// Without `saves` only whether it matches can be asked.
    pub(super) fn new(hir: &Hir, saves: bool) -> Option<Self> {
        let anchored = hir.properties().look_set_prefix().contains(Look::Start);
        let from = if anchored {
            From::Start
        } else {
            let mut prefix = Vec::new();
            let _ = super::collect(hir, &mut prefix);
            match prefix.as_slice() {
                [] => return None,
                // A byte is found too often if something longer is looked for.
                [_] if super::longest(hir).is_some_and(|text| text.len() > 3) => return None,
                [byte] => From::Byte(*byte),
                text => From::Text(Box::new(memchr::memmem::Finder::new(text).into_owned())),
            }
        };
        let mut builder = Builder {
            ops: Vec::new(),
            sets: Vec::new(),
            saves,
        };
        builder.add(hir, &First::done())?;
        builder.ops.push(Op::Match);
        let groups = hir.properties().explicit_captures_len() + 1;
        Some(Self {
            ops: builder.ops.into(),
            sets: builder.sets.into(),
            slots: if saves { 2 * groups } else { 0 },
            from,
        })
    }

    /// Looks for the first match. Where it and its groups lie is put into `slots`.
    pub(super) fn search(&self, text: &[u8], slots: &mut Slots) -> Found {
        let mut steps = STEPS + STEPS_PER_BYTE * text.len();
        let mut at = 0;
        loop {
            let Some(rest) = text.get(at..) else {
                return Found::No;
            };
            let found = match &self.from {
                From::Start if at > 0 => return Found::No,
                From::Start => Some(0),
                From::Byte(byte) => memchr::memchr(*byte, rest),
                From::Text(finder) => finder.find(rest),
            };
            let Some(found) = found else {
                return Found::No;
            };
            at += found;
            slots.clear();
            slots.resize(self.slots, u32::MAX);
            match self.run(text, at, slots, &mut steps) {
                Found::No => at += 1,
                known => return known,
            }
        }
    }

    fn set(&self, number: u16) -> &[bool; 256] {
        &self.sets[usize::from(number)]
    }

    /// How many bytes from `at` on are of the set, up to `most`.
    fn length(&self, set: u16, rest: &[u8], most: u32, steps: &mut usize) -> usize {
        let set = self.set(set);
        let rest = &rest[..rest.len().min(most as usize)];
        let end = rest.iter().position(|byte| !set[usize::from(*byte)]);
        let length = end.unwrap_or(rest.len());
        *steps = steps.saturating_sub(length / RUN_STEP);
        length
    }

    fn begins(&self, text: &[u8], set: u16) -> bool {
        text.first()
            .is_some_and(|byte| self.set(set)[usize::from(*byte)])
    }

    /// Takes the run that an element asks for; whether it is long enough.
    fn repeat(
        &self,
        op: usize,
        text: &[u8],
        at: &mut usize,
        later: &mut Later,
        steps: &mut usize,
    ) -> bool {
        let rest = &text[*at..];
        match &self.ops[op] {
            Op::Run { set, least, most } => {
                let length = self.length(*set, rest, *most, steps);
                *at += length;
                length >= *least as usize
            }
            Op::Give { set, least, most } => {
                let length = self.length(*set, rest, *most, steps);
                let shortest = *at + *least as usize;
                *at += length;
                if *at > shortest {
                    later.push(Entry::Shorter(op as u16 + 1, shortest as u32, *at as u32));
                }
                *at >= shortest
            }
            Op::Lazy { set, least, most } => {
                let length = self.length(*set, rest, *least, steps);
                let left = most.saturating_sub(*least);
                *at += length;
                if length == *least as usize && left > 0 {
                    later.push(Entry::Longer(op as u16, *at as u32, left));
                }
                length == *least as usize
            }
            _ => true,
        }
    }

    fn run(&self, text: &[u8], begin: usize, slots: &mut Slots, steps: &mut usize) -> Found {
        let (mut at, mut next, mut later) = (begin, 0, Later::new());
        loop {
            let Some(left) = steps.checked_sub(1) else {
                return Found::Unknown;
            };
            *steps = left;
            let rest = &text[at..];
            let on = match &self.ops[next] {
                Op::Match => {
                    whole(slots, begin, at);
                    return Found::Yes;
                }
                Op::Byte(byte) => {
                    at += 1;
                    rest.first() == Some(byte)
                }
                Op::Literal(literal) => {
                    at += literal.len();
                    rest.starts_with(literal)
                }
                Op::One(set) => {
                    at += 1;
                    self.begins(rest, *set)
                }
                Op::Run { .. } | Op::Give { .. } | Op::Lazy { .. } => {
                    self.repeat(next, text, &mut at, &mut later, steps)
                }
                Op::Split(other) => {
                    later.push(Entry::Go(*other, at as u32));
                    true
                }
                Op::Decide(set, other) | Op::Prefer(set, other) => {
                    if !self.begins(rest, *set) {
                        next = usize::from(*other);
                        continue;
                    }
                    if matches!(self.ops[next], Op::Prefer(..)) {
                        later.push(Entry::Go(*other, at as u32));
                    }
                    true
                }
                Op::Jump(to) => {
                    next = usize::from(*to);
                    continue;
                }
                Op::Save(slot) => {
                    let old = std::mem::replace(&mut slots[usize::from(*slot)], at as u32);
                    if !later.is_empty() {
                        later.push(Entry::Restore(*slot, old));
                    }
                    true
                }
                Op::Start => at == 0,
                Op::End => rest.is_empty(),
                Op::Boundary(wanted) => {
                    let before = at.checked_sub(1).and_then(|at| text.get(at));
                    (is_word(before) != is_word(rest.first())) == *wanted
                }
            };
            if on {
                next += 1;
                continue;
            }
            match self.back(text, &mut later, slots) {
                Some(place) => (next, at) = place,
                None => return Found::No,
            }
        }
    }

    /// Where to go on after a failure.
    fn back(&self, text: &[u8], later: &mut Later, slots: &mut Slots) -> Option<(usize, usize)> {
        loop {
            match later.pop()? {
                Entry::Go(next, at) => return Some((usize::from(next), at as usize)),
                Entry::Restore(slot, old) => slots[usize::from(slot)] = old,
                Entry::Shorter(next, shortest, at) => {
                    let mut at = at - 1;
                    // Only where the next element can begin is worth a try.
                    if let Some(Op::Byte(byte)) = self.ops.get(usize::from(next)) {
                        let given = &text[shortest as usize..text.len().min(at as usize + 1)];
                        let Some(found) = memchr::memrchr(*byte, given) else {
                            continue;
                        };
                        at = shortest + found as u32;
                    }
                    if at > shortest {
                        later.push(Entry::Shorter(next, shortest, at));
                    }
                    return Some((usize::from(next), at as usize));
                }
                Entry::Longer(op, at, left) => {
                    let Op::Lazy { set, .. } = &self.ops[usize::from(op)] else {
                        continue;
                    };
                    let byte = text.get(at as usize);
                    if !byte.is_some_and(|b| self.set(*set)[usize::from(*b)]) {
                        continue;
                    }
                    if left > 1 {
                        later.push(Entry::Longer(op, at + 1, left - 1));
                    }
                    return Some((usize::from(op) + 1, at as usize + 1));
                }
            }
        }
    }
}

/// The whole match is the first group.
fn whole(slots: &mut Slots, begin: usize, end: usize) {
    if let [from, to, ..] = slots.as_mut_slice() {
        (*from, *to) = (begin as u32, end as u32);
    }
}

fn is_word(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// What can be tried when something fails, the last first.
type Later = SmallVec<[Entry; 32]>;

#[derive(Clone, Copy)]
enum Entry {
    /// From that element and place on.
    Go(u16, u32),
    /// A group had that place.
    Restore(u16, u32),
    /// The run that ends there may be shorter, down to the first place.
    Shorter(u16, u32, u32),
    /// The run of that element may be longer by so much.
    Longer(u16, u32, u32),
}

impl Builder {
    fn set(&mut self, set: Set) -> Option<u16> {
        let known = self.sets.iter().position(|known| *known == set);
        let number = known.unwrap_or_else(|| {
            self.sets.push(set);
            self.sets.len() - 1
        });
        u16::try_from(number).ok()
    }

    fn here(&self) -> Option<u16> {
        (self.ops.len() < OPS_MAX).then_some(self.ops.len() as u16)
    }

    /// Adds a part; `rest` is what can follow it.
    fn add(&mut self, hir: &Hir, rest: &First) -> Option<()> {
        self.here()?;
        match hir.kind() {
            HirKind::Empty => {}
            HirKind::Literal(text) => self.ops.push(match &*text.0 {
                [byte] => Op::Byte(*byte),
                text => Op::Literal(text.into()),
            }),
            HirKind::Class(Class::Unicode(_)) => return None,
            HirKind::Class(Class::Bytes(_)) => {
                let set = self.set(set_of(hir)?)?;
                self.ops.push(Op::One(set));
            }
            HirKind::Look(look) => self.ops.push(match look {
                Look::Start => Op::Start,
                Look::End => Op::End,
                Look::WordAscii => Op::Boundary(true),
                Look::WordAsciiNegate => Op::Boundary(false),
                _ => return None,
            }),
            HirKind::Capture(capture) => {
                let slot = u16::try_from(2 * capture.index).ok()?;
                if self.saves {
                    self.ops.push(Op::Save(slot));
                }
                self.add(&capture.sub, rest)?;
                if self.saves {
                    self.ops.push(Op::Save(slot + 1));
                }
            }
            HirKind::Concat(parts) => {
                for (at, part) in parts.iter().enumerate() {
                    let tail = parts[at + 1..].iter().rev();
                    let rest = tail.fold(rest.clone(), |rest, part| first(part, &rest));
                    self.add(part, &rest)?;
                }
            }
            HirKind::Alternation(parts) => self.alternation(parts, rest)?,
            HirKind::Repetition(again) => self.repetition(again, rest)?,
        }
        Some(())
    }

    fn alternation(&mut self, parts: &[Hir], rest: &First) -> Option<()> {
        let mut jumps = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let others = &parts[at + 1..];
            if others.is_empty() {
                self.add(part, rest)?;
                break;
            }
            let mine = first(part, rest);
            let none = First::nothing();
            let theirs = others
                .iter()
                .fold(none, |all, part| first(part, rest).or(&all));
            let split = self.branch(&mine, &theirs)?;
            self.add(part, rest)?;
            jumps.push(self.ops.len());
            self.ops.push(Op::Jump(0));
            self.land(split)?;
        }
        let end = self.here()?;
        for jump in jumps {
            self.ops[jump] = Op::Jump(end);
        }
        Some(())
    }

    /// Adds the choice between what begins with `mine`, which comes next, and `other`. Its second
    /// target is set by [`Self::land`].
    fn branch(&mut self, mine: &First, other: &First) -> Option<usize> {
        let at = self.ops.len();
        let op = if mine.empty || mine.done || mine.end {
            Op::Split(0)
        } else if other.is_disjoint(&mine.set) && !other.done {
            Op::Decide(self.set(mine.set.clone())?, 0)
        } else {
            Op::Prefer(self.set(mine.set.clone())?, 0)
        };
        self.ops.push(op);
        Some(at)
    }

    fn land(&mut self, branch: usize) -> Option<()> {
        let here = self.here()?;
        match &mut self.ops[branch] {
            Op::Split(to) | Op::Decide(_, to) | Op::Prefer(_, to) => *to = here,
            _ => {}
        }
        Some(())
    }

    fn repetition(&mut self, again: &regex_syntax::hir::Repetition, rest: &First) -> Option<()> {
        let most = again.max.unwrap_or(u32::MAX);
        if let Some(set) = set_of(&again.sub) {
            let (least, given) = (again.min, !rest.is_disjoint(&set));
            let set = self.set(set)?;
            self.ops.push(match (again.greedy, given) {
                (true, false) => Op::Run { set, least, most },
                (true, true) => Op::Give { set, least, most },
                (false, _) => Op::Lazy { set, least, most },
            });
            return Some(());
        }
        // What could go round without a step is left to the general engine.
        if !again.greedy || is_nullable(&again.sub) {
            return None;
        }
        let within = first(&again.sub, &First::nothing());
        let more = within.clone().or(rest);
        for _ in 0..again.min {
            self.add(&again.sub, &more)?;
        }
        match again.max {
            None => {
                let begin = self.here()?;
                let split = self.branch(&within, rest)?;
                self.add(&again.sub, &more)?;
                self.ops.push(Op::Jump(begin));
                self.land(split)?;
            }
            Some(most) => {
                let mut splits = Vec::new();
                for _ in again.min..most {
                    splits.push(self.branch(&within, rest)?);
                    self.add(&again.sub, &more)?;
                }
                for split in splits {
                    self.land(split)?;
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::bytes::RegexBuilder;
    use regex_syntax::ParserBuilder;

    use super::*;

    fn program(written: &str) -> Option<Program> {
        let mut parser = ParserBuilder::new().unicode(false).utf8(false).build();
        Program::new(&parser.parse(written).expect(written), true)
    }

    /// What the general engine finds, as slots.
    fn expected(written: &str, text: &[u8]) -> Option<Vec<u32>> {
        let regex = RegexBuilder::new(written)
            .unicode(false)
            .build()
            .expect(written);
        let found = regex.captures(text)?;
        let slots = (0..found.len()).flat_map(|at| match found.get(at) {
            Some(group) => [group.start() as u32, group.end() as u32],
            None => [u32::MAX; 2],
        });
        Some(slots.collect())
    }

    fn check(written: &str, text: &[u8]) -> Found {
        let Some(program) = program(written) else {
            return Found::Unknown;
        };
        let mut slots = Slots::new();
        let found = program.search(text, &mut slots);
        let expected = expected(written, text);
        match found {
            Found::Unknown => {}
            Found::No => assert_eq!(expected, None, "{written} on {text:?}"),
            Found::Yes => assert_eq!(Some(slots.to_vec()), expected, "{written} on {text:?}"),
        }
        found
    }

    fn expression() -> impl Strategy<Value = String> {
        let one = prop_oneof![
            Just("a".to_owned()),
            Just("b".to_owned()),
            Just("ab".to_owned()),
            Just("[ab]".to_owned()),
            Just("[^a]".to_owned()),
            Just(".".to_owned()),
            Just("\\d".to_owned()),
            Just("$".to_owned()),
            Just("\\b".to_owned()),
            Just("".to_owned()),
        ];
        one.prop_recursive(5, 32, 4, |inner| {
            prop_oneof![
                4 => prop::collection::vec(inner.clone(), 1..5).prop_map(|parts| parts.concat()),
                2 => prop::collection::vec(inner.clone(), 2..4)
                    .prop_map(|parts| format!("(?:{})", parts.join("|"))),
                2 => inner.clone().prop_map(|part| format!("({part})")),
                2 => (inner.clone(), "[*+?]|\\{1,2\\}|\\{0,2\\}|\\{2\\}|[*+?]\\?")
                    .prop_map(|(part, times)| format!("(?:{part}){times}")),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(800))]

        /// It finds what the general engine finds.
        #[test]
        fn programs_find_the_same(rest in expression(), texts in prop::collection::vec("[ab1\\n]{0,12}", 8)) {
            for begin in ["^", "a", "(a)b"] {
                let written = format!("{begin}{rest}");
                for text in &texts {
                    check(&written, text.as_bytes());
                }
            }
        }
    }

    #[test]
    fn expressions_of_packs_have_programs() {
        for (written, text) in [
            (
                r"^(?<a>[A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d) (?:(?<s>slot\d+)/)?(?<h>[\w.-]+) ",
                "May  6 01:02:03 slot1/host x",
            ),
            (r"^1,[^,]+,[^,]+,[A-Z]+,", "1,2020/01/01,0099,TRAFFIC,start"),
            (r"\|product=(?<p>[^|]*)", "a|prod|product=x y|z"),
            (r"^.+-v_(?<h>.+)$", "fw-v_a-v_b"),
            (r"^(?:\d+: )?(?<h>[\w.]+)? ?: %", "12: host : %"),
        ] {
            assert_eq!(check(written, text.as_bytes()), Found::Yes, "{written}");
        }
    }

    #[test]
    fn a_hostile_text_ends_at_the_budget() {
        let text = [b'a'; 4096];
        assert_eq!(check("^(?:a+b|a+c|(?:a|aa)+)+d", &text), Found::Unknown);
    }
}
