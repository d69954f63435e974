//! The process that is killed and started again, always in the same folder and on the same ports.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use inrush_harness::child::ChildProcess;
use inrush_harness::subject::{is_ready, run_command};
use serde_json::Value;

use super::stage::{EventLane, LaneProtocol};
use super::{Durability, hec};

/// Time-out of the admin API: an answer that takes longer means that the process hangs.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Settings that stay the same in all lives.
pub(super) struct CrashSettings {
    pub(super) binary: PathBuf,
    pub(super) dir: PathBuf,
    pub(super) admin_port: u16,
    pub(super) sink_port: u16,
    pub(super) durability: Durability,
}

/// The ledger at one moment, as far as it is judged.
#[derive(Clone, Debug, Default)]
pub(super) struct LedgerView {
    pub(super) balanced: bool,
    /// Of each source.
    pub(super) accepted: BTreeMap<String, u64>,
    /// Summed over the destinations.
    pub(super) pending: u64,
    pub(super) quarantined: u64,
    pub(super) dropped: u64,
    /// As it came.
    pub(super) text: String,
}

/// One life.
pub(super) struct CrashProcess {
    served: ChildProcess,
    agent: ureq::Agent,
    ledger_url: String,
}

impl CrashSettings {
    /// Starts the process of `life`.
    pub(super) fn start(&self, life: u32, lanes: &[impl AsRef<EventLane>]) -> Result<CrashProcess> {
        let config = self.dir.join("inrush.yaml");
        std::fs::write(&config, self.config(life, lanes))
            .with_context(|| config.display().to_string())?;
        let mut command = run_command(&self.binary, &config, &self.dir);
        let served = ChildProcess::start("inrush", &mut command)?;
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER_MAX))
            .proxy(None)
            .build();
        let port = self.admin_port;
        Ok(CrashProcess {
            served,
            agent: agent.into(),
            ledger_url: format!("http://127.0.0.1:{port}/api/v1/ledger"),
        })
    }

    /// The endpoints' path tells the recorder which life a request is from. Two of them, so that
    /// one broken connection does not hold everything up.
    fn config(&self, life: u32, lanes: &[impl AsRef<EventLane>]) -> String {
        let dir = quoted(&self.dir.join("data"));
        let (admin, sink, durability) = (self.admin_port, self.sink_port, self.durability.text());
        let source = |lane: &EventLane| {
            let (name, port) = (lane.source(), lane.port);
            let scheme = match lane.kind {
                LaneProtocol::Relp => "relp",
                LaneProtocol::Tcp => "tcp",
                LaneProtocol::Hec => {
                    return format!(
                        "  {name}: {{ type: splunk_hec, listen: \"127.0.0.1:{port}\", \
                         tokens: [{{ token: {} }}] }}\n",
                        hec::TOKEN
                    );
                }
            };
            format!("  {name}: {{ type: syslog, listen: [\"{scheme}://127.0.0.1:{port}\"] }}\n")
        };
        let sources: String = lanes.iter().map(|lane| source(lane.as_ref())).collect();
        format!(
            "data_dir: {dir}\n\
             admin: {{ listen: \"127.0.0.1:{admin}\" }}\n\
             queue: {{ durability: {durability}, max_bytes: 1GiB }}\n\
             packs: {{ enabled: false }}\n\
             sources:\n{sources}\
             destinations:\n  \
               null0: {{ type: blackhole }}\n  \
               recorder:\n    \
                 type: splunk_hec\n    \
                 endpoints: [\"http://127.0.0.1:{sink}/life/{life}/a\", \
                 \"http://127.0.0.1:{sink}/life/{life}/b\"]\n    \
                 token: t\n    \
                 proxy: \"\"\n    \
                 batch: {{ max_events: 1000, timeout: 20ms }}\n"
        )
    }
}

fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display())
}

impl CrashProcess {
    /// Waits until it listens everywhere.
    pub(super) fn ready(&mut self) -> Result<()> {
        self.served.lines_until(is_ready).map(drop)
    }

    /// Its ledger, and a moment at which all that it counts had been counted.
    pub(super) fn look(&self) -> Result<(Instant, LedgerView)> {
        let mut answer = self.agent.get(&self.ledger_url).call().context("ledger")?;
        let text = answer.body_mut().read_to_string().context("ledger")?;
        let at = Instant::now();
        let ledger: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        Ok((at, LedgerView::of(&ledger, text)))
    }

    /// Kills it; the moment just before, and what it said since it was ready.
    pub(super) fn kill(&mut self) -> (Instant, Vec<String>) {
        let at = Instant::now();
        self.served.kill();
        (at, self.served.last_lines())
    }

    /// True if it still runs.
    pub(super) fn runs(&mut self) -> bool {
        self.served.runs()
    }
}

impl LedgerView {
    fn of(ledger: &Value, text: String) -> Self {
        let mut look = Self {
            balanced: ledger["balanced"] == Value::Bool(true),
            text,
            ..Self::default()
        };
        for (name, source) in ledger["sources"].as_object().into_iter().flatten() {
            let accepted = source["accepted"].as_u64().unwrap_or(0);
            look.accepted.insert(name.clone(), accepted);
        }
        for destination in ledger["destinations"].as_object().into_iter().flatten() {
            let account = destination.1;
            let sum = |key: &str| -> u64 {
                let reasons = account[key].as_object().into_iter().flatten();
                reasons.filter_map(|(_, n)| n.as_u64()).sum()
            };
            look.pending += account["pending"].as_u64().unwrap_or(0);
            look.quarantined += sum("quarantined");
            look.dropped += sum("dropped");
        }
        look
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_look_sums_over_the_destinations() {
        let ledger = json!({
            "balanced": true,
            "sources": {"tcp0": {"accepted": 7}},
            "destinations": {
                "a": {"pending": 1, "dropped": {"corrupt": 2}, "quarantined": {}},
                "b": {"pending": 3, "dropped": {}, "quarantined": {"too_large": 4}},
            },
        });
        let look = LedgerView::of(&ledger, String::new());
        let sums = (look.pending, look.dropped, look.quarantined);
        assert_eq!((look.balanced, sums), (true, (4, 2, 4)));
        assert_eq!(look.accepted["tcp0"], 7);
    }
}
