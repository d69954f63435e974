//! A real S3 service, SeaweedFS, behind a proxy of ours ([`super::proxy`]).

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use inrush_harness::child::wait;

use super::plan::AnswerPlan;
use super::proxy::Proxy;

/// Time that the service may take to answer the first time.
const START_MAX: Duration = Duration::from_secs(60);

/// The bucket, made at the start.
const BUCKET: &str = "logs";

/// The service; one for all series of a run.
pub(super) struct S3Service {
    child: Child,
    port: u16,
    agent: ureq::Agent,
}

impl Drop for S3Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl S3Service {
    /// With an empty bucket.
    pub(super) fn start(program: &Path, dir: &Path, ports: &[u16; 8]) -> Result<Self> {
        let dir = dir.join("weed");
        std::fs::create_dir_all(&dir)?;
        let names = ["master", "volume", "filer", "s3"];
        let ports_of = names.iter().zip(ports.chunks(2)).flat_map(|(name, ports)| {
            let (port, grpc) = (ports[0], ports[1]);
            [
                format!("-{name}.port={port}"),
                format!("-{name}.port.grpc={grpc}"),
            ]
        });
        let child = Command::new(program)
            .args(["server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"])
            .args([
                "-filer",
                "-s3",
                "-volume.max=60",
                "-master.volumeSizeLimitMB=64",
            ])
            .arg(format!("-dir={}", dir.display()))
            .args(ports_of)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| program.display().to_string())?;
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(20)))
            .http_status_as_error(false)
            .proxy(None)
            .build();
        let service = Self {
            child,
            port: ports[6],
            agent: agent.into(),
        };
        let deadline = Instant::now() + START_MAX;
        let url = format!("http://127.0.0.1:{}/{BUCKET}", service.port);
        while !service
            .agent
            .put(&url)
            .send_empty()
            .is_ok_and(|a| a.status() == 200)
        {
            ensure!(Instant::now() < deadline, "the S3 service does not answer");
            wait(Duration::from_millis(100));
        }
        Ok(service)
    }
}

/// The bucket as one series sees it: through a proxy of its own.
pub(super) struct Bucket {
    port: u16,
    agent: ureq::Agent,
    proxy: Proxy,
}

impl Bucket {
    pub(super) fn new(service: &S3Service) -> Result<Self> {
        Ok(Self {
            port: service.port,
            agent: service.agent.clone(),
            proxy: Proxy::start(service.port)?,
        })
    }

    /// The options of the store, for a folder of the bucket.
    pub(super) fn place(&self, folder: &str) -> String {
        let port = self.proxy.port();
        format!(
            "    path: s3://{BUCKET}/{folder}\n    s3: {{ endpoint: \"http://127.0.0.1:{port}\", \
             region: us-east-1, access_key_id: any, \
             secret_access_key: \"${{INRUSH_FAULTS_KEY}}\" }}\n"
        )
    }

    /// From now on requests are answered as planned.
    pub(super) fn begin(&self, answers: &AnswerPlan) {
        self.proxy.set(Some(answers.clone()));
    }

    /// From now on all requests are answered, but what is on its way.
    pub(super) fn heal(&self) {
        self.proxy.set(None);
    }

    /// Counts of what the proxy did, by name.
    pub(super) fn done(&self) -> Vec<(String, u64)> {
        self.proxy.done()
    }

    /// Names of the objects below a folder, without it.
    pub(super) fn list(&self, folder: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let mut after = String::new();
        loop {
            let url = format!(
                "http://127.0.0.1:{}/{BUCKET}?list-type=2&prefix={folder}&start-after={after}",
                self.port
            );
            let text = self.agent.get(&url).call()?.body_mut().read_to_string()?;
            let keys = text.split("<Key>").skip(1);
            let keys: Vec<&str> = keys
                .filter_map(|rest| rest.split("</Key>").next())
                .collect();
            let Some(last) = keys.last() else { break };
            after = (*last).to_owned();
            names.extend(
                keys.iter()
                    .filter_map(|key| key.strip_prefix(folder))
                    .map(str::to_owned),
            );
            if !text.contains("<IsTruncated>true") {
                break;
            }
        }
        Ok(names)
    }

    /// The bytes of an object.
    pub(super) fn get(&self, name: &str) -> Result<Vec<u8>> {
        let url = format!("http://127.0.0.1:{}/{BUCKET}/{name}", self.port);
        let mut answer = self.agent.get(&url).call()?;
        ensure!(answer.status() == 200, "{name}: {}", answer.status());
        Ok(answer.body_mut().read_to_vec()?)
    }
}

/// The service that `make test` installs, seen from the program under test.
pub(super) fn default_program(binary: &Path) -> Option<PathBuf> {
    let folder = binary.parent()?.join("../tools/python/bin/weed");
    folder.is_file().then_some(folder)
}
