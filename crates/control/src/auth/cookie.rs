//! The session's cookie.

use axum::http::{HeaderMap, header};

use super::sessions::{SessionId, hex, unhex};

/// Cookies looked at in one request: ours, and those of neighbours on the same host.
const COOKIES_MAX: usize = 64;

/// Name and attributes of the cookie. Browsers keep cookies by host and not by port: the port is in
/// the name, so that two processes on a host don't log each other's users out.
pub(super) struct Cookie {
    name: String,
    secure: bool,
}

impl Cookie {
    pub(super) fn new(port: u16, tls: bool) -> Self {
        // With this prefix a browser takes it from https alone, and from no other host.
        let prefix = if tls { "__Host-" } else { "" };
        Self {
            name: format!("{prefix}inrush-{port}"),
            secure: tls,
        }
    }

    /// The ids that a request shows under this name, of those that could be ours.
    pub(super) fn of(&self, headers: &HeaderMap) -> Vec<SessionId> {
        let lines = headers.get_all(header::COOKIE).iter();
        let pairs = lines
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(';'));
        pairs
            .take(COOKIES_MAX)
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, _)| *name == self.name)
            .filter_map(|(_, value)| unhex(value))
            .collect()
    }

    /// `Set-Cookie` for a new session. It has no date: the browser forgets it when it is closed,
    /// and the server decides how long it is good for.
    pub(super) fn set(&self, id: &SessionId) -> String {
        self.dressed(&hex(id), "")
    }

    /// `Set-Cookie` that takes it away.
    pub(super) fn clear(&self) -> String {
        self.dressed("", "; Max-Age=0")
    }

    fn dressed(&self, value: &str, more: &str) -> String {
        let name = &self.name;
        let secure = if self.secure { "; Secure" } else { "" };
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shown(cookie: &Cookie, lines: &[&str]) -> Vec<SessionId> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::COOKIE, line.parse().unwrap());
        }
        cookie.of(&headers)
    }

    #[test]
    fn a_cookie_is_dressed_for_its_listener() {
        let plain = Cookie::new(8686, false).set(&[0xab; 32]);
        assert!(plain.starts_with("inrush-8686=abab"), "{plain}");
        assert!(
            plain.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
            "{plain}"
        );
        let tls = Cookie::new(8686, true).set(&[0; 32]);
        assert!(
            tls.starts_with("__Host-inrush-8686=00") && tls.ends_with("; Secure"),
            "{tls}"
        );
        assert!(Cookie::new(1, true).clear().ends_with("Max-Age=0"));
    }

    #[test]
    fn only_what_could_be_an_id_is_looked_at() {
        let cookie = Cookie::new(8686, false);
        let (a, b) = ("a".repeat(64), "b".repeat(64));
        let both = format!("x=1; inrush-8686={a};inrush-8686={b}");
        assert_eq!(shown(&cookie, &[&both]), [[0xaa; 32], [0xbb; 32]]);
        assert_eq!(
            shown(&cookie, &["x=1", &format!("inrush-8686={a}")]),
            [[0xaa; 32]]
        );
        for line in [
            "".to_owned(),
            "inrush-8686".to_owned(),
            "inrush-8686=".to_owned(),
            format!("inrush-8687={a}"),
            format!("INRUSH-8686={a}"),
            format!("inrush-8686={a}0"),
            format!("inrush-8686=\"{a}\""),
            "inrush-8686=' OR 1=1 --".to_owned(),
        ] {
            assert!(shown(&cookie, &[&line]).is_empty(), "{line}");
        }
        let many = format!("{}inrush-8686={a}", "y=1;".repeat(COOKIES_MAX));
        assert!(shown(&cookie, &[&many]).is_empty());
    }
}
