//! Options of one source, as every other room asks them.

use std::any::Any;
use std::sync::Arc;

use inrush_codec::SyslogOptions;
use inrush_event::SourceInfo;
use inrush_ingest::enrichment::Enrichment;
use inrush_transport::config::{ListenAddr, StreamOptions, TlsServerOptions};

use crate::{SourceServices, StartedSource};

/// Kernel resources that each UDP address of a source asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UdpDemand {
    /// Sockets of an address, each with a thread.
    pub sockets: u64,
    /// Bytes of receive buffer that each socket asks for.
    pub receive_buffer_bytes: u64,
}

/// An option that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionProblem {
    /// Its path below the source.
    pub path: String,
    /// The fault of the value, with its name.
    pub words: String,
}

/// Options of one source: what the rooms of configuration, doctor, plan, explain, replay and reload
/// ask of them. A type of source that does not listen, read TLS or parse has the defaults.
pub trait SourceOptions: Any {
    /// The options as their own type, for the source that has them.
    fn as_any(&self) -> &dyn Any;

    /// The `type` in the configuration.
    fn type_name(&self) -> &'static str;

    /// Index of events that no rule sends elsewhere.
    fn index(&self) -> &str;

    /// Sourcetype of events that no rule recognised.
    fn sourcetype(&self) -> &str;

    /// Product that sends here, as `vendor/product`, if it is the only one.
    fn product(&self) -> Option<&str> {
        None
    }

    /// Options by which records are parsed; `None`: they come decoded.
    fn syslog(&self) -> Option<&SyslogOptions> {
        None
    }

    /// Addresses to listen on.
    fn listen(&self) -> Vec<ListenAddr> {
        Vec::new()
    }

    /// Checks that every option can be used.
    ///
    /// # Errors
    /// The first that cannot: its path below the source, and what is wrong with it.
    fn validate(&self) -> Result<(), OptionProblem> {
        let Some(syslog) = self.syslog() else {
            return Ok(());
        };
        syslog.validate().map_err(|error| OptionProblem {
            path: error.key.to_owned(),
            words: error.to_string(),
        })
    }

    /// Certificate and key of the listeners, and whose clients may come.
    fn tls(&self) -> Option<&TlsServerOptions> {
        None
    }

    /// Options of stream connections.
    fn stream(&self) -> Option<&StreamOptions> {
        None
    }

    /// Connections at once, at most, all listeners together.
    fn connections_max(&self) -> u64 {
        0
    }

    /// Sockets and receive buffers of each UDP address, with so many workers.
    fn udp(&self, _workers: usize) -> UdpDemand {
        UdpDemand::default()
    }

    /// Sizes what the file leaves open, by the bytes that receive buffers of this source may have.
    fn fit_memory(&mut self, _receive_bytes: u64, _workers: usize) {}

    /// Starts the source.
    ///
    /// # Errors
    /// In words, if nothing of it can run: a certificate or a time zone that cannot be used.
    fn start(
        &self,
        name: &str,
        services: &Arc<SourceServices>,
        known: &Enrichment,
    ) -> Result<StartedSource, String>;

    /// Name, index and sourcetype that all its events have in common.
    fn info(&self, name: &str) -> SourceInfo {
        SourceInfo {
            name: name.to_owned(),
            index: self.index().to_owned(),
            sourcetype: self.sourcetype().to_owned(),
        }
    }
}
