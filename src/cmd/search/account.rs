//! Account of an answer on stderr: what is not shown, what lies in the future, and where was looked
//! if nothing was found.

use inrush_query::when;
use inrush_store::reply::{SearchPlan, SearchReply, SearchSummary, StopReason};

use super::print::plain;
use crate::cmd::SearchArgs;

/// Counts of an answer while it is printed.
#[derive(Default)]
pub(super) struct AnswerAccount {
    plan: Option<SearchPlan>,
    events: u64,
    rows: u64,
    is_table: bool,
}

impl AnswerAccount {
    /// Takes note of a reply.
    pub(super) fn note(&mut self, reply: &SearchReply) {
        match reply {
            SearchReply::Plan(plan) => self.plan = Some(plan.clone()),
            SearchReply::Event(_) => self.events += 1,
            SearchReply::Row(_) => self.rows += 1,
            SearchReply::Table(_) => self.is_table = true,
            _ => {}
        }
    }

    /// Tells what a reader of the answer could miss. `asked` is none for a statement in SQL, which
    /// chooses its own range.
    pub(super) fn tell(&self, end: &SearchSummary, asked: Option<&SearchArgs>) {
        if end.stopped == Some(StopReason::Limit) {
            eprintln!("inrush: {}", self.cut(end));
        }
        let Some(asked) = asked else {
            return;
        };
        if let Some(future @ 1..) = end.future {
            let events = plural(future, "event is", "events are");
            eprintln!(
                "inrush: {events} dated in the future and not among these; \
                 `--since now --until all` shows them"
            );
        }
        if self.events + self.rows == 0 && end.stopped.is_none() {
            self.tell_nothing(asked);
        }
    }

    /// Words for an answer that is cut: how much of what is shown.
    fn cut(&self, end: &SearchSummary) -> String {
        let (shown, all, what) = match self.is_table {
            true => (self.rows, end.rows.unwrap_or_default(), "rows"),
            false => (self.events, end.matched, "events"),
        };
        let first = if self.is_table { "first " } else { "" };
        let of = match (all > shown, end.rows_more) {
            (true, false) => format!(" of {all}"),
            (true, true) => format!(" of more than {all}"),
            (false, _) => String::new(),
        };
        format!("only the {first}{shown}{of} {what} are shown; `--limit` shows more")
    }

    fn tell_nothing(&self, asked: &SearchArgs) {
        let since = asked.since.as_deref().unwrap_or(super::SINCE_DEFAULT);
        let range = match &self.plan {
            Some(plan) if since != "all" => {
                let shown = |ms: i64| when::shown(ms.saturating_mul(1_000_000));
                format!(
                    "from {} to {} (--since {})",
                    shown(plan.from_ms),
                    shown(plan.to_ms),
                    plain(since)
                )
            }
            _ => "at any time".to_owned(),
        };
        eprintln!("inrush: no event matches {range}");
        for hint in self.plan.iter().flat_map(|plan| &plan.hints) {
            eprintln!("  {}", plain(hint));
        }
    }
}

fn plural(number: u64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {many}"),
    }
}
