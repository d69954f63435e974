//! HTTP Event Collector: options of a token for its events' hosts and products.

use inrush_tests::*;

use crate::hec_server::{TOKEN, collector};

#[test]
fn packs_are_told_which_product_sends_the_lines_of_a_token() {
    let yaml = collector(", packs: true, raw: { product: cisco/esa }", "").replace(
        "destinations:",
        "      - { token: of-unknown, packs: true, raw: { product: acme/gadget } }\ndestinations:",
    ) + "packs: { enabled: true }\n";
    let inrush = Inrush::start(&yaml);
    let line = "<22>May  6 07:08:09 gui_logs: Info: login from 192.0.2.7\n";
    for token in [TOKEN, "of-unknown"] {
        let mut hec = HecClient::connect(inrush.address("http"), token);
        assert_eq!(hec.ask("raw", "", line).brief(), (200, Some(0)));
    }
    let events = inrush.collected(2);
    assert_eq!(
        field(&events, "sourcetype"),
        ["cisco:esa:http", "httpevent"]
    );
    // A line that no rule recognises is of no product.
    assert!(events[1]["vendor"].is_null(), "{}", events[1]);
}

#[test]
fn a_product_that_nobody_would_ask_for_is_refused() {
    let inrush = Inrush::start(&collector("", ""));
    for (options, wanted) in [
        (", raw: { product: cisco/esa }", "packs: true"),
        (", packs: true, raw: { product: esa }", "vendor/product"),
    ] {
        inrush.rewrite(&collector(options, ""));
        let answer = inrush.reload();
        let said = &answer.body;
        assert!(answer.status == 400 && said.contains(wanted), "{said}");
        assert!(said.contains("raw.product"), "{said}");
    }
}

/// Waits until DNS has given that many names.
fn found(inrush: &Inrush, names: u64) {
    let line = format!("inrush_reverse_dns_lookups_total{{outcome=\"found\"}} {names}");
    eventually("DNS to answer", || {
        let page = inrush.http("GET", "/metrics").body;
        page.lines().any(|one| one == line).then_some(())
    });
}

#[test]
fn the_host_of_a_tokens_events_may_be_the_senders_name() {
    let dns = Dns::start();
    dns.say("127.0.0.1", DnsReply::Name("web-1.example.com".into()));
    dns.hold(true);
    let server = dns.address();
    let hosts = format!("hosts: {{ reverse_dns: {{ timeout: 60s, servers: [\"{server}\"] }} }}\n");
    let yaml = collector(", host: dns", "").replace(
        "destinations:",
        "      - { token: by-address }\ndestinations:",
    ) + &hosts;
    let inrush = Inrush::start(&yaml);
    let mut hec = HecClient::connect(inrush.address("http"), TOKEN);
    let body = r#"{"event":"x"}"#;
    // Answered while DNS is not.
    assert_eq!(hec.event(body).brief(), (200, Some(0)));
    dns.hold(false);
    found(&inrush, 1);
    assert_eq!(hec.event(body).status, 200);
    assert_eq!(hec.event(r#"{"event":"x","host":"own"}"#).status, 200);
    assert_eq!(hec.ask("raw", "", "line").status, 200);
    let mut other = HecClient::connect(inrush.address("http"), "by-address");
    assert_eq!(other.event(body).status, 200);
    let hosts = field(&inrush.collected(5), "host");
    assert_eq!(hosts, ["127.0.0.1", "web-1", "own", "web-1", "127.0.0.1"]);
    // A reload goes on with what is known.
    inrush.rewrite(&yaml.replace("by-address", "of-another-one"));
    assert_eq!(inrush.reload().status, 200);
    assert_eq!(hec.event(body).status, 200);
    assert_eq!(inrush.collected(6)[5]["host"], "web-1");
    assert_eq!(dns.asked("127.0.0.1"), 1);
}
