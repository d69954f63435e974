//! Properties that all events of a log share, by the options of their source and the path of the
//! log.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use inrush_codec::container::detect;
use inrush_codec::multiline::{MultilineOptions, MultilineRule};
use inrush_kubernetes::{
    ContainerPolicy, EventEdits, FilterReason, WorkloadMetadataState, WorkloadView, pod_log_path,
};

use super::decoder::{LineForm, LogForm, StreamEdits, StreamForm, StreamFormMaker};
use super::options::FileSource;
use super::workload::{SourceDesk, class};

/// Bytes of a file that its form is told by: nearly all first lines are shorter than the first
/// bound, and none of Docker's is longer than the last one with its escapes.
const PROBE_BYTES: [usize; 2] = [4 * 1024, 128 * 1024];

/// Name of this host in `/proc`.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";

/// Bytes of a host name, at most (`HOST_NAME_MAX` of Linux, and a line end).
const HOSTNAME_BYTES: u64 = 65;

/// Maker of the forms of a source's logs.
pub(super) struct FormMaker {
    options: FileSource,
    multiline: Option<Arc<MultilineRule>>,
    host: Box<[u8]>,
    desk: Arc<SourceDesk>,
    /// True if an answer of the desk about a path is always the same: it is asked again, so that no
    /// log has to keep it.
    asks_again: bool,
}

/// Name of this host; empty if it cannot be read.
pub(super) fn host_name() -> Vec<u8> {
    let read = inrush_files::read(Path::new(HOSTNAME), HOSTNAME_BYTES);
    let mut name = read.unwrap_or_default();
    while name.last().is_some_and(u8::is_ascii_whitespace) {
        name.pop();
    }
    name
}

/// True for the log of a container that the kubelet has made:
/// `/var/log/pods/NAMESPACE_POD_UID/CONTAINER/N.log`.
fn is_of_pod(path: &str) -> bool {
    pod_log_path(path.as_bytes()).is_some_and(|pod| pod.rotated.is_empty())
}

impl FormMaker {
    /// The maker for these options, which asks `desk` about containers.
    pub(super) fn new(options: &FileSource, desk: Arc<SourceDesk>) -> Self {
        let host = options.host.clone().map(String::into_bytes);
        let node = || desk.node().map(|node| node.as_bytes().to_vec());
        let host = host.or_else(node).unwrap_or_else(host_name);
        Self {
            options: options.clone(),
            // Options that describe no rule are refused before.
            multiline: options.multiline_rule().unwrap_or_default(),
            host: host.into(),
            asks_again: !desk.is_live(),
            desk,
        }
    }

    /// The same, with forms that keep what is known of their container.
    pub(super) fn keeping(mut self) -> Self {
        self.asks_again = false;
        self
    }

    /// The options that it follows.
    pub(super) fn options(&self) -> &FileSource {
        &self.options
    }

    /// The desk that it asks.
    pub(super) fn desk(&self) -> &Arc<SourceDesk> {
        &self.desk
    }

    /// The form of a log, by its path and the form of its lines. `held_until`: the time until which
    /// it waits for metadata.
    pub(super) fn form(
        self: &Arc<Self>,
        path: &Arc<str>,
        format: Option<LineForm>,
        workload: Option<&Arc<WorkloadView>>,
        held_until: Option<Instant>,
    ) -> Arc<LogForm> {
        let format = match workload {
            // An application's own file, whatever its lines look like.
            Some(view) if view.is_volume => Some(LineForm::Plain),
            _ => format,
        };
        self.form_with(path, format, workload, held_until)
    }

    /// The form of a log that has been read by another one.
    pub(super) fn form_like(
        self: &Arc<Self>,
        path: &Arc<str>,
        before: &LogForm,
        workload: Option<&Arc<WorkloadView>>,
        held_until: Option<Instant>,
    ) -> Arc<LogForm> {
        let format = match workload {
            Some(view) if view.is_volume => before.format,
            _ => self.options.format.fixed().or(before.format),
        };
        self.form_with(path, format, workload, held_until)
    }

    fn form_with(
        self: &Arc<Self>,
        path: &Arc<str>,
        format: Option<LineForm>,
        workload: Option<&Arc<WorkloadView>>,
        held_until: Option<Instant>,
    ) -> Arc<LogForm> {
        let of_none = Arc::default();
        let view = workload.unwrap_or(&of_none);
        let rules = view.policies.each_ref();
        let is_awaited = view.metadata == WorkloadMetadataState::Awaited;
        Arc::new(LogForm {
            format,
            encoding: self.options.encoding,
            event_bytes_max: usize::try_from(self.options.max_line_bytes.0).unwrap_or(usize::MAX),
            multiline: rules.map(|policy| self.multiline(policy)),
            stream: self.stream_maker(path, workload),
            held_until,
            lacks_metadata: workload.is_some() && is_awaited,
            is_excluded: view.is_excluded(),
            rate_bytes: view.rate_bytes(),
        })
    }

    /// The rule by which lines of a stream are put together: its owner's, or that of the options.
    fn multiline(&self, policy: &ContainerPolicy) -> Option<Arc<MultilineRule>> {
        let Some(wanted) = &policy.multiline else {
            return self.multiline.clone();
        };
        let [start, continuation, end] = wanted.patterns().map(|text| text.map(str::to_owned));
        let rule = MultilineOptions {
            start,
            continuation,
            end,
            ..self.options.multiline.clone().unwrap_or_default()
        };
        match rule.rule() {
            Ok(rule) => Some(Arc::new(rule)),
            Err(words) => {
                tracing::warn!("annotation `multiline` cannot be followed: {words}");
                self.multiline.clone()
            }
        }
    }

    fn stream_maker(
        self: &Arc<Self>,
        path: &Arc<str>,
        workload: Option<&Arc<WorkloadView>>,
    ) -> StreamFormMaker {
        let (maker, path) = (Arc::clone(self), Arc::clone(path));
        match workload {
            Some(view) if !self.asks_again => {
                let view = Arc::clone(view);
                Box::new(move |stream| maker.stream_form(&path, &view, stream))
            }
            None if !self.asks_again => {
                Box::new(move |stream| maker.stream_form(&path, &WorkloadView::default(), stream))
            }
            _ => Box::new(move |stream| {
                let asked = maker.desk.ask(&path, None, false);
                let view = asked.map(|answer| answer.view).unwrap_or_default();
                maker.stream_form(&path, &view, stream)
            }),
        }
    }

    fn stream_form(&self, path: &str, view: &WorkloadView, stream: Option<usize>) -> StreamForm {
        let policy = &view.policies[stream.unwrap_or(0)];
        let host = policy.host.as_ref().map(|host| host.as_bytes().into());
        StreamForm {
            class: Arc::new(class(view, stream, &self.options, path)),
            host: host.unwrap_or_else(|| self.host.clone()),
            edits: EventEdits::of(policy).map(|edits| StreamEdits {
                edits,
                filtered: FilterReason::ALL.map(|reason| self.desk.filtered(reason)),
            }),
        }
    }

    /// The form of the lines of a log, by its path and the beginning of its oldest file, which
    /// `head` reads; `None` while the file is empty.
    pub(super) fn line_form(
        &self,
        path: &str,
        head: impl Fn(&mut [u8]) -> usize,
    ) -> Option<LineForm> {
        if let Some(fixed) = self.options.format.fixed() {
            return Some(fixed);
        }
        let line = PROBE_BYTES.iter().find_map(|bytes| {
            let mut line = vec![0; *bytes];
            let read = head(&mut line);
            let end = memchr::memchr(b'\n', &line[..read])?;
            line.truncate(end);
            Some(line)
        })?;
        Some(match detect(&line) {
            Some(format) => LineForm::Container(format),
            None if is_of_pod(path) && line.is_empty() => return None,
            None => LineForm::Plain,
        })
    }
}

/// True if the generations of a log are read one after the other: pieces of an event may lie in two
/// of them. Lines of plain files stand for themselves, and two writers may write two generations at
/// once.
pub(super) fn is_chained(format: Option<LineForm>, path: &str) -> bool {
    match format {
        Some(LineForm::Plain) => false,
        Some(LineForm::Container(_)) => true,
        None => is_of_pod(path) || path.ends_with("-json.log"),
    }
}

impl LogForm {
    /// True if the generations of the log are read one after the other.
    pub(super) fn is_chained(&self, path: &str) -> bool {
        is_chained(self.format, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_kubelet_is_known() {
        for (path, is_known) in [
            ("/x/pods/web_shop-7f9_1b2c/nginx/0.log", true),
            ("/var/log/pods/kube-system_etcd-a_0f3c/etcd/12.log", true),
            ("/x/pods/web_shop_1/nginx/0.log.20261128-090000", false),
            ("/x/pods/web_shop_1/nginx/0.log.1", false),
            ("/var/log/0.log", false),
            ("/pods/a/b/c.log", false),
            ("", false),
        ] {
            assert_eq!(is_of_pod(path), is_known, "{path}");
        }
    }
}
