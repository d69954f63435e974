//! Splunk's HTTP Event Collector.
//!
//! # What it guarantees
//! * An event counts as delivered when the collector answered 2xx and, in HEC's words, success to
//!   the request that carried it; a warning code (24, 25) is one too. Any other 2xx took nothing:
//!   the events are held, and the destination says what it heard.
//! * An event that the collector names as bad is refused; the ones before it count as taken (that
//!   is what Splunk does) and the ones after it are sent again. Where it names none, the request
//!   is halved until the bad event stands alone.
//! * Refusals are believed while the collector takes others. Who refuses everything, whatever the
//!   code, is believed a hundred times; then the events are held.
//! * With `acknowledgements`, an event counts as delivered when the collector has confirmed that it
//!   is indexed, not before; what is not confirmed in time is sent again. At the end it is asked
//!   for a little longer; what is not confirmed then stays pending.
//! * A body that alone fails while others are taken is taken apart, so that it holds up only
//!   itself.
//! * An unreachable, busy or wrongly configured collector holds the events; the other endpoints
//!   are used meanwhile.
//! * The next try after a failure goes over a fresh connection, and connections are renewed from
//!   time to time, between two requests: a load balancer may lead them elsewhere.
//! * A request without an answer is sent again, so its events may be indexed twice. Order is kept
//!   within a request, not across workers.
//!
//! # Layout
//! Each worker is a thread with one request in flight: it encodes events straight into a body
//! (`encode`) at one of a few desks (`desk`), and sends it by what all HTTP destinations share
//! (`crate::http`), with the token and the channel (`client`). It turns the answer into an action
//! (`answer`, `index` for wrong indexes, `brake` for refusals of everything); `deliver` ties them
//! together. With `acknowledgements`, what was taken waits in `ack`.
//!
//! `probe` tries endpoints and tokens for `inrush doctor`, without any event.
//!
//! # Limits
//! A body holds `batch.max_bytes` or a single event that is larger; a worker holds one body and
//! one batch. At most 1000 requests wait for acknowledgement, as positions, not as bytes. Pauses
//! grow to 30 seconds (60 where a person has to mend something), `Retry-After` counts up to 5
//! minutes.

mod ack;
mod answer;
#[cfg(test)]
use crate::http::cookie;
#[cfg(test)]
#[path = "../../tests/support/hec_answer.rs"]
mod answer_laws;
mod brake;
mod client;
mod config;
mod context;
mod deliver;
mod desk;
mod encode;
mod index;
mod probe;

pub use crate::http::{
    GzipLevel, HttpCompression as HecCompression, HttpTlsOptions as HecTlsConfig,
};
pub use config::{BodyConfig, SplunkHecConfig};
pub use deliver::SplunkHec;
pub use probe::{EndpointProbe, ProbeAnswer, Reach, probe};
