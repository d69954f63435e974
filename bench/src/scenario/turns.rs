//! Subjects that take turns under one load: the bare loop, Inrush, and the peers that are there.

use anyhow::Result;
use inrush_harness::lab::BenchHarness;
use inrush_harness::sender::Wire;
use inrush_harness::subject::{
    BareTcp, BareUdp, BenchSubject, Rsyslog, SinkProcess, SyslogNg, User,
};

/// Subject whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PeerKind {
    Bare,
    Inrush,
    SyslogNg,
    Rsyslog,
}

impl PeerKind {
    /// As the results have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare loop",
            Self::Inrush => "inrush",
            Self::SyslogNg => "syslog-ng",
            Self::Rsyslog => "rsyslog",
        }
    }
}

/// The configurations that do the same work, as templates.
#[derive(Clone, Copy)]
pub(super) struct PeerTemplates {
    pub(super) wire: Wire,
    pub(super) inrush: &'static str,
    pub(super) syslog_ng: &'static str,
    /// Absent where rsyslog has no such destination.
    pub(super) rsyslog: Option<&'static str>,
}

impl PeerTemplates {
    /// Subjects measured beside the bare loop: Inrush first, then the peers that are there.
    pub(super) fn subjects(&self, lab: &BenchHarness) -> Vec<PeerKind> {
        let mut subjects = vec![PeerKind::Inrush];
        if lab.terms.peers && SyslogNg::installed() {
            subjects.push(PeerKind::SyslogNg);
        }
        if lab.terms.peers && self.rsyslog.is_some() && Rsyslog::program().is_some() {
            subjects.push(PeerKind::Rsyslog);
        }
        subjects
    }

    /// A fresh process.
    pub(super) fn start(
        &self,
        lab: &BenchHarness,
        who: PeerKind,
        sink: Option<&SinkProcess>,
    ) -> Result<Box<dyn BenchSubject>> {
        self.start_as(lab, who, sink, User::Ours)
    }

    /// A fresh process of this user; a bare loop is always ours.
    pub(super) fn start_as(
        &self,
        lab: &BenchHarness,
        who: PeerKind,
        sink: Option<&SinkProcess>,
        user: User,
    ) -> Result<Box<dyn BenchSubject>> {
        let dir = || lab.dir(who.name());
        Ok(match who {
            PeerKind::Bare if self.wire == Wire::Udp => Box::new(BareUdp::start()?),
            PeerKind::Bare => Box::new(BareTcp::start()?),
            PeerKind::Inrush => Box::new(lab.start_inrush(self.inrush, sink, user)?),
            PeerKind::SyslogNg => {
                let started = SyslogNg::start(self.syslog_ng, self.wire, &dir()?, sink, user)?;
                Box::new(started)
            }
            PeerKind::Rsyslog => {
                let template = self.rsyslog.unwrap_or_default();
                Box::new(Rsyslog::start(template, self.wire, &dir()?, user)?)
            }
        })
    }
}

/// True if another round is due: until there are enough `clean` runs, or twice as many as that.
pub(super) fn go_on(lab: &BenchHarness, rounds: usize, clean: usize) -> bool {
    rounds < lab.terms.runs || (rounds < 2 * lab.terms.runs && clean < lab.terms.runs)
}
