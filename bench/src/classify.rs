//! Reads and recognises messages in a loop, without sockets: for a profiler, and for counting
//! instructions (`make instructions`).

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use inrush_classify::{Classifier, Packs, SenderPlace};
use inrush_codec::{Parser, Zone};
use inrush_event::{Anomalies, Record, Span, Timestamp};
use jiff::tz::TimeZone;

/// Which packs are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Which {
    /// None: headers are read, nothing more
    None,
    /// Those for five vendors, and what is for any vendor
    Five,
    /// All that come with Inrush
    All,
}

/// The five vendors, and what is for any vendor.
const FIVE: [&str; 14] = [
    "cisco.yaml",
    "cisco-2.yaml",
    "f5.yaml",
    "fortinet.yaml",
    "juniper.yaml",
    "palo-alto.yaml",
    "almost-syslog.yaml",
    "app-fix-invalid-program.yaml",
    "fallback.yaml",
    "netsource.yaml",
    "post-filter.yaml",
    "raw.yaml",
    "syslog.yaml",
    "syslogng.yaml",
];

/// Made-up rules in one pack.
const SYNTHETIC_STEP: usize = 500;

#[derive(clap::Args)]
pub(crate) struct Classify {
    /// Messages, one a line; the samples of the packs if not given
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Whose samples those are
    #[arg(long, value_enum, default_value_t = Which::All)]
    samples: Which,
    /// Which packs are asked
    #[arg(long, value_enum, default_value_t = Which::All)]
    packs: Which,
    /// So many more rules, half by program and half by a text in the message
    #[arg(long, default_value_t = 0)]
    synthetic: usize,
    /// How often the messages are read
    #[arg(long, default_value_t = 1)]
    passes: usize,
}

/// The messages' bytes one behind the other, and where each lies.
struct Messages {
    arena: Vec<u8>,
    spans: Vec<Span>,
}

impl Messages {
    fn new<'t>(texts: impl Iterator<Item = &'t str>) -> Self {
        let (mut arena, mut spans) = (Vec::new(), Vec::new());
        for text in texts.filter(|text| !text.is_empty() && !text.contains('\n')) {
            let start = arena.len();
            arena.extend_from_slice(text.as_bytes());
            spans.push(Span::new(start, arena.len()));
        }
        Self { arena, spans }
    }
}

pub(crate) fn run(args: &Classify) -> Result<()> {
    let options = [("fallback".to_owned(), "sc4s".to_owned())].into();
    let before = Instant::now();
    let mut packs = inrush_packs::builtin(&options)?;
    let five = |file: &str| FIVE.contains(&file);
    let samples: Vec<String> = packs
        .iter()
        .filter(|pack| args.samples == Which::All || five(&pack.file))
        .flat_map(|pack| &pack.rules)
        .flat_map(|rule| rule.samples.iter().flat_map(|sample| sample.raw.clone()))
        .collect();
    match args.packs {
        Which::None => packs.clear(),
        Which::Five => packs.retain(|pack| five(&pack.file)),
        Which::All => {}
    }
    // A pack is no larger than a person would write it.
    for from in (0..args.synthetic).step_by(SYNTHETIC_STEP) {
        let text = synthetic(from..args.synthetic.min(from + SYNTHETIC_STEP));
        let name = format!("synthetic-{from}.yaml");
        packs.push(inrush_packs::read(&name, &text, &options)?);
    }
    let (packs, _) = Packs::compile(packs, Default::default());
    let compiled = before.elapsed();
    let messages = match &args.file {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            Messages::new(text.lines())
        }
        None => Messages::new(samples.iter().map(String::as_str)),
    };
    let rules = packs.len();
    let begin = Instant::now();
    let recognised = work(&messages, packs, args);
    let events = messages.spans.len() * args.passes;
    let ns = begin.elapsed().as_nanos() as f64 / events.max(1) as f64;
    writeln!(
        std::io::stdout(),
        "{{\"rules\":{rules},\"compile_ms\":{},\"events\":{events},\"recognised\":{recognised},\
         \"ns_per_event\":{ns:.1}}}",
        compiled.as_millis()
    )?;
    Ok(())
}

/// Reads every message so many times; how many were recognised.
fn work(messages: &Messages, packs: Packs, args: &Classify) -> usize {
    let received = Timestamp(1_714_979_289_123_456_000);
    let mut parser = Parser::new(Zone::utc());
    let mut classifier = Classifier::new(Arc::new(packs), None);
    let place = SenderPlace {
        sender: Some(IpAddr::from([192, 0, 2, 1])),
        listener: "default",
        hint: None,
        zone: &TimeZone::UTC,
    };
    let mut recognised = 0;
    for _ in 0..args.passes {
        for span in &messages.spans {
            let mut record = Record::unparsed(*span, received, 0, Anomalies::NONE);
            parser.parse(&messages.arena, &mut record);
            if args.packs != Which::None {
                let (verdict, _) = classifier.classify(&messages.arena, &mut record, place);
                recognised += usize::from(verdict != inrush_classify::Verdict::Dropped(0));
            }
        }
    }
    recognised
}

/// Rules that no message meets, as many users' own would be.
pub(crate) fn synthetic(rules: Range<usize>) -> String {
    let mut text = String::from("about: synthetic\nrules:\n");
    for number in rules {
        let when = if number % 2 == 0 {
            format!("stage: program, when: {{ program: \"zz{number:05}*\" }}")
        } else {
            format!("stage: message, when: {{ message: \"*zq{number:05}=*\" }}")
        };
        // Writing to a text cannot fail.
        let _ = writeln!(
            text,
            "  - {{ name: synthetic_{number}, {when}, set: {{ vendor: v, index: i, sourcetype: s }} }}"
        );
    }
    text
}
