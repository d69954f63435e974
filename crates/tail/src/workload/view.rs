//! Container of a log as its events and the page need it.

use std::sync::Arc;

use inrush_event::{ClassInfo, EventText, OwnerNames};
use inrush_kubernetes::{ContainerPolicy, WorkloadView};

use super::state::{PolicyDecision, StreamPolicyState, WorkloadState};
use crate::options::FileSource;

/// Names of the streams of a container, in the order of its policies.
pub(in super::super) const STREAMS: [&str; 2] = ["stdout", "stderr"];

fn text(name: Option<&str>) -> Option<String> {
    name.map(str::to_owned)
}

/// Class of the events of a stream; `None`: lines that come from no stream, which have the
/// policy of standard output.
pub(in super::super) fn class(
    view: &WorkloadView,
    stream: Option<usize>,
    options: &FileSource,
    path: &str,
) -> ClassInfo {
    let policy = &view.policies[stream.unwrap_or(0)];
    let [namespace, _, _, container] = &view.names;
    let is_pod = !namespace.is_empty() && !view.is_volume;
    let named = || is_pod.then(|| view.naming.sourcetype(container));
    let fields = view.fields.iter();
    let mut fields: Vec<_> = fields
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    for (name, value) in &policy.fields {
        fields.retain(|(known, _)| **known != **name);
        fields.push((name.to_string(), value.to_string()));
    }
    if let Some(stream) = stream {
        fields.push((view.naming.stream().to_owned(), STREAMS[stream].to_owned()));
    }
    let source = text(policy.source.as_deref()).or_else(|| options.source.clone());
    let sourcetype = text(policy.sourcetype.as_deref()).or_else(|| options.sourcetype.clone());
    let hint = policy
        .product
        .as_deref()
        .and_then(|name| name.split_once('/'));
    ClassInfo {
        index: text(policy.index.as_deref()),
        sourcetype: sourcetype.or_else(named),
        source: Some(source.unwrap_or_else(|| path.to_owned())),
        text: match options.packs || hint.is_some() {
            true => EventText::ByFormat,
            false => EventText::Message,
        },
        fields,
        hint: hint.map(|(vendor, product)| (vendor.to_owned(), product.to_owned())),
        owner: owner(policy),
        ..ClassInfo::default()
    }
}

/// State of a container, for the page.
pub(super) fn state(view: &WorkloadView) -> WorkloadState {
    let [namespace, pod, uid, container] = view.names.clone();
    let streams = STREAMS.iter().zip(&*view.policies);
    WorkloadState {
        namespace,
        workload: view.workload.clone(),
        pod,
        uid,
        container,
        metadata: view.metadata,
        streams: streams
            .map(|(stream, policy)| stream_state(stream, policy))
            .collect(),
        problems: problems(view),
    }
}

/// Annotations that are ignored, and why.
pub(super) fn problems(view: &WorkloadView) -> Vec<String> {
    let mut problems: Vec<String> = Vec::new();
    for problem in view.policies.iter().flat_map(|policy| &policy.problems) {
        let problem = problem.to_string();
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    problems
}

/// Names that the owner gives, whatever packs find.
fn owner(policy: &ContainerPolicy) -> Option<Arc<OwnerNames>> {
    let to = policy.to.as_ref();
    let owner = OwnerNames {
        index: text(policy.index.as_deref()),
        sourcetype: text(policy.sourcetype.as_deref()),
        source: text(policy.source.as_deref()),
        destinations: to.map(|names| names.iter().map(ToString::to_string).collect()),
    };
    (owner != OwnerNames::default()).then(|| Arc::new(owner))
}

fn stream_state(stream: &str, policy: &ContainerPolicy) -> StreamPolicyState {
    let decided = policy.decided_by.iter();
    let to = policy.to.as_ref();
    StreamPolicyState {
        stream: stream.to_owned(),
        index: text(policy.index.as_deref()),
        sourcetype: text(policy.sourcetype.as_deref()),
        to: to.map(|names| names.iter().map(ToString::to_string).collect()),
        excluded: policy.exclude == Some(true),
        rate_bytes: policy.rate_bytes,
        decided_by: decided
            .map(|(key, decision)| PolicyDecision {
                key: key.to_string(),
                place: decision.place.to_string(),
                annotation: decision.annotation.to_string(),
            })
            .collect(),
    }
}
