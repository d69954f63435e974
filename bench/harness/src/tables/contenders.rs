//! The contenders that are measured, and their configurations.

use anyhow::Result;

use crate::lab::BenchHarness;
use crate::sender::Wire;
use crate::subject::{BenchSubject, Rsyslog, SinkProcess, SyslogNg, User};

#[derive(Clone, Copy, Debug, PartialEq)]
enum SyslogProduct {
    Inrush,
    SyslogNg,
    Rsyslog,
}

/// A product with one of its configurations.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    product: SyslogProduct,
    /// `default`, or how it is tuned.
    variant: String,
    template: String,
}

impl Contender {
    fn new(product: SyslogProduct, variant: &str, template: &str) -> Self {
        Self {
            product,
            variant: variant.to_owned(),
            template: template.to_owned(),
        }
    }

    pub(super) fn ours(variant: &str, template: &str) -> Self {
        Self::new(SyslogProduct::Inrush, variant, template)
    }

    pub(super) fn syslog_ng(variant: &str, template: &str) -> Self {
        Self::new(SyslogProduct::SyslogNg, variant, template)
    }

    pub(super) fn rsyslog(variant: &str, template: &str) -> Self {
        Self::new(SyslogProduct::Rsyslog, variant, template)
    }

    /// As tables have it.
    pub(super) fn name(&self) -> String {
        let name = match self.product {
            SyslogProduct::Inrush => "inrush",
            SyslogProduct::SyslogNg => "syslog-ng",
            SyslogProduct::Rsyslog => "rsyslog",
        };
        match self.variant.as_str() {
            "" => name.to_owned(),
            variant => format!("{name}, {variant}"),
        }
    }

    pub(super) fn is_ours(&self) -> bool {
        self.product == SyslogProduct::Inrush
    }

    /// True if it is installed.
    pub(super) fn is_here(&self) -> bool {
        match self.product {
            SyslogProduct::Inrush => true,
            SyslogProduct::SyslogNg => {
                let parallel = self.template.contains("parallelize(");
                SyslogNg::installed() && (!parallel || SyslogNg::can_parallelize())
            }
            SyslogProduct::Rsyslog => Rsyslog::program().is_some(),
        }
    }

    /// Starts it.
    pub(super) fn start(
        &self,
        lab: &BenchHarness,
        wire: Wire,
        sink: Option<&SinkProcess>,
    ) -> Result<Box<dyn BenchSubject>> {
        let dir = || lab.dir("peer");
        let template = &self.template;
        Ok(match self.product {
            SyslogProduct::Inrush => Box::new(lab.start_inrush(template, sink, User::Ours)?),
            SyslogProduct::SyslogNg => {
                Box::new(SyslogNg::start(template, wire, &dir()?, sink, User::Ours)?)
            }
            SyslogProduct::Rsyslog => {
                Box::new(Rsyslog::start(template, wire, &dir()?, User::Ours)?)
            }
        })
    }
}
