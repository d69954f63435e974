//! A person at the search bar: questions over HTTP, timed until the last byte of the answer; and
//! events that are looked for until they are found.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::child::wait;

/// Time for which an event is looked for, at most.
const FOUND_MAX: Duration = Duration::from_secs(30);

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// An answer and how long it took.
pub struct TimedAnswer {
    pub took: Duration,
    /// Events or rows.
    pub found: Vec<Value>,
}

/// Asks `admin` (`http://HOST:PORT`) what `path` finds.
pub fn ask(admin: &str, path: &str) -> Result<TimedAnswer> {
    let begun = Instant::now();
    let text = crate::http::get(&format!("{admin}{path}"))?;
    let took = begun.elapsed();
    let mut found = Vec::new();
    let mut ended = false;
    for line in text.lines() {
        let reply: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        match reply["type"].as_str() {
            Some("event" | "row") => found.push(reply),
            Some("error") => bail!("{path}: {}", reply["message"]),
            Some("end") => ended = true,
            _ => {}
        }
    }
    ensure!(ended, "{path}: the answer was cut off");
    Ok(TimedAnswer { took, found })
}

/// Asks `admin` for `path`; the last line of the answer.
///
/// # Errors
/// The search failed, with its own sentence, or the answer was cut off.
pub fn end(admin: &str, path: &str) -> Result<Value> {
    let text = crate::http::get(&format!("{admin}{path}"))?;
    let last: Value = serde_json::from_str(text.lines().next_back().unwrap_or_default())?;
    match last["type"].as_str() {
        Some("end") => Ok(last),
        Some("error") => bail!("{}", last["message"].as_str().unwrap_or_default()),
        _ => bail!("the answer was cut off"),
    }
}

/// The path of a search.
pub fn search(query: &str, since: &str) -> String {
    let query = query
        .replace('%', "%25")
        .replace(' ', "%20")
        .replace('"', "%22")
        .replace('|', "%7C")
        .replace('*', "%2A");
    format!("/api/v1/search?q={query}&since={since}&limit=200&buckets=60")
}

/// Sends events of its own into the stream of all others, and looks for them.
pub struct SearchProbe {
    peer: TcpStream,
    admin: String,
    sent: u64,
    pub lags: Vec<f64>,
}

impl SearchProbe {
    pub fn new(address: &str, admin: &str) -> Result<Self> {
        let peer = TcpStream::connect(address).with_context(|| address.to_owned())?;
        peer.set_nodelay(true)?;
        Ok(Self {
            peer,
            admin: admin.to_owned(),
            sent: 0,
            lags: Vec::new(),
        })
    }

    /// Events that it sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Writes one event of a word that no other has, dated `ago` before now.
    pub fn send(&mut self, word: &str, ago: Duration) -> Result<()> {
        let at = jiff::Timestamp::now() - ago;
        let at = at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ");
        let line = format!("<13>1 {at} probe bench - - - looks for {word} in the stack\n");
        self.peer.write_all(line.as_bytes())?;
        self.sent += 1;
        Ok(())
    }

    /// Seconds from the write of an event until a search finds it; noted in `lags`.
    pub fn lag(&mut self) -> Result<f64> {
        let word = format!("probe{}x{}", std::process::id(), self.sent);
        let begun = Instant::now();
        self.send(&word, Duration::ZERO)?;
        let path = search(&word, "1m");
        while ask(&self.admin, &path)?.found.is_empty() {
            ensure!(begun.elapsed() < FOUND_MAX, "{word} was not found");
            wait(LOOK_EVERY);
        }
        let lag = begun.elapsed().as_secs_f64();
        self.lags.push(lag);
        Ok(lag)
    }
}
