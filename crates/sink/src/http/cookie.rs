//! The cookies by which a load balancer keeps a client at one server (RFC 6265, as far as one
//! client of one address needs it): kept as long as the connection is.

/// Cookies that are kept.
const COOKIES_MAX: usize = 16;

/// Bytes of a cookie's name and value.
const COOKIE_BYTES_MAX: usize = 4096;

/// Cookies that one server has set.
#[derive(Default, Debug)]
pub(crate) struct Jar(Vec<Cookie>);

#[derive(Debug)]
struct Cookie {
    name: String,
    value: String,
    path: String,
}

impl Jar {
    /// Takes note of a `Set-Cookie` header; what cannot be read is passed over.
    pub(crate) fn set(&mut self, header: &str) {
        let mut parts = header.split(';').map(str::trim);
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
            return;
        };
        let (name, value) = (name.trim(), value.trim());
        let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b';' | b',');
        let long = name.len() + value.len() > COOKIE_BYTES_MAX;
        if name.is_empty() || long || !name.bytes().chain(value.bytes()).all(plain) {
            return;
        }
        let (mut path, mut ended) = ("/".to_owned(), false);
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            match key.trim().to_ascii_lowercase().as_str() {
                "path" if value.trim().starts_with('/') => path = value.trim().to_owned(),
                "max-age" => ended |= value.trim().parse::<i64>().is_ok_and(|age| age <= 0),
                "expires" => ended |= is_past(value.trim()),
                _ => {}
            }
        }
        self.0.retain(|known| known.name != name);
        if !ended && self.0.len() < COOKIES_MAX {
            let (name, value) = (name.to_owned(), value.to_owned());
            self.0.push(Cookie { name, value, path });
        }
    }

    /// The `Cookie` header of a request to this path.
    pub(crate) fn header(&self, path: &str) -> Option<String> {
        let sent = self.0.iter().filter(|cookie| is_below(path, &cookie.path));
        let pairs: Vec<String> = sent
            .map(|Cookie { name, value, .. }| format!("{name}={value}"))
            .collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }
}

/// True if a cookie's path covers the one of a request.
fn is_below(path: &str, cookie: &str) -> bool {
    let rest = path.strip_prefix(cookie);
    rest.is_some_and(|rest| rest.is_empty() || cookie.ends_with('/') || rest.starts_with('/'))
}

fn is_past(date: &str) -> bool {
    // Older servers write `21-Oct-2015`.
    let date = date.replace('-', " ");
    let parsed = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(&date);
    parsed.is_ok_and(|at| at <= jiff::Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_kept_replaced_and_taken_away() {
        let mut jar = Jar::default();
        assert_eq!(jar.header("/x"), None);
        jar.set("AWSALB=a1; Expires=Fri, 31 Dec 2100 23:59:59 GMT; Path=/");
        jar.set("ack=7;Path=/services/collector; HttpOnly; Secure");
        jar.set("elsewhere=1; Path=/admin");
        let both = "AWSALB=a1; ack=7";
        let sent = jar.header("/services/collector/ack");
        assert_eq!(sent.as_deref(), Some(both));
        assert_eq!(
            jar.header("/services/collectors").as_deref(),
            Some("AWSALB=a1")
        );
        jar.set("AWSALB=b2; Path=/");
        jar.set("ack=; Max-Age=0");
        assert_eq!(
            jar.header("/services/collector").as_deref(),
            Some("AWSALB=b2")
        );
        jar.set("AWSALB=x; expires=Wed, 21-Oct-2015 07:28:00 GMT");
        assert_eq!(jar.header("/"), None);
    }

    #[test]
    fn what_is_no_cookie_is_passed_over_and_their_number_is_bounded() {
        let mut jar = Jar::default();
        for bad in ["", "=", "=v", "novalue", "a=b\r\nx: y", "a=é", ";;"] {
            jar.set(bad);
        }
        jar.set(&format!("long={}", "x".repeat(COOKIE_BYTES_MAX)));
        assert_eq!(jar.header("/"), None);
        (0..100).for_each(|n| jar.set(&format!("c{n}=1")));
        assert_eq!(jar.0.len(), COOKIES_MAX);
    }
}
