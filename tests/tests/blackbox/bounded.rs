//! In a control group of 256 MiB and half a CPU: the process starts, counts every event, and the
//! doctor names both bounds.

use std::fs;
use std::path::PathBuf;

use inrush_tests::*;

use crate::doctor::{findings, of};
use crate::{UDP_TCP, to_file};

/// Groups of this test; removed when the processes in them have ended.
struct Groups(Vec<PathBuf>);

impl Drop for Groups {
    fn drop(&mut self) {
        for folder in &self.0 {
            let gone = eventually("the group to be empty", || match fs::remove_dir(folder) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => None,
                done => Some(done),
            });
            assert!(gone.is_ok() || std::thread::panicking(), "{gone:?}");
        }
    }
}

/// Groups of version 2 or 1; `None` where this host lets nobody make them.
fn groups() -> Option<Groups> {
    let root = PathBuf::from("/sys/fs/cgroup");
    let name = format!("inrush-test-{}", std::process::id());
    let two = [
        ("", "cpu.max", "50000 100000"),
        ("", "memory.max", "268435456"),
    ];
    let one = [
        ("cpu", "cpu.cfs_quota_us", "50000"),
        ("memory", "memory.limit_in_bytes", "268435456"),
    ];
    let files = match root.join("cgroup.controllers").exists() {
        true => two,
        false => one,
    };
    let mut groups = Groups(Vec::new());
    for (controller, file, value) in files {
        let folder = root.join(controller).join(&name);
        if !groups.0.contains(&folder) {
            fs::create_dir(&folder).ok()?;
            groups.0.push(folder.clone());
        }
        // Without the controller in the group above there is no such file.
        fs::write(folder.join(file), value).ok()?;
    }
    Some(groups)
}

#[test]
fn half_a_cpu_and_256_mib_are_enough_and_are_named() {
    const EACH: usize = 5_000;
    let Some(groups) = groups() else {
        skip!("this host lets nobody make control groups");
    };
    let enter: String = groups
        .0
        .iter()
        .map(|folder| format!("echo $$ > {}/cgroup.procs; ", folder.display()))
        .collect();
    let wrapper = ["sh", "-ec", &format!("{enter}exec \"$@\""), "sh"].map(str::to_owned);
    let yaml = to_file(UDP_TCP, "udp: { sockets: 1 }");
    let options = Options {
        wrapper: &wrapper,
        ..Options::default()
    };
    let inrush = Inrush::with(&format!("data_dir: \"{{dir}}/data\"\n{yaml}"), options);
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(lines(0..EACH));
    send_udp(inrush.address("udp"), (EACH..2 * EACH).map(numbered));
    inrush.collected(2 * EACH as u64);

    let found = findings(&inrush.path("inrush.yaml"));
    let process = format!("0.50 CPUs to process {}", inrush.pid());
    let cpu = of(&found, "cpu.cgroup")["found"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(cpu.contains(&process), "{cpu}");
    let memory = of(&found, "memory.bound");
    let words = memory["found"].as_str().unwrap();
    assert!(words.contains("256 MiB"), "{memory:#}");
    assert!(
        words.ends_with("processes killed for want of memory: 0"),
        "{memory:#}"
    );
    drop(inrush);
    drop(groups);
}
