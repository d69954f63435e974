//! Questions to the stored events: `GET /api/v1/search`, `/sql`, `/export` and `/tail`.
//!
//! The answers come from a [`Searcher`], which the binary brings: this room knows neither files nor
//! engines. Each is written as it comes, one JSON object a line; a reader that goes away ends its
//! search, one that reads nothing for [`ServerLimits::connection`](crate::ServerLimits) is cut off.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, FromRequestParts, Query, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures_util::{Stream, StreamExt};
use inrush_event::Timestamp;
use inrush_query::when;
use inrush_store::reply::{SearchError, SearchReply};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::api::problem;
use crate::serve::StreamProgress;

mod export;

/// Events of an export that names no `limit`.
const EXPORT_DEFAULT: u64 = 100_000;
const BUCKETS_DEFAULT: u32 = 60;
/// Time before now at which a search begins that names no `since`.
const SINCE_DEFAULT: &str = "15m";

/// An answer, as it comes.
pub type SearchReplies = Pin<Box<dyn Stream<Item = SearchReply> + Send>>;

/// A question in the query language.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SearchQuery {
    /// As it was typed.
    pub query: String,
    /// The earliest time, in nanoseconds since 1970; [`i64::MIN`] for no bound.
    pub from_ns: i64,
    /// The time before which all lie; [`i64::MAX`] for no bound.
    pub to_ns: i64,
    /// Events or rows at most; none for 200 events, or 10,000 rows of a table.
    pub limit: Option<u64>,
    /// Bars of the histogram at most; 0 for none.
    pub buckets: u32,
    /// True if the fields of what was found are summed up.
    pub fields: bool,
    /// True if the range ends when the search begins, and the events that are dated later are
    /// counted as well.
    pub future: bool,
    /// The destination whose store is asked; the first store otherwise.
    pub store: Option<String>,
}

/// Answers questions about stored events.
pub trait Searcher: Send + Sync {
    /// Answers a question in the query language.
    ///
    /// # Errors
    /// The query cannot be read, or there is no store.
    fn search(&self, question: SearchQuery) -> Result<SearchReplies, SearchError>;

    /// Answers a statement in SQL over the table `events`, with so many rows at most.
    ///
    /// # Errors
    /// There is no store. What is wrong with the statement is in the answer.
    fn sql(&self, statement: &str, limit: u64) -> Result<SearchReplies, SearchError>;

    /// Every event from now on that meets a query without functions. What the reader is too slow
    /// for is left out and counted, as `matched` of an `end` that is followed by more.
    ///
    /// # Errors
    /// As for [`Self::search`].
    fn tail(&self, query: &str) -> Result<SearchReplies, SearchError>;
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchParams {
    #[serde(default)]
    q: String,
    since: Option<String>,
    until: Option<String>,
    limit: Option<u64>,
    buckets: Option<u32>,
    store: Option<String>,
    format: Option<export::ExportFormat>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SqlParams {
    q: String,
    limit: Option<u64>,
}

type SharedSearcher = Arc<dyn Searcher>;

/// Parameters of the address, or the answer that says what is wrong there.
struct ValidQuery<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for ValidQuery<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(error) => Err(problem(StatusCode::BAD_REQUEST, &error.body_text())),
        }
    }
}

/// The endpoints, below `/api/v1`.
pub(crate) fn router(searcher: SharedSearcher) -> Router {
    Router::new()
        .route("/api/v1/search", get(search))
        .route("/api/v1/sql", get(sql))
        .route("/api/v1/tail", get(tail))
        .route("/api/v1/export", get(export))
        .with_state(searcher)
}

impl SearchParams {
    fn question(self, limit: Option<u64>, whole: bool) -> Result<SearchQuery, SearchError> {
        let now = Timestamp::now().0;
        let time = |text: &str| {
            when::time(text, now).ok_or_else(|| SearchError {
                message: format!("{text:?} is no time"),
                hint: Some(when::TIMES.to_owned()),
                ..SearchError::default()
            })
        };
        let since = self.since.as_deref().unwrap_or(SINCE_DEFAULT);
        let from_ns = if since == "all" {
            i64::MIN
        } else {
            time(since)?
        };
        let to_ns = match self.until.as_deref() {
            Some("all") => i64::MAX,
            Some(until) => time(until)?,
            // A range ends now: one clock that is ahead must not fill the answer.
            None if from_ns == i64::MIN => i64::MAX,
            None => now,
        };
        let ends_now = self.until.is_none() && to_ns == now;
        Ok(SearchQuery {
            query: self.q,
            from_ns,
            to_ns,
            limit: self.limit.or(limit),
            buckets: if whole {
                self.buckets.unwrap_or(BUCKETS_DEFAULT)
            } else {
                0
            },
            fields: whole,
            future: whole && ends_now,
            store: self.store,
        })
    }
}

async fn search(
    State(searcher): State<SharedSearcher>,
    Extension(stay): Extension<StreamProgress>,
    ValidQuery(asked): ValidQuery<SearchParams>,
) -> Response {
    let answer = asked
        .question(None, true)
        .and_then(|question| searcher.search(question));
    lines(answer, stay)
}

async fn sql(
    State(searcher): State<SharedSearcher>,
    Extension(stay): Extension<StreamProgress>,
    ValidQuery(asked): ValidQuery<SqlParams>,
) -> Response {
    let limit = asked.limit.unwrap_or(u64::MAX);
    lines(searcher.sql(&asked.q, limit), stay)
}

async fn export(
    State(searcher): State<SharedSearcher>,
    Extension(stay): Extension<StreamProgress>,
    ValidQuery(asked): ValidQuery<SearchParams>,
) -> Response {
    let format = asked.format.unwrap_or_default();
    let answer = asked
        .question(Some(EXPORT_DEFAULT), false)
        .and_then(|question| searcher.search(question));
    match answer {
        Ok(replies) => export::download(format, replies, stay),
        Err(failure) => refused(failure),
    }
}

async fn tail(
    State(searcher): State<SharedSearcher>,
    Extension(stay): Extension<StreamProgress>,
    ValidQuery(asked): ValidQuery<SearchParams>,
) -> Response {
    let replies = match searcher.tail(&asked.q) {
        Ok(replies) => replies,
        Err(failure) => return refused(failure),
    };
    let messages = replies.filter_map(move |reply| {
        stay.gets_on();
        let message = match &reply {
            SearchReply::Event(event) => serde_json::to_string(event)
                .ok()
                .map(|json| format!("data: {json}\n\n")),
            SearchReply::End(end) => Some(format!(
                "event: lag\ndata: {{\"dropped\":{}}}\n\n",
                end.matched
            )),
            // Nothing happened for a while: proxies and browsers see that somebody is there.
            SearchReply::Progress(_) => Some(":\n\n".to_owned()),
            _ => None,
        };
        std::future::ready(message.map(|text| Ok::<_, Infallible>(Bytes::from(text))))
    });
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    (kind, Body::from_stream(messages)).into_response()
}

/// An answer as lines of JSON.
fn lines(answer: Result<SearchReplies, SearchError>, stay: StreamProgress) -> Response {
    let replies = match answer {
        Ok(replies) => replies,
        Err(failure) => return refused(failure),
    };
    // Several objects go out at once where several are there: a frame of HTTP for each would cost
    // more than the object.
    let chunks = replies.ready_chunks(64).map(move |replies| {
        stay.gets_on();
        let mut text = Vec::new();
        for reply in &replies {
            if serde_json::to_writer(&mut text, reply).is_ok() {
                text.push(b'\n');
            }
        }
        Ok::<_, Infallible>(Bytes::from(text))
    });
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    (kind, Body::from_stream(chunks)).into_response()
}

fn refused(failure: SearchError) -> Response {
    (StatusCode::BAD_REQUEST, Json(SearchReply::Error(failure))).into_response()
}
