//! State that all delivery workers share, and the notes that answers leave in it.
//!
//! # What it guarantees
//! * An answer counts for the endpoint that gave it, not for the one that is chosen next.
//! * A failure slows its endpoint and the requests in flight at once; a success frees both.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use inrush_event::Feed;

use super::ack::Acks;
use super::answer::{Action, AnswerDetail};
use super::brake::QuarantineBrake;
use super::client::HecClient;
use super::config::UnknownIndex;
use super::desk::EncodeSlots;
use super::index::RejectedIndexes;
use crate::http::auto_compression::AutoCompression;
use crate::http::connection::{HttpConnection, WorkerConnections};
use crate::http::endpoint::{EndpointFailure, Endpoints, Pick};
use crate::http::semaphore::RequestSemaphore;
use crate::quarantine::Refuser;
use crate::{ErrorReason, IDLE_WAIT, SinkStatus, backoff};

/// Interval at which the stop of the process is polled for.
pub(super) const STOP_POLL: Duration = Duration::from_millis(200);

/// Consequence of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ResendDecision {
    /// It decides over the events.
    Final,
    /// The same is sent again.
    Again,
}

/// Under which number what was taken will be confirmed.
pub(super) enum Receipt {
    /// None was given.
    None,
    /// This one, over this link.
    Id(Arc<HttpConnection>, u64),
    /// One that cannot be told from another's.
    Void,
}

/// Reason for which events were not believed to be bad.
pub(super) struct HoldReason {
    pub(super) endpoint: usize,
    pub(super) reason: ErrorReason,
    pub(super) text: String,
}

/// Judgement of an answer, and the origin of that answer.
pub(super) struct JudgedAnswer {
    pub(super) action: Action,
    pub(super) words: AnswerDetail,
    pub(super) receipt: Receipt,
    pub(super) sent: SentRequest,
}

/// State that the workers share.
pub(super) struct HecContext {
    pub(super) client: HecClient,
    pub(super) desks: EncodeSlots,
    /// Taken for a moment before and after each request.
    pub(super) endpoints: Mutex<Endpoints>,
    pub(super) brake: QuarantineBrake,
    pub(super) unknown: RejectedIndexes,
    pub(super) unknown_index: UnknownIndex,
    /// Bodies that other receivers than Splunk give for success.
    pub(super) success: Vec<String>,
    /// Requests that were taken.
    pub(super) taken: AtomicU64,
    pub(super) gate: RequestSemaphore,
    pub(super) acks: Option<Acks>,
    /// Choice between plain and compressed bodies.
    pub(super) auto: Option<AutoCompression>,
    pub(super) refuser: Refuser,
    pub(super) status: Arc<SinkStatus>,
}

/// A request that was answered.
#[derive(Clone, Copy)]
pub(super) struct SentRequest {
    /// Index of the endpoint.
    pub(super) index: usize,
    pub(super) begun: Instant,
    pub(super) status: u16,
}

impl HecContext {
    /// Says that the system gave no thread; it is asked again.
    pub(super) fn no_thread(&self, error: &std::io::Error) {
        let text = format!("no thread for requests, tried again: {error}");
        self.status.failed(ErrorReason::Io, &text);
    }

    /// Starts the thread that asks for acknowledgements, if they are wanted; it has `asking` for as
    /// long as it runs. A thread that cannot be had is tried again: without it nothing is settled.
    pub(super) fn ask_for_acks<'scope>(
        &'scope self,
        scope: &'scope std::thread::Scope<'scope, '_>,
        feed: &'scope dyn Feed,
        asking: Sender<()>,
    ) {
        while let Some(acks) = &self.acks {
            let asking = asking.clone();
            let name = self.status.name();
            let asker = std::thread::Builder::new().name(format!("to-{name}"));
            let asker = asker.spawn_scoped(scope, move || {
                acks.run(&self.client, feed);
                drop(asking);
            });
            match asker {
                Err(error) if !feed.stopping() => self.no_thread(&error),
                _ => return,
            }
            std::thread::sleep(STOP_POLL);
        }
    }

    /// The connections of one more worker, if there can be one.
    pub(super) fn line(&self) -> Option<WorkerConnections> {
        let failed = |error: &std::io::Error| {
            let destination = self.status.name();
            tracing::warn!(destination, %error, "there can be no more requests in flight");
        };
        self.client.line().inspect_err(failed).ok()
    }

    pub(super) fn endpoints(&self) -> std::sync::MutexGuard<'_, Endpoints> {
        self.endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for an endpoint; `None` if the process stops.
    pub(super) fn pick(&self, feed: &dyn Feed) -> Option<usize> {
        let ticket = self.endpoints().queue();
        let index = loop {
            let pick = self.endpoints().pick(ticket, Instant::now());
            match pick {
                _ if feed.stopping() => break None,
                Pick::Use(index) => break Some(index),
                // Another worker may find out sooner that an endpoint is back.
                Pick::Wait(pause) => backoff::wait(feed, pause.min(IDLE_WAIT)),
            }
        };
        self.endpoints().leave(ticket);
        index
    }

    /// Takes note of what an answer says about its endpoint, and of `bytes` if they were taken.
    pub(super) fn digest(&self, outcome: &JudgedAnswer, bytes: usize) -> ResendDecision {
        let JudgedAnswer {
            action,
            words,
            sent,
            ..
        } = outcome;
        self.status.timed(sent.begun.elapsed());
        let text = || self.said(sent, words);
        match action {
            Action::Taken => {
                self.taken.fetch_add(1, Relaxed);
                self.status.succeeded(bytes);
            }
            Action::Retry { reason, after } => {
                let failure = after.map_or(EndpointFailure::Passing, EndpointFailure::AskedToWait);
                self.failed(sent.index, failure, sent.begun, (*reason, &text()));
                return ResendDecision::Again;
            }
            Action::Hold(reason) => {
                self.failed(
                    sent.index,
                    EndpointFailure::Lasting,
                    sent.begun,
                    (*reason, &text()),
                );
                return ResendDecision::Again;
            }
            Action::Halve => self.status.noted(ErrorReason::Http413, &text()),
            Action::Event(_) | Action::Index(_) | Action::Search { .. } => {
                self.status.noted(ErrorReason::Http400, &text());
            }
        }
        self.endpoints().succeeded(sent.index);
        ResendDecision::Final
    }

    /// An answer in words.
    pub(super) fn said(&self, sent: &SentRequest, words: &AnswerDetail) -> String {
        let (name, status) = (self.client.name(sent.index), sent.status);
        match status {
            // Its words say what it is.
            200..=299 => format!("{name}: {status}, {}", words.text),
            _ => format!("{name}: {status}, code {}: {}", words.code, words.text),
        }
    }

    /// Reason for which refused events are held, with the remedy.
    pub(super) fn held(&self, sent: &SentRequest, words: &AnswerDetail) -> HoldReason {
        let (reason, help) = match (sent.status, words.code) {
            (413, _) => (ErrorReason::Http413, "see what limits bodies on the way"),
            (_, 7) => (
                ErrorReason::Http400,
                "create the index, allow it to the token, or send none (`index: none`)",
            ),
            _ => (ErrorReason::Http400, "see what stands at this address"),
        };
        let said = self.said(sent, words);
        HoldReason {
            endpoint: sent.index,
            reason,
            text: format!("everything is refused, and held: {help}; {said}"),
        }
    }

    /// Nothing of a body was taken, and some of it was refused without being believed.
    pub(super) fn refuses_all(&self, held: &HoldReason) {
        let failure = EndpointFailure::AskedToWait(self.brake.pause());
        let now = Instant::now();
        self.unknown.ask_again(now);
        self.endpoints().failed(held.endpoint, failure, now, now);
        self.gate.failed();
        self.status.holds(held.reason, &held.text);
    }

    /// An answer was no use, for a reason in words of ours.
    pub(super) fn failed_by(
        &self,
        sent: &SentRequest,
        failure: EndpointFailure,
        reason: ErrorReason,
        text: &str,
    ) {
        let text = format!("{}: {text}", self.client.name(sent.index));
        self.failed(sent.index, failure, sent.begun, (reason, &text));
    }

    pub(super) fn failed(
        &self,
        index: usize,
        failure: EndpointFailure,
        begun: Instant,
        wrong: (ErrorReason, &str),
    ) {
        self.endpoints()
            .failed(index, failure, begun, Instant::now());
        self.gate.failed();
        self.status.failed(wrong.0, wrong.1);
    }
}
