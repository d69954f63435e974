//! Names that stand in for the host of an event that names none, or an address.
//!
//! # What it guarantees
//! * The order: what packs set (so that a table of hosts is a rule), the name that the sender gave
//!   itself in other events (`remembered`), the name that DNS has for its address (`reverse`).
//! * No event waits: what is not known yet leaves the event as it is. DNS is asked by a thread of
//!   its own (`resolver`), and what it said keeps counting while it is asked again.
//! * Shared state is asked once a batch for each sender that needs a name, and told once a batch
//!   who gave itself which. Nothing is allocated per event: a name is written once a batch and
//!   sender, and all events point to it.
//!
//! # Limits
//! `SENDERS_MAX` senders of either kind, the one that was not heard of for longest forgotten
//! first; names of `host::NAME_BYTES_MAX` bytes. With both kinds full of the longest names some
//! 50 MB.
//!
//! # After a crash
//! Names that senders gave themselves are read from `names.json` (`kept`), which is at most a
//! minute old. What DNS said is asked again.

mod dns_message;
mod host;
mod learned;
mod namer;
mod names_file;
mod resolver;
mod reverse;

/// Properties of every answer; `fuzz/fuzz_targets/dns_answer.rs` has them too.
#[cfg(test)]
#[path = "../../tests/support/answers.rs"]
mod answers;

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use inrush_event::MetricsPage;
use inrush_event::{Counter, Metric};

use crate::now::Now;
use crate::options::{EnrichmentOptions, HostsOptions};
use host::{is_name, is_nameless, is_same_host};
use learned::{LearnedNames, NameLookup};

pub use namer::Namer;
pub use reverse::{ReverseDns, ReverseNames};

/// Senders whose names are known, at most, of either kind: as many as are listed of a source.
const SENDERS_MAX: usize = 65_536;

/// Origin of a sender's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameOrigin {
    /// The sender gave it itself.
    Remembered,
    /// DNS has it for the sender's address.
    Dns,
}

impl NameOrigin {
    const ALL: [Self; 2] = [Self::Remembered, Self::Dns];

    /// The label in metrics.
    const fn name(self) -> &'static str {
        match self {
            Self::Remembered => "remembered",
            Self::Dns => "dns",
        }
    }
}

/// The names of senders, for all workers.
pub struct HostNames {
    options: HostsOptions,
    remembered: Option<Arc<LearnedNames>>,
    reverse: Option<Arc<ReverseDns>>,
    /// Events that were given a name, by its origin.
    given: Arc<[Counter; 2]>,
}

impl HostNames {
    /// By these options; what was learnt under `before` goes on. `None`: nobody wants names.
    ///
    /// # Errors
    /// The thread that asks DNS cannot be started.
    pub fn open(
        all: EnrichmentOptions<'_>,
        dns: &ReverseNames,
        before: Option<&Self>,
    ) -> io::Result<Option<Arc<Self>>> {
        let options = all.hosts.clone();
        if !options.remember_names && !options.reverse_dns.enabled {
            return Ok(None);
        }
        let same = |one: &&Self| one.options.keep_names == options.keep_names;
        let known = before.filter(same).and_then(|one| one.remembered.clone());
        let remembered = options
            .remember_names
            .then(|| known.unwrap_or_else(|| Arc::new(open_remembered(all.data_dir, &options))));
        let reverse = options.reverse_dns.enabled.then(|| dns.open());
        let given = before.map(|one| Arc::clone(&one.given));
        Ok(Some(Arc::new(Self {
            options,
            remembered,
            reverse: reverse.transpose()?,
            given: given.unwrap_or_default(),
        })))
    }

    /// True if note is taken of the names that senders give themselves.
    fn remembers(&self) -> bool {
        self.remembered.is_some()
    }

    /// Takes note of the names that senders gave themselves in a batch.
    fn learn<'n>(&self, said: impl Iterator<Item = ClaimedName<'n>>, now: Now) {
        if let Some(remembered) = &self.remembered {
            remembered.learn(said, now.wall);
        }
    }

    /// The name of a sender, if one is known now.
    fn of(&self, sender: IpAddr, now: Now) -> Option<(Arc<str>, NameOrigin)> {
        let remembered = self.remembered.as_ref();
        match remembered.map(|known| known.get(sender, now.wall)) {
            Some(NameLookup::Name(name)) => return Some((name, NameOrigin::Remembered)),
            // DNS knows the relay, and not who it speaks for.
            Some(NameLookup::Several) => return None,
            Some(NameLookup::Nothing) | None => {}
        }
        let found = self.reverse.as_ref()?.get(sender, now.instant)?;
        Some((found, NameOrigin::Dns))
    }

    fn count(&self, given: [u64; 2]) {
        for (counter, n) in self.given.iter().zip(given) {
            if n > 0 {
                counter.add(n);
            }
        }
    }

    /// Writes down what changed since the last time. With `sync` it is on the disk by the end.
    pub fn keep(&self, sync: bool) {
        if let Some(remembered) = &self.remembered {
            remembered.keep(sync);
        }
    }

    /// Adds the metrics of names to a page of `/metrics`.
    pub fn metrics(&self, page: &mut MetricsPage) {
        for (origin, counter) in NameOrigin::ALL.iter().zip(&*self.given) {
            let labels = vec![("origin", origin.name())];
            page.add(Metric::NamesGiven, labels, counter.get() as f64);
        }
        if let Some(remembered) = &self.remembered {
            page.add(Metric::NamesRemembered, vec![], remembered.len() as f64);
        }
    }
}

/// Reads the names that were kept before, if that is wanted; else removes their file.
fn open_remembered(data_dir: &Path, options: &HostsOptions) -> LearnedNames {
    let path = data_dir.join(names_file::FILE);
    if !options.keep_names {
        names_file::remove(&path);
        return LearnedNames::new(None);
    }
    let known = names_file::read(&path).unwrap_or_else(|error| {
        let file = path.display();
        tracing::warn!(%file, %error, "the names of senders cannot be read; they are learnt anew");
        Vec::new()
    });
    let remembered = LearnedNames::new(Some(path));
    remembered.fill(known);
    remembered
}

/// Name and address that a sender gave in a batch. The one that it did not give is empty.
struct ClaimedName<'n> {
    sender: IpAddr,
    /// A name ([`is_name`]).
    name: &'n [u8],
    /// An address that is not its own.
    address: &'n [u8],
    /// True if it gave other names or addresses too.
    several: bool,
}
