//! Options of one source, as every other room asks them, and the parts that their types share.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use inrush_codec::SyslogOptions;
use inrush_event::SourceInfo;
use inrush_ingest::batch_writer::source::IngestSettings;
use inrush_ingest::enrichment::Enrichment;
use inrush_transport::config::{ListenAddr, StreamOptions, TlsServerOptions};

use crate::survey::FileSurvey;
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

impl OptionProblem {
    /// The problem of the option at `path`; `words` follow its name.
    pub(crate) fn new(path: impl Into<String>, words: impl fmt::Display) -> Self {
        let path = path.into();
        let words = format!("`{path}`: {words}");
        Self { path, words }
    }
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
        Ok(())
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

    /// Looks at the files that it would read, for the doctor; `None` of a source without files.
    fn survey(&self) -> Option<FileSurvey> {
        None
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

/// Default of `index`.
pub(crate) fn index_default() -> String {
    "main".to_owned()
}

/// Checks a product: `VENDOR/PRODUCT`, and `packs` on, as only packs ask for it. `example` is one
/// for the message.
pub(crate) fn check_product(
    path: &str,
    product: Option<&str>,
    packs: bool,
    example: &str,
) -> Result<(), OptionProblem> {
    let Some(product) = product else {
        return Ok(());
    };
    if !packs {
        let words = "only packs ask for it; set `packs: true` too";
        return Err(OptionProblem::new(path, words));
    }
    match product.split('/').collect::<Vec<_>>()[..] {
        [vendor, product] if !vendor.is_empty() && !product.is_empty() => Ok(()),
        _ => {
            let words = format!("write it as `vendor/product`, for example {example}");
            Err(OptionProblem::new(path, words))
        }
    }
}

/// Options of the type that the source `name` has.
///
/// # Errors
/// In words: they are of another type.
pub(crate) fn of_type<'a, T: SourceOptions>(
    options: &'a dyn SourceOptions,
    name: &str,
) -> Result<&'a T, String> {
    let same = options.as_any().downcast_ref::<T>();
    same.ok_or_else(|| format!("source {name}: its type cannot change while running"))
}

/// Settings by which the source `name` takes its events in; their headers are read by `syslog`.
///
/// # Errors
/// In words: there is no such time zone.
pub(crate) fn ingest_settings(
    name: &str,
    options: &impl SourceOptions,
    syslog: &SyslogOptions,
    known: &Enrichment,
) -> Result<IngestSettings, String> {
    let zone = syslog.zone().map_err(|error| error.to_string())?;
    Ok(known.settings(options.info(name), options.product(), syslog, zone))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::table::SourceConfig;

    fn problem(options: &str) -> Option<String> {
        let options: SourceConfig = serde_json::from_str(options).unwrap();
        let problem = options.options().validate().err()?;
        Some(format!("{} | {}", problem.path, problem.words))
    }

    #[test]
    fn a_product_has_a_vendor_and_packs_that_ask_for_it() {
        let syslog = |product: &str| {
            problem(&format!(
                r#"{{"type": "syslog", "listen": ["udp://[::1]:5514"], "product": "{product}"}}"#
            ))
        };
        assert_eq!(syslog("cisco/esa"), None);
        for wrong in ["cisco", "/esa", "cisco/", "a/b/c", ""] {
            let words = "product | `product`: write it as `vendor/product`, for example cisco/esa";
            assert_eq!(syslog(wrong).as_deref(), Some(words), "{wrong}");
        }
        let file = |more: &str| {
            problem(&format!(
                r#"{{"type": "file", "include": ["/a"], {more}"product": "nginx/nginx"}}"#
            ))
        };
        assert_eq!(file(r#""packs": true, "#), None);
        let words = "product | `product`: only packs ask for it; set `packs: true` too";
        assert_eq!(file("").as_deref(), Some(words));
        let hec = |more: &str| {
            problem(&format!(
                r#"{{"type": "splunk_hec", "listen": "127.0.0.1:8088",
                    "tokens": [{{"token": "abcdefgh", {more}"raw": {{"product": "a"}}}}]}}"#
            ))
        };
        let path = "tokens[0].raw.product";
        let words = "only packs ask for it; set `packs: true` too";
        assert_eq!(hec(""), Some(format!("{path} | `{path}`: {words}")));
        let words = "write it as `vendor/product`, for example cisco/esa";
        let found = hec(r#""packs": true, "#);
        assert_eq!(found, Some(format!("{path} | `{path}`: {words}")));
    }
}
