//! The steps of sources, of the writer and of sinks.

use std::ops::Range;
use std::time::Duration;

use inrush_event::{Batch, Delivery, Fate, RefuseReason, RejectReason, Timestamp};

use crate::event::SOURCES;
use crate::oracle::Verdict;
use crate::sink::Answer;
use crate::subject::{Append, Round};
use crate::world::{Offer, World};

/// Deliveries that a sink has under way at most.
const HAND_MAX: usize = 3;

/// Batches that a source holds back at most before it makes no more.
const OFFERS_MAX: usize = 4;

impl World {
    /// A source offers a new batch, or one that was not taken before.
    pub(crate) fn append_step(&mut self) -> Verdict {
        let again = self.calm || self.offers.len() >= OFFERS_MAX || self.rng.bool();
        if !again || self.offers.is_empty() {
            let source = self.rng.usize(..SOURCES.len());
            let events = self.rng.u32(1..=self.scenario.batch_events_max);
            let (batch, range) = self.oracle.offer(source, events);
            self.counts.events += u64::from(events);
            self.offers.push(Offer {
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

    fn append(&mut self, index: usize) -> Verdict {
        let Offer {
            batch: number,
            source,
            first,
            events,
        } = self.offers[index];
        let urgent = self.rng.bool();
        self.tick();
        let now = self.now();
        let batch = self.maker.batch(source, first, events);
        let counters = self.ledger.source(SOURCES[source]);
        let Some(subject) = &self.subject else {
            return Ok(());
        };
        let accept = || {
            counters.received.add(u64::from(events));
            counters.accepted.add(u64::from(events));
        };
        let outcome = subject.append(batch, urgent, accept, now);
        self.note(|_| {
            let end = first + events;
            format!("batch {number} (events {first}..{end}, urgent {urgent}): {outcome:?}")
        });
        match outcome {
            Append::Taken(end) => {
                self.offers.swap_remove(index);
                self.oracle.accepted(number, end);
            }
            // A datagram is gone; a stream waits.
            Append::Refused => {
                let _ = self.offers.swap_remove(index);
                counters.received.add(u64::from(events));
                counters
                    .rejected(RejectReason::QueueFull)
                    .add(u64::from(events));
            }
            Append::Full => {}
        }
        Ok(())
    }

    /// The writer begins a round, does its work, or reports it.
    pub(crate) fn writer_step(&mut self) -> Verdict {
        self.tick();
        let now = self.now();
        let Some(subject) = &self.subject else {
            return Ok(());
        };
        let words = match self.round.take() {
            None if self.rng.u8(..4) == 0 => {
                subject.reclaim(Timestamp::now());
                "segments are reclaimed"
            }
            None => {
                self.round = subject.begin_round(now).map(Round::Begun);
                match self.round {
                    None => "the writer rests",
                    Some(_) => "a round begins",
                }
            }
            Some(Round::Begun(round)) => {
                self.round = Some(Round::Run(round.run()));
                "the round has run"
            }
            Some(Round::Run(round)) => {
                subject.finish_round(round, now);
                "the round is finished"
            }
        };
        self.note(|_| words.to_owned());
        Ok(())
    }

    /// A sink asks for more, or answers what it has.
    pub(crate) fn sink_step(&mut self) -> Verdict {
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

    fn ask(&mut self, index: usize) -> Verdict {
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

    fn answer(&mut self, index: usize) -> Verdict {
        let trouble = match self.calm {
            true => 0,
            false => self.scenario.sink_trouble,
        };
        let answer = Answer::choose(&mut self.rng, trouble);
        let hand = self.rng.usize(..self.sinks[index].hand.len());
        let name = self.sinks[index].name.clone();
        self.note(|_| format!("{name} answers number {hand}: {answer:?}"));
        if answer == Answer::Die {
            return self.sink_dies(index);
        }
        let delivery = self.sinks[index].hand.swap_remove(hand);
        let all = delivery.events.clone();
        let middle = self.rng.u32(all.start..all.end);
        match answer {
            Answer::Take | Answer::Die => self.take(&name, &delivery, all),
            Answer::TakeFirst => {
                self.take(&name, &delivery, all.start..middle)?;
                self.sinks[index].hand.push(Delivery {
                    events: middle..all.end,
                    ..delivery
                });
                Ok(())
            }
            Answer::TakeFirstOnly => {
                self.take(&name, &delivery, all.start..middle)?;
                self.later(&name, &delivery, middle..all.end)
            }
            Answer::RefuseOne => {
                self.take(&name, &delivery, all.start..middle)?;
                self.refuse(&name, &delivery, middle..middle + 1)?;
                self.take(&name, &delivery, middle + 1..all.end)
            }
            Answer::Later => {
                self.sinks[index].silent = self.rng.u32(..40);
                self.later(&name, &delivery, all)
            }
            Answer::TakeAndFail => {
                self.receive(&name, &delivery.batch, all.clone())?;
                self.later(&name, &delivery, all)
            }
        }
    }

    /// The sink takes the events, and the log is told so.
    fn take(&mut self, name: &str, delivery: &Delivery, events: Range<u32>) -> Verdict {
        self.receive(name, &delivery.batch, events.clone())?;
        self.counts.delivered += events.len() as u64;
        self.settle(name, delivery, events, Fate::Delivered)
    }

    fn refuse(&mut self, name: &str, delivery: &Delivery, events: Range<u32>) -> Verdict {
        let fate = Fate::Refused {
            reason: RefuseReason::InvalidEvent,
            code: 6,
            text: "simulated".into(),
        };
        self.settle(name, delivery, events, fate)
    }

    fn later(&mut self, name: &str, delivery: &Delivery, events: Range<u32>) -> Verdict {
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
    ) -> Verdict {
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

    fn receive(&mut self, name: &str, batch: &Batch, events: Range<u32>) -> Verdict {
        for index in events {
            let event = self.maker.check(batch, index)?;
            self.oracle.received(name, event, &batch.source().name)?;
        }
        Ok(())
    }

    /// The sink ends within the process; another takes its place and what it left.
    fn sink_dies(&mut self, index: usize) -> Verdict {
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
            subject.attach(&counters);
        }
        Ok(())
    }
}
