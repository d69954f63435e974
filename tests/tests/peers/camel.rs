//! Apache Camel's `splunk-hec` component, which sends over TLS only.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use inrush_tests::*;

/// A Java key store with the test's authority, for the certificate to be verified.
fn trusted(keytool: &Path, dir: &Path) -> String {
    let store = dir.join("trusted.p12");
    let mut command = Command::new(keytool);
    command.args([
        "-importcert",
        "-noprompt",
        "-storepass",
        "changeit",
        "-keystore",
    ]);
    run_ok(command.arg(&store).arg("-file").arg(dir.join("ca.pem")));
    store.display().to_string()
}

fn send(store: &str, to: SocketAddr) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/camel/Send.java");
    let names = "index=netops&source=src&sourcetype=peer:test&host=h1";
    let options = format!("token={HEC_TOKEN}&https=true&sslContextParameters=#tls&{names}");
    let url = format!("splunk-hec:localhost:{}?{options}", to.port());
    let mut command = Command::new(tool("java").unwrap());
    command
        .arg(format!("-Djavax.net.ssl.trustStore={store}"))
        .arg("-Djavax.net.ssl.trustStorePassword=changeit")
        .arg("-cp")
        .arg(peer_tool("camel").unwrap().join("*"))
        .arg(program);
    run_ok(command.args([&url, "one", "two"]));
}

#[test]
#[ignore = "foreign program: make test-peers"]
fn camel_is_served_over_tls() {
    let (Some(keytool), Some(_), Some(_)) = (tool("keytool"), tool("java"), peer_tool("camel"))
    else {
        skip!("camel-splunk-hec: no Java here, or Maven did not install it");
    };
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    pki.issue("server");
    let store = trusted(&keytool, dir.path());
    let config = pki.server("server");
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let tls = "tls: { cert_file: \"{dir}/server.pem\", key_file: \"{dir}/server.key\" }";
    let inrush = Inrush::with(&hec_peer_config(tls), options);
    send(&store, inrush.address("https"));
    let texts = hec_peer_texts("camel");
    assert_named(&inrush.collected(texts.len() as u64), &texts);
    // The same in the clear behind a recorder, for its requests.
    let peer = HecPeer::with(|to| Recorder::before_with_tls(to, config));
    send(&store, peer.address());
    peer.assert_served("camel");
}
