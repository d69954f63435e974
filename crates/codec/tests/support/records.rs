//! What must hold of every parsed record, whatever its bytes. Shared by the property tests and
//! the fuzz targets.

use inrush_codec::{SyslogParser, Zone};
use inrush_event::{Anomalies, Format, Record, Span, Timestamp};

/// 2026-11-21T19:00:05Z.
pub(crate) const RECEIVED: Timestamp = Timestamp(1_795_287_605_000_000_000);

/// Parses `raw` with `before` and `after` as its neighbours in the arena.
pub(crate) fn parse(parser: &mut SyslogParser, before: &[u8], raw: &[u8], after: &[u8]) -> Record {
    let arena = [before, raw, after].concat();
    let span = Span::new(before.len(), before.len() + raw.len());
    let mut record = Record::unparsed(span, RECEIVED, 7, Anomalies::NONE);
    parser.parse(&arena, &mut record);
    record
}

/// Parses `raw` and checks the record: spans lie inside and in order, the message ends with the
/// record, a missing field is flagged, and neither neighbours nor a worn parser change anything.
pub(crate) fn check(parser: &mut SyslogParser, raw: &[u8]) -> Record {
    let record = parse(parser, b"<34>1 ", raw, b"sshd[1]: ");
    spans(&record, raw.len());
    flags(&record);
    let fresh = parse(&mut SyslogParser::new(Zone::utc()), b"<34>1 ", raw, b"");
    assert_eq!(summary(&fresh), summary(&record), "{}", raw.escape_ascii());
    record
}

fn spans(record: &Record, raw_len: usize) {
    let raw = record.raw;
    assert_eq!(
        (raw.len(), record.received, record.peer),
        (raw_len, RECEIVED, 7)
    );
    assert_eq!(record.message.end(), raw.end(), "{record:?}");
    let mut at = raw.start();
    let Record {
        host,
        app,
        proc_id,
        msg_id,
        sdata,
        message,
        ..
    } = *record;
    for span in [host, app, proc_id, msg_id, sdata]
        .into_iter()
        .filter(|span| !span.is_empty())
    {
        assert!(span.start() >= at && span.end() <= raw.end(), "{record:?}");
        at = span.end();
    }
    assert!(message.start() >= at, "{record:?}");
}

fn flags(record: &Record) {
    let has = |anomaly| record.anomalies.contains(anomaly);
    let timeless = has(Anomalies::NO_TIME) || has(Anomalies::BAD_TIME);
    assert_eq!(record.event_time.is_some(), !timeless, "{record:?}");
    assert_eq!(
        record.host.is_empty(),
        has(Anomalies::NO_HOST),
        "{record:?}"
    );
    assert_eq!(
        record.format == Format::Unparsed,
        has(Anomalies::UNPARSED),
        "{record:?}"
    );
    let no_pri = has(Anomalies::NO_PRI) || has(Anomalies::BAD_PRI);
    assert_eq!(record.pri == Record::PRI_NONE, no_pri, "{record:?}");
    assert!(no_pri || record.pri <= 191, "{record:?}");
    if record.format == Format::Unparsed {
        assert_eq!(record.message, record.raw);
    }
}

fn summary(record: &Record) -> String {
    format!("{record:?}")
}
