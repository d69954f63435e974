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

use memchr::memmem::Finder;
use regex_syntax::hir::{Capture, Class, Hir, HirKind, Look};

use super::byte_set::{ByteMembers, ByteSet};

/// Elements of a program; a longer one is left to the general engine.
const OPS_MAX: usize = 1024;

/// Bytes of a text, and of a run of a fixed length, that are looked at one by one in a sequence.
/// Longer ones are faster as a whole.
const TEXT_SHORT: usize = 3;
const RUN_SHORT: usize = 8;

/// Bytes of a text that every match has, at least, for it to be looked for before all else.
const TEXT_LEAST: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(super) enum RegexOp {
    Byte(u8),
    /// From there to there of the program's texts.
    Literal(u16, u16),
    One(ByteSet),
    /// Bytes one after the other, each of which may be what the program's elements from there to
    /// there say.
    Each(u16, u16),
    /// A run of bytes of a set, as long as it may be. What can begin nowhere within it follows:
    /// it is not given back.
    Run {
        set: ByteSet,
        least: u32,
        most: u32,
    },
    /// The same as a group of its own, whose beginning has that slot.
    Group {
        slot: u16,
        set: ByteSet,
        least: u32,
        most: u32,
    },
    /// The same as a run, given back byte by byte.
    Give {
        set: ByteSet,
        least: u32,
        most: u32,
    },
    /// A run as short as it may be.
    Lazy {
        set: ByteSet,
        least: u32,
        most: u32,
    },
    /// Goes on, and later perhaps there.
    Split(u16),
    /// Goes on if the next byte is of the set, and else there.
    Decide(ByteSet, u16),
    /// The same, and later perhaps there, if the next byte is of the other set.
    Prefer {
        mine: ByteSet,
        theirs: ByteSet,
        other: u16,
    },
    Jump(u16),
    Save(u16),
    Start,
    End,
    Boundary(bool),
    Match,
}

/// A program. What it is made of lies close together: of two events that meet it there were others
/// in between, so that all of it must be waited for.
#[derive(Clone, Debug)]
pub(super) struct RegexProgram {
    pub(super) ops: Box<[RegexOp]>,
    /// The texts of all literals.
    pub(super) texts: Box<[u8]>,
    /// Places of the sequences of a fixed length, one after the other.
    pub(super) elements: Box<[ByteElement]>,
    /// Twice the number of groups, the whole match among them.
    pub(super) slots: usize,
    pub(super) from: MatchStart,
}

/// A place of one byte.
#[derive(Clone, Copy, Debug)]
pub(super) enum ByteElement {
    Byte(u8),
    /// A byte of that set.
    Set(ByteSet),
}

/// Possible start of a match.
#[derive(Clone, Debug)]
pub(super) enum MatchStart {
    /// At the beginning of the text only.
    Start,
    Byte(u8),
    Text(Box<Finder<'static>>),
    /// With a byte of that set, if the text beside it stands anywhere. With `start` also at the
    /// beginning of the text, whatever stands there.
    One {
        set: ByteSet,
        text: Option<Box<Finder<'static>>>,
        start: bool,
    },
}

/// Offsets of groups: `u32::MAX` stands for nowhere.
pub type CaptureSlots = Vec<u32>;

/// Possible beginnings of the rest of an expression. To take more for possible is never wrong.
#[derive(Clone)]
struct FirstSet {
    set: ByteMembers,
    /// True if the rest can match the empty text although the text goes on, and then wants more.
    empty: bool,
    /// True if the rest can match the empty text, whatever follows.
    done: bool,
    /// True if the rest can match the empty text at the end of the text.
    end: bool,
}

impl FirstSet {
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

    /// True if it can begin with none of these bytes, nor with nothing. At the end of a run of them
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

/// Possible beginnings of `hir` and then `rest`.
fn first(hir: &Hir, rest: &FirstSet) -> FirstSet {
    match hir.kind() {
        HirKind::Empty => rest.clone(),
        HirKind::Look(Look::End) => FirstSet {
            end: true,
            ..FirstSet::nothing()
        },
        HirKind::Look(_) | HirKind::Class(Class::Unicode(_)) => FirstSet::anything(),
        HirKind::Literal(text) => {
            let mut one = FirstSet::nothing();
            match text.0.first() {
                Some(byte) => one.set[usize::from(*byte)] = true,
                None => return rest.clone(),
            }
            one
        }
        HirKind::Class(Class::Bytes(_)) => {
            set_of(hir).map_or_else(FirstSet::anything, |set| FirstSet {
                set,
                ..FirstSet::nothing()
            })
        }
        HirKind::Repetition(again) if is_nullable(&again.sub) => FirstSet::anything(),
        HirKind::Repetition(again) => {
            let one = first(&again.sub, &FirstSet::nothing());
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
            let none = FirstSet::nothing();
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
fn set_of(hir: &Hir) -> Option<ByteMembers> {
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

/// The number of bytes of a part that is looked at byte by byte; 0 for all others.
fn length_of(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Literal(text) if text.0.len() <= TEXT_SHORT => text.0.len(),
        HirKind::Class(Class::Bytes(_)) => 1,
        HirKind::Repetition(again) if Some(again.min) == again.max && again.greedy => {
            let times = again.min as usize;
            let few = times <= RUN_SHORT && set_of(&again.sub).is_some();
            if few { times } else { 0 }
        }
        _ => 0,
    }
}

/// Adds the bytes that a match can begin with which does not begin where the text does; whether it
/// can be empty.
fn first_within(hir: &Hir, set: &mut [bool; 256]) -> bool {
    if hir.properties().look_set_prefix().contains(Look::Start) {
        return false;
    }
    match hir.kind() {
        HirKind::Capture(capture) => first_within(&capture.sub, set),
        HirKind::Repetition(again) => first_within(&again.sub, set) || again.min == 0,
        HirKind::Concat(parts) => parts.iter().all(|part| first_within(part, set)),
        HirKind::Alternation(parts) => parts
            .iter()
            .fold(false, |empty, part| first_within(part, set) | empty),
        _ => super::first(hir, set),
    }
}

/// Puts a program together.
struct ProgramBuilder {
    ops: Vec<RegexOp>,
    texts: Vec<u8>,
    elements: Vec<ByteElement>,
    /// True if groups are wanted.
    saves: bool,
}

impl RegexProgram {
    /// The program of an expression; `None`: it has something that is left to the general engine.
    /// Without `saves` only whether it matches can be asked.
    pub(super) fn new(hir: &Hir, saves: bool) -> Option<Self> {
        let anchored = hir.properties().look_set_prefix().contains(Look::Start);
        let mut builder = ProgramBuilder {
            ops: Vec::new(),
            texts: Vec::new(),
            elements: Vec::new(),
            saves,
        };
        let from = match anchored {
            true => MatchStart::Start,
            false => builder.begin(hir)?,
        };
        builder.add(hir, &FirstSet::done())?;
        builder.ops.push(RegexOp::Match);
        let groups = hir.properties().explicit_captures_len() + 1;
        Some(Self {
            ops: builder.ops.into(),
            texts: builder.texts.into(),
            elements: builder.elements.into(),
            slots: if saves { 2 * groups } else { 0 },
            from,
        })
    }
}

/// Beginning of an element.
pub(super) enum NextByte {
    Byte(u8),
    Set(ByteSet),
    /// Whatever it is.
    Any,
}

impl RegexProgram {
    /// Beginning of the rest from that element on, if that is one thing.
    #[inline]
    pub(super) fn begins(&self, mut op: usize) -> NextByte {
        while let Some(RegexOp::Save(_)) = self.ops.get(op) {
            op += 1;
        }
        match self.ops.get(op) {
            Some(RegexOp::Byte(byte)) => NextByte::Byte(*byte),
            Some(RegexOp::Literal(from, _)) => match self.texts.get(usize::from(*from)) {
                Some(byte) => NextByte::Byte(*byte),
                None => NextByte::Any,
            },
            Some(RegexOp::One(set)) => NextByte::Set(*set),
            Some(RegexOp::Each(from, _)) => match self.elements.get(usize::from(*from)) {
                Some(ByteElement::Byte(byte)) => NextByte::Byte(*byte),
                Some(ByteElement::Set(set)) => NextByte::Set(*set),
                None => NextByte::Any,
            },
            Some(RegexOp::Run { set, least, .. } | RegexOp::Group { set, least, .. })
                if *least > 0 =>
            {
                NextByte::Set(*set)
            }
            _ => NextByte::Any,
        }
    }
}

impl ProgramBuilder {
    /// Possible start of a match that may stand anywhere.
    fn begin(&mut self, hir: &Hir) -> Option<MatchStart> {
        let mut prefix = Vec::new();
        let _ = super::collect(hir, &mut prefix);
        let text = super::longest(hir).filter(|text| text.len() >= TEXT_LEAST);
        let finder = |text: &[u8]| Box::new(Finder::new(text).into_owned());
        Some(match (prefix.as_slice(), text) {
            ([byte], None) => MatchStart::Byte(*byte),
            (prefix @ [_, _, ..], _) => MatchStart::Text(finder(prefix)),
            (_, text) => {
                let mut set = Box::new([false; 256]);
                if first_within(hir, &mut set) {
                    return None;
                }
                MatchStart::One {
                    set: ByteSet::new(set)?,
                    text: text.as_deref().map(finder),
                    start: hir.properties().look_set().contains(Look::Start),
                }
            }
        })
    }

    /// Adds a literal's text.
    fn text(&mut self, text: &[u8]) -> Option<RegexOp> {
        let from = u16::try_from(self.texts.len()).ok()?;
        self.texts.extend_from_slice(text);
        Some(RegexOp::Literal(
            from,
            u16::try_from(self.texts.len()).ok()?,
        ))
    }

    /// A group that is nothing but a run which is not given back.
    fn group(&mut self, capture: &Capture, slot: u16, rest: &FirstSet) -> Option<RegexOp> {
        let HirKind::Repetition(again) = capture.sub.kind() else {
            return None;
        };
        let set = set_of(&again.sub).filter(|set| again.greedy && rest.is_disjoint(set))?;
        Some(RegexOp::Group {
            slot,
            set: ByteSet::new(set)?,
            least: again.min,
            most: again.max.unwrap_or(u32::MAX),
        })
    }

    fn here(&self) -> Option<u16> {
        (self.ops.len() < OPS_MAX).then_some(self.ops.len() as u16)
    }

    /// Adds a part; `rest` is what can follow it.
    fn add(&mut self, hir: &Hir, rest: &FirstSet) -> Option<()> {
        self.here()?;
        match hir.kind() {
            HirKind::Empty => {}
            HirKind::Literal(text) => {
                let op = match &*text.0 {
                    [byte] => RegexOp::Byte(*byte),
                    text => self.text(text)?,
                };
                self.ops.push(op);
            }
            HirKind::Class(Class::Unicode(_)) => return None,
            HirKind::Class(Class::Bytes(_)) => {
                let set = ByteSet::new(set_of(hir)?)?;
                self.ops.push(RegexOp::One(set));
            }
            HirKind::Look(look) => self.ops.push(match look {
                Look::Start => RegexOp::Start,
                Look::End => RegexOp::End,
                Look::WordAscii => RegexOp::Boundary(true),
                Look::WordAsciiNegate => RegexOp::Boundary(false),
                _ => return None,
            }),
            HirKind::Capture(capture) => {
                let slot = u16::try_from(2 * capture.index).ok()?;
                if let Some(group) = self.group(capture, slot, rest)
                    && self.saves
                {
                    self.ops.push(group);
                    return Some(());
                }
                if self.saves {
                    self.ops.push(RegexOp::Save(slot));
                }
                self.add(&capture.sub, rest)?;
                if self.saves {
                    self.ops.push(RegexOp::Save(slot + 1));
                }
            }
            HirKind::Concat(parts) => {
                let mut at = 0;
                while let Some(part) = parts.get(at) {
                    let fixed = self.each(&parts[at..])?;
                    if fixed == 0 {
                        let tail = parts[at + 1..].iter().rev();
                        let rest = tail.fold(rest.clone(), |rest, part| first(part, &rest));
                        self.add(part, &rest)?;
                    }
                    at += fixed.max(1);
                }
            }
            HirKind::Alternation(parts) => self.alternation(parts, rest)?,
            HirKind::Repetition(again) => self.repetition(again, rest)?,
        }
        Some(())
    }

    /// Adds the parts that the list begins with as one sequence, if those of a fixed length are
    /// more than one; returns how many.
    fn each(&mut self, parts: &[Hir]) -> Option<usize> {
        let count = parts.iter().take_while(|part| length_of(part) > 0).count();
        if count < 2 {
            return Some(0);
        }
        let from = u16::try_from(self.elements.len()).ok()?;
        for part in &parts[..count] {
            match part.kind() {
                HirKind::Literal(text) => {
                    let bytes = text.0.iter().map(|byte| ByteElement::Byte(*byte));
                    self.elements.extend(bytes);
                }
                HirKind::Repetition(again) => {
                    let set = ByteElement::Set(ByteSet::new(set_of(&again.sub)?)?);
                    let times = again.min as usize;
                    self.elements.extend(std::iter::repeat_n(set, times));
                }
                _ => {
                    let set = ByteSet::new(set_of(part)?)?;
                    self.elements.push(ByteElement::Set(set));
                }
            }
        }
        let to = u16::try_from(self.elements.len()).ok()?;
        self.ops.push(RegexOp::Each(from, to));
        Some(count)
    }

    fn alternation(&mut self, parts: &[Hir], rest: &FirstSet) -> Option<()> {
        let mut jumps = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let others = &parts[at + 1..];
            if others.is_empty() {
                self.add(part, rest)?;
                break;
            }
            let mine = first(part, rest);
            let none = FirstSet::nothing();
            let theirs = others
                .iter()
                .fold(none, |all, part| first(part, rest).or(&all));
            let split = self.branch(&mine, &theirs)?;
            self.add(part, rest)?;
            jumps.push(self.ops.len());
            self.ops.push(RegexOp::Jump(0));
            self.land(split)?;
        }
        let end = self.here()?;
        for jump in jumps {
            self.ops[jump] = RegexOp::Jump(end);
        }
        Some(())
    }

    /// Adds the choice between what begins with `mine`, which comes next, and `other`. Its second
    /// target is set by [`Self::land`].
    fn branch(&mut self, mine: &FirstSet, other: &FirstSet) -> Option<usize> {
        let at = self.ops.len();
        let op = if mine.empty || mine.done || mine.end {
            RegexOp::Split(0)
        } else if other.is_disjoint(&mine.set) && !other.done {
            RegexOp::Decide(ByteSet::new(mine.set.clone())?, 0)
        } else {
            let any = other.empty || other.done;
            let theirs = match any {
                true => Box::new([true; 256]),
                false => other.set.clone(),
            };
            RegexOp::Prefer {
                mine: ByteSet::new(mine.set.clone())?,
                theirs: ByteSet::new(theirs)?,
                other: 0,
            }
        };
        self.ops.push(op);
        Some(at)
    }

    fn land(&mut self, branch: usize) -> Option<()> {
        let here = self.here()?;
        match &mut self.ops[branch] {
            RegexOp::Split(to) | RegexOp::Decide(_, to) | RegexOp::Prefer { other: to, .. } => {
                *to = here
            }
            _ => {}
        }
        Some(())
    }

    fn repetition(&mut self, again: &regex_syntax::hir::Repetition, rest: &FirstSet) -> Option<()> {
        let most = again.max.unwrap_or(u32::MAX);
        if let Some(set) = set_of(&again.sub) {
            let (least, given) = (again.min, !rest.is_disjoint(&set));
            let set = ByteSet::new(set)?;
            self.ops.push(match (again.greedy, given) {
                (true, false) => RegexOp::Run { set, least, most },
                (true, true) => RegexOp::Give { set, least, most },
                (false, _) => RegexOp::Lazy { set, least, most },
            });
            return Some(());
        }
        // What could go round without a step is left to the general engine.
        if !again.greedy || is_nullable(&again.sub) {
            return None;
        }
        let within = first(&again.sub, &FirstSet::nothing());
        let more = within.clone().or(rest);
        for _ in 0..again.min {
            self.add(&again.sub, &more)?;
        }
        match again.max {
            None => {
                let begin = self.here()?;
                let split = self.branch(&within, rest)?;
                self.add(&again.sub, &more)?;
                self.ops.push(RegexOp::Jump(begin));
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
    use crate::expression::MatchOutcome;

    fn program(written: &str) -> Option<RegexProgram> {
        let mut parser = ParserBuilder::new().unicode(false).utf8(false).build();
        RegexProgram::new(&parser.parse(written).expect(written), true)
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

    fn check(written: &str, text: &[u8]) -> MatchOutcome {
        let Some(program) = program(written) else {
            return MatchOutcome::Unknown;
        };
        let mut slots = CaptureSlots::new();
        let found = program.search(text, &mut slots);
        let expected = expected(written, text);
        match found {
            MatchOutcome::Unknown => {}
            MatchOutcome::No => assert_eq!(expected, None, "{written} on {text:?}"),
            MatchOutcome::Yes => {
                assert_eq!(Some(slots.to_vec()), expected, "{written} on {text:?}")
            }
        }
        found
    }

    fn expression() -> impl Strategy<Value = String> {
        let one = prop_oneof![
            Just("a".to_owned()),
            Just("b".to_owned()),
            Just("ab".to_owned()),
            Just("[ab]".to_owned()),
            Just("1[ab]{2}".to_owned()),
            Just("[ab]{3}\\d".to_owned()),
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
            for begin in ["^", "a", "(a)b", "[ab]", "([^a])", "(?:^|a)", "(^|b)", "(?:^b|[1a])?a"] {
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
            (r"(?:^|\s)(?<h>[\w.-]+),v\d+ ", "<x fw1,v4 up"),
            (r"(?:^|\t)product=(?<p>\w+)", "product=a"),
            (r"^(?:\d+: )?(?<h>[\w.]+)? ?: %", "12: host : %"),
            // The run before a sequence gives back what that begins with.
            (r"^\w*\d{2}:[a-f]{3} x", "a1234:abc x"),
            // What the optional group could begin with is what follows it.
            (r"^(?:[a-z]+ )?[a-z]\d:", "x1:"),
        ] {
            assert_eq!(
                check(written, text.as_bytes()),
                MatchOutcome::Yes,
                "{written}"
            );
        }
    }

    #[test]
    fn a_hostile_text_ends_at_the_budget() {
        let text = [b'a'; 4096];
        assert_eq!(
            check("^(?:a+b|a+c|(?:a|aa)+)+d", &text),
            MatchOutcome::Unknown
        );
    }
}
