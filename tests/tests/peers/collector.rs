//! Inrush as it collects what foreign programs write: killed, and started anew in its place.

use inrush_tests::{Inrush, Options};
use jiff::Timestamp;
use tempfile::TempDir;

/// A process that writes all events to `out.jsonl`.
pub(crate) struct Collector {
    /// `None` only while another process takes its place.
    inrush: Option<Inrush>,
    yaml: String,
}

impl Collector {
    /// Starts it with one source of these options, in the style of a flow mapping of YAML.
    pub(crate) fn start(dir: TempDir, source: &str) -> Self {
        let yaml = format!(
            "sources:\n  peer: {{ {source} }}\ndestinations:\n  \
             out: {{ type: file, path: \"{{dir}}/out.jsonl\" }}\n"
        );
        let inrush = Some(start_in(dir, &yaml));
        Self { inrush, yaml }
    }

    /// The process.
    pub(crate) fn inrush(&self) -> &Inrush {
        self.inrush.as_ref().unwrap()
    }

    /// Kills it with SIGKILL, and starts another one at once. Returns the time of the kill.
    pub(crate) fn replace(&mut self) -> Timestamp {
        let (_, dir) = self.inrush.take().unwrap().kill();
        let killed = Timestamp::now();
        self.inrush = Some(start_in(dir, &self.yaml));
        killed
    }
}

fn start_in(dir: TempDir, yaml: &str) -> Inrush {
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    Inrush::with(yaml, options)
}
