//! Certificates, keys and authorities that the configuration names: opened, and tried out.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use inrush_sink::splunk_hec::SplunkHecConfig;
use inrush_sink::{Quarantine, RefusedRecords, SinkConfig, SinkError};
use inrush_transport::config::TlsServerOptions;
use inrush_transport::tls::ServerTls;
use inrush_yaml::{Findings, YamlNode, quoted};

use super::place::place;

/// Certificate, key and authority of a listener whose options are `node`.
pub(super) fn server_files(tls: &TlsServerOptions, node: &YamlNode, findings: &mut Findings) {
    let mut named = vec![
        ("cert_file", Some(&tls.cert_file)),
        ("key_file", Some(&tls.key_file)),
        ("client_ca_file", tls.client_ca_file.as_ref()),
    ];
    named.extend(tls.crl_files.iter().map(|path| ("crl_files", Some(path))));
    if !all_open(&named, node, findings) {
        return;
    }
    if let Err(error) = ServerTls::load(tls) {
        let (option, path) = (error.option, quoted(&error.path.display().to_string()));
        let message = format!("`{option}` {path} {}", error.problem);
        findings.add(place(node, &format!("tls.{option}")), message);
    }
}

/// Authority, certificate and key towards a collector: opened as the destination would, without
/// starting it.
pub(super) fn client_files(
    data_dir: &Path,
    name: &str,
    options: &SplunkHecConfig,
    node: &YamlNode,
    findings: &mut Findings,
) {
    let tls = &options.tls;
    let named = [
        ("ca_file", tls.ca_file.as_ref()),
        ("cert_file", tls.cert_file.as_ref()),
        ("key_file", tls.key_file.as_ref()),
    ];
    // What `validate` finds is already reported, and would stop `build` before it reads a file.
    let destination = SinkConfig::SplunkHec(options.clone().into());
    if !all_open(&named, node, findings) || !inrush_sink::validate(&destination).is_empty() {
        return;
    }
    let Err(error) = inrush_sink::build(name, &destination, data_dir, Arc::new(NullQuarantine))
    else {
        return;
    };
    let at_fault = match &error {
        // No fault of the configuration; it will be met again when the sink is to run.
        SinkError::Unstartable(_) => return,
        SinkError::Config(_) => None,
        SinkError::Unreadable { path, .. } | SinkError::BadCertificate { path, .. } => Some(path),
    };
    let option = named
        .iter()
        .find(|(_, path)| path.is_some() && *path == at_fault);
    let option = option.map_or("tls".to_owned(), |(option, _)| format!("tls.{option}"));
    findings.add(
        place(node, &option),
        format!("`{option}` of `{name}`: {error}"),
    );
}

/// Quarantine of a sink that is only looked at: takes nothing.
struct NullQuarantine;

impl Quarantine for NullQuarantine {
    fn put(&self, _: &str, _: &[RefusedRecords]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// True if every one of these files can be opened; reports each that cannot.
fn all_open(named: &[(&str, Option<&PathBuf>)], node: &YamlNode, findings: &mut Findings) -> bool {
    let mut all = true;
    for (option, path) in named {
        let Some(path) = path else { continue };
        let Err(error) = inrush_files::open_regular(path) else {
            continue;
        };
        all = false;
        let remedy = match error.kind() {
            ErrorKind::NotFound => "check the path; a relative one starts where inrush does",
            ErrorKind::PermissionDenied => "let the user that inrush runs as read it",
            _ => "name a PEM file",
        };
        let path = quoted(&path.display().to_string());
        let message = format!("`{option}` {path} cannot be read: {error}; {remedy}");
        findings.add(place(node, &format!("tls.{option}")), message);
    }
    all
}
