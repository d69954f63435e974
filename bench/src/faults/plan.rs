//! Fault plan of one round: the failing system call, the bad answers of the bucket, the ending.
//!
//! # What it guarantees
//! * A plan depends on seed and round number alone, so the plan of any round can be made again.
//! * Calls and errors take turns, so each call of each thread meets each error equally often.
//! * A life that heals has five failures of calls at most; then the process must recover by itself.
//! * The first failing call has a number within those of a usual life, as `TARGETS` counts them.
//!
//! # Limits
//! A life lasts 100 ms to `LIFE_MS_MAX`; under faults of `store-upkeep` to `UPKEEP_LIFE_MS_MAX`.
//! The errors are EIO, ENOSPC and EMFILE. The calls are those of the store's three threads.

use nix::libc;
use serde::{Deserialize, Serialize};

/// The error of a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum CallError {
    /// The device failed.
    Eio,
    /// The disk is full.
    Enospc,
    /// The process has no descriptor left.
    Emfile,
}

impl CallError {
    pub(super) const ALL: [Self; 3] = [Self::Eio, Self::Enospc, Self::Emfile];

    /// As the manual calls it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Eio => "EIO",
            Self::Enospc => "ENOSPC",
            Self::Emfile => "EMFILE",
        }
    }
}

/// The moment within a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Moment {
    /// It is not carried out.
    Before,
    /// It is carried out, and says that it failed. Calls that change nothing fail before.
    After,
    /// Half of the bytes are written, and the next write fails. Other calls fail before.
    Half,
}

/// A fault of one life of the process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Injection {
    pub(crate) call: String,
    pub(crate) failure: CallError,
    pub(crate) moment: Moment,
    /// Beginning of the thread's name.
    pub(crate) thread: String,
    /// Number of the first of these calls, counted from 1.
    pub(crate) nth: u32,
    /// From there every so many; 0: no other.
    pub(crate) every: u32,
    /// Number that fail at most.
    pub(crate) times: usize,
    /// At which of those the process is killed.
    pub(crate) kill_at: Option<usize>,
}

impl Injection {
    /// True if the call of this number fails, where `before` have.
    pub(super) fn hits(&self, number: u32, before: usize) -> bool {
        let Some(past) = number.checked_sub(self.nth) else {
            return false;
        };
        let due = match self.every {
            0 => past == 0,
            every => past.is_multiple_of(every),
        };
        due && before < self.times
    }

    pub(super) fn errno(&self) -> i32 {
        match self.failure {
            CallError::Eio => libc::EIO,
            CallError::Enospc => libc::ENOSPC,
            CallError::Emfile => libc::EMFILE,
        }
    }
}

/// Requests to a bucket that are answered badly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FaultyRequest {
    Any,
    /// The making of a commit.
    Commit,
    /// The writing of a file, its naming too.
    File,
    Put,
    Get,
    List,
    Delete,
}

/// The way in which they are answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BucketAnswer {
    Whole,
    Slow,
    /// 503, and nothing was done.
    Busy,
    /// 503, and it was done.
    DoneAndBusy,
    /// The connection is cut before anything is done.
    Cut,
    /// It is done, and the connection is cut without an answer.
    Lost,
    /// The connection is cut, and then it is done.
    Late,
    /// Half an answer.
    Half,
}

/// Answers to the requests of one life.
#[derive(Clone, Debug)]
pub(super) struct AnswerPlan {
    pub(super) target: FaultyRequest,
    pub(super) answer: BucketAnswer,
    /// Number of the first of these requests, counted from 1.
    nth: u32,
    /// Number of them in a row.
    row: u32,
    /// Number that go well after each row; 0: there is one row.
    well: u32,
}

impl AnswerPlan {
    pub(super) fn hits(&self, number: u32) -> bool {
        let Some(past) = number.checked_sub(self.nth) else {
            return false;
        };
        match self.well {
            0 => past < self.row,
            well => past % (self.row + well) < self.row,
        }
    }
}

/// The end of a life under faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    /// Killed, wherever it is.
    Kill,
    /// Asked to stop, the faults going on.
    Stop,
    /// The faults end and it goes on, without a start in between.
    Heal,
}

/// The calls that each thread of a store makes in its folder, and about how many in a life.
type Calls = (&'static str, &'static [(&'static str, u32)]);

/// As lives without faults show them (`seen` of a run).
const TARGETS: &[Calls] = &[
    (
        "store-open",
        &[
            ("openat", 17),
            ("read", 12),
            ("write", 2),
            ("fdatasync", 1),
            ("fsync", 2),
            ("ftruncate", 1),
            ("flock", 1),
            ("getdents64", 10),
            ("mkdir", 1),
            ("rmdir", 3),
            ("newfstatat", 5),
            ("readlink", 3),
            ("rename", 1),
            ("statx", 12),
            ("unlink", 3),
            ("close", 14),
        ],
    ),
    (
        "store-commit",
        &[
            ("openat", 32),
            ("write", 9),
            ("fdatasync", 9),
            ("fsync", 13),
            ("linkat", 3),
            ("mkdir", 2),
            ("rmdir", 2),
            ("rename", 12),
            ("statfs", 3),
            ("statx", 17),
            ("unlink", 12),
            ("close", 23),
        ],
    ),
    (
        "store-upkeep",
        &[
            ("openat", 6),
            ("read", 4),
            ("write", 2),
            ("fdatasync", 2),
            ("fsync", 2),
            ("linkat", 1),
            ("mkdir", 1),
            ("rmdir", 1),
            ("rename", 2),
            ("statfs", 1),
            ("statx", 3),
            ("unlink", 3),
            ("close", 4),
        ],
    ),
];

/// The longest life, milliseconds: upkeep begins a round every two seconds.
const LIFE_MS_MAX: u64 = 1_000;
const UPKEEP_LIFE_MS_MAX: u64 = 2_600;

/// A round.
#[derive(Clone, Debug)]
pub(super) struct RoundPlan {
    pub(super) injection: Injection,
    pub(super) answers: AnswerPlan,
    pub(super) ending: Ending,
    /// Milliseconds that the life lasts after it is ready.
    pub(super) life_ms: u64,
}

impl RoundPlan {
    /// Round `number` of a seed. Calls and failures take turns, so that each comes up as often.
    pub(super) fn of(seed: u64, number: u64) -> Self {
        let mut chance = fastrand::Rng::with_seed(seed.wrapping_mul(1_000_003) ^ number);
        let pairs: Vec<(&str, &str, u32)> = TARGETS
            .iter()
            .flat_map(|(thread, calls)| calls.iter().map(|(call, times)| (*thread, *call, *times)))
            .collect();
        let at = usize::try_from(number).unwrap_or(0);
        let (thread, call, calls) = pairs[at % pairs.len()];
        let failure = CallError::ALL[at / pairs.len() % CallError::ALL.len()];
        let ending = match chance.u32(..100) {
            0..60 => Ending::Kill,
            60..80 => Ending::Stop,
            _ => Ending::Heal,
        };
        let every = chance.choice([0, 0, 0, 1, 1, 2, 3, 5]).unwrap_or(0);
        let forever = ending != Ending::Heal && chance.bool();
        let times = if forever {
            usize::MAX
        } else {
            chance.usize(1..6)
        };
        let killed = ending == Ending::Kill && chance.u32(..100) < 35;
        let moments = [Moment::Before, Moment::After, Moment::Half];
        let injection = Injection {
            call: call.to_owned(),
            failure,
            moment: chance.choice(moments).unwrap_or(Moment::Before),
            thread: thread.to_owned(),
            // The first ones are reached in shorter lives too.
            nth: 1 + chance.u32(0..calls).min(chance.u32(0..calls)),
            every,
            times,
            kill_at: killed.then(|| chance.usize(1..3)),
        };
        let life_ms_max = match thread {
            "store-upkeep" => UPKEEP_LIFE_MS_MAX,
            _ => LIFE_MS_MAX,
        };
        Self {
            injection,
            answers: answers(&mut chance),
            ending,
            life_ms: chance.u64(100..life_ms_max),
        }
    }
}

fn answers(chance: &mut fastrand::Rng) -> AnswerPlan {
    let targets = [
        FaultyRequest::Commit,
        FaultyRequest::Commit,
        FaultyRequest::File,
        FaultyRequest::Any,
        FaultyRequest::Put,
        FaultyRequest::Get,
        FaultyRequest::List,
        FaultyRequest::Delete,
    ];
    let answers = [
        BucketAnswer::Lost,
        BucketAnswer::Lost,
        BucketAnswer::DoneAndBusy,
        BucketAnswer::Late,
        BucketAnswer::Busy,
        BucketAnswer::Cut,
        BucketAnswer::Half,
        BucketAnswer::Slow,
    ];
    AnswerPlan {
        target: chance.choice(targets).unwrap_or(FaultyRequest::Any),
        answer: chance.choice(answers).unwrap_or(BucketAnswer::Lost),
        nth: chance.u32(1..6),
        row: chance.choice([1, 1, 2, 4, 8]).unwrap_or(1),
        well: chance.choice([0, 1, 3]).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn injection(nth: u32, every: u32, times: usize) -> Injection {
        Injection {
            call: String::new(),
            failure: CallError::Eio,
            moment: Moment::Before,
            thread: String::new(),
            nth,
            every,
            times,
            kill_at: None,
        }
    }

    fn hits(injection: &Injection) -> Vec<u32> {
        let mut hit = Vec::new();
        for number in 1..12 {
            if injection.hits(number, hit.len()) {
                hit.push(number);
            }
        }
        hit
    }

    #[test]
    fn a_call_fails_once_or_every_so_often_and_not_for_ever() {
        assert_eq!(hits(&injection(3, 0, 9)), [3]);
        assert_eq!(hits(&injection(2, 4, 9)), [2, 6, 10]);
        assert_eq!(hits(&injection(2, 1, 3)), [2, 3, 4]);
    }

    #[test]
    fn answers_are_bad_in_rows() {
        let of = |well| AnswerPlan {
            target: FaultyRequest::Any,
            answer: BucketAnswer::Lost,
            nth: 2,
            row: 2,
            well,
        };
        let hits = |answers: &AnswerPlan| (1..9).filter(|n| answers.hits(*n)).collect::<Vec<u32>>();
        assert_eq!(hits(&of(0)), [2, 3]);
        assert_eq!(hits(&of(3)), [2, 3, 7, 8]);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_call_of_every_thread_fails_with_every_error_within_a_thousand_rounds() {
        let pairs: usize = TARGETS.iter().map(|(_, calls)| calls.len()).sum();
        let plans = (0..1_000).map(|number| RoundPlan::of(1, number).injection);
        let all: std::collections::BTreeSet<_> = plans
            .map(|plan| (plan.thread, plan.call, plan.failure))
            .collect();
        assert_eq!(all.len(), pairs * CallError::ALL.len());
        let known = |call: &&str| {
            super::super::calls::CALLS
                .iter()
                .any(|one| one.name == *call)
        };
        let mut calls = TARGETS.iter().flat_map(|(_, calls)| calls.iter());
        assert!(calls.all(|(call, _)| known(call)));
    }
}
