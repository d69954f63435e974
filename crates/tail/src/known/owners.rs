//! Logs of containers: what becomes of them when it changes what is known of their pods.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use inrush_kubernetes::{WorkloadMetadataState, WorkloadView};

use super::KnownFiles;
use crate::tail::TailOrder;

impl KnownFiles {
    /// Asks the desk about all containers: something may have changed.
    pub(crate) fn look_at_workloads(&mut self) {
        for (stream, log) in &mut self.logs {
            let Some(before) = log.workload.as_deref() else {
                continue;
            };
            let asked = (self.maker.desk()).ask(&log.path.to_string_lossy(), Some(before), false);
            let Some(now) = asked else {
                continue;
            };
            if !Arc::ptr_eq(&now.view, &before.view) && now.view != before.view {
                log.held_until = None;
                let form = (self.maker).form_like(&log.form, Some(&now.view), None);
                log.form = Arc::clone(&form);
                let named = (form, Arc::clone(&log.path));
                self.orders.push(TailOrder::Form(*stream, named));
                self.board.show(*stream, &now.view);
            }
            log.workload = Some(Box::new(now));
        }
    }

    /// Other files in volumes are wanted from now on. Returns the logs that are not wanted any
    /// more; those of removed pods are read to their end.
    pub(crate) fn follow_volumes(&mut self, is_named: impl Fn(&Path) -> bool) -> Vec<u64> {
        let (mut gone, mut vanished) = (Vec::new(), Vec::new());
        for (stream, log) in &self.logs {
            let view = log.workload.as_ref().map(|workload| &workload.view);
            let Some(view) = view.filter(|view| view.is_volume) else {
                continue;
            };
            if fs::symlink_metadata(&log.path).is_err() {
                vanished.push(log.path.clone());
            } else if !is_named(&log.path) && view.metadata != WorkloadMetadataState::Removed {
                gone.push(*stream);
            }
        }
        // Nobody watched the names while the watches changed.
        vanished.iter().for_each(|path| self.vanished(path));
        gone
    }

    /// Shows which containers have waited for their metadata in vain.
    pub(crate) fn end_waits(&mut self, now: Instant) {
        for (stream, log) in &mut self.logs {
            if log.held_until.is_some_and(|until| until <= now)
                && let Some(workload) = &log.workload
            {
                log.held_until = None;
                let missing = WorkloadView {
                    metadata: WorkloadMetadataState::Missing,
                    ..WorkloadView::clone(&workload.view)
                };
                self.board.show(*stream, &Arc::new(missing));
            }
        }
    }
}
