//! Properties that all events of a log share, by the options of their source and the path of the
//! log.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
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

/// Forms that are shared at a time.
const SHARED_MAX: usize = 64;

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
    shared: SharedForms,
}

/// Forms that logs share: nothing in them is of one log alone.
#[derive(Default)]
struct SharedForms(Mutex<Vec<SharedForm>>);

/// Form that logs with lines of one form share, whose owners say the same.
struct SharedForm {
    format: Option<LineForm>,
    policies: Option<Arc<[ContainerPolicy; 2]>>,
    /// The logs have it: it has the maker.
    form: Weak<LogForm>,
}

impl SharedForms {
    /// The form that another log has, or what `make` makes.
    fn form(
        &self,
        format: Option<LineForm>,
        policies: Option<&Arc<[ContainerPolicy; 2]>>,
        make: impl FnOnce() -> LogForm,
    ) -> Arc<LogForm> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_alike = |one: &&SharedForm| {
            let known = one.policies.as_ref().map(Arc::as_ptr);
            one.format == format && known == policies.map(Arc::as_ptr)
        };
        if let Some(form) = shared
            .iter()
            .find(is_alike)
            .and_then(|one| one.form.upgrade())
        {
            return form;
        }
        shared.retain(|one| one.form.strong_count() > 0);
        let form = Arc::new(make());
        if shared.len() < SHARED_MAX {
            shared.push(SharedForm {
                format,
                policies: policies.map(Arc::clone),
                form: Arc::downgrade(&form),
            });
        }
        form
    }
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
            shared: SharedForms::default(),
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

    /// The form of a log, by the form of its lines. `held_until`: the time until which it waits for
    /// metadata.
    pub(super) fn form(
        self: &Arc<Self>,
        format: Option<LineForm>,
        workload: Option<&Arc<WorkloadView>>,
        held_until: Option<Instant>,
    ) -> Arc<LogForm> {
        let format = match workload {
            // An application's own file, whatever its lines look like.
            Some(view) if view.is_volume => Some(LineForm::Plain),
            _ => format,
        };
        self.form_with(format, workload, held_until)
    }

    /// The form of a log that has been read by another one.
    pub(super) fn form_like(
        self: &Arc<Self>,
        before: &LogForm,
        workload: Option<&Arc<WorkloadView>>,
        held_until: Option<Instant>,
    ) -> Arc<LogForm> {
        let format = match workload {
            Some(view) if view.is_volume => before.format,
            _ => self.options.format.fixed().or(before.format),
        };
        self.form_with(format, workload, held_until)
    }

    fn form_with(
        self: &Arc<Self>,
        format: Option<LineForm>,
        workload: Option<&Arc<WorkloadView>>,
        held_until: Option<Instant>,
    ) -> Arc<LogForm> {
        let make = || self.new_form(format, workload, held_until);
        // A form that keeps its container is that of one log, and so is one that waits.
        match workload.is_none_or(|_| self.asks_again) && held_until.is_none() {
            true => (self.shared).form(format, workload.map(|view| &view.policies), make),
            false => Arc::new(make()),
        }
    }

    fn new_form(
        self: &Arc<Self>,
        format: Option<LineForm>,
        workload: Option<&Arc<WorkloadView>>,
        held_until: Option<Instant>,
    ) -> LogForm {
        let of_none = Arc::default();
        let view = workload.unwrap_or(&of_none);
        let rules = view.policies.each_ref();
        let is_awaited = view.metadata == WorkloadMetadataState::Awaited;
        LogForm {
            format,
            encoding: self.options.encoding,
            event_bytes_max: usize::try_from(self.options.max_line_bytes.0).unwrap_or(usize::MAX),
            multiline: rules.map(|policy| self.multiline(policy)),
            stream: self.stream_maker(workload),
            held_until,
            lacks_metadata: workload.is_some() && is_awaited,
            is_excluded: view.is_excluded(),
            rate_bytes: view.rate_bytes(),
        }
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

    fn stream_maker(self: &Arc<Self>, workload: Option<&Arc<WorkloadView>>) -> StreamFormMaker {
        let maker = Arc::clone(self);
        match workload {
            Some(view) if !self.asks_again => {
                let view = Arc::clone(view);
                Box::new(move |path, stream| maker.stream_form(path, &view, stream))
            }
            None if !self.asks_again => Box::new(move |path, stream| {
                maker.stream_form(path, &WorkloadView::default(), stream)
            }),
            _ => Box::new(move |path, stream| {
                let asked = maker.desk.ask(path, None, false);
                let view = asked.map(|answer| answer.view).unwrap_or_default();
                maker.stream_form(path, &view, stream)
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
    fn logs_share_a_form_and_each_has_its_own_source() {
        let options = r#"{"include": ["/x/*.log"], "host": "h"}"#;
        let options: FileSource = serde_json::from_str(options).unwrap();
        let desk = Arc::new(SourceDesk::alone(&options));
        let maker = Arc::new(FormMaker::new(&options, desk));
        let [one, two] = [0; 2].map(|_| maker.form(Some(LineForm::Plain), None, None));
        assert!(Arc::ptr_eq(&one, &two));
        let source = |path| (one.stream)(path, None).class.source.clone();
        assert_eq!(source("/x/a.log").as_deref(), Some("/x/a.log"));
        assert_eq!(source("/x/b.log").as_deref(), Some("/x/b.log"));
        let other = maker.form(None, None, None);
        assert!(!Arc::ptr_eq(&one, &other) && other.format.is_none());
        let view = Arc::default();
        let of_container = maker.form(Some(LineForm::Plain), Some(&view), None);
        assert!(
            !Arc::ptr_eq(&one, &of_container),
            "its owner may say other things"
        );
        let waits = maker.form(Some(LineForm::Plain), None, Some(Instant::now()));
        assert!(waits.held_until.is_some() && one.held_until.is_none());
        // The logs keep it, not the maker.
        let kept = Arc::downgrade(&one);
        drop((one, two));
        assert!(kept.upgrade().is_none());
    }

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
