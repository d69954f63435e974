//! Any record through all packs: it never panics, what comes out lies where it says, and the
//! envelope is JSON.
#![no_main]

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use inrush_classify::{Classifier, ClassifierVerdict, CompiledPacks, HostProducts, EventOrigin};
use inrush_codec::encode::{HecEncoder, HecOptions, IndexedField};
use inrush_codec::{SyslogParser, Zone};
use inrush_event::{
    Anomalies, BatchPool, Peer, Protocol, Record, SourceInfo, Span, Timestamp, limits,
};
use jiff::tz::TimeZone;
use libfuzzer_sys::fuzz_target;

static PACKS: LazyLock<Arc<CompiledPacks>> = LazyLock::new(|| {
    let options = [("fallback".to_owned(), "sc4s".to_owned())].into();
    let packs = inrush_packs::builtin(&options).expect("the packs are sound");
    Arc::new(CompiledPacks::compile(packs, Default::default()).0)
});

thread_local! {
    static CLASSIFIER: RefCell<Classifier> =
        RefCell::new(Classifier::new(Arc::clone(&PACKS), Some(HostProducts::new())));
}

/// Products whose listeners are tried, by the first byte.
const PRODUCTS: [Option<(&str, &str)>; 4] = [
    None,
    Some(("cisco", "esa")),
    Some(("vmware", "vsphere")),
    Some(("f5", "bigip")),
];

fuzz_target!(|data: &[u8]| {
    let Some((first, data)) = data.split_first() else {
        return;
    };
    if data.is_empty() {
        return;
    }
    let source = Arc::new(SourceInfo {
        name: "s".into(),
        index: "i".into(),
        sourcetype: "t".into(),
    });
    let mut builder = BatchPool::new().lend(&source, limits::MESSAGE_BYTES_DEFAULT);
    builder.extend(&data[..data.len().min(limits::MESSAGE_BYTES_DEFAULT)]);
    let peer = builder.peer(Peer {
        ip: IpAddr::from([192, 0, 2, 1]),
        local_port: 514,
        protocol: Protocol::Udp,
        client: None,
    });
    let raw = Span::new(0, builder.filled());
    let received = Timestamp(1_714_979_289_123_456_000);
    let mut record = Record::unparsed(raw, received, peer, Anomalies::NONE);
    SyslogParser::new(Zone::utc()).parse(builder.bytes(), &mut record);
    let place = EventOrigin {
        sender: Some(IpAddr::from([192, 0, 2, 1])),
        listener: "simple_a_b",
        hint: PRODUCTS[usize::from(*first) % PRODUCTS.len()],
        zone: &TimeZone::UTC,
    };
    let kept = CLASSIFIER.with_borrow_mut(|classifier| {
        let (verdict, append) = classifier.classify(builder.bytes(), &mut record, place);
        let (ClassifierVerdict::Class(number) | ClassifierVerdict::Part(number)) = verdict else {
            return false;
        };
        if append {
            builder.append(classifier.tail());
        }
        record.class = builder.class(classifier.class(number));
        true
    });
    if !kept {
        return;
    }
    for span in [
        record.host,
        record.app,
        record.proc_id,
        record.message,
        record.extra,
    ] {
        assert!(
            span.is_empty() || span.end() <= builder.filled(),
            "{record:?}"
        );
    }
    builder.records_mut().push(record);
    let batch = builder.freeze(0);
    let mut out = Vec::new();
    let options = HecOptions {
        source: None,
        index: None,
        container: "c".into(),
        indexed_fields: IndexedField::ALL.to_vec(),
    };
    HecEncoder::new(options).encode(&batch, &record, b"", &mut out);
    let envelope: serde_json::Value = serde_json::from_slice(&out).expect("the envelope is JSON");
    assert!(envelope["time"].is_string() && envelope["index"].is_string());
});
