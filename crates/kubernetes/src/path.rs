//! Names that container runtimes give to log files, read back into their parts.
//!
//! Sources: kubelet 1.34 `pkg/kubelet/kuberuntime/helpers.go` (`BuildPodLogsDirectory`,
//! `buildContainerLogsPath`) and `legacy.go` (`legacySymlinkName`, cut to 255 bytes);
//! docker 20.10 `daemon/logger/jsonfilelog`.

/// Bytes of the longest file name of ext4, to which the kubelet cuts the names of its links.
const FILE_NAME_BYTES_MAX: usize = 255;
/// Hexadecimal digits of a container's id, of docker and containerd alike.
const CONTAINER_ID_DIGITS: usize = 64;

/// Parts of `…/NAMESPACE_POD_UID/CONTAINER/N.log`, with the suffixes of a rotated file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PodLogPath<'a> {
    /// Namespace of the pod.
    pub namespace: &'a str,
    /// Name of the pod.
    pub pod: &'a str,
    /// Its uid; of a static pod the hash of its manifest, see
    /// [`PodObject::mirror`](crate::PodObject::mirror).
    pub uid: &'a str,
    /// Name of the container; init and ephemeral containers have folders like the others.
    pub container: &'a str,
    /// Number of restarts before this run of the container.
    pub restart: u32,
    /// The suffix that the kubelet gave to the rotated file, `YYYYMMDD-HHMMSS` in the node's time;
    /// empty for the current file.
    pub rotated: &'a str,
    /// True for `.gz`.
    pub compressed: bool,
}

/// Parts of `…/POD_NAMESPACE_CONTAINER-ID.log`, a link of `/var/log/containers`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContainerLogLink<'a> {
    /// Name of the pod.
    pub pod: &'a str,
    /// Namespace of the pod.
    pub namespace: &'a str,
    /// Name of the container; its beginning if [`is_cut`](Self::is_cut) and `id` is empty.
    pub container: &'a str,
    /// Id of the container; its beginning, or empty, if [`is_cut`](Self::is_cut).
    pub id: &'a str,
    /// True if the kubelet cut the name to 255 bytes. Then the link's target says the rest.
    pub is_cut: bool,
}

/// Parts of `…/ID/ID-json.log`, a file of docker's driver `json-file`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DockerLogPath<'a> {
    /// Id of the container, 64 hexadecimal digits.
    pub id: &'a str,
    /// Generations since this file was the current one, 0 for the current one.
    pub generation: u32,
    /// True for `.gz`.
    pub compressed: bool,
}

/// Reads the last three parts of a path below `/var/log/pods`. `None` for all other names, also for
/// the kubelet's unfinished `.tmp`.
pub fn pod_log_path(path: &[u8]) -> Option<PodLogPath<'_>> {
    let path = std::str::from_utf8(path).ok()?;
    let mut parts = path.rsplit('/');
    let (file, container, folder) = (parts.next()?, parts.next()?, parts.next()?);
    let (namespace, rest) = folder.split_once('_')?;
    let (pod, uid) = rest.rsplit_once('_')?;
    let (restart, suffix) = file.split_once(".log")?;
    let (suffix, compressed) = match suffix.strip_suffix(".gz") {
        Some(suffix) => (suffix, true),
        None => (suffix, false),
    };
    let rotated = match suffix {
        "" => "",
        suffix => suffix
            .strip_prefix('.')
            .filter(|stamp| is_rotation_stamp(stamp))?,
    };
    let is_sound = [namespace, pod, uid, container]
        .iter()
        .all(|part| is_name(part));
    (is_sound && is_number(restart)).then_some(())?;
    Some(PodLogPath {
        namespace,
        pod,
        uid,
        container,
        restart: restart.parse().ok()?,
        rotated,
        compressed,
    })
}

/// Reads the last part of a path below `/var/log/containers`. `None` for all other names.
pub fn container_log_link(path: &[u8]) -> Option<ContainerLogLink<'_>> {
    let path = std::str::from_utf8(path).ok()?;
    let file = path.rsplit('/').next()?;
    let whole = file.strip_suffix(".log")?;
    let (pod, rest) = whole.split_once('_')?;
    let (namespace, rest) = rest.split_once('_')?;
    let is_id = |id: &str| is_hexadecimal(id) && id.len() <= CONTAINER_ID_DIGITS;
    let (container, id) = match rest.rsplit_once('-') {
        Some((container, id)) if is_id(id) => (container, id),
        _ => (rest, ""),
    };
    let is_cut = id.len() < CONTAINER_ID_DIGITS;
    if is_cut && file.len() < FILE_NAME_BYTES_MAX {
        return None;
    }
    let container_is_sound = is_name(container) || is_cut && container.is_empty();
    let is_sound = is_name(pod) && is_name(namespace) && container_is_sound;
    is_sound.then_some(ContainerLogLink {
        pod,
        namespace,
        container,
        id,
        is_cut,
    })
}

/// Reads the last two parts of a path below docker's `containers`. `None` for all other names.
pub fn docker_log_path(path: &[u8]) -> Option<DockerLogPath<'_>> {
    let path = std::str::from_utf8(path).ok()?;
    let mut parts = path.rsplit('/');
    let (file, id) = (parts.next()?, parts.next()?);
    let suffix = file.strip_prefix(id)?.strip_prefix("-json.log")?;
    let (suffix, compressed) = match suffix.strip_suffix(".gz") {
        Some(suffix) => (suffix, true),
        None => (suffix, false),
    };
    let generation = match suffix.strip_prefix('.') {
        Some(number) if is_number(number) => number.parse().ok().filter(|number| *number > 0)?,
        Some(_) => return None,
        None if suffix.is_empty() && !compressed => 0,
        None => return None,
    };
    let is_id = id.len() == CONTAINER_ID_DIGITS && is_hexadecimal(id);
    is_id.then_some(DockerLogPath {
        id,
        generation,
        compressed,
    })
}

/// True for what names of namespaces, pods, containers and uids are made of, widened by capitals.
fn is_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
    !text.is_empty() && text.len() <= FILE_NAME_BYTES_MAX && text.bytes().all(fits)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_hexadecimal(text: &str) -> bool {
    let digit = |b: u8| b.is_ascii_digit() || matches!(b, b'a'..=b'f');
    !text.is_empty() && text.bytes().all(digit)
}

fn is_rotation_stamp(text: &str) -> bool {
    let (day, second) = text.split_once('-').unwrap_or_default();
    day.len() == 8 && second.len() == 6 && is_number(day) && is_number(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0f1e2d3c-0000-4000-8000-00000000abcd";

    #[test]
    fn parts_of_pod_paths_are_read() {
        let rows = [
            ("/var/log/pods/shop_web-7c9_U/nginx/0.log", 0, "", false),
            (
                "/rootfs/var/log/pods/shop_web-7c9_U/nginx/12.log",
                12,
                "",
                false,
            ),
            (
                "shop_web-7c9_U/nginx/3.log.20261128-084217",
                3,
                "20261128-084217",
                false,
            ),
            (
                "shop_web-7c9_U/nginx/3.log.20261128-084217.gz",
                3,
                "20261128-084217",
                true,
            ),
        ];
        for (path, restart, rotated, compressed) in rows {
            let path = path.replace('U', UID);
            let expected = PodLogPath {
                namespace: "shop",
                pod: "web-7c9",
                uid: UID,
                container: "nginx",
                restart,
                rotated,
                compressed,
            };
            assert_eq!(pod_log_path(path.as_bytes()), Some(expected), "{path}");
        }
        let hash = "b2e5a7c40f7b9d1e6c3a8f5d2b4e6a90";
        let path = format!("/var/log/pods/kube-system_etcd-node1_{hash}/etcd/0.log");
        let read = pod_log_path(path.as_bytes()).map(|path| (path.pod, path.uid));
        assert_eq!(read, Some(("etcd-node1", hash)));
    }

    #[test]
    fn other_names_are_no_pod_paths() {
        let rows: [&[u8]; 14] = [
            b"",
            b"0.log",
            b"nginx/0.log",
            b"shop_web/nginx/0.log",
            b"shop__u/nginx/0.log",
            b"_web_u/nginx/0.log",
            b"shop_web_u//0.log",
            b"shop_web_u/nginx/a.log",
            b"shop_web_u/nginx/.log",
            b"shop_web_u/nginx/0.log.20261128-084217.tmp",
            b"shop_web_u/nginx/0.log.1",
            b"shop_web_u/nginx/99999999999.log",
            b"shop_web_u/ngi\xffnx/0.log",
            b"shop_we b_u/nginx/0.log",
        ];
        for path in rows {
            assert_eq!(pod_log_path(path), None, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn links_are_read_whole_and_cut() {
        let id = "0123456789abcdef".repeat(4);
        let path = format!("/var/log/containers/web-7c9_shop_nginx-proxy-{id}.log");
        let link = container_log_link(path.as_bytes());
        let expected = ContainerLogLink {
            pod: "web-7c9",
            namespace: "shop",
            container: "nginx-proxy",
            id: &id,
            is_cut: false,
        };
        assert_eq!(link, Some(expected));
        // As the kubelet cuts: the whole name with its suffix has 255 bytes.
        let pod = "p".repeat(180);
        let name = format!("{pod}_shop_nginx-{id}");
        let cut = format!("{}.log", &name[..251]);
        let link = container_log_link(cut.as_bytes()).map(|link| (link.id, link.is_cut));
        assert_eq!(link, Some((&id[..59], true)));
        let pod = "p".repeat(240);
        let name = format!("{pod}_shop_nginx-{id}");
        let cut = format!("{}.log", &name[..251]);
        let link = container_log_link(cut.as_bytes());
        let read = link.map(|link| (link.container, link.id, link.is_cut));
        assert_eq!(read, Some(("nginx", "", true)));
        for path in [
            "web_shop_nginx.log",
            "web_shop_nginx-12ab.log",
            "web.log",
            "a_b",
        ] {
            assert_eq!(container_log_link(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn docker_paths_are_read() {
        let id = "0123456789abcdef".repeat(4);
        let read = |suffix: &str| {
            let path = format!("/var/lib/docker/containers/{id}/{id}-json.log{suffix}");
            docker_log_path(path.as_bytes()).map(|path| (path.generation, path.compressed))
        };
        assert_eq!(read(""), Some((0, false)));
        assert_eq!(read(".1"), Some((1, false)));
        assert_eq!(read(".12.gz"), Some((12, true)));
        for suffix in [".0", ".gz", ".x", "1", ".1.gz.tmp", ".-1"] {
            assert_eq!(read(suffix), None, "{suffix}");
        }
        let other = format!("{id}/{}-json.log", "f".repeat(64));
        assert_eq!(docker_log_path(other.as_bytes()), None);
        assert_eq!(docker_log_path(b"abc/abc-json.log"), None);
    }
}
