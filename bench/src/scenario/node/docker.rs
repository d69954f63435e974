//! A Docker daemon of the bench, with containers that hold this program alone.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use inrush_harness::child::ChildProcess;

/// Name of the image: it is empty.
const IMAGE: &str = "inrush-bench:1";

/// Folders of the host that a container sees: those of the libraries of this program.
const LIBRARIES: [&str; 3] = ["/usr", "/lib", "/lib64"];

/// This program, in a container.
const PROGRAM: &str = "/inrush-bench";

/// A running daemon, without a network. It ends with this value, and its containers before it.
pub(super) struct DockerDaemon {
    _process: ChildProcess,
    dir: PathBuf,
    ids: Vec<String>,
}

/// Folder of the packages that `make test-peers` unpacks beside the builds.
fn packages() -> Option<PathBuf> {
    let this = std::env::current_exe().ok()?;
    let folder = this.parent()?.join("../tools/peers/debian");
    folder.join("usr/sbin/dockerd").exists().then_some(folder)
}

/// A command of a program of Docker: the packages', else the system's.
fn command(words: &[&str]) -> Result<Command> {
    let mut command = Command::new("env");
    if let Some(folder) = packages() {
        let path = std::env::var("PATH").context("PATH")?;
        let own = ["usr/sbin", "usr/bin"].map(|part| folder.join(part).display().to_string());
        let machine = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
        let libraries = folder.join(machine);
        command.arg(format!("PATH={}:{path}", own.join(":")));
        command.arg(format!("LD_LIBRARY_PATH={}", libraries.display()));
    }
    command.args(words);
    Ok(command)
}

/// Runs a command; its standard output.
fn said(command: &mut Command) -> Result<String> {
    let done = command.stdin(Stdio::null()).output();
    let done = done.with_context(|| format!("{command:?}"))?;
    let errors = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{command:?}: {errors}");
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

impl DockerDaemon {
    /// Starts it with its data in `dir`, an absolute path.
    ///
    /// # Errors
    /// Nobody but root may start it; `dist/install-tools peers target/tools/peers` fetches it.
    pub(super) fn start(dir: &Path) -> Result<Self> {
        let mut daemon = command(&["unshare", "--mount", "dockerd"])?;
        daemon.args(["--iptables=false", "--bridge=none"]);
        for (option, name) in [
            ("--data-root", "data"),
            ("--exec-root", "exec"),
            ("--pidfile", "pid"),
        ] {
            daemon.arg(option).arg(dir.join(name));
        }
        daemon.arg("-H").arg(socket(dir));
        let mut process = ChildProcess::start("dockerd", &mut daemon)?;
        process
            .lines_until(|line| line.contains("API listen on"))
            .context("a Docker daemon (as root, from `dist/install-tools peers`)")?;
        let daemon = Self {
            _process: process,
            dir: dir.to_owned(),
            ids: Vec::new(),
        };
        let empty = dir.join("empty.tar");
        let mut tar = Command::new("tar");
        tar.args(["-c", "--files-from", "/dev/null", "-f"]);
        said(tar.arg(&empty))?;
        said(daemon.client(&["import"])?.arg(&empty).arg(IMAGE))?;
        Ok(daemon)
    }

    fn client(&self, words: &[&str]) -> Result<Command> {
        let socket = socket(&self.dir);
        command(&[&["docker", "-H", &socket], words].concat())
    }

    /// Glob of the logs of its containers.
    pub(super) fn include(&self) -> String {
        format!("{}/containers/*/*-json.log", self.root())
    }

    /// Folder of its data.
    pub(super) fn root(&self) -> String {
        self.dir.join("data").display().to_string()
    }

    /// Starts a container that runs this program with `words`; it sees `folder` as `/folder`.
    pub(super) fn run(&mut self, folder: &Path, words: &[String]) -> Result<()> {
        let this = std::env::current_exe().context("own path")?;
        let mut run = self.client(&["run", "-d", "--network", "none"])?;
        run.args(["--log-driver", "json-file"]);
        run.args(["--log-opt", "max-size=10m", "--log-opt", "max-file=3"]);
        let mut volume = |from: &Path, to: &str, mode: &str| {
            run.arg("-v").arg(format!("{}:{to}{mode}", from.display()));
        };
        for library in LIBRARIES {
            volume(Path::new(library), library, ":ro");
        }
        volume(&this, PROGRAM, ":ro");
        volume(folder, "/folder", "");
        run.args([IMAGE, PROGRAM]).args(words);
        self.ids.push(said(&mut run)?);
        Ok(())
    }

    /// Waits until all containers have ended.
    ///
    /// # Errors
    /// One of them has failed.
    pub(super) fn wait(&self) -> Result<()> {
        let codes = said(self.client(&["wait"])?.args(&self.ids))?;
        ensure!(
            codes.lines().all(|code| code == "0"),
            "a writer failed: {codes}"
        );
        Ok(())
    }
}

impl Drop for DockerDaemon {
    fn drop(&mut self) {
        // Else the daemon would wait for each of them as it ends.
        if let Ok(mut client) = self.client(&["rm", "-f"])
            && !self.ids.is_empty()
        {
            let _ = said(client.args(&self.ids));
        }
    }
}

fn socket(dir: &Path) -> String {
    format!("unix://{}", dir.join("sock").display())
}
