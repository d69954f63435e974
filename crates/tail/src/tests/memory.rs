//! Memory of idle logs, by the allocator.

use std::process::Command;

use inrush_transport::heap;

use super::*;

/// Bytes that an idle log of a container may take, in folders of its own.
const IDLE_BYTES_MAX: u64 = 11_264;

/// In a process of its own: other tests allocate too.
#[test]
fn an_idle_log_takes_little_memory() {
    const CHILD: &str = "INRUSH_TEST_IDLE_MEMORY";
    if std::env::var_os(CHILD).is_some() {
        return measure();
    }
    let test = "tests::memory::an_idle_log_takes_little_memory";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    eprint!("{}", String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success(), "{child:?}");
}

fn measure() {
    const FEW: usize = 200;
    const MANY: usize = 1000;
    let mut source = TestSource::start(PODS);
    let mut used = Vec::new();
    for range in [0..FEW, FEW..MANY] {
        let end = range.end;
        for number in range {
            let uid = format!("0f3c2b1a-1111-2222-3333-{number:012}");
            let log = format!("pods/namespace_workload-7f9c6d5b4-{number:05}_{uid}/main/0.log");
            drop(source.append(&log, &cri("stdout", "F", "one line")));
        }
        source.texts(end);
        source.wait("all are idle", |counts| {
            counts.watched_files.get() == end as u64
        });
        used.push(heap::used_bytes());
    }
    let each = (used[1] - used[0]) / (MANY - FEW) as u64;
    eprintln!("{each} bytes an idle log");
    assert!(each <= IDLE_BYTES_MAX, "{each} bytes an idle log");
}
