//! Tests of kubeconfig files and service accounts.
#![allow(clippy::unwrap_used)]

use super::*;

const CONFIG: &str = r#"
apiVersion: v1
kind: Config
current-context: here
preferences: {}
contexts:
- name: other
  context: {cluster: x, user: x}
- name: here
  context:
    cluster: home
    user: me
    namespace: shop
clusters:
- name: home
  cluster:
    server: https://10.0.0.1:6443/
    certificate-authority-data: Y2VydA==
users:
- name: me
  user: USER
"#;

fn read(text: &str) -> Result<ClusterAccess, ClusterAccessError> {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("config");
    std::fs::write(&path, text).unwrap();
    ClusterAccess::from_kubeconfig(&path)
}

fn with_user(user: &str) -> Result<ClusterAccess, ClusterAccessError> {
    read(&CONFIG.replace("USER", user))
}

#[test]
fn the_current_context_is_read() {
    let access = with_user("{token: abc.def}").unwrap();
    assert_eq!(access.server, "https://10.0.0.1:6443");
    assert_eq!(access.authorities, Some(PemSource::Text(b"cert".to_vec())));
    assert!(!access.trusts_any && access.identity.is_none());
    assert_eq!(access.read_token().unwrap().unwrap().expose(), "abc.def");
    assert!(!format!("{access:?}").contains("abc.def"));
    // JSON is YAML.
    let json = r#"{"current-context":"a","contexts":[{"name":"a","context":{"cluster":"c"}}],
        "clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:8001"}}]}"#;
    let access = read(json).unwrap();
    assert_eq!(
        (&*access.server, access.token.is_none()),
        ("http://127.0.0.1:8001", true)
    );
}

#[test]
fn files_are_found_beside_the_kubeconfig_and_read_anew() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("config");
    let user = "{token: stale, tokenFile: t/token, client-certificate: c.pem, client-key: /k.pem}";
    std::fs::write(&path, CONFIG.replace("USER", user)).unwrap();
    let access = ClusterAccess::from_kubeconfig(&path).unwrap();
    let identity = access.identity.as_ref().unwrap();
    assert_eq!(
        identity.certificates,
        PemSource::File(home.path().join("c.pem"))
    );
    assert_eq!(identity.key, PemSource::File("/k.pem".into()));
    assert!(access.read_token().is_err());
    std::fs::create_dir(home.path().join("t")).unwrap();
    for token in ["one", "two"] {
        std::fs::write(home.path().join("t/token"), format!("{token}\n")).unwrap();
        assert_eq!(access.read_token().unwrap().unwrap().expose(), token);
    }
    for bad in ["", "a b", "a\nb"] {
        std::fs::write(home.path().join("t/token"), bad).unwrap();
        assert!(access.read_token().is_err(), "{bad:?}");
    }
    assert!(identity.certificates.read().is_err());
    std::fs::write(home.path().join("c.pem"), "pem").unwrap();
    assert_eq!(identity.certificates.read().unwrap(), b"pem");
}

#[test]
fn data_beats_files() {
    let user = "{client-certificate: a, client-certificate-data: YQ==, client-key: b, \
        client-key-data: Yg==}";
    let identity = with_user(user).unwrap().identity.unwrap();
    assert_eq!(identity.certificates, PemSource::Text(b"a".to_vec()));
    assert_eq!(identity.key, PemSource::Text(b"b".to_vec()));
}

#[test]
fn what_inrush_does_not_have_is_named_with_its_place() {
    let rows = [
        ("{exec: {command: aws}}", "`exec`: plugins"),
        ("{auth-provider: {name: gcp}}", "`auth-provider`: plugins"),
        ("{username: a, password: b}", "`username`: passwords"),
        ("{as: root, token: a}", "`as`: requests"),
        ("{client-certificate-data: YQ==}", "are needed together"),
        (
            "{client-certificate-data: '*', client-key: x}",
            "is not base64",
        ),
        ("{token: [a]}", "`token` is a list"),
        ("{token: 'a b'}", "`token` holds spaces"),
    ];
    for (user, expected) in rows {
        let error = with_user(user).unwrap_err().to_string();
        assert!(error.contains(expected), "{user}: {error}");
        assert!(
            error.contains("config:2") || error.contains("config:1"),
            "{error}"
        );
    }
}

#[test]
fn a_file_that_leads_nowhere_is_an_error() {
    let config = CONFIG.replace("USER", "{token: secret}");
    let rows = [
        (
            "current-context: here",
            "current-context: gone",
            "has no context `gone`",
        ),
        (
            "current-context: here",
            "x: y",
            "`current-context` is missing",
        ),
        (
            "cluster: home",
            "cluster: gone",
            "`clusters` has no cluster `gone`",
        ),
        ("user: me", "user: gone", "`users` has no user `gone`"),
        (
            "https://10.0.0.1:6443/",
            "10.0.0.1",
            "`server` is no address",
        ),
        (
            "https://10.0.0.1:6443/",
            "ftp://10.0.0.1",
            "`server` is no address",
        ),
        (
            "https://10.0.0.1:6443/",
            "http://10.0.0.1",
            "over https only",
        ),
        (
            "certificate-authority-data: Y2VydA==",
            "proxy-url: http://p",
            "`proxy-url`",
        ),
        (
            "certificate-authority-data: Y2VydA==",
            "tls-server-name: x",
            "`tls-server-name`",
        ),
        (
            "server: https://10.0.0.1:6443/",
            "x: y",
            "`server` is missing",
        ),
    ];
    for (from, to, expected) in rows {
        let error = read(&config.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
    for text in ["", "[]", "a", "{", "\0"] {
        assert!(read(text).is_err(), "{text:?}");
    }
    let error = ClusterAccess::from_kubeconfig(Path::new("/nonexistent/config"));
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("/nonexistent/config")
    );
}

#[test]
fn any_server_is_trusted_only_if_it_is_asked_for() {
    let config = CONFIG.replace("USER", "{token: secret}");
    let any = config.replace(
        "certificate-authority-data: Y2VydA==",
        "insecure-skip-tls-verify: true",
    );
    assert!(read(&any).unwrap().trusts_any);
}

#[test]
fn a_pod_has_its_service_account() {
    let home = tempfile::tempdir().unwrap();
    let env = |host: &'static str| {
        move |name: &str| match name {
            "KUBERNETES_SERVICE_HOST" => Some(host.to_owned()),
            "KUBERNETES_SERVICE_PORT" => Some("443".to_owned()),
            _ => None,
        }
    };
    let error = ClusterAccess::in_cluster(&|_| None, home.path())
        .unwrap_err()
        .to_string();
    assert!(error.contains("KUBERNETES_SERVICE_HOST"), "{error}");
    let error = ClusterAccess::in_cluster(&env("10.0.0.1"), home.path()).unwrap_err();
    assert!(error.to_string().contains("token"), "{error}");
    std::fs::write(home.path().join("token"), "first").unwrap();
    std::fs::write(home.path().join("ca.crt"), "ca").unwrap();
    let access = ClusterAccess::in_cluster(&env("10.0.0.1"), home.path()).unwrap();
    assert_eq!(access.server, "https://10.0.0.1:443");
    assert_eq!(access.read_token().unwrap().unwrap().expose(), "first");
    std::fs::write(home.path().join("token"), "second").unwrap();
    assert_eq!(access.read_token().unwrap().unwrap().expose(), "second");
    let access = ClusterAccess::in_cluster(&env("fd00::1"), home.path()).unwrap();
    assert_eq!(access.server, "https://[fd00::1]:443");
}
