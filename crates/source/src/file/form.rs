//! What all events of a log have in common, by the options of their source and the path of the log.

use std::path::Path;
use std::sync::Arc;

use inrush_codec::container::detect;
use inrush_event::{ClassInfo, EventText};
use inrush_transport::files::tail_file::TailFile;

use super::decoder::{LineForm, LogForm};
use super::options::FileSource;

/// Bytes of a file that its form is told by, at most: a first line of Docker's with its escapes.
const PROBE_BYTES: usize = 128 * 1024;

/// Name of this host in `/proc`.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";

/// Bytes of a host name, at most (`HOST_NAME_MAX` of Linux, and a line end).
const HOSTNAME_BYTES: u64 = 65;

/// Maker of the forms of a source's logs.
#[derive(Debug)]
pub(super) struct FormMaker {
    options: FileSource,
    host: Box<[u8]>,
}

/// Name of this host; empty if it cannot be read.
fn host_name() -> Vec<u8> {
    let read = inrush_files::read(Path::new(HOSTNAME), HOSTNAME_BYTES);
    let mut name = read.unwrap_or_default();
    while name.last().is_some_and(u8::is_ascii_whitespace) {
        name.pop();
    }
    name
}

/// Namespace, pod, its UID and container in the path of a log that the kubelet has made:
/// `/var/log/pods/NAMESPACE_POD_UID/CONTAINER/N.log`.
fn pod_of(path: &str) -> Option<[&str; 4]> {
    let mut parts = path.rsplit('/');
    let (file, container, pod) = (parts.next()?, parts.next()?, parts.next()?);
    let number = file.strip_suffix(".log")?;
    if parts.next() != Some("pods") || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (namespace, rest) = pod.split_once('_')?;
    let (name, uid) = rest.rsplit_once('_')?;
    Some([namespace, name, uid, container])
}

/// Names of the indexed fields of a container, as the OpenTelemetry collector of Splunk sends them.
const POD_FIELDS: [&str; 4] = [
    "k8s.namespace.name",
    "k8s.pod.name",
    "k8s.pod.uid",
    "k8s.container.name",
];

impl FormMaker {
    /// The maker for these options.
    pub(super) fn new(options: &FileSource) -> Self {
        let host = match &options.host {
            Some(host) => host.clone().into_bytes(),
            None => host_name(),
        };
        Self {
            options: options.clone(),
            host: host.into(),
        }
    }

    /// The options that it follows.
    pub(super) fn options(&self) -> &FileSource {
        &self.options
    }

    /// The form of a log, by its path and the beginning of its oldest file.
    pub(super) fn form(&self, path: &str, file: &TailFile) -> Arc<LogForm> {
        self.form_with(path, self.line_form(path, file))
    }

    /// The form of a log that has been read by another one.
    pub(super) fn form_like(&self, path: &str, before: &LogForm) -> Arc<LogForm> {
        self.form_with(path, self.options.format.fixed().or(before.format))
    }

    fn form_with(&self, path: &str, format: Option<LineForm>) -> Arc<LogForm> {
        let options = &self.options;
        let pod = pod_of(path);
        let mut plain = ClassInfo {
            sourcetype: match (&options.sourcetype, pod) {
                (None, Some([.., container])) => Some(format!("kube:container:{container}")),
                _ => None,
            },
            source: Some(options.source.clone().unwrap_or_else(|| path.to_owned())),
            text: match options.packs {
                true => EventText::ByFormat,
                false => EventText::Message,
            },
            ..ClassInfo::default()
        };
        if let Some(pod) = pod {
            let fields = POD_FIELDS.iter().zip(pod);
            plain.fields = fields
                .map(|(name, value)| ((*name).to_owned(), value.to_owned()))
                .collect();
        }
        let stream = |name: &str| {
            let mut class = plain.clone();
            class
                .fields
                .push(("log.iostream".to_owned(), name.to_owned()));
            Arc::new(class)
        };
        Arc::new(LogForm {
            format,
            event_bytes_max: usize::try_from(options.max_line_bytes.0).unwrap_or(usize::MAX),
            streams: [stream("stdout"), stream("stderr")],
            plain: Arc::new(plain),
            host: self.host.clone(),
        })
    }

    /// The form of the lines; `None` while the file is empty.
    fn line_form(&self, path: &str, file: &TailFile) -> Option<LineForm> {
        if let Some(fixed) = self.options.format.fixed() {
            return Some(fixed);
        }
        let mut head = vec![0; PROBE_BYTES];
        let read = file.read_at(&mut head, 0).unwrap_or(0);
        let end = memchr::memchr(b'\n', &head[..read])?;
        Some(match detect(&head[..end]) {
            Some(format) => LineForm::Container(format),
            None if pod_of(path).is_some() && end == 0 => return None,
            None => LineForm::Plain,
        })
    }
}

impl LogForm {
    /// True if the generations of the log are read one after the other: pieces of an event may lie
    /// in two of them. Lines of plain files stand for themselves, and two writers may write two
    /// generations at once.
    pub(super) fn is_chained(&self, path: &str) -> bool {
        match self.format {
            Some(LineForm::Plain) => false,
            Some(LineForm::Container(_)) => true,
            None => pod_of(path).is_some() || path.ends_with("-json.log"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_kubelet_names_the_pod() {
        let path = "/var/log/pods/kube-system_etcd-a_0f3c_/etcd/12.log";
        assert_eq!(
            pod_of(path),
            Some(["kube-system", "etcd-a_0f3c", "", "etcd"])
        );
        let path = "/x/pods/web_shop-7f9_1b2c/nginx/0.log";
        assert_eq!(pod_of(path), Some(["web", "shop-7f9", "1b2c", "nginx"]));
        for other in [
            "/x/pods/web_shop_1/nginx/0.log.1",
            "/var/log/0.log",
            "/pods/a/b/c.log",
            "",
        ] {
            assert_eq!(pod_of(other), None, "{other}");
        }
    }
}
