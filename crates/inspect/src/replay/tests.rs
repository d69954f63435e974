//! Records read again: by which rules, as whose, in pages of what size, and where they end.

#![allow(clippy::unwrap_used)]
use super::*;

fn config(packs: &str) -> Config {
    let yaml = format!(
        "sources:\n  a: {{ type: syslog, listen: [\"udp://127.0.0.1:514\"] }}\n  \
         b: {{ type: syslog, listen: [\"tcp://127.0.0.1:601\"], index: other, \
         max_message_bytes: 480 }}\n\
         destinations:\n  out: {{ type: blackhole }}\npacks: {{ enabled: {packs} }}\n"
    );
    inrush_config::parse(&yaml, "test", &|_| None).unwrap()
}

fn stored<'a>(raw: &'a [u8], source: &'a str, number: u64) -> StoredRecord<'a> {
    StoredRecord {
        raw,
        framing: Anomalies::NONE,
        source,
        sender: Some(IpAddr::from([10, 0, 0, 5])),
        protocol: Some(Protocol::Udp),
        client: None,
        local_port: None,
        received: Timestamp(1_714_979_289_000_000_000),
        was: EventMetadata::default(),
        number,
    }
}

const ASA: &[u8] = b"<134>May  6 07:08:09 fw1 : %ASA-4-106023: Deny tcp src outside:192.0.2.9";
const MARK: &[u8] = b"<46>May  6 07:08:09 h1 -- MARK --";

#[test]
fn records_are_read_by_todays_packs_with_the_sender_and_time_of_then() {
    let config = config("true");
    let mut reader = RecordReplayer::new(&config, None).unwrap();
    for (number, raw) in (0..).zip([ASA, MARK, b"no header"]) {
        assert!(reader.take(stored(raw, "a", number)).unwrap().is_empty());
    }
    let pages = reader.finish();
    assert_eq!(pages.len(), 1);
    let page = &pages[0];
    let numbers: Vec<u64> = page.was.iter().map(|(_, number)| *number).collect();
    assert_eq!(numbers, [0, 2]);
    let taken_out: Vec<_> = page
        .filtered
        .iter()
        .map(|(_, n, rule)| (*n, &rule[..]))
        .collect();
    assert_eq!(taken_out, [(1, "mark")]);
    let records = page.batch.records();
    let first = EventMetadata::of(&page.batch, &records[0]);
    assert_eq!(
        (&first.index[..], &first.sourcetype[..]),
        ("netfw", "cisco:asa")
    );
    assert_eq!((&first.host[..], &first.vendor[..]), ("fw1", "cisco"));
    let last = EventMetadata::of(&page.batch, &records[1]);
    assert_eq!(last.host, "10.0.0.5");
    assert_eq!(last.time, Timestamp(1_714_979_289_000_000_000));
    assert_eq!(page.batch.peer(&records[1]).unwrap().local_port, 514);
    assert!(reader.finish().is_empty());
}

#[test]
fn times_are_read_as_by_the_source_with_what_was_learnt_on_the_way() {
    let yaml = "sources: { a: { type: syslog, listen: [\"udp://127.0.0.1:514\"], \
        guess_timezone: true, max_time_skew: 1h } }\ndestinations: { out: { type: blackhole } }\n";
    let config = inrush_config::parse(yaml, "test", &|_| None).unwrap();
    let mut reader = RecordReplayer::new(&config, None).unwrap();
    for number in 0..10 {
        let received = Timestamp(1_714_979_289_000_000_000 + 5_000_000_000 * number as i64);
        let raw = format!("<13>May  6 02:08:{:02} h1 app: x", 9 + 5 * number);
        let stored = stored(raw.as_bytes(), "a", number);
        reader.take(StoredRecord { received, ..stored }).unwrap();
    }
    let page = reader.finish().remove(0);
    let records = page.batch.records();
    let flagged: Vec<_> = records
        .iter()
        .map(|record| {
            let has = |one| record.anomalies.contains(one);
            (has(Anomalies::ZONE_GUESSED), has(Anomalies::TIME_SKEWED))
        })
        .collect();
    assert_eq!(flagged[..7], [(false, true); 7]);
    assert_eq!(flagged[7..], [(true, false); 3]);
    assert_eq!(records[9].event_time, records[9].received);
}

#[test]
fn a_source_that_is_gone_is_stood_in_for_and_named() {
    let config = config("false");
    let mut reader = RecordReplayer::new(&config, Some("b")).unwrap();
    reader.take(stored(&[b'x'; 1000], "gone", 0)).unwrap();
    reader.take(stored(b"y", "a", 1)).unwrap();
    let pages = reader.finish();
    assert_eq!(reader.strangers().get("gone"), Some(&1));
    let of = |source: &str| {
        pages
            .iter()
            .find(|p| p.batch.source().name == source)
            .unwrap()
    };
    let cut = &of("b").batch;
    assert_eq!(cut.records()[0].raw.len(), 480);
    assert!(cut.records()[0].anomalies.contains(Anomalies::OVERSIZE));
    assert_eq!(of("a").was.len(), 1);
    assert!(RecordReplayer::new(&config, Some("c")).is_err());
}

#[test]
fn a_page_can_do_without_what_stays_the_same() {
    let config = config("true");
    let mut reader = RecordReplayer::new(&config, None).unwrap();
    for (number, raw) in (0..).zip([&b"one"[..], ASA, b"two"]) {
        reader.take(stored(raw, "a", number)).unwrap();
    }
    let mut page = reader.finish().remove(0);
    page.retain(|now, was| now.vendor != was.vendor);
    assert_eq!(page.was.len(), 1);
    assert_eq!((page.was[0].1, page.batch.len()), (1, 1));
    let record = page.batch.records()[0];
    assert_eq!(page.batch.get(record.raw), ASA);
    assert_eq!(
        EventMetadata::of(&page.batch, &record).sourcetype,
        "cisco:asa"
    );
    assert_eq!(page.batch.peer(&record).unwrap().local_port, 514);
}

#[test]
fn pages_have_bounds() {
    let config = config("false");
    let mut reader = RecordReplayer::new(&config, None).unwrap();
    let (mut events, mut pages) = (0, 0);
    let mut count = |page: &ReplayPage| {
        assert!(page.was.len() <= PAGE_EVENTS_MAX && page.batch.len() == page.was.len());
        assert!(page.batch.raw_bytes() <= 2 * limits::BATCH_FLUSH_BYTES as u64);
        events += page.was.len();
        pages += 1;
    };
    let large = [b'x'; 60_000];
    for number in 0..20_000 {
        let raw = match number {
            0..10_000 if number % 100 == 0 => &large[..],
            _ => b"small",
        };
        let full = reader.take(stored(raw, "a", number)).unwrap();
        full.iter().for_each(&mut count);
    }
    reader.finish().iter().for_each(&mut count);
    assert_eq!(events, 20_000);
    assert!(pages >= 9, "{pages}");
}

#[test]
fn what_was_odd_about_the_frame_stays_and_the_rest_is_found_out() {
    let both = framing("oversize,no_pri,datagram_cut");
    assert_eq!(both, Anomalies::OVERSIZE.union(Anomalies::DATAGRAM_CUT));
    assert_eq!(framing_of(both.union(Anomalies::NO_PRI)), both);
    assert_eq!(protocol("relps"), Some(Protocol::Relps));
    assert_eq!(protocol(""), None);
}

#[test]
fn what_is_sent_is_accounted_for() {
    let config = config("false");
    let mut reader = RecordReplayer::new(&config, None).unwrap();
    let delivery = ReplayDelivery::start(&config, &["out".to_owned()], false).unwrap();
    reader.take(stored(ASA, "a", 0)).unwrap();
    for page in reader.finish() {
        assert!(delivery.send(page.batch));
    }
    assert!(delivery.wait(std::time::Duration::from_secs(60)));
    delivery.view().stop();
    reader.take(stored(ASA, "a", 1)).unwrap();
    assert!(
        reader
            .finish()
            .into_iter()
            .all(|page| !delivery.send(page.batch))
    );
    let sent = delivery.finish();
    assert!(sent.ledger.balanced && sent.refused.is_empty());
    let out = &sent.ledger.destinations["out"];
    assert_eq!((out.accepted, out.delivered, out.pending), (1, 1, 0));
    assert!(ReplayDelivery::start(&config, &["none".to_owned()], false).is_err());
}
