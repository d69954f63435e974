//! Stand-in for an API server: lists and watches over TCP or TLS, played as a test says.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Instant;

use flate2::Compression;
use flate2::write::GzEncoder;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::DEADLINE;

/// Resource of the API: what is listed, and the events after it.
#[derive(Default)]
struct Resource {
    version: u64,
    items: Vec<String>,
    /// Bytes of watches, each with the version from which on it is not sent again.
    log: Vec<(u64, Vec<u8>)>,
    /// Status in place of every answer.
    status: Option<u16>,
    /// Versions below are 410 Gone.
    compacted: u64,
    /// Watches of an older number end.
    cuts: u64,
    /// Answers are held back.
    held: bool,
    packed: bool,
    watchers: usize,
}

#[derive(Default)]
struct ServerState {
    resources: BTreeMap<String, Resource>,
    /// Head of every request.
    requests: Vec<String>,
    stopped: bool,
}

struct Shared {
    state: Mutex<ServerState>,
    changed: Condvar,
    tls: Option<Arc<ServerConfig>>,
}

/// A running stand-in.
pub struct ApiServer {
    shared: Arc<Shared>,
    /// Its address.
    pub address: SocketAddr,
    listener: Option<JoinHandle<()>>,
}

impl ApiServer {
    /// Starts it on a port that the kernel chooses.
    pub fn start(tls: Option<Arc<ServerConfig>>) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), tls)
    }

    /// Starts it on an address.
    pub fn start_at(address: SocketAddr, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            tls,
        });
        let serving = Arc::clone(&shared);
        let listener = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.state.lock().unwrap().stopped {
                    return;
                }
                let (serving, stream) = (Arc::clone(&serving), stream.unwrap());
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        let server = Self {
            shared,
            address,
            listener: Some(listener),
        };
        server.set("pods", 1, &[]);
        server.set("namespaces", 1, &[]);
        server
    }

    fn change<T>(&self, change: impl FnOnce(&mut ServerState) -> T) -> T {
        let result = change(&mut self.shared.state.lock().unwrap());
        self.shared.changed.notify_all();
        result
    }

    fn resource<T>(&self, name: &str, change: impl FnOnce(&mut Resource) -> T) -> T {
        self.change(|state| change(state.resources.entry(name.to_owned()).or_default()))
    }

    /// Sets what is listed.
    pub fn set(&self, name: &str, version: u64, items: &[String]) {
        self.resource(name, |one| {
            one.version = version;
            one.items = items.to_vec();
        });
    }

    /// Sends an event to all watches of a resource.
    pub fn push(&self, name: &str, version: u64, kind: &str, object: &str) {
        let line = format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
        self.push_bytes(name, version, line.as_bytes());
    }

    /// Sends bytes to all watches of a resource.
    pub fn push_bytes(&self, name: &str, version: u64, bytes: &[u8]) {
        self.resource(name, |one| {
            one.version = one.version.max(version);
            one.log.push((version, bytes.to_vec()));
        });
    }

    /// Answers with a status in place of everything, or not any more.
    pub fn answer_with(&self, name: &str, status: Option<u16>) {
        self.resource(name, |one| one.status = status);
    }

    /// Holds answers back, or not any more.
    pub fn hold(&self, name: &str, held: bool) {
        self.resource(name, |one| one.held = held);
    }

    /// Packs lists.
    pub fn pack(&self, name: &str) {
        self.resource(name, |one| one.packed = true);
    }

    /// Ends all watches of a resource.
    pub fn cut(&self, name: &str) {
        self.resource(name, |one| one.cuts += 1);
    }

    /// Forgets all versions but the newest, and what was sent.
    pub fn compact(&self, name: &str) {
        self.resource(name, |one| {
            one.compacted = one.version;
            one.log.clear();
        });
    }

    /// Waits until the state is as wanted.
    fn wait(&self, what: &str, is_so: impl Fn(&ServerState) -> bool) {
        let end = Instant::now() + DEADLINE;
        let mut state = self.shared.state.lock().unwrap();
        while !is_so(&state) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {what}: {:?}", state.requests);
            state = self.shared.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    /// Waits for a watch of a resource.
    pub fn wait_for_watch(&self, name: &str) {
        self.wait("watch", |state| {
            state
                .resources
                .get(name)
                .is_some_and(|one| one.watchers > 0)
        });
    }

    /// Waits for so many requests with this text in their heads.
    pub fn wait_for_requests(&self, text: &str, number: usize) -> Vec<String> {
        let with = |state: &ServerState| -> Vec<String> {
            let found = state.requests.iter().filter(|head| head.contains(text));
            found.cloned().collect()
        };
        self.wait(text, |state| with(state).len() >= number);
        with(&self.shared.state.lock().unwrap())
    }

    /// Heads of all requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.shared.state.lock().unwrap().requests.clone()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.change(|state| state.stopped = true);
        // Wakes the listener, whose address is free then.
        drop(TcpStream::connect(self.address));
        drop(self.listener.take().map(JoinHandle::join));
    }
}

/// Stream that is read and written.
trait Duplex: Read + Write {}
impl<T: Read + Write> Duplex for T {}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        let mut stream: Box<dyn Duplex> = match &self.tls {
            None => Box::new(stream),
            Some(config) => {
                let session = ServerConnection::new(Arc::clone(config)).unwrap();
                Box::new(StreamOwned::new(session, stream))
            }
        };
        while let Some(head) = read_head(&mut *stream) {
            let path = head.split(' ').nth(1).unwrap_or_default();
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            self.change(|state| state.requests.push(head.clone()));
            let stayed = match query.contains("watch=1") {
                true => self.watch(&mut *stream, &name, query),
                false => self.list(&mut *stream, &name),
            };
            if stayed.is_none() {
                return;
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut ServerState)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    /// The state, once a resource is not held.
    fn released(&self, name: &str) -> Option<MutexGuard<'_, ServerState>> {
        let mut state = self.state.lock().unwrap();
        loop {
            let is_held = state.resources.get(name).is_some_and(|one| one.held);
            if state.stopped {
                return None;
            }
            if !is_held {
                return Some(state);
            }
            state = self.changed.wait(state).unwrap();
        }
    }

    /// Answers a list. `None`: the connection is over.
    fn list(&self, stream: &mut dyn Duplex, name: &str) -> Option<()> {
        let state = self.released(name)?;
        let Some(resource) = state.resources.get(name) else {
            drop(state);
            return error(stream, 404);
        };
        if let Some(status) = resource.status {
            drop(state);
            return error(stream, status);
        }
        let (version, items) = (resource.version, resource.items.join(","));
        let mut body = format!(
            "{{\"kind\":\"List\",\"metadata\":{{\"resourceVersion\":\"{version}\"}},\
             \"items\":[{items}]}}"
        )
        .into_bytes();
        let packed = resource.packed;
        drop(state);
        let mut coding = "";
        if packed {
            let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
            packer.write_all(&body).unwrap();
            body = packer.finish().unwrap();
            coding = "content-encoding: gzip\r\n";
        }
        let head = format!(
            "HTTP/1.1 200 OK\r\n{coding}content-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(&body).ok()?;
        stream.flush().ok()
    }

    /// Plays a watch until it is cut.
    fn watch(&self, stream: &mut dyn Duplex, name: &str, query: &str) -> Option<()> {
        let version = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("resourceVersion="));
        let version: u64 = version?.parse().ok()?;
        let mut state = self.released(name)?;
        let resource = state.resources.entry(name.to_owned()).or_default();
        let status = resource
            .status
            .or((version < resource.compacted).then_some(410));
        if let Some(status) = status {
            drop(state);
            return error(stream, status);
        }
        let cuts = resource.cuts;
        resource.watchers += 1;
        self.changed.notify_all();
        drop(state);
        let played = self.play(stream, name, version, cuts);
        self.change(|state| {
            state.resources.entry(name.to_owned()).or_default().watchers -= 1;
        });
        played?;
        None
    }

    fn play(&self, stream: &mut dyn Duplex, name: &str, version: u64, cuts: u64) -> Option<()> {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).ok()?;
        stream.flush().ok()?;
        let mut sent = 0;
        let mut state = self.state.lock().unwrap();
        loop {
            let resource = state.resources.get(name)?;
            let fresh = resource.log.get(sent..).unwrap_or_default().to_vec();
            let is_over = state.stopped || resource.cuts != cuts;
            if fresh.is_empty() {
                if is_over {
                    return None;
                }
                state = self.changed.wait(state).unwrap();
                continue;
            }
            sent += fresh.len();
            drop(state);
            for (_, bytes) in fresh.iter().filter(|(at, _)| *at > version) {
                stream
                    .write_all(format!("{:x}\r\n", bytes.len()).as_bytes())
                    .ok()?;
                stream.write_all(bytes).ok()?;
                stream.write_all(b"\r\n").ok()?;
                stream.flush().ok()?;
            }
            state = self.state.lock().unwrap();
        }
    }
}

/// Answers with a status, and a place to go to that nobody may go to.
fn error(stream: &mut dyn Duplex, status: u16) -> Option<()> {
    let body = format!("{{\"kind\":\"Status\",\"code\":{status},\"message\":\"as told\"}}");
    let head = format!(
        "HTTP/1.1 {status} X\r\nlocation: /elsewhere\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.flush().ok()
}

/// Head of the next request; `None` at the end.
fn read_head(stream: &mut dyn Duplex) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}
