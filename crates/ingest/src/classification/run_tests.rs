//! Many events are recognised by kind, a few as they came: nobody may notice.
#![allow(clippy::unwrap_used)]
use std::net::IpAddr;
use std::sync::OnceLock;

use inrush_codec::{SyslogParser, Zone};
use inrush_event::{Batch, BatchPool, Peer, Protocol, SourceInfo, Span, Timestamp};
use proptest::prelude::*;

use super::*;

/// Received then: 2024-05-06T07:08:09Z.
const RECEIVED: Timestamp = Timestamp(1_714_979_289_000_000_000);

/// The packs that come with Inrush, and the events that they have as samples.
struct Builtin {
    packs: Arc<CompiledPacks>,
    texts: Vec<String>,
}

fn builtin() -> &'static Builtin {
    static ONCE: OnceLock<Builtin> = OnceLock::new();
    ONCE.get_or_init(|| {
        let enabled = PacksOptions {
            enabled: true,
            ..PacksOptions::default()
        };
        let options = [("fallback".to_owned(), "sc4s".to_owned())].into();
        let packs = read(&enabled, &options).unwrap();
        let samples = packs.iter().flat_map(|pack| &pack.rules);
        let samples = samples.flat_map(|rule| &rule.samples);
        let mut texts: Vec<String> = samples.flat_map(|sample| sample.raw.clone()).collect();
        // Filtered, as the option says that nobody sets.
        texts.extend((0..100).map(|at| format!("<13>May  6 07:08:09 h{at} -- MARK --")));
        Builtin {
            packs: Arc::new(CompiledPacks::compile(packs, Overrides::default()).0),
            texts,
        }
    })
}

/// Events, those that were put together from parts, and how many each rule filtered.
type Seen = (Vec<String>, Vec<String>, Vec<(String, u64)>);

struct Bench {
    recogniser: BatchClassifier,
    parser: SyslogParser,
    groups: MultilineAssembler,
    builder: BatchBuilder,
    now: Instant,
}

impl Bench {
    /// A source whose senders are that product.
    fn new(product: Option<(&str, &str)>) -> Self {
        let recognition = ClassifierContext {
            packs: Arc::clone(&builtin().packs),
            hints: None,
            listener: "default".into(),
            product: product.map(|(vendor, product)| (vendor.into(), product.into())),
            zone: TimeZone::UTC,
        };
        let source = SourceInfo {
            name: "s".into(),
            index: "main".into(),
            sourcetype: "syslog".into(),
        };
        Self {
            recogniser: BatchClassifier::new(recognition),
            parser: SyslogParser::new(Zone::utc()),
            groups: MultilineAssembler::new(MemoryBudget::new()),
            builder: BatchPool::new().lend(&Arc::new(source), 65_536),
            now: Instant::now(),
        }
    }

    fn read(&mut self, text: &str) {
        let start = self.builder.filled();
        self.builder.extend(text.as_bytes());
        let raw = Span::new(start, self.builder.filled());
        let peer = self.builder.peer(Peer {
            ip: IpAddr::from([192, 0, 2, 1]),
            local_port: 514,
            protocol: Protocol::Tcp,
            client: None,
        });
        let mut record = Record::unparsed(raw, RECEIVED, peer, Anomalies::NONE);
        let (arena, records) = self.builder.parts();
        self.parser.parse(arena, &mut record);
        records.push(record);
    }

    fn recognise(&mut self, from: usize) -> [(u64, u64); 2] {
        let hold = Some((&mut self.groups, self.now));
        let taken = self.recogniser.run(&mut self.builder, from, hold);
        [taken.filtered, taken.held]
    }

    /// All that can be seen of the events, and of those that were put together from parts.
    fn end(mut self) -> Seen {
        let dropped = self.recogniser.take_dropped();
        let mut dropped: Vec<_> = dropped.map(|(rule, n)| (rule.to_owned(), n)).collect();
        dropped.sort();
        let count = self.builder.len();
        self.groups.end_all();
        while let Some(ready) = self.groups.pop() {
            let record = ready.put(&mut self.builder);
            self.builder.records_mut().push(record);
        }
        let batch = self.builder.freeze(0);
        let (one, whole) = batch.records().split_at(count);
        let seen = |records: &[Record]| records.iter().map(|record| seen(&batch, record)).collect();
        (seen(one), seen(whole), dropped)
    }
}

fn seen(batch: &Batch, record: &Record) -> String {
    let spans = [
        record.raw,
        record.host,
        record.app,
        record.proc_id,
        record.msg_id,
        record.sdata,
        record.message,
        record.extra,
    ];
    let texts = spans.map(|span| String::from_utf8_lossy(batch.get(span)).into_owned());
    let class = batch.class(record);
    let rest = (record.event_time, record.zone_minutes, record.anomalies);
    format!(
        "{texts:?} {class:?} {rest:?} {} {:?}",
        record.pri, record.format
    )
}

/// Reads texts in rounds of so many, and recognises each round as a whole.
fn in_rounds<'t>(
    product: Option<(&str, &str)>,
    rounds: impl IntoIterator<Item = &'t [&'t str]>,
) -> (Vec<(u64, u64)>, Seen) {
    let mut bench = Bench::new(product);
    let mut sums = vec![(0, 0); 2];
    for round in rounds {
        let from = bench.builder.len();
        round.iter().for_each(|text| bench.read(text));
        for (sum, more) in sums.iter_mut().zip(bench.recognise(from)) {
            sum.0 += more.0;
            sum.1 += more.1;
        }
    }
    (sums, bench.end())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn by_kind_it_is_what_it_is_one_by_one(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..200),
        first in 0usize..40,
    ) {
        let texts: Vec<&str> = picks.iter().map(|at| at.get(&builtin().texts).as_str()).collect();
        // The first round may be too short for an order.
        let (some, others) = texts.split_at(first.min(texts.len()));
        prop_assert_eq!(in_rounds(None, [some, others]), in_rounds(None, texts.chunks(1)));
    }
}

#[test]
fn parts_are_put_together_as_they_arrived() {
    let lines = (0..12).flat_map(|at| {
        let host = "<134>May  6 07:08:09 rsa1";
        let cause = format!("{host} Caused by: com.example.store.Closed: number {at}");
        [
            cause,
            format!("{host}     at com.example.store.Pool.take(Pool.java:{at})"),
        ]
    });
    let lines: Vec<String> = lines.collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let product = Some(("dell", "rsa_secureid"));
    let (sums, events) = in_rounds(product, [&lines[..]]);
    assert_eq!(sums[1].0, 24, "all are parts");
    assert_eq!((sums, events), in_rounds(product, lines.chunks(1)));
}

#[test]
fn only_what_an_event_has_beyond_its_class_is_appended() {
    let mut bench = Bench::new(None);
    let mut appended = 0;
    for text in &builtin().texts {
        bench.read(text);
        let (at, received) = (bench.builder.len() - 1, bench.builder.filled());
        bench.recogniser.run(&mut bench.builder, at, None);
        let part = bench.recogniser.part_of().is_some();
        if part || bench.builder.filled() == received {
            continue;
        }
        appended += 1;
        let Record {
            host,
            app,
            proc_id,
            msg_id,
            sdata,
            message,
            extra,
            ..
        } = bench.builder.records()[at];
        let spans = [host, app, proc_id, msg_id, sdata, message, extra];
        let beyond = spans.iter().filter(|span| span.end() > received);
        let first = beyond.map(|span| span.start()).min();
        assert_eq!(first, Some(received), "{text}");
    }
    assert!(appended > 100, "{appended} events");
}
