//! Cost of recognising what fills most networks: three firewalls, five products more and a little
//! of everything; and each of the twelve commonest products alone.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, ScenarioCheck, ScenarioResult};
use inrush_harness::sender::{LoadShape, MessageText};

use super::classified::{ClassifyContender, ClassifyDestination, ClassifySetup, MessageLoad};
use super::cost::bare_arm;
use super::rounds::{limit, rounds};
use super::{REFERENCE, tell};

/// A product, and made-up messages of it, one a line.
type ProductMessages = (&'static str, &'static str);

/// The three that fill most networks.
const THREE: [ProductMessages; 3] = [
    ("cisco-asa", include_str!("../../products/cisco-asa.txt")),
    (
        "fortinet-fortigate",
        include_str!("../../products/fortinet-fortigate.txt"),
    ),
    (
        "paloalto-panos",
        include_str!("../../products/paloalto-panos.txt"),
    ),
];

/// Five more.
const FIVE: [ProductMessages; 5] = [
    (
        "checkpoint-firewall",
        include_str!("../../products/checkpoint-firewall.txt"),
    ),
    ("cisco-ios", include_str!("../../products/cisco-ios.txt")),
    (
        "suricata-eve",
        include_str!("../../products/suricata-eve.txt"),
    ),
    (
        "trendmicro-deepsecurity-cef",
        include_str!("../../products/trendmicro-deepsecurity-cef.txt"),
    ),
    ("vmware-esx", include_str!("../../products/vmware-esx.txt")),
];

/// The rest of the twelve.
const OTHERS: [ProductMessages; 4] = [
    ("isc-bind", include_str!("../../products/isc-bind.txt")),
    ("isc-dhcpd", include_str!("../../products/isc-dhcpd.txt")),
    (
        "juniper-junos",
        include_str!("../../products/juniper-junos.txt"),
    ),
    ("linux-sshd", include_str!("../../products/linux-sshd.txt")),
];

/// Messages of the mix, before it begins again.
const MIX_LINES: usize = 4_000;

/// Of a hundred messages of the mix, so many are of the three and of the five; the others are the
/// samples of the packs, or the messages given.
const SHARES: (usize, usize) = (80, 15);

/// CPU-µs per event in all, in the reference state: of the mix, and of a product alone.
const MIX_US: f64 = 0.9;
const ALONE_US: f64 = 1.0;

/// Cost of syslog-ng at least, in times of that of Inrush: without a rule, and with as many
/// and the values that SC4S takes out.
const PEER_TIMES: [f64; 2] = [1.0, 10.0];

/// Connections of the mix.
const SENDERS: [u64; 2] = [4, 20];

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "80 % of three firewalls, 15 % of five products more, 5 % of everything, TCP to \
                 a blackhole, recognised; and twelve products alone over 4 connections";
    tell(shows);
    let mut loads = Vec::new();
    let mixed = mix(lab)?;
    for senders in SENDERS {
        loads.push(load(lab, "the mix", &mixed, senders)?);
    }
    for (name, texts) in THREE.iter().chain(&FIVE).chain(&OTHERS) {
        let lines: Vec<&str> = texts.lines().collect();
        loads.push(load(lab, name, &lines, SENDERS[0])?);
    }
    let benches = loads
        .into_iter()
        .map(|load| ClassifySetup::new(lab, load, ClassifyDestination::Nowhere))
        .collect::<Result<Vec<_>>>()?;
    let mut arms = vec![benches[0].arm(ClassifyContender::Off)?];
    for who in [
        ClassifyContender::Packs,
        ClassifyContender::Peer,
        ClassifyContender::PeerValues,
    ] {
        if who.is_there(lab) {
            for bench in &benches {
                arms.push(bench.arm(who)?);
            }
        }
    }
    let (bare, cells) = rounds(lab, bare_arm(lab)?, arms, 1 + benches.len())?;
    let mut scenario = lab.scenario(shows);
    for at in 0..benches.len() {
        // Of the same load: ours, and what the peer costs without a rule and with all.
        let of_load: Vec<&Cell> = cells[1 + at..].iter().step_by(benches.len()).collect();
        let limit_us = if at < SENDERS.len() { MIX_US } else { ALONE_US };
        scenario.checks.extend(judge(&of_load, limit_us));
    }
    scenario.cells.push(bare);
    scenario.cells.extend(cells);
    Ok(scenario)
}

/// Checks that the first cell keeps to its limit and to the shares of the others that are there: of
/// the peer without rules, and of the peer that does the same.
fn judge(cells: &[&Cell], limit_us: f64) -> Vec<ScenarioCheck> {
    let median = |cell: &Cell| cell.scaled().map(|spread| spread.median);
    let ours = cells[0];
    let mut checks = vec![limit(ours, limit_us)];
    for (peer, times) in cells[1..].iter().zip(PEER_TIMES) {
        let ratio = median(peer).zip(median(ours)).map(|(peer, us)| peer / us);
        checks.push(ScenarioCheck::new(
            format!("{} costs at least {times} × as much", peer.subject),
            ratio.map_or("no figure".to_owned(), |ratio| format!("{ratio:.1} ×")),
            ratio.is_some_and(|ratio| ratio >= times),
        ));
    }
    checks.push(ours.accounts());
    for check in &mut checks {
        check.what = format!("{}: {}", ours.load, check.what);
    }
    checks
}

/// The lines of the mix: the same each time.
fn mix(lab: &BenchHarness) -> Result<Vec<String>> {
    let path = &lab.messages.file;
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let everything: Vec<&str> = text.lines().collect();
    let of = |products: &[ProductMessages]| -> Vec<Vec<&'static str>> {
        let lines = |(_, texts): &ProductMessages| texts.lines().collect();
        products.iter().map(lines).collect()
    };
    let (three, five) = (of(&THREE), of(&FIVE));
    let mut rng = fastrand::Rng::with_seed(1);
    let mut one = |products: &[Vec<&str>]| {
        let lines = &products[rng.usize(..products.len())];
        lines[rng.usize(..lines.len())].to_owned()
    };
    let everything = [everything];
    let line = |at: usize| match at % 100 {
        share if share < SHARES.0 => one(&three),
        share if share < SHARES.0 + SHARES.1 => one(&five),
        _ => one(&everything),
    };
    // Interleaved: a step of 37 visits each of a hundred once.
    Ok((0..MIX_LINES).map(|at| at * 37).map(line).collect())
}

fn load(
    lab: &BenchHarness,
    name: &str,
    lines: &[impl AsRef<str>],
    connections: u64,
) -> Result<MessageLoad> {
    let dir = lab.dir(&format!(
        "messages-{}-{connections}",
        name.replace(' ', "-")
    ))?;
    let file = dir.join("messages");
    let mut text = String::new();
    for line in lines {
        text.push_str(line.as_ref());
        text.push('\n');
    }
    let mean = text.len() / lines.len().max(1) - 1;
    write(&file, &text)?;
    Ok(MessageLoad {
        shape: LoadShape {
            connections,
            text: MessageText::File,
            ..REFERENCE
        },
        file,
        words: format!("{name}, {connections} conn, {mean} B in the mean"),
    })
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| file.display().to_string())
}
