//! What an event costs the `splunk_hec` sink: CPU-µs of encoding and sending, measured against a
//! collector in a process of its own that reads and answers.
//!
//! `cargo run --release -p inrush-sink --example hec_cost [EVENTS] [WORKERS] [none|gzip] [ROUNDS]
//! [DELAY_MS]`
//!
//! With rounds it is measured so often without and with acknowledgements in turn. 0 workers are
//! `auto`. The collector answers after the delay.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use inrush_codec::encode::{HecEncoder, HecOptions, IndexedField};
use inrush_event::{
    Anomalies, AutoCount, Batch, BatchOrigin, BatchPool, Delivery, Fate, Feed, FeedNext, Format,
    Peer, Protocol, Record, Secret, SourceInfo, Span, Timestamp, limits,
};
use inrush_sink::splunk_hec::{HecCompression, SplunkHecConfig};
use inrush_sink::{Quarantine, RefusedRecords, SinkConfig, build};
use nix::sys::resource::{Usage, UsageWho, getrusage};

const EVENT_BYTES: usize = 800;
const BATCH_EVENTS: u32 = 650;
/// More than the caches next to a core hold, as behind a real queue.
const BATCHES: usize = 16;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|first| first == "collector") {
        let delay = arguments.get(2).map_or(0, |text| text.parse().unwrap());
        return collect(Duration::from_millis(delay));
    }
    let number = |at: usize, default: u64| {
        arguments
            .get(at)
            .map_or(default, |text| text.parse().unwrap())
    };
    let gzip = arguments.get(3).is_some_and(|text| text == "gzip");
    let (events, workers) = (number(1, 3_000_000), number(2, 4) as u16);
    let delay_ms = number(5, 0);
    let measure = |acks| measure(events, workers, gzip, acks, delay_ms);
    match number(4, 0) {
        0 => measure(false),
        rounds => (0..2 * rounds).for_each(|n| measure(n % 2 == 1)),
    }
}

/// Nothing is refused here.
struct Nowhere;

impl Quarantine for Nowhere {
    fn put(&self, _: &str, _: &[RefusedRecords]) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

fn measure(events: u64, workers: u16, gzip: bool, acks: bool, delay_ms: u64) {
    let mut collector = Command::new(std::env::current_exe().unwrap())
        .args(["collector", &delay_ms.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    let mut said = BufReader::new(collector.stdout.take().unwrap());
    said.read_line(&mut address).unwrap();
    let mut config = SplunkHecConfig::new(vec![address.trim().to_owned()], Secret::new("token"));
    config.workers = AutoCount::of(workers);
    config.acknowledgements = acks;
    if gzip {
        config.compression = HecCompression::Gzip;
    }
    let config = SinkConfig::SplunkHec(config.into());
    let (sink, status) = build("cost", &config, Path::new("."), Arc::new(Nowhere)).unwrap();
    let feed = Arc::new(Endless::new(events / u64::from(BATCH_EVENTS)));
    let encode_us = encode_cost(&feed.batches);
    let (before, begun) = (getrusage(UsageWho::RUSAGE_SELF).unwrap(), Instant::now());
    sink.run(Arc::<Endless>::clone(&feed));
    let after = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    // The last confirmations come later, and say nothing about the rate.
    let took = feed.emptied.lock().unwrap().unwrap() - begun;
    collector.kill().unwrap();
    collector.wait().unwrap();
    let delivered = feed.delivered.load(Relaxed);
    let us = |pick: fn(&Usage) -> f64| (pick(&after) - pick(&before)) / delivered as f64;
    let (user, system) = (us(user_us), us(system_us));
    println!(
        "{delivered} events, {workers} workers ({} at last), {delay_ms} ms, {}acks, {:.0}/s, {} B each on the wire: user \
         {user:.3} + system {system:.3} = {:.3} CPU-us per event; encoding alone {encode_us:.3}",
        status.concurrency().unwrap(),
        if acks { "" } else { "no " },
        delivered as f64 / took.as_secs_f64(),
        status.bytes_sent() / delivered,
        user + system,
    );
}

fn user_us(usage: &Usage) -> f64 {
    usage.user_time().tv_sec() as f64 * 1e6 + usage.user_time().tv_usec() as f64
}

fn system_us(usage: &Usage) -> f64 {
    usage.system_time().tv_sec() as f64 * 1e6 + usage.system_time().tv_usec() as f64
}

/// CPU-µs of encoding one event into a warm buffer.
fn encode_cost(batches: &[Arc<Batch>]) -> f64 {
    let indexed_fields = IndexedField::ALL.to_vec();
    let options = HecOptions {
        source: None,
        index: None,
        container: "cost".into(),
        indexed_fields,
    };
    let mut encoder = HecEncoder::new(options);
    let mut out = Vec::new();
    let begun = user_us(&getrusage(UsageWho::RUSAGE_SELF).unwrap());
    let rounds = 20;
    for batch in batches.iter().cycle().take(rounds * BATCHES) {
        out.clear();
        for record in batch.records() {
            encoder.encode(batch, record, b"", &mut out);
            out.push(b'\n');
        }
    }
    let spent = user_us(&getrusage(UsageWho::RUSAGE_SELF).unwrap()) - begun;
    spent / (rounds * BATCHES * BATCH_EVENTS as usize) as f64
}

/// Hands out the same few batches until enough were delivered.
struct Endless {
    batches: Vec<Arc<Batch>>,
    next: AtomicU64,
    last: u64,
    delivered: AtomicU64,
    /// When the last batch had been handed out.
    emptied: Mutex<Option<Instant>>,
}

impl Endless {
    fn new(last: u64) -> Self {
        let batches = (0..BATCHES as u64).map(batch).collect();
        let (next, delivered) = (AtomicU64::new(0), AtomicU64::new(0));
        Self {
            batches,
            next,
            last,
            delivered,
            emptied: Mutex::new(None),
        }
    }
}

impl Feed for Endless {
    fn next(&self, _: Duration) -> FeedNext {
        let position = self.next.fetch_add(1, Relaxed);
        if position >= self.last {
            self.emptied
                .lock()
                .unwrap()
                .get_or_insert_with(Instant::now);
            return FeedNext::Closed;
        }
        let batch = Arc::clone(&self.batches[position as usize % BATCHES]);
        FeedNext::Batch(Delivery {
            position,
            batch,
            events: 0..BATCH_EVENTS,
            origin: BatchOrigin::default(),
        })
    }

    fn settle(&self, _: u64, events: Range<u32>, fate: Fate) {
        assert_eq!(fate, Fate::Delivered);
        self.delivered.fetch_add(events.len() as u64, Relaxed);
    }

    fn stopping(&self) -> bool {
        false
    }
}

/// RFC 3164 records as a parser leaves them.
fn batch(sequence: u64) -> Arc<Batch> {
    let source = Arc::new(SourceInfo {
        name: "syslog".into(),
        index: "main".into(),
        sourcetype: "syslog".into(),
    });
    let mut builder = BatchPool::new().lend(&source, limits::MESSAGE_BYTES_DEFAULT);
    let peer = Peer {
        ip: [10, 1, 2, 3].into(),
        local_port: 5514,
        protocol: Protocol::Tcp,
        client: None,
    };
    let (peer, now) = (builder.peer(peer), Timestamp::now());
    for n in 0..BATCH_EVENTS {
        let start = builder.filled();
        let header = b"<134>May  6 07:08:09 firewall-17 kernel[4242]: ";
        builder.extend(header);
        let text = format!("seq: {n:010}, connection from 10.0.0.1 to 10.0.0.2 allowed; ");
        while builder.filled() - start < EVENT_BYTES {
            let left = EVENT_BYTES - (builder.filled() - start);
            builder.extend(&text.as_bytes()[..left.min(text.len())]);
        }
        let end = builder.filled();
        let mut record = Record::unparsed(Span::new(start, end), now, peer, Anomalies::NONE);
        record.host = Span::new(start + 21, start + 32);
        record.app = Span::new(start + 33, start + 39);
        record.proc_id = Span::new(start + 40, start + 44);
        record.message = Span::new(start + header.len(), end);
        record.event_time = Timestamp(now.0 - i64::from(n) * 1_000_000);
        record.pri = 134;
        record.format = Format::Rfc3164;
        builder.parts().1.push(record);
    }
    Arc::new(builder.freeze(sequence))
}

/// How long after a request was taken it is confirmed: what Splunk was seen to need.
const CONFIRMED_AFTER: Duration = Duration::from_millis(1200);

/// When each request was taken, by its `ackId`.
static TAKEN: Mutex<Vec<Instant>> = Mutex::new(Vec::new());

/// The other process: reads requests, throws them away, answers each with success.
fn collect(delay: Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    for stream in listener.incoming() {
        let stream = stream.unwrap();
        std::thread::spawn(move || while discard(&stream, delay).is_some() {});
    }
}

fn discard(mut stream: &TcpStream, delay: Duration) -> Option<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut filled = 0;
    let head = loop {
        match stream.read(&mut buffer[filled..]).ok()? {
            0 => return None,
            n => filled += n,
        }
        if let Some(end) = buffer[..filled].windows(4).position(|w| w == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = String::from_utf8_lossy(&buffer[..head]).to_ascii_lowercase();
    let length = text.split("content-length: ").nth(1)?.split('\r').next()?;
    let mut left = length.parse::<usize>().ok()? + head - filled;
    let body = if text.starts_with("post /services/collector/ack ") {
        stream.read_exact(&mut buffer[filled..filled + left]).ok()?;
        confirm(&buffer[head..filled + left])
    } else {
        while left > 0 {
            match stream.read(&mut buffer).ok()? {
                0 => return None,
                n => left -= n,
            }
        }
        std::thread::sleep(delay);
        take(text.contains("x-splunk-request-channel"))
    };
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).ok()
}

fn take(acks: bool) -> String {
    if !acks {
        return r#"{"text":"Success","code":0}"#.into();
    }
    let mut taken = TAKEN.lock().unwrap();
    taken.push(Instant::now());
    let id = taken.len() - 1;
    format!(r#"{{"text":"Success","code":0,"ackId":{id}}}"#)
}

fn confirm(question: &[u8]) -> String {
    let question: serde_json::Value = serde_json::from_slice(question).unwrap();
    let taken = TAKEN.lock().unwrap();
    let ids = question["acks"].as_array().unwrap().iter();
    let answers: Vec<String> = ids
        .filter_map(serde_json::Value::as_u64)
        .map(|id| {
            let indexed = taken[id as usize].elapsed() >= CONFIRMED_AFTER;
            format!(r#""{id}":{indexed}"#)
        })
        .collect();
    format!(r#"{{"acks":{{{}}}}}"#, answers.join(","))
}
