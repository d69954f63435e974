//! A virtual client of the collector: what it has sent, what it was answered, and what it asks for.

use std::collections::VecDeque;
use std::time::Duration;

use inrush_transport::virtual_socket::VirtualSocket;

/// A request that waits for its answer.
pub(crate) struct SentRequest {
    pub(crate) number: u64,
    pub(crate) content: RequestContent,
    /// Time at which its first byte was sent.
    pub(crate) begun: Duration,
    /// Bytes that are not sent yet.
    pub(crate) unsent: VecDeque<u8>,
    /// True once a byte was sent.
    pub(crate) is_begun: bool,
    /// Numbers that the collector may have had since then, this one included, at most.
    pub(crate) numbers: usize,
}

/// Content of a request.
#[derive(Clone, Debug)]
pub(crate) enum RequestContent {
    /// Events of a batch of the oracle. `bad`: the object behind them is none.
    Events {
        batch: usize,
        events: u32,
        bad: bool,
    },
    /// A poll for these numbers.
    Poll(Vec<u64>),
}

/// A connection to the collector.
pub(crate) struct ClientConnection {
    pub(crate) socket: VirtualSocket,
    /// Requests that are not answered, oldest first.
    pub(crate) sent: VecDeque<SentRequest>,
    /// Bytes of an unfinished answer.
    pub(crate) inbox: Vec<u8>,
    /// True once the collector has said that it closes.
    pub(crate) closes: bool,
}

/// An `ackId` that was given and not reported true.
#[derive(Clone, Debug)]
pub(crate) struct OpenAck {
    pub(crate) number: u64,
    /// Batch of the oracle that it stands for.
    pub(crate) batch: usize,
    pub(crate) events: u32,
    /// Time of the answer that gave it.
    pub(crate) since: Duration,
    /// A time before which it was not given or asked for last.
    pub(crate) asked: Duration,
    /// False once the collector may have forgotten it.
    pub(crate) is_known: bool,
}

/// A client of the collector.
pub(crate) struct VirtualClient {
    /// Index of its token.
    pub(crate) token: usize,
    pub(crate) channel: String,
    pub(crate) connection: Option<ClientConnection>,
    /// Numbers of events that are to be sent again, by request.
    pub(crate) again: Vec<u32>,
    pub(crate) acks: Vec<OpenAck>,
    /// A time before which its channel was not used last.
    pub(crate) used: Duration,
}

impl VirtualClient {
    pub(crate) fn new(number: usize, token: usize) -> Self {
        Self {
            token,
            channel: format!("00000000-0000-0000-0000-{number:012}"),
            connection: None,
            again: Vec::new(),
            acks: Vec::new(),
            used: Duration::ZERO,
        }
    }

    /// True if its requests get an `ackId`.
    pub(crate) fn is_acked(&self) -> bool {
        self.token > 0
    }

    /// True if nothing is to be sent, answered or asked for.
    pub(crate) fn is_content(&self) -> bool {
        let sent = self.connection.as_ref().map_or(0, |one| one.sent.len());
        sent == 0 && self.again.is_empty() && self.acks.is_empty()
    }

    /// The collector may have forgotten the numbers of which `may_be` is true.
    pub(crate) fn doubt(&mut self, may_be: impl Fn(&OpenAck) -> bool) {
        for ack in self.acks.iter_mut().filter(|ack| may_be(ack)) {
            ack.is_known = false;
        }
    }

    /// The connection is lost: what was not answered is sent again. Returns how many requests with
    /// a number may count as answered at the collector, and how many cannot.
    pub(crate) fn lose(&mut self) -> (Option<VirtualSocket>, usize, usize) {
        let Some(connection) = self.connection.take() else {
            return (None, 0, 0);
        };
        let (mut whole, mut part) = (0, 0);
        for request in connection.sent {
            match request.content {
                RequestContent::Events { events, .. } => {
                    self.again.push(events);
                    let is_whole = request.unsent.is_empty();
                    whole += usize::from(is_whole && self.token > 0);
                    part += usize::from(!is_whole && request.is_begun && self.token > 0);
                }
                // It may have reported them as true.
                RequestContent::Poll(numbers) => {
                    self.doubt(|ack| numbers.contains(&ack.number));
                }
            }
        }
        (Some(connection.socket), whole, part)
    }
}
