//! A cluster of one node: containerd, etcd, and the API server and the kubelet of Kubernetes.
//!
//! All of them are processes of the test, on ports and in folders of their own. What the kubelet
//! writes to `/proc/sys` and to `/var/log/containers` goes to copies in a mount namespace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use inrush_tests::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::docker::path_variable;
use crate::images::{IMAGE, PAUSE, write_images};
use crate::{debian_libraries, debian_tool, unpacked};

/// Name of the node.
pub(crate) const NODE: &str = "node1";

/// Users of the API: token, name, number, group.
const TOKENS: &str = "admintoken,admin,1,system:masters\n\
    nodetoken,system:node:node1,2,system:nodes\n";

/// A kubelet ends what runs in `/kubepods` and is not its own: there is one cluster at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Starts the kubelet where it can change nothing of the host.
const KUBELET: &str = r#"mount --make-rprivate /
mkdir -p fake containers /var/log/containers
for f in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  n=fake/$(echo $f | tr / _); cat /proc/sys/$f >$n; mount --bind $n /proc/sys/$f
done
mount --bind containers /var/log/containers
exec "$@""#;

/// The programs, where they are.
struct ClusterTools {
    kubernetes: PathBuf,
    etcd: PathBuf,
    containerd: PathBuf,
    ctr: PathBuf,
    busybox: PathBuf,
}

impl ClusterTools {
    /// `None`, and a word about it, where one is missing.
    fn find() -> Option<Self> {
        if !is_root() {
            eprintln!("SKIPPED: Kubernetes: only root may start a kubelet");
            return None;
        }
        let found = |what: &str, path: Option<PathBuf>| {
            if path.is_none() {
                eprintln!("SKIPPED: Kubernetes: no {what}: make test-kubernetes installs it");
            }
            path
        };
        Some(Self {
            kubernetes: found("kube", peer_tool("kubernetes/kube"))?,
            etcd: found("etcd", unpacked("etcd", "usr/bin/etcd"))?,
            containerd: found("containerd", debian_tool("usr/bin/containerd"))?,
            ctr: found("ctr", debian_tool("usr/bin/ctr"))?,
            busybox: found("busybox", debian_tool("bin/busybox"))?,
        })
    }
}

/// A running cluster. Its containers end with it.
pub(crate) struct Cluster {
    dir: PathBuf,
    port: u16,
    ctr: PathBuf,
    /// Ended in this order, behind the containers.
    daemons: Vec<Daemon>,
    _folder: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Cluster {
    /// `None`, and a word about it, where a program is missing.
    pub(crate) fn start() -> Option<Self> {
        let tools = ClusterTools::find()?;
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = Self {
            dir: folder.path().to_owned(),
            port: free_port(),
            ctr: tools.ctr.clone(),
            daemons: Vec::new(),
            _folder: folder,
            _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner),
        };
        cluster.start_containerd(&tools);
        cluster.start_api(&tools);
        cluster.start_kubelet(&tools);
        Some(cluster)
    }

    /// Folder of the logs of pods.
    pub(crate) fn logs(&self) -> PathBuf {
        self.dir.join("pods")
    }

    /// A kubeconfig of the administrator.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.write_kubeconfig("admin", "admintoken")
    }

    fn write_kubeconfig(&self, user: &str, token: &str) -> PathBuf {
        let path = self.dir.join(format!("{user}.kubeconfig"));
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "local",
            "clusters": [{"name": "local", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.port),
                "insecure-skip-tls-verify": true}}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": user}}],
        });
        fs::write(&path, config.to_string()).unwrap();
        path
    }

    fn ctr(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.ctr);
        command.env("LD_LIBRARY_PATH", debian_libraries());
        command.arg("-a").arg(self.dir.join("c.sock"));
        command.args(["-n", "k8s.io"]).args(arguments);
        command
    }

    fn start_containerd(&mut self, tools: &ClusterTools) {
        let dir = self.dir.display();
        let config = format!(
            "version = 2\nroot = \"{dir}/root\"\nstate = \"{dir}/state\"\n\
             [grpc]\n  address = \"{dir}/c.sock\"\n[ttrpc]\n  address = \"{dir}/c.sock.ttrpc\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\"]\n  sandbox_image = \"{PAUSE}\"\n  \
             disable_apparmor = true\n  restrict_oom_score_adj = true\n"
        );
        let path = self.dir.join("containerd.toml");
        fs::write(&path, config).unwrap();
        let mut command = Command::new(&tools.containerd);
        command.arg("-c").arg(path);
        command.env("PATH", path_variable());
        command.env("LD_LIBRARY_PATH", debian_libraries());
        let mut daemon = Daemon::start(&mut command, &self.dir.join("containerd.log"));
        daemon.await_words("containerd successfully booted");
        self.daemons.insert(0, daemon);
        let archive = write_images(&self.dir, &tools.busybox);
        run_ok(self.ctr(&["images", "import"]).arg(archive));
    }

    fn start_api(&mut self, tools: &ClusterTools) {
        let url = |port| format!("http://127.0.0.1:{port}");
        let (client, peer) = (url(free_port()), url(free_port()));
        let mut etcd = Command::new(&tools.etcd);
        etcd.arg("--data-dir").arg(self.dir.join("etcd"));
        for option in ["--listen-client-urls", "--advertise-client-urls"] {
            etcd.args([option, &client]);
        }
        for option in ["--listen-peer-urls", "--initial-advertise-peer-urls"] {
            etcd.args([option, &peer]);
        }
        etcd.args(["--initial-cluster", &format!("default={peer}")]);
        self.daemons
            .insert(0, Daemon::start(&mut etcd, &self.dir.join("etcd.log")));
        for (name, arguments) in [
            ("sa.key", vec!["genrsa", "-out", "sa.key", "2048"]),
            (
                "sa.pub",
                vec!["rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub"],
            ),
        ] {
            run_ok(
                Command::new("openssl")
                    .args(arguments)
                    .current_dir(&self.dir),
            );
            assert!(self.dir.join(name).exists());
        }
        fs::write(self.dir.join("tokens.csv"), TOKENS).unwrap();
        let mut api = Command::new(&tools.kubernetes);
        api.arg("apiserver").current_dir(&self.dir);
        api.arg(format!("--etcd-servers={client}"));
        api.arg(format!("--secure-port={}", self.port));
        api.args([
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            "--cert-dir=certs",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kube",
            "--service-account-key-file=sa.pub",
            "--service-account-signing-key-file=sa.key",
            "--token-auth-file=tokens.csv",
            "--authorization-mode=Node,RBAC",
            "--disable-admission-plugins=ServiceAccount",
        ]);
        let mut daemon = Daemon::start(&mut api, &self.dir.join("api.log"));
        daemon.until("the API server", |_| {
            let said = self.curl("GET", "/readyz", None).output().unwrap().stdout;
            (said == b"ok").then_some(())
        });
        self.daemons.insert(0, daemon);
    }

    fn start_kubelet(&mut self, tools: &ClusterTools) {
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "address": "127.0.0.1", "port": free_port(), "healthzPort": 0,
            "containerRuntimeEndpoint": format!("unix://{}", self.dir.join("c.sock").display()),
            "cgroupDriver": "cgroupfs", "failCgroupV1": false, "failSwapOn": false,
            "enforceNodeAllocatable": [], "makeIPTablesUtilChains": false,
            "localStorageCapacityIsolation": false, "imageGCHighThresholdPercent": 100,
            "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
            "authorization": {"mode": "AlwaysAllow"},
            "podLogsDir": self.logs(), "staticPodPath": self.dir.join("static"),
            "containerLogMaxSize": "1Mi", "containerLogMaxFiles": 3,
            "containerLogMonitorInterval": "3s",
        });
        fs::create_dir(self.dir.join("static")).unwrap();
        fs::write(self.dir.join("kubelet.json"), config.to_string()).unwrap();
        let mut command = Command::new("unshare");
        command
            .args(["-m", "sh", "-ec", KUBELET, "sh"])
            .arg(&tools.kubernetes);
        command.args(["kubelet", "--config=kubelet.json", "--cert-dir=kcerts"]);
        command.arg(format!("--hostname-override={NODE}"));
        command.arg(format!("--root-dir={}", self.dir.join("kubelet").display()));
        let kubeconfig = self.write_kubeconfig("node", "nodetoken");
        command.arg(format!("--kubeconfig={}", kubeconfig.display()));
        command.env("PATH", path_variable()).current_dir(&self.dir);
        let mut daemon = Daemon::start(&mut command, &self.dir.join("kubelet.log"));
        daemon.until("the node", |_| {
            let node = self.get(&format!("/api/v1/nodes/{NODE}"));
            (node["metadata"]["name"] == NODE).then_some(())
        });
        self.daemons.insert(0, daemon);
    }

    /// A request to the API, by curl.
    pub(crate) fn curl(&self, method: &str, path: &str, kind: Option<&str>) -> Command {
        let mut command = Command::new("curl");
        command.args([
            "-sk",
            "-N",
            "-X",
            method,
            "-H",
            "Authorization: Bearer admintoken",
        ]);
        if let Some(kind) = kind {
            command.args([
                "-H",
                &format!("Content-Type: {kind}"),
                "--data-binary",
                "@-",
            ]);
        }
        command.arg(format!("https://127.0.0.1:{}{path}", self.port));
        command
    }

    /// An object of the API; null while there is no answer.
    pub(crate) fn get(&self, path: &str) -> Value {
        let said = self.curl("GET", path, None).output().unwrap().stdout;
        serde_json::from_slice(&said).unwrap_or_default()
    }

    /// Sends an object to the API.
    pub(crate) fn send(&self, method: &str, path: &str, kind: &str, object: &Value) -> Value {
        let mut command = self.curl(method, path, Some(kind));
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut curl = command.spawn().unwrap();
        serde_json::to_writer(curl.stdin.take().unwrap(), object).unwrap();
        let said = curl.wait_with_output().unwrap().stdout;
        serde_json::from_slice(&said).unwrap()
    }

    /// Starts a pod of these containers: name, and arguments of busybox. Returns it as it was made.
    pub(crate) fn start_pod(&self, name: &str, containers: &[(String, Vec<String>)]) -> Value {
        let containers: Vec<Value> = containers
            .iter()
            .map(|(name, command)| {
                json!({"name": name, "image": IMAGE, "imagePullPolicy": "Never", "args": command})
            })
            .collect();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"nodeName": NODE, "hostNetwork": true, "restartPolicy": "Never",
                "automountServiceAccountToken": false, "enableServiceLinks": false,
                "terminationGracePeriodSeconds": 0, "tolerations": [{"operator": "Exists"}],
                "containers": containers},
        });
        let path = "/api/v1/namespaces/default/pods";
        let made = self.send("POST", path, "application/json", &pod);
        assert_eq!(made["kind"], "Pod", "{made}");
        made
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The kubelet first, which would start them anew.
        if self.daemons.len() > 1 {
            self.daemons.remove(0);
        }
        let tasks = self.ctr(&["tasks", "ls", "-q"]).output();
        let tasks = tasks.map(|done| String::from_utf8_lossy(&done.stdout).into_owned());
        for task in tasks.unwrap_or_default().lines() {
            let _ = self.ctr(&["tasks", "rm", "-f", task]).output();
        }
        for daemon in std::mem::take(&mut self.daemons) {
            drop(daemon);
        }
        // What containerd and the kubelet have mounted below the folder.
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        for point in points.filter(|point| Path::new(point).starts_with(&self.dir)) {
            let _ = Command::new("umount").args(["-l", point]).status();
        }
    }
}
