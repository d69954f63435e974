//! Stand-in for an API server that keeps events and a Lease as etcd does: every change has a
//! version of its own, and a watch gets all changes behind the one that it names.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use inrush_tests::DEADLINE;
use serde_json::{Value, json};

#[derive(Default)]
struct State {
    /// Version of the last change.
    version: u64,
    /// Events by name.
    events: BTreeMap<String, Value>,
    /// Changes: version, and the line of a watch.
    log: Vec<(u64, String)>,
    /// Versions below are forgotten.
    compacted: u64,
    /// Watches of an older number end, in the middle of a line.
    cuts: u64,
    watchers: usize,
    lease: Option<Value>,
    /// Status in place of every answer about the Lease.
    lease_status: Option<u16>,
    requests: Vec<String>,
    stopped: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// A running stand-in.
pub(super) struct EventApi {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl EventApi {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = State {
            version: 100,
            ..State::default()
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.lock().stopped {
                    return;
                }
                let (serving, stream) = (Arc::clone(&serving), stream.unwrap());
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        Self { shared, address }
    }

    /// A kubeconfig with the way here.
    pub(super) fn kubeconfig(&self) -> String {
        format!(
            "current-context: a\ncontexts: [{{name: a, context: {{cluster: c}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'http://{}'}}}}]\n",
            self.address
        )
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.shared.lock());
        self.shared.changed.notify_all();
        result
    }

    /// Adds events of these numbers, or changes those that are there.
    pub(super) fn put(&self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.change(|state| {
                state.version += 1;
                let (version, name) = (state.version, format!("event-{number:04}"));
                let kind = match state.events.contains_key(&name) {
                    true => "MODIFIED",
                    false => "ADDED",
                };
                let object = event(number, version);
                state.log.push((version, line(kind, &object)));
                state.events.insert(name, object);
            });
        }
    }

    /// Removes events, as the server does after an hour.
    pub(super) fn expire(&self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.change(|state| {
                state.version += 1;
                let mut object = state.events.remove(&format!("event-{number:04}")).unwrap();
                object["metadata"]["resourceVersion"] = state.version.to_string().into();
                state.log.push((state.version, line("DELETED", &object)));
            });
        }
    }

    /// Forgets all changes so far; what is there stays.
    pub(super) fn compact(&self) {
        self.change(|state| {
            state.compacted = state.version;
            state.log.clear();
        });
    }

    /// Goes back to lower versions, as a restored etcd does; all watches end.
    pub(super) fn renumber(&self) {
        self.change(|state| {
            state.log.clear();
            state.version = 10;
            for object in state.events.values_mut() {
                state.version += 1;
                object["metadata"]["resourceVersion"] = state.version.to_string().into();
            }
            state.compacted = 0;
            state.cuts += 1;
        });
    }

    /// Ends all watches within a line.
    pub(super) fn cut(&self) {
        self.change(|state| state.cuts += 1);
    }

    /// Answers everything about the Lease with a status.
    pub(super) fn deny_lease(&self, status: Option<u16>) {
        self.change(|state| state.lease_status = status);
    }

    /// The Lease now.
    pub(super) fn lease(&self) -> Value {
        self.shared.lock().lease.clone().unwrap_or(Value::Null)
    }

    /// Waits until the state of the Lease is as wanted.
    pub(super) fn await_lease(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        self.wait(what, |state| state.lease.as_ref().is_some_and(&is_so));
    }

    /// Waits until there is a watch.
    pub(super) fn await_watch(&self) {
        self.wait("a watch", |state| state.watchers > 0);
    }

    /// Requests so far that have this text.
    pub(super) fn requests(&self, text: &str) -> usize {
        let state = self.shared.lock();
        let found = state.requests.iter().filter(|head| head.contains(text));
        found.count()
    }

    fn wait(&self, what: &str, is_so: impl Fn(&State) -> bool) {
        let end = Instant::now() + DEADLINE;
        let mut state = self.shared.lock();
        while !is_so(&state) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "in vain: {what}: {:?}", state.requests);
            state = self.shared.changed.wait_timeout(state, left).unwrap().0;
        }
    }
}

impl Drop for EventApi {
    fn drop(&mut self) {
        self.change(|state| state.stopped = true);
        // Wakes the listener.
        drop(TcpStream::connect(self.address));
    }
}

fn line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({ "type": kind, "object": object }))
}

/// An event of a number, at a version.
fn event(number: u64, version: u64) -> Value {
    json!({
        "kind": "Event", "apiVersion": "v1",
        "metadata": {
            "name": format!("event-{number:04}"), "namespace": "shop",
            "uid": format!("uid-{number}"), "resourceVersion": version.to_string(),
            "managedFields": [{ "manager": "kubelet" }],
        },
        "involvedObject": {
            "kind": "Pod", "namespace": "shop", "name": format!("web-{number}"), "uid": "u",
            "apiVersion": "v1", "fieldPath": "spec.containers{web}",
        },
        "reason": "BackOff", "message": format!("Back-off {number}"), "type": "Warning",
        "source": { "component": "kubelet", "host": "node-1" },
        "firstTimestamp": "2026-03-04T05:06:07Z", "lastTimestamp": "2026-03-04T05:06:08Z",
        "count": 2,
    })
}

struct Request {
    method: String,
    path: String,
    query: String,
    body: Vec<u8>,
}

impl Request {
    fn read(stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let (mut first, mut length) = (String::new(), 0);
        stream.read_line(&mut first).ok().filter(|n| *n > 0)?;
        loop {
            let mut header = String::new();
            stream.read_line(&mut header).ok().filter(|n| *n > 0)?;
            let (name, value) = match header.trim_end().split_once(':') {
                Some(pair) => pair,
                None => break,
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        let mut words = first.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Some(Self {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            body,
        })
    }

    fn of_query(&self, name: &str) -> Option<&str> {
        let mut pairs = self
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn serve(&self, stream: TcpStream) {
        let mut out = stream.try_clone().unwrap();
        let mut stream = BufReader::new(stream);
        while let Some(request) = Request::read(&mut stream) {
            let head = format!("{} {}?{}", request.method, request.path, request.query);
            self.lock().requests.push(head);
            self.changed.notify_all();
            let answered = match request.path.as_str() {
                "/api/v1/events" if request.of_query("watch").is_some() => {
                    self.watch(&mut out, &request);
                    None
                }
                "/api/v1/events" => self.list(&mut out, &request),
                path if path.contains("/leases") => self.lease(&mut out, &request),
                _ => answer(&mut out, 404, &status(404, "no such path")),
            };
            if answered.is_none() {
                return;
            }
        }
    }

    /// A page; the token of the next one is the number of objects before it.
    fn list(&self, out: &mut TcpStream, request: &Request) -> Option<()> {
        let state = self.lock();
        let limit: usize = request.of_query("limit")?.parse().ok()?;
        let from = request.of_query("continue").unwrap_or("0");
        let from: usize = from.parse().ok()?;
        let items: Vec<&Value> = state.events.values().skip(from).take(limit).collect();
        let next = match from + items.len() < state.events.len() {
            true => (from + items.len()).to_string(),
            false => String::new(),
        };
        let metadata = json!({ "resourceVersion": state.version.to_string(), "continue": next });
        let body = json!({ "kind": "EventList", "metadata": metadata, "items": items });
        drop(state);
        answer(out, 200, &body)
    }

    fn watch(&self, out: &mut TcpStream, request: &Request) -> Option<()> {
        let version: u64 = request.of_query("resourceVersion")?.parse().ok()?;
        let mut state = self.lock();
        if version < state.compacted {
            drop(state);
            return answer(out, 410, &status(410, "too old resource version"));
        }
        if version > state.version {
            let words = format!("Too large resource version: {version}");
            drop(state);
            return answer(out, 504, &status(504, &words));
        }
        let cuts = state.cuts;
        state.watchers += 1;
        self.changed.notify_all();
        drop(state);
        let _ = self.play(out, version, cuts);
        self.lock().watchers -= 1;
        self.changed.notify_all();
        Some(())
    }

    fn play(&self, out: &mut TcpStream, version: u64, cuts: u64) -> Option<()> {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        out.write_all(head.as_bytes()).ok()?;
        let mut sent = version;
        let mut state = self.lock();
        loop {
            if state.stopped || state.cuts != cuts {
                let half = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"na";
                return chunk(out, half);
            }
            let fresh: Vec<_> = state
                .log
                .iter()
                .filter(|(at, _)| *at > sent)
                .cloned()
                .collect();
            if fresh.is_empty() {
                state = self.changed.wait(state).unwrap();
                continue;
            }
            drop(state);
            for (at, line) in fresh {
                chunk(out, &line)?;
                sent = at;
            }
            state = self.lock();
        }
    }

    fn lease(&self, out: &mut TcpStream, request: &Request) -> Option<()> {
        let mut state = self.lock();
        if let Some(code) = state.lease_status {
            drop(state);
            return answer(out, code, &status(code, "leases is forbidden"));
        }
        let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
        let written = (request.method != "GET").then(|| {
            let object: Value = serde_json::from_slice(&request.body).unwrap();
            object
        });
        let (code, body) = match (written, state.lease.clone()) {
            (None, Some(lease)) => (200, lease),
            (None, None) => (404, status(404, "no such lease")),
            (Some(_), Some(_)) if request.method == "POST" => (409, status(409, "exists")),
            (Some(new), Some(lease)) if version(&new) != version(&lease) => {
                (409, status(409, "the object has been modified"))
            }
            (Some(_), None) if request.method == "PUT" => (404, status(404, "no such lease")),
            (Some(mut new), _) => {
                check_lease(&new);
                state.version += 1;
                new["metadata"]["resourceVersion"] = state.version.to_string().into();
                state.lease = Some(new.clone());
                (200, new)
            }
        };
        drop(state);
        self.changed.notify_all();
        answer(out, code, &body)
    }
}

/// Checks what a real server refuses: times of another form, and a Lease without its names.
fn check_lease(lease: &Value) {
    assert_eq!(lease["metadata"]["name"], "inrush-events");
    assert_eq!(lease["kind"], "Lease");
    for name in ["acquireTime", "renewTime"] {
        // RFC 3339 with six digits of a second (`MicroTime`).
        let time = lease["spec"][name].as_str().unwrap();
        assert_eq!((time.len(), time.ends_with('Z')), (27, true), "{time}");
    }
}

fn status(code: u16, message: &str) -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": code, "message": message })
}

fn answer(out: &mut TcpStream, code: u16, body: &Value) -> Option<()> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {code} X\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    out.write_all(format!("{head}{body}").as_bytes()).ok()
}

fn chunk(out: &mut TcpStream, text: &str) -> Option<()> {
    let text = format!("{:x}\r\n{text}\r\n", text.len());
    out.write_all(text.as_bytes()).ok()
}
