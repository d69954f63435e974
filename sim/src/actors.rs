//! Actors of the log's simulation: sources, the log's threads and sinks, one step at a time.
//!
//! # What it guarantees
//! * The oracle hears of offers, deliveries and answers. Each step returns its verdict.
//! * An append adds nothing to a backlog over its own limit, unless its policy drops the oldest.
//! * Events that a sink takes and settles count as delivered in the ledger, exactly.
//! * The sync of a cursor ends before a round begins or is finished.
//!
//! # Limits
//! All sources together hold back `OFFERS_MAX` batches. A sink has `HAND_MAX` deliveries in hand.
//! A turn of the log's threads has up to `STEPS_MAX` steps.
//! The turn ends on a dead disk, and the caller starts a new process.

use std::ops::Range;
use std::time::Duration;

use inrush_event::{Batch, Delivery, Fate, RefuseReason, RejectReason, StreamPosition};
use inrush_queue::{DestinationBacklog, Reclaiming, WhenFull};

use crate::event::SOURCES;
use crate::oracle::OracleVerdict;
use crate::sink::SinkAnswer;
use crate::streams::{STREAMS, state, streams_of};
use crate::subject::{AppendOutcome, RoundPhase, cursor_file};
use crate::world::{LogWorld, UnackedBatch};

/// Deliveries that a sink has under way at most.
const HAND_MAX: usize = 3;

/// Steps that a thread of the log takes before another has its turn, at most.
const STEPS_MAX: u8 = 4;

/// Batches that a source holds back at most before it makes no more.
const OFFERS_MAX: usize = 4;

impl LogWorld {
    /// A source offers a new batch, or one that was not taken before.
    pub(crate) fn append_step(&mut self) -> OracleVerdict {
        let again = self.calm || self.offers.len() >= OFFERS_MAX || self.rng.bool();
        if !again || self.offers.is_empty() {
            let source = self.rng.usize(..SOURCES.len());
            let events = self.rng.u32(1..=self.scenario.batch_events_max);
            let (batch, range) = self.oracle.offer(SOURCES[source], events);
            self.counts.events += u64::from(events);
            self.offers.push(UnackedBatch {
                batch,
                source,
                first: range.start,
                events,
            });
            self.append(self.offers.len() - 1)
        } else {
            let index = self.rng.usize(..self.offers.len());
            self.append(index)
        }
    }

    fn append(&mut self, index: usize) -> OracleVerdict {
        let UnackedBatch {
            batch: number,
            source,
            first,
            events,
        } = self.offers[index];
        let urgent = self.rng.bool();
        self.tick();
        let now = self.now();
        self.note_alone();
        let positions = self.positions_to_carry();
        let batch = self.maker.batch(source, (first, events), &positions);
        let counters = self.ledger.source(SOURCES[source]);
        let full = self.full_destinations();
        let Some(subject) = &self.subject else {
            return Ok(());
        };
        let accept = || {
            counters.received.add(u64::from(events));
            counters.accepted.add(u64::from(events));
        };
        // As the workers do, some of which hand on what gathered for long.
        let gathered = Duration::from_millis(10) * (number % 4) as u32;
        let events_before = subject.log().next_event();
        let outcome = subject.append(batch, gathered, urgent, accept, now);
        // One that all its destinations turn away is not in the log.
        let is_in = subject.log().next_event() > events_before;
        self.note(|_| {
            let end = first + events;
            let what = format!("batch {number} (events {first}..{end}, urgent {urgent})");
            match positions.is_empty() {
                true => format!("{what}: {outcome:?}"),
                false => format!("{what} of streams {positions:?}: {outcome:?}"),
            }
        });
        match outcome {
            AppendOutcome::Taken(end) => {
                self.offers.swap_remove(index);
                self.oracle.accepted(number, end);
                for (stream, token) in positions {
                    let batch = is_in.then_some(number);
                    let source = SOURCES[source];
                    self.oracle.streams.noted(source, stream, token, batch);
                }
            }
            // A datagram is gone; a stream waits.
            AppendOutcome::Refused => {
                let _ = self.offers.swap_remove(index);
                counters.received.add(u64::from(events));
                counters
                    .rejected(RejectReason::QueueFull)
                    .add(u64::from(events));
            }
            AppendOutcome::Full => {}
        }
        self.check_limits(&full)
    }

    /// Positions of streams for a batch: in every other run, and not in each batch.
    fn positions_to_carry(&mut self) -> Vec<(u64, u64)> {
        let Some(rng) = self.streams.as_mut() else {
            return Vec::new();
        };
        if rng.u8(..3) == 0 {
            return Vec::new();
        }
        let streams = streams_of(rng).into_iter();
        let oracle = &mut self.oracle.streams;
        streams
            .map(|stream| (stream, oracle.next_token()))
            .collect()
    }

    /// Now and then a stream was read on, and nothing of it is an event.
    fn note_alone(&mut self) {
        let (Some(rng), Some(subject)) = (self.streams.as_mut(), &self.subject) else {
            return;
        };
        if rng.u8(..8) > 0 {
            return;
        }
        let (source, stream) = (rng.usize(..SOURCES.len()), rng.u64(..STREAMS));
        let token = self.oracle.streams.next_token();
        let state = state(token);
        let position = StreamPosition { stream, state };
        if subject.note_position(self.maker.source(source), position) {
            let source = SOURCES[source];
            self.oracle.streams.noted(source, stream, token, None);
            self.note(|_| format!("stream {stream} of {source} was read to {token}"));
        }
    }

    /// The destinations whose backlog has reached its own limit, and what is pending there.
    fn full_destinations(&self) -> Vec<(String, u64)> {
        let Some(subject) = &self.subject else {
            return Vec::new();
        };
        let backlogs = subject.backlogs().into_iter();
        let full = backlogs.filter(|backlog| {
            let sink = self
                .sinks
                .iter()
                .find(|sink| sink.name == backlog.destination);
            let limit = sink.and_then(|sink| sink.queue.max_bytes);
            limit.is_some_and(|limit| backlog.bytes > limit.0)
        });
        let pending = |backlog: DestinationBacklog| {
            let counters = self.ledger.destination(&backlog.destination);
            (backlog.destination, counters.pending.get())
        };
        full.map(pending).collect()
    }

    /// A backlog that had reached its limit has not grown: sources waited, the new events were
    /// turned away, or old ones went. Those in the segment that is being written cannot go.
    fn check_limits(&self, full: &[(String, u64)]) -> OracleVerdict {
        for (name, before) in full {
            let sink = self.sinks.iter().find(|sink| sink.name == *name);
            let own = sink.and_then(|sink| sink.queue.when_full);
            let when_full = own.unwrap_or(self.scenario.options.when_full);
            let pending = self.ledger.destination(name).pending.get();
            if pending > *before && when_full != WhenFull::DropOldest {
                return Err(format!(
                    "{name} had no room, and has {pending} events pending after {before}"
                ));
            }
        }
        Ok(())
    }

    /// The threads of the log take some steps: the one that writes with the one that syncs, or the
    /// one that deletes.
    pub(crate) fn writer_step(&mut self) -> OracleVerdict {
        let tidies = self.rng.u8(..3) == 0;
        for _ in 0..self.rng.u8(1..=STEPS_MAX) {
            match tidies {
                true => self.tidy_step()?,
                false => self.round_step()?,
            }
            // A disk takes its time, and that is when things go wrong.
            let syncing = |work: &Reclaiming| work.syncing().is_some();
            if self.disk.is_dead() || tidies && self.reclaiming.as_ref().is_some_and(syncing) {
                break;
            }
        }
        Ok(())
    }

    /// The writer begins a round, writes, writes ahead while it is synced, or reports it.
    fn round_step(&mut self) -> OracleVerdict {
        self.tick();
        let now = self.now();
        let round = self.round.take();
        if matches!(round, None | Some(RoundPhase::Run(_))) {
            // It may sync cursors, and waits for its turn.
            self.end_cursor_sync();
        }
        let ahead = self.rng.bool();
        let Some(subject) = &self.subject else {
            return Ok(());
        };
        let (words, next) = match round {
            None => {
                let round = subject.begin_round(now).map(RoundPhase::Begun);
                let rests = round.is_none();
                let words = ["a round begins", "the writer rests"][usize::from(rests)];
                (words, round)
            }
            Some(RoundPhase::Begun(round)) => {
                ("it is written", Some(RoundPhase::Written(round.write())))
            }
            Some(RoundPhase::Written(written)) => {
                ("its sync begins", Some(subject.begin_syncing(written)))
            }
            Some(RoundPhase::Syncing(mut syncing)) if ahead => {
                subject.write_more(&mut syncing);
                ("more is written ahead", Some(RoundPhase::Syncing(syncing)))
            }
            Some(RoundPhase::Syncing(mut syncing)) if !syncing.is_run() => {
                syncing.run();
                ("the disk has synced it", Some(RoundPhase::Syncing(syncing)))
            }
            Some(RoundPhase::Syncing(syncing)) => {
                ("the round has run", Some(RoundPhase::Run(syncing.finish())))
            }
            Some(RoundPhase::Run(round)) => {
                subject.finish_round(round, now);
                ("the round is finished", None)
            }
        };
        self.round = next;
        self.note(|_| words.to_owned());
        Ok(())
    }

    /// Cursors are synced one by one, and then segments are deleted.
    fn tidy_step(&mut self) -> OracleVerdict {
        self.tick();
        let work = self.reclaiming.take();
        let Some(subject) = &self.subject else {
            return Ok(());
        };
        let words = match work {
            None => {
                let sync = self.rng.u8(..4) == 0;
                self.reclaiming = Some(subject.begin_reclaiming(sync));
                "segments are to be reclaimed"
            }
            Some(work) => {
                self.reclaiming = subject.go_on_reclaiming(work);
                let under_way = self.reclaiming.as_ref();
                match under_way.map(|work| (work.syncing(), work.is_run())) {
                    None => "segments are reclaimed",
                    Some((Some(name), false)) => {
                        self.disk.begin_sync(&cursor_file(name));
                        "the sync of a cursor begins"
                    }
                    Some((Some(_), true)) => "the disk has synced a cursor",
                    Some((None, _)) => "no cursor is being synced",
                }
            }
        };
        self.note(|_| words.to_owned());
        Ok(())
    }

    fn end_cursor_sync(&mut self) {
        let Some(subject) = &self.subject else { return };
        while self
            .reclaiming
            .as_ref()
            .is_some_and(|work| work.syncing().is_some())
        {
            let work = self.reclaiming.take();
            self.reclaiming = work.and_then(|work| subject.go_on_reclaiming(work));
        }
    }

    /// A sink asks for more, or answers what it has.
    pub(crate) fn sink_step(&mut self) -> OracleVerdict {
        if self.sinks.is_empty() {
            return Ok(());
        }
        let index = self.rng.usize(..self.sinks.len());
        let sink = &mut self.sinks[index];
        if sink.silent > 0 && !self.calm {
            sink.silent -= 1;
            return Ok(());
        }
        let ask = sink.hand.is_empty() || (sink.hand.len() < HAND_MAX && self.rng.bool());
        if ask {
            self.ask(index)
        } else {
            self.answer(index)
        }
    }

    fn ask(&mut self, index: usize) -> OracleVerdict {
        self.tick();
        let (now, name) = (self.now(), self.sinks[index].name.clone());
        let Some(subject) = &self.subject else {
            return Ok(());
        };
        let Some(delivery) = subject.next(&name, now) else {
            self.note(|_| format!("{name} gets nothing"));
            return Ok(());
        };
        self.note(|_| {
            let Delivery {
                position, events, ..
            } = &delivery;
            format!("{name} gets {events:?} of position {position}")
        });
        if self.disk.is_dead() {
            return Ok(());
        }
        self.oracle.handed_out(&name, delivery.position)?;
        self.sinks[index].hand.push(delivery);
        Ok(())
    }

    fn answer(&mut self, index: usize) -> OracleVerdict {
        let trouble = match self.calm {
            true => 0,
            false => self.scenario.sink_trouble,
        };
        let answer = SinkAnswer::choose(&mut self.rng, trouble);
        let hand = self.rng.usize(..self.sinks[index].hand.len());
        let name = self.sinks[index].name.clone();
        self.note(|_| format!("{name} answers number {hand}: {answer:?}"));
        if answer == SinkAnswer::Die {
            return self.sink_dies(index);
        }
        let delivery = self.sinks[index].hand.swap_remove(hand);
        let all = delivery.events.clone();
        let middle = self.rng.u32(all.start..all.end);
        match answer {
            SinkAnswer::Take | SinkAnswer::Die => self.take(&name, &delivery, all),
            SinkAnswer::TakeFirst => {
                self.take(&name, &delivery, all.start..middle)?;
                self.sinks[index].hand.push(Delivery {
                    events: middle..all.end,
                    ..delivery
                });
                Ok(())
            }
            SinkAnswer::TakeFirstOnly => {
                self.take(&name, &delivery, all.start..middle)?;
                self.later(&name, &delivery, middle..all.end)
            }
            SinkAnswer::RefuseOne => {
                self.take(&name, &delivery, all.start..middle)?;
                self.refuse(&name, &delivery, middle..middle + 1)?;
                self.take(&name, &delivery, middle + 1..all.end)
            }
            SinkAnswer::Later => {
                self.sinks[index].silent = self.rng.u32(..40);
                self.later(&name, &delivery, all)
            }
            SinkAnswer::TakeAndFail => {
                self.receive(&name, &delivery.batch, all.clone())?;
                self.later(&name, &delivery, all)
            }
        }
    }

    /// The sink takes the events, and the log is told so.
    fn take(&mut self, name: &str, delivery: &Delivery, events: Range<u32>) -> OracleVerdict {
        self.receive(name, &delivery.batch, events.clone())?;
        let taken = events.len() as u64;
        self.counts.delivered += taken;
        let counters = self.ledger.destination(name);
        let before = counters.delivered.get();
        self.settle(name, delivery, events, Fate::Delivered)?;
        let counted = counters.delivered.get() - before;
        match counted == taken {
            true => Ok(()),
            false => Err(format!(
                "{name} took {taken} events, and {counted} count as delivered"
            )),
        }
    }

    fn refuse(&mut self, name: &str, delivery: &Delivery, events: Range<u32>) -> OracleVerdict {
        let fate = Fate::Refused {
            reason: RefuseReason::InvalidEvent,
            code: 6,
            text: "simulated".into(),
        };
        self.settle(name, delivery, events, fate)
    }

    fn later(&mut self, name: &str, delivery: &Delivery, events: Range<u32>) -> OracleVerdict {
        let delay = Duration::from_millis(self.rng.u64(..100));
        for index in events.clone() {
            let event = self.maker.check(&delivery.batch, index)?;
            self.oracle.will_repeat(name, event);
        }
        self.settle(name, delivery, events, Fate::RetryAfter(delay))
    }

    fn settle(
        &mut self,
        name: &str,
        delivery: &Delivery,
        events: Range<u32>,
        fate: Fate,
    ) -> OracleVerdict {
        if events.is_empty() {
            return Ok(());
        }
        let (step, now) = (self.tick(), self.now());
        if !matches!(fate, Fate::RetryAfter(_)) {
            for index in events.clone() {
                let event = self.maker.check(&delivery.batch, index)?;
                self.oracle.settled(name, event, step);
            }
        }
        if let Some(subject) = &self.subject {
            subject.settle(name, delivery.position, events, fate, now);
        }
        Ok(())
    }

    fn receive(&mut self, name: &str, batch: &Batch, events: Range<u32>) -> OracleVerdict {
        for index in events {
            let event = self.maker.check(batch, index)?;
            self.oracle.received(name, event, &batch.source().name)?;
        }
        Ok(())
    }

    /// The sink ends within the process; another takes its place and what it left.
    fn sink_dies(&mut self, index: usize) -> OracleVerdict {
        let name = self.sinks[index].name.clone();
        for delivery in std::mem::take(&mut self.sinks[index].hand) {
            if self.rng.bool() {
                self.receive(&name, &delivery.batch, delivery.events.clone())?;
            }
            for index in delivery.events {
                let event = self.maker.check(&delivery.batch, index)?;
                self.oracle.will_repeat(&name, event);
            }
        }
        self.tick();
        let counters = self.ledger.destination(&name);
        if let Some(subject) = &self.subject {
            subject.attach(&counters, self.sinks[index].queue);
        }
        Ok(())
    }
}
