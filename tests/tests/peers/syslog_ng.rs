//! syslog-ng with its `http()` destination, in the form of its `splunk-hec-event()`.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use inrush_tests::*;

use crate::{debian_libraries, debian_tool};

fn config(socket: &str, port: &str) -> String {
    let names = "index=netops&source=src&sourcetype=peer:test";
    let template = "$(format-json --scope none --omit-empty-values host=\"${HOST}\" \
                    time=\"${S_UNIXTIME}.${S_MSEC}\" event=\"${MSG}\")";
    format!(
        "@version: 3.38\noptions {{ keep-hostname(yes); stats-freq(0); }};\n\
         source s {{ unix-stream(\"{socket}\" flags(syslog-protocol)); }};\n\
         destination d {{ http(\n\
         url(\"http://127.0.0.1:{port}/services/collector/event/1.0?{names}\")\n\
         headers(\"Authorization: Splunk {HEC_TOKEN}\" \"Content-Type: application/json\")\n\
         body('{template}') batch-lines(2) batch-timeout(60000)\n); }};\n\
         log {{ source(s); destination(d); }};\n"
    )
}

/// The folder of the modules, which is named after the version.
fn unpacked_modules() -> Option<PathBuf> {
    let folder = peer_tool("debian/usr/lib/syslog-ng")?;
    let mut entries = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries.find(|path| path.is_dir())
}

#[test]
#[ignore = "foreign program: make test-peers"]
fn http_of_syslog_ng_is_served() {
    let Some(syslog_ng) = debian_tool("usr/sbin/syslog-ng") else {
        skip!("syslog-ng: apt-get did not fetch it");
    };
    let peer = HecPeer::start();
    let path = |name: &str| peer.inrush().path(name);
    let socket = path("log.sock");
    let text = config(&socket.display().to_string(), &peer.port());
    std::fs::write(path("sng.conf"), text).unwrap();
    let mut command = Command::new(syslog_ng);
    command
        .env("LD_LIBRARY_PATH", debian_libraries())
        .args(["-F", "--no-caps", "-f"])
        .arg(path("sng.conf"))
        .arg("-R")
        .arg(path("sng.persist"))
        .arg("-p")
        .arg(path("sng.pid"))
        .arg("-c")
        .arg(path("sng.ctl"));
    if let Some(modules) = unpacked_modules() {
        command.arg("--module-path").arg(modules);
    }
    let mut daemon = Daemon::start(&mut command, &path("sng.log"));
    let mut stream = daemon.until("its socket", |_| UnixStream::connect(&socket).ok());
    stream
        .write_all(
            b"<13>1 2023-11-14T22:13:20.123Z h1 app - - - one\n\
              <13>1 2023-11-14T22:13:21.5Z h1 app - - - two\n",
        )
        .unwrap();
    peer.assert_served("syslog-ng");
}
