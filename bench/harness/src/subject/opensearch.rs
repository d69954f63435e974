//! OpenSearch, one node with its default settings, from its jars on Maven Central: the search
//! engine that the store is held against. It takes no syslog, so it gets the events as its bulk
//! API wants them, which spares it the reading of the header.

use std::fmt::Write as _;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::child::{ChildProcess, free_port, wait};
use crate::measure::RunResult;
use crate::meter::{Window, calibrate_ms, process_rss_peak_mib};
use crate::sender::{self, Amount, LoadShape};
use crate::stats::per_event;

const POM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/opensearch/pom.xml");
const PROGRAM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/peers/opensearch/OpenSearch.java"
);
const CLASSPATH: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath";

/// Events a request, and requests on their way at once.
const BULK: usize = 5_000;
const AT_ONCE: usize = 2;

/// Parts of the events that only warm the virtual machine up.
const WARM_UP: f64 = 0.25;

/// Time until all is merged, at most.
const MERGED_MAX: Duration = Duration::from_secs(120);

/// A running node.
pub struct OpenSearch {
    process: ChildProcess,
    api: Api,
}

/// The HTTP API of the node.
struct Api {
    url: String,
}

/// Result of indexing.
pub struct Indexed {
    pub run: RunResult,
    /// Bytes of its index for an event.
    pub bytes_per_event: f64,
}

impl OpenSearch {
    /// True if there is a Java and a Maven to get it with.
    pub fn installed() -> bool {
        let works = |program: &str| Command::new(program).arg("--version").output().is_ok();
        works("java") && works("mvn")
    }

    /// For the report.
    pub const VERSION: &str = "OpenSearch 2.19.1";

    /// Fetches it unless that was done before, and starts it with its data in `dir`.
    pub fn start(dir: &Path) -> Result<Self> {
        let classpath = dir.join("classpath");
        let output = Command::new("mvn")
            .args(["-q", "-B", "-f", POM, CLASSPATH])
            .arg(format!("-Dmdep.outputFile={}", classpath.display()))
            .output()
            .context("mvn")?;
        ensure!(
            output.status.success(),
            "mvn: {}",
            String::from_utf8_lossy(&output.stdout)
        );
        let port = free_port()?;
        let mut command = Command::new("java");
        command.args(["-Xms1g", "-Xmx1g", "-cp"]);
        command.arg(std::fs::read_to_string(&classpath)?.trim());
        command
            .arg(PROGRAM)
            .arg(dir.join("node"))
            .arg(port.to_string());
        let mut process = ChildProcess::start("OpenSearch", &mut command)?;
        process.lines_until(|line| line.ends_with(&format!("ready {port}")))?;
        let node = Self {
            process,
            api: Api {
                url: format!("http://127.0.0.1:{port}"),
            },
        };
        let index = json!({
            "settings": {"number_of_shards": 1, "number_of_replicas": 0},
            "mappings": {"properties": {
                "@timestamp": {"type": "date_nanos"},
                "host": {"type": "keyword"},
                "message": {"type": "text"},
            }},
        });
        node.api.send("PUT", "/events", &index.to_string())?;
        Ok(node)
    }

    /// Indexes `lines` and meters it, from when it is warm until all is merged and on the disk.
    pub fn index(&self, lines: &[String]) -> Result<Indexed> {
        let bodies: Vec<String> = lines.chunks(BULK).map(body).collect();
        let (warm, rest) = bodies.split_at((bodies.len() as f64 * WARM_UP) as usize);
        self.api.bulk(warm)?;
        self.api.settle()?;
        let events = (lines.len() - warm.len() * BULK) as u64;
        let calibration_ms = calibrate_ms();
        let pid = self.process.pid();
        let window = Window::open(pid, None)?;
        let begun = Instant::now();
        self.api.bulk(rest)?;
        let sent_in = begun.elapsed().as_secs_f64();
        self.api.settle()?;
        let metered = window.close()?;
        let stats = self.api.get("/events/_stats/docs,store")?;
        let primaries = &stats["_all"]["primaries"];
        let count = primaries["docs"]["count"].as_u64().context("no count")?;
        let bytes = primaries["store"]["size_in_bytes"]
            .as_f64()
            .context("no size")?;
        let wrong = (count != lines.len() as u64)
            .then(|| format!("{count} of {} events are in it", lines.len()));
        Ok(Indexed {
            bytes_per_event: bytes / count as f64,
            run: RunResult {
                sent: events,
                offered_rate: events as f64 / sent_in,
                delivered: events,
                seconds: metered.wall.as_secs_f64(),
                user_us: metered.cpu.user_us,
                sys_us: metered.cpu.sys_us,
                us_per_event: per_event(metered.cpu.total_us(), events).context("no events")?,
                rss_peak_mib: process_rss_peak_mib(pid)?,
                calibration_ms,
                sender_pct: metered.ours_pct,
                disk_bytes: metered.disk_bytes,
                others_pct: metered.others_pct,
                steal_pct: metered.steal_pct,
                noisy: metered.noisy(),
                wrong,
                ..RunResult::default()
            },
        })
    }
}

impl Api {
    fn bulk(&self, bodies: &[String]) -> Result<()> {
        thread::scope(|scope| {
            let senders: Vec<_> = (0..AT_ONCE)
                .map(|first| {
                    scope.spawn(move || {
                        bodies
                            .iter()
                            .skip(first)
                            .step_by(AT_ONCE)
                            .try_for_each(|body| {
                                let answer = self.send("POST", "/events/_bulk", body)?;
                                ensure!(answer["errors"] == false, "{answer}");
                                Ok(())
                            })
                    })
                })
                .collect();
            senders.into_iter().try_for_each(|sender| {
                sender
                    .join()
                    .map_err(|_| anyhow::anyhow!("a sender panicked"))?
            })
        })
    }

    /// Waits until all is searchable, on the disk and merged.
    fn settle(&self) -> Result<()> {
        self.send("POST", "/events/_flush?wait_if_ongoing=true", "")?;
        self.send("POST", "/events/_refresh", "")?;
        let deadline = Instant::now() + MERGED_MAX;
        loop {
            let stats = self.get("/events/_stats/merge")?;
            if stats["_all"]["primaries"]["merges"]["current"] == 0 {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "it merges without an end");
            wait(Duration::from_millis(50));
        }
    }

    fn get(&self, path: &str) -> Result<Value> {
        let text = crate::http::get(&format!("{}{path}", self.url))?;
        Ok(serde_json::from_str(&text)?)
    }

    fn send(&self, method: &str, path: &str, body: &str) -> Result<Value> {
        let url = format!("{}{path}", self.url);
        let request = match method {
            "PUT" => ureq::put(&url),
            _ => ureq::post(&url),
        };
        let mut answer = request
            .header("content-type", "application/json")
            .send(body)
            .with_context(|| url.clone())?;
        Ok(serde_json::from_str(&answer.body_mut().read_to_string()?)?)
    }
}

/// So many messages as the generator makes them.
pub fn recorded(inrush: &Path, shape: &LoadShape, number: u64) -> Result<Vec<String>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let shape = LoadShape {
        connections: 1,
        rate: 0,
        ..*shape
    };
    let sending = sender::start(inrush, &address, &shape, Amount::Number(number), None)?;
    let mut text = String::new();
    listener.accept()?.0.read_to_string(&mut text)?;
    sending.finish()?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// `<priority>time host message` as documents of a bulk request.
fn body(lines: &[String]) -> String {
    let mut body = String::new();
    for line in lines {
        let line = line.split_once('>').map_or(line.as_str(), |(_, rest)| rest);
        let (time, rest) = line.split_once(' ').unwrap_or(("", line));
        let (host, message) = rest.split_once(' ').unwrap_or(("", rest));
        let document = json!({"@timestamp": time, "host": host, "message": message});
        // Writing to a String cannot fail.
        let _ = writeln!(body, "{{\"index\":{{}}}}\n{document}");
    }
    body
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn a_message_becomes_a_document() {
        let line = "<38>2026-11-22T13:00:00.000001+00:00 fw1 app[7]: said \"no\"".to_owned();
        let expected = "{\"index\":{}}\n{\"@timestamp\":\"2026-11-22T13:00:00.000001+00:00\",\
                        \"host\":\"fw1\",\"message\":\"app[7]: said \\\"no\\\"\"}\n";
        assert_eq!(body(&[line]), expected);
    }
}
