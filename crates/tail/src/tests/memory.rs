//! Memory of idle logs, by the allocator.

use std::process::Command;

use inrush_testkit::ApiServer;
use inrush_transport::heap;
use serde_json::json;

use super::*;

/// Bytes that an idle file may take, among others in one folder. Measured: 1,717, and once 2,125
/// on a busy host.
const FILE_BYTES_MAX: u64 = 2304;

/// The same for the log of a container in two folders of its own, which are watched too. Measured:
/// 2,774.
const LOG_BYTES_MAX: u64 = 3328;

/// The same with the metadata of its pod, beside what the store of pods takes. Measured:
/// 3,385 to 3,536.
const POD_BYTES_MAX: u64 = 4224;

/// Logs before the first measurement, and before the second one. A table doubles its room when it
/// is full: with these it has as much room a log as with 10,000.
const FEW: usize = 156;
const MANY: usize = 1250;

/// In a process of its own: other tests allocate too.
fn alone(test: &str, measure: impl FnOnce()) {
    const CHILD: &str = "INRUSH_TEST_IDLE_MEMORY";
    if std::env::var_os(CHILD).is_some() {
        return measure();
    }
    let test = format!("tests::memory::{test}");
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture"])
        .env(CHILD, "1")
        // What is free and kept by a thread for its next need is none of a file's.
        .env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")
        .output()
        .unwrap();
    eprint!("{}", String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success(), "{child:?}");
}

/// Bytes of each of many logs that were written once and are idle.
fn measure(source: &mut TestSource, name: impl Fn(usize) -> String, bytes_max: u64) {
    let mut used = Vec::new();
    // Buffers of batches grow with the logs of a batch: how many are kept is none of a log's.
    source.harness.log.pool().keep_free(0);
    for range in [0..FEW, FEW..MANY] {
        let (end, count) = (range.end, range.len());
        for number in range {
            drop(source.append(&name(number), &cri("stdout", "F", "one line")));
        }
        source.texts(count);
        source.wait("all are idle", |counts| {
            counts.watched_files.get() == end as u64
        });
        source.texts = Vec::new();
        // As the queue does every second: the notes of batches become one position a log.
        drop(source.harness.log.positions(&info().name));
        used.push(heap::used_bytes());
    }
    let each = (used[1] - used[0]) / (MANY - FEW) as u64;
    eprintln!("{each} bytes an idle log");
    assert!(each <= bytes_max, "{each} bytes an idle log");
}

fn pod_name(number: usize) -> String {
    format!("workload-7f9c6d5b4-{number:05}")
}

fn pod_uid(number: usize) -> String {
    format!("0f3c2b1a-1111-2222-3333-{number:012}")
}

fn pod_log(number: usize) -> String {
    let (name, uid) = (pod_name(number), pod_uid(number));
    format!("pods/namespace_{name}_{uid}/main/0.log")
}

#[test]
fn an_idle_file_takes_little_memory() {
    alone("an_idle_file_takes_little_memory", || {
        let name = |number| format!("application-{number:05}.log");
        measure(&mut TestSource::start(LINES), name, FILE_BYTES_MAX);
    });
}

#[test]
fn an_idle_log_takes_little_memory() {
    alone("an_idle_log_takes_little_memory", || {
        measure(&mut TestSource::start(PODS), pod_log, LOG_BYTES_MAX);
    });
}

#[test]
fn an_idle_log_with_metadata_takes_little_memory() {
    alone("an_idle_log_with_metadata_takes_little_memory", || {
        let pod = |number| {
            let (name, uid) = (pod_name(number), pod_uid(number));
            let id = format!("containerd://{number:064}");
            json!({
                "metadata": {
                    "namespace": "namespace", "name": name, "uid": uid, "resourceVersion": "5",
                    "labels": { "app": "workload", "pod-template-hash": "7f9c6d5b4" },
                    "annotations": { "inrush.io/index": "main" },
                },
                "spec": {
                    "nodeName": "node-1",
                    "containers": [{ "name": "main", "image": "registry.example/main:1.2.3" }],
                },
                "status": { "containerStatuses": [{ "name": "main", "containerID": id }] },
            })
        };
        let api = ApiServer::start(None);
        let pods: Vec<String> = (0..MANY).map(|number| pod(number).to_string()).collect();
        api.set("pods", 1, &pods);
        api.set("namespaces", 1, &[]);
        let mut source = TestSource::prepared(
            r#"{"include": ["{dir}/pods/*/*/*.log"], "host": "h", "kubernetes": {
                "kubeconfig": "{dir}/kubeconfig", "node": "node-1", "labels": ["app"]
            }}"#,
            None,
        );
        let access = format!(
            "current-context: a\ncontexts: [{{name: a, context: {{cluster: c}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'http://{}'}}}}]\n",
            api.address
        );
        fs::write(source.path("kubeconfig"), access).unwrap();
        source.run();
        measure(&mut source, pod_log, POD_BYTES_MAX);
    });
}
