//! Workloads of a source, as the page shows them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inrush_kubernetes::WorkloadView;

use super::state::WorkloadState;
use super::view::{problems, state};

/// Logs that are remembered: a node has 500 pods at most, and a log for each run of a container.
const ROWS_MAX: usize = 10_000;

/// Board of the workloads of one source, by the number of the log. What the page shows of them is
/// made when it asks: the logs have the rest anyway.
#[derive(Default)]
pub(in super::super) struct WorkloadBoard(Mutex<BTreeMap<u64, Arc<WorkloadView>>>);

impl WorkloadBoard {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<WorkloadView>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what is known of a log's container now.
    pub(in super::super) fn show(&self, stream: u64, view: &Arc<WorkloadView>) {
        let problems = problems(view);
        if let Some(problem) = problems.first() {
            let [namespace, pod, _, container] = &view.names;
            let problems = problems.len();
            tracing::warn!(
                namespace,
                pod,
                container,
                problems,
                "annotation ignored: {problem}"
            );
        }
        let mut rows = self.rows();
        if rows.len() < ROWS_MAX || rows.contains_key(&stream) {
            rows.insert(stream, Arc::clone(view));
        }
    }

    /// Takes a log off, which has ended.
    pub(in super::super) fn remove(&self, stream: u64) {
        self.rows().remove(&stream);
    }

    /// All of them, one row a container, by namespace, pod and container.
    pub(in super::super) fn list(&self) -> Vec<WorkloadState> {
        let rows = self.rows();
        let mut all: BTreeMap<_, WorkloadState> = BTreeMap::new();
        for row in rows.values().map(|view| state(view)) {
            // Of two logs of a container the newer one was looked at last.
            let key = [&row.namespace, &row.pod, &row.uid, &row.container].map(String::clone);
            all.insert(key, row);
        }
        all.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use inrush_kubernetes::{AnnotationSettings, ContainerStream, resolve_labels};

    use super::*;

    #[test]
    fn a_container_is_a_row_with_what_decided_and_what_is_wrong() {
        let labels = [("inrush.io/stderr.index", "err"), ("inrush.io/keep", "(")];
        let labels: BTreeMap<Box<str>, Box<str>> = labels
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        let streams = [ContainerStream::Stdout, ContainerStream::Stderr];
        let settings = AnnotationSettings::default();
        let view = WorkloadView {
            names: ["shop", "a", "u", "web"].map(str::to_owned),
            workload: "Deployment shop".to_owned(),
            policies: Arc::new(
                streams.map(|stream| resolve_labels(&labels, "web", stream, &settings)),
            ),
            ..WorkloadView::default()
        };
        let board = WorkloadBoard::default();
        let view = Arc::new(view);
        board.show(1, &view);
        board.show(2, &view);
        let rows = board.list();
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!((&*row.pod, &*row.workload), ("a", "Deployment shop"));
        assert_eq!(row.problems.len(), 1, "{:?}", row.problems);
        let [stdout, stderr] = &row.streams[..] else {
            panic!("two streams");
        };
        assert_eq!(
            (&stdout.index, stderr.index.as_deref()),
            (&None, Some("err"))
        );
        assert_eq!(stderr.decided_by[0].annotation, "inrush.io/stderr.index");
        board.remove(1);
        board.remove(2);
        assert!(board.list().is_empty());
    }
}
