//! Judgement of what was sent and acknowledged against what arrived: no input or output, and no
//! mercy.
//!
//! # Duplicates
//! An arrival is *settled* if its request was answered, and the worker that had sent it was done
//! with it: it sent another one over the same connection, or [`SETTLE_MAX`] passed before the kill.
//! Then the process knew, and had written down, that the event was delivered. Each
//! event may have at most as many settled arrivals as it was sent times: once over TCP; over RELP
//! once more for each session in which it was sent again because no answer had come. Every other
//! arrival was in flight at a kill, or its request was left without an answer by the recorder.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::recorder::{Request, RequestOutcome};
use super::stage::{Account, LaneProtocol};

/// Time before a power cut or kill at which a TCP event must have been accepted to be safe.
pub(super) const PROMISE: Duration = Duration::from_millis(50);

/// Time after an answer in which its effect is written down, at most: longer than a file system
/// that commits its journal lets a write wait.
pub(super) const SETTLE_MAX: Duration = Duration::from_millis(500);

/// One life of the process.
#[derive(Clone, Debug)]
pub(super) struct ProcessLife {
    pub(super) number: u32,
    /// `None`: it was not killed.
    pub(super) killed: Option<Instant>,
    /// Events that each lane's source had accepted at the latest at these moments.
    pub(super) looks: Vec<(Instant, Vec<u64>)>,
}

/// Kind and account of a lane.
pub(super) struct LaneAccount {
    pub(super) kind: LaneProtocol,
    pub(super) account: Account,
}

/// The outcome, in events where nothing else is said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CrashVerdict {
    pub(super) sent: u64,
    pub(super) delivered: u64,
    pub(super) acked: u64,
    pub(super) acked_lost: u64,
    /// Over TCP: accepted long enough before a kill, or in a life that was not killed.
    pub(super) owed: u64,
    pub(super) owed_lost: u64,
    /// Of those, in a life that was not killed.
    pub(super) spared_lost: u64,
    /// Over TCP: sent and not delivered, most of them still on the way to the process.
    pub(super) gone: u64,
    /// The longest time before its kill that a lost event had been accepted, milliseconds.
    pub(super) oldest_loss_ms: f64,
    /// Arrivals beyond the first.
    pub(super) duplicates: u64,
    /// Of those, in a request that was open at a kill or answered just before.
    pub(super) in_flight: u64,
    /// Of those, in a request that the recorder left without an answer.
    pub(super) unanswered: u64,
    /// Of those, sent twice over RELP.
    pub(super) resent: u64,
    /// Settled more often than they were sent.
    pub(super) unexplained: u64,
    /// Arrivals of what nobody sent.
    pub(super) unsent: u64,
    /// Duplicates after one kill, at most.
    pub(super) per_kill_max: u64,
    /// Events in requests in flight at one kill, at most.
    pub(super) in_flight_max: u64,
    /// The longest time between the answer to a request and the kill after which its events came
    /// again, milliseconds.
    pub(super) repeated_ms: f64,
    /// The first things that are wrong.
    pub(super) wrong: Vec<String>,
}

/// Arrivals of one event.
#[derive(Clone, Copy, Default)]
struct Arrived {
    times: u8,
    settled: u8,
    last: u32,
}

/// Things that are wrong and told one by one.
const TOLD_MAX: usize = 20;

impl CrashVerdict {
    /// Judges.
    pub(super) fn of(lanes: &[LaneAccount], lives: &[ProcessLife], requests: &[Request]) -> Self {
        let mut verdict = Self::default();
        let empty = |lane: &LaneAccount| vec![Arrived::default(); lane.account.sends.len()];
        let mut arrived: Vec<Vec<Arrived>> = lanes.iter().map(empty).collect();
        verdict.count_arrivals(&mut arrived, lives, requests);
        for (index, (lane, arrived)) in lanes.iter().zip(&arrived).enumerate() {
            let history = |number| history(index, number, lives, requests);
            verdict.judge_arrivals(index, lane, arrived, history);
            if lane.kind == LaneProtocol::Tcp {
                verdict.judge_owed(index, lane, arrived, lives);
            }
        }
        verdict
    }

    fn tell(&mut self, text: String) {
        if self.wrong.len() < TOLD_MAX {
            self.wrong.push(text);
        }
    }

    fn count_arrivals(
        &mut self,
        arrived: &mut [Vec<Arrived>],
        lives: &[ProcessLife],
        requests: &[Request],
    ) {
        let mut after_kill = vec![0_u64; lives.len() + 1];
        let mut at_kill = vec![0_u64; lives.len() + 1];
        for (index, request) in (0_u32..).zip(requests) {
            let settled = is_settled(request, lives);
            for (lane, numbers) in &request.events {
                let broken = request.outcome == RequestOutcome::Broken;
                if !settled && !broken {
                    at_kill[request.life as usize] += numbers.len() as u64;
                }
                for number in numbers.clone() {
                    let lane = arrived.get_mut(usize::from(*lane));
                    let Some(event) = lane.and_then(|lane| lane.get_mut(number as usize)) else {
                        self.unsent += 1;
                        continue;
                    };
                    if event.times > 0 {
                        let before = &requests[event.last as usize];
                        let killed = self.duplicate(before, lives);
                        after_kill[before.life as usize] += u64::from(killed);
                    }
                    event.times = event.times.saturating_add(1);
                    event.settled = event.settled.saturating_add(u8::from(settled));
                    event.last = index;
                }
            }
        }
        self.per_kill_max = after_kill.into_iter().max().unwrap_or(0);
        self.in_flight_max = at_kill.into_iter().max().unwrap_or(0);
    }

    /// Counts an arrival after that in the request `before`; whether a kill is its cause.
    fn duplicate(&mut self, before: &Request, lives: &[ProcessLife]) -> bool {
        self.duplicates += 1;
        if before.outcome == RequestOutcome::Broken {
            self.unanswered += 1;
            return false;
        }
        if is_settled(before, lives) {
            self.resent += 1;
            return true;
        }
        self.in_flight += 1;
        if let (RequestOutcome::Answered(at), Some(killed)) =
            (before.outcome, killed(before, lives))
        {
            let ms = killed.saturating_duration_since(at).as_secs_f64() * 1e3;
            self.repeated_ms = self.repeated_ms.max(ms);
        }
        true
    }

    fn judge_arrivals(
        &mut self,
        index: usize,
        lane: &LaneAccount,
        arrived: &[Arrived],
        history: impl Fn(u32) -> String,
    ) {
        let mut told = None;
        let account = &lane.account;
        self.sent += arrived.len() as u64;
        for (number, event) in arrived.iter().enumerate() {
            self.delivered += u64::from(event.times > 0);
            if event.settled > account.sends[number] {
                self.unexplained += 1;
                // Of neighbours, which went the same way, the first is enough.
                if told != number.checked_sub(1) {
                    let sends = account.sends[number];
                    let history = history(number as u32);
                    self.tell(format!(
                        "lane {index} event {number}: sent {sends} times; {history}"
                    ));
                }
                told = Some(number);
            }
            if account.acked[number] {
                self.acked += 1;
                if event.times == 0 {
                    self.acked_lost += 1;
                    self.tell(format!(
                        "lane {index} event {number}: acknowledged and lost"
                    ));
                }
            }
            self.gone += u64::from(lane.kind == LaneProtocol::Tcp && event.times == 0);
        }
    }

    fn judge_owed(
        &mut self,
        index: usize,
        lane: &LaneAccount,
        arrived: &[Arrived],
        lives: &[ProcessLife],
    ) {
        let bases = &lane.account.bases;
        for (at, (number, base)) in bases.iter().enumerate() {
            let Some(life) = lives.iter().find(|life| life.number == *number) else {
                continue;
            };
            let next = bases
                .get(at + 1)
                .map_or(arrived.len() as u32, |next| next.1);
            let sent = *base..next;
            let owed = owed(life, index, &sent);
            self.owed += owed.len() as u64;
            if owed.end > next {
                self.tell(format!(
                    "lane {index} life {number}: more accepted than sent"
                ));
            }
            let is_lost = |number: &u32| {
                let event = arrived.get(*number as usize);
                event.is_some_and(|event| event.times == 0)
            };
            let lost = owed.clone().filter(is_lost).count() as u64;
            if lost > 0 {
                self.owed_lost += lost;
                if life.killed.is_none() {
                    self.spared_lost += lost;
                }
                let all = owed.len();
                self.tell(format!(
                    "lane {index} life {number}: {lost} of {all} owed are lost"
                ));
            }
            let first_lost = sent.clone().find(is_lost);
            let age = first_lost.and_then(|number| age_of_loss(life, index, number - base));
            let ms = age.map_or(0.0, |age| age.as_secs_f64() * 1e3);
            self.oldest_loss_ms = self.oldest_loss_ms.max(ms);
        }
    }
}

/// Arrivals of an event, and the outcome of each request that held it.
fn history(lane: usize, number: u32, lives: &[ProcessLife], requests: &[Request]) -> String {
    let holds =
        |(of, numbers): &(u8, Range<u32>)| usize::from(*of) == lane && numbers.contains(&number);
    let told = |request: &Request| {
        let fate = match (request.outcome, killed(request, lives)) {
            (RequestOutcome::Answered(at), Some(killed)) => {
                let ms = killed.saturating_duration_since(at).as_secs_f64() * 1e3;
                format!("answered {ms:.1} ms before the kill")
            }
            (outcome, _) => format!("{outcome:?}"),
        };
        format!("in life {}: {fate}", request.life)
    };
    let arrivals = requests
        .iter()
        .filter(|request| request.events.iter().any(holds));
    arrivals.map(told).collect::<Vec<_>>().join("; ")
}

fn killed(request: &Request, lives: &[ProcessLife]) -> Option<Instant> {
    let life = lives.iter().find(|life| life.number == request.life)?;
    life.killed
}

fn is_settled(request: &Request, lives: &[ProcessLife]) -> bool {
    let RequestOutcome::Answered(at) = request.outcome else {
        return false;
    };
    request.followed || killed(request, lives).is_none_or(|killed| at + SETTLE_MAX <= killed)
}

/// Of what a lane sent in a life, the events that must be delivered: over one connection, those
/// that were accepted are the first ones.
fn owed(life: &ProcessLife, lane: usize, sent: &Range<u32>) -> Range<u32> {
    let Some(killed) = life.killed else {
        return sent.clone();
    };
    let mut safe = life.looks.iter().filter(|(at, _)| *at + PROMISE < killed);
    let accepted = safe.next_back().map_or(0, |(_, accepted)| accepted[lane]);
    sent.start..sent.start + accepted as u32
}

/// Time before the kill at which the event `index` of a life was known to be accepted.
fn age_of_loss(life: &ProcessLife, lane: usize, index: u32) -> Option<Duration> {
    let counted = |(_, accepted): &&(Instant, Vec<u64>)| accepted[lane] > u64::from(index);
    let (at, _) = life.looks.iter().find(counted)?;
    Some(life.killed?.saturating_duration_since(*at))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::single_range_in_vec_init)]

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Two lanes of ten events, RELP and TCP; event 3 of RELP is acknowledged, and was sent twice.
    fn lanes() -> Vec<LaneAccount> {
        let account = Account {
            sends: vec![1; 10],
            acked: vec![false; 10],
            bases: vec![(1, 0), (2, 6)],
            ..Account::default()
        };
        let mut relp = account.clone();
        relp.acked[3] = true;
        relp.sends[3] = 2;
        vec![
            LaneAccount {
                kind: LaneProtocol::Relp,
                account: relp,
            },
            LaneAccount {
                kind: LaneProtocol::Tcp,
                account,
            },
        ]
    }

    /// A life that is killed 100 ms after `start`, and one that is not.
    fn lives(start: Instant) -> Vec<ProcessLife> {
        let looks = vec![(start + 20 * MS, vec![0, 2]), (start + 80 * MS, vec![0, 5])];
        let killed = Some(start + 100 * MS);
        vec![
            ProcessLife {
                number: 1,
                killed,
                looks,
            },
            ProcessLife {
                number: 2,
                killed: None,
                looks: Vec::new(),
            },
        ]
    }

    fn request(life: u32, lane: u8, numbers: Range<u32>, outcome: RequestOutcome) -> Request {
        Request {
            life,
            events: vec![(lane, numbers)],
            outcome,
            followed: false,
        }
    }

    fn judged(requests: impl Fn(Instant) -> Vec<Request>) -> CrashVerdict {
        let start = Instant::now();
        CrashVerdict::of(&lanes(), &lives(start), &requests(start))
    }

    #[test]
    fn what_was_acknowledged_or_accepted_in_time_must_arrive() {
        let all = judged(|at| {
            let answered = RequestOutcome::Answered(at);
            vec![
                request(1, 0, 0..10, answered),
                request(1, 1, 0..2, answered),
                request(2, 1, 6..10, answered),
            ]
        });
        let lost = (all.acked_lost, all.owed_lost, all.gone);
        assert_eq!((all.acked, all.owed, lost), (1, 2 + 4, (0, 0, 4)));
        assert!((all.oldest_loss_ms - 20.0).abs() < 1e-6 && all.wrong.is_empty());

        let none = judged(|at| vec![request(1, 1, 0..1, RequestOutcome::Answered(at))]);
        let lost = (none.acked_lost, none.owed_lost, none.spared_lost);
        assert_eq!(lost, (1, 5, 4));
        assert!((none.oldest_loss_ms - 80.0).abs() < 1e-6, "{none:?}");
        assert_eq!(none.wrong.len(), 3);
    }

    #[test]
    fn a_duplicate_needs_an_excuse() {
        let twice = |life, lane, number: u32, outcome: fn(Instant) -> RequestOutcome| {
            judged(move |at| {
                let again = request(
                    2,
                    lane,
                    number..number + 1,
                    RequestOutcome::Answered(at + 200 * MS),
                );
                vec![request(life, lane, number..number + 1, outcome(at)), again]
            })
        };
        let settled = |at| RequestOutcome::Answered(at - SETTLE_MAX);
        assert_eq!(twice(1, 1, 0, settled).unexplained, 1);
        assert_eq!(twice(2, 1, 0, settled).unexplained, 1);
        let resent = twice(1, 0, 3, settled);
        assert_eq!((resent.unexplained, resent.resent), (0, 1));
        let late = twice(1, 1, 0, |at| RequestOutcome::Answered(at + 90 * MS));
        let counts = (late.unexplained, late.in_flight, late.per_kill_max);
        assert_eq!((counts, late.in_flight_max), ((0, 1, 1), 1));
        assert!((late.repeated_ms - 10.0).abs() < 1e-6);
        let open = twice(1, 1, 0, |_| RequestOutcome::Open);
        assert_eq!((open.unexplained, open.in_flight), (0, 1));
        let broken = twice(2, 1, 0, |_| RequestOutcome::Broken);
        assert_eq!((broken.unexplained, broken.unanswered), (0, 1));
        assert_eq!(broken.per_kill_max, 0);
    }

    #[test]
    fn what_nobody_sent_is_counted() {
        assert_eq!(
            judged(|_| vec![request(1, 1, 9..12, RequestOutcome::Open)]).unsent,
            2
        );
        assert_eq!(
            judged(|_| vec![request(1, 7, 0..1, RequestOutcome::Open)]).unsent,
            1
        );
    }
}
