//! The contenders that are measured, and their configurations.

use anyhow::Result;

use crate::lab::Lab;
use crate::sender::Wire;
use crate::subject::{Rsyslog, Sink, Subject, SyslogNg, User};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Product {
    Inrush,
    SyslogNg,
    Rsyslog,
}

/// A product with one of its configurations.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    product: Product,
    /// `default`, or how it is tuned.
    variant: String,
    template: String,
}

impl Contender {
    fn new(product: Product, variant: &str, template: &str) -> Self {
        Self {
            product,
            variant: variant.to_owned(),
            template: template.to_owned(),
        }
    }

    pub(super) fn ours(variant: &str, template: &str) -> Self {
        Self::new(Product::Inrush, variant, template)
    }

    pub(super) fn syslog_ng(variant: &str, template: &str) -> Self {
        Self::new(Product::SyslogNg, variant, template)
    }

    pub(super) fn rsyslog(variant: &str, template: &str) -> Self {
        Self::new(Product::Rsyslog, variant, template)
    }

    /// As tables have it.
    pub(super) fn name(&self) -> String {
        let name = match self.product {
            Product::Inrush => "inrush",
            Product::SyslogNg => "syslog-ng",
            Product::Rsyslog => "rsyslog",
        };
        match self.variant.as_str() {
            "" => name.to_owned(),
            variant => format!("{name}, {variant}"),
        }
    }

    pub(super) fn is_ours(&self) -> bool {
        self.product == Product::Inrush
    }

    /// True if it is installed.
    pub(super) fn is_here(&self) -> bool {
        match self.product {
            Product::Inrush => true,
            Product::SyslogNg => {
                let parallel = self.template.contains("parallelize(");
                SyslogNg::installed() && (!parallel || SyslogNg::can_parallelize())
            }
            Product::Rsyslog => Rsyslog::program().is_some(),
        }
    }

    /// Starts it.
    pub(super) fn start(
        &self,
        lab: &Lab,
        wire: Wire,
        sink: Option<&Sink>,
    ) -> Result<Box<dyn Subject>> {
        let dir = || lab.dir("peer");
        let template = &self.template;
        Ok(match self.product {
            Product::Inrush => Box::new(lab.start_inrush(template, sink, User::Ours)?),
            Product::SyslogNg => {
                Box::new(SyslogNg::start(template, wire, &dir()?, sink, User::Ours)?)
            }
            Product::Rsyslog => Box::new(Rsyslog::start(template, wire, &dir()?, User::Ours)?),
        })
    }
}
