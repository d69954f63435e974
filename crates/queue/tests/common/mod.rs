//! Batches for the tests of the log's files.

use std::sync::Arc;

use inrush_event::{
    Anomalies, Batch, BatchPool, Origin, Peer, Protocol, Record, SourceInfo, Span, Timestamp,
    limits,
};

/// A batch of one event a text; the last half of each text is its message.
pub(crate) fn batch(texts: &[&str]) -> Batch {
    let source = Arc::new(SourceInfo {
        name: "s".into(),
        index: "main".into(),
        sourcetype: "syslog".into(),
    });
    let mut builder = BatchPool::new().lend(&source, limits::MESSAGE_BYTES_DEFAULT);
    builder.stamp(Timestamp(7));
    let peer = Peer {
        ip: "192.0.2.7".parse().unwrap(),
        local_port: 514,
        protocol: Protocol::Tls,
        client: Some("relay.example.com".into()),
    };
    let (name, partition) = ("firewall".into(), 7);
    let origins = [
        Origin::Peer(peer),
        Origin::File("/var/log/auth.log".into()),
        Origin::Unit("sshd.service".into()),
        Origin::Topic { name, partition },
    ];
    for (text, origin) in texts.iter().zip(origins.iter().cycle()) {
        let peer = builder.origin(origin);
        let start = builder.filled();
        builder.extend(text.as_bytes());
        let end = builder.filled();
        let raw = Span::new(start, end);
        let mut record = Record::unparsed(raw, Timestamp(8), peer, Anomalies::NO_PRI);
        record.message = Span::new((start + end) / 2, end);
        builder.parts().1.push(record);
    }
    builder.freeze(3)
}

/// The raw records.
pub(crate) fn texts(batch: &Batch) -> Vec<String> {
    let text = |record: &Record| String::from_utf8(batch.get(record.raw).to_vec()).unwrap();
    batch.records().iter().map(text).collect()
}
