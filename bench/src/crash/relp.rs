//! Numbered events over RELP, by a client of our own: a window of unanswered messages, all of which
//! are sent again, before anything new, when the connection breaks.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::stage::{EventLane, RunControl, TokenBucket};

/// Messages without an answer.
const WINDOW: usize = 1_000;

/// Time for which answers are waited for before more is sent.
const PATIENCE: Duration = Duration::from_millis(2);

/// Time for which the process may owe every answer.
const SILENCE_MAX: Duration = Duration::from_secs(30);

const OFFERS: &str = "relp_version=0\nrelp_software=inrush-bench\ncommands=syslog";

/// Sends until the last call, and until everything is answered.
pub(crate) fn run(lane: &EventLane, stage: &RunControl) {
    let mut pending = VecDeque::new();
    while !is_done(stage, &pending) {
        let Some((stream, _)) = lane.dial(stage) else {
            return;
        };
        let mut session = LaneSession {
            lane,
            stream,
            input: Vec::new(),
            txnr: 0,
            heard: Instant::now(),
        };
        if let Err(error) = session.run(stage, &mut pending) {
            // A kill breaks it anywhere; what the peer says must still be RELP.
            if error.downcast_ref::<std::io::Error>().is_none() {
                lane.account().faults.push(format!("{error:#}"));
            }
        }
    }
}

/// True if there is nothing more to send and nothing more to wait for.
fn is_done(stage: &RunControl, pending: &VecDeque<(u32, u32)>) -> bool {
    stage.is_over() || (stage.is_last_call() && pending.is_empty())
}

struct LaneSession<'a> {
    lane: &'a EventLane,
    stream: TcpStream,
    /// Bytes read and not yet understood.
    input: Vec<u8>,
    txnr: u32,
    heard: Instant,
}

/// An answer.
#[derive(PartialEq, Eq, Debug)]
struct RelpResponse {
    txnr: u32,
    command: String,
    data: Vec<u8>,
}

impl LaneSession<'_> {
    fn run(&mut self, stage: &RunControl, pending: &mut VecDeque<(u32, u32)>) -> Result<()> {
        self.stream.set_read_timeout(Some(PATIENCE))?;
        self.stream.set_write_timeout(Some(SILENCE_MAX))?;
        self.open()?;
        self.send_again(pending)?;
        let mut pace = TokenBucket::new();
        while !is_done(stage, pending) {
            if !stage.is_last_call() {
                let room = WINDOW.saturating_sub(pending.len());
                self.send(pace.due().min(room), pending)?;
            }
            self.take_answers(pending)?;
            ensure!(
                pending.is_empty() || self.heard.elapsed() < SILENCE_MAX,
                "no answer to {} messages",
                pending.len()
            );
        }
        let mut last = Vec::new();
        self.frame(&mut last, "close", "");
        self.stream.write_all(&last)?;
        Ok(())
    }

    fn open(&mut self) -> Result<()> {
        let mut frame = Vec::new();
        self.frame(&mut frame, "open", OFFERS);
        self.stream.write_all(&frame)?;
        loop {
            self.read()?;
            if let Some(answer) = next_answer(&mut self.input)? {
                ensure!(answer.data.starts_with(b"200"), "not opened: {answer:?}");
                return Ok(());
            }
            ensure!(self.heard.elapsed() < SILENCE_MAX, "no answer to open");
        }
    }

    fn frame(&mut self, out: &mut Vec<u8>, command: &str, data: &str) -> u32 {
        self.txnr += 1;
        let (txnr, length) = (self.txnr, data.len());
        let space = if data.is_empty() { "" } else { " " };
        out.extend_from_slice(format!("{txnr} {command} {length}{space}{data}\n").as_bytes());
        txnr
    }

    /// Sends what a broken session left, under new numbers.
    fn send_again(&mut self, pending: &mut VecDeque<(u32, u32)>) -> Result<()> {
        let mut out = Vec::new();
        for (txnr, number) in pending.iter_mut() {
            let sends = &mut self.lane.account().sends[*number as usize];
            *sends = sends.saturating_add(1);
            *txnr = self.frame(&mut out, "syslog", &self.lane.message(*number));
        }
        Ok(self.stream.write_all(&out)?)
    }

    fn send(&mut self, events: usize, pending: &mut VecDeque<(u32, u32)>) -> Result<()> {
        let mut out = Vec::new();
        for _ in 0..events {
            let number = self.lane.account().begin();
            let txnr = self.frame(&mut out, "syslog", &self.lane.message(number));
            pending.push_back((txnr, number));
        }
        Ok(self.stream.write_all(&out)?)
    }

    fn read(&mut self) -> Result<()> {
        let mut buffer = [0; 64 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(std::io::Error::from(ErrorKind::BrokenPipe).into()),
            Ok(n) => {
                self.input.extend_from_slice(&buffer[..n]);
                self.heard = Instant::now();
                Ok(())
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn take_answers(&mut self, pending: &mut VecDeque<(u32, u32)>) -> Result<()> {
        if pending.is_empty() {
            self.heard = Instant::now();
        }
        self.read()?;
        let mut account = self.lane.account();
        while let Some(answer) = next_answer(&mut self.input)? {
            let sent = pending.iter().position(|(txnr, _)| *txnr == answer.txnr);
            let (_, number) = sent
                .and_then(|at| pending.remove(at))
                .with_context(|| format!("a stray answer: {answer:?}"))?;
            match answer.data.starts_with(b"200") {
                true => account.acked[number as usize] = true,
                false => account.refused += 1,
            }
        }
        Ok(())
    }
}

/// Takes the first whole frame off `input`, which must be an answer.
fn next_answer(input: &mut Vec<u8>) -> Result<Option<RelpResponse>> {
    let Some((head, at)) = words(input) else {
        ensure!(input.len() < 64, "no frame: {:?}", &input[..64]);
        return Ok(None);
    };
    let (txnr, command) = (head[0].parse()?, head[1].clone());
    let length: usize = head[2].parse().context("no length")?;
    let start = at + usize::from(length > 0);
    if input.len() <= start + length {
        return Ok(None);
    }
    ensure!(input[start + length] == b'\n', "a frame without its end");
    let data = input[start..start + length].to_vec();
    input.drain(..=start + length);
    if command == "serverclose" {
        // It stops: as a connection that ends.
        return Err(std::io::Error::from(ErrorKind::BrokenPipe).into());
    }
    if command != "rsp" {
        bail!("the process said {command}");
    }
    let answer = RelpResponse {
        txnr,
        command,
        data,
    };
    Ok(Some(answer))
}

/// The three words of a frame's head, and where they end.
fn words(input: &[u8]) -> Option<([String; 3], usize)> {
    let mut words: [String; 3] = Default::default();
    let mut at = 0;
    for word in &mut words {
        if at > 0 {
            at += 1;
        }
        let rest = input.get(at..)?;
        let end = rest.iter().position(|b| *b == b' ' || *b == b'\n')?;
        *word = String::from_utf8_lossy(&rest[..end]).into_owned();
        at += end;
    }
    Some((words, at))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn answers_are_read_however_they_are_cut() {
        let wire = b"2 rsp 6 200 OK\n3 rsp 21 500 the queue is full\n4 rsp 0\n";
        for cut in 0..wire.len() {
            let (mut input, mut found) = (Vec::new(), Vec::new());
            for part in [&wire[..cut], &wire[cut..]] {
                input.extend_from_slice(part);
                while let Some(answer) = next_answer(&mut input).unwrap() {
                    found.push((answer.txnr, answer.data.starts_with(b"200")));
                }
            }
            assert_eq!(found, [(2, true), (3, false), (4, false)], "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        assert!(next_answer(&mut b"0 serverclose 0\n".to_vec()).is_err());
        assert!(next_answer(&mut b"2 rsp 1 xy\n".to_vec()).is_err());
    }
}
