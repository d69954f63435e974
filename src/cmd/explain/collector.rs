//! `inrush explain --input hec`: what a collector would make of a body, and its answer.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use inrush_config::Config;
use inrush_inspect::explain::collector::{self, PreviewedAnswer, PreviewedRequest};
use inrush_inspect::explain::{Explainer, RecordExplanation};

use super::super::{ExplainArgs, UsageError};
use super::human;

/// Explains each event of the body in `input`. The exit code is 0 if the answer has status 200.
pub(super) fn run(
    args: &ExplainArgs,
    config: &Config,
    input: impl BufRead,
    colour: bool,
    out: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    let chosen = collector::collector(config, args.source.as_deref());
    let (name, source) = chosen.map_err(|words| UsageError(format!("--source: {words}")))?;
    let packs = inrush_ingest::classification::load(&config.packs)?.packs;
    let mut explainer = Explainer::new(name, source, config, &packs)?;
    if !args.fresh {
        explainer.group();
    }
    let request = PreviewedRequest {
        token: args.token.as_deref(),
        query: args.query.as_deref().unwrap_or_default(),
        raw: args.raw,
    };
    let mut show = |explained: &RecordExplanation| match args.json {
        true => {
            out.write_all(&explained.to_json()?)?;
            out.write_all(b"\n")
        }
        false => human::write(explained, colour, out),
    };
    let of = (name, source);
    let answer = explainer.explain_body(of, request, args.fresh, input, &mut show);
    let answer = answer.map_err(|words| UsageError(format!("--token: {words}")))??;
    super::write_rest(&explainer.rest(), args.json, out)?;
    write_answer(&answer, args.json, out)?;
    Ok(match answer.status {
        200 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Writes the answer that the client would get.
fn write_answer(answer: &PreviewedAnswer, json: bool, out: &mut impl Write) -> io::Result<()> {
    let PreviewedAnswer { status, body } = answer;
    match json {
        true => writeln!(
            out,
            "{{\"answer\":{{\"status\":{status},\"body\":{body}}}}}"
        ),
        false => writeln!(out, "\nanswer: {status} {body}"),
    }
}
