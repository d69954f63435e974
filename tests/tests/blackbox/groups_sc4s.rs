//! The events that SC4S joins of several messages, joined as there: in order, in any other order,
//! with one part missing.

use std::collections::BTreeMap;

use inrush_tests::*;
use serde_json::Value;

use crate::groups::{VSPHERE, settled, to_hec};
use crate::sc4s::lines;

/// Time in the parts' headers.
const HEADER: &str = "1714979289.000";

type Part = fn(&str, usize) -> String;
type Joined = fn(&[usize]) -> (String, &'static str);

/// One way in which events come in parts.
struct Kind {
    rule: &'static str,
    index: &'static str,
    sourcetype: &'static str,
    /// The part with this number, of this host's event.
    part: Part,
    /// Event of the parts with these numbers, as they came, and its time.
    joined: Joined,
}

const KINDS: [Kind; 4] = [
    Kind {
        rule: "cisco_ise_parts",
        index: "netauth",
        sourcetype: "cisco:ise:syslog",
        part: |host, n| counted(host, "CISE_Failed_Attempts", n),
        joined: |came| by_number("CISE_Failed_Attempts", came),
    },
    Kind {
        rule: "cisco_acs_parts",
        index: "netauth",
        sourcetype: "cisco:acs",
        part: |host, n| counted(host, "CSCOacs_Failed_Attempts:", n),
        joined: |came| by_number("CSCOacs_Failed_Attempts", came),
    },
    Kind {
        rule: "symantec_brightmail_merged",
        index: "email",
        sourcetype: "symantec:smg:mail",
        part: |host, n| {
            let text = MAIL[n];
            format!(
                "<22>2024-05-06T07:08:09Z {host} bmserver: {}|{MAIL_ID}|{text}\n",
                90 - n
            )
        },
        joined: |came| {
            // The number is that of the last one to come.
            let number = 90 - came[came.len() - 1];
            let texts: Vec<&str> = came.iter().map(|n| MAIL[*n]).collect();
            (format!("{number}|{MAIL_ID}|{}", texts.join(";")), HEADER)
        },
    },
    Kind {
        rule: "vmware_vsphere_cmmds_dump_cut",
        index: "infraops",
        sourcetype: "vmware:esxlog:cmmdstimemachinedump",
        part: |host, n| {
            let columns = if n == 0 {
                "1714979280.5,5af1,9,2,5af2,0,"
            } else {
                ""
            };
            let end = if n == 2 { "\\q" } else { "" };
            let text = DUMP[n];
            format!("<14>2024-05-06T07:08:09Z {host} cmmdsTimeMachineDump: {columns}{text}{end}\n")
        },
        joined: |came| (came.iter().map(|n| DUMP[*n]).collect(), HEADER),
    },
];

const MAIL_ID: &str = "c0a80101-00000c";
const MAIL: [&str; 3] = [
    "SUBJECT|Minutes of the board",
    "ATTACH|plan.pdf",
    "VERDICT|ann@example.com|none",
];
const DUMP: [&str; 3] = [
    "{\"hostname\":\"esx4\",",
    "\"health\":\"Healthy\",",
    "\"disks\":4}",
];
const COUNTED: [&str; 3] = [
    "2024-05-06 09:08:08.750 +02:00 0000042 5400 NOTICE Failed: no such user, User=ann,",
    " Step=11001, Step=15049,",
    " Response={Result=Refused; },",
];

/// A part that says which of how many it is.
fn counted(host: &str, program: &str, n: usize) -> String {
    let text = COUNTED[n];
    format!("<181>2024-05-06T07:08:09Z {host} {program} 0000088121 3 {n} {text}\n")
}

/// Such parts stand by their numbers. The first one has the time.
fn by_number(program: &str, came: &[usize]) -> (String, &'static str) {
    let mut came = came.to_vec();
    came.sort_unstable();
    let time = if came[0] == 0 {
        "1714979288.750"
    } else {
        HEADER
    };
    let texts: String = came.iter().map(|n| COUNTED[*n]).collect();
    (format!("{program} 0000088121 1 0 {texts}"), time)
}

/// Three parts in each order, and each two of them.
const ORDERS: [&[usize]; 9] = [
    &[0, 1, 2],
    &[0, 2, 1],
    &[1, 0, 2],
    &[1, 2, 0],
    &[2, 0, 1],
    &[2, 1, 0],
    &[0, 1],
    &[0, 2],
    &[1, 2],
];

/// Events at the collector, by host.
fn taken(hec: &Hec) -> BTreeMap<String, Value> {
    let events = hec.taken().into_iter();
    events
        .map(|event| (event["host"].as_str().unwrap().to_owned(), event))
        .collect()
}

#[test]
fn parts_are_joined_as_sc4s_does_in_any_order_and_with_one_missing() {
    let hec = Hec::start();
    let inrush = Inrush::start(&to_hec(&[hec.url()], VSPHERE));
    let mut parts = String::new();
    let mut wanted = BTreeMap::new();
    for (k, kind) in KINDS.iter().enumerate() {
        for (o, order) in ORDERS.iter().enumerate() {
            let host = format!("joins-{k}-{o}");
            parts.extend(order.iter().map(|n| (kind.part)(&host, *n)));
            wanted.insert(host, (kind, order));
        }
    }
    let sent = parts.lines().count() as u64;
    Tcp::connect(inrush.address("tcp")).send(parts.as_bytes());
    // Those with a part missing wait for it.
    let ledger = settled(&inrush, sent);
    let joined = wanted.len() as u64;
    assert_eq!(
        ledger.destinations["splunk"].accepted, joined,
        "{ledger:#?}"
    );
    let taken = taken(&hec);
    assert_eq!(taken.len() as u64, joined, "one event of each");
    for (host, (kind, order)) in wanted {
        let (text, time) = (kind.joined)(order);
        let event = &taken[&host];
        let (rule, fields) = (kind.rule, &event["fields"]["inrush_anomalies"]);
        assert_eq!(event["event"], text, "{rule} {order:?}");
        assert_eq!(event["time"], time, "{rule} {order:?}");
        let class = (&event["index"], &event["sourcetype"]);
        assert!(
            class.0 == kind.index && class.1 == kind.sourcetype,
            "{rule}: {class:?}"
        );
        // Only who says how many parts there are can miss one.
        let incomplete = fields.to_string().contains("group_incomplete");
        let counts = rule.starts_with("cisco");
        assert_eq!(
            incomplete,
            counts && order.len() == 2,
            "{rule} {order:?}: {fields}"
        );
    }
    for kind in &KINDS {
        let name = format!("grouped:{}", kind.rule);
        assert_eq!(ledger.filtered[name.as_str()], 15, "{name}");
    }
}

#[test]
fn recorded_parts_are_joined_as_sc4s_joined_them() {
    let (Some(cases), Some(answers)) = (lines("cases.jsonl"), lines("answers.jsonl")) else {
        skip!("the corpus ../shared/corpus/sc4s is not here");
    };
    let ids = [
        "test_cisco_ise.py::test_cisco_ise_multi",
        "test_symantec_brightmail.py::test_symantec_brightmail_msg",
        "pack:symantec_brightmail_merged:0",
        "pack:cisco_acs_parts:0",
        "pack:cisco_ise_parts:0",
    ];
    let mut sent = String::new();
    let mut wanted = Vec::new();
    for id in ids {
        let find = |all: &[Value]| all.iter().find(|line| line["id"] == id).cloned();
        let answer = find(&answers).unwrap();
        let case = find(&cases).unwrap_or_else(|| answer.clone());
        let messages = match case["messages"].as_array() {
            Some(several) => several.iter().map(|m| &m["message"]).collect(),
            None => vec![&case["message"]],
        };
        for message in messages {
            let lines = message.as_str().unwrap().lines().filter(|l| !l.is_empty());
            sent.extend(lines.map(dated));
        }
        wanted.push((id, answer["answers"][0].clone()));
    }
    let hec = Hec::start();
    let inrush = Inrush::start(&to_hec(&[hec.url()], VSPHERE));
    Tcp::connect(inrush.address("tcp")).send(sent.as_bytes());
    settled(&inrush, sent.lines().count() as u64);
    let taken = hec.taken();
    assert_eq!(taken.len(), wanted.len(), "one event of each: {taken:#?}");
    for (id, answer) in wanted {
        let same = |event: &&Value| event["event"] == answer["event"];
        let event = taken.iter().find(same);
        let event = event.unwrap_or_else(|| panic!("{id}: {taken:#?}"));
        for key in ["time", "index", "sourcetype", "host"] {
            assert_eq!(event[key], answer[key], "{id}: {key}");
        }
    }
}

/// The line with the year and the zone in its header's time: the clock here is another one than
/// there, where the year was read from it.
fn dated(line: &str) -> String {
    let start = line.find("May ").unwrap();
    let clock = &line[start + "May 06 ".len()..];
    format!(
        "{}2024-05-06T{}Z{}\n",
        &line[..start],
        &clock[..8],
        &clock[8..]
    )
}
