//! The `splunk` log driver of a Docker daemon, with a container from scratch.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use inrush_tests::*;

use crate::{debian_libraries, debian_tool};

/// A daemon of its own, without a network, on a host that is named `h1`.
pub(crate) struct Docker {
    _daemon: Daemon,
    client: PathBuf,
    dir: PathBuf,
}

/// `PATH` with the programs that the daemon starts.
pub(crate) fn path_variable() -> std::ffi::OsString {
    let own = ["usr/bin", "usr/sbin"].map(|folder| peer_tool(&format!("debian/{folder}")));
    let path = std::env::var_os("PATH").unwrap();
    let folders = own
        .into_iter()
        .flatten()
        .chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap()
}

impl Docker {
    /// A daemon with the image `busybox:1`; `None`, and a word about it, where it cannot be had.
    pub(crate) fn start_with_image(dir: &Path) -> Option<Self> {
        if !is_root() {
            eprintln!("SKIPPED: Docker: only root may start a daemon");
            return None;
        }
        let needed = [
            "usr/sbin/dockerd",
            "usr/bin/containerd",
            "usr/bin/docker",
            "bin/busybox",
        ];
        if let Some(missing) = needed.iter().find(|path| debian_tool(path).is_none()) {
            eprintln!("SKIPPED: Docker: apt-get did not fetch {missing}");
            return None;
        }
        let docker = Self::start(dir);
        docker.make_image(&debian_tool("bin/busybox").unwrap());
        Some(docker)
    }

    fn start(dir: &Path) -> Self {
        let mut command = Command::new("unshare");
        // The driver calls the host by its name.
        let start = "hostname h1 && exec \"$@\"";
        command
            .args(["--uts", "--mount", "sh", "-c", start, "sh"])
            .arg(debian_tool("usr/sbin/dockerd").unwrap())
            .args(["--iptables=false", "--bridge=none"]);
        for (option, name) in [
            ("--data-root", "data"),
            ("--exec-root", "exec"),
            ("--pidfile", "pid"),
        ] {
            command.arg(option).arg(dir.join(name));
        }
        command
            .arg("-H")
            .arg(format!("unix://{}", dir.join("sock").display()))
            .env("PATH", path_variable())
            .env("LD_LIBRARY_PATH", debian_libraries());
        let mut daemon = Daemon::start(&mut command, &dir.join("log"));
        daemon.await_words("API listen on");
        let client = debian_tool("usr/bin/docker").unwrap();
        Self {
            _daemon: daemon,
            client,
            dir: dir.to_owned(),
        }
    }

    /// A command of its client.
    pub(crate) fn client(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.client);
        command
            .arg("-H")
            .arg(format!("unix://{}", self.dir.join("sock").display()))
            .args(arguments);
        command
    }

    /// Makes the image `busybox:1` of nothing but the program.
    fn make_image(&self, busybox: &Path) {
        let mut archive = Command::new("tar")
            .arg("-C")
            .arg(busybox.parent().unwrap())
            .args(["-c", "busybox"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut import = self.client(&["import", "-", "busybox:1"]);
        run_ok(import.stdin(archive.stdout.take().unwrap()));
        assert!(archive.wait().unwrap().success());
    }
}

#[test]
#[ignore = "foreign program: make test-peers"]
fn the_log_driver_of_docker_is_served() {
    let peer = HecPeer::start();
    let dir = peer.inrush().path("docker");
    std::fs::create_dir(&dir).unwrap();
    let Some(docker) = Docker::start_with_image(&dir) else {
        return;
    };
    let options = [
        format!("splunk-url=http://127.0.0.1:{}", peer.port()),
        format!("splunk-token={HEC_TOKEN}"),
        "splunk-index=netops".to_owned(),
        "splunk-sourcetype=peer:test".to_owned(),
        "splunk-source=src".to_owned(),
        "tag=t1".to_owned(),
    ];
    let mut run = docker.client(&["run", "--rm", "--network", "none", "--log-driver", "splunk"]);
    for option in &options {
        run.args(["--log-opt", option]);
    }
    let script = "echo one; echo 'two \"quoted\"' >&2";
    run_ok(run.args(["busybox:1", "/busybox", "sh", "-c", script]));
    peer.assert_served("docker");
}
