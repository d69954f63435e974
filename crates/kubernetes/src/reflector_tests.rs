//! Tests of the reflector against a model of the API server: after any interleaving of lists,
//! events, cuts and lost versions the store has what the server has.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::MutexGuard;

use proptest::prelude::*;

use super::*;

/// Objects in a page of the model.
const MODEL_PAGE: usize = 3;

/// Change of the server's state.
#[derive(Clone, Debug)]
enum ModelChange {
    /// The pod of this number is made, or changed.
    Put(u8),
    /// It is removed.
    Delete(u8),
    /// It is removed, and made again under its name with another uid.
    Replace(u8),
    /// All versions but the newest are forgotten.
    Compact,
}

/// Fault of the next answer.
#[derive(Clone, Debug)]
enum ModelFault {
    /// No connection.
    Away,
    /// This status in place of an answer.
    Status(u16),
    /// The body ends after so many bytes.
    Cut(usize),
    /// A line in front of a watch's events.
    Line(&'static str),
    /// A line of nine million bytes in front of a watch's events.
    HugeLine,
    /// A watch begins with 410 as an event.
    GoneEvent,
    /// A list from a cache that is so many versions behind.
    Stale(u64),
    /// A change between the pages of a list.
    ChangeWithin(ModelChange),
    /// Every event twice.
    Doubled,
}

/// Step of a test.
#[derive(Clone, Debug)]
enum ModelStep {
    Change(ModelChange),
    /// A round of the reflector, with faults of its answers.
    Round(Vec<ModelFault>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ModelPod {
    uid: String,
    index: String,
}

#[derive(Default)]
struct ModelState {
    pods: BTreeMap<u8, ModelPod>,
    version: u64,
    compacted: u64,
    /// Every event: version, type, object.
    history: Vec<(u64, &'static str, String)>,
    /// The pods at each version.
    states: BTreeMap<u64, BTreeMap<u8, ModelPod>>,
    faults: VecDeque<ModelFault>,
    requests: Vec<String>,
}

struct ModelServer(Mutex<ModelState>);

fn object(number: u8, pod: &ModelPod, version: u64) -> String {
    let ModelPod { uid, index } = pod;
    format!(
        r#"{{"metadata":{{"name":"p{number}","namespace":"n","uid":"{uid}",
        "resourceVersion":"{version}","annotations":{{"inrush.io/index":"{index}"}}}},
        "spec":{{"nodeName":"node-1","containers":[{{"name":"c"}}]}}}}"#
    )
    .replace('\n', " ")
}

impl ModelState {
    fn change(&mut self, change: &ModelChange) {
        match *change {
            ModelChange::Put(number) => {
                self.version += 1;
                let index = format!("i{}", self.version);
                let known = self.pods.get(&number);
                let uid = known.map(|pod| pod.uid.clone());
                let kind = if uid.is_some() { "MODIFIED" } else { "ADDED" };
                let uid = uid.unwrap_or_else(|| format!("u{}", self.version));
                let pod = ModelPod { uid, index };
                self.history
                    .push((self.version, kind, object(number, &pod, self.version)));
                self.pods.insert(number, pod);
            }
            ModelChange::Delete(number) => {
                if let Some(pod) = self.pods.remove(&number) {
                    self.version += 1;
                    let object = object(number, &pod, self.version);
                    self.history.push((self.version, "DELETED", object));
                }
            }
            ModelChange::Replace(number) => {
                self.change(&ModelChange::Delete(number));
                self.change(&ModelChange::Put(number));
            }
            ModelChange::Compact => self.compacted = self.version,
        }
        self.states.insert(self.version, self.pods.clone());
    }

    fn list(&mut self, request: &ApiRequest, fault: Option<&ModelFault>) -> (u16, String) {
        let (version, offset) = match value_of(request, "continue") {
            Some(token) => {
                let (version, offset) = token.split_once('.').unwrap();
                (version.parse().unwrap(), offset.parse().unwrap())
            }
            None => match (fault, value_of(request, "resourceVersion")) {
                (Some(ModelFault::Stale(behind)), Some("0")) => {
                    let old = self.version.saturating_sub(*behind).max(1);
                    (old, 0)
                }
                _ => (self.version, 0),
            },
        };
        if offset > 0 && version < self.compacted {
            return (410, String::new());
        }
        let (_, pods) = self.states.range(..=version).next_back().unwrap();
        let page = pods.iter().skip(offset).take(MODEL_PAGE);
        let items: Vec<String> = page
            .map(|(number, pod)| object(*number, pod, version))
            .collect();
        let next = match offset + MODEL_PAGE < pods.len() {
            true => format!("{version}.{}", offset + MODEL_PAGE),
            false => String::new(),
        };
        let items = items.join(",");
        let meta = format!(r#"{{"resourceVersion":"{version}","continue":"{next}"}}"#);
        let body = format!(r#"{{"kind":"PodList","metadata":{meta},"items":[{items}]}}"#);
        if let Some(ModelFault::ChangeWithin(change)) = fault {
            self.change(&change.clone());
        }
        (200, body)
    }

    fn watch(&self, request: &ApiRequest, fault: Option<&ModelFault>) -> (u16, String) {
        let from: u64 = value_of(request, "resourceVersion")
            .unwrap()
            .parse()
            .unwrap();
        let gone = r#"{"type":"ERROR","object":{"code":410,"message":"too old"}}"#;
        if matches!(fault, Some(ModelFault::GoneEvent)) {
            return (200, format!("{gone}\n"));
        }
        if from < self.compacted {
            return (410, String::new());
        }
        let mut body = match fault {
            Some(ModelFault::Line(line)) => format!("{line}\n"),
            Some(ModelFault::HugeLine) => format!("{}\n", "x".repeat(9 << 20)),
            _ => String::new(),
        };
        let copies = if matches!(fault, Some(ModelFault::Doubled)) {
            2
        } else {
            1
        };
        for (version, kind, object) in &self.history {
            if *version > from {
                for _ in 0..copies {
                    body.push_str(&format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"));
                }
            }
        }
        let version = self.version;
        let meta = format!(r#"{{"metadata":{{"resourceVersion":"{version}"}}}}"#);
        body.push_str(&format!("{{\"type\":\"BOOKMARK\",\"object\":{meta}}}\n"));
        (200, body)
    }
}

/// Value of a query's parameter.
fn value_of<'a>(request: &'a ApiRequest, name: &str) -> Option<&'a str> {
    let (_, query) = request.path.split_once('?')?;
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .into_iter()
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

impl ModelServer {
    fn new() -> Self {
        let mut state = ModelState::default();
        state.change(&ModelChange::Put(0));
        Self(Mutex::new(state))
    }

    fn state(&self) -> MutexGuard<'_, ModelState> {
        self.0.lock().unwrap()
    }
}

impl ApiTransport for ModelServer {
    fn get(&self, request: &ApiRequest) -> Result<ApiAnswer, ApiFailure> {
        let mut state = self.state();
        state.requests.push(request.path.clone());
        let fault = state.faults.pop_front();
        let (status, body) = match (&fault, request.purpose) {
            (Some(ModelFault::Away), _) => return Err(ApiFailure::Connection("away".into())),
            (Some(ModelFault::Status(status)), _) => (*status, String::new()),
            (fault, RequestPurpose::List) => state.list(request, fault.as_ref()),
            (fault, RequestPurpose::Watch) => state.watch(request, fault.as_ref()),
        };
        let mut body = body.into_bytes();
        if let Some(ModelFault::Cut(bytes)) = fault {
            body.truncate(bytes);
        }
        Ok(ApiAnswer {
            status,
            retry_after: None,
            body: Box::new(io::Cursor::new(body)),
        })
    }

    fn renew(&self) {}

    fn stop(&self) {}
}

/// A reflector of pods over a model, and what it needs.
struct ModelSetup {
    server: ModelServer,
    store: std::sync::Arc<MetadataStore>,
    stop: StopSignal,
    counts: WatchCounts,
}

impl ModelSetup {
    fn new() -> Self {
        let store = MetadataStore::new("node-1");
        store.set_phase(ObjectKind::Pod, KindPhase::Starting);
        Self {
            server: ModelServer::new(),
            store,
            stop: StopSignal::default(),
            counts: WatchCounts::default(),
        }
    }

    fn reflector(&self) -> Reflector<'_> {
        let context = ReflectorContext {
            store: &self.store,
            transport: &self.server,
            stop: &self.stop,
            after_change: &|| (),
        };
        Reflector::new(ObjectKind::Pod, context, &self.counts)
    }

    /// The store's live pods: name, uid, index.
    fn stored(&self) -> Vec<(String, String, String)> {
        let pods = self.store.live_pods();
        let pods = pods.iter().map(|one| {
            let index = one.pod.annotations.get("inrush.io/index").unwrap();
            (
                one.pod.name.to_string(),
                one.pod.uid.to_string(),
                index.to_owned(),
            )
        });
        pods.collect()
    }

    /// The server's.
    fn served(&self) -> Vec<(String, String, String)> {
        let state = self.server.state();
        let pods = state.pods.iter();
        let mut pods: Vec<_> = pods
            .map(|(number, pod)| (format!("p{number}"), pod.uid.clone(), pod.index.clone()))
            .collect();
        pods.sort();
        pods
    }
}

/// Runs the steps, then rounds without faults. Panics if the store is not the server's state then.
fn converges(steps: &[ModelStep]) {
    let setup = ModelSetup::new();
    let mut reflector = setup.reflector();
    for step in steps {
        match step {
            ModelStep::Change(change) => setup.server.state().change(change),
            ModelStep::Round(faults) => {
                setup.server.state().faults = faults.iter().cloned().collect();
                if let Err(failure) = reflector.round::<PodObject>() {
                    reflector.note(failure, 1);
                }
            }
        }
    }
    setup.server.state().faults.clear();
    // One may find that its version is forgotten, the next one lists.
    for _ in 0..2 {
        reflector.round::<PodObject>().unwrap();
    }
    assert_eq!(setup.stored(), setup.served(), "{steps:?}");
    assert_eq!(setup.store.phase(ObjectKind::Pod), KindPhase::Live);
}

fn change() -> impl Strategy<Value = ModelChange> {
    prop_oneof![
        6 => (0u8..8).prop_map(ModelChange::Put),
        3 => (0u8..8).prop_map(ModelChange::Delete),
        2 => (0u8..8).prop_map(ModelChange::Replace),
        1 => Just(ModelChange::Compact),
    ]
}

fn fault() -> impl Strategy<Value = ModelFault> {
    prop_oneof![
        Just(ModelFault::Away),
        prop_oneof![
            Just(401),
            Just(403),
            Just(410),
            Just(429),
            Just(500),
            Just(504)
        ]
        .prop_map(ModelFault::Status),
        (0usize..2000).prop_map(ModelFault::Cut),
        prop_oneof![
            Just("{\"type\":\"ADDED\""),
            Just("not json"),
            Just("{\"type\":\"NEW\",\"object\":{}}"),
            Just("{\"type\":\"ERROR\",\"object\":{\"code\":500}}"),
            Just("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"x\"}}}"),
            Just("")
        ]
        .prop_map(ModelFault::Line),
        Just(ModelFault::GoneEvent),
        (0u64..6).prop_map(ModelFault::Stale),
        change().prop_map(ModelFault::ChangeWithin),
        Just(ModelFault::Doubled),
    ]
}

fn step() -> impl Strategy<Value = ModelStep> {
    prop_oneof![
        3 => change().prop_map(ModelStep::Change),
        2 => proptest::collection::vec(fault(), 0..4).prop_map(ModelStep::Round),
    ]
}

proptest! {
    #[test]
    fn any_interleaving_ends_with_the_servers_state(
        steps in proptest::collection::vec(step(), 0..40)
    ) {
        converges(&steps);
    }
}

#[test]
fn a_list_is_read_page_by_page_and_its_watch_goes_on_from_it() {
    let setup = ModelSetup::new();
    for number in 0..8 {
        setup.server.state().change(&ModelChange::Put(number));
    }
    let mut reflector = setup.reflector();
    reflector.round::<PodObject>().unwrap();
    assert_eq!(setup.stored().len(), 8);
    let requests = std::mem::take(&mut setup.server.state().requests);
    let base = "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1&";
    assert_eq!(requests[0], format!("{base}limit=500&resourceVersion=0"));
    assert_eq!(requests[1], format!("{base}limit=500&continue=9.3"));
    assert_eq!(requests[2], format!("{base}limit=500&continue=9.6"));
    let watch = format!("{base}watch=1&allowWatchBookmarks=true&timeoutSeconds=");
    assert!(requests[3].starts_with(&watch) && requests[3].ends_with("&resourceVersion=9"));
    setup.server.state().change(&ModelChange::Put(1));
    reflector.round::<PodObject>().unwrap();
    reflector.round::<PodObject>().unwrap();
    let requests = std::mem::take(&mut setup.server.state().requests);
    assert_eq!(requests.len(), 2, "no list again");
    assert!(
        requests[1].ends_with("&resourceVersion=10"),
        "a bookmark's version: {requests:?}"
    );
    assert_eq!(setup.counts.lists.load(Ordering::Relaxed), 1);
}

#[test]
fn a_forgotten_version_is_listed_past_the_cache() {
    for fault in [ModelFault::GoneEvent, ModelFault::Status(410)] {
        let setup = ModelSetup::new();
        let mut reflector = setup.reflector();
        reflector.round::<PodObject>().unwrap();
        setup.server.state().requests.clear();
        setup.server.state().faults.push_back(fault);
        reflector.round::<PodObject>().unwrap();
        reflector.round::<PodObject>().unwrap();
        let requests = std::mem::take(&mut setup.server.state().requests);
        assert!(requests[1].ends_with("&limit=500"), "{requests:?}");
        assert_eq!(setup.counts.gone.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn odd_events_are_counted_and_the_watch_goes_on() {
    let rows = [
        (ModelFault::HugeLine, ObjectAnomaly::ObjectTooLarge, true),
        (
            ModelFault::Line("{\"type\":\"NEW\"}"),
            ObjectAnomaly::UnknownEvent,
            true,
        ),
        (
            ModelFault::Line("{\"type\":\"ADDED\",\"object\":{\"metadata\":{}}}"),
            ObjectAnomaly::UnnamedObject,
            true,
        ),
        (ModelFault::Line("{]"), ObjectAnomaly::MalformedEvent, false),
        (ModelFault::Cut(40), ObjectAnomaly::CutEvent, true),
    ];
    for (fault, anomaly, goes_on) in rows {
        let setup = ModelSetup::new();
        let mut reflector = setup.reflector();
        reflector.round::<PodObject>().unwrap();
        setup.server.state().change(&ModelChange::Put(3));
        setup.server.state().faults.push_back(fault.clone());
        let result = reflector.round::<PodObject>();
        assert_eq!(result.is_ok(), goes_on, "{fault:?}");
        assert_eq!(setup.store.anomalies().get(anomaly), 1, "{fault:?}");
        reflector.round::<PodObject>().unwrap();
        assert_eq!(setup.stored(), setup.served(), "{fault:?}");
        let lists = setup.counts.lists.load(Ordering::Relaxed);
        assert_eq!(lists, if goes_on { 1 } else { 2 }, "{fault:?}");
    }
}

#[test]
fn what_is_denied_is_noted_and_asked_again_later() {
    let setup = ModelSetup::new();
    let mut reflector = setup.reflector();
    let mut fail = |fault: ModelFault| {
        setup.server.state().faults.push_back(fault);
        let failure = reflector.round::<PodObject>().unwrap_err();
        let wait = reflector.note(failure, 1);
        (setup.store.phase(ObjectKind::Pod), wait)
    };
    let (phase, wait) = fail(ModelFault::Away);
    assert_eq!(phase, KindPhase::Failing("away".into()));
    assert!(wait <= PAUSE_FIRST);
    let (phase, wait) = fail(ModelFault::Status(403));
    assert!(matches!(phase, KindPhase::Denied(text) if text.starts_with("HTTP 403")));
    assert_eq!(wait, PAUSE_DENIED);
    assert!(matches!(
        fail(ModelFault::Status(404)).0,
        KindPhase::Denied(_)
    ));
    assert!(matches!(
        fail(ModelFault::Status(401)).0,
        KindPhase::Failing(_)
    ));
    reflector.round::<PodObject>().unwrap();
    assert_eq!(setup.store.phase(ObjectKind::Pod), KindPhase::Live);
    setup
        .server
        .state()
        .faults
        .push_back(ModelFault::Status(500));
    let failure = reflector.round::<PodObject>().unwrap_err();
    reflector.note(failure, 1);
    assert!(matches!(
        setup.store.phase(ObjectKind::Pod),
        KindPhase::Lost(_)
    ));
}

#[test]
fn a_server_that_asks_for_a_pause_gets_it() {
    let setup = ModelSetup::new();
    let mut reflector = setup.reflector();
    let asked = Duration::from_secs(20);
    let status = StatusAnswer {
        code: 429,
        message: String::new(),
    };
    let failure = RoundError(RoundFailure::Refused(status, Some(asked)));
    assert_eq!(reflector.note(failure, 1), asked);
}

#[test]
fn a_server_that_only_forgets_or_cuts_is_asked_ever_less() {
    let setup = ModelSetup::new();
    let mut reflector = setup.reflector();
    for fault in [ModelFault::GoneEvent, ModelFault::Cut(0)] {
        setup.server.state().faults = [ModelFault::Doubled, fault.clone()].into_iter().collect();
        reflector.version = None;
        reflector.round::<PodObject>().unwrap();
        assert!(!reflector.has_progress, "{fault:?}");
    }
    reflector.round::<PodObject>().unwrap();
    assert!(reflector.has_progress);
    for (failures, full_ms) in [(0, 500), (1, 500), (2, 1000), (5, 8000), (60, 30_000)] {
        for _ in 0..100 {
            let ms = pause(failures).as_millis();
            assert!(ms >= full_ms / 2 && ms <= full_ms, "{failures}: {ms}");
        }
    }
}

#[test]
fn a_list_that_is_old_is_made_anew() {
    let setup = ModelSetup::new();
    let mut reflector = setup.reflector();
    reflector.round::<PodObject>().unwrap();
    let Some(long_ago) = Instant::now().checked_sub(RELIST_AFTER) else {
        return;
    };
    reflector.listed_at = long_ago;
    reflector.round::<PodObject>().unwrap();
    assert_eq!(setup.counts.lists.load(Ordering::Relaxed), 2);
}

#[test]
fn other_kinds_have_their_paths() {
    let setup = ModelSetup::new();
    let path = |kind| {
        let mut reflector = setup.reflector();
        reflector.kind = kind;
        reflector.path()
    };
    assert_eq!(path(ObjectKind::Namespace), "/api/v1/namespaces?");
    let rows = [
        (WorkloadKind::Deployment, "/apis/apps/v1/deployments?"),
        (WorkloadKind::StatefulSet, "/apis/apps/v1/statefulsets?"),
        (WorkloadKind::DaemonSet, "/apis/apps/v1/daemonsets?"),
        (WorkloadKind::CronJob, "/apis/batch/v1/cronjobs?"),
        (WorkloadKind::Job, "/apis/batch/v1/jobs?"),
    ];
    for (kind, expected) in rows {
        assert_eq!(path(ObjectKind::Workload(kind)), expected);
    }
    let mut escaped = String::new();
    push_escaped(&mut escaped, "a b/ü=&~");
    assert_eq!(escaped, "a%20b%2F%C3%BC%3D%26~");
}
