//! A source is a folder and a line in a table: every other room learns of it through its trait.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use inrush_config::{Config, SourceConfig};
use inrush_pipeline::Pipeline;
use inrush_source::made_up::ACKNOWLEDGED;
use inrush_source::made_up::options::MadeUpSource;
use inrush_status::{Admin, StatusReporter};
use inrush_transport::activation::InheritedSockets;

fn config(data_dir: &Path, records: u64) -> Config {
    let text = format!(
        "data_dir: {}\nsources: {{ s: {{ type: syslog, listen: [\"udp://127.0.0.1:0\"] }} }}\n\
         destinations: {{ out: {{ type: blackhole }} }}\n",
        data_dir.display()
    );
    let mut config = inrush_config::parse(&text, "test", &|_| None).unwrap();
    config.sources.clear();
    let source = SourceConfig::MadeUp(Box::new(MadeUpSource { records }));
    config.sources.insert("m".to_owned(), source);
    config
}

/// Waits for something that other threads do.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

#[test]
fn a_source_of_a_few_lines_has_all_that_the_others_have() {
    let dir = tempfile::tempdir().unwrap();
    let next = config(dir.path(), 5);
    let loader = Box::new(move || Ok(next.clone()));
    let inherited = InheritedSockets::default();
    let pipeline = Pipeline::start(config(dir.path(), 3), inherited, loader).unwrap();
    let status = StatusReporter::new(pipeline.topology());
    let delivered = |events| {
        let ledger = status.ledger();
        ledger.balanced && ledger.destinations["out"].delivered == events
    };
    eventually("three records are delivered", || delivered(3));
    assert_eq!(status.ledger().sources["m"].accepted, 3);
    eventually("and acknowledged", || {
        ACKNOWLEDGED.load(Ordering::Acquire) == 3
    });
    assert_eq!(status.sources()[0].type_name, "made_up");
    let flow = status.flow();
    assert_eq!(
        (flow.sources[0].type_name.as_str(), flow.edges[0].events),
        ("made_up", 3)
    );
    let explained = status.explain(Some("m"), b"<13>1 - - - - - - x").unwrap();
    assert!(String::from_utf8(explained).unwrap().contains("made_up"));
    assert_eq!(pipeline.reload().unwrap().changed, ["source m changed"]);
    eventually("a reload wants five", || delivered(5));
    pipeline.stop();
    assert_eq!(status.ledger().sources["m"].received, 5);
}
