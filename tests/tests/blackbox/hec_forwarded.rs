//! HEC out of one process into another: every event once, as it came to the first.

use inrush_tests::*;

const EVENTS: usize = 1000;

/// The first process, which forwards to the second.
fn forwarder(to: &Inrush, options: &str) -> String {
    let config = hec_peer_config("");
    let (sources, _) = config.split_once("destinations:").unwrap();
    format!(
        "{sources}destinations:\n  next: {{ type: splunk_hec, endpoints: [\"http://{}\"], \
         batch: {{ max_events: 20 }}, {options} }}\n",
        to.address("http")
    )
}

/// Requests of events with names, fields, and times of one to nine decimals.
fn requests(texts: &[String]) -> Vec<String> {
    let event = |(n, text): (usize, &String)| {
        let decimals = &"123456789"[..n % 9 + 1];
        let time = format!("{}.{decimals}", 1_800_000_000 + n);
        let names = r#""host":"h1","index":"netops","source":"src","sourcetype":"peer:test""#;
        let fields = format!(r#"{{"n":{n},"many":["a","b"]}}"#);
        format!(r#"{{"time":"{time}",{names},"event":"{text}","fields":{fields}}}"#)
    };
    let events: Vec<String> = texts.iter().enumerate().map(event).collect();
    events.chunks(50).map(<[String]>::concat).collect()
}

#[test]
fn what_our_client_sends_our_server_takes() {
    let texts: Vec<String> = (0..EVENTS).map(|n| format!("number {n}")).collect();
    for options in [
        format!("token: {HEC_TOKEN}"),
        format!("token: {HEC_TOKEN}, compression: gzip, workers: 4"),
        format!("token: {HEC_ACK_TOKEN}, acknowledgements: true"),
    ] {
        let second = Inrush::start(&hec_peer_config(""));
        let first = Inrush::start(&forwarder(&second, &options));
        let recorder = Recorder::before(first.address("http"));
        let mut hec = HecClient::connect(recorder.address(), HEC_TOKEN);
        for request in requests(&texts) {
            assert_eq!(hec.event(request).status, 200);
        }
        first.conserved(EVENTS as u64);
        let events = second.collected(EVENTS as u64);
        assert_arrived(&events, &texts, &recorder.connections());
    }
}
