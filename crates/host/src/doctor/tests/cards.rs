//! What drivers tell of their cards by netlink.

use super::Severity::{Info, Warn};
use super::ethtool::{BoundedCount, Coalescing, NicSettings, Pause};
use super::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A card that is as it should be on a host of two CPUs.
fn card() -> NicSettings {
    NicSettings {
        name: "eth0".to_owned(),
        rx_ring: Some(BoundedCount {
            now: 4096,
            max: 4096,
        }),
        queues: Some(BoundedCount { now: 2, max: 8 }),
        combined: true,
        coalescing: Some(Coalescing {
            rx_us: 20,
            rx_frames: 0,
            adaptive: false,
        }),
        pause: Some(Pause {
            sends: true,
            obeys: true,
            sent: Some(0),
        }),
        active: Some(names(&["rx-gro", "rx-checksum"])),
        switchable: names(&["rx-gro", "rx-checksum", "rx-lro"]),
    }
}

fn host(cpus: usize, card: NicSettings) -> Made {
    let mut made = Made::good(cpus);
    made.told.cards = Ok(vec![card]);
    made
}

#[test]
fn a_good_card_is_well() {
    let made = host(2, card());
    for id in ["rings", "queues", "coalescing", "offloads", "pause"] {
        made.is_well(&format!("nic.{id}:eth0"));
    }
    let findings = made.report().findings;
    let silent = |f: &Finding| f.id == "nic.untold" || f.id == "host.unread";
    assert!(!findings.iter().any(silent), "{findings:#?}");
}

#[test]
fn a_ring_that_could_be_larger_is_named_and_is_the_remedy_of_a_loss() {
    let mut small = card();
    small.rx_ring = Some(BoundedCount {
        now: 512,
        max: 8192,
    });
    let made = host(2, small.clone());
    let larger = "ethtool -G eth0 rx 8192";
    made.says("nic.rings:eth0", Info, None, larger);
    made.counter("rx_missed_errors", 5);
    made.says("nic.missed:eth0", Warn, Some(5), larger);
    // As large as it can be: more of them, and then nothing but a look.
    let made = host(2, card());
    made.counter("rx_missed_errors", 5);
    let more = "ethtool -L eth0 combined 8";
    made.says("nic.missed:eth0", Warn, Some(5), more);
    let mut full = card();
    full.queues = Some(BoundedCount { now: 8, max: 8 });
    let made = host(2, full);
    made.counter("rx_missed_errors", 5);
    let look = "ethtool -S eth0 | grep -i -E 'drop|miss|full'";
    made.says("nic.missed:eth0", Warn, Some(5), look);
}

#[test]
fn fewer_queues_than_cpus_are_named_as_far_as_the_card_has_more() {
    let made = host(128, card());
    made.says("nic.queues:eth0", Info, None, "ethtool -L eth0 combined 8");
    let mut separate = card();
    separate.combined = false;
    separate.queues = Some(BoundedCount { now: 1, max: 8 });
    let made = host(4, separate);
    made.says("nic.queues:eth0", Info, None, "ethtool -L eth0 rx 4");
    host(1, card()).is_well("nic.queues:eth0");
}

#[test]
fn an_interrupt_for_each_packet_or_a_long_wait_is_named() {
    let with = |rx_us, rx_frames, adaptive| {
        let mut card = card();
        card.coalescing = Some(Coalescing {
            rx_us,
            rx_frames,
            adaptive,
        });
        host(2, card)
    };
    let command = "ethtool -C eth0 rx-usecs 50";
    with(0, 1, false).says("nic.coalescing:eth0", Info, None, command);
    with(500, 0, false).says("nic.coalescing:eth0", Info, None, command);
    with(0, 1, true).is_well("nic.coalescing:eth0");
    let made = with(0, 1, false);
    let driver = made.root.path().join("sys/class/net/eth0/device/driver");
    fs::remove_file(&driver).unwrap();
    std::os::unix::fs::symlink("../../drivers/virtio_net", driver).unwrap();
    made.is_well("nic.coalescing:eth0");
    with(0, 64, false).is_well("nic.coalescing:eth0");
    with(499, 0, false).is_well("nic.coalescing:eth0");
}

#[test]
fn offloads_that_are_off_are_named_if_they_can_be_switched() {
    let mut off = card();
    off.active = Some(Vec::new());
    let made = host(2, off.clone());
    let command = "ethtool -K eth0 gro on rx on";
    made.says("nic.offloads:eth0", Info, None, command);
    off.switchable = names(&["rx-checksum"]);
    host(2, off).says("nic.offloads:eth0", Info, None, "ethtool -K eth0 rx on");
    let mut lro = card();
    lro.active = Some(names(&["rx-gro", "rx-checksum", "rx-lro"]));
    let made = host(2, lro);
    made.is_well("nic.offloads:eth0");
    made.write("proc/sys/net/ipv4/ip_forward", "1\n");
    made.says("nic.offloads:eth0", Info, None, "ethtool -K eth0 lro off");
}

#[test]
fn a_switch_that_was_held_up_is_a_warning() {
    let mut held = card();
    held.pause = Some(Pause {
        sends: true,
        obeys: false,
        sent: Some(7),
    });
    let made = host(2, held);
    let command = "ethtool -S eth0 | grep -i pause";
    made.says("nic.pause:eth0", Warn, None, command);
}

#[test]
fn what_drivers_do_not_tell_is_said_in_one_line() {
    let mut made = Made::good(2);
    let found = made.finding("nic.untold").found;
    let all = "rings, queues, coalescing, offloads, pause frames";
    assert_eq!(found, format!("not told by the driver of eth0: {all}"));
    made.is_well("nic.untold");
    let mut some = card();
    (some.pause, some.coalescing) = (None, None);
    let found = host(2, some).finding("nic.untold").found;
    assert_eq!(
        found,
        "not told by the driver of eth0: coalescing, pause frames"
    );
    made.told.cards = Err("no such family".to_owned());
    let hidden = made.finding("host.unread").found;
    assert_eq!(
        hidden,
        "rings and offloads of /sys/class/net (no such family)"
    );
}
