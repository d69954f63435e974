//! Answers of the collector, and the events that each of them says are indexed.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// One answer. [`Success`](Self::Success) and [`Bad`](Self::Bad) carry an `ackId` if the token has
/// acknowledgement and something was indexed; the others are sent as they stand.
#[derive(Clone, Debug)]
pub enum Reply {
    /// 200 in Splunk's words, everything indexed.
    Success,
    /// 400 in Splunk's form: events before the bad one are indexed. Code 7 has the number of the
    /// object behind it.
    Bad {
        /// Splunk's code.
        code: u32,
        /// `invalid-event-number`.
        number: u64,
        /// Splunk's words.
        text: &'static str,
    },
    /// Status and body; indexed is what the body says, as Splunk means it.
    Status(u16, String),
    /// Status and body of a collector that indexed this many events, whatever the body says.
    Indexing(usize, u16, String),
    /// Status, `Retry-After` and body; nothing is indexed.
    Later {
        /// HTTP status.
        status: u16,
        /// `Retry-After`.
        seconds: u64,
        /// Body, which may be empty.
        body: &'static str,
    },
    /// No answer, ever.
    Hang,
}

impl Reply {
    /// Status and body; see [`Status`](Self::Status).
    pub fn status(status: u16, body: &str) -> Self {
        Self::Status(status, body.to_owned())
    }

    /// An answer in Splunk's form.
    pub fn code(status: u16, code: u32, text: &str) -> Self {
        Self::Status(status, format!(r#"{{"text":"{text}","code":{code}}}"#))
    }

    /// A [`Bad`](Self::Bad) with the text `no`.
    pub fn named(code: u32, number: u64) -> Self {
        let text = "no";
        Self::Bad { code, number, text }
    }

    /// 400 with this code and number, of a collector that indexed so many events.
    pub fn partly(code: u32, number: Option<u64>, indexed: usize) -> Self {
        let mut body = json!({ "text": "no", "code": code });
        if let Some(number) = number {
            body["invalid-event-number"] = number.into();
        }
        Self::Indexing(indexed, 400, body.to_string())
    }

    /// 200 with this body, of a collector that indexed everything.
    pub fn taken(body: &str) -> Self {
        Self::Indexing(usize::MAX, 200, body.to_owned())
    }

    /// This status with `Retry-After` and no body.
    pub fn later(status: u16, seconds: u64) -> Self {
        let body = "";
        Self::Later {
            status,
            seconds,
            body,
        }
    }

    /// 503 with code 9 and `Retry-After`, as of a busy Splunk.
    pub fn busy(seconds: u64) -> Self {
        Self::Later {
            status: 503,
            seconds,
            body: r#"{"text":"Server is busy","code":9}"#,
        }
    }

    /// [`Success`](Self::Success), or the first bad event by its code and text.
    pub(crate) fn judge(
        events: &[Value],
        bad: impl Fn(&Value) -> Option<(u32, &'static str)>,
    ) -> Self {
        let mut events = events.iter().enumerate();
        let found = events.find_map(|(at, event)| Some((at as u64, bad(event)?)));
        found.map_or(Self::Success, |(at, (code, text))| {
            // For a wrong index Splunk names the object behind the bad one.
            let number = at + u64::from(code == 7);
            Self::Bad { code, number, text }
        })
    }

    /// Number of indexed events, of so many in the request.
    pub(crate) fn indexed(&self, events: usize) -> usize {
        let indexed = match self {
            Self::Success => events,
            Self::Bad { code, number, .. } => before(u64::from(*code), *number),
            Self::Status(status, body) => said(*status, body, events),
            Self::Indexing(indexed, ..) => *indexed,
            Self::Later { .. } | Self::Hang => 0,
        };
        indexed.min(events)
    }

    /// True if Splunk would add an `ackId`.
    pub(crate) fn takes_ack(&self) -> bool {
        matches!(self, Self::Success | Self::Bad { .. })
    }

    /// HTTP status; 0 for no answer.
    pub(crate) fn http_status(&self) -> u16 {
        match self {
            Self::Success => 200,
            Self::Bad { .. } => 400,
            Self::Status(status, _) | Self::Indexing(_, status, _) | Self::Later { status, .. } => {
                *status
            }
            Self::Hang => 0,
        }
    }

    /// The HTTP response, which never comes for [`Hang`](Self::Hang).
    pub(crate) async fn respond(self, ack: Option<u64>) -> Response {
        let splunk = |mut body: Value| {
            if let Some(id) = ack {
                body["ackId"] = id.into();
            }
            body.to_string()
        };
        let status = StatusCode::from_u16(self.http_status());
        match self {
            Self::Success => splunk(json!({ "text": "Success", "code": 0 })).into_response(),
            Self::Bad { code, number, text } => {
                let body = json!({ "text": text, "code": code, "invalid-event-number": number });
                (status.unwrap(), splunk(body)).into_response()
            }
            Self::Status(_, body) | Self::Indexing(_, _, body) => {
                (status.unwrap(), body).into_response()
            }
            Self::Later { seconds, body, .. } => {
                let header = [("retry-after", seconds.to_string())];
                (status.unwrap(), header, body).into_response()
            }
            Self::Hang => std::future::pending().await,
        }
    }
}

/// Number of events before the bad one that Splunk names.
fn before(code: u64, number: u64) -> usize {
    let before = match code {
        6 | 12 | 13 | 15 => number,
        7 => number.saturating_sub(1),
        _ => 0,
    };
    before as usize
}

/// Number of events that a body says are indexed.
fn said(status: u16, body: &str, events: usize) -> usize {
    let json: Value = serde_json::from_str(body).unwrap_or_default();
    let number = json["invalid-event-number"].as_u64();
    match (status, json["code"].as_u64(), number) {
        (200, Some(0 | 24 | 25), _) if json["text"].is_string() => events,
        (400, Some(code), Some(number)) => before(code, number),
        _ => 0,
    }
}
