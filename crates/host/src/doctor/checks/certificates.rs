//! Certificates, keys and revocation lists of listeners and destinations (RFC 5280, sections
//! 4.1.2.5 and 5.1.2.5).

use crate::doctor::asked::{CertificateFile, ValidityPeriod};
use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;

const DAY_S: i64 = 24 * 60 * 60;

/// Days before a certificate expires from which it is a warning.
const WARN_DAYS: i64 = 14;

/// Days before it expires from which it is told of.
const TOLD_DAYS: i64 = 30;

/// The option with revocation lists, which are made anew every few days or hours.
const LISTS: &str = "crl_files";

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    scene.ask.certificates.iter().map(finding).collect()
}

fn finding(file: &CertificateFile) -> Finding {
    let id = format!("tls.{}:{}", file.option, file.owner);
    let path = file.path.display();
    let dates = match &file.dates {
        Ok(dates) => dates,
        Err(problem) => {
            let finding = Finding::new(id, Layer::Tls, problem.clone())
                .wanted("a file that can be read and used")
                .why(
                    "A process that runs goes on with the last good one. The next start ends at \
                     once.",
                );
            let look = format!("ls -l {path}; openssl x509 -noout -subject -dates -in {path}");
            return finding.bad(Severity::Critical, look);
        }
    };
    let Some(one) = deciding(file, dates) else {
        return Finding::new(id, Layer::Tls, format!("{path}: no certificate"));
    };
    let severity = severity(file, one);
    let finding = Finding::new(id, Layer::Tls, words(file, dates, one, severity))
        .wanted(match file.option {
            LISTS => "a list that is good for a day more".to_owned(),
            _ => format!("a certificate that is good for {TOLD_DAYS} days more"),
        })
        .why(why(file));
    match severity {
        Severity::Ok => finding,
        severity => finding.bad(severity, command(file)),
    }
}

/// The certificate that decides: our own comes first in its file; of authorities the one that is
/// good for longest, for files of many hold old ones, too; of revocation lists the one that expires
/// first, for each stands for another authority.
fn deciding<'a>(file: &CertificateFile, dates: &'a [ValidityPeriod]) -> Option<&'a ValidityPeriod> {
    let last = |one: &&ValidityPeriod| one.not_after.from_now_s;
    if file.option == LISTS {
        return dates.iter().min_by_key(last);
    }
    if !file.authorities {
        return dates.first();
    }
    let good = |one: &&ValidityPeriod| one.not_before.from_now_s <= 0;
    let of_good = dates.iter().filter(good).max_by_key(last);
    of_good.or_else(|| dates.iter().max_by_key(last))
}

fn severity(file: &CertificateFile, one: &ValidityPeriod) -> Severity {
    let left_s = one.not_after.from_now_s;
    if one.not_before.from_now_s > 0 || left_s <= 0 {
        return Severity::Critical;
    }
    match left_s / DAY_S {
        0 if file.option == LISTS => Severity::Warn,
        _ if file.option == LISTS => Severity::Ok,
        0..WARN_DAYS => Severity::Warn,
        WARN_DAYS..TOLD_DAYS => Severity::Info,
        _ => Severity::Ok,
    }
}

fn words(
    file: &CertificateFile,
    dates: &[ValidityPeriod],
    one: &ValidityPeriod,
    severity: Severity,
) -> String {
    let (path, subject) = (file.path.display(), &one.subject);
    let (begin, end) = (&one.not_before.day, &one.not_after.day);
    let left_days = one.not_after.from_now_s / DAY_S;
    let many = match dates.len() {
        count if file.authorities && count > 1 => format!(", the last of {count}"),
        _ => String::new(),
    };
    match severity {
        Severity::Critical if one.not_before.from_now_s > 0 => {
            format!("{path}: {subject}: not yet valid, good from {begin} on{many}")
        }
        Severity::Critical => format!("{path}: {subject}: expired on {end}{many}"),
        _ => format!("{path}: {subject}: expires on {end}, in {left_days} days{many}"),
    }
}

fn why(file: &CertificateFile) -> &'static str {
    match (file.option, file.authorities) {
        ("cert_file", false) if file.owner.starts_with("destinations.") => {
            "The collector turns us away with an expired certificate; events wait in the queue."
        }
        ("cert_file", false) => {
            "Senders that check it do not connect, and what they cannot keep is lost. A new one \
             is used from the next connection on, without a restart."
        }
        ("client_ca_file", _) => {
            "Senders whose certificates these authorities signed are turned away."
        }
        (LISTS, _) => {
            "All clients of this authority are turned away with an expired list. A new one is read \
             without a restart."
        }
        ("ca_file", _) => {
            "The collector's certificate is not believed without a good authority; events wait \
             in the queue."
        }
        _ => "When it has expired nothing is sent any more; events wait in the queue.",
    }
}

fn command(file: &CertificateFile) -> String {
    let path = file.path.display();
    if file.option == "server" {
        return format!("openssl s_client -connect {path} </dev/null | openssl x509 -noout -dates");
    }
    if file.option == LISTS {
        let look = "openssl crl -noout -issuer -nextupdate -in";
        return format!("{look} {path}    # put a new one in its place");
    }
    format!("openssl x509 -noout -subject -dates -in {path}    # put a new one in its place")
}
