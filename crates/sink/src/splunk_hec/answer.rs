//! HEC answer rules: the next action for each HTTP answer, as functions without I/O.
//!
//! # What it guarantees
//! * Only a success takes a whole request: codes 0, 24 and 25, a bare 200, a configured body.
//! * A 400 that names a bad event takes the events before it.
//! * An answer that leaves open how much was indexed has all sent again: some twice, none lost.
//! * The index of a bad or suspected event is always below the number of events in the request.
//! * Any bytes are accepted, as the fuzz target `hec_answer` checks.
//! * The clock is read for a `Retry-After` that is a date, and for nothing else.
//!
//! # Limits
//! `RETRY_AFTER_MAX` bounds the wait that a collector may ask for. `WORDS_CHARS` and `KIND_CHARS`
//! cut the texts of strangers; HEC's own `text` is not cut here.

use std::time::Duration;

use serde_json::Value;

use crate::ErrorReason;

/// The longest `Retry-After` that is obeyed.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// Characters of a body that is no JSON that are shown.
const WORDS_CHARS: usize = 200;

/// Characters of a `Content-Type` that are shown.
const KIND_CHARS: usize = 60;

/// HEC's codes are below this; what proxies write as `code` is mostly a status.
const CODES_END: u64 = 100;

/// Action on the request that was answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// All events are taken.
    Taken,
    /// Send the same again, elsewhere or after a pause.
    Retry {
        /// Reason, for the counters.
        reason: ErrorReason,
        /// Wait that the collector asks for, if any.
        after: Option<Duration>,
    },
    /// A person has to mend something: send the same again, slowly.
    Hold(ErrorReason),
    /// Too much at once: halve it. A single event that is too much is refused.
    Halve,
    /// The event at this index is refused, those before it are taken, those after it are not.
    Event(usize),
    /// The index of the event at this place is not taken, or of the one behind it; those before it
    /// are taken, those after it are not.
    Index(usize),
    /// Some event is bad. Look at it alone if one is suspected, else halve.
    Search {
        /// The index of the suspect.
        suspect: Option<usize>,
        /// True if the collector does not take the index of some event.
        wrong_index: bool,
    },
}

/// An answer in the collector's own words.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct AnswerDetail {
    /// `code` of the answer, 0 without one.
    pub(super) code: u32,
    /// `text` of the answer, or the start of whatever the body was.
    pub(super) text: String,
    /// True if it is HEC's: a stranger's refusal may be about anything.
    pub(super) hec: bool,
    /// `ackId` of the answer: what was taken is confirmed under this number.
    pub(super) ack: Option<u64>,
}

/// True if the collector says that it has, or soon will have, more than it can take.
pub(super) fn is_busy(status: u16, code: u32) -> bool {
    // 24 and 25 come with a 200.
    status == 429 || matches!(code, 9 | 24..=27)
}

/// The ids that an answer to a question for acknowledgements confirms:
/// `{"acks":{"0":true,"1":false}}`; `None` for an answer that is not HEC's.
pub(super) fn confirmed(body: &[u8]) -> Option<Vec<u64>> {
    let json: Value = serde_json::from_slice(body).ok()?;
    let acks = json.get("acks")?.as_object()?;
    let ids = acks
        .iter()
        .filter(|(_, indexed)| **indexed == Value::Bool(true))
        .filter_map(|(id, _)| id.parse().ok());
    Some(ids.collect())
}

/// An answer as it came.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RawAnswer<'a> {
    /// HTTP status.
    pub(super) status: u16,
    /// `Retry-After`.
    pub(super) retry_after: Option<&'a str>,
    /// `Content-Type`.
    pub(super) content_type: Option<&'a str>,
    /// As far as it was read.
    pub(super) body: &'a [u8],
    /// Reason for which the body has no end, if it has none.
    pub(super) broken: Option<&'a str>,
}

impl RawAnswer<'_> {
    /// True if it says 200 and nothing else. A portal's or a proxy's answer has a page, or the type
    /// of one.
    fn is_bare_200(&self) -> bool {
        let is_page = |kind: &str| kind.to_ascii_lowercase().contains("html");
        self.status == 200
            && self.body.is_empty()
            && self.broken.is_none()
            && !self.content_type.is_some_and(is_page)
    }
}

/// Judges an answer to a request of `events`. Bodies of `success` count as HEC's own
/// `{"text":"Success","code":0}` does.
pub(super) fn judge(
    heard: RawAnswer<'_>,
    events: usize,
    success: &[String],
) -> (Action, AnswerDetail) {
    let json: Option<Value> = serde_json::from_slice(heard.body).ok();
    let code = json.as_ref().and_then(|json| json.get("code")?.as_u64());
    let number = json
        .as_ref()
        .and_then(|json| json.get("invalid-event-number")?.as_u64());
    let mut words = words(json.as_ref(), code, heard.body);
    let after = heard.retry_after.and_then(wait_asked);
    let retry = |reason| Action::Retry { reason, after };
    let action = match heard.status {
        200..=299 => {
            let action = judge_2xx(&heard, json.as_ref(), success, after);
            if action != Action::Taken {
                words.text = otherwise(&heard, &words);
            }
            action
        }
        400 => judge_400(code, number.and_then(|n| usize::try_from(n).ok()), events),
        401 | 403 => Action::Hold(ErrorReason::Http401And403),
        404 => Action::Hold(ErrorReason::Http404),
        408 => retry(ErrorReason::Timeout),
        413 => Action::Halve,
        429 => retry(ErrorReason::Http429),
        500..=599 => retry(ErrorReason::Http5xx),
        _ => Action::Hold(ErrorReason::HttpOther),
    };
    (action, words)
}

/// Judges a 2xx. Whoever is on the way (a portal, a proxy's page, the wrong port) may give one:
/// only who says in HEC's words that the events are taken has taken them.
///
/// ```text
/// {"text":"…","code":N}   0, 24, 25     taken
///                         9, 23, 26, 27 not taken, again later
///                         others        held
/// a body of `success`                   taken
/// a 200 with nothing, and no page       taken: receivers that are not Splunk's answer so
/// anything else, or none                held
/// ```
fn judge_2xx(
    heard: &RawAnswer<'_>,
    json: Option<&Value>,
    success: &[String],
    after: Option<Duration>,
) -> Action {
    let says_text = json.is_some_and(|json| json.get("text").is_some_and(Value::is_string));
    let code = json.and_then(|json| json.get("code")?.as_u64());
    let reason = ErrorReason::BadAnswer;
    match code.filter(|_| says_text) {
        Some(0 | 24 | 25) => Action::Taken,
        _ if heard.is_bare_200() => Action::Taken,
        _ if heard.broken.is_none() && is_one_of(heard.body, success) => Action::Taken,
        Some(9 | 23 | 26 | 27) => Action::Retry { reason, after },
        _ => Action::Hold(reason),
    }
}

/// True if a body is one of these, whitespace around it aside; one that ends with `*` is the
/// beginning of a body.
fn is_one_of(body: &[u8], these: &[String]) -> bool {
    let body = body.trim_ascii();
    let is = |text: &String| match text.strip_suffix('*') {
        Some(beginning) => body.starts_with(beginning.as_bytes()),
        None => body == text.trim_ascii().as_bytes(),
    };
    these.iter().any(is)
}

/// A 2xx that took nothing, in words.
fn otherwise(heard: &RawAnswer<'_>, words: &AnswerDetail) -> String {
    let kind = heard.content_type.unwrap_or("no content type");
    let kind: String = kind.chars().take(KIND_CHARS).collect();
    match heard.broken {
        Some(why) => format!(
            "the answer broke off after {} bytes: {why}",
            heard.body.len()
        ),
        None if heard.body.is_empty() => format!("not HEC's answer ({kind}): it is empty"),
        None if words.code != 0 => format!("not a success: code {}: {}", words.code, words.text),
        None => format!("not HEC's answer ({kind}): {}", words.text),
    }
}

/// Judges a 400 to a request of `events`; objects are numbered from 0. Splunk Enterprise 10.4.3 and
/// Splunk Cloud 10.5 were seen to do as the first two rows say. Where it is not known what was
/// indexed, all is sent again: some of it may be indexed twice, none is lost.
///
/// ```text
/// code                 number N       indexed are        so
/// 6 12 13 15           below events   those before N     N is refused, the rest sent
/// 7                    1 to events    those before N-1   N-1's index is wrong; where N has
///                                                        another one, N-1 is first sent alone, for
///                                                        a collector that means N by N
/// 7                    0              none               0 is sent alone, then the rest
/// 6 7 12 13 15         none, beyond   not known          halved until the bad one is alone
/// 10 11 14 16 21 22 28 any            none               held: a setting is wrong
/// others               below events   not known          N is sent alone, all others too
/// others               none, beyond   not known          halved until the bad one is alone
/// ```
fn judge_400(code: Option<u64>, number: Option<usize>, events: usize) -> Action {
    let named = number.filter(|n| *n < events);
    match (code, named) {
        // Missing or bad channel, no acknowledgements, no token in the query, bad or disabled
        // token, missing channel (Cloud): a setting, whatever the events.
        (Some(10 | 11 | 14 | 16 | 21 | 22 | 28), _) => Action::Hold(ErrorReason::Http400),
        // Invalid format, no event, blank event, bad indexed fields.
        (Some(6 | 12 | 13 | 15), Some(index)) => Action::Event(index),
        // Incorrect index: the number is that of the object after the bad one.
        (Some(7), _) => match number.and_then(|n| n.checked_sub(1)) {
            Some(bad) if bad < events => Action::Index(bad),
            _ => Action::Search {
                suspect: named,
                wrong_index: true,
            },
        },
        (_, suspect) => Action::Search {
            suspect,
            wrong_index: false,
        },
    }
}

pub(super) fn words(json: Option<&Value>, code: Option<u64>, body: &[u8]) -> AnswerDetail {
    let text = match json.and_then(|json| json.get("text")?.as_str()) {
        Some(text) => text.to_owned(),
        None => String::from_utf8_lossy(body)
            .chars()
            .take(WORDS_CHARS)
            .collect(),
    };
    AnswerDetail {
        code: code.and_then(|code| u32::try_from(code).ok()).unwrap_or(0),
        text,
        hec: code.is_some_and(|code| code < CODES_END),
        ack: json.and_then(|json| json.get("ackId")?.as_u64()),
    }
}

/// Reads `Retry-After`: seconds, or a date (RFC 9110 section 10.2.3).
fn wait_asked(header: &str) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<u64>() {
        return Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(header)
        .ok()?;
    let wait = Duration::try_from(date.duration_since(jiff::Timestamp::now())).unwrap_or_default();
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, retry_after: Option<&str>, body: &[u8]) -> (Action, AnswerDetail) {
        let heard = RawAnswer {
            status,
            retry_after,
            body,
            ..RawAnswer::default()
        };
        judge(heard, 10, &[])
    }

    /// As the fuzzer does it, with what it would have to find first.
    #[test]
    fn every_answer_keeps_the_laws() {
        use super::super::answer_laws::check;
        let bodies = [
            r#"{"text":"Success","code":0,"ackId":18446744073709551616}"#,
            r#"{"acks":{"0":true,"-1":true,"1":1}}"#,
            r#"{"text":"x","code":6,"invalid-event-number":18446744073709551615}"#,
            r#"{"text":"x","code":7,"invalid-event-number":128}"#,
            "a=b\nc=\u{1b}d\ne=f; Path=/services",
            "",
        ];
        for status in 0..18 {
            for events in [0, 1, 127, 128, 255] {
                for body in bodies {
                    for header in ["", "7", "a=b; Max-Age=-1", "99999999999999999999"] {
                        let mut input = vec![status, events];
                        input.extend_from_slice(format!("{header}\n{body}").as_bytes());
                        check(&input);
                        check(&input[..input.len() - body.len() / 2]);
                    }
                }
            }
        }
    }

    #[test]
    fn a_2xx_that_took_nothing_is_named_and_other_receivers_can_be_allowed() {
        let heard = |body| RawAnswer {
            status: 200,
            content_type: Some("text/html"),
            body,
            ..RawAnswer::default()
        };
        let said = |heard| judge(heard, 10, &[]).1.text;
        let page = said(heard(b"<html>Welcome</html>"));
        assert_eq!(page, "not HEC's answer (text/html): <html>Welcome</html>");
        let bare = RawAnswer {
            content_type: None,
            ..heard(b"")
        };
        assert_eq!(judge(bare, 10, &[]).0, Action::Taken);
        let empty = said(heard(b""));
        assert_eq!(empty, "not HEC's answer (text/html): it is empty");
        let other = said(heard(br#"{"text":"No","code":4}"#));
        assert_eq!(other, "not a success: code 4: No");
        let broken = |body| RawAnswer {
            broken: Some("reset"),
            ..heard(body)
        };
        let cut = said(broken(b"{\"text\""));
        assert_eq!(cut, "the answer broke off after 7 bytes: reset");
        let whole = judge(broken(br#"{"text":"Success","code":0}"#), 10, &[]).0;
        assert_eq!(whole, Action::Taken, "it was said all the same");
        let allowed = ["OK".to_owned(), "{\"status\":*".to_owned()];
        for (body, taken) in [
            (&b"OK\r\n"[..], true),
            (b"{\"status\":\"success\"}", true),
            (b"<html>OK</html>", false),
            (b"", false),
        ] {
            let action = judge(heard(body), 10, &allowed).0;
            assert_eq!(action == Action::Taken, taken, "{action:?}");
        }
        assert_eq!(judge(heard(b""), 10, &[String::new()]).0, Action::Taken);
        let cut = judge(broken(b""), 10, &[String::new()]).0;
        assert_ne!(cut, Action::Taken);
    }

    #[test]
    // tidy: long because it is one table, a row a case
    fn every_answer_has_its_action() {
        use Action::{Event, Halve, Hold, Index, Taken};
        let retry = |reason, seconds: Option<u64>| Action::Retry {
            reason,
            after: seconds.map(Duration::from_secs),
        };
        let search = |suspect, wrong_index| Action::Search {
            suspect,
            wrong_index,
        };
        let hold = Hold(ErrorReason::Http400);
        let bad = Hold(ErrorReason::BadAnswer);
        for (status, after, body, want) in [
            (200, None, r#"{"text":"Success","code":0}"#, Taken),
            (
                200,
                None,
                r#"{"text":"queue is approaching","code":24}"#,
                Taken,
            ),
            (200, None, "<html>hello</html>", bad.clone()),
            (200, None, "", Taken),
            (204, None, "", bad.clone()),
            (201, None, r#"{"text":"Success","code":0}"#, Taken),
            (202, None, "{}", bad.clone()),
            (206, None, r#"{"text":"Succ"#, bad.clone()),
            (200, None, r#"{"code":0,"msg":"ok"}"#, bad.clone()),
            (200, None, r#"{"text":"Success"}"#, bad.clone()),
            (200, None, r#"{"text":"Success","code":"0"}"#, bad.clone()),
            (200, None, r#"{"text":"Success","code":0.0}"#, bad.clone()),
            (
                200,
                None,
                r#"{"text":"HEC is healthy","code":17}"#,
                bad.clone(),
            ),
            (200, None, r#"[{"text":"Success","code":0}]"#, bad.clone()),
            (
                200,
                None,
                r#"{"text":"Success","code":0}{"text":"Success","code":0}"#,
                bad.clone(),
            ),
            (
                200,
                None,
                r#"{"text":"Invalid token","code":4}"#,
                bad.clone(),
            ),
            (
                200,
                Some("9"),
                r#"{"text":"Server is busy","code":9}"#,
                retry(ErrorReason::BadAnswer, Some(9)),
            ),
            (400, None, r#"{"code":400}"#, search(None, false)),
            (302, None, "", Hold(ErrorReason::HttpOther)),
            (
                400,
                None,
                r#"{"code":6,"invalid-event-number":3}"#,
                Event(3),
            ),
            (
                400,
                None,
                r#"{"code":12,"invalid-event-number":0}"#,
                Event(0),
            ),
            (
                400,
                None,
                r#"{"code":13,"invalid-event-number":9}"#,
                Event(9),
            ),
            (
                400,
                None,
                r#"{"code":15,"invalid-event-number":1}"#,
                Event(1),
            ),
            (
                400,
                None,
                r#"{"code":6,"invalid-event-number":10}"#,
                search(None, false),
            ),
            (
                400,
                None,
                r#"{"code":6,"invalid-event-number":-1}"#,
                search(None, false),
            ),
            (400, None, r#"{"code":6}"#, search(None, false)),
            (400, None, r#"{"code":5}"#, search(None, false)),
            (
                400,
                None,
                r#"{"code":99,"invalid-event-number":2}"#,
                search(Some(2), false),
            ),
            (
                400,
                None,
                r#"{"code":7,"invalid-event-number":3}"#,
                Index(2),
            ),
            (
                400,
                None,
                r#"{"code":7,"invalid-event-number":10}"#,
                Index(9),
            ),
            (
                400,
                None,
                r#"{"code":7,"invalid-event-number":0}"#,
                search(Some(0), true),
            ),
            (
                400,
                None,
                r#"{"code":7,"invalid-event-number":11}"#,
                search(None, true),
            ),
            (400, None, r#"{"code":7}"#, search(None, true)),
            (400, None, "Bad Request", search(None, false)),
            (400, None, r#"{"code":10}"#, hold.clone()),
            (400, None, r#"{"code":11}"#, hold.clone()),
            (400, None, r#"{"code":16}"#, hold.clone()),
            (
                400,
                None,
                r#"{"code":28,"invalid-event-number":0}"#,
                hold.clone(),
            ),
            (401, None, r#"{"code":2}"#, Hold(ErrorReason::Http401And403)),
            (403, None, r#"{"code":4}"#, Hold(ErrorReason::Http401And403)),
            (404, None, r#"{"code":404}"#, Hold(ErrorReason::Http404)),
            (405, None, "", Hold(ErrorReason::HttpOther)),
            (408, None, "", retry(ErrorReason::Timeout, None)),
            (413, None, "", Halve),
            (415, None, "", Hold(ErrorReason::HttpOther)),
            (
                429,
                Some("7"),
                r#"{"code":26}"#,
                retry(ErrorReason::Http429, Some(7)),
            ),
            (
                429,
                Some("86400"),
                "",
                retry(ErrorReason::Http429, Some(300)),
            ),
            (429, Some("soon"), "", retry(ErrorReason::Http429, None)),
            (
                500,
                None,
                r#"{"code":8}"#,
                retry(ErrorReason::Http5xx, None),
            ),
            (
                503,
                Some("Wed, 21 Oct 2015 07:28:00 GMT"),
                r#"{"code":9,"invalid-event-number":0}"#,
                retry(ErrorReason::Http5xx, Some(0)),
            ),
            (
                503,
                Some("Fri, 31 Dec 2100 23:59:59 GMT"),
                "",
                retry(ErrorReason::Http5xx, Some(300)),
            ),
            (504, None, "", retry(ErrorReason::Http5xx, None)),
        ] {
            assert_eq!(
                judged(status, after, body.as_bytes()).0,
                want,
                "{status} {body}"
            );
        }
    }

    #[test]
    fn the_words_are_the_collectors_own() {
        let (_, words) = judged(403, None, br#"{"text":"Invalid token","code":4}"#);
        assert_eq!(
            words,
            AnswerDetail {
                code: 4,
                text: "Invalid token".into(),
                hec: true,
                ack: None,
            }
        );
        let (_, words) = judged(502, None, "<html>".repeat(100).as_bytes());
        assert_eq!(words.text.len(), WORDS_CHARS);
        let (_, words) = judged(500, None, b"[1,2]");
        assert_eq!(
            words,
            AnswerDetail {
                code: 0,
                text: "[1,2]".into(),
                hec: false,
                ack: None,
            }
        );
    }

    #[test]
    fn only_what_is_said_to_be_indexed_is_confirmed() {
        let (_, words) = judged(200, None, br#"{"text":"Success","code":0,"ackId":7}"#);
        assert_eq!(words.ack, Some(7));
        let body = br#"{"acks":{"0":true,"1":false,"x":true,"3":"true","12":true}}"#;
        let mut ids = confirmed(body).unwrap_or_default();
        ids.sort_unstable();
        assert_eq!(ids, [0, 12]);
        assert_eq!(confirmed(b"<html>"), None);
        assert_eq!(confirmed(b""), None);
        assert_eq!(confirmed(br#"{"acks":[0,1]}"#), None);
        assert_eq!(confirmed(br#"{"acks":{"0":false}}"#), Some(vec![]));
    }
}
