//! `inrush explain --input cri|docker|lines`: what a file source would make of a log.

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use inrush_config::Config;
use inrush_inspect::explain::log::{self, ExplainedLog, FileFormat, LogTotals};
use inrush_inspect::explain::pod_policy::{OBJECTS_BYTES_MAX, PodName, PodPolicy};
use inrush_inspect::explain::{Explainer, RecordExplanation};

use super::super::{ExplainArgs, UsageError};
use super::human;

/// Uid in the path of a pod whose objects are not given.
const NO_UID: &str = "uid";

/// Explains each event of the log in `input`. The exit code is 0 if all lines are in their form.
pub(super) fn run(
    args: &ExplainArgs,
    config: &Config,
    format: FileFormat,
    input: impl BufRead,
    colour: bool,
    out: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    let chosen = log::file_source(config, args.source.as_deref());
    let (name, source) = chosen.map_err(|words| UsageError(format!("--source: {words}")))?;
    let packs = inrush_ingest::classification::load(&config.packs)?.packs;
    let mut explainer = Explainer::new(name, source, config, &packs)?;
    let pod = args.pod.as_deref().map(PodName::parse).transpose();
    let pod = pod.map_err(|words| UsageError(format!("--pod: {words}")))?;
    let policy = match (&pod, &args.objects) {
        (Some(pod), Some(path)) => Some(policy(path, pod, args.container.as_deref())?),
        _ => None,
    };
    let explained = ExplainedLog {
        path: path(args, pod.as_ref(), policy.as_ref())?,
        format,
        policy: policy.as_ref(),
        fresh: args.fresh,
    };
    match args.json {
        true => write_policy_json(policy.as_ref(), out)?,
        false => human::policy(pod.as_ref(), policy.as_ref(), colour, out)?,
    }
    let mut show = |explained: &RecordExplanation| match args.json {
        true => {
            out.write_all(&explained.to_json()?)?;
            out.write_all(b"\n")
        }
        false => human::write(explained, colour, out),
    };
    let totals = explainer.explain_log((name, source), &explained, input, &mut show);
    let totals = totals.map_err(UsageError)??;
    write_totals(&totals, args.json, out)?;
    Ok(match totals.malformed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn policy(path: &Path, pod: &PodName, container: Option<&str>) -> anyhow::Result<PodPolicy> {
    let read = inrush_files::read_to_string(path, OBJECTS_BYTES_MAX);
    let text = read.with_context(|| format!("{} cannot be read", path.display()))?;
    let policy = PodPolicy::of_objects(&text, pod, container);
    Ok(policy.map_err(|words| UsageError(format!("--objects {}: {words}", path.display())))?)
}

/// Path that the log is said to have: that of the pod, or that of the file which is read.
fn path(
    args: &ExplainArgs,
    pod: Option<&PodName>,
    policy: Option<&PodPolicy>,
) -> anyhow::Result<String> {
    let Some(pod) = pod else {
        let Some(path) = &args.file else {
            return Ok("stdin".to_owned());
        };
        let whole = std::fs::canonicalize(path);
        let whole = whole.with_context(|| format!("{} cannot be read", path.display()))?;
        return Ok(whole.to_string_lossy().into_owned());
    };
    let container = policy.map(|policy| policy.container.as_str());
    let container = container.or(args.container.as_deref()).ok_or_else(|| {
        UsageError("--pod: name the container with --container, or give --objects".to_owned())
    })?;
    let uid = policy.map_or(NO_UID, |policy| &policy.uid);
    let PodName { namespace, name } = pod;
    Ok(format!(
        "/var/log/pods/{namespace}_{name}_{uid}/{container}/0.log"
    ))
}

fn write_policy_json(policy: Option<&PodPolicy>, out: &mut impl Write) -> io::Result<()> {
    let Some(policy) = policy else {
        return Ok(());
    };
    let line = |one: inrush_inspect::explain::pod_policy::PolicyLine| {
        (
            one.key,
            serde_json::json!({ "value": one.value, "from": one.from }),
        )
    };
    let lines: serde_json::Map<_, _> = policy.lines().into_iter().map(line).collect();
    let object = serde_json::json!({
        "container": policy.container,
        "policy": lines,
        "problems": policy.problems(),
    });
    writeln!(out, "{object}")
}

/// Writes the counts behind the last event.
fn write_totals(totals: &LogTotals, json: bool, out: &mut impl Write) -> io::Result<()> {
    let LogTotals {
        lines,
        events,
        joined,
        cut,
        malformed,
        unfinished,
    } = totals;
    if json {
        let totals = serde_json::json!({ "totals": {
            "lines": lines, "events": events, "joined": joined, "cut": cut,
            "malformed": malformed, "unfinished": unfinished,
        }});
        return writeln!(out, "{totals}");
    }
    writeln!(
        out,
        "\n{lines} lines, {events} events: {joined} joined, {cut} cut, {malformed} in another \
         form, {unfinished} without their last piece"
    )
}
