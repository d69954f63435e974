//! Runs a program along a text.

use smallvec::SmallVec;

use super::byte_set::ByteSet;
use super::program::{ByteElement, CaptureSlots, MatchStart, NextByte, RegexOp, RegexProgram};
use crate::same::same;

/// Steps for a search, and for each byte of the text.
const STEPS: usize = 1024;
const STEPS_PER_BYTE: usize = 2;

/// Bytes of a run that count as a step.
const RUN_STEP: usize = 4;

/// Result of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MatchOutcome {
    Yes,
    No,
    /// The budget is used up.
    Unknown,
}

/// The way of a program along a text.
struct BacktrackMatcher<'p> {
    program: &'p RegexProgram,
    text: &'p [u8],
    slots: &'p mut [u32],
    later: BacktrackStack,
    steps: usize,
}

impl RegexProgram {
    /// Looks for the first match. Where it and its groups lie is put into `slots`.
    pub(super) fn search(&self, text: &[u8], slots: &mut CaptureSlots) -> MatchOutcome {
        slots.clear();
        slots.resize(self.slots, u32::MAX);
        let mut way = BacktrackMatcher {
            program: self,
            text,
            slots: slots.as_mut_slice(),
            later: BacktrackStack::new(),
            steps: STEPS + STEPS_PER_BYTE * text.len(),
        };
        let mut at = 0;
        match &self.from {
            MatchStart::Start => return way.run(0),
            MatchStart::One {
                text: Some(finder), ..
            } if finder.find(text).is_none() => return MatchOutcome::No,
            MatchStart::One { start: true, .. } => match way.run(0) {
                MatchOutcome::No => {
                    at = 1;
                    way.slots.fill(u32::MAX);
                }
                known => return known,
            },
            _ => {}
        }
        while let Some(rest) = text.get(at..) {
            let found = match &self.from {
                MatchStart::Start => None,
                MatchStart::Byte(byte) => memchr::memchr(*byte, rest),
                MatchStart::Text(finder) => finder.find(rest),
                MatchStart::One { set, .. } => rest.iter().position(|byte| set.contains(*byte)),
            };
            let Some(found) = found else {
                return MatchOutcome::No;
            };
            at += found;
            match way.run(at) {
                MatchOutcome::No => at += 1,
                known => return known,
            }
            way.slots.fill(u32::MAX);
        }
        MatchOutcome::No
    }
}

impl BacktrackMatcher<'_> {
    /// Number of bytes from `at` on that are of the set, up to `most`.
    #[inline]
    fn length(&mut self, set: ByteSet, at: usize, most: u32) -> usize {
        let rest = &self.text[at..];
        let rest = &rest[..rest.len().min(most as usize)];
        let length = set.run(rest);
        self.steps = self.steps.saturating_sub(length / RUN_STEP);
        length
    }

    /// True if a byte of the set comes next.
    #[inline]
    fn begins(&self, at: usize, set: ByteSet) -> bool {
        let byte = self.text.get(at);
        byte.is_some_and(|byte| set.contains(*byte))
    }

    /// Takes the run of an element that may not be the longest one; whether it is long enough.
    fn repeat(&mut self, op: usize, at: &mut usize) -> bool {
        match self.program.ops[op] {
            RegexOp::Give { set, least, most } => {
                let length = self.length(set, *at, most);
                let shortest = *at + least as usize;
                *at += length;
                if *at > shortest {
                    let one = BacktrackFrame::Shorter(op as u16 + 1, shortest as u32, *at as u32);
                    self.later.push(one);
                }
                *at >= shortest
            }
            RegexOp::Lazy { set, least, most } => {
                let length = self.length(set, *at, least);
                let left = most.saturating_sub(least);
                *at += length;
                if length == least as usize && left > 0 {
                    self.later
                        .push(BacktrackFrame::Longer(op as u16, *at as u32, left));
                }
                length == least as usize
            }
            _ => true,
        }
    }

    fn save(&mut self, slot: u16, at: usize) {
        let old = std::mem::replace(&mut self.slots[usize::from(slot)], at as u32);
        if !self.later.is_empty() {
            self.later.push(BacktrackFrame::Restore(slot, old));
        }
    }

    /// Goes along the program from a place of the text on.
    // tidy: long because it is one match over the elements of a program, its inner loop.
    fn run(&mut self, begin: usize) -> MatchOutcome {
        let (program, text) = (self.program, self.text);
        let ops = &*program.ops;
        let (mut at, mut next) = (begin, 0);
        loop {
            let Some(left) = self.steps.checked_sub(1) else {
                return MatchOutcome::Unknown;
            };
            self.steps = left;
            let Some(op) = ops.get(next) else {
                return MatchOutcome::Unknown;
            };
            let on = match *op {
                RegexOp::Match => {
                    whole(self.slots, begin, at);
                    return MatchOutcome::Yes;
                }
                RegexOp::Byte(byte) => {
                    at += 1;
                    text.get(at - 1) == Some(&byte)
                }
                RegexOp::Literal(from, to) => {
                    let literal = &program.texts[usize::from(from)..usize::from(to)];
                    let begin = at;
                    at += literal.len();
                    text.get(begin..at).is_some_and(|text| same(text, literal))
                }
                RegexOp::One(set) => {
                    at += 1;
                    self.begins(at - 1, set)
                }
                RegexOp::Each(from, to) => {
                    let elements = &program.elements[usize::from(from)..usize::from(to)];
                    let begin = at;
                    at += elements.len();
                    text.get(begin..at).is_some_and(|text| {
                        let mut both = text.iter().zip(elements);
                        both.all(|(byte, element)| match *element {
                            ByteElement::Byte(wanted) => *byte == wanted,
                            ByteElement::Set(set) => set.contains(*byte),
                        })
                    })
                }
                RegexOp::Run { set, least, most } => {
                    let length = self.length(set, at, most);
                    at += length;
                    length >= least as usize
                }
                RegexOp::Group {
                    slot,
                    set,
                    least,
                    most,
                } => {
                    let length = self.length(set, at, most);
                    let enough = length >= least as usize;
                    if enough {
                        self.save(slot, at);
                        self.save(slot + 1, at + length);
                    }
                    at += length;
                    enough
                }
                RegexOp::Give { .. } | RegexOp::Lazy { .. } => self.repeat(next, &mut at),
                RegexOp::Split(other) => {
                    self.later.push(BacktrackFrame::Go(other, at as u32));
                    true
                }
                RegexOp::Decide(set, other) => {
                    if !self.begins(at, set) {
                        next = usize::from(other);
                        continue;
                    }
                    true
                }
                RegexOp::Prefer {
                    mine,
                    theirs,
                    other,
                } => {
                    if !self.begins(at, mine) {
                        next = usize::from(other);
                        continue;
                    }
                    if self.begins(at, theirs) {
                        self.later.push(BacktrackFrame::Go(other, at as u32));
                    }
                    true
                }
                RegexOp::Jump(to) => {
                    next = usize::from(to);
                    continue;
                }
                RegexOp::Save(slot) => {
                    self.save(slot, at);
                    true
                }
                RegexOp::Start => at == 0,
                RegexOp::End => at == text.len(),
                RegexOp::Boundary(wanted) => {
                    let before = at.checked_sub(1).and_then(|at| text.get(at));
                    (is_word(before) != is_word(text.get(at))) == wanted
                }
            };
            if on {
                next += 1;
                continue;
            }
            match self.back() {
                Some(place) => (next, at) = place,
                None => return MatchOutcome::No,
            }
        }
    }

    /// Takes the element and the offset to go on with after a failure.
    fn back(&mut self) -> Option<(usize, usize)> {
        let text = self.text;
        loop {
            match self.later.pop()? {
                BacktrackFrame::Go(next, at) => return Some((usize::from(next), at as usize)),
                BacktrackFrame::Restore(slot, old) => self.slots[usize::from(slot)] = old,
                BacktrackFrame::Shorter(next, shortest, at) => {
                    // Only where the next element can begin is worth a try.
                    let given = &text[shortest as usize..text.len().min(at as usize)];
                    let found = match self.program.begins(usize::from(next)) {
                        NextByte::Byte(byte) => memchr::memrchr(byte, given),
                        NextByte::Set(set) => given.iter().rposition(|byte| set.contains(*byte)),
                        NextByte::Any => given.len().checked_sub(1),
                    };
                    let Some(found) = found else {
                        continue;
                    };
                    self.steps = (self.steps).saturating_sub((given.len() - found) / RUN_STEP);
                    let at = shortest + found as u32;
                    if at > shortest {
                        self.later.push(BacktrackFrame::Shorter(next, shortest, at));
                    }
                    return Some((usize::from(next), at as usize));
                }
                BacktrackFrame::Longer(op, at, left) => {
                    let RegexOp::Lazy { set, .. } = &self.program.ops[usize::from(op)] else {
                        continue;
                    };
                    let Some(longer) = self.longer(op, *set, at as usize, left) else {
                        continue;
                    };
                    let (at, left) = (at + longer, left - longer);
                    if left > 0 {
                        self.later.push(BacktrackFrame::Longer(op, at, left));
                    }
                    return Some((usize::from(op) + 1, at as usize));
                }
            }
        }
    }

    /// By how many bytes a run is to be longer, at most by so many: to where the next element can
    /// begin, and by one where that is not known.
    fn longer(&mut self, op: u16, set: ByteSet, at: usize, most: u32) -> Option<u32> {
        let begins = self.program.begins(usize::from(op) + 1);
        let rest = self.text.get(at..)?;
        for (length, byte) in rest.iter().take(most as usize).enumerate() {
            if !set.contains(*byte) {
                return None;
            }
            let on = match (&begins, rest.get(length + 1)) {
                (NextByte::Byte(first), next) => next == Some(first),
                (NextByte::Set(set), next) => next.is_some_and(|next| set.contains(*next)),
                (NextByte::Any, _) => true,
            };
            if on {
                self.steps = self.steps.saturating_sub(length / RUN_STEP);
                return Some(length as u32 + 1);
            }
        }
        None
    }
}

/// The whole match is the first group.
fn whole(slots: &mut [u32], begin: usize, end: usize) {
    if let [from, to, ..] = slots {
        (*from, *to) = (begin as u32, end as u32);
    }
}

fn is_word(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Stack of what can be tried when something fails, the last first.
type BacktrackStack = SmallVec<[BacktrackFrame; 32]>;

#[derive(Clone, Copy)]
enum BacktrackFrame {
    /// From that element and place on.
    Go(u16, u32),
    /// A group had that place.
    Restore(u16, u32),
    /// The run that ends there may be shorter, down to the first place.
    Shorter(u16, u32, u32),
    /// The run of that element may be longer by so much.
    Longer(u16, u32, u32),
}
