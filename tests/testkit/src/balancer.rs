//! A load balancer before two servers.

use std::collections::HashMap;
use std::net::SocketAddr;

/// Ways in which a load balancer keeps a client at one server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sticky {
    /// A connection stays at its first server.
    Connection,
    /// A cookie names the server; without it each request goes to the next one.
    Cookie,
}

/// Two servers behind one address.
pub(crate) struct Balancer {
    sticky: Sticky,
    turns: usize,
    connections: HashMap<SocketAddr, usize>,
}

impl Balancer {
    pub(crate) fn new(sticky: Sticky) -> Self {
        Self {
            sticky,
            turns: 0,
            connections: HashMap::new(),
        }
    }

    /// The server for a request, and the cookie that names it to the client.
    pub(crate) fn lead(&mut self, peer: SocketAddr, cookie: &str) -> (usize, Option<String>) {
        let turns = &mut self.turns;
        let next = || {
            *turns += 1;
            *turns % 2
        };
        let named = |one: &usize| cookie == format!("LB={one}");
        match self.sticky {
            Sticky::Connection => (*self.connections.entry(peer).or_insert_with(next), None),
            Sticky::Cookie => {
                let backend = (0..2).find(named).unwrap_or_else(next);
                (backend, Some(format!("LB={backend}; Path=/")))
            }
        }
    }
}
