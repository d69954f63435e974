//! Who waits for answers gets the same ones, whoever studied the events: each after the last event
//! of its request, and a refusal for what was refused.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::net::IpAddr;

use inrush_codec::Frame;
use inrush_event::{Anomalies, ByteSize, Peer, Protocol, SourceSnapshot, Timestamp};
use inrush_queue::{Durability, QueueOptions, WhenFull};
use proptest::prelude::*;

use super::acks::{AckTarget, AppendOutcome};
use super::decoded::{AppendedPart, DecodedNames};
use super::tests::{Bench, DROP_NOISE, ISE};
use super::*;
use crate::buffer_quota::BufferQuota;

const PART: u32 = 0;
const LAST: u32 = 1;

/// Connections of a bench.
const CLIENTS: usize = 2;

/// Decoder of lines as the HTTP Event Collector has it: `j` is decoded as a whole, `h` and `t` have
/// a host and a time of their request, `x` is asked about by no pack. A line `.` ends the request.
struct Client {
    id: AckTarget,
    request: u64,
    events: u64,
    /// Events of each request that has ended, and of all before.
    ended: Vec<u64>,
    all: u64,
}

impl Client {
    fn line(&mut self, arena: &[u8], span: Span, frames: &mut FrameIntake<'_>) {
        let (kind, span) = (arena[span.start()], Span::new(span.start() + 1, span.end()));
        let names = DecodedNames {
            index: b"idx",
            sourcetype: [b"one", b"two"][span.len() % 2],
            source: b"",
            recognised: kind != b'x' && kind != b'j',
            product: None,
        };
        self.events += 1;
        if kind == b'j' {
            return frames.take_decoded(span, names, |mut event| {
                event.append(AppendedPart::Text, |out| {
                    out.extend_from_slice(b"without escapes: ");
                    out.extend_from_slice(span.of(arena));
                });
                event.append(AppendedPart::Host, |out| out.extend_from_slice(b"h9"));
            });
        }
        let anomalies = match kind {
            b't' => Anomalies::OVERSIZE,
            _ => Anomalies::NONE,
        };
        frames.take_named(Frame { span, anomalies }, names, |mut event| match kind {
            b't' => event.record.event_time = Timestamp(77),
            b'h' => event.append(AppendedPart::Host, |out| out.extend_from_slice(b"given")),
            _ => {}
        });
    }
}

impl StreamDecoder for Client {
    fn decode(
        &mut self,
        arena: &[u8],
        start: usize,
        frames: &mut FrameIntake<'_>,
        acks: &mut PendingAcks,
    ) -> usize {
        let (mut at, before) = (start, self.events);
        let mut taken = before;
        while let Some(length) = arena[at..].iter().position(|byte| *byte == b'\n') {
            let span = Span::new(at, at + length);
            at += length + 1;
            if span.of(arena) != b"." {
                self.line(arena, span, frames);
                continue;
            }
            self.all += self.events;
            self.ended.push(self.all);
            if self.events > 0 {
                acks.push(self.id, self.request, LAST);
            }
            (self.events, taken) = (0, 0);
            self.request += 1;
        }
        if self.events > taken {
            acks.push(self.id, self.request, PART);
        }
        at
    }

    fn finish(&mut self, _: &[u8], _: usize, _: &mut FrameIntake<'_>) {}

    fn give_up(&mut self, _: &[u8], _: usize, _: &mut FrameIntake<'_>) {}

    fn cut_bytes(&self) -> [u64; 3] {
        [0; 3]
    }

    fn answers(&self) -> bool {
        true
    }
}

/// One thing that happens to a worker.
#[derive(Clone, Debug)]
enum Step {
    /// So many lines of a client.
    Send {
        client: usize,
        kind: u8,
        times: usize,
    },
    /// A client's request ends, with what came before it or after that was handed on.
    End { client: usize, apart: bool },
    /// The worker has read all that there is, and hands on what someone waits for.
    Idle,
    /// The worker has rest, or not any more.
    Share(bool),
    /// It goes on with what it lent, for a moment.
    Help,
    /// The same settings again.
    Reload,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let send = (0..CLIENTS, 0u8..8, 1usize..120);
    let send = send.prop_map(|(client, kind, times)| Step::Send {
        client,
        kind,
        times,
    });
    let end = (0..CLIENTS, any::<bool>());
    let end = end.prop_map(|(client, apart)| Step::End { client, apart });
    let step = prop_oneof![
        12 => send,
        6 => end,
        3 => Just(Step::Idle),
        4 => prop::bool::weighted(0.8).prop_map(Step::Share),
        4 => Just(Step::Help),
        1 => Just(Step::Reload),
    ];
    prop::collection::vec(step, 1..60)
}

/// A line of that kind; its number and its request are found again in it.
fn line(kind: u8, number: u64, request: u64, padding: usize) -> String {
    let tail = format!("r{request} {}", "x".repeat(padding));
    match kind {
        0 => format!("j{{\"event\":{number}}} {tail}"),
        1 => format!("x<13>May  6 07:08:09 h1 plain: {number} {tail}"),
        2 => format!("l<13>May  6 07:08:09 h1 noise: {number} {tail}"),
        3 => format!("lno header {number} {tail}"),
        4 => format!("h<13>May  6 07:08:09 h1 other[{number}]: {tail}"),
        5 => format!("t<13>May  6 07:08:09 h1 other[{number}]: {tail}"),
        6 => format!(
            "l<181>May  6 07:08:09 psn1 CISE_RADIUS_Accounting {number:010} 3 0 Step=1, {tail}"
        ),
        _ => format!("l<13>May  6 07:08:09 h1 other[{number}]: {tail}"),
    }
}

/// Answers of a client: number of the request, its end or a part, whether it was refused.
type Answers = Vec<(u64, u32, bool)>;

struct Run {
    bench: Bench,
    rules: String,
    clients: Vec<(StreamBuffer<Client>, Origin)>,
    answers: Vec<Answers>,
    number: u64,
    padding: usize,
}

/// Result of a run.
#[derive(PartialEq, Debug)]
struct Outcome {
    /// Events of each client in their order, with all that is known of them.
    events: BTreeMap<IpAddr, Vec<String>>,
    answers: Vec<Answers>,
    account: String,
    filtered: u64,
    anomalies: BTreeMap<String, u64>,
    senders: Vec<(IpAddr, u64)>,
}

impl Run {
    fn new(rules: String, options: QueueOptions, padding: usize) -> Self {
        let client = |key: usize| {
            let client = Client {
                id: AckTarget { key, serial: 1 },
                request: 1,
                events: 0,
                ended: Vec::new(),
                all: 0,
            };
            let origin = Origin::Peer(Peer {
                ip: IpAddr::from([192, 0, 2, key as u8]),
                local_port: 8088,
                protocol: Protocol::Http,
                client: None,
            });
            let account = BufferQuota::of(1 << 20).hold();
            (StreamBuffer::new(client, account), origin)
        };
        Self {
            bench: Bench::with(&rules, 3, options),
            rules,
            clients: (0..CLIENTS).map(client).collect(),
            answers: vec![Vec::new(); CLIENTS],
            number: 0,
            padding,
        }
    }

    fn send(&mut self, client: usize, text: &str) {
        let now = self.bench.at(0);
        let (stream, origin) = &mut self.clients[client];
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let room = self.bench.filler.begin_read(stream, 0, now);
            let count = rest.len().min(room.len());
            room[..count].copy_from_slice(&rest[..count]);
            self.bench
                .filler
                .end_read(origin, stream, count, false, now);
            rest = &rest[count..];
        }
        self.bench.filler.flush_if_due(now);
    }

    fn step(&mut self, step: &Step, shares: bool) {
        let now = self.bench.at(0);
        match step {
            Step::Send {
                client,
                kind,
                times,
            } => {
                let request = self.clients[*client].0.decoder.request;
                let from = self.number;
                self.number += *times as u64;
                let lines = (from..self.number)
                    .map(|number| line(*kind, number, request, self.padding) + "\n");
                self.send(*client, &lines.collect::<String>());
            }
            Step::End { client, apart } => {
                if *apart {
                    self.bench.filler.flush(now);
                }
                self.send(*client, ".\n");
            }
            Step::Idle => self.bench.filler.flush_if_owed(now),
            Step::Share(wanted) => self.bench.filler.share(shares && *wanted),
            Step::Help => drop(self.bench.filler.help(now)),
            Step::Reload => self.bench.reload(&self.rules),
        }
        self.take_answers();
    }

    /// Takes the answers that are due. None may come before all events of its request have.
    fn take_answers(&mut self) {
        let durable_end = self.bench.durable_end();
        while let Some(due) = self.bench.filler.next_due(durable_end) {
            let refused = due.outcome == AppendOutcome::Refused;
            for ack in due.acks {
                let answers = &mut self.answers[ack.target.key];
                for number in (ack.first..).take(ack.count as usize) {
                    let answer = (number, ack.tag, refused);
                    if answers.last() != Some(&answer) {
                        answers.push(answer);
                    }
                }
            }
        }
        let row = self.bench.row();
        let known: u64 = row.accepted + row.rejected.values().sum::<u64>();
        let answered = self.answers.iter().zip(&self.clients);
        let answered = answered.filter_map(|(answers, (stream, _))| {
            let (number, ..) = answers.iter().rfind(|(_, tag, _)| *tag == LAST)?;
            Some(stream.decoder.ended[*number as usize - 1])
        });
        assert!(answered.sum::<u64>() <= known, "answered too early");
    }

    fn close(&mut self) {
        self.bench.filler.close(self.bench.at(0));
        self.take_answers();
        assert!(!self.bench.filler.owed().is_waiting());
        assert!(!self.bench.filler.owed().is_open());
    }

    fn outcome(mut self) -> Outcome {
        self.close();
        let SourceSnapshot {
            received,
            received_bytes,
            accepted,
            held,
            ..
        } = self.bench.row();
        let mut events: BTreeMap<IpAddr, Vec<String>> = BTreeMap::new();
        for (ip, event) in self.bench.described() {
            events.entry(ip).or_default().push(event);
        }
        Outcome {
            events,
            answers: self.answers.clone(),
            account: format!("{received} {received_bytes} {accepted} {held}"),
            filtered: self.bench.filtered("noise"),
            anomalies: self.bench.source.anomaly_counts(),
            senders: self.bench.senders(),
        }
    }
}

fn in_memory() -> QueueOptions {
    QueueOptions {
        durability: Durability::Memory,
        ..QueueOptions::default()
    }
}

/// A queue that refuses what is more than a few batches.
fn small() -> QueueOptions {
    QueueOptions {
        when_full: WhenFull::DropNewest,
        memory_bytes: Some(ByteSize(limits::QUEUE_BYTES_MIN)),
        ..in_memory()
    }
}

fn run(steps: &[Step], shares: bool) -> (Outcome, u64) {
    let mut run = Run::new(format!("{DROP_NOISE}{ISE}"), in_memory(), 0);
    steps.iter().for_each(|step| run.step(step, shares));
    let shared = run.bench.source.shared_batches.get();
    (run.outcome(), shared)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn what_others_studied_is_answered_alike(steps in steps()) {
        prop_assert_eq!(run(&steps, true).0, run(&steps, false).0);
    }

    /// A request is told of each refusal of its events, and its parts of no other. Its end may lie
    /// in a batch with events of others, and be refused with them.
    #[test]
    fn a_refusal_is_for_the_request_that_was_refused(steps in steps(), shares in any::<bool>()) {
        let mut run = Run::new(ISE.to_owned(), small(), 4000);
        steps.iter().for_each(|step| run.step(step, shares));
        run.close();
        let mut taken: BTreeMap<(IpAddr, u64), u64> = BTreeMap::new();
        for (ip, text) in run.bench.events() {
            let request = text.split(" r").nth(1).and_then(|rest| rest.split(' ').next());
            *taken.entry((ip, request.unwrap().parse().unwrap())).or_default() += 1;
        }
        for ((stream, origin), answers) in run.clients.iter().zip(&run.answers) {
            let mut before = 0;
            for (number, ended) in (1..).zip(&stream.decoder.ended) {
                let sent = ended - before;
                before = *ended;
                let of_it = || answers.iter().filter(|(one, ..)| *one == number);
                let refused = of_it().any(|(.., refused)| *refused);
                let part = of_it().any(|(_, tag, refused)| *refused && *tag == PART);
                let taken = taken.get(&(origin.ip().unwrap(), number)).copied();
                let lost = taken.unwrap_or(0) < sent;
                prop_assert!(part <= lost && lost <= refused, "{}: {:?}", number, answers);
            }
        }
    }
}

impl Run {
    /// A worker without rest that was sent so many lines of these kinds, one request each, and has
    /// read all that there is.
    fn hot(lines: &[(u8, usize)]) -> Self {
        let mut run = Self::new(ISE.to_owned(), in_memory(), 0);
        run.step(&Step::Share(true), true);
        for (kind, times) in lines {
            let (client, kind, times) = (0, *kind, *times);
            let send = Step::Send {
                client,
                kind,
                times,
            };
            for step in [send, end(client), Step::Idle] {
                run.step(&step, true);
            }
        }
        run
    }

    fn lent(&self) -> u64 {
        self.bench.source.shared_batches.get()
    }
}

#[test]
fn events_that_no_rule_is_asked_about_are_not_lent() {
    assert_eq!(Run::hot(&[(1, 100); 4]).lent(), 0, "lines without packs");
    assert_eq!(Run::hot(&[(0, 100); 4]).lent(), 0, "objects");
    assert_eq!(Run::hot(&[(7, 100), (0, 100), (0, 100)]).lent(), 2);
    let rare = [vec![(7, 1)], vec![(0, 1); 100]].concat();
    assert!(Run::hot(&rare).lent() < 80, "the last line is long ago");
}

#[test]
fn parts_of_events_whose_sender_waits_are_no_reason_to_stop_lending() {
    let mut run = Run::hot(&[(6, 100); 4]);
    run.close();
    assert_eq!(run.lent(), 3);
}

/// Request of a client that sends so many lines, and does not end it.
fn send(client: usize, times: usize) -> Step {
    let kind = 7;
    Step::Send {
        client,
        kind,
        times,
    }
}

const fn end(client: usize) -> Step {
    let apart = false;
    Step::End { client, apart }
}

#[test]
fn the_end_of_a_request_is_not_refused_with_the_batch_before_it() {
    let mut run = Run::new(ISE.to_owned(), small(), 4000);
    let steps = [Step::Share(true), send(0, 1), Step::Idle];
    let more = [send(1, 3000), Step::Idle, end(0), Step::Idle];
    for step in steps.iter().chain(&more) {
        run.step(step, true);
    }
    run.close();
    assert!(
        run.answers[1].contains(&(1, PART, true)),
        "the queue is full"
    );
    assert_eq!(run.answers[0], [(1, PART, false), (1, LAST, false)]);
}

#[test]
fn a_worker_answers_though_no_thread_can_be_started() {
    let mut run = Run::hot(&[(7, 1)]);
    run.bench.stop_pool();
    for step in [send(0, 1), end(0), Step::Idle] {
        run.step(&step, true);
    }
    assert_eq!(run.lent(), 1);
    assert_eq!(run.answers[0].last(), Some(&(2, LAST, false)));
}
