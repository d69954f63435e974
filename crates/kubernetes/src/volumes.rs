//! Files of applications in the volumes of their pods, which annotations name.
//!
//! # What it guarantees
//! * A file is read below the root of a volume that the pod has, and nowhere else. Links out of it
//!   are for the reader to refuse.
//! * A path of the host is read only where the configuration allows it: whoever may annotate a pod
//!   need not be allowed to read the node.
//!
//! # Limits
//! [`VOLUMES_MAX`] volumes of all pods together.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::annotations::{
    AnnotationSettings, ContainerPolicy, ContainerStream, VolumeRule, resolve,
};
use crate::objects::{PodObject, VolumeSource};
use crate::store::PodMetadata;

/// Volumes whose files are read, at most.
pub const VOLUMES_MAX: usize = 1000;

/// Signs of globs, and what escapes them: a path that is put before one has none.
const GLOB_SIGNS: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

/// Places of volumes on this node.
pub struct VolumePlaces<'a> {
    /// Folder of the kubelet, `/var/lib/kubelet` as a rule.
    pub kubelet: &'a Path,
    /// True for the paths of the host from which files may be read.
    pub is_allowed: &'a dyn Fn(&Path) -> bool,
    /// Fault of a pattern of files that is none.
    pub glob_fault: &'a dyn Fn(&str) -> Option<String>,
}

/// Files in a volume of a pod, and the container whose policy they have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeFiles {
    /// The pod.
    pub metadata: Arc<PodMetadata>,
    /// The first container for which an annotation names the volume.
    pub container: Box<str>,
    /// Root of the volume on this node.
    pub root: PathBuf,
    /// Glob below the root.
    pub glob: Box<str>,
}

impl VolumePlaces<'_> {
    /// Root of a volume of a pod.
    ///
    /// # Errors
    /// The end of a sentence that begins with the annotation.
    pub fn root(&self, pod: &PodObject, volume: &str) -> Result<PathBuf, String> {
        let found = pod.volumes.iter().find(|one| &*one.name == volume);
        let found =
            found.ok_or_else(|| format!("names the volume `{volume}`, which the pod has not"))?;
        let root = match &found.source {
            VolumeSource::EmptyDir => {
                let uid = pod.mirror().unwrap_or(&pod.uid);
                let folder = self.kubelet.join("pods").join(uid);
                folder.join("volumes/kubernetes.io~empty-dir").join(volume)
            }
            VolumeSource::HostPath(path) => {
                let path = Path::new(&**path);
                let leaves = path.components().any(|part| part.as_os_str() == "..");
                if leaves || !path.is_absolute() || !(self.is_allowed)(path) {
                    return Err(format!(
                        "names a path of the host, {}, which `host_paths` does not allow",
                        path.display()
                    ));
                }
                path.to_owned()
            }
            VolumeSource::Other => {
                return Err("names a volume that is neither emptyDir nor hostPath".to_owned());
            }
        };
        match root.to_str().is_some_and(|root| !root.contains(GLOB_SIGNS)) {
            true => Ok(root),
            false => Err("names a volume whose path has signs of globs".to_owned()),
        }
    }

    /// Root of the volume that a rule names, if its glob is one.
    ///
    /// # Errors
    /// The end of a sentence that begins with the annotation.
    pub fn root_of(&self, pod: &PodObject, rule: &VolumeRule) -> Result<PathBuf, String> {
        let root = self.root(pod, &rule.volume)?;
        match (self.glob_fault)(&pattern(&root, &rule.glob)) {
            Some(fault) => Err(format!("is no glob: {fault}")),
            None => Ok(root),
        }
    }

    /// The files that a container's policy names.
    pub fn files(
        &self,
        metadata: &Arc<PodMetadata>,
        container: &str,
        policy: &ContainerPolicy,
    ) -> Vec<VolumeFiles> {
        let rules = policy.volumes.iter();
        let files = rules.filter_map(|rule| {
            let root = self.root_of(&metadata.pod, rule).ok()?;
            Some(VolumeFiles {
                metadata: Arc::clone(metadata),
                container: container.into(),
                root,
                glob: rule.glob.clone(),
            })
        });
        files.collect()
    }

    /// The files that annotations of these pods name, in the order of the pods.
    pub fn all_files(
        &self,
        pods: &[Arc<PodMetadata>],
        settings: &AnnotationSettings,
    ) -> Vec<VolumeFiles> {
        let mut all: Vec<VolumeFiles> = Vec::new();
        for metadata in pods.iter().filter(|one| may_name_volumes(one, settings)) {
            for container in &metadata.pod.containers {
                let name = &*container.name;
                let policy = resolve(metadata, name, ContainerStream::Stdout, settings);
                for files in self.files(metadata, name, &policy) {
                    let same =
                        |one: &VolumeFiles| (&one.root, &one.glob) == (&files.root, &files.glob);
                    if all.len() < VOLUMES_MAX && !all.iter().any(same) {
                        all.push(files);
                    }
                }
            }
        }
        all
    }
}

/// True if an annotation of a pod could name a volume: patterns are not compiled for others.
fn may_name_volumes(metadata: &PodMetadata, settings: &AnnotationSettings) -> bool {
    let names_one = |key: &str| key.contains("volume.");
    let configured = settings.defaults.keys().chain(settings.enforce.keys());
    let workloads = metadata
        .workloads
        .iter()
        .map(|one| &one.annotations.entries);
    let namespace = metadata
        .namespace
        .iter()
        .map(|one| &one.annotations.entries);
    let mut all = std::iter::once(&metadata.pod.annotations.entries).chain(workloads);
    configured.map(String::as_str).any(names_one)
        || all.any(|one| one.keys().any(|key| names_one(key)))
        || namespace
            .into_iter()
            .any(|one| one.keys().any(|key| names_one(key)))
}

impl VolumeFiles {
    /// Pattern of the files.
    pub fn pattern(&self) -> String {
        pattern(&self.root, &self.glob)
    }
}

fn pattern(root: &Path, glob: &str) -> String {
    format!("{}/{glob}", root.display())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::objects::PodVolume;

    fn metadata(annotations: &[(&str, &str)]) -> Arc<PodMetadata> {
        let json = r#"{"metadata":{"namespace":"shop","name":"a","uid":"u-1"},"spec":{
            "nodeName":"n","containers":[{"name":"web"},{"name":"side"}]}}"#;
        let mut pod: PodObject = serde_json::from_str(json).unwrap();
        let host_path = |path: &str| VolumeSource::HostPath(path.into());
        let volumes = [
            ("logs", VolumeSource::EmptyDir),
            ("host", host_path("/var/log/app")),
            ("etc", host_path("/etc")),
            ("up", host_path("/var/log/../../etc")),
            ("odd", host_path("/var/log/[a]")),
            ("secret", VolumeSource::Other),
        ];
        let volume = |(name, source): (&str, VolumeSource)| PodVolume {
            name: name.into(),
            source,
        };
        pod.volumes = volumes.into_iter().map(volume).collect();
        pod.annotations = annotations.iter().copied().collect();
        Arc::new(PodMetadata {
            pod: Arc::new(pod),
            namespace: None,
            workloads: Vec::new(),
            removed: false,
        })
    }

    fn places() -> VolumePlaces<'static> {
        VolumePlaces {
            kubelet: Path::new("/k"),
            is_allowed: &|path: &Path| path.starts_with("/var/log"),
            glob_fault: &|glob: &str| glob.contains("[z-a]").then(|| "an empty range".to_owned()),
        }
    }

    #[test]
    fn roots_are_those_of_volumes_that_may_be_read() {
        let metadata = metadata(&[]);
        let root = |name: &str| places().root(&metadata.pod, name);
        let empty = "/k/pods/u-1/volumes/kubernetes.io~empty-dir/logs";
        assert_eq!(root("logs").unwrap(), Path::new(empty));
        assert_eq!(root("host").unwrap(), Path::new("/var/log/app"));
        for (name, words) in [
            ("etc", "does not allow"),
            ("up", "does not allow"),
            ("odd", "signs of globs"),
            ("secret", "neither emptyDir nor hostPath"),
            ("none", "which the pod has not"),
        ] {
            let error = root(name).unwrap_err();
            assert!(error.contains(words), "{name}: {error}");
        }
    }

    #[test]
    fn files_have_the_container_that_names_them_first() {
        let pods = [
            metadata(&[]),
            metadata(&[
                ("inrush.io/volume.logs", "*.log"),
                ("inrush.io/volume.host.side", "**/*.txt"),
                ("inrush.io/volume.etc", "shadow"),
                ("inrush.io/volume.logs.side", "[z-a]"),
            ]),
        ];
        let files = places().all_files(&pods, &AnnotationSettings::default());
        let found = files.iter().map(|one| (&*one.container, one.pattern()));
        let empty = "/k/pods/u-1/volumes/kubernetes.io~empty-dir/logs/*.log".to_owned();
        let host = "/var/log/app/**/*.txt".to_owned();
        assert_eq!(found.collect::<Vec<_>>(), [("web", empty), ("side", host)]);
    }
}
