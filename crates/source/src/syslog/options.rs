//! Options of a syslog source. Their doc comments are the reference page, and the order of fields
//! is its order.

use std::any::Any;
use std::sync::Arc;

use inrush_codec::SyslogOptions;
use inrush_event::Protocol;
use inrush_ingest::enrichment::Enrichment;
use inrush_transport::config::{ListenAddr, StreamOptions, TlsServerOptions, UdpOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::running::RunningSyslog;
use crate::options::{OptionProblem, SourceOptions, UdpDemand, check_product};
use crate::{Source, SourceServices, StartedSource};

/// A syslog source.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SyslogSource {
    /// Addresses to listen on, each with its transport.
    #[schemars(length(min = 1))]
    pub listen: Vec<ListenAddr>,
    /// Certificate and key of the `tls://` addresses, which need them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsServerOptions>,
    /// Sockets of the `udp://` addresses.
    #[serde(default)]
    pub udp: UdpOptions,
    /// Connections of the `tcp://` and `tls://` addresses.
    #[serde(default)]
    pub stream: StreamOptions,
    /// How the bytes are read.
    #[serde(flatten)]
    pub syslog: SyslogOptions,
    /// The index of events that no rule sends elsewhere.
    #[serde(default = "crate::options::index_default")]
    #[schemars(length(min = 1))]
    pub index: String,
    /// The product that sends here, as `vendor/product`: a listener of its own, where rules alone
    /// cannot tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[^/]+/[^/]+$"), extend("examples" = ["cisco/esa"]))]
    pub product: Option<String>,
    /// The sourcetype of events that no rule recognised.
    #[serde(default = "sourcetype_default")]
    #[schemars(length(min = 1))]
    pub sourcetype: String,
}

fn sourcetype_default() -> String {
    "syslog".to_owned()
}

impl SourceOptions for SyslogSource {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn type_name(&self) -> &'static str {
        "syslog"
    }

    fn index(&self) -> &str {
        &self.index
    }

    fn sourcetype(&self) -> &str {
        &self.sourcetype
    }

    fn product(&self) -> Option<&str> {
        self.product.as_deref()
    }

    fn syslog(&self) -> Option<&SyslogOptions> {
        Some(&self.syslog)
    }

    fn listen(&self) -> Vec<ListenAddr> {
        self.listen.clone()
    }

    fn validate(&self) -> Result<(), OptionProblem> {
        self.syslog.validate().map_err(|error| OptionProblem {
            path: error.key.to_owned(),
            words: error.to_string(),
        })?;
        check_product("product", self.product.as_deref(), true, "cisco/esa")
    }

    fn tls(&self) -> Option<&TlsServerOptions> {
        self.tls.as_ref()
    }

    fn stream(&self) -> Option<&StreamOptions> {
        Some(&self.stream)
    }

    fn connections_max(&self) -> u64 {
        let streams = self.listen.iter();
        let streams = streams.filter(|listen| listen.protocol != Protocol::Udp);
        streams.count() as u64 * self.stream.max_connections.get() as u64
    }

    fn udp(&self, workers: usize) -> UdpDemand {
        UdpDemand {
            sockets: self.udp.socket_count(workers) as u64,
            receive_buffer_bytes: self.udp.receive_buffer_bytes(),
        }
    }

    fn fit_memory(&mut self, receive_bytes: u64, workers: usize) {
        let udp = |addr: &&ListenAddr| addr.protocol == Protocol::Udp;
        let addresses = self.listen.iter().filter(udp).count();
        let sockets = addresses * self.udp.socket_count(workers);
        self.udp.fit_memory(receive_bytes / sockets.max(1) as u64);
    }

    fn start(
        &self,
        name: &str,
        services: &Arc<SourceServices>,
        known: &Enrichment,
    ) -> Result<StartedSource, String> {
        let (source, problems) = RunningSyslog::start(name, self, services, known)?;
        let source: Arc<dyn Source> = source;
        Ok(StartedSource { source, problems })
    }
}
