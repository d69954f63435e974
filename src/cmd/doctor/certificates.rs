//! Certificates and keys that the configuration names, read for the doctor.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use inrush_config::Config;
use inrush_host::doctor::{CertificateFile, ValidityPeriod, ValidityTime};
use inrush_sink::SinkConfig;
use inrush_transport::config::{ClientAuth, TlsServerOptions};
use inrush_transport::tls::{self, RevocationList, ServerTls, TlsError, Validity};

/// All of them, in the order of the configuration.
pub(super) fn files(config: &Config) -> Vec<CertificateFile> {
    let mut files = Vec::new();
    for (name, source) in &config.sources {
        if let Some(tls) = source.options().tls() {
            listener(&format!("sources.{name}"), tls, &mut files);
        }
    }
    if let Some(tls) = &config.admin.tls {
        listener("admin", tls, &mut files);
    }
    for (name, destination) in &config.destinations {
        let SinkConfig::SplunkHec(hec) = destination else {
            continue;
        };
        let owner = format!("destinations.{name}");
        let named = [
            ("ca_file", hec.tls.ca_file.as_deref(), true),
            ("cert_file", hec.tls.cert_file.as_deref(), false),
        ];
        for (option, path, authorities) in named {
            files.extend(path.map(|path| file(option, &owner, path, authorities)));
        }
    }
    files
}

/// The files of a listener, and what is wrong with them together.
fn listener(owner: &str, options: &TlsServerOptions, files: &mut Vec<CertificateFile>) {
    let begin = files.len();
    files.push(file("cert_file", owner, &options.cert_file, false));
    let asks = options.client_auth() != ClientAuth::None;
    if let Some(path) = options.client_ca_file.as_deref().filter(|_| asks) {
        files.push(file("client_ca_file", owner, path, true));
    }
    for (number, path) in (1..).zip(options.crl_files.iter().filter(|_| asks)) {
        let owner = match number {
            1 => owner.to_owned(),
            _ => format!("{owner}:{number}"),
        };
        files.push(revocation_lists(owner, path));
    }
    let Err(error) = ServerTls::load(options) else {
        return;
    };
    // Of two that do not fit, the key is named; a file that is told of already is not told again.
    let mut own = files.iter_mut().skip(begin);
    match own.find(|file| file.option == error.option) {
        Some(file) => file.dates = Err(error.to_string()),
        None => files.push(CertificateFile {
            option: error.option,
            owner: owner.to_owned(),
            path: error.path.clone(),
            authorities: false,
            dates: Err(error.to_string()),
        }),
    }
}

fn file(option: &'static str, owner: &str, path: &Path, authorities: bool) -> CertificateFile {
    let read = tls::validities(option, path);
    let read = read.map_err(|error: TlsError| error.to_string());
    CertificateFile {
        option,
        owner: owner.to_owned(),
        path: path.to_owned(),
        authorities,
        dates: read.map(|all| all.into_iter().map(dates).collect()),
    }
}

fn revocation_lists(owner: String, path: &Path) -> CertificateFile {
    let read = tls::lists(path).map_err(|error| error.to_string());
    let dates = |list: RevocationList| ValidityPeriod {
        subject: list.issuer,
        not_before: moment(list.this_update),
        not_after: moment(list.next_update),
    };
    CertificateFile {
        option: "crl_files",
        owner,
        path: path.to_owned(),
        authorities: false,
        dates: read.map(|all| all.into_iter().map(dates).collect()),
    }
}

/// The dates of a certificate as the checks want them.
pub(super) fn dates(validity: Validity) -> ValidityPeriod {
    ValidityPeriod {
        subject: validity.subject,
        not_before: moment(validity.not_before),
        not_after: moment(validity.not_after),
    }
}

fn moment(unix_s: i64) -> ValidityTime {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    let day = jiff::Timestamp::from_second(unix_s);
    ValidityTime {
        from_now_s: unix_s.saturating_sub(now_s),
        // A certificate without an end may say a year that no calendar has.
        day: day.map_or("a far day".to_owned(), |t| {
            t.strftime("%Y-%m-%d").to_string()
        }),
    }
}
