//! Table of the types of sources.

use inrush_tail::options::FileSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::journald::options::JournaldSource;
use crate::kubernetes_events::options::KubernetesEventsSource;
#[cfg(feature = "made_up")]
use crate::made_up::options::MadeUpSource;
use crate::options::SourceOptions;
use crate::splunk_hec::options::SplunkHecSource;
use crate::syslog::options::SyslogSource;

/// Makes [`SourceConfig`] from the table of the types of sources.
macro_rules! source_types {
    ($(
        $(#[doc = $about:literal])*
        $(#[cfg($when:meta)])?
        $(#[serde($serde:meta)])?
        $variant:ident($options:ty),
    )*) => {
        /// Where events come from.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "type", rename_all = "snake_case")]
        pub enum SourceConfig {
            $(
                $(#[doc = $about])*
                $(#[cfg($when)])?
                $(#[serde($serde)])?
                $variant(Box<$options>),
            )*
        }

        impl SourceConfig {
            /// The options, as every room asks them.
            pub fn options(&self) -> &dyn SourceOptions {
                match self {
                    $($(#[cfg($when)])? Self::$variant(options) => options.as_ref(),)*
                }
            }

            /// The same, to be changed.
            pub fn options_mut(&mut self) -> &mut dyn SourceOptions {
                match self {
                    $($(#[cfg($when)])? Self::$variant(options) => options.as_mut(),)*
                }
            }
        }
    };
}

source_types! {
    /// Syslog over UDP, TCP and TLS (RFC 5424, RFC 3164, RFC 5425, RFC 5426, RFC 6587).
    Syslog(SyslogSource),
    /// An HTTP Event Collector, as Splunk's clients speak to it.
    SplunkHec(SplunkHecSource),
    /// Files that other programs write: logs of a host and of its containers.
    File(FileSource),
    /// The journal of systemd.
    Journald(JournaldSource),
    /// Events of a Kubernetes cluster.
    KubernetesEvents(KubernetesEventsSource),
    /// Records that are made up, for tests.
    #[cfg(feature = "made_up")]
    #[serde(skip)]
    MadeUp(MadeUpSource),
}

impl SourceConfig {
    /// The options of a syslog source; `None` for all other types.
    pub fn as_syslog(&self) -> Option<&SyslogSource> {
        match self {
            Self::Syslog(options) => Some(options),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn as_syslog_mut(&mut self) -> Option<&mut SyslogSource> {
        match self {
            Self::Syslog(options) => Some(options),
            _ => None,
        }
    }
}
