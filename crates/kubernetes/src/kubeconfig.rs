//! Access to a cluster's API: a `kubeconfig` file, or the service account of the own pod.
//!
//! # What it guarantees
//! * Tokens, keys and certificates of files are read anew for each connection or request, so that
//!   rotated ones act at once. A token is never shown.
//! * Ways to authenticate that Inrush does not have are an error that names them; it never goes on
//!   without.
//! * A credential goes over TLS only.
//!
//! # Limits
//! Files are read up to the limits of [`inrush_files::limits`]. The form of a kubeconfig is that of
//! `client-go` 1.34 (`tools/clientcmd/api/v1`).

use std::fmt;
use std::io;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use inrush_event::Secret;
use inrush_files::limits::{CERTIFICATES_BYTES_MAX, CONFIGURATION_BYTES_MAX, TOKEN_BYTES_MAX};
use inrush_yaml::{Findings, Location, YamlNode, kind_name, read_plain};

/// Folder with token and authority of a pod's service account.
pub const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Certificates or a key: in a file, or as they are.
#[derive(Clone, PartialEq, Eq)]
pub enum PemSource {
    /// File in PEM form, read for each connection.
    File(PathBuf),
    /// The PEM text.
    Text(Vec<u8>),
}

/// Bearer token: in a file, or as it is.
#[derive(Clone)]
pub enum TokenSource {
    /// File, read for each request.
    File(PathBuf),
    /// The token.
    Text(Secret),
}

/// Client certificate with its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientIdentity {
    /// Certificate, its own first.
    pub certificates: PemSource,
    /// Private key.
    pub key: PemSource,
}

/// Address of an API server, trust in it, and the credentials for it.
#[derive(Clone, Debug)]
pub struct ClusterAccess {
    /// `https://HOST:PORT`, without a slash at its end.
    pub server: String,
    /// Authorities that may vouch for the server; `None`: those of the system.
    pub authorities: Option<PemSource>,
    /// True if any certificate will do (`insecure-skip-tls-verify`).
    pub trusts_any: bool,
    /// Bearer token.
    pub token: Option<TokenSource>,
    /// Client certificate.
    pub identity: Option<ClientIdentity>,
}

/// Reason for which there is no access. The configuration is at fault, or the environment.
#[derive(Debug, thiserror::Error)]
pub enum ClusterAccessError {
    /// A file cannot be read.
    #[error("{}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// The kubeconfig is not one, or asks for what Inrush does not have.
    #[error("{0}")]
    Kubeconfig(inrush_yaml::FileProblems),
    /// Not in a pod, and no kubeconfig is named.
    #[error(
        "there is no service account: {0}. Outside of a cluster name a kubeconfig file in \
         `kubernetes.kubeconfig`"
    )]
    NotInCluster(String),
}

impl fmt::Debug for PemSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Text(_) => f.write_str("(in the kubeconfig)"),
        }
    }
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Text(_) => f.write_str("(hidden)"),
        }
    }
}

impl PemSource {
    /// The PEM text.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(&self) -> Result<Vec<u8>, ClusterAccessError> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => inrush_files::read(path, CERTIFICATES_BYTES_MAX).map_err(|cause| {
                ClusterAccessError::Unreadable {
                    path: path.clone(),
                    cause,
                }
            }),
        }
    }
}

impl ClusterAccess {
    /// Access from inside a pod: `env` gives variables of the environment, `account` is the folder
    /// of the service account, as a rule [`SERVICE_ACCOUNT`].
    ///
    /// # Errors
    /// This is no pod of a cluster, or it has no service account.
    pub fn in_cluster(
        env: &dyn Fn(&str) -> Option<String>,
        account: &Path,
    ) -> Result<Self, ClusterAccessError> {
        let variable = |name: &str| {
            let value = env(name).filter(|value| !value.is_empty());
            value.ok_or_else(|| ClusterAccessError::NotInCluster(format!("{name} is not set")))
        };
        let host = variable("KUBERNETES_SERVICE_HOST")?;
        let port = variable("KUBERNETES_SERVICE_PORT")?;
        let host = match host.parse::<Ipv6Addr>() {
            Ok(_) => format!("[{host}]"),
            Err(_) => host,
        };
        let (token, authorities) = (account.join("token"), account.join("ca.crt"));
        for path in [&token, &authorities] {
            if let Err(error) = path.metadata() {
                let text = format!("{}: {error}", path.display());
                return Err(ClusterAccessError::NotInCluster(text));
            }
        }
        Ok(Self {
            server: format!("https://{host}:{port}"),
            authorities: Some(PemSource::File(authorities)),
            trusts_any: false,
            token: Some(TokenSource::File(token)),
            identity: None,
        })
    }

    /// Access as the current context of a kubeconfig file says.
    ///
    /// # Errors
    /// The file cannot be read, is none, or asks for what Inrush does not have.
    pub fn from_kubeconfig(path: &Path) -> Result<Self, ClusterAccessError> {
        let text = inrush_files::read_to_string(path, CONFIGURATION_BYTES_MAX);
        let text = text.map_err(|cause| ClusterAccessError::Unreadable {
            path: path.to_owned(),
            cause,
        })?;
        let mut findings = Findings::default();
        let root = read_plain(&text, &mut findings);
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut reader = KubeconfigReader { folder, findings };
        let access = root.and_then(|root| reader.access(&root));
        let findings = reader.findings;
        match access.filter(|_| findings.is_empty()) {
            Some(access) => Ok(access),
            None => {
                let problems = findings.into_problems(&path.display().to_string());
                Err(ClusterAccessError::Kubeconfig(problems))
            }
        }
    }

    /// The token as it is now.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub(crate) fn read_token(&self) -> Result<Option<Secret>, ClusterAccessError> {
        let path = match &self.token {
            None => return Ok(None),
            Some(TokenSource::Text(token)) => return Ok(Some(token.clone())),
            Some(TokenSource::File(path)) => path,
        };
        let text = inrush_files::read_to_string(path, TOKEN_BYTES_MAX);
        let text = text.and_then(|text| {
            let token = text.trim();
            let is_token = !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
            let bad = || io::Error::new(io::ErrorKind::InvalidData, "holds no token");
            is_token.then(|| Secret::new(token)).ok_or_else(bad)
        });
        text.map(Some)
            .map_err(|cause| ClusterAccessError::Unreadable {
                path: path.clone(),
                cause,
            })
    }
}

/// Keys of a user that ask for what Inrush does not have, each with the remedy.
const REFUSED_USER_KEYS: [(&str, &str); 4] = [
    (
        "exec",
        "plugins that print credentials are not run; use a token of a service account",
    ),
    (
        "auth-provider",
        "plugins for credentials are not run; use a token of a service account",
    ),
    (
        "username",
        "passwords are not taken by the API since Kubernetes 1.19; use a token",
    ),
    (
        "as",
        "requests in another user's name are not made; use that user's credentials",
    ),
];

/// The same of a cluster.
const REFUSED_CLUSTER_KEYS: [(&str, &str); 2] = [
    ("proxy-url", "requests to the API go through no proxy"),
    (
        "tls-server-name",
        "the certificate must be for the host in `server`",
    ),
];

struct KubeconfigReader<'a> {
    /// Folder of the file, to which its paths are relative.
    folder: &'a Path,
    findings: Findings,
}

impl KubeconfigReader<'_> {
    fn access(&mut self, root: &YamlNode) -> Option<ClusterAccess> {
        let context = self.text(root, "current-context");
        let Some(context) = context.filter(|name| !name.is_empty()) else {
            self.findings.add(root.at, "`current-context` is missing");
            return None;
        };
        let context = self.named(root, "contexts", "context", &context)?;
        let cluster = self.required(context, "cluster")?;
        let cluster = self.named(root, "clusters", "cluster", &cluster)?;
        let nobody = YamlNode {
            at: Location::START,
            kind: inrush_yaml::NodeKind::Map(Vec::new()),
        };
        let user = match self.text(context, "user") {
            Some(user) => self.named(root, "users", "user", &user)?,
            None => &nobody,
        };
        self.refuse(cluster, &REFUSED_CLUSTER_KEYS);
        self.refuse(user, &REFUSED_USER_KEYS);
        let server = self.server(cluster)?;
        let authorities = self.pem(cluster, "certificate-authority");
        let trusts_any = self.switch(cluster, "insecure-skip-tls-verify");
        let certificates = self.pem(user, "client-certificate");
        let key = self.pem(user, "client-key");
        let identity = match (certificates, key) {
            (Some(certificates), Some(key)) => Some(ClientIdentity { certificates, key }),
            (None, None) => None,
            _ => {
                let text = "`client-certificate` and `client-key` are needed together";
                self.findings.add(user.at, text);
                None
            }
        };
        let token = self.token(user);
        if (token.is_some() || identity.is_some()) && !server.starts_with("https://") {
            self.findings
                .add(cluster.at, "credentials are sent over https only");
        }
        Some(ClusterAccess {
            server,
            authorities,
            trusts_any,
            token,
            identity,
        })
    }

    /// The value of `kind` in the entry of `list` with that name.
    fn named<'n>(
        &mut self,
        root: &'n YamlNode,
        list: &str,
        kind: &str,
        name: &str,
    ) -> Option<&'n YamlNode> {
        let entries = root.get(list).map(YamlNode::items).unwrap_or_default();
        let has_name = |entry: &&YamlNode| entry.get("name").and_then(text_of) == Some(name);
        let found = entries
            .iter()
            .find(has_name)
            .and_then(|entry| entry.get(kind));
        if found.is_none() {
            let at = root.get(list).map_or(root.at, |list| list.at);
            self.findings
                .add(at, format!("`{list}` has no {kind} `{name}`"));
        }
        found
    }

    fn text(&mut self, node: &YamlNode, key: &str) -> Option<String> {
        let value = node.get(key).filter(|value| !value.is_null())?;
        let text = text_of(value);
        if text.is_none() {
            let text = format!("`{key}` is {}, not a text", kind_name(value));
            self.findings.add(value.at, text);
        }
        text.map(str::to_owned)
    }

    fn switch(&mut self, node: &YamlNode, key: &str) -> bool {
        let Some(value) = node.get(key).filter(|value| !value.is_null()) else {
            return false;
        };
        let on = match &value.kind {
            inrush_yaml::NodeKind::Scalar(scalar) => scalar.as_bool(),
            _ => None,
        };
        if on.is_none() {
            self.findings
                .add(value.at, format!("`{key}` is neither true nor false"));
        }
        on.unwrap_or_default()
    }

    fn required(&mut self, node: &YamlNode, key: &str) -> Option<String> {
        let text = self.text(node, key).filter(|text| !text.is_empty());
        if text.is_none() {
            self.findings.add(node.at, format!("`{key}` is missing"));
        }
        text
    }

    fn refuse(&mut self, node: &YamlNode, keys: &[(&str, &str)]) {
        for (key, reason) in keys {
            if let Some(entry) = node.entry(key).filter(|entry| !entry.value.is_null()) {
                self.findings
                    .add(entry.key_at, format!("`{key}`: {reason}"));
            }
        }
    }

    fn server(&mut self, cluster: &YamlNode) -> Option<String> {
        let server = self.required(cluster, "server")?;
        let is_sound = server.parse::<ureq::http::Uri>().is_ok_and(|uri| {
            let is_http = matches!(uri.scheme_str(), Some("https" | "http"));
            is_http && uri.host().is_some_and(|host| !host.is_empty()) && uri.query().is_none()
        });
        if !is_sound {
            self.findings
                .add(cluster.at, "`server` is no address of an API server");
            return None;
        }
        Some(server.trim_end_matches('/').to_owned())
    }

    /// Certificates or a key: `KEY-data` in base64, or the file `KEY`.
    fn pem(&mut self, node: &YamlNode, key: &str) -> Option<PemSource> {
        let data = format!("{key}-data");
        if let Some(text) = self.text(node, &data).filter(|text| !text.is_empty()) {
            let packed: String = text.split_whitespace().collect();
            return match STANDARD.decode(packed) {
                Ok(pem) => Some(PemSource::Text(pem)),
                Err(_) => {
                    self.findings
                        .add(node.at, format!("`{data}` is not base64"));
                    None
                }
            };
        }
        let path = self.text(node, key).filter(|path| !path.is_empty())?;
        Some(PemSource::File(self.folder.join(path)))
    }

    fn token(&mut self, user: &YamlNode) -> Option<TokenSource> {
        if let Some(path) = self.text(user, "tokenFile").filter(|path| !path.is_empty()) {
            return Some(TokenSource::File(self.folder.join(path)));
        }
        let token = self.text(user, "token").filter(|token| !token.is_empty())?;
        if !token.bytes().all(|b| b.is_ascii_graphic()) {
            self.findings
                .add(user.at, "`token` holds spaces or signs that no token has");
            return None;
        }
        Some(TokenSource::Text(Secret::new(token)))
    }
}

fn text_of(node: &YamlNode) -> Option<&str> {
    match &node.kind {
        inrush_yaml::NodeKind::Scalar(scalar) => Some(&scalar.text),
        _ => None,
    }
}

#[cfg(test)]
#[path = "kubeconfig_tests.rs"]
mod tests;
