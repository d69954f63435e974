//! One worker's side: gives names to the events of the batch that is being filled, and hears which
//! names senders give themselves.

use std::net::IpAddr;
use std::sync::Arc;

use inrush_event::{BatchBuilder, Span};

use super::{ClaimedName, HostNames, NameOrigin, is_name, is_nameless, is_same_host};
use crate::now::Now;

/// Names and addresses that a sender gave in the batch, and the name that it is given.
#[derive(Clone, Copy, Default)]
struct PeerNames {
    /// The last name that it gave itself in the batch; empty if it gave none.
    said: Span,
    /// The last address that it gave, its own or not; empty if it gave none.
    seen: Span,
    /// The last that was not its own.
    address: Span,
    /// True if it gave other names, or others' addresses, too.
    several: bool,
    /// Span of the name that its nameless events get, and its origin; `None` in place of
    /// these: none is known. `None` alone: not looked up yet.
    given: Option<Option<(Span, NameOrigin)>>,
}

/// Names the events of one source in one worker.
pub struct Namer {
    names: Arc<HostNames>,
    /// By index of [`BatchBuilder::peer`].
    peers: Vec<PeerNames>,
    /// Events that were given a name since the last time, by its origin.
    given: [u64; 2],
}

impl Namer {
    /// Namer without a batch yet; it takes from and adds to `names`, which all workers share.
    pub fn new(names: Arc<HostNames>) -> Self {
        Self {
            names,
            peers: Vec::new(),
            given: [0; 2],
        }
    }

    /// A new batch is filled.
    pub fn begin(&mut self) {
        self.peers.clear();
        self.given = [0; 2];
    }

    /// Names the events from number `from` on.
    pub fn run(&mut self, builder: &mut BatchBuilder, from: usize, now: Now) {
        for index in from..builder.len() {
            let record = &builder.records()[index];
            let (peer, span) = (record.peer, record.host);
            let host = span.of(builder.bytes());
            if !is_nameless(host) {
                if self.names.remembers() && is_name(host) {
                    self.hear(peer, span, builder.bytes());
                }
                continue;
            }
            if !host.is_empty() && self.names.remembers() {
                self.hear_address(peer, span, builder);
            }
            if let Some((name, origin)) = self.given(peer, builder, now) {
                builder.records_mut()[index].host = name;
                self.given[origin as usize] += 1;
            }
        }
    }

    fn of(&mut self, peer: u32) -> &mut PeerNames {
        let peer = peer as usize;
        if self.peers.len() <= peer {
            self.peers.resize(peer + 1, PeerNames::default());
        }
        &mut self.peers[peer]
    }

    /// Takes note of a name that a sender gave itself.
    fn hear(&mut self, peer: u32, span: Span, arena: &[u8]) {
        let known = self.of(peer);
        let (name, before) = (span.of(arena), known.said.of(arena));
        if name == before {
            return;
        }
        known.several |= !before.is_empty() && !is_same_host(name, before);
        if name.len() > before.len() || known.several {
            known.said = span;
        }
    }

    /// Takes note of an address that a sender gave in place of a name.
    fn hear_address(&mut self, peer: u32, span: Span, builder: &BatchBuilder) {
        let arena = builder.bytes();
        let known = self.of(peer);
        let text = span.of(arena);
        if text == known.seen.of(arena) {
            return;
        }
        known.seen = span;
        let address: Option<IpAddr> = std::str::from_utf8(text).ok().and_then(|t| t.parse().ok());
        let own = builder.peer_at(peer).map(|peer| peer.ip);
        if address.is_none() || address.map(|ip| ip.to_canonical()) == own {
            return;
        }
        let before = known.address.of(arena);
        known.several |= !before.is_empty() && before != text;
        known.address = span;
    }

    /// Span of the name for a sender's nameless events, and its origin. Looked up once a batch.
    fn given(
        &mut self,
        peer: u32,
        builder: &mut BatchBuilder,
        now: Now,
    ) -> Option<(Span, NameOrigin)> {
        if let Some(given) = self.of(peer).given {
            return given;
        }
        let sender = builder.peer_at(peer)?.ip;
        let found = self.names.of(sender, now).map(|(name, origin)| {
            let start = builder.filled();
            builder.append(name.as_bytes());
            (Span::new(start, builder.filled()), origin)
        });
        self.of(peer).given = Some(found);
        found
    }

    /// Tells the others what senders called themselves in the batch, which is about to be handed
    /// on.
    pub fn tell(&mut self, builder: &BatchBuilder, now: Now) {
        let arena = builder.bytes();
        let said = self.peers.iter().enumerate().filter_map(|(peer, known)| {
            let gave = !known.said.is_empty() || !known.address.is_empty();
            Some(ClaimedName {
                sender: builder.peer_at(peer as u32).filter(|_| gave)?.ip,
                name: known.said.of(arena),
                address: known.address.of(arena),
                several: known.several,
            })
        });
        self.names.learn(said, now);
        self.names.count(std::mem::take(&mut self.given));
        self.peers.clear();
    }
}
