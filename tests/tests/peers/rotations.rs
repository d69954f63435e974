//! Rotations of a kubelet as they are seen from outside, and recordings of them and of the API.
//!
//! With `INRUSH_RECORD=1` they go to `tests/data/kubernetes`, where `make test` replays them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use inrush_tests::eventually;
use serde_json::json;

use crate::cluster::{Cluster, NODE};

/// Bytes of a recorded file, at most.
const RECORD_BYTES_MAX: usize = 256 << 10;

/// A line that a rotation has cut.
struct CutLine {
    /// The end of the rotated file, from its first line on.
    rotated: Vec<u8>,
    /// The beginning of the next one.
    next: Vec<u8>,
}

/// Rotated files that were seen, and those that end within a line.
#[derive(Default)]
pub(crate) struct SeenRotations {
    files: BTreeSet<PathBuf>,
    cut: BTreeSet<PathBuf>,
    sample: Option<CutLine>,
}

/// Stream and tag of a line.
fn stream_and_tag(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut words = line.split(|byte| *byte == b' ').skip(1);
    Some((words.next()?, words.next()?))
}

fn lines(bytes: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n')
}

/// The line that the end of a file and the beginning of the next one share, if it is whole and
/// not too long.
fn cut_line(rotated: &[u8], next: &[u8]) -> Option<CutLine> {
    let (stream, _) = stream_and_tag(lines(rotated).next_back()?)?;
    let is_end = |line: &&[u8]| stream_and_tag(line) == Some((stream, b"F"));
    let before: usize = lines(rotated)
        .rev()
        .take_while(|line| !is_end(line))
        .map(<[u8]>::len)
        .sum();
    let own: usize = lines(next)
        .take_while(|line| !is_end(line))
        .map(<[u8]>::len)
        .sum();
    let end: usize = lines(&next[own..]).take(3).map(<[u8]>::len).sum();
    let is_whole = before < rotated.len() && lines(&next[own..]).count() > 3;
    let sample = CutLine {
        rotated: rotated[rotated.len() - before..].to_vec(),
        next: next[..own + end].to_vec(),
    };
    (is_whole && sample.rotated.len() + sample.next.len() < RECORD_BYTES_MAX).then_some(sample)
}

impl SeenRotations {
    /// Looks at rotated files that are not compressed yet.
    pub(crate) fn look(&mut self, logs: &Path) {
        let entries = |folder: PathBuf| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path())
        };
        let containers = entries(logs.to_owned()).flat_map(entries);
        for file in containers.flat_map(entries) {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let is_rotated = name.contains(".log.") && !name.ends_with(".gz");
            if is_rotated && !name.ends_with(".tmp") {
                self.look_at(&file);
            }
        }
    }

    fn look_at(&mut self, file: &Path) {
        let Ok(bytes) = fs::read(file) else {
            return;
        };
        self.files.insert(file.to_owned());
        let last = lines(&bytes).next_back().and_then(stream_and_tag);
        if last.is_none_or(|(_, tag)| tag != b"P") {
            return;
        }
        self.cut.insert(file.to_owned());
        if self.sample.is_none()
            && let Ok(next) = fs::read(file.with_extension(""))
        {
            self.sample = cut_line(&bytes, &next);
        }
    }

    /// Files that were seen, and those of them that end within a line.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.files.len(), self.cut.len())
    }

    /// Keeps a line that was cut, if there was one.
    pub(crate) fn record(&self) {
        if let Some(sample) = &self.sample {
            save("rotated.log", &sample.rotated);
            save("next.log", &sample.next);
        }
    }
}

fn save(name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/kubernetes");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), bytes).unwrap();
}

/// Keeps what the API answers about two pods and the namespaces, and a watch during which an
/// annotation changes and a pod is deleted.
pub(crate) fn record_api(cluster: &Cluster) {
    let pods = format!(
        "/api/v1/pods?fieldSelector=spec.nodeName%3D{NODE}\
         &labelSelector=app+in+(writer0,short0)"
    );
    let list = cluster.curl("GET", &pods, None).output().unwrap().stdout;
    save("pods.json", &list);
    let partial = "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let mut namespaces = cluster.curl("GET", "/api/v1/namespaces", None);
    save(
        "namespaces.json",
        &namespaces.args(["-H", partial]).output().unwrap().stdout,
    );
    let version = serde_json::from_slice::<serde_json::Value>(&list).unwrap();
    let version = version["metadata"]["resourceVersion"].as_str().unwrap();
    let watch = format!("{pods}&watch=1&allowWatchBookmarks=true&resourceVersion={version}");
    let mut watch = cluster.curl("GET", &watch, None);
    let watch = watch
        .args(["--max-time", "8"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let own = "/api/v1/namespaces/default/pods";
    let change = json!({"metadata": {"annotations": {"inrush.io/index": "shop"}}});
    let kind = "application/merge-patch+json";
    cluster.send("PATCH", &format!("{own}/writer0"), kind, &change);
    cluster.send(
        "DELETE",
        &format!("{own}/short0"),
        "application/json",
        &json!({}),
    );
    eventually("the end of a pod", || {
        (cluster.get(&format!("{own}/short0"))["code"] == 404).then_some(())
    });
    save("watch.jsonl", &watch.wait_with_output().unwrap().stdout);
}
