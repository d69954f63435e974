//! Paths and patterns of container logs, as other collectors have them, for `type: file`.

/// Folder of the links that the kubelet makes beside the logs of pods.
const LINKS: &str = "/var/log/containers/";

/// Glob of the logs of all pods.
pub(crate) const ALL_PODS: &str = "/var/log/pods/*/*/*.log";

/// The glob of `/var/log/pods` for one of `/var/log/containers`: the same files without the links.
/// `None` if the glob is none of these, or could mean several parts of the name.
pub(crate) fn pods_glob(glob: &str) -> Option<String> {
    let stem = glob.strip_prefix(LINKS)?.strip_suffix(".log")?;
    if stem.contains(['/', '?', '[', '{']) {
        return None;
    }
    let parts: Vec<&str> = stem.split('_').collect();
    match parts.as_slice() {
        ["*"] => Some(ALL_PODS.to_owned()),
        [pod] if pod.ends_with('*') && pod.matches('*').count() == 1 => {
            Some(format!("/var/log/pods/*_{pod}/*/*.log"))
        }
        [pod, namespace, container] => {
            let container = match container.strip_suffix("-*") {
                Some(whole) => whole,
                None => container,
            };
            Some(format!(
                "/var/log/pods/{namespace}_{pod}_*/{container}/*.log"
            ))
        }
        _ => None,
    }
}

/// True if a path is one of container logs.
pub(crate) fn is_container_path(path: &str) -> bool {
    path.starts_with(LINKS)
        || path.starts_with("/var/log/pods/")
        || path.starts_with("/var/lib/docker/containers/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_the_files_behind_them() {
        for (glob, wanted) in [
            ("/var/log/containers/*.log", Some(ALL_PODS)),
            (
                "/var/log/containers/*_kube-system_*.log",
                Some("/var/log/pods/kube-system_*_*/*/*.log"),
            ),
            (
                "/var/log/containers/web-*_shop_app-*.log",
                Some("/var/log/pods/shop_web-*_*/app/*.log"),
            ),
            (
                "/var/log/containers/fluent-bit*.log",
                Some("/var/log/pods/*_fluent-bit*/*/*.log"),
            ),
            ("/var/log/containers/*fluent*.log", None),
            ("/var/log/containers/a_b.log", None),
            ("/var/log/syslog", None),
        ] {
            assert_eq!(pods_glob(glob).as_deref(), wanted, "{glob}");
        }
    }
}
