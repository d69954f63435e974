//! The HEC server of the simulation: the product's own collector, and virtual clients that send,
//! are cut off, send again what was not answered 200, and poll for acknowledgements.
//!
//! # What it guarantees
//! * The stream worker, connections, batch writer, acknowledgements and their files are those of
//!   the product. Sockets are in memory, the clocks are those of the run; one step is one turn.
//! * Batches of the oracle stand for requests: one is owed from its answer on.
//!
//! # Limits
//! A client has up to `SENT_MAX` requests under way. The files of acknowledgements are on the real
//! disk: they have no errors, and a power cut only shortens them.
//!
//! # After a crash
//! A kill leaves what was written to a client, and the files of acknowledgements. A power cut may
//! take both.

mod answers;
mod client;
mod http;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use fastrand::Rng;
use inrush_event::{BatchPool, Timestamp, VirtualClocks, set_virtual_clocks};
use inrush_ingest::batch_writer::WorkerContext;
use inrush_ingest::classification::MemoryBudget;
use inrush_ingest::enrichment::Enrichment;
use inrush_ingest::numa::NumaPlacement;
use inrush_ingest::options::{EnrichmentOptions, HostsOptions, PacksOptions};
use inrush_ingest::pool::WorkPool;
use inrush_ingest::unclassified::UnclassifiedTable;
use inrush_source::splunk_hec::options::SplunkHecSource;
use inrush_source::splunk_hec::simulation::SimulatedCollector;
use inrush_transport::nodes::NumaNodes;
use inrush_transport::virtual_socket::VirtualSocket;
use tempfile::TempDir;

use crate::event::COLLECTOR;
use crate::oracle::{CrashKind, OracleVerdict};
use crate::world::LogWorld;
use client::{ClientConnection, RequestContent, SentRequest, VirtualClient};

/// Requests of a connection that a client has under way, at most.
const SENT_MAX: usize = 3;

/// Tokens of the collector, by the rule of their acknowledgements.
const TOKENS: [(&str, &str); 3] = [
    ("token-off", "off"),
    ("token-received", "received"),
    ("token-delivered", "delivered"),
];

/// The wall clock at the beginning of a run, in nanoseconds since 1970.
const BEGIN_NS: i64 = 1_750_000_000_000_000_000;

/// Numbers that a restart does not forget are younger than this.
const KNOWN_FOR: Duration = Duration::from_secs(590);

/// A channel that rests for so long may be forgotten with its numbers.
const IDLE_MAX: Duration = Duration::from_secs(590);

/// The collector, its clients, and what outlives its process.
pub(crate) struct CollectorWorld {
    options: SplunkHecSource,
    running: Option<SimulatedCollector>,
    pub(crate) clients: Vec<VirtualClient>,
    data: TempDir,
    pool: Arc<BatchPool>,
    /// Bytes of text of an event, at most.
    text_max: usize,
    events_max: u32,
    requests: u64,
    ticked: Duration,
    /// Requests whose number the collector may keep though no client asks for it.
    unasked: usize,
    /// Connections that were cut inside a request, and their requests that get a number.
    cut: Vec<(VirtualSocket, usize)>,
}

/// No packs, transforms or names: they would only cost time.
static PLAIN: LazyLock<Result<Enrichment, Vec<String>>> = LazyLock::new(|| {
    let packs = PacksOptions {
        enabled: false,
        ..PacksOptions::default()
    };
    let options = EnrichmentOptions {
        packs: &packs,
        hosts: &HostsOptions::default(),
        transforms: &[],
        routes: &[],
        data_dir: std::path::Path::new(""),
    };
    Enrichment::load(options, None)
});

/// For threads that there are none of.
static NEAR: LazyLock<Arc<NumaPlacement>> =
    LazyLock::new(|| NumaPlacement::new(NumaNodes::of_process(), BatchPool::new()));

fn options(rng: &mut Rng) -> SplunkHecSource {
    let tokens: Vec<_> = TOKENS
        .iter()
        .map(|(token, ack)| serde_json::json!({"token": token, "name": ack, "ack": ack}))
        .collect();
    let busy_after = ["0s", "100ms", "1d"][rng.usize(..3)];
    let pending = [4, 16, 1_000_000][rng.usize(..3)];
    let options = serde_json::json!({
        "listen": "127.0.0.1:8088",
        "tokens": tokens,
        "busy": "429",
        "busy_after": busy_after,
        "max_pending_acks": pending,
        "cors": {"origins": ["*"]},
    });
    // The options are those above.
    serde_json::from_value(options).unwrap_or_else(|error| panic!("{error}"))
}

impl CollectorWorld {
    pub(crate) fn new(rng: &mut Rng, pool: &Arc<BatchPool>) -> std::io::Result<Self> {
        let clients = (0..rng.usize(1..=4)).map(|number| {
            let token = rng.usize(..TOKENS.len());
            VirtualClient::new(number, token)
        });
        Ok(Self {
            clients: clients.collect(),
            options: options(rng),
            running: None,
            data: tempfile::tempdir()?,
            pool: Arc::clone(pool),
            text_max: [20, 300, 3_000][rng.usize(..3)],
            events_max: [1, 4, 40][rng.usize(..3)],
            requests: 0,
            ticked: Duration::ZERO,
            unasked: 0,
            cut: Vec::new(),
        })
    }

    /// True if no client wants anything.
    pub(crate) fn is_quiet(&self) -> bool {
        self.clients.iter().all(VirtualClient::is_content)
    }

    /// List of what is missing for that, in words.
    pub(crate) fn wants(&self) -> String {
        let of = |client: &VirtualClient| {
            let sent = client.connection.as_ref().map_or(0, |one| one.sent.len());
            (sent, client.again.len(), client.acks.len())
        };
        let all: Vec<_> = self.clients.iter().map(of).collect();
        format!("clients wait for (answers, requests, acknowledgements) {all:?}")
    }

    /// Files of acknowledgements.
    fn files(&self) -> Vec<PathBuf> {
        let folder = self.data.path().join("hec");
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        let mut files: Vec<_> = entries.filter_map(|one| Some(one.ok()?.path())).collect();
        files.sort();
        files
    }

    /// Has each request know how many numbers there may have been since it was begun.
    fn note_numbers(&mut self) {
        let numbers = self.numbers_max();
        if numbers >= self.options.max_pending_acks.get() as usize {
            // A token with less than its share may have taken the room of another's.
            let clients = self.clients.iter_mut();
            clients.for_each(|client| client.doubt(|_| true));
        }
        let connections = self
            .clients
            .iter_mut()
            .filter_map(|one| one.connection.as_mut());
        for request in connections.flat_map(|one| &mut one.sent) {
            if request.is_begun {
                request.numbers = request.numbers.max(numbers);
            }
        }
    }

    /// Numbers that the collector may have at most.
    fn numbers_max(&self) -> usize {
        let given = self.clients.iter().filter(|client| client.is_acked());
        let held = given.map(|client| {
            let sent = client.connection.iter().flat_map(|one| &one.sent);
            client.acks.len() + sent.filter(|one| one.is_begun).count()
        });
        let cut = self.cut.iter().map(|(_, requests)| requests);
        held.sum::<usize>() + cut.sum::<usize>() + self.unasked
    }
}

impl LogWorld {
    /// Sets the clocks of the product's code to those of the run.
    pub(crate) fn set_clocks(&self) {
        if self.collector.is_some() || self.streams.is_some() {
            set_virtual_clocks(Some(VirtualClocks {
                first: self.origin,
                instant: self.now(),
                wall: Timestamp(BEGIN_NS + self.clock.as_nanos() as i64),
            }));
        }
    }

    /// A new process has opened the log: its collector starts.
    pub(crate) fn start_collector(&mut self) -> OracleVerdict {
        let (Some(collector), Some(subject)) = (&mut self.collector, &self.subject) else {
            return Ok(());
        };
        let context = WorkerContext {
            pool: Arc::clone(&collector.pool),
            log: Arc::clone(subject.log()),
            ledger: Arc::clone(&self.ledger),
            room: MemoryBudget::new(),
            unknown: UnclassifiedTable::new(),
            pool_threads: WorkPool::new(1),
            near: Arc::clone(&NEAR),
            worker: 0,
        };
        let known = PLAIN.as_ref().map_err(|words| words.join("; "))?;
        let (options, data) = (&collector.options, collector.data.path());
        let running = SimulatedCollector::start(COLLECTOR, options, context, data, known)?;
        collector.running = Some(running);
        Ok(())
    }

    /// The process ends, and its collector with it.
    pub(crate) fn end_collector(&mut self, end: CrashKind) -> OracleVerdict {
        if self.collector.is_none() {
            return Ok(());
        }
        let (has_disk, clock) = (self.scenario.options.durability.has_disk(), self.clock);
        for index in 0..self.clients() {
            // A kill leaves what the kernel has.
            if end == CrashKind::Killed && self.rng.bool() {
                self.hear(index)?;
            }
            self.lose(index);
        }
        let Some(collector) = &mut self.collector else {
            return Ok(());
        };
        collector.running = None;
        collector.cut.clear();
        for client in &mut collector.clients {
            client.doubt(|ack| {
                end == CrashKind::PowerCut || !has_disk || clock - ack.since > KNOWN_FOR
            });
        }
        // Those of the files count, also where they were asked for.
        collector.unasked = usize::try_from(collector.requests).unwrap_or(usize::MAX);
        if end == CrashKind::PowerCut {
            for path in collector.files() {
                let bytes = std::fs::metadata(&path).map_or(0, |meta| meta.len());
                let kept = self.rng.u64(..=bytes);
                let file = std::fs::OpenOptions::new().write(true).open(&path);
                file.and_then(|file| file.set_len(kept))
                    .map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    fn clients(&self) -> usize {
        self.collector.as_ref().map_or(0, |one| one.clients.len())
    }

    /// The collector has a turn, or a client does something.
    pub(crate) fn collector_step(&mut self) -> OracleVerdict {
        self.set_clocks();
        let index = self.rng.usize(..self.clients());
        match self.rng.u8(..8) {
            0..4 => self.collector_turn(),
            // In the end nobody keeps others waiting.
            4 if self.calm => (0..self.clients()).try_for_each(|index| self.hear(index))?,
            4 => self.hear(index)?,
            _ => self.client_step(index)?,
        }
        if let Some(collector) = &mut self.collector {
            collector.note_numbers();
        }
        Ok(())
    }

    fn collector_turn(&mut self) {
        let Some(collector) = &mut self.collector else {
            return;
        };
        let (rng, clock) = (&mut self.rng, self.clock);
        if let Some(running) = &mut collector.running {
            running.turn(|| rng.u8(..4) > 0);
            if clock - collector.ticked >= Duration::from_secs(1) {
                collector.ticked = clock;
                running.tick();
            }
        }
        collector.cut.retain(|(socket, _)| !socket.is_shut_down());
        self.note(|_| "the collector has a turn".to_owned());
    }

    fn client_step(&mut self, index: usize) -> OracleVerdict {
        let calm = self.calm;
        let step = self.rng.u8(..100);
        let Some(collector) = &mut self.collector else {
            return Ok(());
        };
        let client = &mut collector.clients[index];
        match &client.connection {
            None => {
                let socket = VirtualSocket::default();
                let peer = IpAddr::from([10, 1, 0, index as u8]);
                if let Some(running) = &mut collector.running {
                    running.accept(socket.clone(), peer);
                }
                client.connection = Some(ClientConnection {
                    socket,
                    sent: Default::default(),
                    inbox: Vec::new(),
                    closes: false,
                });
                self.note(|_| format!("client {index} connects"));
            }
            Some(_) if step < 6 && !calm => {
                if self.rng.bool() {
                    self.hear(index)?;
                }
                self.lose(index);
                self.note(|_| format!("the connection of client {index} is cut"));
            }
            Some(one) if one.closes => {
                self.hear(index)?;
                self.lose(index);
            }
            Some(one) if one.sent.len() < SENT_MAX && step < 40 => self.begin_request(index),
            Some(_) => self.send(index),
        }
        Ok(())
    }

    /// Nobody asks for the numbers of lost answers: room for others comes once their channels were
    /// not used for long.
    pub(crate) fn rest_channels(&mut self) {
        self.clock += Duration::from_secs(700);
        let collector = self.collector.iter_mut();
        collector
            .flat_map(|one| &mut one.clients)
            .for_each(|client| client.doubt(|_| true));
    }

    /// The connection of a client is gone.
    fn lose(&mut self, index: usize) {
        let Some(collector) = &mut self.collector else {
            return;
        };
        let (socket, whole, part) = collector.clients[index].lose();
        collector.unasked += whole;
        if let Some(socket) = socket {
            socket.cut();
            if part > 0 {
                collector.cut.push((socket, part));
            }
        }
    }

    /// A client writes its next request: events, or a poll.
    fn begin_request(&mut self, index: usize) {
        let Some(collector) = &mut self.collector else {
            return;
        };
        let client = &mut collector.clients[index];
        let polls = !client.acks.is_empty() && self.rng.u8(..3) == 0;
        if self.calm && client.again.is_empty() && client.acks.is_empty() {
            return;
        }
        collector.requests += 1;
        let (number, token) = (collector.requests, TOKENS[client.token].0);
        let known = (number, token, client.channel.as_str());
        let chunk = self.rng.bool().then(|| self.rng.usize(1..400));
        let (content, bytes) = if polls || self.calm && client.again.is_empty() {
            let numbers: Vec<u64> = client.acks.iter().map(|ack| ack.number).collect();
            let body = format!("{{\"acks\":{numbers:?}}}");
            let bytes = http::request("/ack", known, body.as_bytes(), chunk);
            (RequestContent::Poll(numbers), bytes)
        } else {
            let again = client.again.pop();
            let events = again.unwrap_or_else(|| self.rng.u32(1..=collector.events_max));
            let bad = !self.calm && self.rng.u8(..16) == 0;
            let (batch, range) = self.oracle.offer(COLLECTOR, events);
            let mut body = Vec::new();
            for event in range {
                self.maker
                    .write_envelope(event, collector.text_max, &mut body);
            }
            if bad {
                body.extend_from_slice(b"{\"event\":}");
            }
            let bytes = http::request("/event", known, &body, chunk);
            self.counts.events += u64::from(events);
            (RequestContent::Events { batch, events, bad }, bytes)
        };
        let words = self
            .tracing
            .then(|| format!("request {number} of client {index}: {content:?}"));
        if let Some(connection) = &mut client.connection {
            connection.sent.push_back(SentRequest {
                number,
                content,
                begun: self.clock,
                unsent: bytes.into(),
                is_begun: false,
                numbers: 0,
            });
        }
        self.note(|_| words.unwrap_or_default());
    }

    /// A client sends a piece of what it has written.
    fn send(&mut self, index: usize) {
        let all = self.rng.bool();
        let most = self.rng.usize(1..2_000);
        let clock = self.clock;
        let Some(collector) = &mut self.collector else {
            return;
        };
        let Some(connection) = &mut collector.clients[index].connection else {
            return;
        };
        let Some(request) = connection
            .sent
            .iter_mut()
            .find(|one| !one.unsent.is_empty())
        else {
            return;
        };
        if !request.is_begun {
            request.is_begun = true;
            request.begun = clock;
            if let RequestContent::Events { batch, .. } = request.content {
                self.oracle.sent(batch);
            }
        }
        let count = match all {
            true => request.unsent.len(),
            false => request.unsent.len().min(most),
        };
        let piece: Vec<u8> = request.unsent.drain(..count).collect();
        connection.socket.send(&piece);
        let (number, left) = (request.number, request.unsent.len());
        self.note(|_| format!("{count} bytes of request {number} are sent, {left} are left"));
    }
}
