//! Answers of the collector, and what may be in them.

use std::time::Duration;

use super::IDLE_MAX;
use super::client::{OpenAck, RequestContent, SentRequest};
use super::http::HttpAnswer;
use crate::oracle::OracleVerdict;
use crate::world::LogWorld;

/// Codes of an answer that there is no room: of the queue, and for an acknowledgement.
const QUEUE_FULL: u64 = 26;
const ACKS_FULL: u64 = 27;

impl LogWorld {
    /// A client reads what was written to it, and has room for more.
    pub(crate) fn hear(&mut self, index: usize) -> OracleVerdict {
        let window = match self.rng.u8(..4) {
            0 => self.rng.usize(1..200),
            _ => 1 << 16,
        };
        let client = self.collector.as_mut().map(|one| &mut one.clients[index]);
        let Some(connection) = client.and_then(|client| client.connection.as_mut()) else {
            return Ok(());
        };
        let bytes = connection.socket.receive(window);
        connection.inbox.extend(bytes);
        let mut inbox = std::mem::take(&mut connection.inbox);
        let is_closed = connection.socket.is_shut_down();
        while let Some(answer) = HttpAnswer::take(&mut inbox)? {
            self.heard(index, &answer)?;
        }
        let client = self.collector.as_mut().map(|one| &mut one.clients[index]);
        if let Some(connection) = client.and_then(|client| client.connection.as_mut()) {
            connection.inbox = inbox;
            connection.closes |= is_closed;
        }
        Ok(())
    }

    fn heard(&mut self, index: usize, answer: &HttpAnswer) -> OracleVerdict {
        let (clock, Some(collector)) = (self.clock, &mut self.collector) else {
            return Ok(());
        };
        let client = &mut collector.clients[index];
        let Some(connection) = &mut client.connection else {
            return Ok(());
        };
        let status = answer.status;
        let Some(request) = connection.sent.pop_front() else {
            return Err(format!(
                "client {index} has an answer to nothing: {answer:?}"
            ));
        };
        connection.closes |= answer.closes;
        if answer.request != Some(request.number) {
            let number = request.number;
            return Err(format!(
                "client {index} waits for {number}, and has {answer:?}"
            ));
        }
        if !request.unsent.is_empty() && matches!(status, 200 | 400) {
            return Err(format!(
                "request {} is not whole, and has {answer:?}",
                request.number
            ));
        }
        if clock - client.used > IDLE_MAX {
            client.doubt(|_| true);
        }
        client.doubt(|ack| clock - ack.asked > IDLE_MAX);
        client.used = request.begun;
        self.note(|_| {
            format!(
                "request {} is answered {status}: {}",
                request.number, answer.body
            )
        });
        match request.content.clone() {
            RequestContent::Events { batch, events, bad } => {
                self.events_answered(index, (batch, events, bad), answer, &request)
            }
            RequestContent::Poll(numbers) => self.poll_answered(index, &numbers, answer, &request),
        }
    }

    fn events_answered(
        &mut self,
        index: usize,
        (batch, events, bad): (usize, u32, bool),
        answer: &HttpAnswer,
        request: &SentRequest,
    ) -> OracleVerdict {
        let Some(collector) = &mut self.collector else {
            return Ok(());
        };
        let limit = collector.options.max_pending_acks.get() as usize;
        let numbers = request.numbers;
        let client = &mut collector.clients[index];
        match (answer.status, bad) {
            (200, false) => self.counts.answered += 1,
            // What stands before the object at fault is taken.
            (400, true) if answer.number("invalid-event-number") == Some(events.into()) => {}
            (429, _) if answer.number("code") == Some(ACKS_FULL) && numbers <= limit => {
                let words = "acknowledgements are full with at most";
                return Err(format!("{words} {numbers} of {limit}"));
            }
            (429, _) if matches!(answer.number("code"), Some(QUEUE_FULL | ACKS_FULL)) => {
                client.again.push(events);
                if self.calm && answer.number("code") == Some(ACKS_FULL) {
                    self.rest_channels();
                }
                return Ok(());
            }
            (500, _) => {
                client.again.push(events);
                return Ok(());
            }
            _ => {
                return Err(format!(
                    "{events} events, bad {bad}, are answered {answer:?}"
                ));
            }
        }
        self.oracle.answered(batch);
        match (client.is_acked(), answer.number("ackId")) {
            (false, None) => Ok(()),
            (true, Some(number)) => {
                if client.acks.iter().any(|ack| ack.number == number) {
                    return Err(format!("ackId {number} is given twice"));
                }
                client.acks.push(OpenAck {
                    number,
                    batch,
                    events,
                    since: self.clock,
                    asked: request.begun,
                    is_known: true,
                });
                Ok(())
            }
            (_, ack) => Err(format!("client {index} has the ackId {ack:?}")),
        }
    }

    fn poll_answered(
        &mut self,
        index: usize,
        numbers: &[u64],
        answer: &HttpAnswer,
        request: &SentRequest,
    ) -> OracleVerdict {
        if answer.status != 200 {
            return Err(format!("a poll is answered {answer:?}"));
        }
        let Some(collector) = &mut self.collector else {
            return Ok(());
        };
        let client = &mut collector.clients[index];
        let delivered = client.token == 2;
        for number in numbers {
            let safe = answer.body.contains(&format!("\"{number}\":true"));
            let Some(at) = client.acks.iter().position(|ack| ack.number == *number) else {
                continue;
            };
            client.acks[at].asked = request.begun;
            let ack = client.acks[at].clone();
            if safe {
                client.acks.swap_remove(at);
                self.counts.acked += 1;
                self.oracle.acknowledged(ack.batch, delivered)?;
            } else if !ack.is_known {
                // As its client does: what may be forgotten is sent again.
                client.acks.swap_remove(at);
                client.again.push(ack.events);
                collector.unasked += 1;
            } else if !delivered && request.begun >= ack.since {
                let since: Duration = ack.since;
                return Err(format!(
                    "ackId {number}, given at {since:?}, is not known any more"
                ));
            }
        }
        Ok(())
    }
}
