//! Collectors under test: Inrush, the peers, the bare tail, or any command line.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum;
use inrush_harness::child::ChildProcess;
use inrush_harness::subject::{HecForwarder, READY_LINE, RUN_WORDS, write_config};
use serde::{Deserialize, Serialize};

use super::format::LogFormat;

/// A collector of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TailProduct {
    /// This product.
    #[default]
    Inrush,
    /// OpenTelemetry Collector: filelog, container, file_storage.
    Otel,
    /// Fluent Bit with options that a careful user sets.
    FluentBit,
    /// The bare tail of this program, which keeps no checkpoint.
    Bare,
}

/// Command and configuration that start a collector.
#[derive(Clone, Debug)]
pub(crate) struct TailSetup {
    /// Program and words; `@CONFIG@` is the configuration, and the names of [`TailPlaces`] are
    /// theirs.
    words: Vec<String>,
    template: String,
    /// Line by which it says that it is ready; `None`: it says nothing.
    ready: Option<String>,
    /// True if it ends with its stdin.
    ends_with_stdin: bool,
}

/// Paths and addresses that a collector needs.
#[derive(Clone, Debug)]
pub(crate) struct TailPlaces {
    /// Folder of its own.
    pub(crate) dir: PathBuf,
    /// Glob of the files.
    pub(crate) include: String,
    pub(crate) format: LogFormat,
    pub(crate) sink_port: u16,
    /// Port of its API and its metrics.
    pub(crate) admin_port: u16,
}

impl TailProduct {
    /// As it is written on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map_or(String::new(), |value| value.get_name().to_owned())
    }

    /// Command and configuration of it; `inrush` is the program of Inrush.
    pub(crate) fn setup(self, inrush: &Path) -> Result<TailSetup> {
        let peer = |peer: HecForwarder, option: &str, template: &str| {
            let program = peer.program().with_context(|| peer.missing())?;
            let words = [&program.display().to_string(), option, "@CONFIG@"];
            Ok(TailSetup::new(&words, template, None))
        };
        match self {
            Self::Inrush => {
                let program = inrush.display().to_string();
                let [run, config] = RUN_WORDS;
                let words = [&program, run, config, "@CONFIG@"];
                let template = include_str!("../../inrush/files.yaml");
                Ok(TailSetup::new(&words, template, Some(READY_LINE)))
            }
            Self::Otel => {
                let template = include_str!("../../peers/otel-files.yaml");
                peer(HecForwarder::Otel, "--config", template)
            }
            Self::FluentBit => {
                let template = include_str!("../../peers/fluent-bit-files.yaml");
                peer(HecForwarder::FluentBit, "-c", template)
            }
            Self::Bare => {
                let this = std::env::current_exe().context("own path")?;
                let this = this.display().to_string();
                let to = "--to=127.0.0.1:@SINK@";
                let words = [&this, "bare-tail", "@INCLUDE@", to, "--format=@FORMAT@"];
                let mut setup = TailSetup::new(&words, "", Some("ready 0"));
                setup.ends_with_stdin = true;
                Ok(setup)
            }
        }
    }

    /// Version of a peer, for the report.
    pub(crate) fn version(self) -> Option<String> {
        match self {
            Self::Otel => HecForwarder::Otel.version(),
            Self::FluentBit => HecForwarder::FluentBit.version(),
            Self::Inrush | Self::Bare => None,
        }
    }
}

impl TailSetup {
    /// A command line of words with a configuration.
    pub(crate) fn new(words: &[&str], template: &str, ready: Option<&str>) -> Self {
        Self {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            template: template.to_owned(),
            ready: ready.map(str::to_owned),
            ends_with_stdin: false,
        }
    }

    /// The same with another configuration.
    pub(crate) fn with_template(mut self, template: String) -> Self {
        self.template = template;
        self
    }

    /// Starts it, and waits until it is ready where it says so.
    pub(crate) fn start(&self, places: &TailPlaces) -> Result<ChildProcess> {
        let config = places.dir.join("collector.yaml");
        let container = match places.format {
            LogFormat::Lines => "[]",
            LogFormat::Docker | LogFormat::Cri => {
                "[{ type: container, add_metadata_from_filepath: false }]"
            }
        };
        let values = [
            ("@CONFIG@", config.display().to_string()),
            ("@DIR@", places.dir.display().to_string()),
            ("@INCLUDE@", places.include.clone()),
            ("@FORMAT@", places.format.name().to_owned()),
            ("@OPERATORS@", container.to_owned()),
            ("@PARSER@", parser(places.format).to_owned()),
            ("@SINK@", places.sink_port.to_string()),
            ("@ADMIN@", places.admin_port.to_string()),
        ];
        let values = values
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        write_config(&config, &self.template, &values)?;
        let fill = |word: &String| {
            let replaced = |word: String, (name, value): &(&str, &str)| word.replace(name, value);
            values.iter().fold(word.clone(), replaced)
        };
        let mut words = self.words.iter().map(fill);
        let program = words.next().context("no program")?;
        let mut command = Command::new(&program);
        command.args(words).current_dir(&places.dir);
        let mut process = ChildProcess::start(&program, &mut command)?;
        if self.ends_with_stdin {
            process = process.ending_with_stdin();
        }
        if let Some(ready) = &self.ready {
            process.lines_until(|line| line.trim() == ready)?;
        }
        Ok(process)
    }
}

/// Option of Fluent Bit's `tail`.
const fn parser(format: LogFormat) -> &'static str {
    match format {
        LogFormat::Lines => "",
        LogFormat::Docker => "multiline.parser: docker",
        LogFormat::Cri => "multiline.parser: cri",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn words_and_configuration_are_filled_and_the_line_is_awaited() {
        let dir = tempfile::tempdir().unwrap();
        let places = TailPlaces {
            dir: dir.path().to_owned(),
            include: "/logs/*.log".to_owned(),
            format: LogFormat::Docker,
            sink_port: 7,
            admin_port: 8,
        };
        let words = ["sh", "-c", "cat @CONFIG@; echo on @SINK@; cat"];
        let setup = TailSetup::new(&words, "a\nin: @INCLUDE@ @FORMAT@ @ADMIN@\n", Some("on 7"));
        let mut process = setup.start(&places).unwrap();
        process.ask("alive").unwrap();
        assert_eq!(process.line().unwrap(), "alive");
        let config = std::fs::read_to_string(dir.path().join("collector.yaml")).unwrap();
        assert_eq!(config, "a\nin: /logs/*.log docker 8\n");
    }
}
