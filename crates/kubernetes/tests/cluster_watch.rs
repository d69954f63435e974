//! The watches of a cluster against a stand-in for its API server.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use inrush_kubernetes::{
    AnnotationSettings, ClusterAccess, ClusterWatch, ContainerStream, KindPhase, MetadataLookup,
    MetadataStore, ObjectAnomaly, ObjectKind, PodMetadata, WatchScope, WorkloadKind, resolve,
};
use inrush_testkit::{ApiServer, DEADLINE};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

const PODS_ONLY: WatchScope = WatchScope {
    namespaces: false,
    workloads: false,
};

fn pod(name: &str, index: &str, owner: &str) -> String {
    let owner = match owner.split_once(' ') {
        Some((kind, name)) => format!(
            r#","ownerReferences":[{{"kind":"{kind}","name":"{name}","uid":"o","controller":true}}]"#
        ),
        None => String::new(),
    };
    format!(
        r#"{{"metadata":{{"namespace":"shop","name":"{name}","uid":"u-{name}",
        "resourceVersion":"5","annotations":{{"inrush.io/index":"{index}"}}{owner}}},
        "spec":{{"nodeName":"node-1","containers":[{{"name":"web","image":"i"}}]}}}}"#
    )
    .replace('\n', "")
}

fn meta(namespace: &str, name: &str, index: &str) -> String {
    format!(
        r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","uid":"u",
        "annotations":{{"inrush.io/index":"{index}"}}}}}}"#
    )
    .replace('\n', "")
}

/// Access over plain TCP.
fn plain(server: &ApiServer) -> ClusterAccess {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("config");
    let text = format!(
        "current-context: a\ncontexts: [{{name: a, context: {{cluster: c}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'http://{}'}}}}]\n",
        server.address
    );
    std::fs::write(&path, text).unwrap();
    ClusterAccess::from_kubeconfig(&path).unwrap()
}

/// Waits until `look` finds what it wants.
fn eventually<T>(store: &MetadataStore, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        let seen = store.generation();
        if let Some(found) = look() {
            return found;
        }
        let left = end.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "nothing came: {:?}", store.phases());
        store.wait_beyond(seen, left);
    }
}

fn found(store: &MetadataStore, pod: &str) -> Option<Arc<PodMetadata>> {
    let uid = format!("u-{pod}");
    match store.lookup("shop", pod, &uid, "web") {
        MetadataLookup::Found(metadata) => Some(metadata),
        MetadataLookup::Waiting | MetadataLookup::Unknown => None,
    }
}

/// Index that the annotations of a pod decide.
fn index(metadata: &PodMetadata) -> String {
    let settings = AnnotationSettings::default();
    let policy = resolve(metadata, "web", ContainerStream::Stdout, &settings);
    policy.index.unwrap_or_default().to_string()
}

fn wait_for_index(store: &MetadataStore, pod: &str, expected: &str) {
    eventually(store, || {
        found(store, pod).filter(|one| index(one) == expected)
    });
}

#[test]
fn events_are_visible_to_the_next_lookup() {
    let server = ApiServer::start(None);
    server.set("pods", 1, &[pod("a", "first", "")]);
    let watch = ClusterWatch::start("node-1", plain(&server), PODS_ONLY).unwrap();
    let store = watch.store();
    wait_for_index(store, "a", "first");
    server.push("pods", 2, "MODIFIED", &pod("a", "second", ""));
    wait_for_index(store, "a", "second");
    server.push("pods", 3, "ADDED", &pod("b", "x", ""));
    wait_for_index(store, "b", "x");
    server.push("pods", 4, "DELETED", &pod("a", "second", ""));
    eventually(store, || found(store, "a").filter(|one| one.removed));
    let state = &watch.states()[0];
    assert_eq!(
        (state.kind, &state.phase),
        (ObjectKind::Pod, &KindPhase::Live)
    );
    assert_eq!(state.counts.events.load(Ordering::Relaxed), 3);
}

#[test]
fn a_stream_that_is_cut_within_an_event_goes_on_after_the_last_whole_one() {
    let server = ApiServer::start(None);
    let watch = ClusterWatch::start("node-1", plain(&server), PODS_ONLY).unwrap();
    let store = watch.store();
    server.wait_for_watch("pods");
    let bookmark = r#"{"metadata":{"resourceVersion":"7"}}"#;
    server.push("pods", 7, "BOOKMARK", bookmark);
    let event = format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", pod("a", "x", ""));
    let (half, _) = event.split_at(event.len() / 2);
    server.push_bytes("pods", 8, half.as_bytes());
    server.cut("pods");
    let watches = server.wait_for_requests("watch=1", 2);
    assert!(watches[1].contains("&resourceVersion=7 "), "{watches:?}");
    assert_eq!(store.anomalies().get(ObjectAnomaly::CutEvent), 1);
    // The stand-in sends the half again, then the rest.
    let rest = &event[half.len()..];
    server.push_bytes("pods", 8, rest.as_bytes());
    wait_for_index(store, "a", "x");
    assert_eq!(
        server.wait_for_requests("/pods?", 3).len(),
        3,
        "one list, two watches"
    );
}

#[test]
fn a_forgotten_version_is_listed_again() {
    let server = ApiServer::start(None);
    server.set("pods", 1, &[pod("a", "x", ""), pod("b", "x", "")]);
    let watch = ClusterWatch::start("node-1", plain(&server), PODS_ONLY).unwrap();
    let store = watch.store();
    server.wait_for_watch("pods");
    server.set("pods", 50, &[pod("b", "y", ""), pod("c", "x", "")]);
    server.compact("pods");
    server.cut("pods");
    wait_for_index(store, "c", "x");
    wait_for_index(store, "b", "y");
    assert!(found(store, "a").unwrap().removed);
    assert_eq!(watch.states()[0].counts.gone.load(Ordering::Relaxed), 1);
}

#[test]
fn ten_thousand_pods_are_listed_packed_and_plain() {
    for packed in [false, true] {
        let server = ApiServer::start(None);
        let pods: Vec<String> = (0..10_000)
            .map(|n| pod(&format!("p{n}"), "x", ""))
            .collect();
        server.set("pods", 1, &pods);
        if packed {
            server.pack("pods");
        }
        let watch = ClusterWatch::start("node-1", plain(&server), PODS_ONLY).unwrap();
        let store = watch.store();
        eventually(store, || store.is_ready().then_some(()));
        assert_eq!(store.live_pods().len(), 10_000);
        let list = &server.wait_for_requests("limit=", 1)[0];
        assert!(list.contains("accept-encoding: gzip"), "{list}");
    }
}

#[test]
fn what_is_denied_is_done_without() {
    let server = ApiServer::start(None);
    server.answer_with("namespaces", Some(403));
    server.answer_with("statefulsets", Some(403));
    server.set("pods", 1, &[pod("a", "x", "StatefulSet db")]);
    let access = plain(&server);
    let watch = ClusterWatch::start("node-1", access, WatchScope::default()).unwrap();
    let store = watch.store();
    let metadata = eventually(store, || found(store, "a"));
    assert!(metadata.namespace.is_none());
    assert_eq!(&*metadata.workloads[0].name, "db");
    let denied = [
        ObjectKind::Namespace,
        ObjectKind::Workload(WorkloadKind::StatefulSet),
    ];
    for kind in denied {
        let states = watch.states();
        let state = states.iter().find(|state| state.kind == kind).unwrap();
        let text = "HTTP 403: as told".to_owned();
        assert_eq!(state.phase, KindPhase::Denied(text));
    }
}

#[test]
fn workloads_are_watched_once_a_pod_needs_them() {
    let server = ApiServer::start(None);
    server.set("deployments", 1, &[meta("shop", "web", "deployment")]);
    server.set("namespaces", 1, &[meta("", "shop", "namespace")]);
    let access = plain(&server);
    let watch = ClusterWatch::start("node-1", access, WatchScope::default()).unwrap();
    let store = watch.store();
    server.wait_for_watch("pods");
    server.wait_for_watch("namespaces");
    assert!(!server.requests().iter().any(|head| head.contains("/apis/")));
    let owned = pod("a", "", "ReplicaSet web-77").replace(
        "\"annotations\":{\"inrush.io/index\":\"\"}",
        "\"labels\":{\"pod-template-hash\":\"77\"}",
    );
    server.push("pods", 2, "ADDED", &owned);
    wait_for_index(store, "a", "deployment");
    server.push(
        "deployments",
        3,
        "MODIFIED",
        &meta("shop", "web", "changed"),
    );
    wait_for_index(store, "a", "changed");
    server.push("deployments", 4, "DELETED", &meta("shop", "web", "changed"));
    wait_for_index(store, "a", "namespace");
    server.push("namespaces", 5, "MODIFIED", &meta("", "shop", "moved"));
    wait_for_index(store, "a", "moved");
    let lists = server.wait_for_requests("GET /apis/", 2);
    assert!(
        lists
            .iter()
            .all(|head| head.contains("/apis/apps/v1/deployments?"))
    );
    assert!(lists[0].contains("accept: application/json;as=PartialObjectMetadataList;"));
}

#[test]
fn an_api_that_is_away_is_awaited() {
    let server = ApiServer::start(None);
    let (address, access) = (server.address, plain(&server));
    drop(server);
    let watch = ClusterWatch::start("node-1", access, PODS_ONLY).unwrap();
    let store = watch.store();
    eventually(store, || {
        let phases = store.phases();
        let is_failing = phases
            .iter()
            .any(|(_, phase)| matches!(phase, KindPhase::Failing(_)));
        is_failing.then_some(())
    });
    let answer = store.lookup("shop", "a", "u-a", "web");
    assert!(matches!(answer, MetadataLookup::Waiting), "{answer:?}");
    let server = ApiServer::start_at(address, None);
    server.set("pods", 1, &[pod("a", "x", "")]);
    wait_for_index(store, "a", "x");
}

#[test]
fn a_slow_api_is_awaited_and_does_not_delay_the_stop() {
    let server = ApiServer::start(None);
    server.hold("pods", true);
    server.set("pods", 1, &[pod("a", "x", "")]);
    let watch = ClusterWatch::start("node-1", plain(&server), PODS_ONLY).unwrap();
    server.wait_for_requests("/pods?", 1);
    assert!(!watch.store().is_ready());
    server.hold("pods", false);
    wait_for_index(watch.store(), "a", "x");
    server.wait_for_watch("pods");
    // A watch in which nothing comes, and a list that is held.
    watch.stop();
    assert!(found(watch.store(), "a").is_some());
    server.hold("pods", true);
    let watch = ClusterWatch::start("node-1", plain(&server), PODS_ONLY).unwrap();
    server.wait_for_requests("limit=", 2);
    drop(watch);
}

#[test]
fn redirects_are_not_followed() {
    let server = ApiServer::start(None);
    server.answer_with("pods", Some(302));
    let watch = ClusterWatch::start("node-1", plain(&server), PODS_ONLY).unwrap();
    let store = watch.store();
    eventually(store, || {
        let phases = store.phases();
        let phase = phases.into_iter().next()?.1;
        matches!(phase, KindPhase::Failing(text) if text.starts_with("HTTP 302")).then_some(())
    });
    assert!(
        server
            .requests()
            .iter()
            .all(|head| !head.contains("elsewhere"))
    );
}

/// Authority of a cluster, and what it vouches for.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            certificate: certificate.der().clone(),
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// A certificate for 127.0.0.1 or for a client, and its key, in PEM form.
    fn leaf(&self) -> (CertificateDer<'static>, String, KeyPair) {
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.der().clone(), certificate.pem(), key)
    }

    fn server_config(&self, clients: Option<&Authority>) -> Arc<ServerConfig> {
        let (certificate, _, key) = self.leaf();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.certificate.clone()).unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        Arc::new(builder.with_single_cert(vec![certificate], key).unwrap())
    }
}

/// A service account in a folder.
fn service_account(folder: &Path, authority: &Authority, server: &ApiServer) -> ClusterAccess {
    std::fs::write(folder.join("token"), "one").unwrap();
    std::fs::write(folder.join("ca.crt"), &authority.pem).unwrap();
    let port = server.address.port().to_string();
    let env = move |name: &str| match name {
        "KUBERNETES_SERVICE_HOST" => Some("127.0.0.1".to_owned()),
        "KUBERNETES_SERVICE_PORT" => Some(port.clone()),
        _ => None,
    };
    ClusterAccess::in_cluster(&env, folder).unwrap()
}

/// Replaces a file as the kubelet does.
fn replace(path: PathBuf, text: &str) {
    let new = path.with_extension("new");
    std::fs::File::create(&new)
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    std::fs::rename(new, path).unwrap();
}

#[test]
fn a_service_account_is_used_over_tls_and_its_rotated_token_too() {
    let (home, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let server = ApiServer::start(Some(authority.server_config(None)));
    server.set("pods", 1, &[pod("a", "x", "")]);
    let access = service_account(home.path(), &authority, &server);
    let watch = ClusterWatch::start("node-1", access, PODS_ONLY).unwrap();
    wait_for_index(watch.store(), "a", "x");
    server.wait_for_watch("pods");
    let first = server.wait_for_requests("watch=1", 1);
    assert!(
        first[0].contains("authorization: Bearer one\r\n"),
        "{first:?}"
    );
    replace(home.path().join("token"), "two");
    server.push("pods", 2, "ADDED", &pod("b", "x", ""));
    wait_for_index(watch.store(), "b", "x");
    server.cut("pods");
    let second = server.wait_for_requests("watch=1", 2);
    assert!(
        second[1].contains("authorization: Bearer two\r\n"),
        "{second:?}"
    );
}

#[test]
fn a_rotated_authority_is_read_anew() {
    let (home, old, new) = (
        tempfile::tempdir().unwrap(),
        Authority::new(),
        Authority::new(),
    );
    let server = ApiServer::start(Some(old.server_config(None)));
    server.set("pods", 1, &[pod("a", "x", "")]);
    let access = service_account(home.path(), &old, &server);
    let watch = ClusterWatch::start("node-1", access, PODS_ONLY).unwrap();
    wait_for_index(watch.store(), "a", "x");
    let address = server.address;
    replace(home.path().join("ca.crt"), &new.pem);
    drop(server);
    let server = ApiServer::start_at(address, Some(new.server_config(None)));
    server.set("pods", 2, &[pod("a", "x", "")]);
    server.push("pods", 3, "ADDED", &pod("b", "x", ""));
    wait_for_index(watch.store(), "b", "x");
}

#[test]
fn a_server_that_nobody_vouches_for_gets_no_token() {
    let (home, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let server = ApiServer::start(Some(Authority::new().server_config(None)));
    server.set("pods", 1, &[pod("a", "x", "")]);
    let access = service_account(home.path(), &authority, &server);
    let watch = ClusterWatch::start("node-1", access.clone(), PODS_ONLY).unwrap();
    let store = watch.store();
    eventually(store, || {
        let phases = store.phases();
        let phase = phases.into_iter().next()?.1;
        matches!(phase, KindPhase::Failing(text) if text.contains("certificate")).then_some(())
    });
    assert_eq!(server.requests(), [""; 0]);
    let access = ClusterAccess {
        trusts_any: true,
        ..access
    };
    let watch = ClusterWatch::start("node-1", access, PODS_ONLY).unwrap();
    wait_for_index(watch.store(), "a", "x");
}

#[test]
fn a_client_certificate_is_shown_and_a_wrong_key_is_named() {
    let (home, authority, clients) = (
        tempfile::tempdir().unwrap(),
        Authority::new(),
        Authority::new(),
    );
    let server = ApiServer::start(Some(authority.server_config(Some(&clients))));
    server.set("pods", 1, &[pod("a", "x", "")]);
    let (_, certificate, key) = clients.leaf();
    let (_, _, other_key) = clients.leaf();
    let path = |name: &str| home.path().join(name);
    std::fs::write(path("ca"), &authority.pem).unwrap();
    std::fs::write(path("cert"), certificate).unwrap();
    std::fs::write(path("key"), other_key.serialize_pem()).unwrap();
    let config = format!(
        "current-context: a\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'https://{}', certificate-authority: ca}}}}]\n\
         users: [{{name: u, user: {{client-certificate: cert, client-key: key}}}}]\n",
        server.address
    );
    std::fs::write(path("config"), config).unwrap();
    let access = ClusterAccess::from_kubeconfig(&path("config")).unwrap();
    let watch = ClusterWatch::start("node-1", access, PODS_ONLY).unwrap();
    let store = watch.store();
    eventually(store, || {
        let phases = store.phases();
        let phase = phases.into_iter().next()?.1;
        matches!(phase, KindPhase::Failing(text) if text.contains("does not fit")).then_some(())
    });
    // Mended while it runs.
    replace(path("key"), &key.serialize_pem());
    wait_for_index(store, "a", "x");
}
