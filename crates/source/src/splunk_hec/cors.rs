//! Cross-origin requests (Fetch standard section 3.3): pages of which origins may send from a
//! browser. The patterns are those of `crossOriginSharingPolicy` in Splunk's inputs.conf.

use std::fmt;
use std::str::FromStr;

use inrush_event::text_option;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Origins of pages whose scripts may send.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CorsOptions {
    /// Origins without a path: `https://app.example.com`, `*://*.example.com:*`, `*` for all. `!`
    /// before one excludes it. The first that fits counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<OriginPattern>,
    /// Fields that such requests may have beside the simple ones; `*` for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
}

/// Pattern of an origin: scheme, host and port. A `*` in one of them stands for any characters but
/// a dot, a part that is `*` alone for anything. A host that begins with `*.` stands for what
/// follows and all below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OriginPattern {
    excludes: bool,
    scheme: String,
    host: String,
    /// Empty: the one of the scheme.
    port: String,
}

/// Fault of a pattern.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no origin; write for example https://app.example.com or *://*.example.com:*")]
pub struct OriginPatternError(String);

impl FromStr for OriginPattern {
    type Err = OriginPatternError;

    fn from_str(text: &str) -> Result<Self, OriginPatternError> {
        let wrong = || OriginPatternError(text.to_owned());
        let (excludes, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (scheme, host, port) = match rest {
            "*" => ("*", "*", "*"),
            _ => parts(rest).ok_or_else(wrong)?,
        };
        let good = |part: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-._*[]:".contains(c);
            part.chars().all(allowed)
        };
        if scheme.is_empty() || host.is_empty() || ![scheme, host, port].iter().all(|p| good(p)) {
            return Err(wrong());
        }
        Ok(Self {
            excludes,
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_ascii_lowercase(),
            port: port.to_owned(),
        })
    }
}

impl fmt::Display for OriginPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.excludes { "!" } else { "" };
        let colon = if self.port.is_empty() { "" } else { ":" };
        let Self {
            scheme, host, port, ..
        } = self;
        write!(f, "{mark}{scheme}://{host}{colon}{port}")
    }
}

text_option!(OriginPattern "origin" ["https://app.example.com", "*://*.example.com:*", "*"]);

/// Scheme, host and port of an origin or of a pattern.
fn parts(origin: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = origin.split_once("://")?;
    let bracket = rest.rfind(']').unwrap_or(0);
    let colon = rest[bracket..].rfind(':').map(|at| bracket + at);
    Some(match colon {
        Some(at) => (scheme, &rest[..at], &rest[at + 1..]),
        None => (scheme, rest, ""),
    })
}

/// True if a text fits a part of a pattern, whose `*` stands for any characters but a dot.
fn fits_part(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(last) = pieces.next_back() else {
        return pattern == text;
    };
    let Some(mut rest) = text
        .strip_prefix(first)
        .and_then(|rest| rest.strip_suffix(last))
    else {
        return false;
    };
    let mut gaps_fit = true;
    let mut skip = |gap: &str| gaps_fit &= !gap.contains('.');
    for piece in pieces {
        let Some(at) = rest.find(piece) else {
            return false;
        };
        skip(&rest[..at]);
        rest = &rest[at + piece.len()..];
    }
    skip(rest);
    gaps_fit
}

impl OriginPattern {
    fn fits(&self, scheme: &str, host: &str, port: &str) -> bool {
        let fits = |pattern: &str, text: &str| pattern == "*" || fits_part(pattern, text);
        let host_fits = match self.host.strip_prefix("*.") {
            Some(domain) => {
                let ends = host.match_indices('.').map(|(at, _)| at + 1);
                std::iter::once(0)
                    .chain(ends)
                    .any(|at| fits_part(domain, &host[at..]))
            }
            None => fits(&self.host, host),
        };
        fits(&self.scheme, scheme) && host_fits && fits(&self.port, port)
    }
}

impl CorsOptions {
    /// True if scripts of pages of that origin may send.
    pub(super) fn allows(&self, origin: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        let Some((scheme, host, port)) = parts(&origin) else {
            return false;
        };
        let mut patterns = self.origins.iter();
        let first = patterns.find(|pattern| pattern.fits(scheme, host, port));
        first.is_some_and(|first| !first.excludes)
    }

    /// Fields of the answer to a request of that origin; `None` if it has none coming.
    pub(super) fn fields(&self, origin: &[u8], preflight: bool, methods: &str) -> Option<String> {
        let origin = std::str::from_utf8(origin).ok()?;
        if !self.allows(origin) || origin.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return None;
        }
        let mut fields = format!("Access-Control-Allow-Origin: {origin}\r\nVary: Origin\r\n");
        if preflight {
            fields.push_str(&format!("Access-Control-Allow-Methods: {methods}\r\n"));
            if !self.headers.is_empty() {
                let headers = self.headers.join(", ");
                fields.push_str(&format!("Access-Control-Allow-Headers: {headers}\r\n"));
            }
        }
        Some(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(patterns: &[&str], origin: &str) -> bool {
        let origins = patterns.iter().map(|pattern| pattern.parse().unwrap());
        let cors = CorsOptions {
            origins: origins.collect(),
            headers: Vec::new(),
        };
        cors.allows(origin)
    }

    #[test]
    fn the_first_pattern_that_fits_counts() {
        let patterns = [
            "!https://bad.example.com",
            "https://*.example.com",
            "*://app:*",
        ];
        for (origin, good) in [
            ("https://a.example.com", true),
            ("https://EXAMPLE.com", true),
            ("https://bad.example.com", false),
            ("https://badexample.com", false),
            ("https://a.example.com:8443", false),
            ("http://a.example.com", false),
            ("http://app:3000", true),
            ("https://app", true),
            ("null", false),
        ] {
            assert_eq!(allowed(&patterns, origin), good, "{origin}");
        }
        assert!(allowed(&["*"], "http://[::1]:3000") && !allowed(&[], "http://a"));
    }

    #[test]
    fn a_star_in_a_name_stands_for_a_part_of_it() {
        let patterns = [
            "https://app-*.example.com:8*",
            "http*://*.in-*.org",
            "*://[fe80:*]:*",
        ];
        for (origin, good) in [
            ("https://app-1.example.com:8443", true),
            ("https://app-.example.com:8", true),
            ("https://app-1.evil.example.com:8443", false),
            ("https://app-1.example.com", false),
            ("https://app.example.com:8443", false),
            ("https://app-1.example.com.evil.org:8443", false),
            ("http://a.b.in-house.org", true),
            ("https://in-house.org", true),
            ("https://in-house.evil.org", false),
            ("ftp://in-house.org", false),
            ("http://[fe80::1]:3000", true),
            ("http://[fe90::1]:3000", false),
        ] {
            assert_eq!(allowed(&patterns, origin), good, "{origin}");
        }
        // Each character is part of one piece only.
        assert!(
            !allowed(&["https://ab*b*ba"], "https://aba")
                && allowed(&["https://a*b*a"], "https://aba")
        );
    }

    #[test]
    fn what_is_no_origin_is_refused() {
        for bad in [
            "",
            "example.com",
            "https://",
            "https://a/b",
            "https://a\r\nX: y",
        ] {
            assert!(bad.parse::<OriginPattern>().is_err(), "{bad}");
        }
        for good in ["*://*:*", "!https://a.b:8443", "https://*.example.com"] {
            assert_eq!(good.parse::<OriginPattern>().unwrap().to_string(), good);
        }
    }
}
