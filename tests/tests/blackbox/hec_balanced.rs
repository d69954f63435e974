//! Splunk HEC through a load balancer. Out: acknowledgements are asked for where the events went,
//! and connections are renewed. In: two collectors take turns, and none loses what it answered.

use std::collections::BTreeSet;

use inrush_tests::*;

use crate::hec::{errors, numbers, send, to_hec};
use crate::hec_server::{client, collector};

const SMALL: &str = "batch: { max_events: 5 }\nworkers: 4";

#[test]
fn acknowledgements_are_asked_for_where_the_events_went() {
    for sticky in [Sticky::Connection, Sticky::Cookie] {
        let hec = Hec::start();
        hec.acknowledge();
        hec.balance(sticky);
        hec.confirm_after(3);
        let options = format!("{SMALL}\nacknowledgements: true\nconnection_max_requests: 4");
        let inrush = Inrush::start(&to_hec(&[hec.url()], &options));
        send(&inrush, 0..500);
        inrush.conserved(500);
        assert_eq!(
            numbers(&hec.taken()),
            (0..500).collect::<Vec<_>>(),
            "{sticky:?}"
        );
        assert_eq!(errors(&inrush, "ack_failed"), 0, "{sticky:?}");
    }
}

#[test]
fn events_that_are_sent_again_for_want_of_an_acknowledgement_are_counted() {
    let hec = Hec::start();
    hec.acknowledge();
    let options = format!("{SMALL}\nacknowledgements: true\nack_timeout: 1s");
    let inrush = Inrush::start(&to_hec(&[hec.url()], &options));
    send(&inrush, 0..5);
    eventually("a request more", || (hec.taken().len() >= 10).then_some(()));
    assert!(errors(&inrush, "ack_failed") >= 1);
    hec.confirm_after(1);
    inrush.conserved(5);
}

#[test]
fn a_page_in_place_of_acknowledgements_is_an_alarm_and_confirms_nothing() {
    for (status, page, reason) in [
        (200, "<html>Welcome</html>", "bad_answer"),
        (200, "", "bad_answer"),
        (200, r#"{"acks":[0,1]}"#, "bad_answer"),
        (404, "not here", "ack_failed"),
    ] {
        let hec = Hec::start();
        hec.acknowledge();
        hec.confirm_after(1);
        hec.answer_acks_with(Some((status, page)));
        let inrush = Inrush::start(&to_hec(&[hec.url()], "acknowledgements: true"));
        send(&inrush, 0..10);
        eventually("the alarm", || {
            (inrush.http("GET", "/healthz").status == 503).then_some(())
        });
        assert!(errors(&inrush, reason) >= 1);
        assert_eq!(inrush.ledger().destinations["splunk"].delivered, 0);
        let said = inrush.destination()["last_error"].to_string();
        assert!(said.contains("acknowledgements"), "{said}");
        hec.answer_acks_with(None);
        inrush.conserved(10);
        assert_eq!(numbers(&hec.taken()), (0..10).collect::<Vec<_>>());
        eventually("it to be well", || {
            (inrush.http("GET", "/healthz").status == 200).then_some(())
        });
    }
}

#[test]
fn the_next_try_goes_over_another_connection() {
    for reply in [
        Reply::code(429, 26, "full"),
        Reply::Status(502, "Bad Gateway".to_owned()),
        Reply::code(503, 9, "busy"),
        Reply::Hang,
    ] {
        let hec = Hec::start();
        hec.script([reply.clone(), reply.clone()]);
        let inrush = Inrush::start(&to_hec(&[hec.url()], "workers: 1\nrequest_timeout: 1s"));
        send(&inrush, 0..10);
        inrush.conserved(10);
        assert_eq!(numbers(&hec.taken()), (0..10).collect::<Vec<_>>());
        let requests = hec.requests();
        let failed = requests.iter().filter(|request| request.status != 200);
        let failed: BTreeSet<_> = failed.map(|request| request.peer).collect();
        assert_eq!(failed.len(), 2, "{reply:?}");
        let taken = requests.iter().filter(|request| request.status == 200);
        assert!(
            taken.into_iter().all(|r| !failed.contains(&r.peer)),
            "{reply:?}"
        );
    }
}

#[test]
fn connections_end_by_age_and_number_of_requests_and_nothing_is_lost() {
    for (options, at_least) in [
        ("connection_max_age: 1ms", 20),
        ("connection_max_requests: 1", 100),
        ("connection_max_requests: 10", 10),
        ("connection_max_age: 0s", 1),
    ] {
        let hec = Hec::start();
        let inrush = Inrush::start(&to_hec(&[hec.url()], &format!("{SMALL}\n{options}")));
        send(&inrush, 0..500);
        inrush.conserved(500);
        assert_eq!(numbers(&hec.taken()), (0..500).collect::<Vec<_>>());
        let peers: BTreeSet<_> = hec.requests().iter().map(|request| request.peer).collect();
        assert!(peers.len() >= at_least, "{options}: {}", peers.len());
        if options.ends_with("0s") {
            assert!(peers.len() <= 4, "{}", peers.len());
        }
    }
}

#[test]
fn a_balancer_can_keep_a_channel_by_its_cookie() {
    let yaml = |cookie: &str| collector(", ack: received", &format!("channel_cookie: {cookie}"));
    let inrush = Inrush::start(&yaml("balance"));
    let mut hec = client(&inrush);
    let guid = "11111111-2222-3333-4444-55555555555a";
    let cookie = format!("\r\nSet-Cookie: balance={guid}");
    let channel = format!("X-Splunk-Request-Channel: {guid}\r\n");
    let in_query = format!("event?channel={guid}");
    for (target, fields, body) in [
        ("event", channel.as_str(), r#"{"event":"a"}"#),
        (&in_query, "", r#"{"event":"b"}"#),
        ("ack", &channel, r#"{"acks":[0]}"#),
    ] {
        let reply = hec.ask(target, fields, body);
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert!(reply.head.contains(&cookie), "{}", reply.head);
    }
    // What is no channel is no cookie: a peer would write fields of the answer.
    for target in ["event", "event?channel=x%0d%0aSet-Cookie:%20a=b"] {
        let reply = hec.ask(target, "", r#"{"event":"c"}"#);
        assert_eq!(reply.status, 400, "{}", reply.body);
        assert!(!reply.head.contains("Set-Cookie"), "{}", reply.head);
    }
    inrush.rewrite(&yaml("\"a b\""));
    let answer = inrush.reload();
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(answer.body.contains("channel_cookie"), "{}", answer.body);
}

/// An Inrush that asks the collectors behind a balancer for acknowledgements.
fn before_balancer(to: std::net::SocketAddr) -> String {
    let config = hec_peer_config("");
    let (sources, _) = config.split_once("destinations:").unwrap();
    format!(
        "{sources}destinations:\n  splunk: {{ type: splunk_hec, endpoints: [\"http://{to}\"], \
         token: {HEC_ACK_TOKEN}, acknowledgements: true, ack_timeout: 2s, \
         batch: {{ max_events: 20 }} }}\n"
    )
}

#[test]
fn two_behind_a_balancer_lose_nothing_that_they_answered() {
    let network = match Network::make() {
        Ok(network) => network,
        Err(why) => skip!("{why}"),
    };
    network.at_hub(|| {
        let mut pair = Pair::start(&network);
        let balancer = TcpBalancer::start(&pair.addresses());
        let to = balancer.address();
        let answered = HecLoad::start(to, HEC_TOKEN, &[]);
        let acknowledged = HecLoad::start(to, HEC_ACK_TOKEN, &["--ack"]);
        let client = Inrush::start(&before_balancer(to));
        let passed_on = HecLoad::start(client.address("http"), HEC_TOKEN, &[]);
        pair.suffer(|host| balancer.is_up(host));
        let (answered, acknowledged) = (answered.end(), acknowledged.end());
        let passed_on = passed_on.end();
        client.conserved(passed_on.report["acked"].as_u64().unwrap());
        let arrived = pair.settled();
        arrived.assert_has_all_of(&passed_on);
        for load in [&answered, &acknowledged] {
            arrived.assert_has_all_of(load);
            arrived.assert_again_only_for_want_of_an_answer(load);
        }
        let nothing = serde_json::json!({});
        assert_eq!(answered.report["errors"], nothing, "{:#}", answered.report);
    });
}
