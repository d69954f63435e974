//! Checks of the admin API's options together: the credentials that its address demands.

use inrush_yaml::YamlNode;
use inrush_yaml::{Findings, Location};

use super::certificate_files::server_files;
use super::clients::client_certificates;
use super::options::{AdminOptions, Config};
use super::password::{PASSWORD_BYTES_MAX, PASSWORD_CHARS_MIN};
use super::place::place;

/// Characters of a token at least: `openssl rand -hex 16` gives 32.
const TOKEN_CHARS_MIN: usize = 16;

/// Checks what follows from the text alone.
pub(super) fn check(config: &Config, root: &YamlNode, findings: &mut Findings) {
    let admin = &config.admin;
    let at = |path: &str| place(root, &format!("admin.{path}"));
    if !admin.listen.is_loopback() && !admin.asks() {
        findings.add(
            at("listen"),
            format!(
                "`admin` listens on {}, where others can reach it, and asks for no password; add \
                 `password_hash` (`inrush check --hash-password` makes one) or `tokens`, or listen \
                 on 127.0.0.1",
                admin.listen
            ),
        );
    }
    password(admin, at, findings);
    for (n, token) in admin.tokens.iter().enumerate() {
        let token = token.expose();
        if token.len() < TOKEN_CHARS_MIN || !token.bytes().all(|b| b.is_ascii_graphic()) {
            findings.add(
                at(&format!("tokens[{n}]")),
                format!(
                    "a token has at least {TOKEN_CHARS_MIN} letters, digits or signs and no \
                     spaces; make one with `openssl rand -hex 32`"
                ),
            );
        }
    }
    if let (Some(tls), Some(node)) = (&admin.tls, root.get("admin")) {
        client_certificates(tls, node, findings);
    }
}

fn password(admin: &AdminOptions, at: impl Fn(&str) -> Location, findings: &mut Findings) {
    let Some(password) = &admin.password else {
        return;
    };
    if admin.password_hash.is_some() {
        findings.add(
            at("password"),
            "`password` and `password_hash` are both given; keep the hash",
        );
    }
    let password = password.expose();
    if password.chars().count() < PASSWORD_CHARS_MIN || password.len() > PASSWORD_BYTES_MAX {
        findings.add(
            at("password"),
            format!(
                "`password` must have at least {PASSWORD_CHARS_MIN} characters, and at most \
                 {PASSWORD_BYTES_MAX} bytes"
            ),
        );
    }
}

/// Checks what the files that it names hold.
pub(super) fn files(config: &Config, root: &YamlNode, findings: &mut Findings) {
    if let (Some(tls), Some(node)) = (&config.admin.tls, root.get("admin")) {
        server_files(tls, node, findings);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::parse;

    const REST: &str = "\
sources:
  s: { type: syslog, listen: [udp://127.0.0.1:5514] }
destinations:
  n: { type: blackhole }
";
    const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$\
                        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    /// The problems of a file whose `admin` is this, without the file's name.
    fn problems(admin: &str) -> Vec<String> {
        let environment = |name: &str| match name {
            "PASSWORD" => Some("correct horse".to_owned()),
            "SHORT" => Some("hunter2".to_owned()),
            "HASH" => Some(HASH.to_owned()),
            "NO_HASH" => Some("hunter2-is-no-hash".to_owned()),
            _ => None,
        };
        let text = format!("admin: {admin}\n{REST}");
        let found = parse(&text, "t.yaml", &environment).err();
        let lines = found.iter().flat_map(|problems| problems.iter());
        lines
            .map(|p| p.to_string().trim_start_matches("t.yaml:").to_owned())
            .collect()
    }

    #[test]
    fn a_loopback_address_needs_no_password() {
        for listen in ["127.0.0.1:8686", "127.9.9.9:1", "\"[::1]:8686\""] {
            let found = problems(&format!("{{ listen: {listen} }}"));
            assert!(found.is_empty(), "{listen}: {found:?}");
        }
        assert!(problems("").is_empty());
    }

    #[test]
    fn any_other_address_needs_a_password_or_a_token() {
        for listen in [
            "0.0.0.0:8686",
            "\"[::]:8686\"",
            "192.0.2.1:80",
            "\"[2001:db8::1]:80\"",
        ] {
            let found = problems(&format!("{{ listen: {listen} }}"));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].starts_with("1:18: `admin` listens on "),
                "{found:?}"
            );
            assert!(
                found[0].contains("inrush check --hash-password"),
                "{found:?}"
            );
            for key in [
                &format!("password_hash: \"{HASH}\""),
                "password_hash: \"${HASH}\"",
                "password: \"${PASSWORD}\"",
                "tokens: [0123456789abcdef]",
            ] {
                let found = problems(&format!("{{ listen: {listen}, {key} }}"));
                assert!(found.is_empty(), "{key}: {found:?}");
            }
            let none = problems(&format!("{{ listen: {listen}, tokens: [] }}"));
            assert_eq!(none.len(), 1, "an empty list opens nothing");
        }
    }

    #[test]
    fn keys_that_are_none_are_placed_and_not_quoted() {
        for (admin, place, words) in [
            (
                "{ password_hash: hunter2 }",
                "1:25: ",
                "not a password hash",
            ),
            (
                "{ password_hash: \"${NO_HASH}\" }",
                "1:25: ",
                "--hash-password",
            ),
            ("{ password: hunter2 }", "1:20: ", "at least 8 characters"),
            (
                "{ password: \"${SHORT}\" }",
                "1:20: ",
                "at least 8 characters",
            ),
            ("{ tokens: [hunter2] }", "1:19: ", "openssl rand -hex 32"),
            ("{ tokens: [\"0123456789 abcdef\"] }", "1:19: ", "no spaces"),
            (
                "{ tokens: [0123456789abcdef, short] }",
                "1:37: ",
                "at least 16",
            ),
            ("{ tokens: hunter2-hunter2-hunter2 }", "1:18: ", "no list"),
            ("{ session_hours: 0 }", "1:25: ", "from 1 to 720"),
            ("{ passwort: x }", "1:10: ", "did you mean `password`?"),
            (
                "{ tls: { cert_file: /a } }",
                "1:10: ",
                "`key_file` is missing",
            ),
            (
                "{ tls: { cert_file: /a, key_file: /b, client_auth: required } }",
                "1:59: ",
                "client_ca_file",
            ),
        ] {
            let found = problems(admin);
            assert_eq!(found.len(), 1, "{admin}: {found:?}");
            assert!(
                found[0].starts_with(place),
                "{place} for {admin}: {found:?}"
            );
            assert!(found[0].contains(words), "{words} for {admin}: {found:?}");
            assert!(!found[0].contains("hunter2"), "{found:?}");
        }
        let both = format!("{{ password: \"${{PASSWORD}}\", password_hash: \"{HASH}\" }}");
        let found = problems(&both);
        assert!(
            found.len() == 1 && found[0].contains("keep the hash"),
            "{found:?}"
        );
    }
}
