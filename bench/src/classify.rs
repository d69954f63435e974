//! Reads and recognises messages in a loop, without sockets: for a profiler, and for counting
//! instructions (`make instructions`).

#[cfg(test)]
mod begins;
mod floor;
mod outcomes;
#[cfg(test)]
mod remembered;

use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use inrush_classify::{Classifier, CompiledPacks, EventOrigin};
use inrush_codec::{SyslogParser, Zone};
use inrush_event::{Anomalies, Record, Span, Timestamp};
use jiff::tz::TimeZone;

/// Which packs are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum PackSelection {
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
pub(crate) struct ClassifyArgs {
    /// Messages, one a line; the samples of the packs if not given
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Whose samples those are
    #[arg(long, value_enum, default_value_t = PackSelection::All)]
    samples: PackSelection,
    /// Which packs are asked
    #[arg(long, value_enum, default_value_t = PackSelection::All)]
    packs: PackSelection,
    /// So many more rules, half by program and half by a text in the message
    #[arg(long, default_value_t = 0)]
    synthetic: usize,
    /// How often the messages are read
    #[arg(long, default_value_t = 1)]
    passes: usize,
    /// Says of each message what it took: the median of the passes, one JSON object a line
    #[arg(long)]
    by_message: bool,
    /// Says in place of the time what came of each message and of so many broken ones made from
    /// them, one line each: two builds that recognise alike say the same
    #[arg(long, value_name = "BROKEN")]
    outcomes: Option<usize>,
    /// Says in place of the time what no recognition can do without: reading headers, touching each
    /// byte, and one search for as many texts as the fastest search takes
    #[arg(long)]
    floor: bool,
}

/// The messages' bytes one behind the other, and where each lies.
struct MessageArena {
    arena: Vec<u8>,
    spans: Vec<Span>,
}

impl MessageArena {
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

pub(crate) fn run(args: &ClassifyArgs) -> Result<()> {
    let options = [("fallback".to_owned(), "sc4s".to_owned())].into();
    let before = Instant::now();
    let mut packs = inrush_packs::builtin(&options)?;
    let five = |file: &str| FIVE.contains(&file);
    let samples: Vec<String> = packs
        .iter()
        .filter(|pack| args.samples == PackSelection::All || five(&pack.file))
        .flat_map(|pack| &pack.rules)
        .flat_map(|rule| rule.samples.iter().flat_map(|sample| sample.raw.clone()))
        .collect();
    let floor = args.floor.then(|| floor::texts(&packs));
    match args.packs {
        PackSelection::None => packs.clear(),
        PackSelection::Five => packs.retain(|pack| five(&pack.file)),
        PackSelection::All => {}
    }
    // A pack is no larger than a person would write it.
    for from in (0..args.synthetic).step_by(SYNTHETIC_STEP) {
        let text = synthetic(from..args.synthetic.min(from + SYNTHETIC_STEP));
        let name = format!("synthetic-{from}.yaml");
        packs.push(inrush_packs::read(&name, &text, &options)?);
    }
    let (packs, _) = CompiledPacks::compile(packs, Default::default());
    let compiled = before.elapsed();
    let messages = match &args.file {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            MessageArena::new(text.lines())
        }
        None => MessageArena::new(samples.iter().map(String::as_str)),
    };
    if let Some(texts) = floor {
        return floor::write(&messages, &texts, args.passes);
    }
    if let Some(broken) = args.outcomes {
        return outcomes::write(&messages, packs, broken);
    }
    let rules = packs.len();
    let begin = Instant::now();
    let mut times = args
        .by_message
        .then(|| vec![Vec::new(); messages.spans.len()]);
    let recognised = work(&messages, packs, args, times.as_deref_mut());
    if let Some(times) = times {
        return by_message(&messages, times);
    }
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

/// Time of receipt of all messages.
const RECEIVED: Timestamp = Timestamp(1_714_979_289_123_456_000);

/// Sender and listener of all messages.
const PLACE: EventOrigin<'static> = EventOrigin {
    sender: Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))),
    listener: "default",
    hint: None,
    zone: &TimeZone::UTC,
};

/// Reads every message so many times; how many were recognised. What each took is added to
/// `times`, in nanoseconds.
fn work(
    messages: &MessageArena,
    packs: CompiledPacks,
    args: &ClassifyArgs,
    mut times: Option<&mut [Vec<u32>]>,
) -> usize {
    let mut parser = SyslogParser::new(Zone::utc());
    let mut classifier = Classifier::new(Arc::new(packs), None);
    let mut recognised = 0;
    for _ in 0..args.passes {
        for (number, span) in messages.spans.iter().enumerate() {
            let begin = times.is_some().then(Instant::now);
            let mut record = Record::unparsed(*span, RECEIVED, 0, Anomalies::NONE);
            parser.parse(&messages.arena, &mut record);
            if args.packs != PackSelection::None {
                let (verdict, _) = classifier.classify(&messages.arena, &mut record, PLACE);
                recognised +=
                    usize::from(verdict != inrush_classify::ClassifierVerdict::Dropped(0));
            }
            if let (Some(times), Some(begin)) = (times.as_deref_mut(), begin) {
                times[number].push(begin.elapsed().as_nanos() as u32);
            }
        }
    }
    recognised
}

/// Writes what each message took.
fn by_message(messages: &MessageArena, times: Vec<Vec<u32>>) -> Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for (span, mut times) in messages.spans.iter().zip(times) {
        times.sort_unstable();
        let line = serde_json::json!({
            "ns": times.get(times.len() / 2),
            "message": String::from_utf8_lossy(span.of(&messages.arena)),
        });
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
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
