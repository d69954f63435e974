//! `inrush search` and what it shares with `inrush sql`: where answers come from, and how they end.

mod account;
mod files;
mod print;
mod process;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use inrush_event::Timestamp;
use inrush_query::sql::{QueryRange, translate};
use inrush_query::{self as query, when};
use inrush_search::SearchRequest;
use inrush_store::reply::{SearchError, SearchReply, SearchSummary, StopReason};
use signal_hook::consts::SIGINT;

use super::configuration::ConfigArg;
use super::{SearchArgs, SqlArgs, UsageError};
use account::AnswerAccount;
use files::FilesBackend;
use print::{JsonPrinter, ReplyPrinter, TextPrinter};

pub(crate) use process::ProcessBackend;

/// Since when, unless something else is asked for.
const SINCE_DEFAULT: &str = "15m";

/// An answer, as it comes.
type ReplyIterator<'a> = Box<dyn Iterator<Item = SearchReply> + 'a>;

/// Whoever can be asked: the store's files, or a process that runs.
trait SearchBackend {
    /// Answers a question in the query language.
    fn search(&self, request: SearchRequest) -> Result<ReplyIterator<'_>, SearchError>;

    /// Answers a statement in SQL with so many rows at most.
    fn sql(&self, statement: &str, limit: u64) -> Result<ReplyIterator<'_>, SearchError>;
}

/// Searches.
pub(crate) fn run(args: &SearchArgs) -> anyhow::Result<ExitCode> {
    let request = request(args)?;
    if args.explain {
        return explain(&request);
    }
    let searcher = searcher(&args.config)?;
    let replies = searcher.search(request);
    let replies = replies.map_err(|failure| wrong(&failure, &args.query))?;
    answer(replies, args.json, Some(args))
}

/// Answers a statement in SQL.
pub(crate) fn sql(args: &SqlArgs) -> anyhow::Result<ExitCode> {
    let searcher = searcher(&args.config)?;
    let replies = searcher.sql(&args.statement, args.limit);
    let replies = replies.map_err(|failure| wrong(&failure, &args.statement))?;
    answer(replies, args.json, None)
}

/// The process that runs, or the files where none does.
fn searcher(config: &ConfigArg) -> anyhow::Result<Box<dyn SearchBackend>> {
    let config = config.load()?;
    match ProcessBackend::find(&config) {
        Some(process) => Ok(Box::new(process)),
        None => Ok(Box::new(FilesBackend::open(&config)?)),
    }
}

fn request(args: &SearchArgs) -> anyhow::Result<SearchRequest> {
    let now = Timestamp::now().0;
    let time = |text: &str| {
        let message = || format!("{text:?} is no time: {}", when::TIMES);
        when::time(text, now).ok_or_else(|| UsageError(message()))
    };
    let since = args.since.as_deref().unwrap_or(SINCE_DEFAULT);
    let mut request = SearchRequest::new(args.query.as_str());
    if since != "all" {
        request.from_ns = time(since)?;
    }
    match args.until.as_deref() {
        Some("all") => {}
        Some(until) => request.to_ns = time(until)?,
        // A range ends now: one clock that is ahead must not fill the answer.
        None if since != "all" => {
            request.to_ns = now;
            request.future = true;
        }
        None => {}
    }
    request.limit = args.limit;
    // Neither is printed, and both cost reading.
    request.buckets = 0;
    request.fields = false;
    Ok(request)
}

/// Prints the SQL of a query, which nobody has to answer.
fn explain(request: &SearchRequest) -> anyhow::Result<ExitCode> {
    let query = query::parse(&request.query);
    let query = query.map_err(|error| wrong(&error.into(), &request.query))?;
    let range = QueryRange {
        from_ns: request.from_ns,
        to_ns: request.to_ns,
        limit: request.limit_of(&query),
    };
    writeln!(
        std::io::stdout().lock(),
        "{}",
        translate(&query, &range).sql
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Error of a question that is wrong, pointing at the place; or the reason why nobody answers it.
pub(crate) fn wrong(failure: &SearchError, question: &str) -> anyhow::Error {
    let mut text = print::plain(&failure.message);
    if failure.column.is_none() {
        return anyhow::anyhow!(text);
    }
    if let Some(column) = failure.column {
        let question: String = question.chars().map(print::one_line).collect();
        let carets = "^".repeat(failure.length.unwrap_or(1).max(1));
        let before = " ".repeat(column.saturating_sub(1));
        text.push_str(&format!("\n  {question}\n  {before}{carets}"));
    }
    if let Some(hint) = &failure.hint {
        text.push_str(&format!("\n  {}", print::plain(hint)));
    }
    UsageError(text).into()
}

/// Prints an answer as it comes; an interrupt ends it. `asked` is the search that it answers.
fn answer(
    replies: ReplyIterator<'_>,
    json: bool,
    asked: Option<&SearchArgs>,
) -> anyhow::Result<ExitCode> {
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGINT, Arc::clone(&interrupted))?;
    let out = std::io::stdout().lock();
    let interactive = std::io::stderr().is_terminal();
    let mut shown: Box<dyn ReplyPrinter> = if json {
        Box::new(JsonPrinter::new(out))
    } else {
        Box::new(TextPrinter::new(out))
    };
    let mut end = None;
    let mut account = AnswerAccount::default();
    for reply in replies {
        if interrupted.load(Relaxed) {
            break;
        }
        match reply {
            SearchReply::Progress(progress) if interactive => print::progress(&progress),
            SearchReply::Error(failure) => {
                print::no_progress(interactive);
                anyhow::bail!("{}", print::plain(&failure.message));
            }
            SearchReply::End(last) => end = Some(last),
            reply => {
                account.note(&reply);
                print::no_progress(interactive);
                shown.show(reply)?;
            }
        }
    }
    print::no_progress(interactive);
    shown.finish()?;
    if let Some(end) = &end {
        account.tell(end, asked);
    }
    Ok(ended(end, interactive))
}

/// Says how it ended where that matters, and how the process ends for it.
fn ended(end: Option<SearchSummary>, interactive: bool) -> ExitCode {
    let Some(end) = end else {
        eprintln!("inrush: cancelled");
        return ExitCode::FAILURE;
    };
    for aside in &end.set_aside {
        let (path, reason) = (print::plain(&aside.path), print::plain(&aside.reason));
        eprintln!("inrush: {path} cannot be read and was left out: {reason}");
    }
    let seconds = end.elapsed_ms as f64 / 1000.0;
    let cost = &end.cost;
    let bytes = cost.bytes_scanned >> 20;
    let looked = format!("{} events and {bytes} MiB read", cost.events_scanned);
    let incomplete = match end.stopped {
        Some(StopReason::Time) => {
            format!("stopped after {seconds:.1} s: {looked}; narrow the time")
        }
        Some(StopReason::Memory) => {
            let memory = cost.memory_bytes >> 20;
            format!("stopped at {memory} MiB of memory: {looked}; ask for fewer groups or columns")
        }
        Some(StopReason::Cancelled) => "cancelled".to_owned(),
        Some(StopReason::Limit) | None => String::new(),
    };
    if !incomplete.is_empty() {
        eprintln!("inrush: {incomplete}");
        return ExitCode::FAILURE;
    }
    if interactive {
        eprintln!("{} found in {seconds:.2} s, {looked}", end.matched);
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_points_at_the_place() {
        let error = query::parse("a\tsorcetype=x").unwrap_err();
        let shown = wrong(&error.into(), "a\tsorcetype=x").to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1], "  a sorcetype=x");
        assert_eq!(lines[2], "    ^^^^^^^^^");
        assert!(lines[3].contains("`sourcetype`"), "{shown}");
    }
}
