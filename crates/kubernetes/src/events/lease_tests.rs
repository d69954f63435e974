//! The election in a model of several processes, an API server and a network that loses.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::events::lease_object::TIMING;

const IDENTITIES: [&str; 3] = ["a", "b", "c"];

/// The Lease in the model of the API server.
#[derive(Default)]
struct ModelServer {
    lease: Option<LeaseRecord>,
    writes: u32,
}

impl ModelServer {
    fn handle(&mut self, who: &str, action: &LeaseAction, duration: Duration) -> LeaseReply {
        let transitions = match action {
            LeaseAction::Read | LeaseAction::Wait(_) => {
                return self
                    .lease
                    .clone()
                    .map_or(LeaseReply::Missing, LeaseReply::Found);
            }
            LeaseAction::Create if self.lease.is_some() => return LeaseReply::Conflict,
            LeaseAction::Create => 0,
            LeaseAction::Replace {
                version,
                transitions,
                ..
            } => match &self.lease {
                Some(lease) if lease.version == *version => *transitions,
                Some(_) => return LeaseReply::Conflict,
                None => return LeaseReply::Missing,
            },
        };
        self.writes += 1;
        let record = LeaseRecord {
            version: self.writes.to_string(),
            holder: who.to_owned(),
            duration,
            transitions,
        };
        self.lease = Some(record.clone());
        LeaseReply::Written(record)
    }
}

/// Faults of the network and the host in one action.
#[derive(Clone, Copy, Debug)]
struct Fate {
    to_server_ms: u64,
    back_ms: u64,
    lost_before: bool,
    lost_after: bool,
    /// Time in which the process does not run before it takes the answer.
    pause_ms: u64,
}

const WELL: Fate = Fate {
    to_server_ms: 5,
    back_ms: 5,
    lost_before: false,
    lost_after: false,
    pause_ms: 0,
};

fn fates() -> impl Strategy<Value = Fate> {
    let delay = prop_oneof![4 => 0..50_u64, 1 => 0..20_000_u64];
    let pause = prop_oneof![8 => Just(0_u64), 1 => 0..40_000_u64];
    let lost = || prop::bool::weighted(0.15);
    (delay.clone(), delay, lost(), lost(), pause).prop_map(
        |(to_server_ms, back_ms, lost_before, lost_after, pause_ms)| Fate {
            to_server_ms,
            back_ms,
            lost_before,
            lost_after,
            pause_ms,
        },
    )
}

#[derive(Clone, Debug)]
enum Happening {
    Act,
    Arrive(LeaseAction, Duration, Fate),
    Answer(LeaseReply, Duration),
}

/// A process with a clock of its own: it runs at another rate, and began at another time.
struct Process {
    election: LeaseElection,
    rate: f64,
    offset: Duration,
}

impl Process {
    fn clock(&self, at_ms: u64) -> Duration {
        self.offset + Duration::from_millis(at_ms).mul_f64(self.rate)
    }

    fn leads(&self, at_ms: u64) -> bool {
        let until = self.election.leads_until();
        until.is_some_and(|until| self.clock(at_ms) < until)
    }
}

struct Model {
    server: ModelServer,
    processes: Vec<Process>,
    /// Time, number of the process, and what happens.
    agenda: Vec<(u64, usize, Happening)>,
    now_ms: u64,
}

impl Model {
    fn new(rates: &[f64]) -> Self {
        let processes = rates.iter().zip(IDENTITIES).enumerate();
        let process = |(number, (rate, name)): (usize, (&f64, &str))| Process {
            election: LeaseElection::new(name.to_owned(), TIMING),
            rate: *rate,
            offset: Duration::from_secs(1000 * number as u64),
        };
        let mut processes: Vec<Process> = processes.map(process).collect();
        for process in &mut processes {
            process.election.next_at = process.offset;
        }
        Self {
            server: ModelServer::default(),
            agenda: (0..rates.len()).map(|n| (0, n, Happening::Act)).collect(),
            processes,
            now_ms: 0,
        }
    }

    /// The next thing happens, with this fate if it is an action.
    fn step(&mut self, fate: Fate) {
        let first = (0..self.agenda.len()).min_by_key(|&at| self.agenda[at].0);
        let (at_ms, number, what) = self.agenda.swap_remove(first.unwrap());
        self.now_ms = at_ms;
        let process = &mut self.processes[number];
        let clock = process.clock(at_ms);
        match what {
            Happening::Act => match process.election.next(clock) {
                LeaseAction::Wait(wait) => {
                    let wait_ms = wait.div_f64(process.rate).as_millis() as u64 + 1;
                    self.agenda.push((at_ms + wait_ms, number, Happening::Act));
                }
                action => {
                    let arrives = at_ms + fate.to_server_ms;
                    let what = Happening::Arrive(action, clock, fate);
                    self.agenda.push((arrives, number, what));
                }
            },
            Happening::Arrive(action, sent, fate) => {
                let duration = TIMING.duration;
                let reply = match fate.lost_before {
                    true => LeaseReply::Failed,
                    false => self.server.handle(IDENTITIES[number], &action, duration),
                };
                let reply = match fate.lost_after {
                    true => LeaseReply::Failed,
                    false => reply,
                };
                let comes = at_ms + fate.back_ms + fate.pause_ms;
                self.agenda
                    .push((comes, number, Happening::Answer(reply, sent)));
            }
            Happening::Answer(reply, sent) => {
                process.election.reply(reply, sent, clock);
                self.agenda.push((at_ms, number, Happening::Act));
            }
        }
    }

    fn leaders(&self) -> Vec<usize> {
        let all = 0..self.processes.len();
        all.filter(|n| self.processes[*n].leads(self.now_ms))
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn at_most_one_leads_and_one_does_once_all_is_well(
        rates in prop::collection::vec(0.9..1.09_f64, 2..=3),
        fates in prop::collection::vec(fates(), 0..300),
    ) {
        let mut model = Model::new(&rates);
        for fate in fates {
            model.step(fate);
            let leaders = model.leaders();
            prop_assert!(leaders.len() <= 1, "{leaders:?} at {} ms", model.now_ms);
        }
        // What is under way may take 80 s more; then one reads, waits and takes.
        let end = model.now_ms + 80_000 + 60_000;
        while model.now_ms < end {
            model.step(WELL);
            prop_assert!(model.leaders().len() <= 1);
        }
        prop_assert_eq!(model.leaders().len(), 1);
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn held_by(holder: &str, version: &str) -> LeaseRecord {
    LeaseRecord {
        version: version.to_owned(),
        holder: holder.to_owned(),
        duration: at(15),
        transitions: 4,
    }
}

#[test]
fn a_lease_is_taken_once_it_was_seen_unchanged_for_its_duration() {
    let mut election = LeaseElection::new("a".into(), TIMING);
    assert_eq!(election.next(at(0)), LeaseAction::Read);
    election.reply(LeaseReply::Found(held_by("b", "1")), at(0), at(1));
    assert_eq!(election.next(at(1)), LeaseAction::Wait(at(3)));
    election.reply(LeaseReply::Found(held_by("b", "2")), at(9), at(10));
    election.reply(LeaseReply::Found(held_by("b", "2")), at(23), at(24));
    assert_eq!(election.next(at(27)), LeaseAction::Read);
    election.reply(LeaseReply::Found(held_by("b", "2")), at(24), at(25));
    let takes = LeaseAction::Replace {
        version: "2".into(),
        transitions: 5,
        takes: true,
    };
    assert_eq!(election.next(at(25)), takes);
    assert_eq!(election.leads_until(), None);
    election.reply(LeaseReply::Written(held_by("a", "3")), at(25), at(29));
    assert_eq!(election.leads_until(), Some(at(35)));
}

#[test]
fn a_released_lease_is_taken_at_once_and_an_endless_one_in_the_end() {
    let mut election = LeaseElection::new("a".into(), TIMING);
    election.reply(LeaseReply::Found(held_by("", "1")), at(0), at(1));
    assert!(matches!(election.next(at(1)), LeaseAction::Replace { .. }));
    let endless = LeaseRecord {
        duration: at(1 << 40),
        ..held_by("b", "2")
    };
    election.reply(LeaseReply::Found(endless.clone()), at(1), at(2));
    election.reply(LeaseReply::Found(endless), at(601), at(602));
    assert!(matches!(
        election.next(at(602)),
        LeaseAction::Replace { .. }
    ));
}

#[test]
fn who_loses_the_lease_stops_at_once_and_who_releases_it_names_its_version() {
    let mut election = LeaseElection::new("a".into(), TIMING);
    election.reply(LeaseReply::Missing, at(0), at(0));
    assert_eq!(election.next(at(0)), LeaseAction::Create);
    election.reply(LeaseReply::Written(held_by("a", "1")), at(0), at(0));
    assert_eq!(election.leads_until(), Some(at(10)));
    election.reply(LeaseReply::Failed, at(3), at(8));
    assert_eq!(election.leads_until(), Some(at(10)));
    election.reply(LeaseReply::Found(held_by("b", "2")), at(8), at(9));
    assert_eq!((election.leads_until(), election.release()), (None, None));
    election.reply(LeaseReply::Written(held_by("a", "3")), at(30), at(30));
    assert_eq!(election.release(), Some(held_by("a", "3")));
    assert_eq!(election.leads_until(), None);
}
